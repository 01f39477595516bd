"""The rename table between BERT's tensors and ours, and the two directions of using it.

BERT is the encoder of Vaswani et al. 2017 with other names, learned positions and GELU
(Devlin et al. 2019, section 3). Nothing is computed here: tensors are renamed, and the query, key and
value projections are stacked into the one matrix that `nn.MultiheadAttention` holds, so that
`to_bert(from_bert(state))` is `state` again, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

# Ours -> BERT's. Several names on the right are stacked along dimension 0, in this order.
EMBEDDINGS: dict[str, tuple[str, ...]] = {
    "word_embeddings.weight": ("embeddings.word_embeddings.weight",),
    "position_embeddings.weight": ("embeddings.position_embeddings.weight",),
    "token_type_embeddings.weight": ("embeddings.token_type_embeddings.weight",),
    "norm.weight": ("embeddings.LayerNorm.weight",),
    "norm.bias": ("embeddings.LayerNorm.bias",),
}
LAYER: dict[str, tuple[str, ...]] = {
    "encoder.layers.{i}.self_attn.in_proj_weight": (
        "encoder.layer.{i}.attention.self.query.weight",
        "encoder.layer.{i}.attention.self.key.weight",
        "encoder.layer.{i}.attention.self.value.weight",
    ),
    "encoder.layers.{i}.self_attn.in_proj_bias": (
        "encoder.layer.{i}.attention.self.query.bias",
        "encoder.layer.{i}.attention.self.key.bias",
        "encoder.layer.{i}.attention.self.value.bias",
    ),
    "encoder.layers.{i}.self_attn.out_proj.weight": ("encoder.layer.{i}.attention.output.dense.weight",),
    "encoder.layers.{i}.self_attn.out_proj.bias": ("encoder.layer.{i}.attention.output.dense.bias",),
    "encoder.layers.{i}.norm1.weight": ("encoder.layer.{i}.attention.output.LayerNorm.weight",),
    "encoder.layers.{i}.norm1.bias": ("encoder.layer.{i}.attention.output.LayerNorm.bias",),
    "encoder.layers.{i}.linear1.weight": ("encoder.layer.{i}.intermediate.dense.weight",),
    "encoder.layers.{i}.linear1.bias": ("encoder.layer.{i}.intermediate.dense.bias",),
    "encoder.layers.{i}.linear2.weight": ("encoder.layer.{i}.output.dense.weight",),
    "encoder.layers.{i}.linear2.bias": ("encoder.layer.{i}.output.dense.bias",),
    "encoder.layers.{i}.norm2.weight": ("encoder.layer.{i}.output.LayerNorm.weight",),
    "encoder.layers.{i}.norm2.bias": ("encoder.layer.{i}.output.LayerNorm.bias",),
}
# Left out on purpose: the pooler reads only the first token, for BERT's next-sentence task, and a mean
# pooled sentence never passes it; position_ids is the constant 0, 1, 2, ... kept as a buffer.
UNUSED: frozenset[str] = frozenset({"pooler.dense.weight", "pooler.dense.bias", "embeddings.position_ids"})


def rename_table(num_layers: int) -> dict[str, tuple[str, ...]]:
    """The whole table for an encoder of `num_layers` layers: our name -> BERT's names."""
    layers = {
        ours.format(i=i): tuple(name.format(i=i) for name in theirs)
        for i in range(num_layers)
        for ours, theirs in LAYER.items()
    }
    return EMBEDDINGS | layers


def from_bert(state: Mapping[str, Tensor], num_layers: int) -> dict[str, Tensor]:
    """BERT's `state_dict` under our names, ready for `SentenceEncoder.load_state_dict(strict=True)`.

    Raises:
        ValueError: a tensor of the table is absent, a tensor is neither in the table nor in `UNUSED`, or
            query, key and value differ in shape.
    """
    table = rename_table(num_layers)
    expected = {name for theirs in table.values() for name in theirs}
    missing, unknown = sorted(expected - set(state)), sorted(set(state) - expected - UNUSED)
    if missing or unknown:
        raise ValueError(
            f"not the tensors of a BERT encoder of {num_layers} layers: missing {shortened(missing)}; "
            f"unknown {shortened(unknown)}"
        )
    return {ours: _stack(theirs, state) for ours, theirs in table.items()}


def to_bert(state: Mapping[str, Tensor], num_layers: int) -> dict[str, Tensor]:
    """The inverse of `from_bert`, less the tensors of `UNUSED`: our `state_dict` under BERT's names.

    Raises:
        KeyError: a parameter of the table is absent.
    """
    return {
        name: part
        for ours, theirs in rename_table(num_layers).items()
        for name, part in zip(theirs, state[ours].chunk(len(theirs)), strict=True)
    }


def _stack(names: tuple[str, ...], state: Mapping[str, Tensor]) -> Tensor:
    """The named tensors one above the other; a single one as it is."""
    shapes = {name: tuple(state[name].shape) for name in names}
    if len(set(shapes.values())) > 1:  # unequal parts could still add up to the right height
        raise ValueError(f"query, key and value must have one shape, got {shapes}")
    return torch.cat([state[name] for name in names]) if len(names) > 1 else state[names[0]]


def shortened(names: list[str], limit: int = 4) -> str:
    """A readable list of at most `limit` names."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return (", ".join(names[:limit]) + more) or "none"
