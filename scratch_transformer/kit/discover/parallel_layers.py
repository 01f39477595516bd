"""fairscale's layers that are spread over processes, in one process: torch's own."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


def linear(in_features: int, out_features: int, bias: bool = True, **options: Any) -> nn.Linear:
    """ColumnParallelLinear and RowParallelLinear. options: how the parts are put together, and how weights begin."""
    return nn.Linear(in_features, out_features, bias)


def embedding(num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, **options: Any) -> nn.Embedding:
    """ParallelEmbedding and VocabParallelEmbedding."""
    return nn.Embedding(num_embeddings, embedding_dim, padding_idx)


def _layers() -> dict[str, Any]:
    linears = dict.fromkeys(("ColumnParallelLinear", "RowParallelLinear"), linear)
    return {**linears, **dict.fromkeys(("ParallelEmbedding", "VocabParallelEmbedding"), embedding)}


def _processes() -> dict[str, Any]:
    """One process, with the number 0."""
    return {
        "get_model_parallel_world_size": lambda: 1,
        "get_model_parallel_rank": lambda: 0,
        "model_parallel_is_initialized": lambda: True,
        "initialize_model_parallel": lambda *sizes, **options: None,
    }


def _whole(x: Tensor) -> Tensor:
    """What is gathered from all processes, or given to all."""
    return x


def _passed() -> dict[str, Any]:
    names = ("gather_from", "scatter_to", "reduce_from", "copy_to")
    return {f"{name}_model_parallel_region": _whole for name in names}


PACKAGES = {
    **dict.fromkeys(("fairscale", "fairscale.nn", "fairscale.nn.model_parallel"), dict),
    "fairscale.nn.model_parallel.initialize": _processes,
    "fairscale.nn.model_parallel.layers": _layers,
    "fairscale.nn.model_parallel.mappings": _passed,
}
"""Of modules: what makes their contents."""
