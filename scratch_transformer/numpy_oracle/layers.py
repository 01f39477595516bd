"""One encoder layer and one decoder layer: sublayers, each in its residual connection."""

from __future__ import annotations

from .arrays import Array, Cache, Gradients, Parameters, floats
from .dropout import KeepMasks
from .sublayers import (
    AttentionSublayer,
    LayerOptions,
    attention,
    attention_backward,
    feed_forward,
    feed_forward_backward,
    residual,
    residual_backward,
)


def encoder_layer(
    src: Array,
    parameters: Parameters,
    options: LayerOptions,
    *,
    src_mask: Array | None = None,
    src_key_padding_mask: Array | None = None,
    keep_masks: KeepMasks | None = None,
) -> tuple[Array, Cache]:
    """Self-attention, then feed-forward, each in its residual connection.

    Args:
        src: (S, B, E); (B, S, E) with `batch_first`; or (S, E).
        parameters: with the keys of torch.nn.TransformerEncoderLayer.
        options: number of heads, norm_first and so on.
        src_mask: (S, S) or (B·H, S, S), boolean (True = blocked) or float.
        src_key_padding_mask: (B, S), or (S,) unbatched, boolean (True = blocked) or float.
        keep_masks: None is eval mode; in train mode one mask each for self_attn (B, H, S, S), dropout, dropout1 and
            dropout2 (the shapes of what they drop from).

    Returns:
        y, of src's shape, and the cache for `encoder_layer_backward`. Source: Vaswani et al. 2017, section 3.1.

    Raises:
        ValueError: the shapes disagree.
        KeyError: a parameter or keep-mask is missing.
    """
    (src,) = floats(src=src)
    layer = (parameters, options, keep_masks)
    itself = AttentionSublayer("self_attn", "dropout1", src_mask, src_key_padding_mask)
    x, attended = residual(src, lambda x: attention(x, *layer, itself), parameters, "norm1", options)
    y, fed = residual(x, lambda x: feed_forward(x, *layer, "dropout2"), parameters, "norm2", options)
    return y, (attended, fed)


def encoder_layer_backward(dy: Array, cache: Cache) -> tuple[Array, Gradients]:
    """Return (dsrc, parameter gradients)."""
    attended, fed = cache
    dx, _, second = residual_backward(dy, fed, feed_forward_backward)
    dsrc, _, first = residual_backward(dx, attended, attention_backward)
    return dsrc, first | second


def decoder_layer(
    tgt: Array,
    memory: Array,
    parameters: Parameters,
    options: LayerOptions,
    *,
    tgt_mask: Array | None = None,
    memory_mask: Array | None = None,
    tgt_key_padding_mask: Array | None = None,
    memory_key_padding_mask: Array | None = None,
    keep_masks: KeepMasks | None = None,
) -> tuple[Array, Cache]:
    """Self-attention, attention to the encoder's output, feed-forward, each in its residual connection.

    Args:
        tgt: (T, B, E); (B, T, E) with `batch_first`; or (T, E).
        memory: the encoder's output, (S, B, E) and so on, laid out like `tgt`.
        parameters: with the keys of torch.nn.TransformerDecoderLayer.
        tgt_mask, tgt_key_padding_mask: (T, T) or (B·H, T, T), and (B, T); as for the encoder layer.
        memory_mask, memory_key_padding_mask: (T, S) or (B·H, T, S), and (B, S).
        keep_masks: None is eval mode; in train mode one mask each for self_attn, multihead_attn, dropout, dropout1,
            dropout2 and dropout3.

    Returns:
        y, of tgt's shape, and the cache for `decoder_layer_backward`. Source: Vaswani et al. 2017, section 3.1.

    Raises:
        ValueError: the shapes disagree.
        KeyError: a parameter or keep-mask is missing.
    """
    tgt, memory = floats(tgt=tgt, memory=memory)
    layer = (parameters, options, keep_masks)
    itself = AttentionSublayer("self_attn", "dropout1", tgt_mask, tgt_key_padding_mask)
    across = AttentionSublayer("multihead_attn", "dropout2", memory_mask, memory_key_padding_mask, memory)
    x, attended = residual(tgt, lambda x: attention(x, *layer, itself), parameters, "norm1", options)
    x, crossed = residual(x, lambda x: attention(x, *layer, across), parameters, "norm2", options)
    y, fed = residual(x, lambda x: feed_forward(x, *layer, "dropout3"), parameters, "norm3", options)
    return y, (attended, crossed, fed)


def decoder_layer_backward(dy: Array, cache: Cache) -> tuple[Array, Array, Gradients]:
    """Return (dtgt, dmemory, parameter gradients)."""
    attended, crossed, fed = cache
    dx, _, third = residual_backward(dy, fed, feed_forward_backward)
    dx, dmemory, second = residual_backward(dx, crossed, attention_backward)
    dtgt, _, first = residual_backward(dx, attended, attention_backward)
    assert dmemory is not None  # only self-attention has no memory
    return dtgt, dmemory, first | second | third
