"""Which letter each dimension of a tensor has, after where it is: S in the encoder, T in the decoder."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn import Module

from scratch_transformer import nn
from scratch_transformer.model import MultiHeadAttentionBlock
from scratch_transformer.trace.kinds import Kind

MEANINGS = {
    "B": "sentences",
    "S": "tokens of the source",
    "T": "tokens of the target",
    "d_model": "features of a token",
    "h": "heads",
    "d_k": "features of a head, d_model / h",
    "d_ff": "features within a feed-forward network",
    "V": "tokens of the vocabulary",
    "*": "any dimensions",
}
CROSS, SOURCE = ("cross_attention", "multihead_attn"), ("src_embed", "src_pos", "encoder")


def letters(kind: Kind, name: str, tensor: Tensor, traced: Any) -> tuple[str, ...]:
    """A letter for every dimension, or "*" for those that have none of their own."""
    attention = _attention(traced)
    found = kind.letters.split()
    if attention is None or "*" in found:
        return ("*",)
    if isinstance(attention, nn.MultiheadAttention):
        found = _in_memory(found, name, attention.batch_first)
    if len(found) == tensor.dim() + 1 and "B" in found:
        found.remove("B")
    if len(found) != tensor.dim():
        return ("*",)
    queries, keys = _lengths(name, traced)
    return tuple({"Q": queries, "K": keys}.get(letter, letter) for letter in found)


def _attention(traced: Any) -> Any:
    kinds = (nn.MultiheadAttention, MultiHeadAttentionBlock)
    modules = traced.modules() if isinstance(traced, Module) else ()
    return next((module for module in modules if isinstance(module, kinds)), None)


def _in_memory(found: list[str], name: str, batch_first: bool) -> list[str]:
    """torch's order, with tokens before sentences: always where the heads are joined, elsewhere unless batch_first."""
    is_joined = name.endswith(("joined", "out_proj"))
    if found[:2] == ["B", "Q"] and len(found) == 3 and found[-1] != "K" and (is_joined or not batch_first):
        return ["Q", "B", *found[2:]]
    return found


def _lengths(name: str, traced: Any) -> tuple[str, str]:
    """The lengths of the queries and of the keys."""
    parts = name.split(".")
    if any(part in CROSS for part in parts) or isinstance(traced, nn.MultiheadAttention | MultiHeadAttentionBlock):
        return "T", "S"
    is_source = any(part in SOURCE for part in parts)
    if is_source or isinstance(traced, nn.TransformerEncoder | nn.TransformerEncoderLayer):
        return "S", "S"
    return "T", "T"
