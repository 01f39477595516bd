"""Cosine schedules that rise from their optimizer's rate, which is the least, and begin anew after their last step."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.report.finding import FINE

pytestmark = pytest.mark.long

SCHEDULE = """
from torch.optim.lr_scheduler import LRScheduler

class WarmRestarts(LRScheduler):
    def __init__(self, optimizer, {told}, decay=1.0, last_epoch=-1):
        self.period, self.rise, self.peak, self.decay = {kept}, decay
        self.place = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        if self.place < self.rise:
            return [base_lr + (self.peak - base_lr) * max(self.place, 0) / self.rise for base_lr in self.base_lrs]
        share = (self.place - self.rise) / {length}
        return [base_lr + (self.peak - base_lr) * {wave} for base_lr in self.base_lrs]

    def step(self, epoch=None):
        self.place += 1
        if self.place >= self.period:
            self.place, self.peak = {again}, self.peak * self.decay
        self.last_epoch += 1
        for group, rate in zip(self.optimizer.param_groups, self.get_lr()):
            group["lr"] = rate
"""
RIGHT = {
    "told": "T_0, T_up, eta_max",
    "kept": "T_0, T_up, eta_max",
    "length": "(self.period - self.rise)",
    "wave": "(1 + math.cos(math.pi * share)) / 2",
    "again": "0",
}
OTHER_NAMES = {"told": "first_cycle_steps, warmup_steps, max_lr", "kept": "first_cycle_steps, warmup_steps, max_lr"}


@pytest.mark.parametrize(("change", "ids"), [
    ({}, []), (OTHER_NAMES, []),
    ({"wave": "(1 + math.cos(math.pi * share))"}, ["O7"]), ({"length": "self.period"}, ["O6"]),
])  # fmt: skip
def test_they_are_judged(change, ids, tmp_path):
    result = check_text(SCHEDULE.format(**{**RIGHT, **change}), tmp_path)["WarmRestarts"]
    assert (result.kind, result.severe) == ("CosineSchedule", ids)
    assert (result.verdict in FINE) == (not ids)


def test_what_begins_anew_within_its_rise_is_not_called_right(tmp_path):
    result = check_text(SCHEDULE.format(**{**RIGHT, "again": "self.rise // 2"}), tmp_path)["WarmRestarts"]
    assert result.verdict not in FINE
