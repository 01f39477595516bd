"""The encoder-decoder Transformer, from embedded source and target to the decoder's output."""

from __future__ import annotations

from .arrays import Array, Cache, Gradients, Parameters, floats, prefixed, scope
from .dropout import KeepMasks, masks_within
from .stacks import decoder, decoder_backward, encoder, encoder_backward
from .sublayers import LayerOptions


def transformer(
    src: Array,
    tgt: Array,
    parameters: Parameters,
    options: LayerOptions,
    *,
    src_mask: Array | None = None,
    tgt_mask: Array | None = None,
    memory_mask: Array | None = None,
    src_key_padding_mask: Array | None = None,
    tgt_key_padding_mask: Array | None = None,
    memory_key_padding_mask: Array | None = None,
    keep_masks: KeepMasks | None = None,
) -> tuple[Array, Cache]:
    """y = decoder(tgt, encoder(src)), with the keys of torch.nn.Transformer: encoder.* and decoder.*.

    Args:
        src, tgt: (S, B, E) and (T, B, E); (B, S, E) and (B, T, E) with `batch_first`; or (S, E) and (T, E).
        src_mask, src_key_padding_mask: for the encoder, as in `encoder`.
        tgt_mask, tgt_key_padding_mask, memory_mask, memory_key_padding_mask: for the decoder, as in `decoder`.
        keep_masks: None is eval mode; else keyed encoder.layers.0.dropout1 and so on.

    Returns:
        y, of tgt's shape, and the cache for `transformer_backward`. Source: Vaswani et al. 2017, figure 1.

    Raises:
        ValueError: the shapes disagree, or there is no layer.
        KeyError: a parameter or keep-mask is missing.
    """
    src, tgt = floats(src=src, tgt=tgt)
    memory, encoded = encoder(
        src,
        scope(parameters, "encoder"),
        options,
        mask=src_mask,
        src_key_padding_mask=src_key_padding_mask,
        keep_masks=masks_within(keep_masks, "encoder"),
    )
    y, decoded = decoder(
        tgt,
        memory,
        scope(parameters, "decoder"),
        options,
        tgt_mask=tgt_mask,
        memory_mask=memory_mask,
        tgt_key_padding_mask=tgt_key_padding_mask,
        memory_key_padding_mask=memory_key_padding_mask,
        keep_masks=masks_within(keep_masks, "decoder"),
    )
    return y, (encoded, decoded)


def transformer_backward(dy: Array, cache: Cache) -> tuple[Array, Array, Gradients]:
    """Return (dsrc, dtgt, parameter gradients): the source feels the loss only through the memory."""
    encoded, decoded = cache
    dtgt, dmemory, of_decoder = decoder_backward(dy, decoded)
    dsrc, of_encoder = encoder_backward(dmemory, encoded)
    return dsrc, dtgt, prefixed("encoder", of_encoder) | prefixed("decoder", of_decoder)
