"""A small model's step in NumPy gives the logits of the whole prefix, and is taken where it suits."""

import copy
import sys
from unittest import mock

import numpy as np
import pytest
import torch

from reference_tests.translation.decoding.examples import (
    BOS,
    EOS,
    LONGEST,
    SRC_PAD,
    TGT_VOCAB,
    every_model,
    random_model,
    random_sources,
    relative_error,
)
from scratch_transformer.translation.decoding import (
    IncrementalDecoder,
    MergedDecoder,
    PrefixDecoder,
    SmallDecoder,
    cached,
    cached_attention,
    greedy,
    modes,
    small,
)
from scratch_transformer.translation.decoding.cached_attention import FIRST_CAPACITY
from scratch_transformer.translation.decoding.modes import deciding


def whole_source():
    return random_sources(1)


@every_model
@pytest.mark.parametrize("dtype, allowed", [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.float16, 1e-2)])
def test_every_step_has_the_logits_of_the_whole_prefix(options, dtype, allowed):
    model, source = random_model(dtype, **options), whole_source()
    exact = copy.deepcopy(model).double()
    with deciding(model), deciding(exact):
        decoder, whole = cached(model, source, SRC_PAD), PrefixDecoder(exact, source, SRC_PAD)
        assert type(decoder) is SmallDecoder
        for _ in range(10):
            ids = torch.randint(TGT_VOCAB, (1,))
            assert relative_error(decoder.step(ids), whole.step(ids)) <= allowed


def test_more_tokens_than_there_is_room_for_at_first_and_not_more_than_positions():
    model, source = random_model(), whole_source()
    assert FIRST_CAPACITY < LONGEST
    with deciding(model):
        decoder, whole = cached(model, source, SRC_PAD), PrefixDecoder(model, source, SRC_PAD)
        for _ in range(LONGEST):
            ids = torch.randint(TGT_VOCAB, (1,))
            logits = decoder.step(ids)
            assert relative_error(logits, whole.step(ids)) <= 1e-12
        with pytest.raises(ValueError, match=f"a prefix of {LONGEST + 1} tokens is longer than seq_len={LONGEST}"):
            decoder.step(ids)


def test_high_scores_do_not_overflow():
    model, source = random_model(torch.float32, spread=40.0), whole_source()
    with deciding(model):
        found = cached(model, source, SRC_PAD).step(torch.tensor([BOS]))
    assert found.isfinite().all()


@pytest.mark.filterwarnings("error")
def test_numbers_that_are_none_are_refused_without_a_warning():
    model = random_model()
    with torch.no_grad():
        model.decoder.layers[0].feed_forward_block.linear_1.weight.fill_(float("nan"))
    with deciding(model):
        assert not cached(model, whole_source(), SRC_PAD).step(torch.tensor([BOS])).isfinite().any()


def test_it_is_taken_for_one_prefix_of_one_short_source_without_padding_and_a_small_exact_model():
    model, one, (padded,) = random_model(), whole_source(), [random_sources(2)[1:]]

    def kind(source=one, K=1, **options):
        return type(cached(model, source, SRC_PAD, K, **options))

    with deciding(model):
        assert kind() is kind(merged=MergedDecoder(model)) is SmallDecoder
        assert {kind(random_sources()), kind(padded), kind(K=2)} == {IncrementalDecoder}
        assert kind(merged=MergedDecoder(model, eight_bits=True)) is IncrementalDecoder
        with mock.patch.object(small, "ALONE", 100):
            assert kind() is IncrementalDecoder
        with mock.patch.object(cached_attention, "SMALL", 0):
            assert kind() is IncrementalDecoder
        with mock.patch.object(modes, "_controller", return_value=None):
            assert kind() is IncrementalDecoder


def test_without_threadpoolctl_the_translation_is_the_same():
    model, source = random_model(ending=1.0), whole_source()
    usual = greedy(model, source, SRC_PAD, BOS, EOS, 20)
    modes._controller.cache_clear()
    try:
        with mock.patch.dict(sys.modules, {"threadpoolctl": None}):
            assert not modes.numpy_can_be_alone()
            assert greedy(model, source, SRC_PAD, BOS, EOS, 20) == usual
    finally:
        modes._controller.cache_clear()


def test_numpy_has_one_thread_while_any_call_decodes_and_its_usual_number_afterwards():
    controller, model = modes._controller(), random_model()
    threads = lambda: {library["num_threads"] for library in controller.info()}  # noqa: E731
    with controller.limit(limits=2):
        with deciding(model):
            with deciding(model):
                assert threads() == {1}
            assert threads() == {1}
        assert threads() == {2}
        with pytest.raises(ZeroDivisionError), deciding(model):
            raise ZeroDivisionError
        assert threads() == {2}


def test_what_numpy_says_of_numbers_is_as_before_afterwards():
    before = np.geterr()
    with deciding(random_model()):
        assert set(np.geterr().values()) == {"ignore"}
    assert np.geterr() == before
