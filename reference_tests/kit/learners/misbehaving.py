"""Learners' files that do something else than define components when they are imported.

All define the same LayerNorm, with the unbiased deviation of LN1 in it, so that it can be seen whether it was checked
nevertheless.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

NORM = """
import torch
from torch import nn


class LayerNorm(nn.Module):
    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        return self.weight * (x - mean) / torch.sqrt(x.var(-1, keepdim=True) + self.eps) + self.bias

"""


@dataclass(frozen=True)
class Misbehaving:
    """source: of the file. says: words that the report must have. checked: whether LayerNorm can still be checked."""

    source: str
    says: tuple[str, ...]
    checked: bool = True


MISBEHAVING = {
    "crash at import": Misbehaving(NORM + "vocabulary = {}\nprint(vocabulary['<pad>'])\n", ("KeyError", ":18")),
    "crash before the classes": Misbehaving("values = [1, 2]\nvalues[3]\n" + NORM, ("IndexError", ":2")),
    "infinite loop": Misbehaving(NORM + "while True:\n    pass\n", ("does not end",)),
    "infinite loop in forward": Misbehaving(
        NORM.replace("        mean = ", "        while True:\n            x = x + 0\n        mean = "),
        ("took too long",),
        checked=False,
    ),
    "sys.exit": Misbehaving(NORM + "import sys\nsys.exit('usage: model.py DATA')\n", ("exit",)),
    "os._exit": Misbehaving(NORM + "import os\nos._exit(3)\n", ("exit",)),
    "download": Misbehaving(
        NORM + "from urllib.request import urlopen\ntext = urlopen('http://127.0.0.1:9/input.txt').read()\n",
        ("download",),
    ),
    "missing package": Misbehaving("import a_package_nobody_has\nfrom tqdm import a_name_it_lacks\n" + NORM, ()),
    "training": Misbehaving(
        NORM
        + """
model = nn.Sequential(nn.Linear(4, 4), LayerNorm(4))
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(10**9):
    loss = model(torch.randn(3, 4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        ("train", "__main__"),
    ),
    "training in a function": Misbehaving(
        NORM
        + """
def train():
    model = LayerNorm(4)
    while True:
        model(torch.randn(3, 4)).sum().backward()


train()
""",
        ("train", "__main__"),
    ),
    "syntax error": Misbehaving(NORM + "def f(:\n    pass\n", (":17",)),
    "comment in parentheses": Misbehaving(
        NORM.replace("from torch import nn", "import torch.nn as nn (the building blocks)"), (":3",)
    ),
    "huge allocation": Misbehaving(NORM + "table = torch.ones(10**13)\n", ("memory",)),
    "huge allocation in the constructor": Misbehaving(
        NORM.replace("        self.eps = eps\n", "        self.table = torch.ones(10**13)\n        self.eps = eps\n"),
        ("memory",),
        checked=False,
    ),
    "writes files": Misbehaving(
        NORM + "with open('log.txt', 'w') as log:\n    log.write('hello')\ntorch.save({}, 'weights.pt')\n", ()
    ),
    "prints a lot": Misbehaving(NORM + "for i in range(100_000):\n    print('step', i, 'of a long day')\n", ()),
    "asks for input": Misbehaving(NORM + "name = input('Your name? ')\nsize = int(input('d_model? '))\n", ()),
    "stops to be debugged": Misbehaving(
        NORM.replace("        mean =", "        breakpoint()\n        import pdb; pdb.set_trace()\n        mean ="), ()
    ),
    "warns": Misbehaving(NORM + "import warnings\nwarnings.warn('this is old')\n", ()),
    "changes torch": Misbehaving(NORM + "torch.set_default_dtype(torch.float16)\ntorch.manual_seed(0)\n", ()),
    "empty": Misbehaving("", (), checked=False),
    "no components": Misbehaving("def greet(name):\n    return 'hello ' + name\n", (), checked=False),
}


def judge_misbehaving(name, folder):
    """Complaints about what `scratch-transformer check` makes of a file, in a process of its own."""
    file, report = folder / "work" / "learner.py", folder / "report.json"
    file.parent.mkdir()
    file.write_text(MISBEHAVING[name].source, encoding="utf-8")
    command = [sys.executable, "-m", "scratch_transformer", "check", str(file), "--json", str(report)]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[3], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    output, document = done.stdout + done.stderr, json.loads(report.read_text(encoding="utf-8"))
    complaints = [f"{word!r} is not said" for word in MISBEHAVING[name].says if word not in output]
    if "Traceback" in output:
        complaints.append("a traceback is shown")
    found = [mistake["id"] for result in document["components"] for mistake in result["mistakes"]]
    if MISBEHAVING[name].checked and "LN1" not in found:
        complaints.append("LayerNorm was not checked")
    if done.returncode != (1 if MISBEHAVING[name].checked else 2):
        complaints.append(f"exit status {done.returncode}")
    beside = sorted(path.name for path in file.parent.iterdir())
    if beside != ["learner.py"]:
        complaints.append(f"files beside the learner's: {beside}")
    return [f"{complaint}: {output.strip()[:600]}" for complaint in complaints]
