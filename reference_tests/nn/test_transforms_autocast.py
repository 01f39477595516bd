"""Mixed precision: under autocast the results have the builtins' dtypes, and are as close as bfloat16 lets them be."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

from reference_tests.agreement import differentiate
from reference_tests.nn.examples import CASES, QUIET, draw, make, over
from scratch_transformer import nn
from scratch_transformer.attention import attention_weights, scaled_dot_product_attention

pytestmark = QUIET

BFLOAT16_EPS = torch.finfo(torch.bfloat16).eps
EVALUATIONS = [(component, case) for component, case in CASES if not case.training]


def under_autocast(function, device, dtype=torch.bfloat16):
    def run(*args, **kwargs):
        with torch.autocast(device.type, dtype):
            return function(*args, **kwargs)

    return run


def dtypes(tree):
    return tree_map_only(Tensor, lambda x: (x.dtype, x.shape), tree)


def errors(actual, golden):
    """The largest error of every tensor, and the size of what it should have been."""
    for a, g in zip(tree_leaves(actual), tree_leaves(golden), strict=True):
        if isinstance(g, Tensor) and g.numel() and g.isfinite().all():
            yield (a.double() - g).abs().max().item(), g.abs().max().item()


@over(EVALUATIONS)
def test_autocast(component, case, device):
    """Dtypes are equal; our error against float64 is at most twice the builtin's own, plus two roundings."""
    args, kwargs = draw(case, torch.float32, device)
    ours, builtin = (
        differentiate(under_autocast(module, device), *args, **kwargs)
        for module in make(component, case, torch.float32, device)
    )
    assert dtypes(ours) == dtypes(builtin)
    args, kwargs = tree_map_only(Tensor, lambda x: x.double() if x.is_floating_point() else x, (args, kwargs))
    golden = differentiate(make(component, case, torch.float64, device)[1], *args, **kwargs)["result"]
    pairs = zip(errors(ours["result"], golden), errors(builtin["result"], golden), strict=True)
    for (error, size), (builtin_error, _) in pairs:
        assert error <= 2 * builtin_error + 2 * BFLOAT16_EPS * size


@over([(component, case) for component, case in EVALUATIONS if component.name in ("Linear", "MultiheadAttention")])
def test_gradients_arrive_in_the_parameters_dtype(component, case, device):
    ours, _ = make(component, case, torch.float32, device)
    args, kwargs = draw(case, torch.float32, device)
    outcome = under_autocast(ours, device)(*args, **kwargs)
    sum(x.float().sum() for x in tree_leaves(outcome) if isinstance(x, Tensor)).backward()
    assert {p.grad.dtype for p in ours.parameters()} == {torch.float32}


FLOATS = (torch.float32, torch.bfloat16)


@pytest.mark.parametrize("dtypes_given", list(itertools.product(FLOATS, FLOATS, (None, torch.bool, *FLOATS))), ids=str)
def test_attention_of_mixed_dtypes_under_autocast(dtypes_given, device):
    query_dtype, key_dtype, mask_dtype = dtypes_given
    query = torch.randn(2, 3, 4, 8, device=device).to(query_dtype)
    key, value = (torch.randn(2, 3, 5, 8, device=device).to(key_dtype) for _ in range(2))
    mask = None if mask_dtype is None else (torch.randn(4, 5, device=device) > -0.5).to(mask_dtype)
    with torch.autocast(device.type, torch.bfloat16):
        ours = scaled_dot_product_attention(query, key, value, mask)
        builtin = F.scaled_dot_product_attention(query, key, value, mask)
    assert ours.dtype == builtin.dtype == torch.bfloat16
    assert (ours - builtin).abs().max() <= 4 * BFLOAT16_EPS * builtin.abs().max()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_a_float32_mask_goes_with_every_dtype(dtype, device):
    """`generate_square_subsequent_mask` makes float32 masks, whatever the model's dtype."""
    query, key, value = (torch.randn(2, 3, 4, 8, device=device).to(dtype) for _ in range(3))
    mask = nn.Transformer.generate_square_subsequent_mask(4, device=device, dtype=torch.float32)
    causal = scaled_dot_product_attention(query, key, value, is_causal=True)
    for attention in (scaled_dot_product_attention, F.scaled_dot_product_attention):
        result = attention(query, key, value, mask)
        assert result.dtype == dtype
        assert (result - causal).abs().max() <= 4 * torch.finfo(dtype).eps * causal.abs().max()
    assert attention_weights(query, key, mask).dtype == dtype


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_a_float32_mask_in_a_model_of_another_dtype(dtype, device):
    arguments = {"d_model": 8, "nhead": 2, "dim_feedforward": 5, "dropout": 0.0, "batch_first": True, "dtype": dtype}
    layers = [library.TransformerEncoderLayer(**arguments).to(device) for library in (nn, torch.nn)]
    layers[0].load_state_dict(layers[1].state_dict())
    x = torch.randn(2, 4, 8, device=device).to(dtype)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(4, device=device, dtype=torch.float32)
    ours, builtin = (layer(x, src_mask=mask) for layer in layers)
    assert ours.dtype == builtin.dtype == dtype
    assert (ours - builtin).abs().max() <= 8 * torch.finfo(dtype).eps * builtin.abs().max()
