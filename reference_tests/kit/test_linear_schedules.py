"""Learning rates that rise and fall in straight lines: functions, classes, and what LambdaLR is given."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

MAKER = """
from torch.optim.lr_scheduler import LambdaLR


def make(optimizer, warmup_steps, total_steps):
    def share(step):
        if step < warmup_steps:
            return step / warmup_steps
        return max(0.0, FALL)

    return LambdaLR(optimizer, share)
"""
OF_A_STEP = """
def line(step, warmup_steps, total_steps, max_lr, min_lr=0.0):
    if step < warmup_steps:
        return max_lr * step / warmup_steps
    if step > total_steps:
        return min_lr
    return min_lr + (max_lr - min_lr) * (FALL)
"""
CLASS = """
class Rates:
    def __init__(self, optimizer, max_lr, warmup_steps, total_steps):
        self.optimizer, self.max_lr, self.warmup_steps, self.total_steps = optimizer, max_lr, warmup_steps, total_steps
        self.n = 0

    def rate(self):
        step, warmup_steps, total_steps = self.n, self.warmup_steps, self.total_steps
        return self.max_lr * (step / warmup_steps if step < warmup_steps else max(0.0, FALL))

    def step(self):
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate()
        self.n += 1
"""
SHARES = """
def shares(warmup_steps, total_steps, final_scale):
    def share(step):
        if step < warmup_steps:
            return step / warmup_steps
        return 1 - (1 - final_scale) * (1 - max(0.0, FALL))

    return share
"""
FALL, REST = "(total_steps - step) / (total_steps - warmup_steps)", " / (total_steps - warmup_steps)"
STYLES = {"make": MAKER, "line": OF_A_STEP, "Rates": CLASS, "shares": SHARES}
WRONG = [
    ("1 - step / total_steps", "counted from step 0"),
    ("1 - (step - warmup_steps) / total_steps", "as long as all steps"),
    (f"(total_steps + 1 - step){REST}", "a step late, with more than the greatest rate"),
]


@pytest.mark.parametrize("name", STYLES)
def test_a_line_that_ends_with_the_steps_is_right(name, tmp_path):
    found = check_text(STYLES[name].replace("FALL", FALL), tmp_path)[name]
    assert (found.kind, found.verdict, found.ids) == ("LinearSchedule", "matches the builtin", []), found


def test_a_line_that_ends_at_the_last_step_is_right(tmp_path):
    fall = "(total_steps - 1 - step) / (total_steps - 1 - warmup_steps)"
    assert check_text(MAKER.replace("FALL", fall), tmp_path)["make"].verdict == "matches the builtin"


@pytest.mark.parametrize("name", STYLES)
@pytest.mark.parametrize("fall, form", WRONG)
def test_where_the_line_ends(name, fall, form, tmp_path):
    found = check_text(STYLES[name].replace("FALL", fall), tmp_path)[name]
    (named,) = found.mistakes
    assert (named.id, found.verdict) == ("O6", "mistake") and form in named.form, found


def test_a_rate_below_zero_comes_after_the_end(tmp_path):
    found = check_text(MAKER.replace("max(0.0, FALL)", FALL), tmp_path)["make"]
    assert (found.verdict, found.ids) == ("harmless deviation", ["O6"]), found


def test_a_line_that_is_called_a_cosine_is_told_so(tmp_path):
    text = MAKER.replace("FALL", FALL).replace("def make", "def get_cosine_schedule")
    assert check_text(text, tmp_path)["get_cosine_schedule"].ids == ["O7"]
