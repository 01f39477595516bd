import numpy as np
import pytest
import torch

from reference_tests.numpy_oracle.against_torch import compare, normal
from reference_tests.numpy_oracle.differences import assert_is_gradient
from scratch_transformer.numpy_oracle import cross_entropy, cross_entropy_backward

C = 5
REDUCTIONS = pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
SMOOTHING = pytest.mark.parametrize("label_smoothing", [0.0, 0.2, 1.0])
WEIGHTED = pytest.mark.parametrize("weighted", [False, True])


def module(weighted, **options):
    weight = torch.rand(C, dtype=torch.float64) + 0.5 if weighted else None
    constructor = {"weight": weight, **options}
    return constructor, torch.nn.CrossEntropyLoss(**constructor)


@REDUCTIONS
@SMOOTHING
@WEIGHTED
@pytest.mark.parametrize("rows", [(), (7,), (3, 4), (3, 2, 4)])
def test_class_indices_equal_torch(rows, reduction, label_smoothing, weighted):
    logits = normal(*rows[:1], C, *rows[1:])
    target = torch.randint(0, C, rows)
    if rows:
        target.view(-1)[::3] = 1  # ignored
    constructor, loss = module(weighted, reduction=reduction, label_smoothing=label_smoothing, ignore_index=1)
    compare("CrossEntropyLoss", constructor, loss, [logits, target])


@REDUCTIONS
@SMOOTHING
@WEIGHTED
@pytest.mark.parametrize("rows", [(), (7,), (3, 4)])
def test_probabilities_equal_torch_with_the_targets_gradient(rows, reduction, label_smoothing, weighted):
    shape = (*rows[:1], C, *rows[1:])
    target = 2 * torch.rand(shape, dtype=torch.float64)  # not summing to one: the definition does not need it
    constructor, loss = module(weighted, reduction=reduction, label_smoothing=label_smoothing)
    compare("CrossEntropyLoss", constructor, loss, [normal(*shape), target])


@pytest.mark.parametrize("ignore_index", [-100, -1, 0, C])
def test_any_ignored_index_equals_torch(ignore_index):
    target = torch.tensor([2, ignore_index, 4, ignore_index, 1, 2])
    constructor, loss = module(True, ignore_index=ignore_index, label_smoothing=0.1)
    compare("CrossEntropyLoss", constructor, loss, [normal(6, C), target])


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_nothing_to_count_gives_nan_and_zero_gradients_as_torch(label_smoothing):
    logits, target = normal(3, C).requires_grad_(), torch.full((3,), -100)
    expected = torch.nn.functional.cross_entropy(logits, target, label_smoothing=label_smoothing)
    expected.backward()
    loss, cache = cross_entropy(logits.detach().numpy(), target.numpy(), label_smoothing=label_smoothing)
    assert np.isnan(loss)
    assert torch.isnan(expected)
    np.testing.assert_array_equal(cross_entropy_backward(np.array(1.0), cache)[0], logits.grad)
    np.testing.assert_array_equal(logits.grad, np.zeros((3, C)))


def test_a_forbidden_class_is_no_trouble_unless_it_is_the_target():
    logits = normal(2, C)
    logits[:, 3] = -torch.inf
    constructor, loss = module(False)
    compare("CrossEntropyLoss", constructor, loss, [logits, torch.tensor([0, 4])])


def test_gradients_by_finite_differences():
    rng = np.random.default_rng(0)
    logits, indices = rng.normal(size=(3, C, 2)), rng.integers(0, C, size=(3, 2))
    probabilities, weight, dy = rng.uniform(size=(3, C, 2)), rng.uniform(0.5, 1.5, size=C), np.array(0.7)

    def forward(logits, target):
        return cross_entropy(logits, target, weight, label_smoothing=0.1)

    dlogits, _ = cross_entropy_backward(dy, forward(logits, indices)[1])
    assert_is_gradient(dlogits, lambda logits: forward(logits, indices)[0], logits, dy)
    dlogits, dtarget = cross_entropy_backward(dy, forward(logits, probabilities)[1])
    assert_is_gradient(dlogits, lambda logits: forward(logits, probabilities)[0], logits, dy)
    assert_is_gradient(dtarget, lambda target: forward(logits, target)[0], probabilities, dy)


LOGITS, TARGET = np.zeros((2, C)), np.zeros(2, dtype=int)


@pytest.mark.parametrize(
    ("args", "options", "error", "message"),
    [
        ((np.zeros(()), TARGET), {}, ValueError, "must have a dimension of classes"),
        ((LOGITS, np.zeros(3, dtype=int)), {}, ValueError, r"need class indices of shape \(2,\) or probabilities"),
        ((LOGITS, np.zeros(2)), {}, TypeError, "must hold integers, but is float64"),
        ((LOGITS, np.zeros((2, C), dtype=int)), {}, TypeError, "must hold floats, but is int64"),
        ((LOGITS, np.array([0, C])), {}, IndexError, "target 5 is out of bounds for 5 classes"),
        ((LOGITS, np.array([-1, 0])), {}, IndexError, "target -1 is out of bounds"),
        ((LOGITS, TARGET, np.ones(3)), {}, ValueError, r"weight must have shape \(5,\), but has \(3,\)"),
        ((LOGITS, TARGET), {"reduction": "max"}, ValueError, "reduction 'max' is not none, mean or sum"),
        (
            (LOGITS, TARGET),
            {"label_smoothing": 1.001},
            ValueError,
            r"label_smoothing must be in \[0, 1\], but is 1.001",
        ),
    ],
)
def test_bad_input_is_refused(args, options, error, message):
    with pytest.raises(error, match=message):
        cross_entropy(*args, **options)
