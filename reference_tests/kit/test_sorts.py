"""What is no component is listed with what it is, or why it was not judged: in a few words, those alike together."""

import io

import pytest
from rich.console import Console

from reference_tests.kit.learners.checked import reported, written
from scratch_transformer.kit.report import text
from scratch_transformer.kit.report.finding import Report, Result

pytestmark = pytest.mark.long

SOURCE = """
import abc
from dataclasses import dataclass
from enum import Enum

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import Dataset


@dataclass
class Sizes:
    width: int = 8


class Args:
    lr = 3e-4


class Mode(Enum):
    TRAIN = 1


class TextData(Dataset):
    def __getitem__(self, index):
        return index


class Vocabulary:
    def build(self, sentences):
        return {word: 1 for sentence in sentences for word in sentence.split()}


class Base(nn.Module, abc.ABC):
    @abc.abstractmethod
    def forward(self, x):
        ...


class Runner:
    def go(self, loss):
        loss.backward()


class Holder:
    def __init__(self, model):
        self.model = model

    def size(self):
        return 1


class Called:
    def __call__(self, x):
        return self.forward(x)


class Doubled(Called):
    def forward(self, x):
        return x + x


class Rising:
    def __init__(self, optimizer, warmup):
        self.optimizer, self.warmup, self.count = optimizer, warmup, 0

    def step(self):
        self.count += 1
        for group in self.optimizer.param_groups:
            group["lr"] = 1e-3 * min(1.0, self.count / self.warmup)


class Odd(nn.Module):
    def forward(self, this, that):
        return this + that


def get_batch(split):
    return torch.zeros(4, 8)


def one_epoch(model, loader):
    for x, y in loader:
        F.cross_entropy(model(x), y).backward()


def init_weights(module):
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=0.02)


def set_seed(seed):
    return torch.manual_seed(seed)


def calc_loss_batch(samples, wanted, net):
    return F.mse_loss(net(samples), wanted)


def evaluate_model(net, batches, steps):
    return sum(net(batch).mean() for batch, _ in zip(batches, range(steps))) / steps


def response_log_probs(model, ids, labels):
    scores = F.log_softmax(model(ids).logits, dim=-1)
    return {"log_probs": scores.gather(-1, labels.unsqueeze(-1)).squeeze(-1)}


def decode_all(tokenizer, model, widths, kernel):
    return [kernel(model(tokenizer.encode(one))) for one in widths]


def estimate_loss_of_text(model, texts):
    return sum(F.cross_entropy(model(text[:-1]), text[1:]) for text in texts) / len(texts)


def train_attention(model, optimizer, batches):
    for x, y in batches:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def count_parameters(model):
    return sum(p.numel() for p in model.parameters())


def get_num_params(model):
    return sum(p.numel() for p in model.parameters())


class BytePairTokenizer:
    def __init__(self):
        self.merges, self.vocab, self.special_tokens = {}, {}, {}

    def train(self, text, vocab_size):
        raise NotImplementedError

    def encode(self, text):
        raise NotImplementedError

    def decode(self, ids):
        raise NotImplementedError


def main():
    return Sizes()


def apart(x, h):
    return x.unflatten(-1, (h, -1)).transpose(1, 2)


def whatever(a, b):
    return a, b


def look_up(word):
    return table[word]


def look_elsewhere(word):
    return shelf[word]


class SelfAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        assert d_model % n_heads == 0
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))
        self.h = n_heads

    def forward(self, x):
        q, k, v = (apart(f(x), self.h) for f in (self.q, self.k, self.v))
        return self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Up(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.linear = nn.Linear(d_model, d_ff)

    def forward(self, x):
        return F.relu(self.linear(x))


class UpProjection(Up):
    pass


class DownProjection(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.linear = nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.linear(x)


class triton:
    jit = staticmethod(lambda function: {"grid": function})


@triton.jit
def copied_by(given, out):
    out.copy_(given)


def copied(given):
    out = torch.empty_like(given)
    copied_by["grid"](given, out)
    return out


if __name__ == "__main__":
    table = {}
"""
HALF = "half of a feed-forward network: judged in what has both halves"


@pytest.fixture(scope="module")
def ignored(tmp_path_factory):
    path = tmp_path_factory.mktemp("sorts") / "models.py"
    path.write_text(SOURCE, encoding="utf-8")
    return reported(path).ignored


@pytest.mark.parametrize(
    "said",
    [
        "Sizes (settings)",
        "Args (settings)",
        "Mode (settings)",
        "TextData (data)",
        "Vocabulary (of a tokenizer)",
        "Base (an abstract base)",
        "Runner (it trains a model: read, not run)",
        "Holder (no nn.Module, and it cannot be called)",
        "Doubled (no nn.Module)",
        "Rising (a learning rate that follows no known schedule)",
        "Odd (no known part does that with (this, that))",
        "get_batch (data)",
        "calc_loss_batch (a loss of another sort)",
        "estimate_loss_of_text (it measures a model)",
        "response_log_probs (neither its name nor its code is a known part's)",
        "decode_all (it works on a model that it is given)",
        "train_attention (it trains a model: read, not run)",
        "evaluate_model (it measures a model)",
        "one_epoch (it trains a model: read, not run)",
        "init_weights (it sets first weights)",
        "set_seed (it seeds)",
        "count_parameters (it measures a model)",
        "get_num_params (it measures a model)",
        "BytePairTokenizer (not written yet)",
        "main (a program)",
        "apart (a piece of SelfAttention, judged in it)",
        "copied (it launches a kernel, which needs a GPU)",
        "whatever (neither its name nor its code is a known part's)",
        "look_up (it reads table, which only the main block makes)",
        "look_elsewhere (it reads shelf, which nothing makes)",
        f"UpProjection ({HALF})",
        f"DownProjection ({HALF})",
    ],
)
@pytest.mark.long
def test_it_is_said_what_something_is_that_is_no_component(ignored, said):
    assert said in ignored


@pytest.mark.long
def test_there_is_a_reason_for_each(ignored):
    assert [said for said in ignored if not said.endswith(")")] == []


LEFT = """
import torch
from torch import nn


def expand_attention(query, key, value):
    return query * 3


def estimate_loss(model):
    return model.loss(missing)
"""


@pytest.mark.long
def test_what_only_reminds_of_a_component_is_listed_with_what_became_of_it(tmp_path):
    path = tmp_path / "left.py"
    path.write_text(LEFT, encoding="utf-8")
    said = dict(one.split(" (", 1) for one in reported(path).ignored)
    assert said["estimate_loss"].startswith("it reads missing, which nothing makes")
    assert said["expand_attention"].startswith("it computes something else than what is called ")


SET_BELOW = """
import torch
from torch import nn
import torch.nn.functional as F

device = "cpu"


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.down(F.relu(self.up(x)) * strength)


class LayerNorm(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.gain, self.shift = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        return (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True, correction=0) * self.gain + self.shft


def configure_optimizers(model, weight_decay, lr):
    groups = [
        {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": weight_decay},
        {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=lr, fused=device_type == "cuda")


if torch.cuda.device_count() > 1:
    device = "cuda"
else:
    strength, device_type = float("1.0".strip()), "cuda" if device.startswith("cuda") else "cpu"
optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.1)
for step in range(10):
    loss = FeedForward(4, 8)(torch.randn(2, 4)).sum()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.long
def test_what_the_kit_did_not_run_is_no_error_of_the_code_that_reads_it(tmp_path):
    """The type of the device is known; a misspelt attribute is the code's own."""
    path = tmp_path / "below.py"
    path.write_text(SET_BELOW, encoding="utf-8")
    report = reported(path)
    assert "FeedForward (it reads strength, which is made where nothing was run)" in report.ignored
    found = {result.name: (result.verdict, result.ids) for result in report.results}
    assert found["configure_optimizers"] == ("matches the builtin", [])
    assert "B26" in found["LayerNorm"][1]


def test_what_is_alike_is_listed_together():
    report = Report("models.py", ignored=["One (data)", "Two (why (not))", "Three (data)", "Four"])
    console = Console(file=io.StringIO(), width=200)
    text.show(report, console)
    said = "Not known as components: One, Three (data); Two (why (not)); Four."
    assert said in console.file.getvalue()


TESTS = """
import unittest
import torch
from torch import nn


class NormTests(unittest.TestCase):
    def setUp(self):
        self.model = nn.Linear(8, 8)

    def test_generate(self):
        ids = torch.tensor([[1]])
        for _ in range(3):
            ids = torch.cat([ids, self.model(ids)[:, -1:].argmax(-1)], dim=1)
        self.assertEqual(ids.shape, (1, 4))


class TestDecoding:
    def test_greedy(self, model, ids):
        for _ in range(3):
            ids = torch.cat([ids, model(ids)[:, -1:].argmax(-1)], dim=1)
        assert ids.shape == (1, 4)
        return ids
"""


def test_a_class_of_tests_is_said_to_be_that_and_none_of_its_methods_is_a_component(tmp_path):
    (tmp_path / "learner.py").write_text(TESTS)
    report = reported(tmp_path / "learner.py")
    assert not report.results and sorted(report.ignored) == ["NormTests (a test)", "TestDecoding (a test)"], report


OF_A_TRAINED_MODEL = """
with open("there_is_no_such_text.txt") as file:
    text = file.read()
chars = sorted(set(text))
model = torch.load("model.pt")


def generate(prompt, length=100):
    ids = torch.tensor([[chars.index(c) for c in prompt]])
    return "".join(chars[i] for i in model.generate(ids, max_new_tokens=length)[0].tolist())

"""


def test_what_writes_with_a_model_that_was_not_made_is_told_so(tmp_path):
    report = reported(written(OF_A_TRAINED_MODEL, tmp_path))
    (said,) = report.ignored
    assert said.startswith("generate (it reads ") and said.endswith("which is made where nothing was run)")
    assert "model" in said and report.results == []


def test_what_is_a_piece_of_something_that_was_not_judged_is_not_judged_in_it():
    report = Report("here", [Result("Whole.run", "here.py:1", "", "mistake")])
    pieces = ["one (a piece of run, judged in it)", "two (a piece of other, judged in it)", "three (data)"]
    report.ignored = [*pieces, pieces[0]]
    report.tidy()
    assert report.ignored == [pieces[0], "two (a piece of other)", pieces[2]]
