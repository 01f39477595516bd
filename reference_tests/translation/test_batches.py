"""Batches: every pair once an epoch, little padding, and shares that add up."""

import numpy as np
import pytest
import torch

from scratch_transformer.translation import batches, tokenizer
from scratch_transformer.translation.batches import Steps

TEXTS = ["a", "b a", "a b c", "c b a b", "b c a a b c a"]
PAIRS = [(TEXTS[i % 5], TEXTS[i * 3 % 5]) for i in range(57)]


@pytest.fixture(scope="module")
def words():
    return tokenizer.train("word", 50, TEXTS)


@pytest.fixture(scope="module")
def encoded(words):
    return batches.encode(PAIRS, (words, words), max_length=10)


def test_ids_end_with_eos(words, encoded):
    assert encoded.sources[1].tolist() == [*words.encode("b a"), words.eos_id]
    assert [len(ids) for ids in encoded.targets] == [len(text.split()) + 1 for _, text in PAIRS]


def test_overlong_pairs_are_dropped_or_truncated(words):
    dropped = batches.encode(PAIRS, (words, words), max_length=5)
    truncated = batches.encode(PAIRS, (words, words), max_length=5, overlong="truncate")
    overlong = sum(TEXTS[4] in pair for pair in PAIRS)
    assert dropped.overlong == truncated.overlong == overlong > 0
    assert dropped.pairs == [pair for pair in PAIRS if TEXTS[4] not in pair]
    assert len(dropped.sources) == len(PAIRS) - overlong
    assert len(truncated.sources) == len(truncated.pairs) == len(PAIRS)
    assert truncated.sources.lengths.max() == truncated.targets.lengths.max() == 5
    assert all(ids[-1] == words.eos_id for ids in truncated.sources)


@pytest.mark.parametrize("shuffle", [None, (0, 0), (2**63 - 1, 5)])
def test_a_plan_has_every_pair_once_and_fits(encoded, shuffle):
    plan = batches.plan(encoded, 24, shuffle)
    assert sorted(np.concatenate(plan).tolist()) == list(range(57))
    for batch in plan:
        longest = max(encoded.sources.lengths[batch].max(), encoded.targets.lengths[batch].max())
        assert longest * len(batch) <= 24


def test_epochs_differ(encoded):
    plans = [batches.plan(encoded, 24, (7, epoch)) for epoch in range(4)]
    assert len({str(plan) for plan in plans}) == 4
    assert str(batches.plan(encoded, 24, (7, 2))) == str(plans[2])


def test_little_is_padding(encoded):
    """Less than half of what unsorted batches of the same size pad."""
    plan = batches.plan(encoded, 24, (0, 0))
    order = np.random.default_rng(0).permutation(57)
    unsorted = np.split(order, np.cumsum([len(batch) for batch in plan])[:-1])
    ours, theirs = (
        sum(step.pieces[0].target_output.eq(0).sum().item() for step in batches.load(Steps(encoded, indices)))
        for indices in (plan, unsorted)
    )
    assert ours < theirs / 2


def test_short_pairs_are_in_many_steps(words):
    """Sorted all together, they would be in one or two of an epoch, and forgotten by the next."""
    encoded = batches.encode([(TEXTS[0], TEXTS[0])] * 40 + [(TEXTS[4], TEXTS[4])] * 400, (words, words), max_length=10)
    short = [sum(bool((batch < 40).any()) for batch in batches.plan(encoded, 24, (0, 0), pool)) for pool in (8, None)]
    assert short[0] > 10 > 5 > short[1]
    whole = batches.plan(encoded, 24, (0, 0), 8)
    assert sorted(np.concatenate(whole).tolist()) == list(range(440))


def test_the_input_is_the_output_a_token_later(words, encoded):
    for step in batches.load(Steps(encoded, batches.plan(encoded, 40, (0, 0)))):
        source, inputs, output = step.pieces[0]
        assert source.dtype == inputs.dtype == output.dtype == torch.int64
        for input_row, output_row in zip(inputs, output, strict=True):
            length = int((output_row != words.pad_id).sum())
            assert input_row[0] == words.bos_id
            assert input_row[1:length].tolist() == output_row[: length - 1].tolist()
            assert output_row[length - 1] == words.eos_id
            assert input_row[length:].eq(words.pad_id).all()


@pytest.mark.parametrize(("processes", "pieces"), [(1, 1), (2, 1), (1, 3), (3, 2)])
def test_the_shares_of_a_step_add_up(encoded, processes, pieces):
    plan = batches.plan(encoded, 40, (0, 0))
    shares = [Steps(encoded, plan, rank, processes, pieces) for rank in range(processes)]
    for i, batch in enumerate(plan):
        rows = [row[row != 0].tolist() for share in shares for piece in share[i].pieces for row in piece.target_output]
        assert sorted(filter(None, rows)) == sorted(encoded.targets[j].tolist() for j in batch)
        assert {share[i].tokens for share in shares} == {sum(map(len, rows))}
        assert all(len(share[i].pieces) == pieces for share in shares)


def test_a_share_without_pairs_counts_nothing(encoded):
    (nothing,) = Steps(encoded, [np.array([4])], rank=1, processes=2)[0].pieces
    assert nothing.target_output.eq(0).all()
    assert nothing.source.shape == nothing.target_input.shape == (1, 1)


def test_loading_starts_anywhere_and_draws_nothing_from_torchs_generator(encoded):
    steps = Steps(encoded, batches.plan(encoded, 24, (0, 0)))
    before = torch.get_rng_state()
    loaded = list(batches.load(steps, start=3))
    assert torch.equal(torch.get_rng_state(), before)
    assert len(loaded) == len(steps) - 3
    assert torch.equal(loaded[0].pieces[0].source, steps[3].pieces[0].source)


def test_workers_prepare_the_same(encoded):
    steps = Steps(encoded, batches.plan(encoded, 60, (0, 0)))
    alone, helped = (list(batches.load(steps, workers=workers)) for workers in (0, 2))
    assert [step.tokens for step in alone] == [step.tokens for step in helped]
    for one, other in zip(alone, helped, strict=True):
        assert all(map(torch.equal, one.pieces[0], other.pieces[0]))


@pytest.mark.parametrize(("tokens", "pool"), [(10**30, 3), (30, 10**30)])
def test_batches_without_an_end_hold_all(encoded, tokens, pool):
    planned = batches.plan(encoded, tokens, shuffle=(0, 1), pool=pool)
    assert sorted(i for batch in planned for i in batch) == list(range(len(PAIRS)))
    assert len(planned) == 1 or tokens == 30
