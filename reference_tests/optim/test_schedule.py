"""The learning rate of the paper's equation 3, and its use with our Adam and with torch's optimizers."""

from __future__ import annotations

import copy
import itertools
import math
from fractions import Fraction

import pytest
import torch
from torch.nn import Parameter

from scratch_transformer.optim import Adam, WarmupSchedule, warmup_lr


def make_optimizer(adam=Adam, groups=1, **options):
    return adam([{"params": [Parameter(torch.full((2,), 1.0 + i))]} for i in range(groups)], **options)


def train(optimizer, schedule, steps):
    """Return the learning rates that the optimizer steps used."""
    used = []
    for _ in range(steps):
        for group in optimizer.param_groups:
            for param in group["params"]:
                param.grad = param.detach().sin()
        used.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return used


@pytest.mark.parametrize(("step", "expected"), [(1, 1.74693e-7), (4000, 6.98771e-4), (16000, 6.98771e-4 / 2)])
def test_the_papers_base_model(step, expected):
    assert warmup_lr(step, 512) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("d_model", "warmup_steps", "factor"), [(512, 4000, 1.0), (96, 7, 2.5), (3, 1, 0.1)])
def test_the_closed_form_of_either_half(d_model, warmup_steps, factor):
    peak = factor / math.sqrt(d_model * warmup_steps)
    for step in (1, 2, warmup_steps - 1, warmup_steps, warmup_steps + 1, 10 * warmup_steps):
        if step < 1:
            continue
        rising = step <= warmup_steps
        expected = peak * (Fraction(step, warmup_steps) if rising else math.sqrt(warmup_steps / step))
        assert warmup_lr(step, d_model, warmup_steps, factor) == pytest.approx(float(expected), rel=1e-14)


def test_a_factor_of_zero_freezes_the_model():
    assert warmup_lr(3, 512, factor=0.0) == 0.0


def test_the_peak_is_at_the_end_of_the_warmup():
    rates = [warmup_lr(step, 512, warmup_steps=40) for step in range(1, 200)]
    assert max(range(len(rates)), key=rates.__getitem__) + 1 == 40
    assert all(a < b for a, b in itertools.pairwise(rates[:40]))
    assert all(a > b for a, b in itertools.pairwise(rates[39:]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"step": 0}, "step is 0: expected a number >= 1"),
        ({"step": -3}, "step is -3: expected a number >= 1"),
        ({"d_model": 0}, "d_model is 0: expected a number >= 1"),
        ({"warmup_steps": 0}, "warmup_steps is 0: expected a number >= 1"),
        ({"factor": -1.0}, "factor is -1.0: expected a number >= 0"),
        ({"factor": math.nan}, "factor is nan: expected a number >= 0"),
    ],
    ids=str,
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        warmup_lr(**{"step": 1, "d_model": 8, **arguments})
    if "step" not in arguments:
        with pytest.raises(ValueError, match=message):
            WarmupSchedule(make_optimizer(), **{"d_model": 8, **arguments})


@pytest.mark.parametrize("adam", [Adam, torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD])
def test_the_nth_optimizer_step_uses_lr_of_n(adam):
    optimizer = make_optimizer(adam, groups=2, lr=123.0)
    schedule = WarmupSchedule(optimizer, d_model=48, warmup_steps=5, factor=0.7)
    expected = [warmup_lr(step, 48, 5, 0.7) for step in range(1, 14)]
    assert schedule.get_last_lr() == [expected[0]] * 2
    assert train(optimizer, schedule, 12) == expected[:12]
    assert schedule.get_last_lr() == [expected[12]] * 2
    assert [group["lr"] for group in optimizer.param_groups] == [expected[12]] * 2


def test_the_defaults_are_the_papers():
    schedule = WarmupSchedule(make_optimizer(), 512)
    assert schedule.get_last_lr() == [warmup_lr(1, 512)] == [warmup_lr(1, 512, 4000, 1.0)]


def test_lambda_lr_of_the_same_curve_takes_the_same_training_run():
    ours, theirs = make_optimizer(), make_optimizer(torch.optim.Adam, lr=1.0)
    lambda_lr = torch.optim.lr_scheduler.LambdaLR(theirs, lambda epoch: warmup_lr(epoch + 1, 64, 4))
    assert train(ours, WarmupSchedule(ours, 64, 4), 10) == train(theirs, lambda_lr, 10)
    assert torch.equal(ours.param_groups[0]["params"][0], theirs.param_groups[0]["params"][0])


def test_a_learning_rate_that_is_a_tensor_is_filled_in_place():
    rate = torch.tensor(1.0, dtype=torch.float64)
    optimizer = make_optimizer(torch.optim.Adam, lr=rate, foreach=False)
    schedule = WarmupSchedule(optimizer, 64, 4)
    train(optimizer, schedule, 2)
    assert optimizer.param_groups[0]["lr"] is rate
    assert rate.item() == warmup_lr(3, 64, 4)
    assert schedule.get_last_lr() == [warmup_lr(3, 64, 4)]


@pytest.mark.parametrize("adam", [Adam, torch.optim.Adam])
@pytest.mark.parametrize("schedule_first", [False, True])
def test_resumes_exactly(adam, schedule_first):
    optimizer = make_optimizer(adam)
    schedule = WarmupSchedule(optimizer, 48, warmup_steps=5, factor=0.7)
    train(optimizer, schedule, 3)
    saved = copy.deepcopy((optimizer.state_dict(), schedule.state_dict(), optimizer.param_groups[0]["params"][0]))
    expected = train(optimizer, schedule, 8)

    resumed_optimizer = adam([Parameter(saved[2].detach())])
    resumed = WarmupSchedule(resumed_optimizer, d_model=1)
    loads = [(resumed_optimizer, saved[0]), (resumed, saved[1])]
    for target, state in reversed(loads) if schedule_first else loads:
        target.load_state_dict(state)
        assert schedule_first or target is resumed_optimizer or resumed.get_last_lr() == expected[:1]
    assert train(resumed_optimizer, resumed, 8) == expected
    assert torch.equal(resumed_optimizer.param_groups[0]["params"][0], optimizer.param_groups[0]["params"][0])
    assert resumed.state_dict() == schedule.state_dict()


def test_the_state_is_the_curve_and_the_next_step():
    optimizer = make_optimizer()
    schedule = WarmupSchedule(optimizer, 48, 5, 0.7)
    train(optimizer, schedule, 3)
    assert schedule.state_dict() == {"step": 4, "d_model": 48, "warmup_steps": 5, "factor": 0.7}


def test_loading_sets_the_rate_at_once():
    optimizer = make_optimizer()
    state = {"step": 9, "d_model": 16, "warmup_steps": 3, "factor": 2.0}
    WarmupSchedule(optimizer, 48).load_state_dict(state)
    assert optimizer.param_groups[0]["lr"] == warmup_lr(9, 16, 3, 2.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"last_epoch": 3}, r"state_dict has the entries .*last_epoch.*: expected \['d_model'"),
        ({"step": None}, r"state_dict has the entries \['d_model', 'factor', 'warmup_steps'\]: expected"),
        ({"step": 0}, "step is 0"),
    ],
    ids=str,
)
def test_a_bad_state_is_refused_and_changes_nothing(change, message):
    schedule = WarmupSchedule(make_optimizer(), 48, 5, 0.7)
    before = schedule.state_dict(), schedule.get_last_lr()
    state = {name: value for name, value in {**schedule.state_dict(), **change}.items() if value is not None}
    with pytest.raises(ValueError, match=message):
        schedule.load_state_dict(state)
    assert (schedule.state_dict(), schedule.get_last_lr()) == before


def test_something_that_is_no_optimizer_is_refused():
    with pytest.raises(TypeError, match="optimizer is a Linear: expected one that has param_groups"):
        WarmupSchedule(torch.nn.Linear(2, 3), 48)
