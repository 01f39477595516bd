"""T14 to T20 by reading: what a training loop does with gradients, steps, losses, rates, and its model's mode."""

import pytest

from reference_tests.kit.learners.checked import reported
from scratch_transformer.kit.judge.scripts import read

LOOP = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, dropout=0.1):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.dropout(self.layer(x))

@torch.no_grad()
def estimate(model, loader):
    model.eval()
    losses = [((model(x) - y) ** 2).mean().item() for x, y in loader]
    model.train()
    return sum(losses) / len(losses)

model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for epoch in range(10):
    for x, y in loader:
        loss = ((model(x) - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    print(estimate(model, loader))
"""
EPOCHS = """
import torch
from model import Transformer

def train_epoch(model, loader, optimizer, criterion):
    total = 0
    for src, tgt in loader:
        loss = criterion(model(src, tgt[:, :-1]), tgt[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        total += loss.item()
    return total

def evaluate(model, loader, criterion):
    model.eval()
    with torch.no_grad():
        return sum(criterion(model(src, tgt[:, :-1]), tgt[:, 1:]).item() for src, tgt in loader)

def main():
    model = Transformer(dropout=0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    criterion = torch.nn.MSELoss()
    for epoch in range(10):
        model.train()
        train_epoch(model, train_loader, optimizer, criterion)
        print(evaluate(model, valid_loader, criterion))

if __name__ == "__main__":
    main()
"""
TRAINER = """
import torch

class Trainer:
    def __init__(self, model, config):
        self.model = model
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=config.lr)
        self.scaler = torch.cuda.amp.GradScaler()
        self.dropout = config.dropout

    def step(self, batch):
        loss = self.model(batch).mean()
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)

    def validate(self):
        self.model.eval()
        return self.model(self.held_out).mean()

    def train(self):
        for epoch in range(10):
            self.model.train()
            for batch in self.loader:
                self.step(batch)
            self.validate()
"""
RIGHT = {"loop": LOOP, "epochs": EPOCHS, "trainer": TRAINER}


def changed(text, old, new=""):
    assert text.count(old) == 1, old
    return text.replace(old, new)


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT)
def test_right_loops_raise_no_alarm(text):
    assert list(read(text)) == []


CLIP = "        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
STEP, BACK, ZERO = "        optimizer.step()\n", "        loss.backward()\n", "        optimizer.zero_grad()\n"
TRAINS, ONCE = "        model.train()\n", "    model.train()\n    for epoch in"
OF_SCALER = ("        self.scaler.unscale_(self.optimizer)\n", "        self.optimizer.zero_grad(set_to_none=True)\n")


@pytest.mark.parametrize(("id", "text", "line"), [
    ("T14", changed(LOOP, ZERO), BACK),
    ("T14", changed(EPOCHS, ZERO), BACK),
    ("T14", changed(TRAINER, OF_SCALER[1]), "self.scaler.scale(loss).backward()"),
    ("T15", changed(LOOP, "    model.train()\n"), "model.eval()"),
    ("T15", changed(LOOP, "for epoch in", "model.eval()\nfor epoch in"), None),
    ("T15", changed(EPOCHS, TRAINS), "model.eval()"),
    ("T15", changed(changed(EPOCHS, TRAINS), "    for epoch in", ONCE), "model.eval()"),
    ("T15", changed(TRAINER, "            self.model.train()\n"), "self.model.eval()"),
    ("T18", changed(LOOP, ZERO + BACK, BACK + ZERO), ZERO),
    ("T18", changed(LOOP, STEP), "optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)"),
    ("T16", changed(LOOP, CLIP + STEP, STEP + CLIP), CLIP),
    ("T16", changed(EPOCHS, BACK + CLIP, CLIP + BACK), CLIP),
    ("T16", changed(TRAINER, OF_SCALER[0]), "torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)"),
])  # fmt: skip
def test_a_mistake_of_a_loop_is_read(id, text, line):
    found = [*read(text)]
    if line is None:  # one mode is set before the loop, and then by what is called in it
        assert found == []
        return
    assert [one.id for one in found] == [id], found
    assert text.splitlines()[found[0].line - 1].strip() == line.strip()


def test_a_mode_is_that_of_the_line_before_the_loop():
    before = changed(
        changed(LOOP, "for epoch in", "model.eval()\nfor epoch in"), "    print(estimate(model, loader))\n"
    )
    assert [(one.id, before.splitlines()[one.line - 1]) for one in read(before)] == [("T15", "model.eval()")]
    assert not [*read(changed(before, "\nfor epoch in", "\nmodel.train()\nfor epoch in"))]


@pytest.mark.parametrize(("text", "old", "new"), [
    # gradients are summed up on purpose, or set to nothing in another way, or by another file's class
    (LOOP, "optimizer.zero_grad()", "model.layer.weight.grad = None"),
    (LOOP, "optimizer.zero_grad()", "for p in model.parameters(): p.grad.zero_()"),
    (LOOP, "optimizer.zero_grad()\n        loss.backward()", "grads = torch.autograd.grad(loss, model.parameters())"),
    (LOOP, "torch.optim.AdamW(model.parameters(), lr=1e-3)", "NoamOptimizer(model)"),
    # the first loop alone: each begins with another model
    (LOOP, "        loss = ((", "        optimizer = torch.optim.SGD(weights := new(), 1)\n        loss = (("),
    (LOOP, "import torch.nn as nn", "import timeit"),  # nobody wants its weights
])  # fmt: skip
def test_gradients_may_be_set_to_nothing_otherwise(text, old, new):
    alike = changed(text, old, new)
    if "zero_grad" not in old:
        alike = changed(alike, ZERO)
    assert [one.id for one in read(alike)] == []


@pytest.mark.parametrize(("old", "new"), [
    ("dropout=0.1):", "dropout=0.0):"),  # nothing that a mode changes
    ("    model.eval()\n", "    other.eval()\n"),
    ("    for x, y in loader:\n", "    unwrapped.train()\n    for x, y in loader:\n"),
    ("    model.eval()\n", "    model = copy.deepcopy(model).eval()\n"),
    ("    print(estimate(model, loader))\n", "    if epoch == 9:\n        model.eval()\n        break\n"),
    ("    print(estimate(model, loader))\n", "print(estimate(model, loader))\n"),
    ("    model.eval()\n", "    was = model.training\n    model.eval()\n    model.train(was)\n"),
])  # fmt: skip
def test_a_model_may_be_in_evaluation_mode_where_it_does_not_train(old, new):
    text = changed(changed(LOOP, "    model.train()\n"), old, new)
    assert [one.id for one in read(text)] == []


def test_what_neither_drops_nor_is_known_is_not_said_to_stay_in_evaluation_mode():
    text = changed(EPOCHS, TRAINS).replace("Transformer(dropout=0.1)", "Network()")
    assert [one.id for one in read(text)] == []
    assert [one.id for one in read(text, ["class Network(nn.Module):\n    drop = nn.Dropout(0.1)\n"])] == ["T15"]


SUMMED = """
for step in range(100):
    optimizer.zero_grad()
    for micro in range(4):
        loss = model(batch(micro)) / 4
        loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
"""
TURNED = """
optimizer.zero_grad()
while True:
    for group in optimizer.param_groups:
        group["lr"] = rate(step)
    clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    loss = model(next(batches))
    loss.backward()
"""


SKIPPED = """
for x, y in loader:
    loss = model(x).mean()
    loss.backward()
    if not torch.isfinite(loss):
        optimizer.zero_grad()
        continue
    optimizer.step()
    optimizer.zero_grad()
"""
OTHERWISE = """
optimizer = torch.optim.Adam(model.parameters())
schedule = Schedule(optimizer)
for x, y in loader:
    model(x).mean().backward()
    schedule.update()
    optimizer.zero_grad()
"""


OF_TWO = """
for x in loader:
    loss = critic(generator(x)).mean()
    loss.backward()
    critic_optimizer.zero_grad()
    generator_optimizer.step()
"""


@pytest.mark.parametrize("text", [SUMMED, TURNED, SKIPPED, OTHERWISE, OF_TWO])
def test_what_a_turn_does_may_be_meant(text):
    assert [one.id for one in read(text)] == []


def test_a_loop_of_the_file_itself_is_told_of(tmp_path):
    (tmp_path / "learner.py").write_text(changed(LOOP, ZERO))
    (told,) = reported(tmp_path / "learner.py").results
    assert (told.name, told.ids, told.severe) == ("learner", ["T14"], ["T14"])
    assert "loss.backward()" in told.mistakes[0].shown


@pytest.mark.parametrize(("kept", "ids"), [
    ("total += loss.item()", []), ("total += loss", ["T17"]), ("total += loss * len(src)", ["T17"]),
    ("total += loss.item() * len(src)", []), ("losses.append(loss)", ["T17"]), ("losses.append(loss.detach())", []),
    ("loss = loss.item()\n        total += loss", []), ("with torch.no_grad():\n            total += loss", []),
    ("with torch.set_grad_enabled(False):\n            total += loss", []),
    ("total = total + loss", ["T17"]), ("total = loss + total", ["T17"]), ("total = total + loss.item()", []),
    ("total = total.detach() + loss", []), ("total = shift + loss", []),
])  # fmt: skip
def test_a_sum_of_losses_is_one_of_numbers(kept, ids):
    text = changed(EPOCHS, "total += loss.item()", kept)
    found = [*read(text)]
    assert [one.id for one in found] == ids
    assert all(text.splitlines()[one.line - 1].strip() == kept for one in found)


@pytest.mark.parametrize("added", ["total += loss", "total = total + loss"])
def test_a_sum_that_gradients_are_computed_of_needs_its_graph(added, tmp_path):
    text = changed(changed(EPOCHS, BACK, f"        {added}\n"), "    return total\n", "    total.backward()\n")
    assert [one.id for one in read(text)] == []
    (tmp_path / "learner.py").write_text(changed(LOOP, "    print(estimate(model, loader))", "        total += loss"))
    told = {one.name: one for one in reported(tmp_path / "learner.py").results}
    assert (told["learner"].verdict, told["learner"].ids) == ("harmless deviation", ["T17"])


BATCHES = """
def get_batch(data, length):
    starts = torch.randint(len(data) - length, (4,))
    x = torch.stack([data[i : i + length] for i in starts])
    y = torch.stack([data[i + 1 : i + 1 + length] for i in starts])
    x, y = x.to(device), y.to(device)
    return x, y

class GPT(nn.Module):
    def forward(self, idx):
        return self.head(self.blocks(self.embed(idx), torch.ones(8, 8).tril()))

def train(model, optimizer):
    for step in range(100):
        x, y = get_batch(data, 8)
        loss = F.cross_entropy(model(x).transpose(1, 2), y)
"""


def test_what_makes_batches_is_to_shift_the_labels():
    assert [*read(BATCHES)] == []
    wrong = changed(BATCHES, "i + 1 : i + 1 + length", "i : i + length")
    (found,) = read(wrong)
    assert (found.id, found.function) == ("T13", "get_batch") and "data[i:i + length]" in found.evidence
    assert "one token later" in found.fix and wrong.splitlines()[found.line - 1].strip().startswith("y = ")
    assert not [*read(changed(wrong, "self.embed(idx)", "self.embed(idx[:, :-1])"))]  # it shifts by itself
    assert not [*read(changed(wrong, ".tril()", ""))]  # it may be asked for words that are hidden


VALIDATED = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.dropout = nn.Linear(4, 4), nn.Dropout(0.1)

    def forward(self, x):
        return self.dropout(self.layer(x))

def validate(net, loader):
    net.eval()
    with torch.no_grad():
        return sum(net(x).mean().item() for x in loader)

model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for epoch in range(3):
    model.train()
    for x in loader:
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
    print(validate(model, held_out))
"""
WRITING = """
import torch
from model import Model

model = Model()
model.load_state_dict(torch.load("model.pt"))
model.eval()
print(model(torch.ones(2, 4)))
"""
MODEL = VALIDATED[: VALIDATED.index("def validate")]


def test_a_model_validates_and_writes_in_evaluation_mode():
    assert not [*read(VALIDATED)] and not [*read(WRITING, [MODEL])]
    (found,) = read(changed(VALIDATED, "    net.eval()\n"))
    assert (found.id, found.function) == ("T19", "validate") and "model.eval()" in found.evidence
    (found,) = read(changed(WRITING, "model.eval()\n"), [MODEL])
    assert found.id == "T19" and "loaded" in found.evidence


@pytest.mark.parametrize(("text", "old", "new"), [
    (VALIDATED, "nn.Dropout(0.1)", "nn.Dropout(0.0)"),
    (VALIDATED, "sum(net(x)", "sum(other(x)"),
    (VALIDATED, "    with torch.no_grad():", "    if True:"),  # of the same loss, perhaps
    (WRITING, "print(", "optimizer = resumed(model)\nprint("),
    (WRITING, "model = Model()", "model = built()"),  # it may be told there
])  # fmt: skip
def test_what_is_not_known_to_drop_is_not_said_to(text, old, new):
    silent = changed(changed(text, old, new), ".eval()\n", ".to(device)\n")
    model = "" if "0.0" in new else MODEL
    assert [one.id for one in read(silent, [model])] == []


def test_what_a_script_imports_is_read_too(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "use.py").write_text(changed(WRITING, "model.eval()\n"))
    told = {one.name: one for one in reported(tmp_path / "use.py").results}
    assert told["use"].ids == ["T19"]


SCHEDULED = """
import torch

def rate(step, d_model=512, warmup=4000):
    step = max(step, 1)
    return d_model ** -0.5 * min(step ** -0.5, step * warmup ** -1.5)

optimizer = torch.optim.Adam(model.parameters(), lr=1.0)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_lambda=rate)
for epoch in range(10):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
"""
LATE = changed(SCHEDULED, "        scheduler.step()\n", "    scheduler.step()\n")


WITH = "LambdaLR(optimizer, lr_lambda=rate)"


@pytest.mark.parametrize(("text", "ids"), [
    (SCHEDULED, []), (LATE, ["T20"]),
    (LATE.replace("lr_lambda=rate", "lr_lambda=lambda step: rate(step)"), ["T20"]),
    (LATE.replace(WITH, "OneCycleLR(optimizer, 1e-3, epochs=10, steps_per_epoch=99)"), ["T20"]),
    (LATE.replace(WITH, "CosineAnnealingLR(optimizer, T_max=10)"), []),
    (LATE.replace(WITH, "OneCycleLR(optimizer, 1e-3, total_steps=10)"), []),
    (LATE.replace("warmup=4000", "warmup=5"), []),  # epochs are meant
    (LATE.replace("    for x, y in loader:\n", "    if True:\n"), []),  # one step an epoch
    (LATE.replace("    scheduler.step()", "    scheduler.step(loss)"), []),
])  # fmt: skip
def test_a_schedule_of_steps_is_told_of_steps(text, ids):
    """Also behind the loop over batches, in a function that is called for each epoch."""
    found = [*read(text)]
    assert [one.id for one in found] == ids
    assert all(text.splitlines()[one.line - 1] == "    scheduler.step()" for one in found)


SHORT = changed(SCHEDULED, WITH, "CosineAnnealingLR(optimizer, T_max=epochs)").replace("range(10)", "range(epochs)")
WARM = "SequentialLR(optimizer, [one, other], milestones=[args.warmup_epochs])"


@pytest.mark.parametrize(("text", "ids"), [
    (SHORT, ["T20"]),
    (SHORT.replace("T_max=epochs", "config['num_epochs'], 1e-5"), ["T20"]),
    (SHORT.replace("CosineAnnealingLR(optimizer, T_max=epochs)", WARM), ["T20"]),
    (SHORT.replace("        scheduler.step()", "        if scheduler:\n            scheduler.step()"), ["T20"]),
    (SHORT.replace("        scheduler.step()", "    scheduler.step()"), []),
    (SHORT.replace("        scheduler.step()", "        if last_of(x):\n            scheduler.step()"), []),
    (SHORT.replace("T_max=epochs", "T_max=epochs * len(loader)"), []),
    (SHORT.replace("T_max=epochs", "T_max=epochs, steps_per_epoch=99"), []),
    (SHORT.replace("    for x, y in loader:\n", "    if True:\n"), []),  # one step an epoch
    (SHORT.replace("T_max=epochs", "T_max=40"), []),
])  # fmt: skip
def test_a_schedule_of_epochs_is_told_of_epochs(text, ids):
    found = [*read(text)]
    assert [one.id for one in found] == ids
    assert all("scheduler.step()" in text.splitlines()[one.line - 1] and "epochs * len" in one.fix for one in found)


TRAINER = """
import torch

class Trainer:
    def schedule_of(self, optimizer, warmup_epochs, total_epochs):
        def share(epoch):
            return epoch / warmup_epochs if epoch < warmup_epochs else 1 - epoch / total_epochs
        return torch.optim.lr_scheduler.LambdaLR(optimizer, share)

    def train_epoch(self, loader, optimizer, criterion, scheduler=None):
        self.model.train()
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(self.model(x), y)
            loss.backward()
            optimizer.step()
            if scheduler:
                scheduler.step()

    def run(self, loader, config):
        optimizer = torch.optim.Adam(self.model.parameters(), lr=config["lr"])
        scheduler = None
        if config.get("use_warmup", True):
            scheduler = self.schedule_of(optimizer, config.get("warmup_epochs", 5), config["epochs"])
        for epoch in range(config["epochs"]):
            self.train_epoch(loader, optimizer, torch.nn.MSELoss(), scheduler)
"""


def test_such_a_schedule_may_be_made_by_a_method():
    (found,) = read(TRAINER)
    assert (found.id, found.function) == ("T20", "train_epoch")
    lines = "            if scheduler:\n                scheduler.step()\n"
    assert not [*read(TRAINER.replace(lines, "        scheduler.step()\n"))]
    assert not [
        *read(TRAINER.replace('config["epochs"])\n        for', 'config["epochs"] * len(loader))\n        for'))
    ]


def test_an_epoch_may_be_a_function():
    before, loop = LATE.split("for epoch in range(10):\n")
    called = "\nfor epoch in range(10):\n    train_epoch()\n"
    (found,) = read(f"{before}def train_epoch():\n{loop}{called}")
    assert (found.id, found.function) == ("T20", "train_epoch")
    assert not [*read(f"{before}def train_epoch():\n{SCHEDULED.split('range(10):')[1]}{called}")]


TRAINED = "        train_epoch(model, train_loader, optimizer, criterion)\n"


@pytest.mark.parametrize(("behind", "said"), [(True, "the step has been taken"), (False, "are computed after it")])
def test_gradients_are_clipped_in_vain_around_a_function_that_takes_the_steps(behind, said):
    around = TRAINED + CLIP if behind else CLIP + TRAINED
    text = EPOCHS.replace(TRAINED, around)
    assert [*read(text)] == []  # there once more
    (found,) = read(text.replace(f"    {CLIP.strip()}\n        optimizer.step", "    optimizer.step", 1))
    assert (found.id, found.function) == ("T16", "main") and said in found.evidence
    assert [*read(text.replace(f"    {CLIP.strip()}\n        optimizer.step()", "", 1))] == []  # it computes gradients
