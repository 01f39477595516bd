"""The page loads, checks itself, and asks nobody for anything."""

import re

import pytest

from reference_tests.view.in_browser.conftest import SENTENCE, written
from scratch_transformer.view import page as make_page


def test_loads_without_an_error_and_without_a_request(open_page, file):
    visit = open_page()
    assert visit.checked() < 1e-11
    assert visit.errors == []
    assert [url for url in visit.requests if not url.startswith("data:")] == [file.as_uri()]
    assert "default-src 'none'" in visit.page.get_attribute("meta[http-equiv]", "content")


def test_says_that_all_numbers_and_sentences_are_right(open_page):
    visit = open_page()
    visit.checked()
    numbers = int(re.search(r"of ([\d,]+) numbers", visit.text("#self-check"))[1].replace(",", ""))
    tensors = visit.page.evaluate("[...view.session.recorded.tensors.values()].map((x) => x.data.length)")
    assert numbers == sum(tensors) > 30_000
    assert "All 41 sample sentences" in visit.text("#self-check")
    assert visit.page.is_visible("#self-check.good")


@pytest.mark.parametrize("what", ["weights", "torch", "ours"])
def test_notices_a_wrong_number(what, open_page, file, tmp_path_factory):
    """One weight, one of PyTorch's numbers, one of Python's: the self-check must see each."""
    names = {"weights": "model.weights", "torch": "recorded.tensors", "ours": "recorded.ours"}
    tensors = f"session.{names[what]}"
    name = "encoder.layers.1.feed_forward" + ("_block.linear_1.weight" if what == "weights" else ".hidden")
    spoiled = file.read_text("utf-8").replace(
        "selfCheck(session);\n  document.documentElement",
        f'{tensors}.get("{name}").data[3] += 0.01; selfCheck(session);\n  document.documentElement',
    )
    visit = open_page(file=written(spoiled, tmp_path_factory))
    assert visit.checked() > 1e-4
    assert visit.page.is_visible("#self-check.broken")
    assert "does not compute" in visit.text("#self-check")


@pytest.mark.parametrize(
    "settings",
    [
        {"model.norm": "post", "model.positions": "learned", "model.attention_bias": False, "model.num_layers": 1},
        {"model.share_embeddings": "target", "model.d_model": 15, "model.num_heads": 3, "model.d_ff": 7},
    ],
    ids=["post-norm", "odd"],
)
def test_computes_models_of_every_kind(settings, random_run, open_page, tmp_path_factory):
    file = written(make_page(random_run(**settings), "zero"), tmp_path_factory)
    visit = open_page(file=file)
    assert visit.checked() < 1e-9
    assert visit.errors == []
    for _ in range(12):
        visit.page.keyboard.press("ArrowRight")
    assert visit.errors == []


def test_titles_the_tab(open_page):
    assert open_page().page.title() == f"Scores become shares – {SENTENCE} – Inside a Transformer"
