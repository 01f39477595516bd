"""A7, A12 … A23: mistakes in multi-head attention around the core."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from reference_tests.mutants.mutant import Mutant, Patch, after_init, around
from scratch_transformer import functional, masks, nn

MHA = nn.MultiheadAttention
Original = Callable[..., Any]


def padded_queries(original: Original, mha: MHA, attn_mask: Any, key_padding_mask: Any) -> Tensor | None:
    """A7. The padding as a column, (B, 1, S, 1), instead of a row, (B, 1, 1, S)."""
    mask = original(mha, attn_mask, None)
    if key_padding_mask is not None:
        rows = masks.from_blocked(key_padding_mask, "key_padding_mask").reshape(-1, 1, key_padding_mask.shape[-1], 1)
        mask = masks.combine(mask, rows)
    return mask


from_blocked = masks.from_blocked


def inverted_in_place(mask: Tensor | None, name: str = "mask") -> Tensor | None:
    """A12."""
    is_boolean = mask is not None and mask.dtype == torch.bool
    return mask.logical_not_() if is_boolean else from_blocked(mask, name)


def viewed(original: Original, mha: MHA, x: Tensor) -> Tensor:
    """A13. (B, L, E) -> (B, H, L, D) by view alone, which mixes positions and heads."""
    return x.reshape(x.shape[0], mha.num_heads, x.shape[1], mha.head_dim)


def without_biases(mha: MHA) -> None:
    """A14."""
    mha.in_proj_bias = None
    mha.out_proj.bias = None


def without_bias_of(part: int) -> Patch:
    """A14. The parameter is there and never added: b_q, b_k or b_v."""

    def project(original: Original, mha: MHA, *inputs: Tensor) -> list[Tensor]:
        projected = list(original(mha, *inputs))
        if mha.in_proj_bias is not None:
            projected[part] = projected[part] - mha.in_proj_bias.chunk(3)[part]
        return projected

    return around(MHA, "_project", project)


def without_output_bias(original: Original, mha: MHA, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
    """A14."""
    output, weights = original(mha, *args, **kwargs)
    return output if mha.out_proj.bias is None else output - mha.out_proj.bias, weights


def output_bias_regardless(mha: MHA) -> None:
    """A15."""
    if mha.out_proj.bias is None:
        mha.out_proj.bias = Parameter(torch.zeros(mha.embed_dim))


def ones_for_keep(mask: Tensor | None, name: str = "mask") -> Tensor | None:
    """A16."""
    is_boolean = mask is not None and mask.dtype == torch.bool
    return (~mask).double() if is_boolean else from_blocked(mask, name)


def unchecked(original: Original, mha: MHA, embed_dim: int, num_heads: int, *args: Any, **kwargs: Any) -> None:
    """A19."""
    original(mha, embed_dim, 1 if embed_dim > 0 and num_heads > 0 else num_heads, *args, **kwargs)
    mha.num_heads, mha.head_dim = num_heads, embed_dim // num_heads


def query_for_key(original: Original, mha: MHA, query: Tensor, key: Tensor, value: Tensor) -> Any:
    """A21."""
    return original(mha, key, query, value)


def untransposed(original: Original, mha: MHA, query: Tensor, key: Tensor, value: Tensor) -> Any:
    """A21. x W instead of x Wᵀ, which fits only where W is square."""
    if not mha._qkv_same_embed_dim:
        return original(mha, query, key, value)
    weights = mha.in_proj_weight.chunk(3)
    biases = (None, None, None) if mha.in_proj_bias is None else mha.in_proj_bias.chunk(3)
    inputs = (query, key, value)
    return [functional.linear(x, W.T, b) for x, W, b in zip(inputs, weights, biases, strict=True)]


def merging(merge: Callable[[Tensor], Tensor]) -> Patch:
    """A23. The output projection of `merge(heads)`, heads (L, B, H, D), instead of heads.flatten(2)."""

    def change(mha: MHA) -> None:
        sizes = (mha.num_heads, mha.head_dim)
        mha.out_proj.register_forward_pre_hook(lambda module, args: merge(args[0].unflatten(-1, sizes)))

    return after_init(MHA, change)


def untransposed_heads(heads_LBHD: Tensor) -> Tensor:
    L, B, H, D = heads_LBHD.shape
    return heads_LBHD.permute(1, 2, 0, 3).reshape(B, L, H * D).transpose(0, 1)


def interleaved_heads(heads_LBHD: Tensor) -> Tensor:
    return heads_LBHD.transpose(-2, -1).flatten(2)


def mutant(id: str, mistake: str, *patches: Patch, caught_by: tuple[str, ...] = (), **more: Any) -> Mutant:
    return Mutant(id, mistake, "MultiheadAttention", patches, caught_by, **more)


MULTIHEAD = (
    mutant("A7",
           "Padding blocks rows, the padded queries, instead of columns, the padded keys.",
           around(MHA, "_merge_masks", padded_queries),
           caught_by=("definition", "padded keys are invisible"), crashes=True),
    mutant("A12",
           "The mask is inverted in place: the next call gets the opposite.",
           Patch(masks, "from_blocked", inverted_in_place),
           caught_by=("inputs", "weights do not change the output", "samples stay apart")),
    mutant("A13",
           "view(B, H, L, D) instead of view(B, L, H, D).transpose(1, 2): right only for L = 1 or H = 1.",
           around(MHA, "_split_heads", viewed),
           caught_by=("definition", "the future is invisible", "reorders with its input",
                      "the order of keys is irrelevant", "the bias of keys is invisible",
                      "rows without keys are the bias")),
    mutant("A14",
           "The projections have no biases, although bias=True.",
           after_init(MHA, without_biases), caught_by=("state", "definition")),
    mutant("A14-b_q",
           "b_q is a parameter, but never added.",
           without_bias_of(0), caught_by=("definition",)),
    mutant("A14-b_k",
           "b_k is a parameter, but never added.",
           without_bias_of(1),
           harmless="b_k adds the same to all scores of a row, which softmax ignores; appended keys have no b_k.",
           shows_in=lambda case: "add_bias_kv" in case.init or "add_zero_attn" in case.init),
    mutant("A14-b_v",
           "b_v is a parameter, but never added.",
           without_bias_of(2), caught_by=("definition", "the bias of values passes through")),
    mutant("A14-b_o",
           "b_o is a parameter, but never added.",
           around(MHA, "forward", without_output_bias), caught_by=("definition", "the bias of values passes through")),
    mutant("A15",
           "The output projection has a bias, although bias=False.",
           after_init(MHA, output_bias_regardless), caught_by=("state",)),
    mutant("A16",
           "1 for keep and 0 for blocked are added to the scores: blocked keys keep weight.",
           Patch(masks, "from_blocked", ones_for_keep),
           caught_by=("definition", "padded keys are invisible", "rows sum to one")),
    mutant("A17",
           "In training the returned weights are those after dropout; their rows don't sum to one.",
           harmless="torch.nn does the same: a note for whoever plots them, not a defect."),
    mutant("A18",
           "The weights are not dropped out in training, whatever `dropout` says.",
           after_init(MHA, lambda mha: setattr(mha, "dropout", 0.0)), caught_by=("definition",)),
    mutant("A19",
           "Nothing checks that num_heads divides embed_dim: a view fails later, in words about shapes.",
           around(MHA, "__init__", unchecked), caught_by=("errors",)),
    mutant("A21-swapped",
           "Keys are projected as queries and queries as keys: only self-attention, where they are the same, survives.",
           around(MHA, "_project", query_for_key), caught_by=("definition",), crashes=True),
    mutant("A21-untransposed",
           "x W instead of x Wᵀ.",
           around(MHA, "_project", untransposed), caught_by=("definition",)),
    mutant("A23-view",
           "(B, H, L, D) is viewed as (B, L, E) without transposing back to (B, L, H, D).",
           merging(untransposed_heads), caught_by=("definition", "the future is invisible", "reorders with its input")),
    mutant("A23-interleaved",
           "The columns are (D, H) instead of (H, D): a permutation of W_o's columns.",
           merging(interleaved_heads), caught_by=("definition", "the order of heads is irrelevant")),
)  # fmt: skip
