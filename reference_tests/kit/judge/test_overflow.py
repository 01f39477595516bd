"""A loss of large logits: infinite, or cut off; and none of this where the largest is subtracted first (A26)."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

LOSS = """
def cross_entropy(logits, target):
    powers = POWERS
    shares = powers[torch.arange(len(target)), target] / powers.sum(-1)
    return -shares.log().mean()
"""
STABLE = "torch.exp(logits - logits.max(-1, keepdim=True).values)"


@pytest.mark.parametrize("powers, said", [
    ("logits.exp()", "the loss is infinite or NaN"),
    ("torch.clamp(logits.exp(), max=1e12)", "cut off at a largest number"),
    ("logits.exp().minimum(torch.full((), 1e12))", "cut off at a largest number"),
])  # fmt: skip
def test_losses_that_exp_overflows_in_are_named(powers, said, tmp_path):
    found = check_text(LOSS.replace("POWERS", powers), tmp_path)["cross_entropy"]
    (named,) = found.mistakes
    assert (found.verdict, named.id) == ("mistake", "A26") and said in named.evidence + named.form
    assert powers in named.shown and named.fix.startswith("F.cross_entropy")


def test_a_limit_that_is_written_into_the_powers_is_named_at_its_line(tmp_path):
    limit = "powers[powers > 1e12] = 1e12"
    found = check_text(LOSS.replace("POWERS", f"logits.exp()\n    {limit}"), tmp_path)["cross_entropy"]
    (named,) = found.mistakes
    assert named.id == "A26" and "cut off" in named.form and named.shown.strip() == limit


@pytest.mark.parametrize("powers", [STABLE, f"{STABLE}.clamp(max=1.0)", "logits.softmax(-1).clamp(1e-12, 1.0)"])
def test_losses_that_do_not_overflow_are_right(powers, tmp_path):
    assert check_text(LOSS.replace("POWERS", powers), tmp_path)["cross_entropy"].verdict == "matches the builtin"
