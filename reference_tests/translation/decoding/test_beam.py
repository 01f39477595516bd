"""Beam search against all translations there are, against greedy search, and without caches."""

import pytest
import torch

from reference_tests.translation.decoding.examples import (
    BOS,
    EOS,
    SRC_PAD,
    beam_search_differs,
    random_model,
    random_sources,
)
from scratch_transformer.translation.decoding import PrefixDecoder, beam_search, greedy_search

ENDS = (SRC_PAD, BOS, EOS, 12)


def ids_of(found):
    return [[h.ids for h in hypotheses] for hypotheses in found]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_a_beam_as_wide_as_the_tree_finds_every_translation_in_its_order(alpha):
    model = random_model(tgt_vocab_size=4, spread=0.7)
    assert beam_search_differs(model, random_sources(3), max_length=4, alpha=alpha) == ""


@pytest.mark.parametrize("beam", [1, 2, 5])
@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_is_the_same_without_caches_and_for_each_source_alone(beam, alpha):
    model, sources = random_model(norm="post"), random_sources(6)
    found = beam_search(model, sources, *ENDS, beam=beam, alpha=alpha)
    whole = beam_search(model, sources, *ENDS, beam=beam, alpha=alpha, decoder=PrefixDecoder)
    alone = [beam_search(model, sources[i : i + 1], *ENDS, beam=beam, alpha=alpha)[0] for i in range(6)]
    assert ids_of(found) == ids_of(whole) == ids_of(alone)
    assert all(len(hypotheses) <= beam for hypotheses in found)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.5])
def test_is_never_worse_than_greedy(alpha):
    better = 0
    for _ in range(15):
        model, sources = random_model(spread=0.6), random_sources(4)
        found = beam_search(model, sources, *ENDS, beam=2, alpha=alpha)
        for [best, *_], [greedy] in zip(found, greedy_search(model, sources, *ENDS, alpha=alpha), strict=True):
            assert (best.is_finished, best.score + 1e-12) >= (greedy.is_finished, greedy.score)
            better += best.score > greedy.score + 1e-12
    assert better > 0


def test_is_ranked_and_has_no_translation_twice():
    for hypotheses in beam_search(random_model(spread=0.3), random_sources(6), *ENDS, beam=7):
        keys = [(h.is_finished, h.score) for h in hypotheses]
        assert keys == sorted(keys, reverse=True)
        assert len({(tuple(h.ids), h.is_finished) for h in hypotheses}) == len(hypotheses)


def test_what_has_not_ended_comes_last():
    model = random_model()
    with torch.no_grad():
        model.projection_layer.proj.bias[EOS] = -20.0  # it hardly ever ends
    found = beam_search(model, random_sources(3), *ENDS, beam=3)
    assert all(any(not h.is_finished and len(h.ids) == ENDS[-1] for h in hypotheses) for hypotheses in found)
    assert all(EOS not in h.ids for hypotheses in found for h in hypotheses)


def test_no_sources_have_no_translations():
    assert beam_search(random_model(), random_sources()[:0], *ENDS) == []


@pytest.mark.parametrize("options", [{"beam": 0}, {"alpha": -0.1}, {"alpha": float("nan")}, {"alpha": float("inf")}])
def test_settings_without_a_meaning_are_refused(options):
    with pytest.raises(ValueError, match="expected beam of at least 1 and a finite alpha ≥ 0, but got beam="):
        beam_search(random_model(), random_sources(), *ENDS, **options)
