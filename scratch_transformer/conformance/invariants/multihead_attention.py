"""What holds for MultiheadAttention, with the parameter names of torch.nn."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from scratch_transformer.conformance.component import Invariant
from scratch_transformer.conformance.draw import Draw
from scratch_transformer.conformance.invariants.setting import (
    DEFAULT,
    Build,
    Setting,
    difference,
    influence,
    named,
    order,
    prepared,
)


def _cross(draw: Draw, s: Setting) -> tuple[Tensor, Tensor, Tensor]:
    return draw.normal(s.B, s.T, s.E), draw.normal(s.B, s.S, s.E), draw.normal(s.B, s.S, s.E)


def _with_bias(build: Build, draw: Draw, s: Setting) -> Any:
    return prepared(build(**{**s.attention, "bias": True}), draw)


def rows_sum_to_one(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """Σⱼ Aᵢⱼ = 1 of the returned weights, of every head and of their mean, which is exactly 0 where blocked."""
    module, blocked = prepared(build(**s.attention), draw), draw.some(s.T, s.S)
    inputs = _cross(draw, s) if s.batch_first else tuple(x.transpose(0, 1) for x in _cross(draw, s))
    mask = s.blocking(blocked, draw)
    heads = module(*inputs, attn_mask=mask, average_attn_weights=False)[1]
    mean = module(*inputs, attn_mask=mask)[1]
    leak = heads[..., blocked].abs().sum().item() + mean[..., blocked].abs().sum().item()
    return max(difference(heads.sum(-1), 1.0), difference(mean.sum(-1), 1.0), leak)


def weights_do_not_change_the_output(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """The output is the same with need_weights and without, and the returned weights are the mean over the heads."""
    module, mask = prepared(build(**s.attention), draw), s.blocking(draw.some(s.T, s.S), draw)
    inputs = _cross(draw, s) if s.batch_first else tuple(x.transpose(0, 1) for x in _cross(draw, s))
    with_weights, mean = module(*inputs, attn_mask=mask)
    without, nothing = module(*inputs, attn_mask=mask, need_weights=False)
    per_head = module(*inputs, attn_mask=mask, average_attn_weights=False)[1]
    assert nothing is None, f"need_weights=False must return None for the weights, but returned {type(nothing)}"
    return max(difference(without, with_weights), difference(mean, per_head.mean(1)))


def reorders_with_its_input(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """f(P x) = P f(x): self-attention without positions knows no order."""
    attend, p = s.sequences(prepared(build(**s.attention), draw)), order(s.T, draw)
    x = draw.normal(s.B, s.T, s.E)
    return difference(attend(x[:, p], x[:, p], x[:, p]), attend(x, x, x)[:, p])


def the_order_of_keys_is_irrelevant(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """f(q, P k, P v) = f(q, k, v), with the columns of attn_mask permuted alike."""
    attend, p = s.sequences(prepared(build(**s.attention), draw)), order(s.S, draw)
    (q, k, v), mask = _cross(draw, s), s.blocking(draw.some(s.T, s.S), draw)
    return difference(attend(q, k[:, p], v[:, p], attn_mask=mask[:, p]), attend(q, k, v, attn_mask=mask))


def padded_keys_are_invisible(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """Nothing depends on keys and values that key_padding_mask blocks, in self-attention and across."""
    attend = s.sequences(prepared(build(**s.attention), draw))
    padded = draw.padding(s.B, s.S, s.padding)
    options = {"key_padding_mask": s.blocking(padded, draw), "need_weights": s.need_weights}
    hidden = padded.unsqueeze(-1)  # (B, S, 1)
    across = influence(lambda q, k, v: attend(q, k, v, **options), _cross(draw, s), (None, hidden, hidden))

    def valid(x: Tensor) -> Tensor:
        return attend(x, x, x, **options).masked_fill(hidden, 0.0)  # what padded queries say is nobody's business

    return max(across, influence(valid, (draw.normal(s.B, s.S, s.E),), (hidden,)))


def the_future_is_invisible(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """With a causal attn_mask, outputs 0 … i depend on the inputs 0 … i only."""
    attend, cut = s.sequences(prepared(build(**s.attention), draw)), (s.T + 1) // 2
    options = {"attn_mask": s.blocking(draw.future(s.T), draw), "need_weights": s.need_weights}
    later = (torch.arange(s.T, device=draw.device) >= cut).unsqueeze(-1)
    return influence(lambda x: attend(x, x, x, **options)[:, :cut], (draw.normal(s.B, s.T, s.E),), (later,))


def samples_stay_apart(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """f(q, k, v)[b] = f(q[b], k[b], v[b]), with the padding of sample b."""
    attend, inputs = s.sequences(prepared(build(**s.attention), draw)), _cross(draw, s)
    mask = s.blocking(draw.padding(s.B, s.S, s.padding), draw)
    each = zip(*(x.split(1) for x in (*inputs, mask)), strict=True)
    alone = [attend(*qkv, key_padding_mask=padding) for *qkv, padding in each]
    return difference(attend(*inputs, key_padding_mask=mask), torch.cat(alone))


def the_order_of_heads_is_irrelevant(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """The output is the same if the heads' blocks in W_q, W_k, W_v, their biases, and W_o are permuted alike."""
    module = prepared(build(**s.attention), draw)
    attend, inputs, p = s.sequences(module), _cross(draw, s), order(s.H, draw)
    before = attend(*inputs)
    with torch.no_grad():
        for rows in filter(lambda x: x is not None, (module.in_proj_weight, module.in_proj_bias)):
            rows.copy_(rows.unflatten(0, (3, s.H, s.D))[:, p].flatten(0, 2))
        columns = module.out_proj.weight
        columns.copy_(columns.unflatten(1, (s.H, s.D))[:, p].flatten(1))
    return difference(attend(*inputs), before)


def the_bias_of_keys_is_invisible(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """f does not depend on b_k: it adds qᵢ · b_k to all scores of row i."""
    module = _with_bias(build, draw, s)
    attend, inputs = s.sequences(module), _cross(draw, s)
    before = attend(*inputs)
    with torch.no_grad():
        module.in_proj_bias[s.E : 2 * s.E] += draw.normal(s.E)
    return difference(attend(*inputs), before)


def the_bias_of_values_passes_through(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """b_v + c gives f + W_o c, and b_o + c gives f + c: rows of A sum to one."""
    module = _with_bias(build, draw, s)
    attend, inputs, c = s.sequences(module), _cross(draw, s), draw.normal(s.E)
    before = attend(*inputs)
    with torch.no_grad():
        module.in_proj_bias[2 * s.E :] += c
        with_values = attend(*inputs)
        module.out_proj.bias += c
    passed = c @ module.out_proj.weight.T
    return max(difference(with_values, before + passed), difference(attend(*inputs), before + passed + c))


def rows_without_keys_are_the_bias(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """Output i = b_o where every key is blocked, weights and gradients are 0; the other outputs are as without it."""
    module = prepared(build(**s.attention), draw)
    attend, inputs = s.sequences(module), _cross(draw, s)
    lost = (torch.arange(s.T, device=draw.device) == int(draw.ids(below=s.T))).unsqueeze(-1)  # (T, 1)
    options = {"attn_mask": lost.repeat(1, s.S), "need_weights": s.need_weights}
    leak = influence(lambda *qkv: attend(*qkv, **options), inputs, (lost, None, None))
    bias = module.out_proj.bias if s.bias else torch.zeros(s.E, dtype=draw.dtype, device=draw.device)
    return max(leak, difference(attend(*inputs, **options), torch.where(lost, bias, attend(*inputs))))


MULTIHEAD_ATTENTION = (
    *named(
        rows_sum_to_one,
        weights_do_not_change_the_output,
        reorders_with_its_input,
        the_order_of_keys_is_irrelevant,
        padded_keys_are_invisible,
        the_future_is_invisible,
        samples_stay_apart,
        the_order_of_heads_is_irrelevant,
        the_bias_of_keys_is_invisible,
        the_bias_of_values_passes_through,
    ),
    Invariant("rows without keys are the bias", rows_without_keys_are_the_bias, torch_holds=False),  # torch: NaN
)
