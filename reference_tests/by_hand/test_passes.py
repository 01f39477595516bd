"""When passes by hand are taken, and that nothing but the time they take tells them from their equations."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from reference_tests.agreement import assert_equal, differentiate
from scratch_transformer import functional
from scratch_transformer.attention import naive
from scratch_transformer.by_hand import equations_alone, loss
from scratch_transformer.by_hand.passes import Passes, differentiated_by


def draw(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype)


def attended(mask=None, factors=None, is_causal=False):
    return lambda q, k, v: naive._attended(q, k, v, mask, factors, 0.7, is_causal)


def mask_of(*shape):
    """With a query that may attend to nothing."""
    mask = torch.rand(*shape) < 0.6
    mask[..., 1, :] = False
    return mask


# A function of tensors, and the tensors.
FUNCTIONS = {
    "relu": (functional.relu, lambda: [draw(3, 5)]),
    "sigmoid": (functional.sigmoid, lambda: [draw(3, 5)]),
    "silu": (functional.silu, lambda: [draw(3, 5)]),
    "gelu": (functional.gelu, lambda: [draw(3, 5)]),
    "gelu tanh": (lambda x: functional.gelu(x, "tanh"), lambda: [draw(3, 5)]),
    "layer norm": (
        lambda x, w, b: functional.layer_norm(x, (3, 5), w, b), lambda: [draw(4, 3, 5), draw(3, 5), draw(3, 5)],
    ),
    "layer norm, bare": (lambda x: functional.layer_norm(x, (5,)), lambda: [draw(4, 3, 5)]),
    "rms norm": (lambda x, w: functional.rms_norm(x, (3, 5), w, 0.1), lambda: [draw(4, 3, 5), draw(3, 5)]),
    "rms norm, bare": (lambda x: functional.rms_norm(x, (5,)), lambda: [draw(3, 5).t().contiguous().t()]),
    "rotary": (lambda x: functional.rotary(x, turns()), lambda: [draw(2, 3, 5, 6)]),
    "rotary, neighbours": (lambda x: functional.rotary(x, turns(), True), lambda: [draw(3, 2, 5, 6).transpose(0, 1)]),
    "loss": (lambda x: functional.cross_entropy(x, torch.tensor([1, 0, -100, 3])), lambda: [draw(4, 5)]),
    "smoothed loss": (
        lambda x: functional.cross_entropy(x, torch.tensor([1, 0, -100, 3]), reduction="none", label_smoothing=0.3),
        lambda: [draw(4, 5)],
    ),
    "loss of products": (
        lambda x, w: functional.linear_cross_entropy(x, w, torch.tensor([1, 0, -100, 3])),
        lambda: [draw(4, 3), draw(5, 3)],
    ),
    "smoothed loss of products": (
        lambda x, w: functional.linear_cross_entropy(
            x, w, torch.tensor([1, 0, -100, 3]), reduction="sum", label_smoothing=0.3
        ),
        lambda: [draw(4, 3), draw(5, 3)],
    ),
    "attention": (attended(), lambda: [draw(2, 3, 4, 6), draw(2, 3, 5, 6), draw(2, 3, 5, 7)]),
    "causal attention": (attended(is_causal=True), lambda: [draw(2, 3, 4, 6), draw(2, 3, 5, 6), draw(2, 3, 5, 7)]),
    "attention, heads apart in memory": (
        attended(mask_of(2, 1, 4, 5)), lambda: [draw(2, n, 3, d).transpose(1, 2) for n, d in ((4, 6), (5, 6), (5, 7))],
    ),
    "attention, float mask, dropped": (
        attended(draw(4, 5), (torch.rand(2, 3, 4, 5) < 0.5).double() * 2),
        lambda: [draw(2, 3, 4, 6), draw(2, 3, 5, 6), draw(2, 3, 5, 7)],
    ),
}  # fmt: skip
functions = pytest.mark.parametrize(("function", "make"), FUNCTIONS.values(), ids=FUNCTIONS)


def turns():
    return functional.rotary_turns(torch.arange(5), 6)


@functions
def test_passes_agree_with_their_equation(function, make):
    tensors = make()
    ours = differentiate(function, *tensors)
    assert "ByHand" in names_of(function(*(x.clone().requires_grad_() for x in tensors)))
    with equations_alone():
        assert_equal(ours, differentiate(function, *tensors))
        assert "ByHand" not in names_of(function(*(x.clone().requires_grad_() for x in tensors)))


@functions
def test_without_gradients_the_same_bits(function, make):
    tensors = make()
    recorded = function(*(x.clone().requires_grad_() for x in tensors))
    with torch.no_grad():
        assert torch.equal(function(*tensors), recorded)
    assert torch.equal(function(*tensors), recorded)


@functions
def test_derivatives(function, make):
    """Also where only some are wanted, and second ones, which are the equation's."""
    tensors = [x.requires_grad_() for x in make()]
    assert torch.autograd.gradcheck(function, tensors)
    assert torch.autograd.gradgradcheck(function, tensors)
    for wanted in tensors if len(tensors) > 1 else ():
        torch.autograd.grad(function(*(x if x is wanted else x.detach() for x in tensors)).sum(), wanted)


@functions
def test_a_backward_pass_leaves_everything_as_it_was(function, make):
    tensors = [x.requires_grad_() for x in make()]
    before = [x.detach().clone() for x in tensors]
    result = function(*tensors)
    upstream = torch.ones_like(result)
    twice = [torch.autograd.grad(result, tensors, upstream, retain_graph=True) for _ in range(2)]
    assert all(map(torch.equal, *twice)) and (upstream == 1).all()
    assert all(map(torch.equal, before, tensors))


@functions
def test_an_upstream_gradient_of_any_strides(function, make):
    tensors = [x.requires_grad_() for x in make()]
    result = function(*tensors)
    strided = draw(result.shape[::-1]).permute(tuple(reversed(range(result.dim()))))
    for upstream in (strided, torch.tensor(0.3, dtype=torch.float64).expand(result.shape)):
        found = [
            torch.autograd.grad(result, tensors, gradient, retain_graph=True)
            for gradient in (upstream, upstream.clone(memory_format=torch.contiguous_format))
        ]
        assert_equal(*found)


@functions
def test_many_gradients_at_once(function, make):
    """Batched by autograd, as for a Jacobian: those of one after the other."""
    given = [x.requires_grad_() for x in make()]
    result = function(*given)
    upstream = draw(3, *result.shape)
    together = torch.autograd.grad(result, given, upstream, is_grads_batched=True, retain_graph=True)
    one_by_one = [torch.autograd.grad(result, given, x, retain_graph=True) for x in upstream]
    assert_equal(list(together), [torch.stack(gradients) for gradients in zip(*one_by_one, strict=True)])
    assert not any(x.requires_grad for x in together)


def test_one_tensor_given_twice():
    x = draw(2, 3, 4, 6).requires_grad_()
    (first,) = torch.autograd.grad(attended()(x, x, x).square().sum(), x, create_graph=True)
    apart = [x.detach().clone().requires_grad_() for _ in range(3)]
    assert_equal(first, sum(torch.autograd.grad(attended()(*apart).square().sum(), apart)))
    assert torch.autograd.gradgradcheck(lambda x: attended()(x, x, x), x)


@functions
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # within torch
def test_forward_mode_and_transforms_are_the_equations(function, make):
    tensors = tuple(make())
    tangents = tuple(map(torch.randn_like, tensors))
    with equations_alone():
        expected = torch.func.jvp(function, tensors, tangents)
    assert_equal(torch.func.jvp(function, tensors, tangents), expected)
    with torch.autograd.forward_ad.dual_level():
        duals = [torch.autograd.forward_ad.make_dual(*pair) for pair in zip(tensors, tangents, strict=True)]
        assert_equal(tuple(torch.autograd.forward_ad.unpack_dual(function(*duals))), expected)


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_a_loss_in_many_pieces_is_the_loss(rows, monkeypatch):
    function, make = FUNCTIONS["smoothed loss"]
    logits = make()[0]
    whole = differentiate(function, logits)
    monkeypatch.setattr(loss, "CACHED", rows * logits.shape[1])
    assert_equal(differentiate(function, logits), whole)


@pytest.mark.parametrize("name", ["loss", "smoothed loss", "loss of products", "smoothed loss of products"])
def test_rows_of_very_different_size_lose_nothing(name):
    """Each has its own highest score: less that of all, e to the others is 0, and its logarithm infinite."""
    function, make = FUNCTIONS[name]
    first, *others = make()
    first = first * torch.tensor([1.0, 1e3, 1.0, 1e-3], dtype=torch.float64)[:, None] + 2e3 * torch.eye(
        4, first.shape[1]
    )
    ours = differentiate(function, first, *others)
    with equations_alone():
        assert_equal(ours, differentiate(function, first, *others))


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_rows_of_very_many_features_are_exact(name):
    """In float32, as PyTorch's own tests have them: a million squares, summed up one by one, are wrong by 2e-5."""
    x = torch.rand(2, 1 << 20) * torch.tensor([[1.0], [3.0]])
    expected = getattr(torch.nn.functional, name)(x.double(), x.shape[1:])
    error = (getattr(functional, name)(x, x.shape[1:]) - expected).abs().max()
    assert error < 1e-6


def test_relu_keeps_its_result_and_no_second_tensor():
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        y = functional.relu(draw(3, 5).requires_grad_())
    assert [x.data_ptr() for x in kept] == [y.data_ptr()]


class _Doubled(Passes):
    tensors, differentiable = 2, 1

    @staticmethod
    def forward(x, factor):
        return 2 * x * factor, ()

    @staticmethod
    def backward(grad, kept, x, factor):
        return (2 * grad * factor,)


def test_where_they_are_not_taken():
    calls = []

    @differentiated_by(_Doubled)
    def doubled(x, factor):
        calls.append(1)
        return x * factor + x * factor

    class Own(torch.Tensor):
        pass

    class Watching(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            return function(*args, **kwargs or {})

    x, factor = draw(3), draw(3)
    doubled(x, factor)
    assert not calls
    doubled(x.as_subclass(Own), factor)
    doubled(x.to("meta"), factor.to("meta"))
    doubled(draw(0), draw(0))
    torch.func.vmap(doubled)(x, factor)
    with torch.autocast("cpu"):
        doubled(x, factor)
    with Watching():
        doubled(x, factor)
    with equations_alone():
        doubled(x, factor)
    assert len(calls) == 7
    constant = factor.clone().requires_grad_()
    doubled(x, constant).sum().backward()  # what the passes have no gradient of
    assert len(calls) == 8
    assert_equal(constant.grad, 2 * x)


class _Power(Passes):
    """Its gradient is wrong by a factor of 10, so that it is told from the equation's."""

    tensors, differentiable = 2, 1

    @staticmethod
    def forward(x, factor, power):
        return factor * x**power, (x ** (power - 1),)

    @staticmethod
    def backward(grad, kept, x, factor, power):
        return (10 * grad * power * factor * kept[0],)


def test_who_computes_what():
    """The passes values and first derivatives; the equation those that are derived again, and many at once."""

    @differentiated_by(_Power)
    def powered(x, factor, power):
        return factor * x**power

    x, factor = draw(3).requires_grad_(), draw(3)
    y = powered(x, factor, 3)
    assert_equal(y, factor * x**3)
    upstream = draw(3)
    (first,) = torch.autograd.grad(y, x, upstream, retain_graph=True)
    derivative = 3 * factor * x**2
    assert_equal(first, 10 * derivative * upstream)
    (recorded,) = torch.autograd.grad(y, x, upstream, create_graph=True)
    assert_equal(recorded, derivative * upstream)
    assert_equal(torch.autograd.grad(recorded.sum(), x)[0], 6 * factor * x * upstream)
    (many,) = torch.autograd.grad(y, x, draw(2, 3), is_grads_batched=True)
    assert many.shape == (2, 3)
    with torch.no_grad():
        assert powered(x, factor, 3).grad_fn is None
    assert powered(x.detach(), factor, 3).grad_fn is None


class _Positive(Passes):
    tensors, differentiable, is_projection = 1, 1, True

    @staticmethod
    def forward(x):
        return x.clamp(min=0), ()

    @staticmethod
    def backward(grad, kept, x):
        return (grad * (x > 0),)


def test_a_projection_keeps_its_result_in_place_of_its_argument():
    kept = []
    x = draw(3, 5).requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        y = differentiated_by(_Positive)(lambda x: x.clamp(min=0))(x)
    assert [one.data_ptr() for one in kept] == [y.data_ptr()]
    assert_equal(torch.autograd.grad(y.sum(), x)[0], (x > 0).double())


def names_of(result):
    """The names of the operations that autograd has recorded."""
    found, waiting = "", [result.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None:
            found += node.name() + " "
            waiting += [before for before, _ in node.next_functions]
    return found
