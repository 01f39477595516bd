"""Who attends to whom while a sentence is translated: as a picture, and as data for BertViz.

A map has a row for every query and a column for every key, and each row sums to one:

    encoder  source tokens attend to source tokens
    decoder  target tokens attend to themselves and those before
    cross    target tokens (rows) attend to source tokens (columns)

The target tokens are the decoder's input, which starts with bos: the row of a token is where the decoder looks when it
chooses the next one.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from scratch_transformer import masks
from scratch_transformer.model import MultiHeadAttentionBlock, Transformer
from scratch_transformer.translation.checkpoint import Run
from scratch_transformer.translation.decoding.modes import deciding

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURES = (".png", ".svg", ".pdf")
SIDES = {"encoder": ("source", "source"), "decoder": ("target", "target"), "cross": ("target", "source")}
"""Queries and keys of each kind of attention."""


@dataclass(frozen=True)
class AttentionMaps:
    """The weights of one translation: a tensor (h, queries, keys) for every layer."""

    source_tokens: list[str]
    target_tokens: list[str]
    encoder: list[Tensor]
    decoder: list[Tensor]
    cross: list[Tensor]


def of_translation(run: Run, source: Sequence[int], target: Sequence[int]) -> AttentionMaps:
    """The maps of a source (ids, ended by eos) and its translation (ids without bos and eos), of a run's model."""
    inputs = [run.target_tokenizer.bos_id, *target][: run.model.tgt_pos.seq_len]
    weights = attention_weights(run.model, list(source), inputs)
    return AttentionMaps(run.source_tokenizer.tokens(source), run.target_tokenizer.tokens(inputs), *weights)


def attention_weights(model: Transformer, source: list[int], inputs: list[int]) -> list[list[Tensor]]:
    """The weights (h, queries, keys) of every layer: of the encoder, of the decoder, and of the decoder's attention to
    the source, for one source and one input of the decoder.
    """
    blocks: list[list[Any]] = [
        [layer.self_attention_block for layer in model.encoder.layers],
        [layer.self_attention_block for layer in model.decoder.layers],
        [layer.cross_attention_block for layer in model.decoder.layers],
    ]
    device = next(model.parameters()).device
    with deciding(model), _kept([block for kind in blocks for block in kind]):
        src, tgt = torch.tensor([source], device=device), torch.tensor([inputs], device=device)
        model(src, tgt, None, masks.causal(len(inputs), device=device))
        return [[block.attention_weights[0].float().cpu() for block in kind] for kind in blocks]


@contextmanager
def _kept(blocks: list[MultiHeadAttentionBlock]) -> Iterator[None]:
    """The blocks keep their weights in here, and forget them afterwards."""
    before = [(block.keep_attention_weights, block.attention_weights) for block in blocks]
    for block in blocks:
        block.keep_attention_weights = True
    try:
        yield
    finally:
        for block, (keep, weights) in zip(blocks, before, strict=True):
            block.keep_attention_weights, block.attention_weights = keep, weights


# ---- As data ----


def to_bertviz(maps: AttentionMaps) -> dict[str, Any]:
    """The arguments of `bertviz.model_view` and `head_view` for an encoder-decoder, as lists.

    Each `*_attention` has the shape (layers, 1, h, queries, keys): with `torch.tensor(data["cross_attention"])`, and
    so on, `model_view(**data)` shows them.
    """
    weights = {kind: [layer.unsqueeze(0).tolist() for layer in getattr(maps, kind)] for kind in SIDES}
    attention = {f"{kind}_attention": layers for kind, layers in weights.items()}
    return {**attention, "encoder_tokens": maps.source_tokens, "decoder_tokens": maps.target_tokens}


def save(maps: AttentionMaps, path: Path) -> bool:
    """Write the maps: .json in BertViz's format; .png, .svg or .pdf as a picture.

    Returns:
        Whether it can be read: False if the font lacks characters, which are boxes then.

    Raises:
        ValueError: another kind of file.
    """
    if path.suffix == ".json":
        path.write_text(json.dumps(to_bertviz(maps), ensure_ascii=False), encoding="utf-8")
    elif path.suffix in PICTURES:
        with warnings.catch_warnings(record=True) as caught:
            warnings.filterwarnings("always", "Glyph .* missing")
            figure(maps).savefig(path, dpi=120)
        return not any("Glyph" in str(warning.message) for warning in caught)
    else:
        raise ValueError(f"attention maps: expected a file that ends in .json, {', '.join(PICTURES)}, not {path.name}")
    return True


# ---- As a picture ----


def figure(maps: AttentionMaps) -> Figure:
    """Three blocks, encoder, decoder and cross attention: a row for every layer, a column for every head."""
    from matplotlib.figure import Figure

    sizes = {"source": len(maps.source_tokens), "target": len(maps.target_tokens)}
    heights = [len(getattr(maps, kind)) * _inches(sizes[SIDES[kind][0]]) + 1.2 for kind in SIDES]
    width = len(maps.encoder[0]) * _inches(max(sizes.values())) + 2
    page = Figure(figsize=(width, sum(heights)), layout="constrained")
    parts: Any = page.subfigures(3, 1, height_ratios=heights)
    for part, kind in zip(parts, SIDES, strict=True):
        _draw(part, maps, kind)
    return page


def _inches(tokens: int) -> float:
    return max(1.3, 0.16 * tokens)


def _draw(part: Any, maps: AttentionMaps, kind: str) -> None:
    """The panels of one kind; tokens stand at the left and at the bottom only."""
    queries, keys = SIDES[kind]
    layers = getattr(maps, kind)
    panels = part.subplots(len(layers), len(layers[0]), squeeze=False, sharex=True, sharey=True)
    for i, layer in enumerate(layers):
        for j, weights in enumerate(layer):
            image = panels[i, j].imshow(weights.numpy(), cmap="Blues", vmin=0, vmax=1, aspect="equal")
            panels[i, j].set_title(f"layer {i + 1}, head {j + 1}", fontsize=7)
    for panel in panels[:, 0]:
        _label(panel.yaxis, getattr(maps, f"{queries}_tokens"))
    for panel in panels[-1]:
        _label(panel.xaxis, getattr(maps, f"{keys}_tokens"), rotation=90)
    part.suptitle(f"{kind} attention", fontsize=10)
    part.supylabel(f"query: {queries} token", fontsize=8)
    part.supxlabel(f"key: {keys} token", fontsize=8)
    part.colorbar(image, ax=panels, shrink=0.6, aspect=30).ax.tick_params(labelsize=6)


def _label(axis: Any, tokens: list[str], rotation: int = 0) -> None:
    axis.set_ticks(range(len(tokens)), [token.replace("$", r"\$") for token in tokens], fontsize=6, rotation=rotation)
