"""Gradients that are clipped of a list of weights, and not of a generator, as model.parameters() is (O10)."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.mistakes.optimizing import GONE_THROUGH

pytestmark = pytest.mark.long

HEAD = "from collections.abc import Iterable\n"
CLIP = """
def clip_grads(params, longest):
    squares = 0.0
    for p in params:
        if p.grad is not None:
            squares += float((p.grad ** 2).sum())
    if squares ** 0.5 > longest:
        for p in params:
            if p.grad is not None:
                p.grad *= longest / (squares ** 0.5 + 1e-6)
"""
OF_ITERABLES = CLIP.replace("(params,", "(params: Iterable[nn.Parameter],")
TRAINS = """
def train(net, batches, optimizer):
    for x, y in batches:
        F.mse_loss(net(x), y).backward()
        clip_grads(GIVEN, 1.0)
        optimizer.step()
"""
KEPT = OF_ITERABLES.replace("    squares = 0.0\n", "    params = list(params)\n    squares = 0.0\n")
OF_GRADIENTS = """
def clip_grads(params: Iterable[nn.Parameter], longest):
    grads = [p.grad for p in params if p.grad is not None]
    length = sum(float((g ** 2).sum()) for g in grads) ** 0.5
    for g in grads if length > longest else ():
        g *= longest / (length + 1e-6)
"""


@pytest.mark.parametrize(
    "text, is_used_up",
    [
        (OF_ITERABLES, True),
        (CLIP + TRAINS.replace("GIVEN", "net.parameters()"), True),
        (CLIP, False),
        (CLIP + TRAINS.replace("GIVEN", "list(net.parameters())"), False),
        (CLIP.replace("(params,", "(params: list[nn.Parameter],"), False),
        (KEPT, False),
        (OF_GRADIENTS, False),
    ],
)
def test_what_goes_through_a_generator_twice_clips_nothing(text, is_used_up, tmp_path):
    result = check_text(HEAD + text, tmp_path)["clip_grads"]
    assert result.severe == (["O10"] if is_used_up else []), result
    if is_used_up:
        (found,) = result.mistakes
        line = (tmp_path / "learner.py").read_text().splitlines()[found.line - 1]
        assert found.form == GONE_THROUGH and line == "        for p in params:"


def test_the_fix_is_its_own(tmp_path):
    (found,) = check_text(HEAD + OF_ITERABLES, tmp_path)["clip_grads"].mistakes
    assert "list(parameters)" in found.fix and "no gradient is ever shortened" in found.does


@pytest.mark.parametrize("text, severe", [(OF_ITERABLES, ["O10"]), (KEPT, ["O10"])])
def test_another_length_of_a_list_is_told_first(text, severe, tmp_path):
    """One mistake is told once, in one of its forms."""
    text = text.replace("(squares ** 0.5 + 1e-6)", "(squares + 1e-6)").replace("squares ** 0.5 >", "squares >")
    result = check_text(HEAD + text, tmp_path)["clip_grads"]
    assert (result.severe, result.mistakes[0].form) == (severe, "without the root"), result
