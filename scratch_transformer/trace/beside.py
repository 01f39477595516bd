"""The same model in torch.nn: built from torch's own classes, with the weights of ours."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, ModuleList

from scratch_transformer import attention, model, nn
from scratch_transformer.conversion import to_torch

OURS = tuple(each for each in vars(nn).values() if isinstance(each, type) and each.__module__.startswith(nn.__name__))
LAYERS = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
STACKS = (nn.TransformerEncoder, nn.TransformerDecoder)
RENAMED = (
    (r"residual_connections\.0\.(norm|sum)", r"\g<1>1"),
    (r"residual_connections\.1\.(norm|sum)", r"\g<1>2"),
    (r"residual_connections\.2\.(norm|sum)", r"\g<1>3"),
    (r"self_attention\b", "self_attn"),
    (r"cross_attention\b", "multihead_attn"),
    (r"_attn\.w_o$", "_attn"),
    (r"_attn\.joined$", "_attn.joined_batch_first"),
    (r"feed_forward\.hidden", "hidden"),
    (r"feed_forward\.linear_", "linear"),
    (r"projection_layer\.proj", "projection_layer"),
    (r"(src|tgt)_embed\.embedding", r"\1_embed"),
)
"""What a name of the tutorials' model is called in torch's."""


def torch_name(name: str, traced: Any) -> str:
    """The name on torch's side of a tensor that has `name` on ours."""
    if isinstance(traced, model.Transformer):
        for pattern, torchs in RENAMED:
            name = re.sub(pattern, torchs, name)
    return name


def torch_beside(traced: Any) -> Callable[..., Any] | None:
    """torch's counterpart of a module or function of this package, in evaluation mode; None where torch has none.

    A module of somebody else's is copied, with torch's modules in the place of ours.
    """
    if traced is attention.scaled_dot_product_attention:
        function: Callable[..., Any] = torch.nn.functional.scaled_dot_product_attention
        return function
    if not isinstance(traced, Module) or isinstance(traced, _parts_of_the_tutorials_model()):
        return None
    return _built(traced).eval()


def _parts_of_the_tutorials_model() -> tuple[type, ...]:
    classes = [each for each in vars(model).values() if isinstance(each, type) and each.__module__ == model.__name__]
    return tuple(each for each in classes if each is not model.Transformer)


def _built(ours: Module) -> Module:
    if isinstance(ours, model.Transformer):
        return TorchModel(ours)
    if type(ours) not in OURS:
        return _copied(ours)
    built = _constructed(ours)
    like = next((tensor for tensor in ours.state_dict().values() if tensor.is_floating_point()), None)
    if like is not None:
        built.to(like)
    built.load_state_dict(ours.state_dict())
    return built


def _constructed(ours: Module) -> Module:
    """An instance of torch's class of the same name, with the same arguments."""
    builtin = getattr(torch.nn, type(ours).__name__)
    if isinstance(ours, nn.Transformer):
        stacks = {"custom_encoder": _built(ours.encoder), "custom_decoder": _built(ours.decoder)}
        return builtin(ours.d_model, ours.nhead, batch_first=ours.batch_first, **stacks)
    if isinstance(ours, STACKS):
        layers = [_built(layer) for layer in ours.layers]
        nested = {"enable_nested_tensor": False} if isinstance(ours, nn.TransformerEncoder) else {}
        stack = builtin(layers[0], len(layers), None if ours.norm is None else _built(ours.norm), **nested)
        stack.layers = ModuleList(layers)
        return stack
    if isinstance(ours, LAYERS):
        return builtin(**_arguments_of_layer(ours))
    names = [name for name in inspect.signature(builtin).parameters if hasattr(ours, name)]
    arguments = {name: getattr(ours, name) for name in names}
    if isinstance(ours, nn.MultiheadAttention):
        has = {"bias": ours.in_proj_bias, "add_bias_kv": ours.bias_k}
        arguments |= {name: tensor is not None for name, tensor in has.items()}
    elif "bias" in arguments:
        arguments["bias"] = ours.bias is not None
    return builtin(**arguments)


def _arguments_of_layer(layer: Any) -> dict[str, Any]:
    attends = layer.self_attn
    return {
        "d_model": attends.embed_dim, "nhead": attends.num_heads, "dim_feedforward": layer.linear1.out_features,
        "activation": _activation(layer.activation), "layer_norm_eps": layer.norm1.eps, "norm_first": layer.norm_first,
        "batch_first": attends.batch_first, "bias": layer.linear1.bias is not None,
    }  # fmt: skip


def _activation(ours: Any) -> Any:
    name = getattr(ours, "__name__", "")
    is_ours = getattr(ours, "__module__", "") == "scratch_transformer.functional"
    if isinstance(ours, OURS):
        return _built(ours)
    return getattr(torch.nn.functional, name) if is_ours else ours


def _copied(theirs: Module) -> Module:
    copied = copy.deepcopy(theirs)
    for name, child in theirs.named_children():
        setattr(copied, name, _built(child))
    return copied


class TorchModel(Module):
    """The tutorials' model from torch's classes: two embeddings, the stacks of torch.nn.Transformer, a linear layer.

    torch has no positions: the table is the one of `ours`. noted: what no module of torch's returns, by name.
    """

    def __init__(self, ours: model.Transformer) -> None:
        super().__init__()
        block, norm_first = ours.encoder.layers[0], ours.encoder.layers[0].residual_connections[0].norm_first
        sizes = {
            "d_model": ours.src_embed.d_model, "nhead": block.self_attention_block.h,
            "dim_feedforward": block.feed_forward_block.linear_1.out_features, "dropout": 0.0,
        }  # fmt: skip
        options = {**sizes, "batch_first": True, "norm_first": norm_first}
        self.num_heads = sizes["nhead"]
        self.encoder = torch.nn.TransformerEncoder(
            torch.nn.TransformerEncoderLayer(**options), len(ours.encoder.layers),
            _norm(ours.encoder.norm), enable_nested_tensor=False,
        )  # fmt: skip
        self.decoder = torch.nn.TransformerDecoder(
            torch.nn.TransformerDecoderLayer(**options), len(ours.decoder.layers), _norm(ours.decoder.norm)
        )
        _set_eps(self, ours)
        self.src_embed = torch.nn.Embedding.from_pretrained(ours.src_embed.embedding.weight)
        self.tgt_embed = torch.nn.Embedding.from_pretrained(ours.tgt_embed.embedding.weight)
        proj = ours.projection_layer.proj
        self.projection_layer = torch.nn.Linear(proj.in_features, proj.out_features)
        self.to(proj.weight)
        stacks = to_torch(ours.state_dict())
        outside = {f"projection_layer.{name}": tensor for name, tensor in proj.state_dict().items()}
        embeddings = {f"{side}_embed.weight": getattr(self, f"{side}_embed").weight for side in ("src", "tgt")}
        self.load_state_dict({**stacks, **outside, **embeddings})
        self.positions = {"src": ours.src_pos.pe, "tgt": ours.tgt_pos.pe}
        self.noted: dict[str, Tensor] = {}

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None
    ) -> Tensor:
        """Ids (B, S) and (B, T), masks as `model.Transformer` takes them -> logits (B, T, V)."""
        S, T = src.shape[1], tgt.shape[1]
        memory = self.encoder(self._embed("src", src), mask=self._blocked(src_mask, src, S, S))
        decoded = self.decoder(
            self._embed("tgt", tgt), memory, tgt_mask=self._blocked(tgt_mask, src, T, T),
            memory_mask=self._blocked(src_mask, src, T, S),
        )  # fmt: skip
        logits: Tensor = self.projection_layer(decoded)
        return logits

    def _embed(self, side: str, ids: Tensor) -> Tensor:
        embedding = getattr(self, f"{side}_embed")
        scaled = torch.mul(embedding(ids), embedding.embedding_dim**0.5)
        positions = self.positions[side].narrow(-2, 0, ids.shape[1])
        placed = torch.add(scaled, positions)
        self.noted |= {
            f"{side}_embed.scaled": scaled, f"{side}_pos.positions": positions, f"{side}_pos.sum": placed,
        }  # fmt: skip
        return placed

    def _blocked(self, mask: Tensor | None, ids: Tensor, queries: int, keys: int) -> Tensor | None:
        """A mask in the tutorials' convention as torch's for every head: (B · h, queries, keys), True = may not."""
        if mask is None:
            return None
        return (mask == 0).expand(len(ids), self.num_heads, queries, keys).flatten(0, 1)


def _norm(ours: model.LayerNormalization | None) -> torch.nn.LayerNorm | None:
    return None if ours is None else torch.nn.LayerNorm(ours.alpha.shape, eps=ours.eps)


def _set_eps(theirs: Module, ours: model.Transformer) -> None:
    """Every ε of the layers' normalizations, which are at hand by number."""
    for stack in ("encoder", "decoder"):
        for built, block in zip(getattr(theirs, stack).layers, getattr(ours, stack).layers, strict=True):
            for number, residual in enumerate(block.residual_connections, start=1):
                getattr(built, f"norm{number}").eps = residual.norm.eps
