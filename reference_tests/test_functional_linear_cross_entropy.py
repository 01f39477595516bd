"""The loss of products against torch's linear and cross_entropy, and that it keeps no logits."""

import itertools

import pytest
import torch
import torch.nn.functional as F

from reference_tests.agreement import assert_agree, assert_equal, differentiate
from scratch_transformer import functional
from scratch_transformer.by_hand import loss

N, D, C = 7, 3, 5
OPTIONS = list(itertools.product(["mean", "sum", "none"], [0.0, 0.1, 1.0]))


def draw(device="cpu"):
    return [torch.randn(n, D, dtype=torch.float64, device=device) for n in (N, C)]


def torchs(x, weight, target, **options):
    return F.cross_entropy(F.linear(x, weight), target, **options)


@pytest.mark.parametrize(("reduction", "label_smoothing"), OPTIONS, ids=str)
@pytest.mark.parametrize("kind", ["indices", "some ignored", "uint8", "probabilities"])
def test_it_is_torchs(kind, reduction, label_smoothing, device):
    options = {"reduction": reduction, "label_smoothing": label_smoothing}
    target = torch.randint(1, C, (N,), device=device)
    if kind == "some ignored":
        target[2:4] = options["ignore_index"] = 0
    if kind == "probabilities":
        target = torch.rand(N, C, dtype=torch.float64, device=device).softmax(-1)
    ours = functional.linear_cross_entropy
    given = target.byte() if kind == "uint8" else target
    assert_agree(lambda x, w: ours(x, w, given, **options), lambda x, w: torchs(x, w, target, **options), *draw(device))


@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 1, 1), (3, 1, 2 * C)], ids=str)
def test_in_many_pieces_it_is_the_same(sizes, monkeypatch):
    target = torch.tensor([1, 0, -100, 3, 4, 4, 2])
    function = lambda x, w: functional.linear_cross_entropy(x, w, target, label_smoothing=0.3)  # noqa: E731
    tensors = draw()
    whole = differentiate(function, *tensors)
    for name, size in zip(("ROWS", "TOGETHER", "SHARED"), sizes, strict=True):
        monkeypatch.setattr(loss, name, size)
    assert_equal(differentiate(function, *tensors), whole)


def test_nothing_as_large_as_the_logits_is_kept():
    kept = []
    x, weight = (tensor.requires_grad_() for tensor in draw())
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        functional.linear_cross_entropy(x, weight, torch.zeros(N).long())
    assert kept
    assert max(tensor.numel() for tensor in kept) < N * C


def test_no_targets_count():
    x, weight = draw()
    target = torch.full((N,), -100)
    assert functional.linear_cross_entropy(x, weight, target).isnan()
    assert functional.linear_cross_entropy(x, weight, target, reduction="sum") == 0


def test_a_row_that_is_ignored_may_be_anything():
    x, weight = draw()
    x[2] = float("nan")
    target = torch.tensor([1, 0, -100, 3, 4, 4, 2])
    assert_equal(functional.linear_cross_entropy(x, weight, target), torchs(x, weight, target))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_is_rounded_once(dtype):
    x, weight = (tensor.to(dtype) for tensor in draw())
    target = torch.randint(C, (N,))
    found = functional.linear_cross_entropy(x, weight, target)
    assert found.dtype == dtype
    assert torch.equal(found, torchs(x.float(), weight.float(), target).to(dtype))


def test_under_autocast_the_loss_is_of_single_precision():
    x, weight = (tensor.float() for tensor in draw())
    target = torch.randint(C, (N,))
    with torch.autocast("cpu", torch.bfloat16):
        found = functional.linear_cross_entropy(x, weight, target)
        logits = functional.linear(x, weight)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, F.cross_entropy(logits.float(), target))


def test_bad_input():
    x, weight = draw()
    target = torch.zeros(N).long()
    with pytest.raises(IndexError, match=r"target must be in \[0, 5\)"):
        functional.linear_cross_entropy(x, weight, target + C)
    with pytest.raises(RuntimeError, match="linear: x has shape"):
        functional.linear_cross_entropy(x[:, 1:], weight, target)
    with pytest.raises(RuntimeError, match="linear: x must have weight's dtype"):
        functional.linear_cross_entropy(x.float(), weight, target)
    with pytest.raises(ValueError, match="target"):
        functional.linear_cross_entropy(x, weight, target[1:])
    with pytest.raises(RuntimeError, match="got torch.int32"):
        functional.linear_cross_entropy(x, weight, target.int())
    with pytest.raises(ValueError, match="reduction"):
        functional.linear_cross_entropy(x, weight, target, reduction="most")
    with pytest.raises(RuntimeError, match="label_smoothing"):
        functional.linear_cross_entropy(x, weight, target, label_smoothing=1.5)
