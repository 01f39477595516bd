"""Functions of a training script: a cosine schedule of any name, gradients that are clipped in place."""

import functools
import linecache
import types

import pytest

from reference_tests.kit.learners.checked import IMPORTS, check_text, reported, written
from scratch_transformer.kit.checking import Checking

pytestmark = pytest.mark.long

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


@pytest.mark.parametrize("steps", ["iterations", "train_steps", "last_iteration_steps"])
@pytest.mark.parametrize(("old", "new", "ids"), [("", "", []), ("0.5 * (1 +", "(1 +", ["O7"])])
def test_the_number_of_all_steps_has_many_names(steps, old, new, ids, tmp_path):
    text = SCHEDULE.replace("cos_cycle_iters", steps).replace("cos_lr_scheduler", "rate_at").replace(old, new)
    result = check_text(text, tmp_path)["rate_at"]
    assert (result.kind, result.ids) == ("CosineSchedule", ids), result


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


GROUPED = """
def make_optimizer(model, lr=3e-4, weight_decay=0.1):
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decay, "weight_decay": weight_decay}, {"params": rest, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95))
"""
MATRICES = ">= 2]\n    rest = [p for p in model.parameters() if p.dim() < 2]"
OTHERS = "< 2]\n    rest = [p for p in model.parameters() if p.dim() >= 2]"
BY_NAME = """
class Net(nn.Module):
    def groups(self, wd, learning_rate, betas, device_type):
        shrinking, others = [], []
        for name, p in self.named_parameters():
            (others if name.endswith("bias") or "norm" in name or "ln" in name else shrinking).append(p)
        return [dict(params=shrinking, weight_decay=wd), dict(params=others, weight_decay=0.0)]
"""
BY_MODULE = """
def configure_optimizers(net, lambd):
    decay, rest = set(), set()
    for prefix, module in net.named_modules():
        for name, p in module.named_parameters(recurse=False):
            (decay if isinstance(module, nn.Linear) and name == "weight" else rest).add(p)
    groups = [{"params": list(decay)}, {"params": list(rest), "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=1e-3, weight_decay=lambd)
"""


@pytest.mark.parametrize(
    ("text", "name", "old", "new", "forms"),
    [
        (GROUPED, "make_optimizer", "", "", []),
        (GROUPED, "make_optimizer", "0.0", "weight_decay", ["everything shrinks"]),
        (GROUPED, "make_optimizer", MATRICES, OTHERS, ["matrices do not shrink, and the others do"]),
        (GROUPED, "make_optimizer", "if p.dim() < 2", "if p.dim() < 1", ["no optimizer has the norms and biases"]),
        (BY_NAME, "Net.groups", "", "", []),
        (BY_NAME, "Net.groups", ' or "norm" in name or "ln" in name', "", ["norms shrink too"]),
        (BY_NAME, "Net.groups", 'name.endswith("bias") or ', "", ["biases shrink too"]),
        (BY_MODULE, "configure_optimizers", "", "", []),
        (BY_MODULE, "configure_optimizers", "isinstance(module, nn.Linear) and ", "", ["norms shrink too"]),
    ],
)
def test_norms_and_biases_do_not_shrink(text, name, old, new, forms, tmp_path):
    assert old in text
    result = check_text(text.replace(old, new, 1), tmp_path)[name]
    assert result.kind == "DecayGroups"
    assert [(m["id"], m["form"]) for m in result.document()["mistakes"]] == [("O11", form) for form in forms], result


OF_ITS_OWN_PARTS = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.ModuleDict({"layers": nn.Linear(3, 3)})

    def forward(self, x):
        return self.inner.layers(x)

    def setup_optimizers(self, lr, weight_decay=0.0):
        return torch.optim.AdamW(self.inner.layers.parameters(), lr=lr, weight_decay=weight_decay)
"""


def test_what_a_model_lacks_that_the_kit_made_is_no_mistake_of_the_method(tmp_path):
    report = reported(written(OF_ITS_OWN_PARTS, tmp_path))
    assert not any(result.severe for result in report.results)
    assert any("Net.setup_optimizers (it asks its model for .inner" in said for said in report.ignored), report.ignored


OF_A_TRAINER = """
class Fitting:
    def __init__(self, model, config):
        self.model, self.config = model, config
        self.optimizer = self._optimizer(False)

    def _optimizer(self, log):
        big = [p for p in self.model.parameters() if p.dim() >= 2]
        rest = [p for p in self.model.parameters() if p.dim() < 2]
        if log:
            print(len(big), len(rest))
        told = self.config.train
        groups = [{"params": big, "weight_decay": told.weight_decay}, {"params": rest, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=told.learning_rate)
"""


@pytest.mark.parametrize("old, new, ids", [("", "", []), ("p.dim() < 2", "p.dim() < 1", ["O11"])])
def test_what_trains_a_model_that_it_has_says_which_weights_of_that_shrink(old, new, ids, tmp_path):
    assert check_text(OF_A_TRAINER.replace(old, new), tmp_path)["Fitting._optimizer"].ids == ids


ONE_GROUP = "everything shrinks, as there is one weight decay for all weights"
IN_ONE = """
def configure_optimizer(model, lr, weight_decay):
    weights = [p for p in model.parameters() if p.requires_grad]
    return torch.optim.AdamW(weights, lr=lr, weight_decay=weight_decay)

class Net(nn.Module):
    def configure_optimizers(self):
        found = torch.optim.AdamW(self.parameters(), lr=self.config.learning_rate, weight_decay=self.weight_decay)
        return {"optimizer": found, "lr_scheduler": None}

class Other(nn.Module):
    def make_optimizer(self, wd, lr):
        return [torch.optim.SGD(self.parameters(), lr=lr, weight_decay=wd)], []
"""


def test_that_all_weights_shrink_in_one_group_is_worth_knowing(tmp_path):
    found = check_text(IN_ONE, tmp_path)
    assert found.keys() == {"configure_optimizer", "Net.configure_optimizers", "Other.make_optimizer"}
    for result in found.values():
        assert [(one.id, one.form, one.severity) for one in result.mistakes] == [("O11", ONE_GROUP, "note")]
        assert result.verdict == "matches the builtin"
        shown = int(result.mistakes[0].where.rpartition(":")[2])
        assert "weight_decay=" in (IMPORTS + IN_ONE).splitlines()[shown - 1]


def test_groups_that_are_one_are_a_mistake(tmp_path):
    text = """
def groups_of(model, weight_decay):
    return [{"params": list(model.parameters()), "weight_decay": weight_decay}]
"""
    assert [one.form for one in check_text(text, tmp_path)["groups_of"].mistakes] == ["everything shrinks"]


def test_an_optimizer_without_groups_is_no_component(tmp_path):
    text = "def make(model, lr): return torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.1)"
    assert check_text(text, tmp_path) == {}


OWN_NAMES = """
def pick(logits, temperature=1.0, top_p=1.0):
    probs, order = (logits / temperature).softmax(-1).sort(descending=True)
    probs = probs.masked_fill(probs.cumsum(-1) - probs >= top_p, 0.0)
    return order.gather(-1, torch.multinomial(probs, 1))

def clip_(params, limit):
    params = [p for p in params if p.grad is not None]
    total = torch.sqrt(sum(p.grad.square().sum() for p in params))
    if total > limit:
        for p in params:
            p.grad.mul_(limit / total)

def rate(step, peak, floor, warmup, total):
    if step < warmup:
        return peak * step / warmup
    share = min((step - warmup) / (total - warmup), 1.0)
    return floor + (peak - floor) * 0.5 * (1.0 + math.cos(math.pi * share))
"""


@pytest.mark.parametrize(
    ("name", "kind", "old", "new", "mistake"),
    [
        ("pick", "Sampling", "probs.cumsum(-1) - probs", "probs.cumsum(-1)", "S2"),
        ("clip_", "GradientClipping", "limit / total", "min(1.0, limit / p.grad.norm())", "O9"),
        ("rate", "CosineSchedule", "(step - warmup) / (total - warmup)", "(step - warmup) / total", "O6"),
        ("rate", "CosineSchedule", "    if step < warmup:\n        return peak * step / warmup\n", "", "O8"),
    ],
)
def test_what_is_called_by_names_of_ones_own(name, kind, old, new, mistake, tmp_path):
    right = check_text(OWN_NAMES, tmp_path)[name]
    assert (right.kind, right.ids) == (kind, []), right
    assert check_text(OWN_NAMES.replace(old, new), tmp_path)[name].ids == [mistake]


STYLES = '''
def pick(logits, temp=1.0, k=0, p=1.0):
    """One row of logits -> an id; p counts what top-k leaves out, too."""
    probs, ids = (logits / temp).softmax(-1).sort(descending=True)
    if k > 0:
        probs, ids = probs[:k], ids[:k]
    probs = probs * (probs.cumsum(0) - probs < p)
    return int(ids[torch.multinomial(probs / probs.sum(), 1)])

def sample_next(logits, temperature=1.0, top_k=None, top_p=None):
    logits = logits / temperature
    if top_k is not None:
        kth = logits.topk(min(top_k, logits.size(-1)), dim=-1).values[:, -1:]
        logits = logits.masked_fill(logits < kth, float("-inf"))
    if top_p is not None:
        values, order = logits.sort(dim=-1, descending=True)
        probs = F.softmax(values, dim=-1)
        drop = probs.cumsum(dim=-1) - probs > top_p
        logits = logits.masked_fill(drop.scatter(-1, order, drop), float("-inf"))
    return torch.multinomial(F.softmax(logits, dim=-1), 1)

class WarmupCosine:
    def __init__(self, max_lr: float, min_lr: float, warmup_steps: int, total_steps: int):
        self.max_lr, self.min_lr = max_lr, min_lr
        self.warmup_steps, self.total_steps = warmup_steps, total_steps

    def __call__(self, step: int) -> float:
        if step < self.warmup_steps:
            return self.max_lr * step / self.warmup_steps
        if step >= self.total_steps:
            return self.min_lr
        t = (step - self.warmup_steps) / (self.total_steps - self.warmup_steps)
        return self.min_lr + 0.5 * (self.max_lr - self.min_lr) * (1 + math.cos(math.pi * t))

def lr_at(step, top=1e-3, end=1e-4, warm=10, total=100):
    if step < warm:
        return top * (step + 1) / warm
    if step > total:
        return end
    return end + (top - end) * (1 + math.cos(math.pi * (step - warm) / (total - warm))) / 2

@torch.no_grad()
def clip(ps, c):
    ps = [p for p in ps if p.grad is not None]
    n = torch.cat([p.grad.flatten() for p in ps]).norm()
    if n > c:
        for p in ps:
            p.grad *= c / n

def make_opt(model, lr, wd):
    mats = [p for p in model.parameters() if p.ndim > 1]
    return [{"params": mats, "wd": wd}, {"params": [p for p in model.parameters() if p.ndim <= 1], "wd": 0.0}]

class AdamW:
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        self.params, self.t = list(params), 0
        self.lr, self.betas, self.eps, self.weight_decay = lr, betas, eps, weight_decay
        self.m, self.v = ([torch.zeros_like(p) for p in self.params] for _ in range(2))

    @torch.no_grad()
    def step(self):
        self.t += 1
        b1, b2 = self.betas
        for p, m, v in zip(self.params, self.m, self.v):
            g = p.grad
            m.mul_(b1).add_(g, alpha=1 - b1)
            v.mul_(b2).addcmul_(g, g, value=1 - b2)
            p.mul_(1 - self.lr * self.weight_decay)
            p.sub_(self.lr * (m / (1 - b1**self.t)) / ((v / (1 - b2**self.t)).sqrt() + self.eps))
'''


@pytest.mark.parametrize("name", ["pick", "sample_next", "WarmupCosine", "lr_at", "clip", "make_opt", "AdamW"])
def test_other_styles_are_right(name, styles):
    assert (styles("", "")[name].verdict, styles("", "")[name].ids) == ("matches the builtin", [])


@pytest.fixture(scope="module")
def styles(tmp_path_factory):
    """What is found in them, with one place changed."""

    @functools.cache
    def found(old, new):
        assert old in STYLES
        return check_text(STYLES.replace(old, new), tmp_path_factory.mktemp("styles"))

    return found


@pytest.mark.parametrize(
    ("name", "old", "new", "mistake", "line"),
    [
        ("pick", "probs.cumsum(0) - probs", "probs.cumsum(0)", "S2", "cumsum"),
        ("sample_next", "drop.scatter(-1, order, drop)", "drop", "S2", "cumsum"),
        ("sample_next", 'logits < kth, float("-inf")', "logits < kth, 0.0", "S3", "kth, 0.0"),
        ("sample_next", "logits / temperature", "logits * temperature", "S1", "* temperature"),
        ("WarmupCosine", "/ (self.total_steps - self.warmup_steps)", "/ self.total_steps", "O6", "/ self."),
        ("WarmupCosine", "self.min_lr + 0.5 *", "0.5 *", "O7", "cos("),
        ("lr_at", "/ (total - warm)", "/ total", "O6", "/ total"),
        ("clip", "c / n", "c / p.grad.norm()", "O9", "norm()"),
        ("make_opt", '"wd": 0.0', '"wd": wd', "O11", "wd"),
        ("AdamW", "g = p.grad", "g = p.grad + self.weight_decay * p", "O2", "g = "),
        ("AdamW", "v / (1 - b2**self.t)", "v", "O1", "sqrt"),
        ("AdamW", "self.t += 1", "self.t = 1", "O1", "b1**self.t"),
        ("AdamW", "self.t += 1", "self.t += 1 + (self.t == 0)", "O1", "b1**self.t"),
        ("AdamW", "            m.mul_(b1)", "            m, v = m * 0, v * 0\n            m.mul_(b1)", "O5", "betas"),
    ],
)
def test_mistakes_in_other_styles_and_their_lines(name, old, new, mistake, line, styles):
    result = styles(old, new)[name]
    assert result.ids == [mistake]
    (found,) = result.document()["mistakes"]
    number = int(found["where"].rpartition(":")[2])
    assert line in (IMPORTS + STYLES.replace(old, new)).splitlines()[number - 1], found["where"]


STATIC = """
class Sampler:
    def __init__(self, model):
        self.model = model

    @torch.no_grad()
    def write(self, ids, steps):
        for _ in range(steps):
            ids = torch.cat([ids, self.best_k(self.model(ids)[:, -1], 5)], -1)
        return ids

    @staticmethod
    def sample_top_k(logits, top_k):
        kept, ids = logits.topk(top_k)
        left = torch.full_like(logits, OUT).scatter(-1, ids, kept)
        return torch.multinomial(left.softmax(-1), 1)

    @staticmethod
    def shown(logits):
        return logits.exp()
"""


@pytest.mark.parametrize("out, ids", [("-math.inf", []), ("0.0", ["S3"])])
def test_a_static_method_that_samples_is_a_function(out, ids, tmp_path):
    results = check_text(STATIC.replace("OUT", out), tmp_path)
    assert [*results] == ["Sampler.sample_top_k"]
    assert [one.id for one in results["Sampler.sample_top_k"].mistakes] == ids
    assert results["Sampler.sample_top_k"].verdict == ("mistake" if ids else "matches the builtin")


STRATEGIES = """
class Strategy(Protocol):
    def sample(self, logits, temperature=1.0) -> int:
        ...

class Greedy:
    def sample(self, logits, temperature=1.0):
        return int(logits.argmax())

class AsTheyAre:
    def sample(self, logits, temperature=1.0):
        if temperature != 1.0:
            logits = logits / temperature
        return int(torch.multinomial(F.softmax(logits, -1), 1))

class Nucleus:
    def __init__(self, p: float = 0.9):
        self.p = p

    def choose(self, scores, temperature=1.0):
        probs = (scores / temperature).softmax(-1)
        ranked, ids = probs.sort(descending=True)
        ranked[ranked.cumsum(-1) - ranked >= self.p] = 0.0
        return int(ids[torch.multinomial(ranked / ranked.sum(), 1)])

class WithMore:
    def __init__(self, model, p):
        self.model, self.p = model, p

    def sample(self, logits):
        return torch.multinomial(self.model(logits).softmax(-1), 1)
"""


@pytest.mark.parametrize(
    ("old", "new", "ids"),
    [("", "", ([], [])), (" - ranked >=", " >", ([], ["S2"])), ("logits / t", "logits * t", (["S1"], []))],
)
def test_a_class_that_holds_what_to_draw_by_is_judged_by_its_method(old, new, ids, tmp_path):
    text = "import torch.nn.functional as F\nfrom typing import Protocol\n" + STRATEGIES.replace(old, new)
    found = {name: result.ids for name, result in check_text(text, tmp_path).items()}
    assert found == {"AsTheyAre.sample": ids[0], "Nucleus.choose": ids[1]}


ADAM = """
class Adam(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                g = p.grad
                g = g + group["weight_decay"] * p
                kept = self.state[p]
                if not kept:
                    kept.update(t=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                kept["t"] += 1
                kept["m"] = b1 * kept["m"] + (1 - b1) * g
                kept["v"] = b2 * kept["v"] + (1 - b2) * g * g
                m, v = kept["m"] / (1 - b1 ** kept["t"]), kept["v"] / (1 - b2 ** kept["t"])
                p -= group["lr"] * m / (v.sqrt() + group["eps"])
"""
L2 = 'g = g + group["weight_decay"] * p'


@pytest.mark.parametrize(
    ("old", "new", "kind", "ids"),
    [
        ("", "", "Adam", []),
        (L2, 'p *= 1 - group["lr"] * group["weight_decay"]', "Adam", []),
        (L2, L2 + '\n                p *= 1 - group["lr"] * group["weight_decay"]', "Adam", ["O2"]),
        (L2, "pass", "Adam", ["O4"]),
        ("g * g", "g.abs()", "Adam", ["O5"]),
        ('kept["v"] / (1 - b2 ** kept["t"])', 'kept["v"]', "Adam", ["O1"]),
        ("class Adam(", "class AdamW(", "AdamW", ["O2"]),
        ("    @torch", '    """AdamW, step by step."""\n    @torch', "AdamW", ["O2"]),
    ],
)
def test_of_an_adam_weight_decay_is_a_part_of_the_gradient(old, new, kind, ids, tmp_path):
    assert old in ADAM
    (result,) = check_text(ADAM.replace(old, new, 1), tmp_path).values()
    assert (result.kind, result.ids) == (kind, ids), result


WITH_NAMES = """
class AdamW:
    def __init__(self, named_parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        self.lr, self.eps, self.t = lr, eps, 0
        self.b1, self.b2 = betas
        self.kept = []
        for name, p in named_parameters:
            shrinks = not name.endswith("bias") and "norm" not in name
            self.kept.append((p, torch.zeros_like(p), torch.zeros_like(p), weight_decay * shrinks))

    @torch.no_grad()
    def step(self):
        self.t += 1
        for p, m, v, decay in self.kept:
            p *= 1 - self.lr * decay
            m += (1 - self.b1) * (p.grad - m)
            v += (1 - self.b2) * (p.grad**2 - v)
            p -= self.lr * m / (1 - self.b1**self.t) / ((v / (1 - self.b2**self.t)).sqrt() + self.eps)
"""


SHRINKS = "            p *= 1 - self.lr * decay\n"


def test_an_optimizer_whose_weights_shrink_after_its_step_is_not_torchs(tmp_path):
    late = WITH_NAMES.replace(SHRINKS, "") + SHRINKS
    result = check_text(late, tmp_path)["AdamW"]
    assert (result.verdict, result.ids) == ("harmless deviation", ["O12"]) and result.error > 1e-4
    assert result.mistakes[0].shown.strip() == SHRINKS.strip()
    both = check_text(late.replace("self.lr * decay", "decay"), tmp_path)["AdamW"]
    assert "O4" in both.ids and both.verdict == "mistake"
    biased = check_text(late.replace(" / (1 - self.b1**self.t)", ""), tmp_path)["AdamW"]
    assert set(biased.ids) == {"O1", "O12"}


@pytest.mark.parametrize(("old", "new", "ids"), [("", "", []), ("self.lr * decay", "decay", ["O4"])])
def test_an_optimizer_may_be_given_the_names_of_its_weights(old, new, ids, tmp_path):
    result = check_text(WITH_NAMES.replace(old, new), tmp_path)["AdamW"]
    assert (result.kind, result.ids) == ("AdamW", ids), result


BY_CATEGORICAL = """
from torch.distributions import Categorical


def sample(lnprobs, temperature=1.0):
    if temperature == 0.0:
        return lnprobs.argmax()
    p = F.softmax(lnprobs / temperature, dim=0)
    return Categorical(p).sample()
"""


@pytest.mark.parametrize("old, new, ids", [
    ("", "", []), ("dim=0", "dim=-1", []), ("lnprobs", "logits", []),
    ("Categorical(p)", "Categorical(logits=p.log())", []), ("/ temperature", "* temperature", ["S1"]),
])  # fmt: skip
def test_words_may_be_drawn_by_a_distribution(old, new, ids, tmp_path):
    result = check_text(BY_CATEGORICAL.replace(old, new) if old else BY_CATEGORICAL, tmp_path)["sample"]
    assert (result.kind, result.ids, result.unexplained) == ("Sampling", ids, False), result
