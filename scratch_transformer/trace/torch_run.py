"""The same run on torch: what its modules take and return, by hooks on a copy, and what is between, by its functions.

torch's modules compute with fused functions, which show nothing of their inside. So what `layer_norm` or the attention
has in between is computed once more here, from the tensors that reached torch's own module, with torch's own functions.
The outputs of modules are those of torch's run itself.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from scratch_transformer.conformance import counterparts

Values = dict[str, Tensor]


def torch_values(builtin: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Values:
    """Every tensor of a run of torch's, by name; what a module returns has the module's, and the whole is "output"."""
    values: Values = {}
    if not isinstance(builtin, nn.Module):
        values |= _attention_function(*args, **kwargs)
        return values | {"output": builtin(*args, **kwargs)}
    for path, module in builtin.named_modules():

        def note(module: nn.Module, given: Any, named: Any, output: Any, path: str = path) -> None:
            bound = inspect.signature(module.forward).bind(*given, **named)
            bound.apply_defaults()
            first = output[0] if isinstance(output, tuple) else output
            inside = INSIDE.get(type(module), _nothing)(module, bound.arguments, output)
            prefix = f"{path}." if path else ""
            for name, tensor in inside.items():
                values[_free(values, prefix + name)] = tensor.detach().clone()
            if isinstance(first, Tensor):
                values[_free(values, path or "output")] = first.detach().clone()

        module.register_forward_hook(note, with_kwargs=True)
        if isinstance(module, LAYERS):
            _watch_sums(module, path, values)
    builtin(*args, **kwargs)
    return values


def _free(values: Values, name: str) -> str:
    again, unique = 2, name
    while unique in values:
        unique, again = f"{name}#{again}", again + 1
    return unique


# ---- Inside torch's modules ----

LAYERS = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)


def _watch_sums(layer: Any, path: str, values: Values) -> None:
    """What a layer adds up is what its normalizations take, or what it returns; `hidden` is what its dropout takes."""
    norms = [name for name in ("norm1", "norm2", "norm3") if hasattr(layer, name)]
    prefix = f"{path}." if path else ""

    def taken(name: str) -> Callable[..., None]:
        def note(module: nn.Module, given: tuple[Tensor, ...]) -> None:
            values[prefix + name] = given[0].detach().clone()

        return note

    for number, name in enumerate(norms, start=0 if layer.norm_first else 1):
        if number:
            getattr(layer, name).register_forward_pre_hook(taken(f"sum{number}"))
    if layer.norm_first:
        layer.register_forward_hook(lambda module, given, output: taken(f"sum{len(norms)}")(module, (output,)))
    layer.dropout.register_forward_pre_hook(taken("hidden"))


def _nothing(module: nn.Module, given: dict[str, Any], output: Any) -> Values:
    return {}


def _layer_norm(module: Any, given: dict[str, Any], output: Any) -> Values:
    x, dims = given["input"], tuple(range(-len(module.normalized_shape), 0))
    mean = torch.mean(x, dims, keepdim=True)
    variance = F.mse_loss(x, mean.expand_as(x), reduction="none").mean(dims, keepdim=True)
    return {
        "mean": mean, "centred": torch.sub(x, mean), "variance": variance,
        "normalized": F.layer_norm(x, module.normalized_shape, eps=module.eps),
    }  # fmt: skip


def _rms_norm(module: Any, given: dict[str, Any], output: Any) -> Values:
    x, dims = given["x"], tuple(range(-len(module.normalized_shape), 0))
    return {
        "mean_square": torch.linalg.vector_norm(x, dim=dims, keepdim=True).square()
        / math.prod(module.normalized_shape),
        "normalized": F.rms_norm(x, module.normalized_shape, eps=module.eps),
    }


def _batch_norm(module: Any, given: dict[str, Any], output: Any) -> Values:
    x, is_tracked = given["input"], module.running_mean is not None
    mean = module.running_mean if is_tracked else torch.mean(x, [dim for dim in range(x.dim()) if dim != 1])
    normalized = F.batch_norm(x, module.running_mean, module.running_var, training=not is_tracked, eps=module.eps)
    return {"centred": torch.sub(x, mean.view(-1, *[1] * (x.dim() - 2))), "normalized": normalized}


def _softmax(module: Any, given: dict[str, Any], output: Any) -> Values:
    dim = module.dim
    if dim is None:
        dim = 0 if given["input"].dim() in (0, 1, 3) else 1
    return _of_softmax(given["input"], dim)


def _of_softmax(x: Tensor, dim: int) -> Values:
    if x.numel() == 0:
        return {}
    maxima = torch.amax(x, dim, keepdim=True)
    return {
        "maxima": maxima, "exponentials": torch.exp(torch.sub(x, maxima)),
        "sums": torch.exp(torch.logsumexp(x, dim, keepdim=True) - maxima),
    }  # fmt: skip


def _cross_entropy(module: Any, given: dict[str, Any], output: Any) -> Values:
    x, target = given["input"], given["target"]
    options = {"weight": module.weight, "label_smoothing": module.label_smoothing, "reduction": "none"}
    return {
        "log_probabilities": F.log_softmax(x, 0 if x.dim() == 1 else 1),
        "losses": F.cross_entropy(x, target, ignore_index=module.ignore_index, **options),
    }


def _multihead_attention(module: Any, given: dict[str, Any], output: Any) -> Values:
    query, key, value = (given[name] for name in ("query", "key", "value"))
    if query.dim() == 2:
        query, key, value = query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0)
    elif not module.batch_first:
        query, key, value = query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1)
    W = module.in_proj_weight.chunk(3) if module._qkv_same_embed_dim else _separate_weights(module)
    b = (None, None, None) if module.in_proj_bias is None else module.in_proj_bias.chunk(3)
    q, k, v = (F.linear(x, W[i], b[i]) for i, x in enumerate((query, key, value)))
    values = {"w_q": q, "w_k": k, "w_v": v}
    mask, is_causal = _mask(module, given, len(q), q.shape[1], k.shape[1])
    if module.bias_k is not None:
        k, v = (
            torch.cat([x, extra.expand(len(x), -1, -1)], 1) for x, extra in ((k, module.bias_k), (v, module.bias_v))
        )
    if module.add_zero_attn:
        k, v = F.pad(k, (0, 0, 0, 1)), F.pad(v, (0, 0, 0, 1))
    if mask is not None:
        mask = F.pad(mask, (0, k.shape[1] - mask.shape[-1]))
    q, k, v = (x.unflatten(-1, (module.num_heads, -1)).transpose(1, 2) for x in (q, k, v))
    values |= {"query": q, "key": k, "value": v, **_attention_function(q, k, v, mask, is_causal=is_causal)}
    joined = values["heads"].permute(2, 0, 1, 3).flatten(2)  # (T, B, E), as torch's function has it
    values |= {"joined": joined, "joined_batch_first": joined.transpose(0, 1)}
    values["out_proj"] = F.linear(joined, module.out_proj.weight, module.out_proj.bias)
    if output[1] is not None:
        values["averaged_weights"] = output[1] if output[1].dim() == 3 else output[1].unsqueeze(0)
    return values


def _gated_feed_forward(module: Any, given: dict[str, Any], output: Any) -> Values:
    return {"hidden": counterparts.ACTIVATIONS[module.activation](module.gate_proj(given["x"]))}


def _causal_self_attention(module: Any, given: dict[str, Any], output: Any) -> Values:
    q, k, v, allowed = module.attended(**given)
    return _attention_function(q, k, v, allowed, enable_gqa=True)


def _separate_weights(module: Any) -> tuple[Tensor, Tensor, Tensor]:
    return module.q_proj_weight, module.k_proj_weight, module.v_proj_weight


def _mask(module: Any, given: dict[str, Any], B: int, T: int, S: int) -> tuple[Tensor | None, bool]:
    """Both masks of torch's call as one that is added to the scores; or that only the hint of a causal one counts."""
    attn_mask, padding = given["attn_mask"], given["key_padding_mask"]
    if given["is_causal"] and padding is None and not given["need_weights"]:
        return None, True
    added = None
    for mask, shape in ((attn_mask, (-1, module.num_heads, T, S)), (padding, (-1, 1, 1, S))):
        if mask is None:
            continue
        if mask.dtype == torch.bool:
            mask = torch.zeros_like(mask, dtype=given["query"].dtype).masked_fill(mask, -torch.inf)
        mask = mask.expand(module.num_heads, T, S) if mask is attn_mask and mask.dim() == 2 else mask
        shape = (1, 1, T, S) if mask.dim() == 2 and shape[1] != 1 else shape
        added = mask.reshape(shape) if added is None else added + mask.reshape(shape)
    return added, False


def _attention_function(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Values:  # fmt: skip
    """What is inside F.scaled_dot_product_attention: its arguments, and its output as `heads`."""
    options = {"enable_gqa": True} if enable_gqa else {}
    heads = F.scaled_dot_product_attention(query, key, value, attn_mask, 0.0, is_causal, scale=scale, **options)
    if enable_gqa:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
    scores = torch.matmul(query, key.mT) * (query.shape[-1] ** -0.5 if scale is None else scale)
    masked = scores
    if is_causal:
        masked = masked.masked_fill(
            torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1), -torch.inf
        )
    if attn_mask is not None:
        masked = masked.masked_fill(~attn_mask, -torch.inf) if attn_mask.dtype == torch.bool else masked + attn_mask
    return {
        "scores": scores, "masked_scores": masked, **_of_softmax(masked, -1),
        "weights": torch.softmax(masked, -1), "heads": heads,
    }  # fmt: skip


INSIDE: dict[type, Callable[[Any, dict[str, Any], Any], Values]] = {
    nn.LayerNorm: _layer_norm,
    nn.RMSNorm: _rms_norm,
    nn.BatchNorm1d: _batch_norm,
    nn.Softmax: _softmax,
    nn.CrossEntropyLoss: _cross_entropy,
    nn.MultiheadAttention: _multihead_attention,
    counterparts.GatedFeedForward: _gated_feed_forward,
    counterparts.CausalSelfAttention: _causal_self_attention,
}
