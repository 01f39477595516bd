"""The backward pass: of what asks for it, again and again alike, and not twice."""

import re

import pytest
import torch

from reference_tests.agreement import assert_equal
from reference_tests.attention.tiled.others import builtin, draw, naive, tiled
from scratch_transformer.attention.tiled import backward, problem, products, workers
from scratch_transformer.attention.tiled.products import Way

pytestmark = pytest.mark.usefixtures("small_tiles")

B, H, T, S, D, DV = 2, 3, 7, 11, 5, 6


@pytest.fixture
def inputs():
    return [draw(B, H, T, D), draw(B, H, S, D), draw(B, H, S, DV), draw(H, 1, S)]


@pytest.mark.parametrize("which", [[0], [1], [2], [3], [0, 3], [1, 2]], ids=str)
def test_gradients_of_some(which, inputs):
    upstream = draw(B, H, T, DV)
    gradients = []
    for f in (tiled, builtin):
        given = [x.clone().requires_grad_(i in which) for i, x in enumerate(inputs)]
        f(*given).backward(upstream)
        gradients.append([x.grad for x in given])
    for i, (ours, theirs) in enumerate(zip(*gradients, strict=True)):
        assert (ours is None) == (theirs is None) == (i not in which)
        assert ours is None or torch.allclose(ours, theirs, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    "upstream", [lambda x: x.sum(), lambda x: x[0, 1, 2, 3], lambda x: x.transpose(1, 2).flatten(2).square().sum()]
)
def test_upstream_gradients_of_any_strides(upstream, inputs):
    given = [x.requires_grad_() for x in inputs]
    ours, theirs = (torch.autograd.grad(upstream(f(*given)), given) for f in (tiled, builtin))
    assert_equal(ours, theirs)


def test_again_and_again_alike(inputs):
    """To the last bit, though gradients of masks are sums over heads."""
    given = [x.requires_grad_() for x in inputs]
    out = tiled(*given, dropout_p=0.3)
    upstream = torch.randn_like(out)
    first, *others = (torch.autograd.grad(out, given, upstream, retain_graph=True) for _ in range(3))
    assert all(torch.equal(a, b) for other in others for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize("with_mask", [False, True])
def test_groups_of_heads_are_shared_out_unless_they_add_to_one_mask(with_mask, inputs, monkeypatch):
    """And the time they may take is that of five products, of which the forward pass has two."""
    seen = []
    run, in_turn = workers.run, workers.run_in_turn
    monkeypatch.setattr(workers, "run", lambda *args: seen.append(args[3]) or run(*args))
    monkeypatch.setattr(workers, "run_in_turn", lambda *args: seen.append("in turn") or in_turn(*args))
    given = [x.requires_grad_(i < 3 or with_mask) for i, x in enumerate(inputs)]
    blocks = -(-T // 8)  # of so few queries that reading the keys counts for more
    flops = 2 * B * H * blocks * problem.READING * S * (D + DV)
    out = tiled(*given)
    assert seen == [flops]
    seen.clear()
    out.sum().backward()
    assert seen == (["in turn"] if with_mask else [2.5 * flops])


def test_many_gradients_at_once(inputs):
    """Batched by autograd, as for a Jacobian: those of one after the other."""
    given = [x.requires_grad_() for x in inputs]
    out = tiled(*given)
    upstream = draw(2, *out.shape)
    together = torch.autograd.grad(out, given, upstream, is_grads_batched=True, retain_graph=True)
    one_by_one = [torch.autograd.grad(out, given, x, retain_graph=True) for x in upstream]
    assert_equal(list(together), [torch.stack(gradients) for gradients in zip(*one_by_one, strict=True)])


def test_a_row_sum_is_subtracted_before_the_product_is_rounded(monkeypatch):
    """Of values near 100, both are near 200, where bfloat16 numbers are 1 apart; the sum is that of a rounded dO."""
    monkeypatch.setattr(products, "way", lambda *_: Way.ROUNDED)
    query, key = (torch.zeros(1, 1, length, D, dtype=torch.bfloat16) for length in (3, 2))
    value, out, grad_out = ((x + draw(1, 1, length, DV)).bfloat16() for x, length in ((100.0, 2), (100.0, 3), (1.0, 3)))
    cut = problem.Problem.of(query, key, value, None, None, 0.0, None, None, 1.0)
    (block,) = cut.blocks()
    total = 3.0
    norms = torch.tensor([0.0, total]).expand(1, 1, 1, 3, 2)
    saved = backward.Saved(grad_out.unsqueeze(2), out.unsqueeze(2), norms)
    upstream = backward._Upstream(cut, block, saved, workers.Scratch(torch.float32, query.device))
    found = upstream._above_row_sum(slice(0, 2), torch.empty(1, 3, 2, dtype=torch.bfloat16))
    value, out, grad_out = value[0].double(), out[0].double(), (grad_out[0].float() / total).bfloat16().double()
    expected = grad_out @ value.mT - (grad_out * out).sum(-1, keepdim=True)
    assert found.dtype == torch.bfloat16
    assert (found - expected).abs().max() <= 2**-8 * expected.abs().max()


def test_numerically(inputs):
    """Against differences, with none of the other implementations in between."""
    query, key, value, mask = (x[:1, :2].requires_grad_() if x.dim() == 4 else x[:2].requires_grad_() for x in inputs)
    torch.autograd.gradcheck(lambda *x: tiled(*x, is_causal=True), (query, key, value, mask), fast_mode=True)


def test_no_second_derivative(inputs):
    given = [x.requires_grad_() for x in inputs]
    first = torch.autograd.grad(tiled(*given).square().sum(), given, create_graph=True)
    expected = torch.autograd.grad(naive(*given).square().sum(), given)
    assert_equal([x.detach() for x in first], list(expected))
    says = (
        "attention: the tiled algorithm has no second derivative; the naive one has: "
        'scaled_dot_product_attention(..., algorithm="naive"), or within `with use_algorithm("naive"):`'
    )
    with pytest.raises(RuntimeError, match=f"^{re.escape(says)}$"):
        torch.autograd.grad(first[0].sum(), given)
