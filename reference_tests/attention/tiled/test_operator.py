"""The operator as torch's compiler, exporter, autocast and modes of recording see it."""

import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.testing import CompileCounterWithBackend
from torch.testing._internal.two_tensor import TwoTensor

from reference_tests.agreement import assert_agree, assert_equal
from reference_tests.attention.tiled.others import builtin, draw, tiled
from scratch_transformer.attention.tiled import operator, products
from scratch_transformer.attention.tiled.operator import tiled_attention, tiled_attention_backward

pytestmark = [
    pytest.mark.usefixtures("small_tiles"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # within torch's compiler itself
]

B, H, G, T, S, D, DV = 2, 4, 2, 7, 11, 5, 6


@pytest.fixture
def qkv():
    return [draw(B, H, T, D), draw(B, G, S, D), draw(B, G, S, DV)]


@pytest.fixture
def fresh_compiler():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.mark.parametrize("form", [None, "bool", "float"], ids=str)
@pytest.mark.parametrize("dropout_p", [0.0, 0.5])
def test_torchs_own_check_of_operators(form, dropout_p, qkv):
    """Schema, registration of the derivative, and shapes without data."""
    mask = {None: None, "bool": torch.rand(B, 1, T, S) < 0.6, "float": draw(1, H, 1, S)}[form]
    seed = torch.tensor([5]) if dropout_p else None
    arguments = (mask, seed, dropout_p, -3, 2, 0.4)
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(tiled_attention, (*(x.requires_grad_() for x in qkv), *arguments), test_utils=tests)
    qkv = [x.detach() for x in qkv]
    out, norms = tiled_attention(*qkv, *arguments)
    upstream = torch.randn_like(out)
    inputs = (upstream, out, norms, *qkv, *arguments, form == "float")
    torch.library.opcheck(tiled_attention_backward, inputs, test_utils=("test_schema", "test_faketensor"))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_shapes_and_dtypes_without_data(dtype):
    query, key, value = torch.zeros(B, H, T, D), torch.zeros(B, G, S, D), torch.zeros(B, G, S, DV)
    query, key, value = (x.to("meta", dtype) for x in (query, key, value))
    out, norms = tiled_attention(query, key, value, None, None, 0.0, None, None, 1.0)
    assert (out.shape, out.dtype) == ((B, H, T, DV), dtype)
    assert (norms.shape, norms.dtype) == ((B, H, T, 2), torch.float32)


@pytest.mark.parametrize("options", [{}, {"is_causal": True, "window": (3, None)}, {"mask": True}], ids=str)
def test_compiles_into_one_graph(options, qkv, fresh_compiler):
    mask = draw(B, 1, T, S) if "mask" in options else None
    options = {**options, "enable_gqa": True}
    options.pop("mask", None)
    compiled = torch.compile(tiled, backend="aot_eager", fullgraph=True)
    assert_agree(compiled, builtin, *qkv, mask, **options)


def test_compiled_dropout_drops_in_both_directions_alike(qkv, fresh_compiler):
    compiled = torch.compile(tiled, backend="aot_eager", fullgraph=True)
    assert_agree(compiled, tiled, *qkv, dropout_p=0.5, enable_gqa=True)


def test_one_compiled_graph_for_every_length(fresh_compiler):
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(tiled, backend=counter, fullgraph=True, dynamic=True)
    counts = []
    for length in (6, 9, 14):
        x = draw(B, H, length, D)
        assert_agree(compiled, builtin, x, x, x, is_causal=True)
        counts.append(counter.frame_count)
    assert counts[0] == counts[1] == counts[2]


def test_exports(qkv):
    class Attention(torch.nn.Module):
        def forward(self, query, key, value):
            return tiled(query, key, value, enable_gqa=True)

    exported = torch.export.export(Attention(), tuple(qkv)).module()
    others = [torch.randn_like(x) for x in qkv]
    assert_equal(exported(*others), builtin(*others, enable_gqa=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("mask_dtype", [None, torch.bool, torch.float32, torch.bfloat16], ids=str)
def test_autocast(dtype, mask_dtype, qkv):
    """The result in autocast's dtype, gradients in the inputs' own."""
    mask = None if mask_dtype is None else (draw(T, S) > -0.5).to(mask_dtype)
    query, key, value = (x.to(dtype).requires_grad_() for x in qkv)
    with torch.autocast("cpu", torch.bfloat16):
        ours = tiled(query, key, value, mask, enable_gqa=True)
        theirs = F.scaled_dot_product_attention(query, key, value, mask, enable_gqa=True)
        gradients = torch.autograd.grad(ours.float().sum(), (query, key, value))  # computed in its own dtype here too
    assert ours.dtype == theirs.dtype == torch.bfloat16
    eps = torch.finfo(torch.bfloat16).eps
    assert (ours - theirs).abs().max() <= 4 * eps * theirs.abs().max()
    expected = torch.autograd.grad(theirs.float().sum(), (query, key, value))
    for ours, theirs in zip(gradients, expected, strict=True):
        assert ours.dtype == dtype
        assert (ours - theirs).abs().max() <= 8 * eps * theirs.abs().max()


def test_autocast_leaves_float64_alone(qkv):
    with torch.autocast("cpu", torch.bfloat16):
        assert_agree(tiled, builtin, *qkv, enable_gqa=True)


def both_passes(query, key, value, mask, dropout_p=0.0):
    """Result, norms and gradients, straight from the two functions."""
    numbers = (mask, torch.tensor([5]) if dropout_p else None, dropout_p, None, 3, 0.4)
    out, norms = operator._forward(query, key, value, *numbers)
    with_mask = mask is not None and mask.is_floating_point()
    return out, norms, *operator._backward(out, out, norms, query, key, value, *numbers, with_mask)


@pytest.mark.parametrize("few_suits", [False, True])
@pytest.mark.parametrize("mask_dtype", [None, torch.bool, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_autocast_casts_nothing_within(dtype, mask_dtype, few_suits, qkv, monkeypatch):
    """To the last bit, in tiles and of few queries. And the dtypes are those that the compiler is told."""
    monkeypatch.setattr(products, "multiplies_bfloat16", lambda: few_suits)
    monkeypatch.setattr(products, "_pays", lambda: False)
    mask = None if mask_dtype is None else (draw(H, 1, S) > -0.5).to(mask_dtype)[None]
    query, key, value = (x.to(dtype) for x in qkv)
    for dropout_p in (0.0, 0.5):
        expected = both_passes(query, key, value, mask, dropout_p)
        for cast in (torch.bfloat16, torch.float16):
            with torch.autocast("cpu", cast):
                found = both_passes(query, key, value, mask, dropout_p)
            assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
        of_mask = mask_dtype if mask_dtype in (torch.float32, torch.bfloat16) else torch.float32
        assert [x.dtype for x in found] == [dtype, torch.float32, *[dtype] * 3, of_mask]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_modes_that_record_nothing(mode, qkv):
    qkv = [x.requires_grad_() for x in qkv]
    with mode():
        out = tiled(*qkv, enable_gqa=True)
        assert not out.requires_grad
        assert out.is_inference() == (mode is torch.inference_mode)
        further = tiled(out, out[:, :G], out[:, :G], enable_gqa=True)  # inputs made within the mode
        assert_equal(further, builtin(out, out[:, :G], out[:, :G], enable_gqa=True))
    assert_equal(out.clone(), builtin(*qkv, enable_gqa=True).detach())


def test_a_subclass_of_tensors_sees_both_operators_whole(qkv):
    """Two numbers in place of each. Though the gradient that comes back is a plain one."""
    others = [torch.randn_like(x) for x in qkv]
    upstream = draw(B, H, T, DV)
    pairs = [TwoTensor(a, b).requires_grad_() for a, b in zip(qkv, others, strict=True)]
    out = tiled(*pairs, enable_gqa=True)
    gradients = torch.autograd.grad(out, pairs, upstream)
    for which, plain in (("a", qkv), ("b", others)):
        plain = [x.requires_grad_() for x in plain]
        expected = builtin(*plain, enable_gqa=True)
        assert_equal(getattr(out.detach(), which), expected.detach())
        found = [getattr(x, which) for x in gradients]
        assert_equal(found, list(torch.autograd.grad(expected, plain, upstream)))


def test_nothing_of_inference_mode_is_left_behind(qkv):
    """Buffers are made in it; results and gradients are not."""
    with torch.inference_mode():
        tiled(*qkv, enable_gqa=True)
    qkv = [x.requires_grad_() for x in qkv]
    out = tiled(*qkv, enable_gqa=True)
    gradients = torch.autograd.grad(out.sum(), qkv)
    assert not any(x.is_inference() for x in (out, *gradients))
    out.detach().add_(1)


def test_the_result_may_be_changed_in_place(qkv):
    ours, theirs = ([x.clone().requires_grad_() for x in qkv] for _ in range(2))
    assert tiled(*qkv, enable_gqa=True).is_contiguous()
    out = tiled(*ours, enable_gqa=True) * 1
    out += 1
    expected = builtin(*theirs, enable_gqa=True) + 1
    gradients = (torch.autograd.grad(x.square().sum(), given) for x, given in ((out, ours), (expected, theirs)))
    assert_equal(*map(list, gradients))


def test_the_results_never_share_memory_with_the_arguments(qkv):
    query, key, value = (x[:1, :1, :1, :1] for x in qkv)
    before = [x.clone() for x in (query, key, value)]
    tiled(query, key, value).fill_(99)
    assert_equal([query, key, value], before)


def test_a_plain_call_does_not_load_torchs_compiler():
    """It takes 125 MiB, and seconds."""
    code = (
        "import sys, torch; from scratch_transformer.attention import scaled_dot_product_attention as attend\n"
        "x = torch.randn(1, 2, 5, 4, requires_grad=True)\n"
        "attend(x, x, x, algorithm='tiled').sum().backward()\n"
        "sys.exit('torch._dynamo' in sys.modules or x.grad is None)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
