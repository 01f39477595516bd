"""Drawing tokens: the right probabilities, in any order of the options. Against transformers: `pretrained/`."""

from __future__ import annotations

import pytest
import torch

from scratch_transformer.generation import sampling

V, DRAWS = 23, 20_000
OPTIONS = [
    {},
    {"temperature": 0.5},
    {"top_k": 3},
    {"top_p": 0.6},
    {"min_p": 0.2},
    {"top_k": V + 5, "top_p": 1.0, "min_p": 0.0},
    {"temperature": 2.0, "top_k": 9, "top_p": 0.8, "min_p": 0.1},
]


def truncated(logits, **options):
    return sampling.truncated(logits, **{"temperature": 1.0, "top_k": None, "top_p": None, **options})


def by_token(logits, **options):
    """The probabilities in the vocabulary's order."""
    probabilities, tokens = truncated(logits, **options)
    return torch.zeros_like(logits).scatter_(1, tokens, probabilities)


def expected(logits, temperature=1.0, top_k=None, top_p=None, min_p=0.0):
    """By the definitions, one token after the other, from the likeliest on: token -> probability."""
    weights = {i: 2.718281828459045 ** (x / temperature) for i, x in enumerate(logits)}
    order = sorted(weights, key=weights.get, reverse=True)[:top_k]
    total, kept, mass = sum(weights[i] for i in order), [], 0.0
    for i in order:
        if mass / total >= (top_p or 2) or weights[i] < min_p * weights[order[0]]:
            break
        kept.append(i)
        mass += weights[i]
    return {i: weights[i] / mass for i in kept}


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_probabilities_are_those_of_the_definition(options):
    logits = torch.randn(4, V, dtype=torch.float64) * 2
    for found, row in zip(by_token(logits, **options), logits.tolist(), strict=True):
        by_definition = expected(row, **options)
        assert {i for i, p in enumerate(found.tolist()) if p} == by_definition.keys()
        for token, p in by_definition.items():
            assert found[token].item() == pytest.approx(p, rel=1e-12)


@pytest.mark.parametrize("top_p", [0.5, 0.999])
def test_the_nucleus_of_a_large_vocabulary_is_the_same_with_and_without_sorting_all(top_p, monkeypatch):
    logits = torch.randn(3, 5000, dtype=torch.float64) * torch.tensor([[0.1], [1.0], [9.0]], dtype=torch.float64)
    found = by_token(logits, top_p=top_p)
    assert len(set((found > 0).sum(-1).tolist())) == 3
    monkeypatch.setattr(sampling, "LIKELIEST", 5000)
    torch.testing.assert_close(by_token(logits, top_p=top_p), found, rtol=1e-12, atol=0)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_tokens_are_drawn_with_their_probabilities(options):
    logits = torch.randn(1, V, dtype=torch.float64) * 2
    uniform = torch.rand(DRAWS, dtype=torch.float64)
    tokens = sampling.draw(*(x.expand(DRAWS, -1) for x in truncated(logits, **options)), uniform)
    frequencies = torch.bincount(tokens, minlength=V) / DRAWS
    p = by_token(logits, **options)[0]
    assert ((frequencies - p).abs() <= 5 * (p * (1 - p) / DRAWS).sqrt() + 1e-12).all()


def test_the_coldest_draw_is_the_likeliest_token():
    probabilities, _ = truncated(torch.tensor([[3.0, 80.0, -5.0]]), temperature=1e-300)
    assert probabilities.tolist() == [[0, 1, 0]]


def test_the_largest_number_below_one_draws_a_token_that_may_be_drawn():
    probabilities = torch.tensor([[0.0, 0.3, 0.0, 0.3, 0.1, 0.3 - 1e-9, 0.0]], dtype=torch.float64)
    tokens, largest = torch.tensor([[1, 5, 2, 6, 7, 8, 9]]), torch.tensor([1 - 2**-53], dtype=torch.float64)
    assert sampling.draw(probabilities, tokens, largest).item() == 8
    assert sampling.draw(probabilities, tokens, largest * 0).item() == 5


def test_sums_that_do_not_rise_draw_no_impossible_token(monkeypatch):
    """A GPU adds up in parallel: a sum may exceed the next one, where nothing was added, by rounding."""
    probabilities = torch.tensor([[0.5, 0.0, 0.5]], dtype=torch.float64)
    monkeypatch.setattr(torch.Tensor, "cumsum", lambda self, dim: torch.tensor([[0.5, 0.5 + 1e-9, 1.0]]).double())
    uniform = torch.tensor([0.5 + 1e-12], dtype=torch.float64)
    assert sampling.draw(probabilities, torch.tensor([[4, 5, 6]]), uniform).item() in (4, 6)


def test_the_penalty_lowers_what_was_said():
    logits = torch.tensor([[2.0, -2.0, 2.0, -2.0, 0.0]])
    seen = torch.tensor([[True, True, False, False, True]])
    assert sampling.penalized(logits, seen, 2.0).tolist() == [[1.0, -4.0, 2.0, -2.0, 0.0]]
    assert torch.equal(sampling.penalized(logits, seen, 1.0), logits)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0.0}, "temperature must be a finite number above 0, but is 0.0"),
        ({"temperature": float("nan")}, "temperature must be a finite number above 0, but is nan"),
        ({"top_k": 0}, "top_k must be at least 1, but is 0"),
        ({"top_p": 0.0}, "top_p must be above 0 and at most 1, but is 0.0"),
        ({"top_p": 1.1}, "top_p must be above 0 and at most 1, but is 1.1"),
        ({"min_p": 1.1}, "min_p must be at least 0 and at most 1, but is 1.1"),
        ({"min_p": -0.1}, "min_p must be at least 0 and at most 1, but is -0.1"),
        ({"penalty": 0.0}, "repetition_penalty must be a finite number above 0, but is 0.0"),
    ],
    ids=str,
)
def test_what_leaves_nothing_to_draw_is_refused(options, message):
    with pytest.raises(ValueError, match=f"sampling: {message}"):
        sampling.check(**{"temperature": 1.0, "top_k": None, "top_p": None} | options)
