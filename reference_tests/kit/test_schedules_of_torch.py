"""Schedules as classes of half a cosine, on top of torch's, made by a function or by a model's configure_optimizers."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

TEXT = """
from torch.optim.lr_scheduler import LambdaLR, LRScheduler


class HalfAWave:
    def __init__(self, optimizer, warmup_steps, total_steps, max_lr, min_lr=0.0):
        self.optimizer, self.warmup, self.total = optimizer, warmup_steps, total_steps
        self.max_lr, self.min_lr, self.count = max_lr, min_lr, 0

    def step(self):
        self.count += 1
        for group in self.optimizer.param_groups:
            group["lr"] = self.get_lr()

    def get_lr(self):
        if self.count < self.warmup:
            return self.max_lr * self.count / self.warmup
        progress = (self.count - self.warmup) / (self.total - self.warmup)
        return self.min_lr + (self.max_lr - self.min_lr) * (1 + math.cos(math.pi * min(progress, 1.0))) / 2


class OnTop(LRScheduler):
    def __init__(self, optimizer, warmup_steps, max_steps, min_lr=1e-5, last_epoch=-1):
        self.warmup_steps, self.max_steps, self.min_lr = warmup_steps, max_steps, min_lr
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        n = self.last_epoch
        if n < self.warmup_steps:
            return [base * n / self.warmup_steps for base in self.base_lrs]
        progress = min((n - self.warmup_steps) / (self.max_steps - self.warmup_steps), 1.0)
        return [self.min_lr + (base - self.min_lr) * (1 + math.cos(math.pi * progress)) / 2 for base in self.base_lrs]


class Told:
    def __init__(self, max_lr, min_lr, warmup_steps, max_steps):
        self.max_lr, self.min_lr, self.warmup_steps, self.max_steps = max_lr, min_lr, warmup_steps, max_steps

    def get_lr(self, step):
        if step < self.warmup_steps:
            return self.max_lr * (step + 1) / self.warmup_steps
        progress = min((step - self.warmup_steps) / (self.max_steps - self.warmup_steps), 1.0)
        return self.min_lr + (self.max_lr - self.min_lr) * (1 + math.cos(math.pi * progress)) / 2


class OfTheRoot(LRScheduler):
    def __init__(self, optimizer, warmup_steps, last_epoch=-1):
        self.warmup_steps = warmup_steps
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        n = self.last_epoch + 1
        share = min(n / self.warmup_steps, (self.warmup_steps / n) ** 0.5)
        return [base * share for base in self.base_lrs]


def made_for(optimizer, num_warmup_steps, num_training_steps):
    def share(n):
        if n < num_warmup_steps:
            return n / num_warmup_steps
        progress = min((n - num_warmup_steps) / (num_training_steps - num_warmup_steps), 1.0)
        return (1 + math.cos(math.pi * progress)) / 2

    return LambdaLR(optimizer, share)


def down_to_a_share(optimizer, num_warmup_steps, num_training_steps, max_lr, min_lr):
    def share(n):
        if n < num_warmup_steps:
            return n / num_warmup_steps
        progress = min((n - num_warmup_steps) / (num_training_steps - num_warmup_steps), 1.0)
        least = min_lr / max_lr
        return least + (1 - least) * (1 + math.cos(math.pi * progress)) / 2

    return LambdaLR(optimizer, share)


def straight(optimizer, num_warmup_steps, num_training_steps):
    def share(n):
        if n < num_warmup_steps:
            return n / num_warmup_steps
        return max(0.0, (num_training_steps - n) / (num_training_steps - num_warmup_steps))

    return LambdaLR(optimizer, share)


def of_the_root(d_model, warmup):
    return lambda step: d_model**-0.5 * min((step + 1) ** -0.5, (step + 1) * warmup**-1.5)


def bare(optimizer, warmup):
    return LambdaLR(optimizer, lambda n: min((n + 1) ** -0.5, (n + 1) * warmup**-1.5))


def shares(warmup_steps, max_steps, min_ratio=0.1):
    def share(step):
        if step < warmup_steps:
            return step / warmup_steps
        progress = min((step - warmup_steps) / (max_steps - warmup_steps), 1.0)
        return min_ratio + (1 - min_ratio) * (1 + math.cos(math.pi * progress)) / 2

    return share


def later(warmup):
    return lambda step: print(warmup, step**-0.5)


class Model(nn.Module):
    def __init__(self, d_model, warmup):
        super().__init__()
        self.linear, self.d_model, self.warmup = nn.Linear(d_model, d_model), d_model, warmup

    def forward(self, this, that):
        return self.linear(this) + that

    def share(self, n):
        return self.d_model**-0.5 * min((n + 1) ** -0.5, (n + 1) * self.warmup**-1.5)

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=1.0, betas=(0.9, 0.98))
        return [optimizer], [{"scheduler": LambdaLR(optimizer, self.share), "interval": "step"}]


class Lit(nn.Module):
    def __init__(self, model, **options):
        super().__init__()
        self.model = model

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)

        def share(n):
            if n < self.hparams.warmup_steps:
                return n / self.hparams.warmup_steps
            rest = self.hparams.max_steps - self.hparams.warmup_steps
            return (1 + math.cos(math.pi * min((n - self.hparams.warmup_steps) / rest, 1.0))) / 2

        return {"optimizer": optimizer, "lr_scheduler": LambdaLR(optimizer, share)}


class Trainer:
    def __init__(self, optimizer, d_model, warmup):
        self.optimizer, self.scale, self.warmup = optimizer, d_model**-0.5, warmup

    def train_step(self):
        self.optimizer.step()
"""
COSINES, ROOTS = (
    ["HalfAWave", "OnTop", "Told", "made_for", "down_to_a_share", "shares"],
    ["OfTheRoot", "of_the_root", "bare", "Model.configure_optimizers.schedule"],
)
LENGTH = "(self.max_steps - self.warmup_steps)"
OF_LIT = "Lit.configure_optimizers.schedule"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("schedules")


@pytest.fixture(scope="module")
def results(folder):
    return check_text(TEXT, folder)


@pytest.mark.parametrize("name", [*COSINES, *ROOTS, OF_LIT])
def test_it_is_judged(name, results):
    assert (results[name].verdict, results[name].ids) == ("matches the builtin", [])
    assert results[name].kind == ("WarmupSchedule" if name in ROOTS else "CosineSchedule")


def test_a_straight_line_is_none_of_a_cosine(results):
    found = results["straight"]
    assert (found.kind, found.verdict, found.ids) == ("LinearSchedule", "matches the builtin", [])


def test_what_has_an_optimizer_is_no_schedule_by_that(results):
    assert "Trainer" not in results


@pytest.mark.parametrize(
    ("name", "old", "new", "id"),
    [
        ("HalfAWave", "(self.total - self.warmup)", "self.total", "O6"),
        ("HalfAWave", ") / 2\n\n\nclass OnTop", ")\n\n\nclass OnTop", "O7"),
        ("OnTop", f"{LENGTH}, 1.0)\n        return [", "self.max_steps, 1.0)\n        return [", "O6"),
        ("Told", f"- self.warmup_steps) / {LENGTH}, 1.0)\n        return s",
         ") / self.max_steps, 1.0)\n        return s", "O6"),
        ("made_for", ") / 2\n\n    return LambdaLR", ")\n\n    return LambdaLR", "O7"),
        ("down_to_a_share", "(1 - least) * (1 + math", "2 * (1 - least) * (1 + math", "O7"),
        ("of_the_root", "warmup**-1.5", "warmup**-0.5", "T7"),
        ("bare", "n: min((n", "n: max((n", "T7"),
        ("shares", "/ 2\n\n    return share\n\n\ndef later", "\n\n    return share\n\n\ndef later", "O7"),
        ("Model.configure_optimizers.schedule", "* min((n", "* max((n", "T7"),
        ("Model.configure_optimizers.schedule", "self.d_model**-0.5 *", "self.d_model**0.5 *", "T7"),
    ],
)  # fmt: skip
def test_its_mistake_is_named(name, old, new, id, folder):
    assert old in TEXT
    assert check_text(TEXT.replace(old, new), folder, {name})[name].ids == [id]
