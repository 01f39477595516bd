"""Rates whose numbers an object has: a config that a function is given, or the trainer whose method it is."""

import pytest

from reference_tests.kit.learners.checked import check_text, reported, time_to_look

pytestmark = pytest.mark.long

OF_A_CONFIG = """
def rate_at(step, train_cfg):
    peak = train_cfg.learning_rate
    least = LEAST
    if step < train_cfg.warmup_steps:
        return peak * (step + 1) / train_cfg.warmup_steps
    if step > train_cfg.max_steps:
        return least
    done = (step - train_cfg.warmup_steps) / max(1, LENGTH)
    return least + 0.5 * (1.0 + math.cos(math.pi * done)) * (peak - least)
"""
FULL = "train_cfg.max_steps - train_cfg.warmup_steps"
LEASTS = ["train_cfg.min_lr", "peak * train_cfg.min_lr_ratio", "peak / 10", 'getattr(train_cfg, "min_lr", 0.0)']


@pytest.mark.parametrize("length, ids", [(FULL, []), ("train_cfg.max_steps", ["O6"])])
@pytest.mark.parametrize("least", LEASTS)
def test_a_function_is_told_the_numbers_that_it_reads_of_a_config(least, length, ids, tmp_path):
    result = check_text(OF_A_CONFIG.replace("LEAST", least).replace("LENGTH", length), tmp_path)["rate_at"]
    assert (result.kind, result.ids, result.problem) == ("CosineSchedule", ids, "")


def test_a_config_may_be_a_dictionary_of_sections(tmp_path):
    text = OF_A_CONFIG.replace("LEAST", 'train_cfg["optim"].get("min_lr", 0.0)').replace("LENGTH", FULL)
    text = text.replace("train_cfg.learning_rate", 'train_cfg["optim"]["lr"]')
    result = check_text(text, tmp_path)["rate_at"]
    assert (result.verdict, result.problem) == ("matches the builtin", "")


OF_A_TRAINER = """
class Trainer:
    def __init__(self, model, cfg):
        self.model, self.cfg, self.iter_num = model, cfg, 0
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.train.lr)

    def TAKEN:
        cfg = self.cfg.train
        if not cfg.use_cosine_lr:
            return cfg.lr
        if cfg.warmup_iters > 0 and COUNT < cfg.warmup_iters:
            return cfg.lr * COUNT / cfg.warmup_iters
        if COUNT > cfg.lr_decay_iters:
            return cfg.min_lr
        done = (COUNT - cfg.warmup_iters) / (cfg.lr_decay_iters - cfg.warmup_iters)
        return cfg.min_lr + FACTOR * (1.0 + math.cos(math.pi * done)) * (cfg.lr - cfg.min_lr)

    def train(self, loader):
        for x, y in loader:
            for group in self.optimizer.param_groups:
                group["lr"] = self.CALLED
            loss = F.cross_entropy(self.model(x).flatten(0, 1), y.flatten())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.iter_num += 1
"""
STYLES = [("get_lr(self)", "self.iter_num", "get_lr()"), ("get_lr(self, it)", "it", "get_lr(self.iter_num)")]


@pytest.mark.parametrize("factor, verdict", [("0.5", "matches the builtin"), ("0.4", "unknown mismatch")])
@pytest.mark.parametrize("taken, count, called", STYLES)
def test_a_trainers_method_is_told_the_numbers_that_its_trainer_has(taken, count, called, factor, verdict, tmp_path):
    text = OF_A_TRAINER.replace("TAKEN", taken).replace("COUNT", count).replace("CALLED", called)
    with time_to_look(1):
        result = check_text(text.replace("FACTOR", factor), tmp_path)["Trainer.get_lr"]
    assert (result.kind, result.verdict) == ("CosineSchedule", verdict)


def test_what_hands_its_config_on_is_told_the_config(tmp_path):
    text = OF_A_CONFIG.replace("LEAST", "least_of(train_cfg)").replace("LENGTH", FULL)
    assert "train_cfg=None" in check_text(text, tmp_path)["rate_at"].problem


WITH_SHARE = """
def get_lr(step, learning_rate, warmup_steps, max_steps, min_lr_ratio):
    min_lr = learning_rate * min_lr_ratio
    if step < warmup_steps:
        return learning_rate * (step + 1) / warmup_steps
    if step > max_steps:
        return min_lr
    done = (step - warmup_steps) / (max_steps - warmup_steps)
    return min_lr + 0.5 * (1.0 + math.cos(math.pi * done)) * (learning_rate - min_lr)
"""


@pytest.mark.parametrize("told, share", [(", min_lr_ratio", "min_lr_ratio"), ("", "0.1")])
def test_the_least_rate_is_a_share_that_a_function_is_told_or_has_written_in_it(told, share, tmp_path):
    text = WITH_SHARE.replace(", min_lr_ratio", told).replace("* min_lr_ratio", f"* {share}")
    assert check_text(text, tmp_path)["get_lr"].verdict == "matches the builtin"


ON_TOP = """
class WarmupCosine(torch.optim.lr_scheduler.LRScheduler):
    def __init__(self, optimizer, warmup_steps, min_lr, START, total_steps, last_epoch=-1):
        self.warmup_steps, self.total_steps, self.min_lr = warmup_steps, total_steps, min_lr
        self.peak, self.first = optimizer.param_groups[0]["lr"], START
        super().__init__(optimizer, last_epoch=last_epoch)

    def get_lr(self):
        if self.last_epoch < self.warmup_steps:
            return [self.first + (self.peak - self.first) / self.warmup_steps * self.last_epoch]
        done = (self.last_epoch - self.warmup_steps) / (self.total_steps - self.warmup_steps)
        return [self.min_lr + FACTOR * (self.peak - self.min_lr) * (1 + math.cos(math.pi * min(1.0, done)))]
"""
OF_A_STEP = """
def rate_at(step, START, peak_lr, final_lr, warmup_steps, total_steps):
    if step < warmup_steps:
        return START + (peak_lr - START) * step / warmup_steps
    done = min(1.0, (step - warmup_steps) / (total_steps - warmup_steps))
    return final_lr + FACTOR * (peak_lr - final_lr) * (1 + math.cos(math.pi * done))
"""


@pytest.mark.parametrize("factor, verdict", [("0.5", "matches the builtin"), ("0.4", "unknown mismatch")])
@pytest.mark.parametrize("name, text", [("WarmupCosine", ON_TOP), ("rate_at", OF_A_STEP)])
@pytest.mark.parametrize("start", ["start_lr", "warmup_init_lr"])
def test_a_warmup_may_be_told_where_it_begins(start, name, text, factor, verdict, tmp_path):
    with time_to_look(1):
        result = check_text(text.replace("START", start).replace("FACTOR", factor), tmp_path)[name]
    assert (result.kind, result.verdict) == ("CosineSchedule", verdict)


BY_ROOTS = """
def NAME(current_step, num_warmup_steps, d_model):
    falls = (current_step + 1) ** -0.5
    rises = (current_step + 1) * num_warmup_steps**POWER
    return d_model**-0.5 * min(falls, rises)
"""


@pytest.mark.parametrize("power, ids", [("-1.5", []), ("-0.5", ["T7"])])
@pytest.mark.parametrize("name", ["lambda_transformer", "compute", "noam_lambda"])
def test_the_papers_rate_is_known_by_its_roots_and_may_count_from_0(name, power, ids, tmp_path):
    result = check_text(BY_ROOTS.replace("NAME", name).replace("POWER", power), tmp_path)[name]
    assert (result.kind, result.ids) == ("WarmupSchedule", ids)


MADE_BY_A_METHOD = """
class Trainer:
    def __init__(self, model):
        self.model = model

    def warmed_up(self, optimizer, warmup_WORD, total_WORD):
        def share(epoch):
            if epoch < warmup_WORD:
                return epoch / warmup_WORD
            done = (epoch - warmup_WORD) / (LENGTH)
            return 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))
        return torch.optim.lr_scheduler.LambdaLR(optimizer, share)

    def train_epoch(self, loader, optimizer):
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(self.model(x), y).backward()
            optimizer.step()
"""


@pytest.mark.parametrize("length, ids", [("total_WORD - warmup_WORD", []), ("total_WORD", ["O6"])])
@pytest.mark.parametrize("word", ["steps", "epochs"])
def test_a_method_that_makes_a_schedule_of_what_it_is_told_is_a_function(word, length, ids, tmp_path):
    text = MADE_BY_A_METHOD.replace("LENGTH", length).replace("WORD", word)
    result = check_text(text, tmp_path)["Trainer.warmed_up"]
    assert (result.kind, result.ids, result.problem) == ("CosineSchedule", ids, "")


AROUND = """
class WarmedUp:
    def __init__(self, optimizer, d_model=512, warmup_steps=4000, scale=1):
        self.optimizer, self.scale, self.count = optimizer, scale, 0
        self.d_model, self.warmup_steps = d_model, warmup_steps

    def zero_grad(self):
        self.optimizer.zero_grad()

    def get_lr(self):
        return self.scale * self.d_model**-0.5 * min(self.count**-0.5, self.count * self.warmup_steps**-1.5)

    def step(self):
        self.count += 1
        for group in self.optimizer.param_groups:
            group["lr"] = self.get_lr()
        self.optimizer.step()
"""


def test_a_schedule_that_hands_zero_grad_on_to_its_optimizer_is_judged_as_one(tmp_path):
    """Its method for the rate is a piece of it, which nobody tells the scale."""
    (tmp_path / "learner.py").write_text(AROUND)
    report = reported(tmp_path / "learner.py")
    assert [(one.name, one.verdict) for one in report.results] == [("WarmedUp", "matches the builtin")]
    assert report.ignored == []
