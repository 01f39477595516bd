"""A fault of the kit's own: it spoils one component, is said to be no verdict, and never ends with 0."""

import pytest

from reference_tests.kit.learners.checked import check_text, reported
from scratch_transformer.kit import process
from scratch_transformer.kit.report.finding import Report, Result
from scratch_transformer.kit.report.text import sentence
from scratch_transformer.kit.results import Results

TWO = """
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
    def forward(self, x):
        return self.linear2(torch.relu(self.linear1(x)))
class Embeddings(nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model)
    def forward(self, ids):
        return self.table(ids) * math.sqrt(self.table.embedding_dim)
"""


def test_it_spoils_one_component_alone(tmp_path, monkeypatch):
    said = Results.of

    def of(self, name, *others):
        return said(self, name, *others) if name != "FeedForward" else [][1]

    monkeypatch.setattr(Results, "of", of)
    results = check_text(TWO, tmp_path)
    assert results["Embeddings"].verdict == "matches the builtin"
    assert results["FeedForward"].verdict == "not judged"
    assert results["FeedForward"].problem == "the check itself fails on it: IndexError: list index out of range"


@pytest.mark.parametrize("others, status, said", [
    ([], 2, "Not judged, as the check itself failed: Two."),
    ([Result("One", "a.py:1", "K", "matches the builtin")], 2, "Not judged, as the check itself failed: Two."),
    ([Result("One", "a.py:1", "K", "mistake")], 1,
     "1 of 2 components has a mistake: One. Not judged, as the check itself failed: Two."),
])  # fmt: skip
def test_it_is_no_verdict(others, status, said):
    report = Report("a.py", [*others, Result("Two", "a.py:9", "K", "not judged", problem="…")])
    assert (report.status(), report.status(strict=True), sentence(report)) == (status, status, said)


def events(monkeypatch, *each):
    """What the children say, one after the other."""
    runs = iter(each)

    def listen(self, folder):
        return max(map(self._handle, next(runs))), 1

    monkeypatch.setattr(process._Watch, "_listen", listen)


FAILED = {"event": "failed", "error": "IndexError: list index out of range"}


def test_what_the_kit_failed_on_is_left_out_and_the_rest_is_checked(tmp_path, monkeypatch):
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    two = f"{path}:Two"
    components = {"event": "components", "names": [two]}
    events(monkeypatch, [components, {"event": "start", "component": two}, FAILED], [components, {"event": "done"}])
    report = reported(path)
    (result,) = report.results
    assert (result.name, result.verdict, report.status()) == ("Two", "not judged", 2)
    assert result.problem == "While it was checked, the check itself failed: IndexError: list index out of range."


def test_a_check_that_fails_before_any_component_ends_with_2(tmp_path, monkeypatch):
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    events(monkeypatch, [FAILED])
    report = reported(path)
    assert (report.problems, report.status()) == ([f"The check itself failed: {FAILED['error']}"], 2)


def test_a_file_on_which_the_check_fails_is_left_out_and_the_others_are_checked(tmp_path, monkeypatch):
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("x = 1\n")
    loading = [{"event": "loading", "path": str(tmp_path / name)} for name in ("a.py", "b.py")]
    events(monkeypatch, [loading[0], FAILED], [loading[1], {"event": "components", "names": []}, {"event": "done"}])
    report = reported(tmp_path)
    assert (report.problems, report.status()) == ([f"a.py: the check itself failed: {FAILED['error']}"], 2)


FIELD = """
import typing
import torch

class Path(typing.NamedTuple):
    score: float
    output: torch.Tensor

def softmax(x):
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)
"""


def test_a_field_may_be_called_output(tmp_path):
    """As what one of a function's several masks is called, within."""
    (tmp_path / "a.py").write_text(FIELD)
    report = reported(tmp_path / "a.py")
    (result,) = report.results
    assert (report.problems, result.name, result.verdict) == ([], "softmax", "matches the builtin")
