"""CrossEntropyLoss against torch.nn.CrossEntropyLoss."""

import warnings

import pytest
import torch

from reference_tests.agreement import assert_agree
from reference_tests.proof import prove
from scratch_transformer import nn

test_definition, test_precision, test_errors = prove("CrossEntropyLoss")


def test_the_class_weights_move_with_the_module(device, dtype):
    """They are a buffer: part of the state_dict, cast and sent along."""
    weight = torch.tensor([0.5, 1.0, 3.0])
    loss = nn.CrossEntropyLoss(weight).to(device, dtype)
    assert loss.weight.dtype == dtype
    assert loss.weight.device.type == device.type
    assert list(loss.state_dict()) == list(torch.nn.CrossEntropyLoss(weight).state_dict()) == ["weight"]


def test_a_batch_of_translations():
    """As it is used: (B, T, V) logits flattened, padding ignored, labels smoothed."""
    logits, target = torch.randn(2, 5, 11, dtype=torch.float64), torch.randint(1, 11, (2, 5))
    target[1, 3:] = 0
    options = {"ignore_index": 0, "label_smoothing": 0.1}
    ours, builtin = (library.CrossEntropyLoss(**options) for library in (nn, torch.nn))
    assert_agree(ours, builtin, logits.flatten(0, 1), target.flatten())
    assert_agree(ours, builtin, logits.transpose(1, 2), target)


@pytest.mark.parametrize("size_average", [None, True, False])
@pytest.mark.parametrize("reduce", [None, True, False])
def test_torchs_old_way_to_say_reduction(size_average, reduce):
    """The same reduction, and the same warning."""
    arguments = {"size_average": size_average, "reduce": reduce, "reduction": "sum"}
    built, messages = [], []
    for library in (nn, torch.nn):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            built.append(library.CrossEntropyLoss(**arguments).reduction)
        messages.append([str(warning.message) for warning in caught])
    assert built[0] == built[1]
    assert messages[0] == messages[1]
    assert len(messages[0]) == (size_average is not None or reduce is not None)


def test_the_warning_points_at_the_caller():
    with pytest.warns(UserWarning, match="size_average and reduce") as caught:
        nn.CrossEntropyLoss(reduce=False)
    assert caught[0].filename == __file__
