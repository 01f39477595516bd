"""What writes text with a model whose forward returns no tensor, but an object, a dictionary or a tuple."""

import pytest
import torch

from reference_tests.kit.learners.checked import check_text, checking_of, written
from scratch_transformer.kit.judge.stops import answered
from scratch_transformer.kit.report.finding import FINE
from scratch_transformer.kit.resolve.functions import toy
from scratch_transformer.kit.resolve.functions.answers import Made

pytestmark = pytest.mark.long

MODEL = """
from dataclasses import dataclass
from typing import NamedTuple

OUTPUT

class LanguageModel(nn.Module):
    def __init__(self, vocab_size, width, max_len):
        super().__init__()
        self.max_len = max_len
        self.words, self.head = nn.Embedding(vocab_size, width), nn.Linear(width, vocab_size)

    def forward(self, ids, targets=None):
        logits, loss = self.head(self.words(ids)), None
        if targets is not None:
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        RETURNS

    @torch.no_grad()
    def generate(self, ids, max_new_tokens):
        for _ in range(max_new_tokens):
            CALLED = self(ids[:, -self.max_len:])TAKEN
            ids = torch.cat([ids, logits[:, -1, :].argmax(-1, keepdim=True)], dim=1)
        return ids
"""
OBJECT = "@dataclass\nclass Scored:\n    logits: torch.Tensor\n    loss: torch.Tensor = None"
NAMED = "class Scored(NamedTuple):\n    logits: torch.Tensor\n    loss: torch.Tensor = None"
OF_LIBRARY = (
    "class Scored:\n    logits: torch.Tensor\n    loss: torch.Tensor = None\n"
    "    def __init__(self, logits, loss=None):\n        self.logits, self.loss = logits, loss\n"
    "    def __getitem__(self, key):\n"
    "        return getattr(self, key) if isinstance(key, str) else (self.logits,)[key]"
)
MADE = "return Scored(logits=logits, loss=loss)"


def _generate(output, returns, called, taken, folder):
    text = MODEL.replace("OUTPUT", output).replace("RETURNS", returns).replace("CALLED", called)
    return check_text(text.replace("TAKEN", taken), folder)["LanguageModel.generate"]


@pytest.mark.parametrize("output, returns, called, taken", [
    (OBJECT, MADE, "logits", ".logits"), (OF_LIBRARY, MADE, "logits", "[0]"),
    (OF_LIBRARY, MADE, "logits", "['logits']"),
    (NAMED, MADE, "logits, _", ""), ("", "return {'logits': logits, 'loss': loss}", "logits", "['logits']"),
    ("", "return logits, loss", "logits, _", ""), ("", "return logits, loss", "logits", "[0]"),
    (OBJECT, "output = Scored(logits)\n        return output", "logits", ".logits"),
])  # fmt: skip
def test_the_scores_are_taken_out_of_what_the_model_returns(output, returns, called, taken, tmp_path):
    result = _generate(output, returns, called, taken, tmp_path)
    assert result.verdict == "matches the builtin", result


@pytest.mark.parametrize("output, returns, fix", [
    (OBJECT, MADE, "logits = self(ids).logits."), (OF_LIBRARY, MADE, "logits = self(ids).logits."),
    ("", "return {'logits': logits, 'loss': loss}", 'logits = self(ids)["logits"].'),
    ("", "return logits, loss", "logits, loss = self(ids)."),
])  # fmt: skip
def test_what_takes_it_for_the_scores_always_stops(output, returns, fix, tmp_path):
    (stop,) = _generate(output, returns, "logits", "", tmp_path).mistakes
    assert stop.id == "B26" and "a tensor is needed" in stop.evidence and stop.fix == fix
    assert "logits[:, -1, :]" in stop.shown


def test_a_forward_that_also_returns_a_tensor_may_be_asked_for_one(tmp_path):
    returns = "return logits if targets is None else (logits, loss)"
    assert _generate("", returns, "logits", "", tmp_path).verdict == "matches the builtin"


CACHED = """
from dataclasses import dataclass

@dataclass
class Scored:
    scores: torch.Tensor
    kv_caches: list

class LanguageModel(nn.Module):
    def __init__(self, vocab_size, d_model, max_len):
        super().__init__()
        self.max_len, self.words = max_len, nn.Embedding(vocab_size, d_model)
        self.head = nn.Linear(d_model, vocab_size)

    def forward(self, ids, kv_caches=None):
        x = self.words(ids)
        return Scored(scores=self.head(x), kv_caches=[(x[:, None], x[:, None])])

    @torch.no_grad()
    def generate(self, ids, max_new_tokens):
        found = self.forward(ids)
        for _ in range(max_new_tokens):
            if found.kv_caches[0][0].shape[2] >= self.max_len:
                break
            word = found.scores[:, -1].argmax(-1, keepdim=True)
            ids = torch.cat((ids, word), 1)
            found = self.forward(word, kv_caches=KEPT)
        return ids
"""


@pytest.mark.parametrize("kept, ids", [("found.kv_caches", []), ("None", ["D11"])])
def test_what_the_model_keeps_is_in_its_object_too(kept, ids, tmp_path):
    result = check_text(CACHED.replace("KEPT", kept), tmp_path)["LanguageModel.generate"]
    assert result.severe == ids, result
    assert (result.verdict in FINE) == (not ids), result


OF_TWO_SORTS = """
class Scored:
    def __init__(self, logits, loss=None):
        self.logits, self.loss = logits, loss

def answer(logits):
    return Scored(logits)

class LanguageModel(nn.Module):
    def __init__(self, vocab_size, width, max_len):
        super().__init__()
        self.max_len = max_len
        self.words, self.head = nn.Embedding(vocab_size, width), nn.Linear(width, vocab_size)

    def forward(self, ids=None, as_object=True):
        logits = self.head(self.words(ids))
        if not as_object:
            return (logits,)
        return RETURNED(logits)

    @torch.no_grad()
    def generate(self, ids=None, max_new_tokens=20, temperature=1.0, **others):
        if ids is None:
            raise ValueError("where do I begin?")
        for _ in range(max_new_tokens):
            logits = self.forward(ids[:, -self.max_len:]).logits[:, -1, :] OF temperature
            chosen = torch.multinomial(logits.softmax(dim=-1), num_samples=1)
            ids = torch.cat([ids, chosen], dim=1)
        return ids
"""


def _of_two_sorts(folder, of="/", returned="Scored", ids="ids=None"):
    text = OF_TWO_SORTS.replace("OF temperature", f"{of} temperature").replace("RETURNED", returned)
    text = text.replace("generate(self, ids=None", f"generate(self, {ids}")
    return checking_of(written(text, folder))[1]


@pytest.mark.parametrize("of, ids", [("/", []), ("*", ["S1"])])
def test_of_all_that_a_forward_returns_a_writer_reads_what_it_names(of, ids, tmp_path):
    """And is given what it must have, though that is nothing by default."""
    found = _of_two_sorts(tmp_path, of)
    assert found["LanguageModel.generate"].verdict in FINE
    assert found["LanguageModel.generate.sampling"].severe == ids


def test_what_the_kits_model_lacks_is_no_mistake_of_a_method(tmp_path):
    found = _of_two_sorts(tmp_path, returned="answer", ids="ids")
    assert not any("B26" in one.ids for one in found.values()), found


def _cut(model, ids):
    return ids[:, -3:]


def _scores(model, ids):
    return model(ids)[:, -1]


@pytest.mark.parametrize("writes, is_of_the_answer", [(_cut, False), (_scores, True)])
def test_ids_that_are_a_list_are_no_answer_of_a_model(writes, is_of_the_answer):
    several = type("Several", (), {"__getitem__": None})
    model = toy.ToyModel(lambda ids: torch.zeros(*ids.shape, 11), toy.Reading(), answers=Made(several, ("logits",)))
    with pytest.raises(TypeError, match="list indices") as stopped:
        writes(model, [3, 4])
    assert (answered.finding(stopped.value) is not None) == is_of_the_answer
