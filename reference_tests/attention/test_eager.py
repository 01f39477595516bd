"""When a kernel's operator may be passed by: only where nobody but autograd could tell. Needs no Triton and no GPU."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from scratch_transformer.attention.eager import Eager, is_plain


@pytest.fixture(scope="module")
def scaled():
    """x · w² as an operator, which counts the calls of the operator and of the function."""
    counts = {"function": 0, "operator": 0}

    def function(x, w, factor):
        counts["function"] += 1
        return x * w**2 * factor

    def as_operator(x, w, factor):
        counts["operator"] += 1
        return x * w**2 * factor

    def setup_context(ctx, inputs, output):
        x, w, ctx.factor = inputs
        ctx.save_for_backward(x, w)

    def gradients(ctx, grad):
        x, w = ctx.saved_tensors
        return grad * w**2 * ctx.factor, grad * 2 * x * w * ctx.factor, None

    schema = "(Tensor x, Tensor w, float factor) -> Tensor"
    operator = torch.library.custom_op("scratch_transformer_tests::scaled", as_operator, mutates_args=(), schema=schema)
    operator.register_fake(lambda x, w, factor: torch.empty_like(x))
    operator.register_autograd(gradients, setup_context=setup_context)
    return Eager(operator, function, setup_context, gradients, tensors=2), counts


@pytest.fixture
def call(scaled):
    eager, counts = scaled
    counts.update(function=0, operator=0)
    return eager, counts


def inputs(**options):
    return torch.randn(3, dtype=torch.float64, **options), torch.randn(3, dtype=torch.float64, **options)


def test_a_plain_call_goes_straight_to_the_function(call):
    eager, counts = call
    x, w = inputs()
    torch.testing.assert_close(eager(x, w, 3.0), 3 * x * w**2, rtol=1e-12, atol=0)
    assert counts == {"function": 1, "operator": 0}


def test_gradients_are_autograds_and_without_them_nothing_is_recorded(call):
    eager, counts = call
    x, w = inputs(requires_grad=True)
    out = eager(x, w, 3.0)
    for grad, expected in zip(torch.autograd.grad(out.sum(), (x, w)), (3 * w**2, 6 * x * w), strict=True):
        torch.testing.assert_close(grad, expected, rtol=1e-12, atol=0)
    with torch.no_grad():
        assert not eager(x, w, 3.0).requires_grad
    assert counts == {"function": 2, "operator": 0}
    assert eager(torch.nn.Parameter(x), w, 3.0).requires_grad


class Seen(TorchDispatchMode):
    """Collects the names of operators."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


def test_who_looks_at_operators_sees_one(call):
    eager, counts = call
    with Seen() as seen:
        eager(*inputs(), 3.0)
    assert any("scaled" in name for name in seen.names)
    assert counts["function"] == 0
    with FakeTensorMode():
        assert eager(*inputs(), 3.0).shape == (3,)
    assert counts["function"] == 0


def test_compiled_graphs_see_the_operator(call):
    eager, counts = call
    graphs = []

    def backend(graph, example):
        graphs.append([str(node.target) for node in graph.graph.nodes])
        return graph.forward

    x, w = inputs()
    compiled = torch.compile(lambda x, w: eager(x, w, 3.0), backend=backend, fullgraph=True)
    torch.testing.assert_close(compiled(x, w), 3 * x * w**2)
    assert any("scaled" in name for name in graphs[0])
    assert counts["function"] == 0


class Own(torch.Tensor):
    """A subclass, which may do as it likes with operators."""


def test_what_is_plain():
    x, w = inputs()
    assert is_plain(x, None, torch.nn.Parameter(w))
    assert not is_plain(x, w.as_subclass(Own))
    seen = []
    torch.func.vmap(lambda y: seen.append(is_plain(y)) or y)(x)
    assert seen == [False]


def test_what_has_no_data_is_not_computed():
    assert not is_plain(torch.zeros(3, device="meta"))
