"""Functions of a training script: a cosine schedule of any name, gradients that are clipped in place."""

import linecache
import types

import pytest

from reference_tests.kit.learners.checked import IMPORTS, check_text
from scratch_transformer.kit.checking import Checking

SCHEDULE = """
def cos_lr_scheduler(it, warmup_iters, cos_cycle_iters, lr_min, lr_max):
    if it < warmup_iters:
        return lr_max * it / warmup_iters
    part = min((it - warmup_iters) / (cos_cycle_iters - warmup_iters), 1.0)
    return lr_min + 0.5 * (1 + math.cos(math.pi * part)) * (lr_max - lr_min)
"""
CLIPPING = """
def gradient_clip(params, max_norm, delta=1e-6):
    grads = [p.grad for p in params if p.grad is not None]
    norm = torch.linalg.norm(torch.stack([torch.linalg.norm(g) for g in grads]))
    if norm > max_norm:
        for g in grads:
            g.mul_(max_norm / (norm + delta))
"""
OTHER = """
def cos_of(it, lr_max):
    return lr_max * math.cos(it)
"""


@pytest.mark.parametrize("name", ["cos_lr_scheduler", "learning_rate_at", "rate_of_step"])
@pytest.mark.parametrize(("old", "new", "ids"), [("", "", []), ("0.5 * (1 +", "(1 +", ["O7"])])
def test_a_cosine_schedule_is_known_by_what_it_is_told(name, old, new, ids, tmp_path):
    result = check_text(SCHEDULE.replace("cos_lr_scheduler", name).replace(old, new), tmp_path)[name]
    assert (result.kind, result.ids) == ("CosineSchedule", ids), result


def test_not_every_cosine_is_a_schedule(tmp_path):
    assert check_text(OTHER, tmp_path) == {}


@pytest.mark.parametrize(("old", "new", "ids"), [("", "", []), ("torch.linalg.norm(torch.stack(", "sum((", ["O10"])])
def test_gradients_are_clipped_in_place_and_nothing_is_returned(old, new, ids, tmp_path):
    text = CLIPPING.replace(old, new)
    module = types.ModuleType("learner_of_clipping")
    linecache.cache["<clipping>"] = (len(text), None, (IMPORTS + text).splitlines(keepends=True), "<clipping>")
    exec(compile(IMPORTS + text, "<clipping>", "exec"), module.__dict__)
    assert Checking({}, None, lambda event, **values: None)._why_not("gradient_clip", module.gradient_clip) == ""
    result = check_text(text, tmp_path)["gradient_clip"]
    assert (result.kind, result.ids) == ("GradientClipping", ids), result
