"""Schedules as classes around an optimizer or on top of one; losses whose smoothing is a setting."""

import pytest
import torch
from torch.optim.lr_scheduler import LRScheduler

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit import check
from scratch_transformer.kit.report.finding import FINE

pytestmark = pytest.mark.long

F = torch.nn.functional


class Around:
    """Sets the rate before each step of its optimizer."""

    def __init__(self, optimizer, d_model, n_warmup_steps):
        self.optimizer, self.d_model, self.warmup, self.count = optimizer, d_model, n_warmup_steps, 0

    def zero_grad(self):
        self.optimizer.zero_grad()

    def step(self):
        self.count += 1
        for group in self.optimizer.param_groups:
            group["lr"] = self.d_model**-0.5 * min(self.count**-0.5, self.count * self.warmup**-1.5)
        self.optimizer.step()


class WithoutWarmup(Around):
    def step(self):
        self.count += 1
        for group in self.optimizer.param_groups:
            group["lr"] = self.d_model**-0.5 * self.count**-0.5
        self.optimizer.step()


class BesideIt(Around):
    """Leaves the step to a GradScaler, which makes it."""

    def step(self):
        self.count += 1
        for group in self.optimizer.param_groups:
            group["lr"] = self.d_model**-0.5 * min(self.count**-0.5, self.count * self.warmup**-1.5)


class BesideItWithoutWarmup(Around):
    def step(self):
        self.count += 1
        for group in self.optimizer.param_groups:
            group["lr"] = self.d_model**-0.5 * self.count**-0.5


class OnTop(LRScheduler):
    """Counts its own calls; the first is made when it is built."""

    def __init__(self, optimizer, d_model, warmup_steps):
        self.d_model, self.warmup_steps = d_model, warmup_steps
        super().__init__(optimizer)

    def get_lr(self):
        n = self.last_epoch + 1
        return [self.d_model**-0.5 * min(n**-0.5, n * self.warmup_steps**-1.5) for _ in self.base_lrs]


def test_a_schedule_around_an_optimizer_and_one_on_top():
    assert check(Around, "WarmupSchedule").ids == []
    assert check(OnTop, "WarmupSchedule").ids == []
    assert check(WithoutWarmup, "WarmupSchedule").ids == ["T7"]


def test_a_schedule_that_leaves_the_steps_to_others():
    assert check(BesideIt, "WarmupSchedule").verdict == "matches the builtin"
    assert check(BesideItWithoutWarmup, "WarmupSchedule").ids == ["T7"]


def for_lambda_lr(step, d_model=512, warmup=4000):
    return d_model**-0.5 * min((step + 1) ** -0.5, (step + 1) * warmup**-1.5)


def two_steps_off(step, d_model=512, warmup=4000):
    return d_model**-0.5 * min((step + 2) ** -0.5, (step + 2) * warmup**-1.5)


def test_steps_may_be_counted_from_zero():
    assert check(for_lambda_lr, "WarmupSchedule").verdict == "matches the builtin"
    assert check(two_steps_off, "WarmupSchedule").verdict == "unknown mismatch"


class FromOneAtLeast(OnTop):
    """Its first two steps are both taken for step 1."""

    least = 1

    def get_lr(self):
        n = max(self.last_epoch, self.least)
        return [self.d_model**-0.5 * min(n**-0.5, n * self.warmup_steps**-1.5) for _ in self.base_lrs]


class FromThreeAtLeast(FromOneAtLeast):
    least = 3


def test_the_step_that_a_schedule_of_torchs_takes_when_it_is_made_may_be_taken_for_the_first():
    assert check(FromOneAtLeast, "WarmupSchedule").verdict == "matches the builtin"
    assert check(FromThreeAtLeast, "WarmupSchedule").verdict == "unknown mismatch"


def shifted(inputs, logits):
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), inputs[:, 1:].flatten())


def shifted_without_padding(logits, targets, pad, smoothing=0.0):
    logits, targets = logits[:, :-1].flatten(0, 1), targets[:, 1:].flatten()
    return F.cross_entropy(logits, targets, ignore_index=pad, label_smoothing=smoothing)


def shifted_backwards(logits, targets):
    return F.cross_entropy(logits[:, 1:].flatten(0, 1), targets[:, :-1].flatten())


def shifted_and_divided_by_all(logits, targets, pad):
    logits, targets = logits[:, :-1].flatten(0, 1), targets[:, 1:].flatten()
    return F.cross_entropy(logits, targets, ignore_index=pad, reduction="sum") / targets.numel()


def test_a_loss_may_shift_its_targets_itself():
    for loss in (shifted, shifted_without_padding):
        result = check(loss, "Loss")
        assert result.verdict == "matches the builtin" and any(
            "It shifts the targets itself" in n for n in result.notes
        )
    assert check(shifted_backwards, "Loss").verdict == "unknown mismatch"
    assert check(shifted_and_divided_by_all, "Loss").ids == ["T4"]


def shared_by_the_others(logits, target, pad, smoothing=0.0):
    log_p = logits.log_softmax(-1)
    picked = log_p.gather(-1, target[:, None])[:, 0]
    losses = -(1 - smoothing) * picked - smoothing / (logits.shape[-1] - 1) * (log_p.sum(-1) - picked)
    return losses[target != pad].mean()


def twice(logits, target, pad):
    return F.cross_entropy(logits.log_softmax(-1), target, ignore_index=pad)


def computed_twice(logits, target, pad, eps=0.1):
    keep = target != pad
    uniform = -logits.log_softmax(-1).mean(-1)[keep].mean()
    return (1 - eps) * F.nll_loss(logits.log_softmax(-1), target, ignore_index=pad) + eps * uniform


def test_smoothing_is_not_zero_when_a_loss_is_checked():
    assert check(shared_by_the_others, "Loss").ids == ["T3"]


def test_log_softmax_of_log_probabilities_and_not_of_logits_twice():
    assert check(twice, "Loss").ids == ["T1"]
    assert check(computed_twice, "Loss").ids == []


class LeavesOutPadding(torch.nn.Module):
    """PyTorch's default for ignore_index, which is no word, and the sum divided by what counts."""

    def __init__(self, num_classes, smoothing=0.1, ignore_index=-100):
        super().__init__()
        self.num_classes, self.smoothing, self.ignore_index = num_classes, smoothing, ignore_index

    def forward(self, pred, target):
        log = pred.log_softmax(dim=-1)
        wanted = torch.full_like(log, self.smoothing / self.num_classes)
        wanted.scatter_add_(1, target[:, None], torch.full_like(log[:, :1], 1 - self.smoothing))
        wanted.masked_fill_(target[:, None] == self.ignore_index, 0)
        return self.reduced(-(wanted * log).sum(-1), target)

    def reduced(self, losses, target):
        return losses.sum() / (target != self.ignore_index).sum()


class DividesByAll(LeavesOutPadding):
    def reduced(self, losses, target):
        return losses.mean()


def test_the_paddings_id_is_told_to_what_leaves_out_no_word_unless_told():
    assert check(LeavesOutPadding, "Loss").verdict == "matches the builtin"
    found = check(DividesByAll, "Loss").mistakes
    assert [(one.id, one.form) for one in found] == [("T4", "divided by all positions")]


class LearnsTheFirstWord(torch.nn.Module):
    """-100 is no place to scatter to: padding's targets are 0 for that, and stay so."""

    def __init__(self, label_smoothing, vocab_size, ignore_index=-100):
        super().__init__()
        self.ignore_index, self.smoothing, self.vocab_size = ignore_index, label_smoothing, vocab_size

    def forward(self, pred, target):
        wanted = torch.full_like(pred, self.smoothing / (self.vocab_size - 2))
        ignore = target == self.ignore_index
        wanted.scatter_(1, target.masked_fill(ignore, 0).unsqueeze(1), 1 - self.smoothing)
        loss = F.kl_div(pred.log_softmax(-1), wanted, reduction="sum")
        return loss / (~ignore).sum()


def test_padding_may_be_learned_as_the_first_word_and_shares_be_too_large():
    found = check(LearnsTheFirstWord, "Loss").mistakes
    assert [(one.id, one.form.partition(" and the ")[0], one.severity) for one in found] == [
        ("T3", "a share of V - 2 for V - 1 classes: the probabilities sum to more than 1", "mistake"),
        ("T4", "padding is learned as the first word,", "mistake"),
    ]


class OneShareForAll(torch.nn.Module):
    """The smoothing in a loss of its own; where it is told no padding, ignore_index is torch's."""

    keeps = None

    def __init__(self, eps=0.1, reduction="mean", ignore_index=-100):
        super().__init__()
        self.eps, self.reduction, self.ignore_index = eps, reduction, ignore_index

    def forward(self, output, target):
        log_p = F.log_softmax(output, dim=-1)
        uniform = -log_p.sum(-1)
        kept = target != self.ignore_index if self.keeps else torch.ones_like(target).bool()
        right = F.nll_loss(log_p, target, reduction=self.reduction, ignore_index=self.ignore_index)
        return (1 - self.eps) * right + uniform[kept].mean() * self.eps / output.shape[-1]


class AShareForTheRealOnes(OneShareForAll):
    keeps = True


def test_eps_is_a_losss_smoothing_and_padding_may_count_in_its_share_alone():
    found = check(OneShareForAll, "Loss")
    assert [(one.id, one.form) for one in found.mistakes] == [("T4", "in the smoothing's share alone")]
    right = check(AShareForTheRealOnes, "Loss")
    assert right.verdict == "matches the builtin" and right.error < 1e-12 and right.design == ""


def of_a_language_model(logits, targets):
    return F.cross_entropy(logits, targets)


def test_a_loss_that_is_told_of_no_padding_is_not_accused_of_counting_it():
    assert check(of_a_language_model, "Loss").verdict == "matches the builtin"


def with_a_penalty(logits, targets, weight=1e-4):
    return F.cross_entropy(logits, targets) + weight * torch.logsumexp(logits, -1).square().mean()


def test_what_agrees_for_log_probabilities_alone_since_it_takes_the_softmax_itself_is_not_right():
    assert check(with_a_penalty, "LossOfLogProbabilities").verdict == "unknown mismatch"
    assert check(lambda logits, targets: F.nll_loss(logits, targets), "LossOfLogProbabilities").ids == []


SMOOTHED = """
class LabelSmoothing(nn.Module):
    def __init__(self, size, padding_idx, smoothing=0.0):
        super().__init__()
        self.size, self.padding_idx, self.smoothing = size, padding_idx, smoothing

    def forward(self, x, target):
        wanted = torch.full_like(x, self.smoothing / OTHERS)
        wanted.scatter_(1, target.unsqueeze(1), 1 - self.smoothing)
        wanted[:, self.padding_idx] = 0
        wanted[target == self.padding_idx] = 0
        return F.kl_div(x, wanted, reduction="sum")
"""


@pytest.mark.parametrize("others, is_known", [("(self.size - 1)", True), ("(self.size - 4)", False)])
def test_a_share_of_the_padding_that_nobody_gets(others, is_known, tmp_path):
    result = check_text(SMOOTHED.replace("OTHERS", others), tmp_path)["LabelSmoothing"]
    forms = [named.form for named in result.mistakes if named.id == "T3"]
    assert (result.verdict == "harmless deviation") == is_known
    assert forms == ["V - 1 classes, and the padding's share is lost"] * is_known


SMOOTHS_ALONE = """
class LabelSmoothing(nn.Module):
    def __init__(self, epsilon=0.1):
        super().__init__()
        self.epsilon = epsilon

    def forward(self, inputs):
        return (1 - self.epsilon) * inputs + SHARE


def label_smoothing(inputs, epsilon=0.1):
    return (1 - epsilon) * inputs + epsilon / inputs.shape[-1]
"""


@pytest.mark.parametrize("share", ["self.epsilon / inputs.shape[-1]", "self.epsilon / inputs.shape[0]"])
def test_what_smooths_targets_alone_is_judged_by_the_loss_that_they_make(share, tmp_path):
    results = check_text(SMOOTHS_ALONE.replace("SHARE", share), tmp_path)
    assert results["label_smoothing"].verdict == "matches the builtin"
    made = results["LabelSmoothing"]
    assert made.verdict == ("matches the builtin" if share.endswith("[-1]") else "unknown mismatch")
    assert any("smooths targets alone" in note for note in made.notes)


def smoothed_if_asked(logits, gold, pad, smoothing=False):
    if not smoothing:
        return F.cross_entropy(logits, gold, ignore_index=pad, reduction="sum")
    eps, V = 0.1, logits.shape[1]
    wanted = torch.zeros_like(logits).scatter(1, gold[:, None], 1)
    wanted = wanted * (1 - eps) + (1 - wanted) * eps / (V - 1)
    return -(wanted * F.log_softmax(logits, 1)).sum(1)[gold != pad].sum()


def counts_padding_if_asked(logits, gold, pad, smoothing=False):
    if not smoothing:
        return F.cross_entropy(logits, gold, ignore_index=pad, reduction="sum")
    wanted = torch.full_like(logits, 0.1 / logits.shape[1]).scatter_add_(1, gold[:, None], torch.full_like(logits, 0.9))
    return -(wanted * F.log_softmax(logits, 1)).sum()


def test_smoothing_that_must_be_asked_for_is_asked_for():
    found = check(smoothed_if_asked, "Loss")
    assert (found.verdict, found.ids) == ("harmless deviation", ["T3"])
    assert "It was called with smoothing=True: what it does without was not checked." in found.limits
    assert check(counts_padding_if_asked, "Loss").ids == ["T4"]


PLAIN = """
class TokenCrossEntropyLoss:
    def __init__(self, pad_idx=0, label_smoothing=0.0):
        self.pad_idx, self.smoothing = pad_idx, label_smoothing

    def forward(self, logits, targets):
        log_p = F.log_softmax(logits, dim=-1)
        nll = -log_p.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
        losses = (1 - self.smoothing) * nll - self.smoothing * log_p.mean(-1)
        keep = targets != self.pad_idx
        return (losses * keep).sum() / keep.sum()

class Rotary:
    def __init__(self, dim, max_len=64, base=10000.0):
        angles = torch.outer(torch.arange(max_len).float(), base ** (-torch.arange(0, dim, 2).float() / dim))
        self.cos, self.sin = angles.cos(), angles.sin()

    def forward(self, x):
        cos, sin = self.cos[: x.shape[-2]], self.sin[: x.shape[-2]]
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)
"""


@pytest.mark.parametrize(
    ("name", "old", "new", "ids"),
    [
        ("TokenCrossEntropyLoss", "", "", []),
        ("TokenCrossEntropyLoss", "keep.sum()", "keep.numel()", ["T4"]),
        ("TokenCrossEntropyLoss", "F.log_softmax(logits, dim=-1)", "F.log_softmax(logits.softmax(-1), -1)", ["T2"]),
        ("Rotary", "", "", []),
        ("Rotary", "a * cos - b * sin", "a * cos + b * sin", ["R6"]),
    ],
)
def test_a_plain_class_with_a_forward_alone_is_called_by_that(name, old, new, ids, tmp_path):
    result = check_text(PLAIN.replace(old, new) if old else PLAIN, tmp_path)[name]
    assert result.severe == ids, result
    assert result.verdict == ("mistake" if ids else "matches the builtin")


OF_SENTENCES = """
class LabelSmoothing(nn.Module):
    def __init__(self, vocab_size, smoothing=0.1):
        super().__init__()
        self.vocab_size, self.smoothing = vocab_size, smoothing

    def forward(self, pred, target):
        B, T, V = pred.shape
        log_p = pred.log_softmax(-1)
        q = torch.full_like(log_p, self.smoothing / (self.vocab_size - 1))
        q.scatter_(2, target, 1 - self.smoothing)
        return -(q * log_p).sum(-1).mean()
"""


def test_of_a_loss_that_stops_the_way_to_call_it_that_came_farthest_is_told(tmp_path):
    """Of tokens it stops at once, as it takes sentences; of these, where its mistake is."""
    assert "q.scatter_(2, target" in check_text(OF_SENTENCES, tmp_path)["LabelSmoothing"].problem


CROSS_ENTROPY = """
def cross_entropy(input, target, ignore_index=None):
    losses = input.logsumexp(-1) - input.gather(-1, target.unsqueeze(-1)).squeeze(-1)
    if ignore_index is not None:
        kept = target != ignore_index
        return (losses * kept).sum() / COUNT
    return losses.mean()
"""


@pytest.mark.parametrize("count, ids", [("kept.sum()", []), ("kept.numel()", ["T4"])])
def test_a_loss_that_ignores_nothing_by_default_is_told_what_to_ignore(count, ids, tmp_path):
    result = check_text(CROSS_ENTROPY.replace("COUNT", count), tmp_path)["cross_entropy"]
    assert [one.id for one in result.mistakes] == ids


KEEPS_COUNT = """
class RateKeeper:
    def __init__(self, optimizer, warmup_steps, d_model):
        self.optimizer, self.warmup, self.d_model, self.count = optimizer, warmup_steps, d_model, 0

    def get_learning_rate(self, step=None):
        if step is not None:
            step = self.count
        return self.d_model**-0.5 * min(step**-0.5, RISE)

    def run_step(self):
        self.count += 1
        for group in self.optimizer.param_groups:
            group["lr"] = self.get_learning_rate(step=self.count)
        self.optimizer.step()
"""


@pytest.mark.parametrize("rise, ids", [("step * self.warmup**-1.5", []), ("step * self.warmup**-0.5", ["T7"])])
def test_a_rate_of_its_own_count_is_what_its_optimizer_steps_with(rise, ids, tmp_path):
    assert check_text(KEEPS_COUNT.replace("RISE", rise), tmp_path)["RateKeeper"].ids == ids


COSINE_TO_NOTHING = """
def get_lr(step, warmup_steps, max_steps, max_lr):
    if step < warmup_steps:
        return max_lr * (step + 1) / warmup_steps
    END
    progress = (step - warmup_steps) / (max_steps - warmup_steps)
    return max_lr * 0.5 * (1.0 + math.cos(math.pi * progress))
"""


@pytest.mark.parametrize("end, ids", [("if step > max_steps: return 0.0", []), ("", ["O6"])])
def test_a_function_that_is_told_of_no_least_rate_falls_to_zero(end, ids, tmp_path):
    result = check_text(COSINE_TO_NOTHING.replace("END", end), tmp_path)["get_lr"]
    assert result.verdict in FINE and [mistake.id for mistake in result.mistakes] == ids


BY_NUMPY = """
import numpy as np


class Scheduled:
    def __init__(self, optimizer, hidden_dim, warm_steps):
        self.optimizer, self.warm_steps, self.count = optimizer, warm_steps, 0
        self.rate_at_one = np.power(hidden_dim, -0.5)

    def step(self):
        self.count += 1
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate_at_one * self.share()
        self.optimizer.step()

    def share(self):
        return np.min([np.power(self.count, -0.5), self.count * np.power(self.warm_steps, -1.5)])
"""


@pytest.mark.parametrize("power, ids", [("-1.5", []), ("-0.5", ["T7"])])
def test_powers_may_be_numpys(power, ids, tmp_path):
    text = BY_NUMPY.replace("warm_steps, -1.5", f"warm_steps, {power}")
    assert check_text(text, tmp_path)["Scheduled"].severe == ids


class OfItself(torch.optim.Adam):
    """Sets its own rate before it steps as torch's does."""

    power = -1.5

    def __init__(self, params, d_model, warmup_steps=4000):
        self.width, self.warmup, self.count = d_model, warmup_steps, 0
        super().__init__(params, betas=(0.9, 0.98), eps=1e-9)

    def step(self):
        self.count += 1
        for group in self.param_groups:
            group["lr"] = self.width**-0.5 * min(self.count**-0.5, self.count * self.warmup**self.power)
        super().step()


class OfItselfTooSteep(OfItself):
    power = -0.5


class OfItselfTooLate(OfItself):
    def step(self):
        torch.optim.Adam.step(self)
        self.count += 1
        for group in self.param_groups:
            group["lr"] = self.width**-0.5 * min(self.count**-0.5, self.count * self.warmup**self.power)


def test_an_optimizer_that_warms_up_by_itself():
    assert check(OfItself, "WarmupSchedule").verdict in FINE
    assert check(OfItselfTooSteep, "WarmupSchedule").severe == ["T7"]
    assert check(OfItselfTooLate, "WarmupSchedule").verdict not in FINE  # its first step is as long as Adam's usual one


TO_A_WRITTEN_SHARE = """
def get_lr(current_step, total_steps, lr):
    END
    return FALL
"""
IN_ONE = "lr * (0.1 + 0.45 * (1 + math.cos(math.pi * current_step / total_steps)))"
ON_TOP = "lr / 10 + 0.5 * lr * (1 + math.cos(math.pi * current_step / total_steps))"
STOPS = "if current_step >= total_steps: return lr / 10"


@pytest.mark.parametrize(
    "fall, end, ids",
    [(IN_ONE, STOPS, []), (IN_ONE, "", ["O6"]), (ON_TOP, STOPS, ["O7"]), (ON_TOP, "", ["O6", "O7"])],
)
def test_a_function_may_fall_to_a_share_that_it_has_written_and_know_no_warmup(fall, end, ids, tmp_path):
    text = TO_A_WRITTEN_SHARE.replace("FALL", fall).replace("END", end)
    result = check_text(text, tmp_path)["get_lr"]
    assert result.verdict in FINE and [mistake.id for mistake in result.mistakes] == ids, result
    assert all(mistake.form == "the least rate is added to all of it" for mistake in result.mistakes[1:])


UP_TO_A_RATE = """
def transformer_rate(count, d_model, warmup_steps, highest):
    n = max(count, 1)
    paper = d_model ** -0.5 * min(n ** -0.5, n * warmup_steps ** POWER)
    return highest * paper / (d_model * warmup_steps) ** -0.5
"""


@pytest.mark.parametrize("name", ["peak_lr", "max_lr"])
@pytest.mark.parametrize("power, ids", [("-1.5", []), ("-0.5", ["T7"])])
def test_the_papers_rate_may_be_told_how_high_it_rises(power, ids, name, tmp_path):
    """A function that is called like a model, and gives a number, makes none."""
    text = UP_TO_A_RATE.replace("highest", name).replace("POWER", power).replace("count", "step")
    result = check_text(text, tmp_path)["transformer_rate"]
    assert (result.kind, result.ids) == ("WarmupSchedule", ids) and (result.verdict in FINE) == (not ids)
