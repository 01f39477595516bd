"""Stacks of layers: the encoder and the decoder."""

from __future__ import annotations

import numpy as np

from .arrays import Array, Cache, Gradients, Parameters, prefixed, require, scope
from .dropout import KeepMasks, masks_within
from .layers import decoder_layer, decoder_layer_backward, encoder_layer, encoder_layer_backward
from .modules import named_layer_norm, named_layer_norm_backward
from .sublayers import LayerOptions


def encoder(
    src: Array,
    parameters: Parameters,
    options: LayerOptions,
    *,
    mask: Array | None = None,
    src_key_padding_mask: Array | None = None,
    keep_masks: KeepMasks | None = None,
    final_norm_eps: float | None = None,
) -> tuple[Array, Cache]:
    """y = LN(layer_{N-1}(... layer_0(src))); the final norm is there if the parameters have a "norm.weight".

    Args:
        src: (S, B, E); (B, S, E) with `batch_first`; or (S, E).
        parameters: with the keys of torch.nn.TransformerEncoder; they decide how many layers there are.
        mask, src_key_padding_mask: for every layer, as in `encoder_layer`.
        keep_masks: None is eval mode; else keyed layers.0.dropout1 and so on.
        final_norm_eps: of the final norm, if it is not the layers'.

    Returns:
        y, of src's shape, and the cache for `encoder_backward`. Source: Vaswani et al. 2017, section 3.1; the paper has
        no final norm.

    Raises:
        ValueError: the shapes disagree, or there is no layer.
        KeyError: a parameter or keep-mask is missing.
    """
    x, caches = src, []
    for layer in _layers(parameters):
        x, cache = encoder_layer(
            x,
            scope(parameters, layer),
            options,
            src_mask=mask,
            src_key_padding_mask=src_key_padding_mask,
            keep_masks=masks_within(keep_masks, layer),
        )
        caches.append((layer, cache))
    y, normed = _final_norm(x, parameters, options.layer_norm_eps if final_norm_eps is None else final_norm_eps)
    return y, (caches, normed)


def encoder_backward(dy: Array, cache: Cache) -> tuple[Array, Gradients]:
    """Return (dsrc, parameter gradients): through the layers from the last to the first."""
    caches, normed = cache
    dx, named = _final_norm_backward(dy, normed)
    for layer, layer_cache in reversed(caches):
        dx, gradients = encoder_layer_backward(dx, layer_cache)
        named |= prefixed(layer, gradients)
    return dx, named


def decoder(
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
    final_norm_eps: float | None = None,
) -> tuple[Array, Cache]:
    """Like `encoder`, with decoder layers, which all look at the same memory.

    Args:
        tgt: (T, B, E); (B, T, E) with `batch_first`; or (T, E).
        memory: the encoder's output, laid out like `tgt`.
        parameters: with the keys of torch.nn.TransformerDecoder.
        tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask: as in `decoder_layer`.
        keep_masks, final_norm_eps: as in `encoder`.

    Returns:
        y, of tgt's shape, and the cache for `decoder_backward`. Source: Vaswani et al. 2017, section 3.1.

    Raises:
        ValueError: the shapes disagree, or there is no layer.
        KeyError: a parameter or keep-mask is missing.
    """
    x, caches = tgt, []
    for layer in _layers(parameters):
        x, cache = decoder_layer(
            x,
            memory,
            scope(parameters, layer),
            options,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            keep_masks=masks_within(keep_masks, layer),
        )
        caches.append((layer, cache))
    y, normed = _final_norm(x, parameters, options.layer_norm_eps if final_norm_eps is None else final_norm_eps)
    return y, (caches, normed, np.shape(memory))


def decoder_backward(dy: Array, cache: Cache) -> tuple[Array, Array, Gradients]:
    """Return (dtgt, dmemory, parameter gradients); every layer read the memory, so dmemory sums over the layers."""
    caches, normed, memory_shape = cache
    dx, named = _final_norm_backward(dy, normed)
    dmemory = np.zeros(memory_shape)
    for layer, layer_cache in reversed(caches):
        dx, dmemory_of_layer, gradients = decoder_layer_backward(dx, layer_cache)
        dmemory = dmemory + dmemory_of_layer
        named |= prefixed(layer, gradients)
    return dx, dmemory, named


def _layers(parameters: Parameters) -> list[str]:
    """The names layers.0, layers.1, ... for which there are parameters."""
    numbers = {int(key.split(".")[1]) for key in parameters if key.startswith("layers.")}
    complete = len(numbers) > 0 and numbers == set(range(len(numbers)))
    require(complete, f"the parameters must have layers.0, layers.1, ..., but the layers are {sorted(numbers)}")
    return [f"layers.{i}" for i in range(len(numbers))]


def _final_norm(x: Array, parameters: Parameters, eps: float) -> tuple[Array, Cache | None]:
    return named_layer_norm(x, parameters, "norm", eps) if "norm.weight" in parameters else (x, None)


def _final_norm_backward(dy: Array, cache: Cache | None) -> tuple[Array, Gradients]:
    return (dy, {}) if cache is None else named_layer_norm_backward(dy, cache)
