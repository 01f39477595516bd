"""The whole model with its loss: one number out, and the gradient of every parameter by hand."""

from __future__ import annotations

import math

import numpy as np

from .arrays import Array, Cache, Gradients, Parameters, parameter, prefixed, require, scope
from .dropout import KeepMasks, dropout_backward, masks_within
from .linear import embedding, embedding_backward
from .loss import cross_entropy, cross_entropy_backward
from .masks import causal
from .modules import named_dropout, named_linear, named_linear_backward
from .positions import sinusoidal_positions
from .sublayers import LayerOptions
from .transformer import transformer, transformer_backward


def embed(
    ids: Array, parameters: Parameters, name: str, options: LayerOptions, keep_masks: KeepMasks | None = None
) -> tuple[Array, Cache]:
    """x = drop(√d_model · W[ids] + PE), with the table `name`.weight.

    Args:
        ids: (B, T), integers.

    Returns:
        x, (B, T, E), and the cache for `embed_backward`. Source: Vaswani et al. 2017, sections 3.4 and 3.5.
    """
    ids = np.asarray(ids)
    require(ids.ndim == 2, f"{name}: ids must be (B, T), but have shape {ids.shape}")
    rows_BTE, looked_up = embedding(ids, parameter(parameters, f"{name}.weight"))
    T, E = rows_BTE.shape[1:]
    x_BTE = math.sqrt(E) * rows_BTE + sinusoidal_positions(T, E)
    x_BTE, dropped = named_dropout(x_BTE, options.dropout, keep_masks, f"{name}_dropout")
    return x_BTE, (name, E, looked_up, dropped)


def embed_backward(dx: Array, cache: Cache) -> Gradients:
    """Return the table's gradient: x is linear in W with slope √d_model, and the positions are constants."""
    name, E, looked_up, dropped = cache
    drows = math.sqrt(E) * dropout_backward(dx, dropped)
    return prefixed(name, {"weight": embedding_backward(drows, looked_up)})


def model_loss(
    src_ids: Array,
    tgt_ids: Array,
    labels: Array,
    parameters: Parameters,
    options: LayerOptions,
    *,
    src_pad_id: int,
    tgt_pad_id: int,
    label_smoothing: float = 0.0,
    keep_masks: KeepMasks | None = None,
) -> tuple[tuple[Array, Array], Cache]:
    """ℓ = cross_entropy(W_p Transformer(embed(src), embed(tgt)) + b_p, labels), without the padded labels.

    Padded source tokens are blocked in the encoder's and the decoder's attention, padded target tokens in the decoder's
    self-attention, which is causal as well.

    Args:
        src_ids: (B, S), integers.
        tgt_ids: (B, T), integers: the decoder's input.
        labels: (B, T), integers: what it should predict, tgt_ids moved on by one.
        parameters: src_embedding.weight (V_src, E), tgt_embedding.weight (V_tgt, E), transformer.* with
            torch.nn.Transformer's keys, projection.weight (V_tgt, E) and projection.bias (V_tgt,).
        options: with batch_first=True.
        src_pad_id, tgt_pad_id: the ids of padding.
        label_smoothing: as in `cross_entropy`.
        keep_masks: None is eval mode; else keyed src_embedding_dropout, tgt_embedding_dropout, transformer.encoder...

    Returns:
        (ℓ, logits (B, T, V_tgt)), and the cache for `model_loss_backward`. Source: Vaswani et al. 2017, figure 1.

    Raises:
        ValueError: the shapes disagree.
        KeyError: a parameter or keep-mask is missing.
        IndexError: an id is outside its vocabulary.
    """
    require(options.batch_first, "model_loss: ids are (B, T), so options must have batch_first=True")
    src_ids, tgt_ids = np.asarray(src_ids), np.asarray(tgt_ids)
    src_BSE, src_embedded = embed(src_ids, parameters, "src_embedding", options, keep_masks)
    tgt_BTE, tgt_embedded = embed(tgt_ids, parameters, "tgt_embedding", options, keep_masks)
    T = tgt_ids.shape[1]
    y_BTE, transformed = transformer(
        src_BSE,
        tgt_BTE,
        scope(parameters, "transformer"),
        options,
        tgt_mask=~causal(T, T),
        src_key_padding_mask=src_ids == src_pad_id,
        tgt_key_padding_mask=tgt_ids == tgt_pad_id,
        memory_key_padding_mask=src_ids == src_pad_id,
        keep_masks=masks_within(keep_masks, "transformer"),
    )
    logits_BTV, projected = named_linear(y_BTE, parameters, "projection")
    loss, compared = cross_entropy(
        logits_BTV.swapaxes(1, 2), labels, ignore_index=tgt_pad_id, label_smoothing=label_smoothing
    )
    return (loss, logits_BTV), (src_embedded, tgt_embedded, transformed, projected, compared)


def model_loss_backward(cache: Cache, dloss: float = 1.0) -> Gradients:
    """Return the gradient of every parameter, under its key."""
    src_embedded, tgt_embedded, transformed, projected, compared = cache
    dlogits_BVT, _ = cross_entropy_backward(np.asarray(dloss), compared)
    dy_BTE, of_projection = named_linear_backward(dlogits_BVT.swapaxes(1, 2), projected)
    dsrc_BSE, dtgt_BTE, of_transformer = transformer_backward(dy_BTE, transformed)
    embeddings = embed_backward(dsrc_BSE, src_embedded) | embed_backward(dtgt_BTE, tgt_embedded)
    return embeddings | prefixed("transformer", of_transformer) | of_projection
