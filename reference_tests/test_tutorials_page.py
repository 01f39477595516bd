"""docs/tutorials.md says what is true: its tables are measured anew, and its code runs."""

import re

import pytest
import torch

from docs import measure_tutorials
from reference_tests.as_taught.assembled import model_of_tutorial_a
from scratch_transformer import masks

NUMBER = re.compile(r"(?<![\w=])-?\d+(?:[.,]\d+)*(?:e[+-]?\d+)?")


@pytest.fixture(scope="module")
def page():
    return measure_tutorials.PAGE.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def measured():
    return measure_tutorials.tables()


@pytest.mark.parametrize("name", ["ours", "a", "b", "c", "d", "e", "calls", "parameters"])
def test_the_tables_are_as_measured(page, measured, name):
    """In words exactly; in numbers up to what another processor may round differently."""
    written = re.search(rf"<!-- measured: {name} -->\n(.*?)\n<!-- end -->", page, re.DOTALL)[1]
    assert NUMBER.sub("#", written) == NUMBER.sub("#", measured[name])
    for old, new in zip(NUMBER.findall(written), NUMBER.findall(measured[name]), strict=True):
        is_exact = "e" not in old and "." not in old
        assert old == new if is_exact else float(old) == pytest.approx(float(new), rel=0.3), (old, new)


def test_every_table_has_its_place(page, measured):
    assert set(re.findall(r"<!-- measured: ([\w-]+) -->", page)) == measured.keys()
    assert measure_tutorials.replaced(page, measured).count("<!-- end -->") == len(measured)


def test_a_changed_number_is_written():
    page = "x\n<!-- measured: a -->\nold\n<!-- end -->\ny\n<!-- measured: b -->\n<!-- end -->\n"
    expected = "x\n<!-- measured: a -->\nnew\n<!-- end -->\ny\n<!-- measured: b -->\nB\n<!-- end -->\n"
    assert measure_tutorials.replaced(page, {"a": "new", "b": "B"}) == expected


@pytest.fixture
def after_the_page(page, tmp_path, monkeypatch):
    """The names that the page's code leaves behind."""
    monkeypatch.chdir(tmp_path)
    torch.save(model_of_tutorial_a(40, 50, 20, 30, 32, 2, 4, 0.1, 64).state_dict(), "tutorial_a.pt")
    names = {}
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(code, names)
    return names


def test_the_code_runs_and_decodes_the_most_probable_tokens(after_the_page):
    model, src, src_mask = (after_the_page[name] for name in ("model", "src", "src_mask"))
    decode = after_the_page["greedy_decode"]
    ids = after_the_page["translation"]
    assert ids.shape[1] <= 12
    assert (ids[:, 0] == 1).all()
    logits = model(src, ids[:, :-1], src_mask, masks.causal(ids.shape[1] - 1))
    is_open = (ids[:, :-1] == 2).cumsum(1) == 0
    assert torch.equal(logits.argmax(-1)[is_open], ids[:, 1:][is_open])

    first = ids[0, 1].item()  # as end of sentence it ends row 0 at once, and is all that follows
    ended = decode(model, src, src_mask, bos_id=1, eos_id=first, max_len=6)
    assert (ended[0, 1:] == first).all()
    assert decode(model, src[:1], src_mask[:1], bos_id=1, eos_id=first, max_len=6).shape == (1, 2)


def test_the_loaded_tutorial_is_the_saved_one(after_the_page):
    trained, saved = after_the_page["trained"], torch.load("tutorial_a.pt", weights_only=True)
    assert all(torch.equal(values, saved[name]) for name, values in trained.state_dict().items())
