"""A function that makes an optimizer of a model and a schedule on top of it, `return optimizer, schedule`, is judged by
its rates.
"""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

TEXT = """
import math
import torch
from torch.optim.lr_scheduler import LambdaLR

base_lr = 3e-4
warmup_steps, max_steps = 200, 4000
min_lr = base_lr / 10


def of_the_paper(model, d_model, warmup):
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    return optimizer, LambdaLR(optimizer, lambda n: d_model**-0.5 * min((n + 1) ** -0.5, (n + 1) * warmup**-1.5))


def of_two_configs(model, model_config, train_config):
    betas = train_config.b1, train_config.b2
    optimizer = torch.optim.Adam(model.parameters(), lr=train_config.lr, betas=betas, eps=train_config.eps)

    def rate(step):
        step = step + 1
        return model_config.d_model**-0.5 * min(step**-0.5, step * train_config.warmup_steps**-1.5)

    return {"optimizer": optimizer, "scheduler": LambdaLR(optimizer, rate)}


def of_globals(model):
    shrinking = [p for n, p in model.named_parameters() if p.ndim > 1]
    others = [p for n, p in model.named_parameters() if p.ndim < 2]
    groups = [{"params": shrinking, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optim = torch.optim.AdamW(groups, lr=base_lr, betas=(0.9, 0.95))

    def share(n):
        if n < warmup_steps:
            return n / warmup_steps
        progress = min(1.0, (n - warmup_steps) / (max_steps - warmup_steps))
        least = min_lr / base_lr
        return least + (1 - least) * 0.5 * (1 + math.cos(math.pi * progress))

    return optim, LambdaLR(optim, share)


def in_a_line(params, num_warmup_steps, num_training_steps, weight_decay):
    optimizer = torch.optim.AdamW(params, lr=2e-5, weight_decay=weight_decay)

    def share(n):
        if n < num_warmup_steps:
            return n / num_warmup_steps
        return max(0.0, (num_training_steps - n) / (num_training_steps - num_warmup_steps))

    return [optimizer], [LambdaLR(optimizer, lr_lambda=share)]
"""
RIGHT = ("of_the_paper", "of_two_configs", "of_globals", "in_a_line")


@pytest.mark.parametrize(("old", "new", "ids"), [
    ("", "", {}),
    ("(n + 1) * warmup**-1.5", "(n + 1) * warmup**-0.5", {"of_the_paper": ["T7"]}),
    ("step * train_config.warmup_steps**-1.5", "step * train_config.warmup_steps**-0.5", {"of_two_configs": ["T7"]}),
    ("(n - warmup_steps) / (max_steps - warmup_steps)", "(n - warmup_steps) / max_steps", {"of_globals": ["O6"]}),
    ("n) / (num_training_steps - num_warmup_steps)", "n) / num_training_steps", {"in_a_line": ["O6"]}),
])  # fmt: skip
def test_a_schedule_is_judged_that_is_made_with_its_optimizer(old, new, ids, tmp_path):
    found = check_text(TEXT.replace(old, new), tmp_path)
    rates = {name.partition(".")[0]: one.ids for name, one in found.items() if name.endswith(".schedule")}
    assert rates == {**{name: [] for name in RIGHT}, **ids}
    assert (found["of_globals"].kind, found["of_globals"].ids) == ("DecayGroups", [])


@pytest.mark.parametrize(("old", "new"), [
    ("def of_the_paper(model, ", "def of_the_paper(dataset, "),
    ("def of_the_paper(model, ", "def of_the_paper(model, criterion, "),
    ("    return optimizer, LambdaLR(", "    loss(model).backward()\n    return optimizer, LambdaLR("),
])  # fmt: skip
def test_what_asks_for_more_than_a_model_or_trains_it_is_not_called(old, new, tmp_path):
    assert TEXT.count(old) == 1
    assert "of_the_paper.schedule" not in check_text(TEXT.replace(old, new), tmp_path)
