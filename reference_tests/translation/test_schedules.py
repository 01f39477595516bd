"""Learning rates, beside torch's own schedulers."""

import math

import pytest
import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR

from reference_tests.translation import tiny
from scratch_transformer.optim import Adam
from scratch_transformer.translation.schedules import schedule_of
from scratch_transformer.translation.train import resume

WARMUP, STEPS = 4, 15


def rates(schedule, start=0):
    settings = tiny.config(training__schedule=schedule, training__warmup_steps=WARMUP, training__steps=STEPS)
    adam = Adam([torch.nn.Parameter(torch.zeros(2))])
    found = schedule_of(adam, settings, start)
    rates = []
    for _ in range(start, STEPS):
        rates.append(found.get_last_lr()[0])
        assert adam.param_groups[0]["lr"] == rates[-1]
        found.step()
    return rates


PEAK = 0.1 / math.sqrt(12 * WARMUP)  # of tiny.SETTINGS


@pytest.mark.filterwarnings("ignore:The epoch parameter in")  # older releases of torch warn of what they do themselves
def test_cosine_is_torchs():
    sgd = torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], lr=PEAK)
    warm = LinearLR(sgd, start_factor=1 / WARMUP, total_iters=WARMUP - 1)
    theirs = SequentialLR(sgd, [warm, CosineAnnealingLR(sgd, STEPS - WARMUP)], [WARMUP - 1])
    expected = []
    for _ in range(STEPS):
        expected.append(theirs.get_last_lr()[0])
        sgd.step()
        theirs.step()
    assert rates("cosine") == pytest.approx(expected, rel=1e-9, abs=1e-15)


def test_constant_stays_at_the_peak_and_the_papers_falls():
    assert rates("constant") == pytest.approx([PEAK * min(1, s / WARMUP) for s in range(1, STEPS + 1)])
    paper = [PEAK * min(s / WARMUP, math.sqrt(WARMUP / s)) for s in range(1, STEPS + 1)]
    assert rates("inverse_sqrt") == pytest.approx(paper)


@pytest.mark.parametrize("schedule", ["inverse_sqrt", "cosine", "constant"])
def test_it_goes_on_where_it_was(schedule, tmp_path):
    assert rates(schedule, start=6) == rates(schedule)[6:]
    tiny.run(tmp_path / "whole", training__schedule=schedule)
    tiny.run(tmp_path / "run", training__schedule=schedule)
    (tmp_path / "run" / "checkpoints" / "step-00000006").rename(tmp_path / "last")
    resume(tmp_path / "run", say=print)
    assert tiny.content(tmp_path / "run") == tiny.content(tmp_path / "whole")
