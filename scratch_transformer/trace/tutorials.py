"""The tutorials' model, and each of its parts, from torch's own classes, with the weights of ours."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, ModuleList, Parameter

from scratch_transformer import model

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Adapt = Callable[..., Arguments]

RENAMED = (
    (r"residual_connections\.0\.(norm|sum)", r"\g<1>1"),
    (r"residual_connections\.1\.(norm|sum)", r"\g<1>2"),
    (r"residual_connections\.2\.(norm|sum)", r"\g<1>3"),
    (r"self_attention\b", "self_attn"),
    (r"cross_attention\b", "multihead_attn"),
    (r"feed_forward\.hidden", "hidden"),
    (r"feed_forward\.linear_", "linear"),
    (r"\bjoined$", "joined_batch_first"),
    (r"(^|\.)(w_o|scaled|(?<=_pos\.)sum)$", ""),  # what the module returns
)
"""What a name of ours is called on torch's side."""


def torch_name(name: str, traced: Module) -> str:
    """The name on torch's side of a tensor that has `name` on ours, in a trace of `traced`."""
    if isinstance(traced, model.PositionalEncoding) and name == "sum":
        return "output"
    for pattern, theirs in RENAMED:
        name = re.sub(pattern, theirs, name)
    return name or "output"


def counterpart(ours: Module) -> tuple[Module, Adapt] | None:
    """torch's module for one of `model.py`, and what makes its arguments of ours; None for a residual connection."""
    if type(ours) not in _COUNTERPARTS:
        return None
    build, adapt = _COUNTERPARTS[type(ours)]
    heads = next((m.h for m in ours.modules() if isinstance(m, model.MultiHeadAttentionBlock)), 1)
    return build(ours), lambda *args, **kwargs: adapt(heads, *args, **kwargs)


# ---- Modules ----


class _Embeddings(Module):
    """Rows of a table, times √d_model."""

    def __init__(self, ours: model.InputEmbeddings) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding.from_pretrained(ours.embedding.weight.detach())

    def forward(self, ids: Tensor) -> Tensor:
        return torch.mul(self.embedding(ids), self.embedding.embedding_dim**0.5)


class _Positions(Module):
    """torch has no positions: the table is ours, and torch adds it."""

    def __init__(self, ours: model.PositionalEncoding) -> None:
        super().__init__()
        self.table = ours.pe.detach()
        self.positions = torch.nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return torch.add(x, self.positions(self.table.narrow(-2, 0, x.shape[-2])))


class _Model(Module):
    """Embeddings, positions, the stacks of torch.nn.Transformer, and a linear layer."""

    def __init__(self, ours: model.Transformer) -> None:
        super().__init__()
        self.src_embed, self.tgt_embed = _Embeddings(ours.src_embed), _Embeddings(ours.tgt_embed)
        self.src_pos, self.tgt_pos = _Positions(ours.src_pos), _Positions(ours.tgt_pos)
        self.encoder, self.decoder = _encoder(ours.encoder), _decoder(ours.decoder)
        self.projection_layer = _projection(ours.projection_layer)

    def forward(self, src: Tensor, tgt: Tensor, src_mask: Any, memory_mask: Any, tgt_mask: Any) -> Tensor:
        memory = self.encoder(self.src_pos(self.src_embed(src)), mask=src_mask)
        decoded = self.decoder(
            self.tgt_pos(self.tgt_embed(tgt)), memory, tgt_mask=tgt_mask, memory_mask=memory_mask
        )  # fmt: skip
        logits: Tensor = self.projection_layer(decoded)
        return logits


def _linear(ours: Any) -> torch.nn.Linear:
    built = torch.nn.Linear(ours.in_features, ours.out_features, ours.bias is not None)
    built.weight, built.bias = ours.weight, ours.bias
    return built


def _norm(ours: Any) -> torch.nn.LayerNorm:
    built = torch.nn.LayerNorm(ours.alpha.shape, eps=ours.eps)
    built.weight, built.bias = ours.alpha, ours.bias
    return built


def _attention(ours: Any) -> torch.nn.MultiheadAttention:
    built = torch.nn.MultiheadAttention(ours.w_q.in_features, ours.h, bias=ours.w_q.bias is not None, batch_first=True)
    parts = (ours.w_q, ours.w_k, ours.w_v)
    built.in_proj_weight = Parameter(torch.cat([part.weight for part in parts]).detach())
    built.out_proj.weight, built.out_proj.bias = ours.w_o.weight, ours.w_o.bias
    if built.in_proj_bias is not None:
        built.in_proj_bias = Parameter(torch.cat([part.bias for part in parts]).detach())
    return built


def _feed_forward(ours: Any) -> Module:
    parts = {"linear_1": _linear(ours.linear_1), "hidden": torch.nn.ReLU(), "linear_2": _linear(ours.linear_2)}
    return torch.nn.Sequential(OrderedDict(parts))


def _projection(ours: Any) -> Module:
    return torch.nn.Sequential(OrderedDict(proj=_linear(ours.proj)))


def _layer(builtin: Callable[..., Module], block: Any) -> Module:
    inner, outer = block.feed_forward_block.linear_1, block.feed_forward_block.linear_2
    built: Any = builtin(
        inner.in_features, block.self_attention_block.h, inner.out_features, batch_first=True,
        norm_first=block.residual_connections[0].norm_first,
    )  # fmt: skip
    built.self_attn, built.linear1, built.linear2 = (
        _attention(block.self_attention_block),
        _linear(inner),
        _linear(outer),
    )
    if hasattr(block, "cross_attention_block"):
        built.multihead_attn = _attention(block.cross_attention_block)
    for number, residual in enumerate(block.residual_connections, start=1):
        setattr(built, f"norm{number}", _norm(residual.norm))
    return built


def _encoder_layer(block: Any) -> Module:
    return _layer(torch.nn.TransformerEncoderLayer, block)


def _decoder_layer(block: Any) -> Module:
    return _layer(torch.nn.TransformerDecoderLayer, block)


def _encoder(ours: Any) -> Module:
    layers = [_encoder_layer(block) for block in ours.layers]
    norm = None if ours.norm is None else _norm(ours.norm)
    built = torch.nn.TransformerEncoder(layers[0], len(layers), norm, enable_nested_tensor=False)  # type: ignore[arg-type]
    built.layers = ModuleList(layers)
    return built


def _decoder(ours: Any) -> Module:
    layers = [_decoder_layer(block) for block in ours.layers]
    norm = None if ours.norm is None else _norm(ours.norm)
    built = torch.nn.TransformerDecoder(layers[0], len(layers), norm)  # type: ignore[arg-type]
    built.layers = ModuleList(layers)
    return built


# ---- Arguments ----


def _blocked(mask: Tensor | None, heads: int, queries: Tensor, keys: Tensor) -> Tensor | None:
    """A mask in the tutorials' convention as torch's for every head: (B · h, T, S), True = may not attend."""
    if mask is None:
        return None
    return (mask == 0).expand(len(queries), heads, queries.shape[1], keys.shape[1]).flatten(0, 1)


def _same(heads: int, *args: Any) -> Arguments:
    return args, {}


def _of_model(heads: int, src: Tensor, tgt: Tensor, src_mask: Any = None, tgt_mask: Any = None) -> Arguments:
    masks = [
        _blocked(mask, heads, *ids) for mask, *ids in ((src_mask, src, src), (src_mask, tgt, src), (tgt_mask, tgt, tgt))
    ]
    return (src, tgt, *masks), {}


def _of_encoder(heads: int, x: Tensor, mask: Any = None) -> Arguments:
    return (x, _blocked(mask, heads, x, x)), {}


def _of_encoder_block(heads: int, x: Tensor, src_mask: Any = None) -> Arguments:
    return _of_encoder(heads, x, src_mask)


def _of_decoder(
    heads: int, x: Tensor, encoder_output: Tensor, src_mask: Any = None, tgt_mask: Any = None
) -> Arguments:  # fmt: skip
    memory = encoder_output
    return (x, memory, _blocked(tgt_mask, heads, x, x), _blocked(src_mask, heads, x, memory)), {}


def _of_attention(heads: int, q: Tensor, k: Tensor, v: Tensor, mask: Any = None) -> Arguments:
    return (q, k, v), {"attn_mask": _blocked(mask, heads, q, k), "need_weights": False}


_COUNTERPARTS: dict[type, tuple[Callable[[Any], Module], Adapt]] = {
    model.InputEmbeddings: (_Embeddings, _same),
    model.PositionalEncoding: (_Positions, _same),
    model.LayerNormalization: (_norm, _same),
    model.FeedForwardBlock: (_feed_forward, _same),
    model.MultiHeadAttentionBlock: (_attention, _of_attention),
    model.EncoderBlock: (_encoder_layer, _of_encoder_block),
    model.Encoder: (_encoder, _of_encoder),
    model.DecoderBlock: (_decoder_layer, _of_decoder),
    model.Decoder: (_decoder, _of_decoder),
    model.ProjectionLayer: (_projection, _same),
    model.Transformer: (_Model, _of_model),
}
