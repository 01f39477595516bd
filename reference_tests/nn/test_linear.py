"""Linear against torch.nn.Linear."""

import contextlib

import pytest
import torch
from torch.overrides import TorchFunctionMode

from reference_tests.agreement import assert_equal
from reference_tests.proof import prove
from scratch_transformer import functional, nn
from scratch_transformer.by_hand import equations_alone
from scratch_transformer.nn.linear import ENOUGH_ROWS, together

test_definition, test_precision, test_errors = prove("Linear")


@pytest.mark.parametrize("in_features", [0, 1, 2])
@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
def test_few_features_begin_as_torchs(in_features):
    """The bias is drawn from U(-1/√in, 1/√in), and is zero where nothing comes in."""
    states = []
    for library in (nn, torch.nn):
        torch.manual_seed(0)
        states.append(list(library.Linear(in_features, 4).state_dict().values()))
    assert_equal(*states)


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_csc, torch.sparse_coo], ids=str)
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.filterwarnings("ignore:Sparse C")
def test_sparse_weights(layout, has_bias):
    """Those that torch's linear takes."""
    x, bias = torch.randn(2, 5, 3, dtype=torch.float64), torch.randn(4, dtype=torch.float64) if has_bias else None
    weight = torch.randn(4, 3, dtype=torch.float64) * (torch.rand(4, 3) < 0.5)
    expected = torch.nn.functional.linear(x, weight, bias)
    assert_equal(functional.linear(x, weight.to_sparse(layout=layout), bias), expected)


def test_a_weight_of_one_dimension():
    """One feature, without a dimension for it; torch takes no bias then."""
    x, weight = torch.randn(2, 5, 3, dtype=torch.float64), torch.randn(3, dtype=torch.float64)
    assert_equal(functional.linear(x, weight), torch.nn.functional.linear(x, weight))
    assert_equal(functional.linear(weight, weight), torch.nn.functional.linear(weight, weight))
    for linear in (functional.linear, torch.nn.functional.linear):
        with pytest.raises(RuntimeError, match="must be a matrix"):
            linear(x, weight, torch.randn(1, dtype=torch.float64))


def test_scalars_are_refused_in_torchs_words():
    for linear in (functional.linear, torch.nn.functional.linear):
        with pytest.raises(RuntimeError, match=r"both arguments to linear need to be at least 1D, but .*0D and .*2D"):
            linear(torch.tensor(2.0), torch.randn(4, 3))


class OneProduct(TorchFunctionMode):
    """Counts products of a matrix."""

    count = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.count += func in (torch.addmm, torch.Tensor.mm, torch.Tensor.__matmul__, torch.Tensor.matmul)
        return func(*args, **(kwargs or {}))


def projections(bias=True):
    """Of the same vectors, to different widths, with random parameters."""
    made = [nn.Linear(7, out_features, bias, dtype=torch.float64) for out_features in (8, 4, 6)]
    return made, torch.randn(2, ENOUGH_ROWS // 2, 7, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("bias", [False, True])
def test_several_projections_at_once_are_those_of_each(bias):
    """Values, gradients, and gradients of these, with one product for all."""
    made, x = projections(bias)
    parameters = [x, *(parameter for project in made for parameter in project.parameters())]
    with OneProduct() as seen:
        at_once = together(x, *made)
    assert seen.count == 1
    found = []
    for results in (at_once, [torch.nn.functional.linear(x, project.weight, project.bias) for project in made]):
        total = sum((result.sin() * (1 + i)).sum() for i, result in enumerate(results))
        gradients = torch.autograd.grad(total, parameters, create_graph=True)
        again = torch.autograd.grad(sum(gradient.square().sum() for gradient in gradients), parameters)
        found.append([*results, *gradients, *again])
    assert_equal(*found)


def by_a_hook(made, seen):
    return made[1].register_forward_hook(lambda *_: seen.append(1)), True


def by_a_hook_before(made, seen):
    return made[1].register_forward_pre_hook(lambda *_: seen.append(1)), True


def by_a_hook_on_all(made, seen):
    return torch.nn.modules.module.register_module_forward_hook(lambda *_: seen.append(1)), True


def by_a_class_of_its_own(made, seen):
    class Loud(nn.Linear):
        def forward(self, x):
            seen.append(1)
            return super().forward(x)

    made[1].__class__ = Loud
    return None, True


def with_a_bias_less(made, seen):
    made[1].bias = None
    return None, False


@pytest.mark.parametrize(
    "watch", [by_a_hook, by_a_hook_before, by_a_hook_on_all, by_a_class_of_its_own, with_a_bias_less]
)
def test_a_projection_that_is_looked_at_is_called_by_itself(watch):
    """A hook sees it, a class of its own is asked, and what cannot be one matrix is none."""
    made, x = projections()
    seen = []
    handle, is_told = watch(made, seen)
    with OneProduct() as products:
        results = together(x, *made)
    if handle is not None:
        handle.remove()
    assert products.count == 3
    assert bool(seen) == is_told
    assert_equal(results, [torch.nn.functional.linear(x, project.weight, project.bias) for project in made])


def test_without_training_nothing_is_put_side_by_side():
    """Copies of matrices would cost more than they save: few vectors, no gradients, or the equations alone."""
    made, x = projections()
    frozen = [project.requires_grad_(False) for project in projections()[0]]
    for rows, modules, context in (
        (x[:, :2], made, contextlib.nullcontext()), (x, made, torch.no_grad()), (x, made, equations_alone()),
        (x, frozen, contextlib.nullcontext()),
    ):  # fmt: skip
        with context, OneProduct() as products:
            together(rows, *modules)
        assert products.count == 3
