"""What a flag turns on or off, rotary positions and the future, and what a constructor's numbers count."""

import pytest

from reference_tests.kit.learners.checked import LESS, checking_of, time_to_look, written
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.resolve import fitness
from scratch_transformer.kit.resolve.build.config import Config
from scratch_transformer.kit.resolve.build.reading import uses_of
from scratch_transformer.kit.resolve.trials import choice

HEADS = """
def rope(x):
    half = x.shape[-1] // 2
    angles = torch.arange(x.shape[-2])[:, None] * 10000 ** (-torch.arange(half) / half)
    a, b = x.chunk(2, -1)
    return torch.cat((a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()), -1).to(x.dtype)


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads, use_ropeDEFAULT):
        super().__init__()
        self.n_heads, self.use_rope = n_heads, use_rope
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x):
        q, k, v = (w(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        if self.use_rope:
            q, k = rope(q), rope(k)
        scores = q @ k.transpose(-2, -1) * x.shape[-1] ** -0.5
        return self.w_o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""


def attention(default, folder):
    path = written(HEADS.replace("DEFAULT", default), folder)
    checking, results = checking_of(path, ["MultiHeadAttention"])
    (cls,) = [entry[2] for entry in checking.found if entry[1] == "MultiHeadAttention"]
    return checking, cls, results["MultiHeadAttention"]


def test_rotary_positions_that_are_off_by_default_are_not_looked_for(tmp_path):
    _, cls, result = attention("=False", tmp_path)
    assert (result.kind, result.severe) == (
        "SelfAttention",
        ["A1"],
    )
    assert not fitness.may_turn(cls)
    assert fitness.of_today(KINDS["RotaryAttention"], cls) < 0


@pytest.mark.long
def test_nor_is_a_module_that_keeps_that_it_turns_nothing_explained_by_them(tmp_path):
    checking, cls, _ = attention("", tmp_path)
    assert fitness.may_turn(cls)
    checking.library.given = {"use_rope": False}
    with time_to_look(LESS):
        outcome = choice.chosen(cls, ("RotaryAttention",), checking.library)
    assert fitness.is_turned_off(outcome.candidate.made)
    assert outcome.score == choice.DOUBTFUL


@pytest.mark.parametrize("name, value", [("is_causal", True), ("use_causal_mask", True), ("is_training", False)])
def test_a_flag_of_a_config_that_hides_the_future_is_on(name, value):
    class Values:
        def __call__(self, name):
            raise AssertionError(name)

        def fixes(self, name):
            return False

    assert Config(Values())[name] is value


def test_what_a_tensor_counts_is_positions_and_no_layers():
    def build(places, depth):
        import torch

        table = torch.tensor(list(range(places)))
        return [table for _ in range(depth)]

    uses = uses_of(build)
    assert (uses["places"].meant, uses["depth"].meant) == (["max_len"], ["num_layers"])
