"""Greedy search and sampling: with caches as without, in a batch as alone."""

import random

import pytest
import torch

from reference_tests.translation.decoding.examples import (
    BOS,
    EOS,
    LONGEST,
    SRC_PAD,
    TGT_VOCAB,
    S,
    every_model,
    random_model,
    random_sources,
)
from scratch_transformer import functional, masks
from scratch_transformer.translation.decoding import PrefixDecoder, greedy, greedy_search, length_penalty, sample

ENDS = (SRC_PAD, BOS, EOS, 30)


def generator(seed=3):
    return torch.Generator().manual_seed(seed)


def ids_of(found):
    return [[h.ids for h in hypotheses] for hypotheses in found]


def greedy_alone(model, source):
    """The tutorials' loop: one source, the whole prefix at every step."""
    source = source[source != SRC_PAD].unsqueeze(0)
    memory, ids = model.encode(source), [BOS]
    while len(ids) <= ENDS[-1]:
        decoded = model.decode(memory, None, torch.tensor([ids]), masks.causal(len(ids)))
        ids.append(int(model.project(decoded[:, -1]).argmax()))
        if ids[-1] == EOS:
            return ids[1:-1]
    return ids[1:]


def model_that_ends_early(sources, **options):
    """A model whose translations have several lengths: most random ones end at once, or never."""
    for _ in range(100):
        model = random_model(ending=random.uniform(0, 8), **options).eval()
        if len({len(ids) for ids in greedy(model, sources, *ENDS)}) > 1:
            return model, sources
    raise AssertionError("no model found")


@every_model
def test_greedy_is_the_tutorials_loop_for_each_source(options):
    model, sources = model_that_ends_early(random_sources(8), **options)
    found = greedy(model, sources, *ENDS)
    with torch.no_grad():
        expected = [greedy_alone(model, source) for source in sources]
    assert found == expected
    assert greedy(model, sources, *ENDS, decoder=PrefixDecoder) == expected
    assert ids_of(greedy_search(model, sources, *ENDS)) == [[ids] for ids in expected]


def test_sources_may_be_padded_on_the_left():
    model, sources = model_that_ends_early(random_sources(8, "left"))
    assert greedy(model, sources, *ENDS) == greedy(model, sources, *ENDS, decoder=PrefixDecoder)


def test_dropout_is_off_and_comes_back():
    model, sources = random_model(dropout=0.5).train(), random_sources()
    assert greedy(model, sources, *ENDS) == greedy(model, sources, *ENDS)
    assert model.training


def test_scores_are_the_models_log_probabilities():
    model, sources = random_model().eval(), random_sources()
    for source, [h] in zip(sources, greedy_search(model, sources, *ENDS, alpha=0.7), strict=True):
        output = [*h.ids, EOS] if h.is_finished else h.ids
        inputs = torch.tensor([[BOS, *output[:-1]]])
        mask = masks.padding(source.unsqueeze(0), SRC_PAD)
        with torch.no_grad():
            logits = model(source.unsqueeze(0), inputs, mask, masks.causal(len(output)))[0]
        log_p = functional.log_softmax(logits, -1)[range(len(output)), output].sum().item()
        assert h.log_probability == pytest.approx(log_p, rel=1e-12)
        assert h.score == pytest.approx(log_p / ((5 + len(output)) / 6) ** 0.7, rel=1e-12)
        assert h.is_finished or len(h.ids) == ENDS[-1]


def test_the_length_penalty_is_the_one_of_wu_et_al():
    assert length_penalty(1, 0.6) == 1
    assert length_penalty(7, 1) == 2
    assert length_penalty(19, 0.5) == 2
    assert length_penalty(40, 0) == 1


def test_no_sources_have_no_translations():
    assert greedy(random_model(), random_sources(5)[:0], *ENDS) == []
    assert greedy_search(random_model(), random_sources(5)[:0], *ENDS) == []
    assert sample(random_model(), random_sources(5)[:0], *ENDS) == []


# ---- Sampling ----


def test_samples_are_the_same_with_and_without_caches_and_for_the_same_seed():
    model, sources = random_model(), random_sources()
    options = {"temperature": 1.5, "top_k": 9, "top_p": 0.95, "count": 3}
    found = sample(model, sources, *ENDS, **options, generator=generator())
    assert found == sample(model, sources, *ENDS, **options, generator=generator())
    assert ids_of(found) != ids_of(sample(model, sources, *ENDS, **options, generator=generator(4)))
    again = sample(model, sources, *ENDS, **options, generator=generator(), decoder=PrefixDecoder)
    assert ids_of(found) == ids_of(again)


def test_samples_are_ranked_and_differ():
    for hypotheses in sample(random_model(spread=0.2), random_sources(), *ENDS, count=20, generator=generator()):
        assert len({tuple(h.ids) for h in hypotheses}) == len(hypotheses) > 1
        keys = [(h.is_finished, h.score) for h in hypotheses]
        assert keys == sorted(keys, reverse=True)


@pytest.mark.parametrize("options", [{"top_k": 1}, {"top_p": 1e-9}, {"temperature": 1e-9}], ids=str)
def test_with_nothing_left_to_chance_a_sample_is_greedy(options):
    model, sources = random_model(), random_sources()
    found = sample(model, sources, *ENDS, **options, generator=generator())
    assert [ids for [ids] in ids_of(found)] == greedy(model, sources, *ENDS)


@pytest.mark.parametrize(
    "options",
    [{}, {"temperature": 0.5}, {"top_k": 3}, {"top_p": 0.6}, {"temperature": 2.0, "top_k": 5, "top_p": 0.7}],
    ids=str,
)
def test_first_tokens_are_drawn_with_their_probabilities(options):
    from scratch_transformer.generation.sampling import draw, truncated

    logits, draws = torch.randn(TGT_VOCAB, dtype=torch.float64) * 2, 20_000
    kept = expected_probabilities(logits.tolist(), **options)
    uniform = torch.rand(draws, dtype=torch.float64, generator=generator())
    tokens = draw(
        *truncated(logits.expand(draws, -1), **{"temperature": 1.0, "top_k": None, "top_p": None, **options}), uniform
    )
    frequencies = (torch.bincount(tokens, minlength=TGT_VOCAB) / draws).tolist()
    assert {i for i, f in enumerate(frequencies) if f} <= kept.keys()
    for token, p in kept.items():
        assert abs(frequencies[token] - p) <= 5 * (p * (1 - p) / draws) ** 0.5 + 1e-12


def expected_probabilities(logits, temperature=1.0, top_k=None, top_p=None):
    """One token after the other, from the likeliest on: token -> probability."""
    weights = {i: 2.718281828459045 ** (x / temperature) for i, x in enumerate(logits)}
    order = sorted(weights, key=weights.get, reverse=True)[:top_k]
    kept, total = [], sum(weights[i] for i in order)
    for i in order:
        if sum(weights[j] for j in kept) / total >= (top_p or 2):
            break
        kept.append(i)
    return {i: weights[i] / sum(weights[j] for j in kept) for i in kept}


def test_the_largest_number_below_one_draws_a_token_that_may_be_drawn():
    from scratch_transformer.generation.sampling import draw

    probabilities = torch.tensor([[0.3, 0.3, 0.1, 0.3 - 1e-9, 0.0]], dtype=torch.float64)
    uniform = torch.tensor([1 - 2**-53], dtype=torch.float64)
    assert draw(probabilities, torch.tensor([[5, 6, 7, 8, 9]]), uniform).item() == 8
    assert draw(probabilities, torch.tensor([[5, 6, 7, 8, 9]]), uniform * 0).item() == 5


# ---- What is refused ----


@pytest.mark.parametrize("max_length", [0, -1, LONGEST + 1])
def test_a_length_that_the_model_has_no_positions_for_is_refused(max_length):
    with pytest.raises(ValueError, match=f"max_length must be from 1 to the model's seq_len={LONGEST}, but is"):
        greedy(random_model(), random_sources(), SRC_PAD, BOS, EOS, max_length)


def test_a_source_that_the_model_has_no_positions_for_is_refused():
    with pytest.raises(ValueError, match=f"a sequence of {S + 2} tokens is longer than seq_len={S}"):
        greedy(random_model(), torch.full((1, S + 2), 3), *ENDS)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"temperature": 0.0}, "temperature must be a finite number above 0, but is 0.0"),
        ({"temperature": float("nan")}, "temperature must be a finite number above 0, but is nan"),
        ({"top_k": 0}, "top_k must be at least 1, but is 0"),
        ({"top_p": 0.0}, "top_p must be above 0 and at most 1, but is 0.0"),
        ({"top_p": 1.1}, "top_p must be above 0 and at most 1, but is 1.1"),
        ({"count": 0}, "count must be at least 1, but is 0"),
    ],
)
def test_settings_that_leave_nothing_to_draw_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        sample(random_model(), random_sources(), *ENDS, **options)
