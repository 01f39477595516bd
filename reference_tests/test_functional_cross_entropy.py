"""Cross-entropy against torch.nn.functional.cross_entropy, in every form that it has."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F

from reference_tests.agreement import assert_agree, assert_equal, differentiate
from scratch_transformer import functional

CLASSES = 5
SHAPES = [(CLASSES,), (3, CLASSES), (3, CLASSES, 4), (3, CLASSES, 4, 2), (1, CLASSES)]
OPTIONS = list(itertools.product(["mean", "sum", "none"], [0.0, 0.1, 1.0]))
options = pytest.mark.parametrize(("reduction", "label_smoothing"), OPTIONS, ids=str)
weights = pytest.mark.parametrize("is_weighted", [False, True], ids=["", "weight"])


def draw_indices(shape, device):
    """Targets for logits of this shape: without the class dimension."""
    class_dim = 0 if len(shape) == 1 else 1
    return torch.randint(CLASSES, shape[:class_dim] + shape[class_dim + 1 :], device=device)


def draw_weight(is_weighted, device):
    return torch.rand(CLASSES, dtype=torch.float64, device=device) + 0.1 if is_weighted else None


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@weights
@options
def test_indices(shape, is_weighted, reduction, label_smoothing, device):
    logits, target = torch.randn(shape, dtype=torch.float64, device=device) * 2, draw_indices(shape, device)
    kwargs = {"reduction": reduction, "label_smoothing": label_smoothing}
    weight = draw_weight(is_weighted, device)
    # torch has no gradient for weight
    assert_agree(
        lambda x: functional.cross_entropy(x, target, weight, **kwargs),
        lambda x: F.cross_entropy(x, target, weight, **kwargs),
        logits,
    )


def test_an_ignored_target_beside_a_single_class():
    logits, target = torch.randn(3, 1, dtype=torch.float64), torch.tensor([0, -100, 0])
    assert_agree(functional.cross_entropy, F.cross_entropy, logits, target)


@pytest.mark.parametrize("ignore_index", [-100, 0, 2, 77])
@weights
@options
def test_ignored_targets(ignore_index, is_weighted, reduction, label_smoothing, device):
    logits = torch.randn(4, CLASSES, 3, dtype=torch.float64, device=device)
    target = draw_indices(logits.shape, device)
    target[0, 1] = target[2] = ignore_index
    weight = draw_weight(is_weighted, device)
    kwargs = {"ignore_index": ignore_index, "reduction": reduction, "label_smoothing": label_smoothing}

    def ours(x):
        return functional.cross_entropy(x, target, weight, **kwargs)

    assert_agree(ours, lambda x: F.cross_entropy(x, target, weight, **kwargs), logits)
    gradient = differentiate(ours, logits)["gradient"][0]
    assert (gradient[2] == 0).all()
    assert (gradient[0, :, 1] == 0).all()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@weights
@options
def test_probabilities(shape, is_weighted, reduction, label_smoothing, device):
    logits = torch.randn(shape, dtype=torch.float64, device=device)
    target = F.softmax(torch.randn(shape, dtype=torch.float64, device=device), 0 if len(shape) == 1 else 1)
    weight = draw_weight(is_weighted, device)
    kwargs = {"reduction": reduction, "label_smoothing": label_smoothing}
    assert_agree(
        lambda x, target: functional.cross_entropy(x, target, weight, **kwargs),
        lambda x, target: F.cross_entropy(x, target, weight, **kwargs),
        logits,
        target,
    )


@options
def test_every_target_ignored(reduction, label_smoothing, device):
    """The mean of nothing is 0 / 0 = NaN, as in torch; the sum is 0."""
    logits = torch.randn(3, CLASSES, dtype=torch.float64, device=device)
    target = torch.full((3,), -100, device=device)
    kwargs = {"reduction": reduction, "label_smoothing": label_smoothing}
    assert_agree(functional.cross_entropy, F.cross_entropy, logits, target, **kwargs)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("shape", [(0, CLASSES), (0, CLASSES, 3), (2, CLASSES, 0)], ids=str)
def test_an_empty_batch(shape, reduction, device):
    logits = torch.randn(shape, dtype=torch.float64, device=device)
    assert_agree(functional.cross_entropy, F.cross_entropy, logits, draw_indices(shape, device), reduction=reduction)


EXTREMES = {
    "large": [1e4, -1e4, 3.0, 0.0, 1.0],
    "target at -inf": [1.0, -math.inf, 0.0, 2.0, 3.0],
    "another at -inf": [-math.inf, 1.0, 0.0, 2.0, 3.0],
    "inf": [1.0, 2.0, math.inf, 0.0, 0.0],
    "nan": [1.0, 2.0, math.nan, 0.0, 0.0],
}


@pytest.mark.parametrize("logits", EXTREMES.values(), ids=EXTREMES)
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_extreme_logits(logits, label_smoothing, device):
    logits = torch.tensor([logits, [0.0, 1.0, 2.0, 3.0, 4.0]], dtype=torch.float64, device=device)
    target = torch.tensor([1, 3], device=device)
    kwargs = {"label_smoothing": label_smoothing, "reduction": "none"}
    assert_agree(functional.cross_entropy, F.cross_entropy, logits, target, **kwargs)


def test_by_hand():
    logits = torch.tensor([[1.0, 3.0, 1.0]], dtype=torch.float64).log()  # p = 0.2, 0.6, 0.2
    target = torch.tensor([1])
    assert functional.cross_entropy(logits, target).item() == pytest.approx(-math.log(0.6), rel=1e-15)
    # q = 0.1, 0.8, 0.1
    smoothed = -(0.1 * math.log(0.2) + 0.8 * math.log(0.6) + 0.1 * math.log(0.2))
    assert functional.cross_entropy(logits, target, label_smoothing=0.3).item() == pytest.approx(smoothed, rel=1e-14)


def test_the_mean_divides_by_the_weights_of_the_targets():
    logits = torch.tensor([[2.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    target, weight = torch.tensor([0, 1]), torch.tensor([3.0, 0.5], dtype=torch.float64)
    losses = functional.cross_entropy(logits, target, reduction="none")
    mean = functional.cross_entropy(logits, target, weight)
    assert_equal(mean, (3 * losses[0] + 0.5 * losses[1]) / 3.5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_of_no_classes_at_all(smoothing):
    """A sum of nothing: 0, and no division by zero. Torch's mean is NaN, its sum 0 as well."""
    logits = torch.rand(5, 0)
    assert functional.cross_entropy(logits, logits, label_smoothing=smoothing) == 0
    assert F.cross_entropy(logits, logits, reduction="sum") == 0


@pytest.mark.parametrize(
    "target, weight, kind, words",
    [
        (torch.zeros(3, 5).long(), None, ValueError, "Expected input batch_size .* to match target batch_size"),
        (torch.zeros(2, 4).long(), None, RuntimeError, "Expected target size"),
        (
            torch.zeros(2, 5).long(),
            torch.ones(2),
            RuntimeError,
            "weight tensor should be defined either for all .*or no classes",
        ),
    ],
)
def test_errors_have_torchs_words_too(target, weight, kind, words):
    for cross_entropy in (functional.cross_entropy, F.cross_entropy):
        with pytest.raises(kind, match=words):
            cross_entropy(torch.randn(2, 3, 5), target, weight)
