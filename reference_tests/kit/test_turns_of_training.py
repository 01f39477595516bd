"""T21 to T25 by reading: schedules, the best weights, accumulated gradients, and what autograd records in vain."""

import pytest

from reference_tests.kit.learners.checked import reported
from scratch_transformer.kit.judge.scripts import read

SCHEDULED = """
import torch
from torch.optim.lr_scheduler import LambdaLR

def warm(step):
    return min(1.0, (step + 1) / 4000)

model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
scheduler = LambdaLR(optimizer, lr_lambda=warm)
for epoch in range(10):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
"""
MADE, STEPPED = "scheduler = LambdaLR(optimizer, lr_lambda=warm)", "        scheduler.step()\n"
OWN = """
class Noam:
    def __init__(self, optimizer, factor):
        self.optimizer, self.factor, self.count = optimizer, factor, 0

    def step_and_update_lr(self):
        self.count += 1
        for group in self.optimizer.param_groups:
            group["lr"] = self.factor * self.count**-0.5
        self.optimizer.step()

model = Model()"""
IN_CLASS = """
import torch

class Trainer:
    def __init__(self, model):
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 10)

    def one_epoch(self):
        for x in self.loader:
            self.optimizer.zero_grad()
            self.loss(x).backward()
            self.optimizer.step()

    def fit(self):
        for epoch in range(10):
            self.one_epoch()
            self.scheduler.step()
"""


def changed(text, *pairs):
    for old, new in pairs:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def ids(text):
    return [one.id for one in read(text)]


def test_a_schedule_is_stepped():
    assert not ids(SCHEDULED) and not ids(IN_CLASS)
    wrong = changed(SCHEDULED, (STEPPED, ""))
    (found,) = read(wrong)
    assert found.id == "T21" and "scheduler.step()" in found.evidence and wrong.splitlines()[found.line - 1] == MADE
    (found,) = read(changed(IN_CLASS, ("            self.scheduler.step()\n", "")))
    assert (found.id, found.function) == ("T21", "Trainer") and "self.scheduler.step()" in found.evidence
    one = changed(SCHEDULED, ("model = Model()", OWN), (MADE, "scheduler = Noam(optimizer, 2.0)"), (STEPPED, ""))
    assert ids(one) == ["T21"]
    own = "class Warm(LRScheduler):\n    def get_lr(self):\n        return [1.0]\n\nmodel = Model()"
    of_torchs = changed(SCHEDULED, ("model = Model()", own), (MADE, "scheduler = Warm(optimizer)"), (STEPPED, ""))
    assert ids(of_torchs) == ["T21"]


@pytest.mark.parametrize("more", [
    "    print(scheduler.get_last_lr())\n", "torch.save({'schedule': scheduler.state_dict()}, 'last.pt')\n",
])  # fmt: skip
def test_a_schedule_that_is_only_looked_at_is_not_stepped(more):
    assert ids(changed(SCHEDULED, (STEPPED, more))) == ["T21"]


@pytest.mark.parametrize(("old", "new"), [
    ("for epoch in", "trainer = Trainer(model, scheduler)\nfor epoch in"),  # another steps it
    ("for epoch in", "model, scheduler = accelerator.prepare(model, scheduler)\nfor epoch in"),
    ("for epoch in", "step_schedule = scheduler.step\nfor epoch in"),
    (MADE, "scheduler = NoiseScheduler(1000)"),  # of another thing
    (MADE, "scheduler = make_schedule(optimizer)"),
    ("        optimizer.step()\n", "        update(model)\n"),
])  # fmt: skip
def test_what_may_be_stepped_elsewhere_is_not_said_to_stay(old, new):
    text = changed(SCHEDULED, (STEPPED, ""), (old, new))
    assert "T21" not in ids(text)


def test_what_calls_a_method_for_each_epoch_may_step_an_objects_schedule():
    alone = IN_CLASS[: IN_CLASS.index("    def fit")]
    assert not ids(alone)
    assert not ids(alone + "\ntrainer = Trainer(Model())\nfor epoch in range(3):\n    trainer.one_epoch()\n")


FIRST = changed(SCHEDULED, (STEPPED, ""), ("        loss.backward()\n", f"        loss.backward()\n{STEPPED}"))
EPOCHS = changed(SCHEDULED, (STEPPED, ""), ("    for x, y in loader", "    scheduler.step()\n    for x, y in loader"))


@pytest.mark.parametrize("text", [FIRST, EPOCHS])
def test_the_optimizer_steps_before_its_schedule(text):
    (found,) = read(text)
    assert found.id == "T24" and text.splitlines()[found.line - 1].strip() == "scheduler.step()"


@pytest.mark.parametrize(("old", "new"), [
    ("scheduler.step()", "if epoch > 0: scheduler.step()"),
    ("scheduler.step()", "scheduler.step(epoch)"),
    (MADE, f"{MADE}\noptimizer.step()"),  # of no gradients, so that PyTorch does not warn
    ("LambdaLR(optimizer, lr_lambda=warm)", "Noam(optimizer)"),  # one of its own may begin before the first step
])  # fmt: skip
@pytest.mark.parametrize("text", [FIRST, EPOCHS])
def test_a_schedule_may_step_first(text, old, new):
    assert not ids(changed(text, (old, new)))


BEST = """
import copy
import torch

def train(model, epochs):
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    best, weights = float("inf"), None
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        if (loss := validate(model)) < best:
            best = loss
            weights = copy.deepcopy(model.state_dict())
    if weights is not None:
        model.load_state_dict(weights)
    return model
"""
COPIED, LOADED = "copy.deepcopy(model.state_dict())", "model.load_state_dict(weights)"


@pytest.mark.parametrize("kept", ["model.state_dict()", "model.state_dict().copy()", "dict(model.state_dict())"])
def test_the_best_weights_are_copied(kept):
    assert not ids(BEST)
    (found,) = read(changed(BEST, (COPIED, kept)))
    assert (found.id, found.function) == ("T22", "train") and "line 18" in found.evidence


KEPT = "            weights = model.state_dict()\n"


@pytest.mark.parametrize(("old", "new"), [
    (KEPT, "            weights = {k: v.clone() for k, v in model.state_dict().items()}\n"),
    (KEPT, f"{KEPT}            torch.save(weights, 'best.pt')\n"),
    (KEPT, f"{KEPT}            break\n"),
    (KEPT, "            weights = average.state_dict()\n"),
    (KEPT, "        weights = model.state_dict()\n"),  # of the last epoch, and known to be
    (LOADED, "print(weights)"),
    ("torch.optim.AdamW(model.parameters(), lr=3e-4)", "Own(model.parameters())"),  # it may give new tensors
    ("        for x, y in loader:\n", "        model = Model()\n        for x, y in loader:\n"),
])  # fmt: skip
def test_what_is_kept_may_stay_what_it_was(old, new):
    wrong = changed(BEST, (COPIED, "model.state_dict()"))
    assert ids(wrong) == ["T22"] and ids(changed(wrong, (old, new))) == []


ACCUMULATED = """
import torch

optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
for epoch in range(10):
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y)
        loss.backward()
        if (i + 1) % accumulation_steps == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
MICRO = """
import torch

optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
for step in range(1000):
    optimizer.zero_grad()
    for micro in range(config.grad_accum):
        x, y = get_batch()
        logits, loss = model(x, y)
        loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("text", [ACCUMULATED, MICRO])
def test_added_gradients_are_divided(text):
    (found,) = read(text)
    assert found.id == "T23" and text.splitlines()[found.line - 1].strip() == "loss.backward()"
    number = "accumulation_steps" if "accumulation_steps" in text else "config.grad_accum"
    assert number in found.evidence
    for right in (f"(loss / {number}).backward()", f"loss = loss / {number}\n        loss.backward()"):
        assert not ids(changed(text, ("loss.backward()", right)))
    assert not ids(changed(text, ("loss.backward()", f"loss /= {number}\n        loss.backward()")))
    assert not ids(changed(text, ("lr=3e-4", f"lr=3e-4 / {number}")))


@pytest.mark.parametrize(("old", "new"), [
    ("optimizer.step()", "[p.grad.div_(4) for p in model.parameters()]\n            optimizer.step()"),
    ("import torch\n", "import torch\naccumulation_steps = 1\n"),
    ("criterion(model(x), y)", "criterion(model(x), y).sum()"),
    ("criterion(model(x), y)", "step_of(model, x, y, accumulation_steps)"),
    ("criterion(model(x), y)", "criterion(model(x), y) * 0.25"),
    ("            optimizer.zero_grad()\n", "        optimizer.zero_grad()\n"),  # most batches are left out
    ("            optimizer.zero_grad()\n", "            optimizer.zero_grad()\n            i += 1\n"),
    ("        if (i + 1) % accumulation_steps == 0:\n", "        if i == len(loader) - 1:\n"),  # the whole epoch's
])  # fmt: skip
def test_a_sum_of_gradients_may_be_meant(old, new):
    assert ids(changed(ACCUMULATED, (old, new))) == []


WRITES = """
import torch

def validate(model, loader):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for x, y in loader:
            total += criterion(model(x), y).item()
    model.train()
    return total / len(loader)

print(validate(Model(), held_out))
"""
NO_GRAD = "    with torch.no_grad():\n"


def test_what_validates_records_nothing():
    assert not ids(WRITES)
    wrong = changed(WRITES, (NO_GRAD, "    if True:\n"))
    (found,) = read(wrong)
    assert (found.id, found.function) == ("T25", "validate") and "model(x)" in wrong.splitlines()[found.line - 1]


@pytest.mark.parametrize(("old", "new"), [
    ("def validate", "@torch.no_grad()\ndef validate"),
    ("print(validate(Model(), held_out))", "with torch.no_grad():\n    validate(Model(), held_out)"),
    ("print(validate(Model(), held_out))", "@torch.no_grad()\ndef main():\n    validate(Model(), held_out)\n\nmain()"),
    ("print(validate(Model(), held_out))\n", ""),  # who calls it, may see to that
    ("import torch\n", "import torch\ntorch.set_grad_enabled(False)\n"),
    ("import torch\n", "import mlx.nn as nn\n"),
    ("    model.eval()\n", "    model.requires_grad_(False).eval()\n"),
    ("criterion(model(x), y).item()", "torch.autograd.grad(model(x).sum(), x)"),  # it is asked for
    ("    model.train()\n", "    total.backward()\n"),
    ("criterion(model(x), y)", "score(model.generate(x), y)"),  # which may see to that
])  # fmt: skip
def test_what_may_record_nothing_is_not_said_to(old, new):
    assert ids(changed(WRITES, (NO_GRAD, "    if True:\n"), (old, new))) == []


IN_ONE = """
import torch

for epoch in range(10):
    model.train()
    for x, y in loader:
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    for x, y in held_out:
        total += criterion(model(x), y).item()
"""
LAST = "    for x, y in held_out:\n        total += criterion(model(x), y).item()\n"


@pytest.mark.parametrize(
    "text", [IN_ONE, IN_ONE.replace("\nfor epoch", "\ndef fit(model):\n  for epoch") + "  fit(Model())"]
)
def test_what_trains_records_nothing_where_it_validates(text):
    (found,) = read(text)
    assert found.id == "T25" and found.line == text.splitlines().index(LAST.splitlines()[1]) + 1


@pytest.mark.parametrize(("old", "new"), [
    (LAST, "    with torch.no_grad():\n        for x, y in held_out:\n            model(x)\n"),
    (LAST, "    print(estimate(model, held_out))\n"),
    (LAST, "    model.train()\n" + LAST),
    (LAST, LAST + "        total.backward()\n"),
    (LAST, LAST + "    (total * reward).backward()\n"),  # what is drawn by a policy is learnt from behind that
    ("    model.eval()\n" + LAST, "    teacher.eval()\n" + LAST.replace("model", "teacher")),
])  # fmt: skip
def test_what_trains_may_record_what_it_learns_from(old, new):
    assert "T25" not in ids(changed(IN_ONE, (old, new)))


def test_harmless_ones_are_no_mistakes(tmp_path):
    (tmp_path / "learner.py").write_text(ACCUMULATED)
    (told,) = reported(tmp_path / "learner.py").results
    assert (told.verdict, told.ids, told.severe) == ("harmless deviation", ["T23"], [])
