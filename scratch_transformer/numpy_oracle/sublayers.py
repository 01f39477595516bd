"""What an encoder or decoder layer is made of: two kinds of sublayer, and the residual connection around each.

Every sublayer's backward returns the same three things: the gradient of x, the gradient of the memory (None without),
and the gradients of the parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .activations import gelu, gelu_backward, relu, relu_backward
from .arrays import Array, Cache, Gradients, Parameters, prefixed, require, scope
from .dropout import KeepMasks, dropout_backward, masks_within
from .modules import named_dropout, named_layer_norm, named_layer_norm_backward, named_linear, named_linear_backward
from .multihead_attention import multihead_attention, multihead_attention_backward

ACTIVATIONS = {"relu": (relu, relu_backward), "gelu": (gelu, gelu_backward)}
SublayerGradients = tuple[Array, Array | None, Gradients]


@dataclass(frozen=True)
class LayerOptions:
    """What a layer is besides its parameters; the names are those of torch.nn.TransformerEncoderLayer.

    Raises:
        NotImplementedError: the activation is a callable: its derivative is not known here.
        ValueError: the activation has an unknown name.
    """

    nhead: int
    dropout: float = 0.0
    activation: str = "relu"
    layer_norm_eps: float = 1e-5
    batch_first: bool = False
    norm_first: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.activation, str):
            raise NotImplementedError(f"activation={self.activation!r}: no derivative is known for a callable")
        names = sorted(ACTIVATIONS)
        require(self.activation in names, f"activation must be one of {names}, but is {self.activation!r}")


def feed_forward(
    x: Array, parameters: Parameters, options: LayerOptions, keep_masks: KeepMasks | None, last_dropout: str
) -> tuple[Array, Cache]:
    """y = drop(W_2 drop(act(W_1 x + b_1)) + b_2), with the parameters linear1.* and linear2.*.

    Source: Vaswani et al. 2017, section 3.3; the inner dropout is torch's addition.
    """
    activation, activation_backward = ACTIVATIONS[options.activation]
    x, cache_1 = named_linear(x, parameters, "linear1")
    x, cache_2 = activation(x)
    x, cache_3 = named_dropout(x, options.dropout, keep_masks, "dropout")
    x, cache_4 = named_linear(x, parameters, "linear2")
    x, cache_5 = named_dropout(x, options.dropout, keep_masks, last_dropout)
    return x, (cache_1, cache_2, cache_3, cache_4, cache_5, activation_backward)


def feed_forward_backward(dy: Array, cache: Cache) -> SublayerGradients:
    """Return (dx, None, parameter gradients): the chain rule is the forward read backwards."""
    cache_1, cache_2, cache_3, cache_4, cache_5, activation_backward = cache
    dy = dropout_backward(dy, cache_5)
    dy, second = named_linear_backward(dy, cache_4)
    dy = dropout_backward(dy, cache_3)
    dy = activation_backward(dy, cache_2)
    dx, first = named_linear_backward(dy, cache_1)
    return dx, None, first | second


@dataclass(frozen=True)
class AttentionSublayer:
    """Which attention this is: its name, its dropout's name, its masks, and its memory (None: self-attention)."""

    name: str
    last_dropout: str
    attn_mask: Array | None = None
    key_padding_mask: Array | None = None
    memory: Array | None = None


def attention(
    x: Array, parameters: Parameters, options: LayerOptions, keep_masks: KeepMasks | None, which: AttentionSublayer
) -> tuple[Array, Cache]:
    """y = drop(MultiHead(x, memory, memory)), and MultiHead(x, x, x) in self-attention.

    Source: Vaswani et al. 2017, section 3.2.3.
    """
    source = x if which.memory is None else which.memory
    (y, _), attended = multihead_attention(
        x,
        source,
        source,
        scope(parameters, which.name),
        options.nhead,
        batch_first=options.batch_first,
        attn_mask=which.attn_mask,
        key_padding_mask=which.key_padding_mask,
        dropout_p=options.dropout,
        keep_masks=masks_within(keep_masks, which.name),
    )
    y, dropped = named_dropout(y, options.dropout, keep_masks, which.last_dropout)
    return y, (which, attended, dropped)


def attention_backward(dy: Array, cache: Cache) -> SublayerGradients:
    """Return (dx, dmemory, parameter gradients).

    The memory is both key and value, so dmemory = dkey + dvalue. In self-attention x is all three: dx = dquery + dkey +
    dvalue, and there is no memory.
    """
    which, attended, dropped = cache
    gradients = multihead_attention_backward(dropout_backward(dy, dropped), attended)
    named = prefixed(which.name, gradients.parameters)
    dsource = gradients.key + gradients.value
    if which.memory is None:
        return gradients.query + dsource, None, named
    return gradients.query, dsource, named


def residual(
    x: Array, sublayer: Callable[[Array], tuple[Array, Cache]], parameters: Parameters, norm: str, options: LayerOptions
) -> tuple[Array, Cache]:
    """Post-norm: y = LN(x + f(x)).  Pre-norm (`norm_first`): y = x + f(LN(x)).

    Args:
        x: the input.
        sublayer: f, returns its output and its cache.
        parameters, norm: the normalisation's parameters are `norm`.weight and `norm`.bias.

    Source: Vaswani et al. 2017, section 3.1 (post-norm); Xiong et al. 2020, figure 1 (pre-norm).
    """
    eps = options.layer_norm_eps
    if options.norm_first:
        normed, normed_cache = named_layer_norm(x, parameters, norm, eps)
        out, cache = sublayer(normed)
        return x + out, (True, normed_cache, cache)
    out, cache = sublayer(x)
    y, normed_cache = named_layer_norm(x + out, parameters, norm, eps)
    return y, (False, normed_cache, cache)


def residual_backward(
    dy: Array, cache: Cache, sublayer_backward: Callable[[Array, Cache], SublayerGradients]
) -> SublayerGradients:
    """Return (dx, dmemory, parameter gradients).

    x takes two ways, around f and through it, and their gradients add:

        post-norm:  d(x + f) = LN'(dy),  dx = d(x + f) + f'(d(x + f))
        pre-norm:   dx = dy + LN'(f'(dy))                   the first term reaches every layer unchanged
    """
    norm_first, normed_cache, sublayer_cache = cache
    if norm_first:
        dnormed, dmemory, inner = sublayer_backward(dy, sublayer_cache)
        dx, outer = named_layer_norm_backward(dnormed, normed_cache)
        return dy + dx, dmemory, inner | outer
    dsum, outer = named_layer_norm_backward(dy, normed_cache)
    dx, dmemory, inner = sublayer_backward(dsum, sublayer_cache)
    return dsum + dx, dmemory, inner | outer
