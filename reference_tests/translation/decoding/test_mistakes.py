"""The mistakes that decoders make, put into ours: the checks notice each."""

import contextlib
from types import SimpleNamespace
from unittest import mock

import pytest
import torch

from reference_tests.translation.decoding.examples import (
    BOS,
    EOS,
    SRC_PAD,
    beam_search_differs,
    random_model,
    random_sources,
    relative_error,
)
from scratch_transformer.translation.decoding import IncrementalDecoder, PrefixDecoder, beam, cached_attention, greedy
from scratch_transformer.translation.decoding.modes import deciding


class PositionsNotAdvanced(IncrementalDecoder):
    def __init__(self, *args):
        super().__init__(*args)
        self.positions = self.positions[:1].expand_as(self.positions)


class CacheNotReordered(IncrementalDecoder):
    def reorder(self, rows):
        pass


def cached_steps_differ(decoder=IncrementalDecoder):
    model, sources = random_model(), random_sources()
    with deciding(model):
        cached, whole = decoder(model, sources, SRC_PAD), PrefixDecoder(model, sources, SRC_PAD)
        ids = torch.randint(9, (6, len(sources)))
        errors = [relative_error(cached.step(row), whole.step(row)) for row in ids]
    return f"differs by {max(errors):.1e}" if max(errors) > 1e-12 else ""


def beam_differs(decoder=None):
    return beam_search_differs(random_model(tgt_vocab_size=4, spread=0.7), random_sources(2), 4, 0.6, decoder)


def raw_logits(logits, dim):
    return logits


def drop_finished(self, best, origin, ends):
    pass


def keep_growing(self, best, origin, ends):
    keep_finished(self, best, origin, ends)
    ends.zero_()  # they stay in the beam


keep_finished = beam._Beams._keep_finished
MISTAKES = {
    "P7 positions not advanced": (cached_steps_differ, {"decoder": PositionsNotAdvanced}, None),
    "D1 beam sums raw logits": (
        beam_differs,
        {},
        mock.patch.object(beam, "functional", SimpleNamespace(log_softmax=raw_logits)),
    ),
    "D2 finished dropped": (beam_differs, {}, mock.patch.object(beam._Beams, "_keep_finished", drop_finished)),
    "D3 finished keep growing": (beam_differs, {}, mock.patch.object(beam._Beams, "_keep_finished", keep_growing)),
    "cache not reordered": (beam_differs, {"decoder": CacheNotReordered}, None),
    "newest token not attended to": (
        cached_steps_differ,
        {},
        mock.patch.object(cached_attention.SelfAttention, "__call__", lambda self, x, u: x),
    ),
}


@pytest.mark.parametrize("check, options, patch", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_noticed(check, options, patch):
    with patch or contextlib.nullcontext():
        assert check(**options)


@pytest.mark.parametrize("check", [cached_steps_differ, beam_differs])
def test_the_real_code_passes(check):
    assert check() == ""


def test_positions_that_stand_still_change_what_greedy_finds():
    ends = (SRC_PAD, BOS, EOS, 20)
    model, sources = random_model(), random_sources(8)
    assert greedy(model, sources, *ends, decoder=PositionsNotAdvanced) != greedy(model, sources, *ends)
