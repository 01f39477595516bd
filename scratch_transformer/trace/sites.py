"""Where in the reference each named tensor is made: a function, and the tensor operation in it.

The functions are named as they are imported, so a renamed one is noticed at once, and the tests notice an operation
that is gone. Nothing is written into the reference itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import CodeType
from typing import Any

from scratch_transformer import functional, masks, model, nn
from scratch_transformer.attention import naive
from scratch_transformer.trace import kinds
from scratch_transformer.trace.kinds import Kind


@dataclass(frozen=True)
class Site:
    """A function of the reference.

    inside: for an operation by name, what its first, second, ... result is; None: nothing that has a name. Operations
        in functions that it calls count as its own, unless those have a site themselves.
    returns: what the function's first, second, ... call within the calling site returns; the last one for all others.
    by: the operations that compute the equation, where not the last one does: the line that is shown.
    names_module: what it returns is a module's own output, and has its name.
    """

    function: Callable[..., Any]
    inside: Mapping[str, tuple[Kind | None, ...]] = field(default_factory=dict)
    returns: tuple[Kind, ...] = ()
    by: tuple[str, ...] = ()
    names_module: bool = False

    @property
    def code(self) -> CodeType:
        """What a frame of the function has as its code."""
        code: CodeType = inspect.unwrap(self.function).__code__
        return code


_NORMALIZATION = {
    "mean": (kinds.MEAN, kinds.VARIANCE), "sub": (kinds.CENTRED,), "div": (kinds.NORMALIZED,),
}  # fmt: skip
_SPLIT = (kinds.QUERY, kinds.KEY, kinds.VALUE)
_SUMS = tuple(replace(kinds.SUM, name=f"sum{number}") for number in (1, 2, 3))
_SOFTMAX = {"amax": (kinds.MAXIMA,), "exp": (kinds.EXPONENTIALS,), "sum": (kinds.SUMS,)}

_ALL = (
    Site(functional.linear, returns=(kinds.LINEAR,), by=("addmm", "matmul"), names_module=True),
    Site(functional.embedding, returns=(kinds.TOKENS,), by=("index_select",), names_module=True),
    Site(functional.softmax, _SOFTMAX, (kinds.SOFTMAX,), names_module=True),
    Site(functional.log_softmax, returns=(kinds.LOG_PROBABILITIES,)),
    Site(functional.relu, returns=(kinds.RELU,)),
    Site(functional.gelu, returns=(kinds.GELU,)),
    Site(functional.silu, returns=(kinds.SILU,)),
    Site(functional.layer_norm, _NORMALIZATION, (kinds.NORM,), names_module=True),
    Site(
        functional.rms_norm,
        {"mean": (kinds.MEAN_SQUARE,), "div": (kinds.RMS_NORMALIZED,)}, (kinds.RMS_NORM,), names_module=True,
    ),
    Site(
        functional.batch_norm,
        {"sub": (kinds.CENTRED,), "div": (kinds.NORMALIZED,)}, (kinds.CHANNEL_NORM,), names_module=True,
    ),
    Site(
        functional.cross_entropy, {"neg": (None,), "masked_fill": (kinds.LOSSES,)}, (kinds.LOSS,), names_module=True
    ),
    Site(masks.apply, returns=(kinds.MASKED_SCORES,)),
    Site(naive.attention_weights, {"matmul": (kinds.SCORES,)}, (kinds.WEIGHTS,)),
    Site(naive.naive_attention, returns=(kinds.HEADS,)),
    Site(nn.MultiheadAttention._split_heads, returns=_SPLIT),
    Site(
        nn.MultiheadAttention.forward,
        {"matmul": (kinds.HEADS,), "mean": (kinds.AVERAGED_WEIGHTS,), "flatten": (kinds.JOINED,)},
    ),
    Site(nn.TransformerEncoderLayer.forward, {"add": _SUMS[:2]}),
    Site(nn.TransformerDecoderLayer.forward, {"add": _SUMS}),
    Site(model.InputEmbeddings.forward, {"mul": (kinds.SCALED,)}),
    Site(model.PositionalEncoding.forward, {"getitem": (kinds.POSITIONS,), "add": (kinds.PLACED,)}),
    Site(model.MultiHeadAttentionBlock._split, returns=_SPLIT),
    Site(model.MultiHeadAttentionBlock.forward, {"flatten": (kinds.JOINED,)}),
    Site(model.ResidualConnection.forward, {"add": (kinds.SUM,)}),
)  # fmt: skip

SITES: dict[CodeType, Site] = {site.code: site for site in _ALL}
"""Every site, by the code of its function."""
