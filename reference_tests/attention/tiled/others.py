"""Tiled attention, and the two that it is compared with: torch's, which is handed bands as masks, and the naive one."""

import functools

import torch
import torch.nn.functional as F

from reference_tests.agreement import assert_equal, differentiate
from scratch_transformer.attention import scaled_dot_product_attention

tiled = functools.partial(scaled_dot_product_attention, algorithm="tiled")
naive = functools.partial(scaled_dot_product_attention, algorithm="naive")


def builtin(
    query,
    key,
    value,
    attn_mask=None,
    dropout_p=0.0,
    is_causal=False,
    scale=None,
    enable_gqa=False,
    *,
    bottom_right=False,
    window=(None, None),
):
    """torch's function, with our further arguments."""
    is_lost = is_causal and (attn_mask is not None or (scale or 0) < 0)  # NaN: -inf is set first, and scaled then
    if bottom_right or window != (None, None) or is_lost:
        seen = visible(query.shape[-2], key.shape[-2], is_causal, bottom_right, window).to(query.device)
        attn_mask, is_causal = both(seen, attn_mask), False
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )


def visible(T, S, is_causal=False, bottom_right=False, window=(None, None)):
    """Which query may attend to which key, one by one."""
    shift = S - T if bottom_right else 0
    before, after = (S + T if side is None else side for side in window)
    after = 0 if is_causal else after
    return torch.tensor([[-before <= s - (t + shift) <= after for s in range(S)] for t in range(T)])


def both(seen, mask):
    """A mask that allows what is seen and what `mask` allows."""
    if mask is None:
        return seen
    return seen & mask if mask.dtype == torch.bool else mask.masked_fill(~seen, -torch.inf)


def assert_right(*args, **kwargs):
    """Results and all gradients are those of both others, in float64 to 1e-12."""
    ours = differentiate(tiled, *args, **kwargs)
    for other in (naive, builtin):
        assert_equal(ours, differentiate(other, *args, **kwargs))


def draw(*shape, device="cpu"):
    return torch.randn(*shape, dtype=torch.float64, device=device)
