"""The loss of a batch, against torch's, and what padding does to it: nothing."""

import pytest
import torch

from scratch_transformer import masks
from scratch_transformer.model import build_transformer
from scratch_transformer.translation.objective import Objective


@pytest.fixture
def model():
    return build_transformer(11, 13, 9, 8, d_model=12, N=2, h=3, dropout=0.0, d_ff=10).double()


SOURCE = torch.tensor([[5, 6, 7, 3], [8, 3, 0, 0]])
INPUT = torch.tensor([[2, 9, 10], [2, 12, 0]])
OUTPUT = torch.tensor([[9, 10, 3], [12, 3, 0]])


@pytest.mark.parametrize("smoothing", [0.1, 0.0])
def test_it_is_the_sum_of_torchs_cross_entropy_in_evaluation_without_smoothing_too(model, smoothing):
    objective = Objective(model, smoothing)
    target_mask = masks.padding(INPUT, 0) & masks.causal(3)
    logits = model(SOURCE, INPUT, masks.padding(SOURCE, 0), target_mask)
    plain, smoothed = (
        torch.nn.functional.cross_entropy(
            logits.flatten(0, 1).float(), OUTPUT.flatten(), ignore_index=0, reduction="sum", label_smoothing=share
        )
        for share in (0.0, smoothing)
    )
    torch.testing.assert_close(objective(SOURCE, INPUT, OUTPUT), smoothed, rtol=1e-6, atol=0)
    both = objective.eval()(SOURCE, INPUT, OUTPUT)
    torch.testing.assert_close(both, torch.stack([plain, smoothed]), rtol=1e-6, atol=0)


def test_padding_changes_nothing(model):
    objective = Objective(model, 0.1)
    pad = torch.nn.functional.pad
    torch.testing.assert_close(
        objective(pad(SOURCE, (0, 3)), pad(INPUT, (0, 2)), pad(OUTPUT, (0, 2))),
        objective(SOURCE, INPUT, OUTPUT), rtol=1e-6, atol=0,
    )  # fmt: skip


def test_autocast_computes_products_in_bfloat16(model):
    model.float()
    exact, rounded = (Objective(model, 0.1, dtype)(SOURCE, INPUT, OUTPUT) for dtype in (None, torch.bfloat16))
    assert rounded.dtype == torch.float32
    assert 0 < abs(exact - rounded) < 0.05 * exact
