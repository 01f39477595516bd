"""The story has every named tensor of the trace, in the order in which they are computed, and a word on each."""

import re

import pytest

from scratch_transformer.translation.checkpoint import load_run
from scratch_transformer.translation.trained import FOLDER
from scratch_transformer.view import payload, sources
from scratch_transformer.view.story import story


@pytest.fixture(scope="module")
def names():
    return payload.traced(load_run(FOLDER), "seven").names


def test_it_has_every_tensor_of_the_trace_in_order(names):
    places = list(dict.fromkeys(re.sub(r"layers\.\d+", "layers.*", name) for name in names))
    told = [point.place for point in story("pre")]
    assert len(set(told)) == len(told)
    extra = [place for place in told if place not in places]
    assert [place for place in told if place in places] == places
    assert [place.rpartition(".")[2] for place in extra] == ["masked_scores", "masked_scores", "probabilities"]


def test_post_norm_tells_the_norm_after_the_sum():
    places = [point.place for point in story("post")]
    first = places.index("encoder.layers.*.residual_connections.0.sum")
    assert places[first + 5] == "encoder.layers.*.residual_connections.0.norm"
    assert "encoder.norm" not in places and "decoder.norm" not in places
    assert {place for place in places if ".layers." in place} == {
        p.place for p in story("pre") if ".layers." in p.place
    }


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_every_point_has_what_the_page_shows(norm):
    for point in story(norm):
        assert point.title and point.short and point.axes.split()
        assert point.says or point.detail, point.place
        path, fragment = point.source
        assert sources.marked(sources.listing(path), fragment)


def test_axes_are_those_of_the_tensors(names):
    trace = payload.traced(load_run(FOLDER), "seven")
    sizes = {
        "source": 2,
        "target": len(trace.about["target_ids"]),
        "heads": 4,
        "features": 64,
        "width": 16,
        "hidden": 128,
    }
    sizes |= {"one": 1, "vocabulary": 120}
    for point in story("pre"):
        name = point.place.replace("*", "1")
        if name in names:
            assert trace[name].tensor.shape[1:] == tuple(sizes[axis] for axis in point.axes.split()), name


def test_settings_are_filled_in():
    run = load_run(FOLDER)
    for point in story("pre"):
        assert not re.search(r"\{\w+\}", payload.filled(point.says, run)), point.place
    assert payload.filled("{d_k} of {d_model}", run) == "16 of 64"
