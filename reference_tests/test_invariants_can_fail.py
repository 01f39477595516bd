"""Every invariant fails for some wrong implementation: one here, or a mutant that names it."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from reference_tests.mutants.catalogue import MUTANTS
from scratch_transformer import functional, nn
from scratch_transformer.attention import scaled_dot_product_attention as attention
from scratch_transformer.conformance import COMPONENTS, Draw
from scratch_transformer.conformance.invariants import tolerance


def wrong(cls: type, forward: Callable[..., Tensor]) -> type:
    """`cls` with `forward(right, self, ...)` in place of its `right(...)`."""

    def replaced(self: Any, *args: Any, **kwargs: Any) -> Tensor:
        return forward(lambda *a, **k: cls.forward(self, *a, **k), self, *args, **kwargs)

    return type(cls.__name__, (cls,), {"forward": replaced})


def ramp(x: Tensor, dim: int = 1) -> Tensor:
    """0, 1, 2, … along dim: a position."""
    return torch.arange(x.shape[dim], dtype=x.dtype).reshape(-1, *[1] * (x.dim() - dim - 1 if dim >= 0 else -dim - 1))


def without(name: str, index: int | None = None) -> Callable[..., Tensor]:
    """A forward that ignores one of its arguments."""

    def forward(right: Callable[..., Tensor], self: Any, *args: Any, **kwargs: Any) -> Tensor:
        args = tuple(None if i == index else arg for i, arg in enumerate(args))
        return right(*args, **{key: value for key, value in kwargs.items() if key != name})

    return forward


def of_the_batch(right: Callable[..., Tensor], self: nn.BatchNorm1d, x: Tensor) -> Tensor:
    return functional.batch_norm(x, *functional.channel_statistics(x), self.weight, self.bias, self.eps)


def rms(x: Tensor, eps: float, dim: int = -1) -> Tensor:
    return x / (x.square().mean(dim, keepdim=True) + eps).sqrt()


WRONG: dict[tuple[str, str], Callable[..., Any]] = {
    ("Linear", "is affine"): wrong(nn.Linear, lambda right, self, x: right(x).abs()),
    ("Linear", "bias is the value at zero"): wrong(nn.Linear, lambda right, self, x: right(x) + 1),
    ("Dropout", "is identity in evaluation"): wrong(nn.Dropout, lambda right, self, x: functional.dropout(x, self.p)),
    ("Dropout", "drops or scales"): wrong(nn.Dropout, lambda right, self, x: right(x) * (1 - self.p)),
    ("Dropout", "drops the share p"): wrong(nn.Dropout, lambda right, self, x: functional.dropout(x, 0.2)),
    ("Softmax", "ignores a shift"): wrong(nn.Softmax, lambda right, self, x: right(x.abs())),
    ("Softmax", "is a distribution"): wrong(nn.Softmax, lambda right, self, x: right(x / 2)),
    ("Softmax", "reorders with its input"): wrong(nn.Softmax, lambda right, self, x: right(x + ramp(x, -1))),
    ("ReLU", "splits the identity"): wrong(nn.ReLU, lambda right, self, x: right(x) + x / 100),
    ("ReLU", "is never negative"): wrong(nn.ReLU, lambda right, self, x: right(x) + x / 100),
    ("GELU", "splits the identity"): wrong(nn.GELU, lambda right, self, x: right(x + 0.01)),
    ("LayerNorm", "is odd"): wrong(nn.LayerNorm, lambda right, self, x: right(x).abs()),
    ("RMSNorm", "is odd"): wrong(nn.RMSNorm, lambda right, self, x: right(x).abs()),
    ("RMSNorm", "scales with eps"): wrong(nn.RMSNorm, lambda right, self, x: rms(x, 1e-6)),
    ("RMSNorm", "has unit mean square"): wrong(nn.RMSNorm, lambda right, self, x: right(x) * x.shape[-1] ** 0.5),
    ("RMSNorm", "treats tokens alone"): wrong(nn.RMSNorm, lambda right, self, x: rms(x, 0.3, dim=0)),
    ("BatchNorm1d", "standardises channels"): wrong(nn.BatchNorm1d, lambda right, self, x: right(x) * 0.99),
    ("BatchNorm1d", "reorders with its batch"): wrong(nn.BatchNorm1d, lambda right, self, x: right(x) + ramp(x, 0)),
    ("BatchNorm1d", "treats samples alone"): wrong(nn.BatchNorm1d, of_the_batch),
    ("scaled_dot_product_attention", "is linear in the values"): lambda q, k, v, **o: attention(q, k, v, **o).tanh(),
    ("scaled_dot_product_attention", "the order of keys is irrelevant"): lambda q, k, v, **o: attention(
        q, k + ramp(k, -2), v, **o
    ),
    ("TransformerEncoderLayer", "padding is invisible"): wrong(
        nn.TransformerEncoderLayer, without("src_key_padding_mask")
    ),
    ("TransformerDecoderLayer", "incremental decoding is full decoding"): wrong(
        nn.TransformerDecoderLayer, without("tgt_mask", 2)
    ),
    ("TransformerDecoderLayer", "the order of memory is irrelevant"): wrong(
        nn.TransformerDecoderLayer, lambda right, self, y, m, *masks, **o: right(y, m + ramp(m), *masks, **o)
    ),
    ("TransformerDecoderLayer", "decoder samples stay apart"): wrong(
        nn.TransformerDecoderLayer, lambda right, self, y, m, *masks, **o: right(y - y.mean(0), m, *masks, **o)
    ),
    ("TransformerDecoderLayer", "decoder residuals remain"): wrong(
        nn.TransformerDecoderLayer, lambda right, self, y, m, *masks, **o: right(y, m, *masks, **o) + y
    ),
    ("Transformer", "translation is incremental"): wrong(nn.Transformer, without("tgt_mask")),
    ("Transformer", "source padding is invisible"): wrong(nn.Transformer, without("memory_key_padding_mask")),
    ("Transformer", "translations stay apart"): wrong(
        nn.Transformer, lambda right, self, x, y, **o: right(x - x.mean(0), y, **o)
    ),
    ("Transformer", "the order of the source is irrelevant"): wrong(
        nn.Transformer, lambda right, self, x, y, **o: right(x + ramp(x), y, **o)
    ),
    ("GatedFeedForward", "the order of hidden units is irrelevant"): wrong(
        nn.GatedFeedForward, lambda right, self, x: self.down_proj(ramp(self.gate_proj(x), -1) * self.up_proj(x))
    ),
    ("CausalSelfAttention", "padding on the left is invisible"): wrong(nn.CausalSelfAttention, without("mask")),
    ("CausalSelfAttention", "sequences stay apart"): wrong(
        nn.CausalSelfAttention, lambda right, self, x, *more, **o: right(x - x.mean(0), *more, **o)
    ),
    ("CrossEntropyLoss", "ignores a shift"): wrong(
        nn.CrossEntropyLoss, lambda right, self, x, t: right(x, t) + x.sum()
    ),
    ("CrossEntropyLoss", "knowing nothing costs log C"): wrong(
        nn.CrossEntropyLoss, lambda right, self, x, t: right(x, t) / math.log(2)
    ),
    ("CrossEntropyLoss", "reductions agree"): wrong(
        nn.CrossEntropyLoss, lambda right, self, x, t: right(x, t) * (1 if self.reduction == "none" else x.shape[0])
    ),
    ("CrossEntropyLoss", "indices are certainties"): wrong(
        nn.CrossEntropyLoss, lambda right, self, x, t: right(x, t) * (2 if t.is_floating_point() else 1)
    ),
}


@pytest.mark.parametrize("name, invariant", WRONG)
def test_a_wrong_implementation_violates_it(name, invariant):
    component = COMPONENTS[name]
    property = next(i for i in component.invariants if i.name == invariant)
    assert component.violation(property, WRONG[name, invariant], Draw(1)) > 1000 * tolerance()


def test_every_invariant_can_fail():
    """Stacks share the invariants of their layers: what counts is the function, not where it is attached."""
    seen = {*WRONG, *((mutant.component, check) for mutant in MUTANTS.values() for check in mutant.caught_by)}
    attached = [(c.name, i.name, i.error) for c in COMPONENTS.values() for i in c.invariants]
    can_fail = {error for name, invariant, error in attached if (name, invariant) in seen}
    assert [(name, invariant) for name, invariant, error in attached if error not in can_fail] == []
