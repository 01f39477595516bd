"""AdamW takes the steps of torch.optim.AdamW, to the last bit. What it shares with Adam: test_adam.py."""

import copy
import inspect
import itertools

import pytest
import torch
from torch.nn import Parameter

from reference_tests.optim.test_adam import assert_same_run, make_params, run
from scratch_transformer.optim import Adam, AdamW

GRID = [
    {"weight_decay": weight_decay, "amsgrad": amsgrad, "maximize": maximize, **rates}
    for weight_decay, amsgrad, maximize, rates in itertools.product(
        (0, 0.1), (False, True), (False, True), ({}, {"lr": 0.02, "betas": (0.8, 0.98), "eps": 1e-3})
    )
]


@pytest.mark.parametrize("options", [*GRID, {}], ids=str)
def test_every_step_is_torchs_bitwise(options, device):
    ours, theirs = make_params(device), make_params(device)
    reference = torch.optim.AdamW(theirs, **options, foreach=False)
    assert_same_run(ours, theirs, AdamW(ours, **options), reference, steps=40)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_low_precision_is_torchs_bitwise(dtype):
    ours, theirs = make_params(dtype=dtype), make_params(dtype=dtype)
    options = {"lr": 0.02, "weight_decay": 0.3, "eps": 1e-4}
    assert_same_run(ours, theirs, AdamW(ours, **options), torch.optim.AdamW(theirs, **options), steps=40)


def test_groups_have_their_own_decay():
    ours, theirs = make_params(), make_params()

    def groups(params):
        return [{"params": params[:2], "weight_decay": 0.3}, {"params": params[2:], "weight_decay": 0.0, "lr": 0.1}]

    assert_same_run(ours, theirs, AdamW(groups(ours)), torch.optim.AdamW(groups(theirs)), steps=20)


def test_without_decay_it_is_adam():
    ours, adams = make_params(), make_params()
    run(AdamW(ours, weight_decay=0), ours, range(1, 9))
    run(Adam(adams), adams, range(1, 9))
    assert all(torch.equal(a, b) for a, b in zip(ours, adams, strict=True))


def test_the_decay_is_the_same_whatever_the_gradients_are():
    """Adam's would be divided by the size of the gradients."""
    shrunk = []
    for scale in (1e-3, 1e3):
        with_decay, without = (Parameter(torch.tensor([2.0, -3.0], dtype=torch.float64)) for _ in range(2))
        for parameter, weight_decay in ((with_decay, 0.5), (without, 0.0)):
            parameter.grad = torch.tensor([1.0, 2.0], dtype=torch.float64) * scale
            AdamW([parameter], lr=0.1, weight_decay=weight_decay, eps=0.0).step()
        shrunk.append((with_decay - without).detach())
    torch.testing.assert_close(shrunk[0], shrunk[1])
    torch.testing.assert_close(shrunk[0], -0.1 * 0.5 * torch.tensor([2.0, -3.0], dtype=torch.float64))


def test_state_goes_both_ways():
    params, theirs = make_params(), make_params()
    reference = torch.optim.AdamW(theirs, lr=0.02, weight_decay=0.2)
    run(reference, theirs, range(1, 6))
    optimizer = AdamW(params)
    optimizer.load_state_dict(copy.deepcopy(reference.state_dict()))
    for param, their in zip(params, theirs, strict=True):
        param.data.copy_(their)
    back = torch.optim.AdamW(theirs)
    back.load_state_dict(copy.deepcopy(optimizer.state_dict()))  # or they would share the moments
    for step in range(6, 9):
        run(optimizer, params, [step])
        run(back, theirs, [step])
    assert all(torch.equal(a, b) for a, b in zip(params, theirs, strict=True))


def test_the_state_of_the_other_kind_of_decay_is_refused():
    params = make_params()
    for optimizer, given, message in ((Adam(params, weight_decay=0.1), True, "Adam, not AdamW"),
                                      (AdamW(params), False, "AdamW, not Adam")):  # fmt: skip
        state = optimizer.state_dict()
        state["param_groups"][0]["decoupled_weight_decay"] = given
        with pytest.raises(
            ValueError, match=f"^decoupled_weight_decay is {given}: expected .*, for this is {message}$"
        ):
            optimizer.load_state_dict(state)


def test_signature_is_torchs_without_the_options_that_only_choose_a_kernel():
    ours, theirs = (inspect.signature(kind).parameters for kind in (AdamW, torch.optim.AdamW))
    missing = {"foreach", "capturable", "differentiable", "fused"}
    assert [name for name in theirs if name not in missing] == list(ours)
    assert all(ours[name].default == theirs[name].default for name in ours)
