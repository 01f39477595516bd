"""The embedding table."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter, init

from scratch_transformer import functional


class Embedding(Module):
    """Row `ids[i]` of a learned table for every i. Source: Vaswani et al. 2017, section 3.4.

    weight: (num_embeddings, embedding_dim), drawn from N(0, 1); row padding_idx starts at zero and gets no gradient.
    max_norm: rows that are looked up and are longer than this (in the norm_type-norm) are shortened to it, in place.
    scale_grad_by_freq: divide gradients by how often an id occurs in the batch.
    sparse: the gradient of weight is a sparse tensor of the rows looked up, as `torch.optim.SparseAdam` takes it.
    Drop-in for `torch.nn.Embedding`.

    Raises:
        AssertionError: padding_idx is outside the table, or _weight has another shape.
    """

    __constants__ = [
        "num_embeddings", "embedding_dim", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse",
    ]  # fmt: skip

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = _resolve_padding_idx(padding_idx, num_embeddings)
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        if _weight is None:
            table = torch.empty(num_embeddings, embedding_dim, device=device, dtype=dtype)
            self.weight = Parameter(table, requires_grad=not _freeze)
            self.reset_parameters()
        else:
            if tuple(_weight.shape) != (num_embeddings, embedding_dim):
                raise AssertionError(
                    f"Embedding: _weight must have shape {(num_embeddings, embedding_dim)}, not {tuple(_weight.shape)}"
                )
            self.weight = Parameter(_weight, requires_grad=not _freeze)

    def reset_parameters(self) -> None:
        """Draw a new table, the same as torch's for the same seed."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with torch.no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(self, input: Tensor) -> Tensor:
        """(*) integers -> (*, embedding_dim)."""
        if self.max_norm is not None:
            self._shorten_rows(input, self.max_norm)
        return functional.embedding(input, self.weight, self.padding_idx, self.scale_grad_by_freq, self.sparse)

    @torch.no_grad()
    def _shorten_rows(self, input: Tensor, max_norm: float) -> None:
        is_used = self.weight.new_zeros(self.num_embeddings, 1, dtype=torch.bool)
        functional.embedding(input, is_used)  # refuses bad ids before anything is changed
        is_used = is_used.index_fill(0, input.flatten().long(), True)
        norms = self.weight.norm(self.norm_type, dim=-1, keepdim=True)
        factors = torch.where(is_used & (norms > max_norm), max_norm / (norms + 1e-7), 1.0)  # 1e-7 as in torch
        self.weight.detach().mul_(factors)

    def extra_repr(self) -> str:
        parts = [f"{self.num_embeddings}, {self.embedding_dim}"]
        defaults = {"padding_idx": None, "max_norm": None, "norm_type": 2, "scale_grad_by_freq": False}
        parts += [
            f"{name}={getattr(self, name)}" for name, default in defaults.items() if getattr(self, name) != default
        ]
        return ", ".join([*parts, "sparse=True"] if self.sparse else parts)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """An Embedding with the given table, (num_embeddings, embedding_dim), frozen unless freeze=False.

        Raises:
            AssertionError: `embeddings` is not two-dimensional.
        """
        if embeddings.dim() != 2:
            raise AssertionError(
                f"Embedding: embeddings is expected to be 2-dimensional, but has shape {tuple(embeddings.shape)}"
            )
        return cls(
            embeddings.shape[0],
            embeddings.shape[1],
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
            _weight=embeddings,
            _freeze=freeze,
        )


def _resolve_padding_idx(padding_idx: int | None, num_embeddings: int) -> int | None:
    """A negative padding_idx counts from the end of the table."""
    if padding_idx is None:
        return None
    if not -num_embeddings <= padding_idx < num_embeddings:
        raise AssertionError(
            f"Embedding: padding_idx must be within num_embeddings={num_embeddings}, but got padding_idx={padding_idx}"
        )
    return padding_idx % num_embeddings
