"""The kit: checks a learner's own Transformer against torch.nn and the paper, and names the mistakes.

    print(check(MyLayerNorm(64)))                               # an instance, a class or a function
    assert_equivalent(MyAttention(64, 8), "MultiheadAttention")  # in a test; the message has the diagnosis

On the command line: `scratch-transformer check my_transformer.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scratch_transformer.kit.report.finding import Result

__all__ = ["assert_equivalent", "check"]


def check(thing: Any, kind: str | None = None, **settings: Any) -> Result:
    """Compare a class, an instance or a function of yours with its PyTorch builtin.

    Args:
        thing: its weights are left as they are.
        kind: what it is, such as "LayerNorm" or "MultiheadAttention"; found by its name if not given.
        settings: what it was built with, where that cannot be read from it: num_heads=8.

    Returns:
        The result; printed, it is the diagnosis in words.

    Raises:
        ValueError: no kind of this name is known, or the name of `thing` tells no kind.
    """
    from scratch_transformer.kit.inprocess import check_here

    return check_here(thing, kind, settings)


def assert_equivalent(thing: Any, kind: str | None = None, strict: bool = False, **settings: Any) -> None:
    """Raise AssertionError, with the diagnosis as its message, unless `thing` computes what its builtin computes.

    strict: harmless deviations, and what is as in the paper but not as in PyTorch, are refused too.
    """
    from scratch_transformer.kit.report.finding import FINE

    result = check(thing, kind, **settings)
    if result.verdict not in (FINE[:1] if strict else FINE):
        raise AssertionError(str(result))
