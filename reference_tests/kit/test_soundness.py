"""What is called right is right: nothing that was not run, not compared or left out ends in "matches"."""

import math
import types

import pytest
import torch
from torch import nn

from reference_tests.kit.learners.mutations import mutations
from reference_tests.kit.made import variant
from scratch_transformer.kit.canonical import attention as canonical
from scratch_transformer.kit.judge.changes import untold
from scratch_transformer.kit.judge.diagnose import diagnose
from scratch_transformer.kit.judge.search import find
from scratch_transformer.kit.judge.session import Session
from scratch_transformer.kit.kind import Diagnosis, Finding
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.attention import TARGET_ONLY
from scratch_transformer.kit.recipe import RIGHT
from scratch_transformer.kit.report.finding import Result
from scratch_transformer.kit.report.text import limits, named
from scratch_transformer.kit.resolve import guess
from scratch_transformer.kit.resolve.library import supplied
from scratch_transformer.kit.resolve.library.library import Library
from scratch_transformer.kit.resolve.trials.choice import _leaves_out_memory
from scratch_transformer.kit.resolve.trials.mask_search import _answers, _unlike
from scratch_transformer.kit.resolve.trials.match import resolve
from scratch_transformer.kit.resolve.trials.outcome import Outcome
from scratch_transformer.kit.results.inherited import of_parts

pytestmark = pytest.mark.long

# ---- Masks ----


class Attention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h = num_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, mask=None):
        q, k, v = (w(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        scores = scores if mask is None else self.masked(scores, mask)
        return self.w_o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

    def masked(self, scores, mask):
        return scores.masked_fill(mask == 0, -1e9)


class NoPadding(Attention):
    """Applies what is the same for all sentences, and ignores everything else."""

    def masked(self, scores, mask):
        return scores if mask.dim() > 2 else super().masked(scores, mask)


class OfTwoAxes(Attention):
    """Takes a mask (T, S), and stops with any other."""

    def masked(self, scores, mask):
        T, S = mask.shape
        return super().masked(scores, mask.view(T, S))


class OfOneRow(Attention):
    """Does something else with a mask that has one row for all queries."""

    def masked(self, scores, mask):
        return super().masked(scores, mask) if mask.shape[-2] > 1 else scores.masked_fill(mask == 0, 0.0)


def judged(cls, kind, seconds=20.0):
    library = Library(KINDS)
    library.add(cls, (kind,))
    library.allow(seconds, True)
    outcome = resolve(cls, KINDS[kind], library)
    return outcome, diagnose(outcome.candidate)


@pytest.mark.parametrize("seconds", [20.0, 0.0])
@pytest.mark.long
def test_a_form_that_can_say_less_is_not_taken_where_one_that_says_more_runs(seconds):
    """Even where the time is over at once."""
    _, diagnosis = judged(NoPadding, "SelfAttention", seconds)
    assert diagnosis.verdict in ("mistake", "unknown mismatch")


@pytest.mark.long
def test_what_takes_a_mask_in_one_form_alone_is_not_right():
    _, diagnosis = judged(OfOneRow, "SelfAttention")
    assert diagnosis.verdict == "unknown mismatch"
    assert any("one row for all queries, it gives other numbers" in limit for limit in diagnosis.limits)


def test_what_ends_before_the_scores_of_words_answers_too():
    expected = torch.Size((2, 7, 11))
    trial = types.SimpleNamespace(expected_shape=lambda inputs: expected)
    probes = [types.SimpleNamespace(inputs={})]
    assert _answers(lambda: torch.ones(2, 7, 12), trial, probes)
    assert not _answers(lambda: torch.ones(2, 12), trial, probes)


@pytest.mark.parametrize("name, is_left_out", [("DecoderLayer", True), ("Mixer", False)])
def test_what_is_called_a_decoders_layer_is_judged_with_its_memory(name, is_left_out):
    made = type(name, (nn.Module,), {})()
    outcomes = {"DecoderLayer": Outcome(KINDS["DecoderLayer"], types.SimpleNamespace(made=made))}
    assert _leaves_out_memory("MaskedLlamaBlock", outcomes, Library(KINDS)) == is_left_out
    assert not _leaves_out_memory("Decoder", outcomes, Library(KINDS))


def test_masks_that_are_handed_on_the_other_way_round_are_named():
    candidate = variant("DecoderLayer")
    candidate.exchanged_masks = lambda: ("tgt_mask", "src_mask")
    diagnosis = diagnose(candidate)
    assert (diagnosis.verdict, diagnosis.ids[:1]) == ("mistake", ("A27",))


def test_where_no_other_form_runs_it_is_said_what_was_not_checked():
    outcome, diagnosis = judged(OfTwoAxes, "SelfAttention")
    assert outcome.score[0] == 0 and diagnosis.verdict in ("matches the builtin", "harmless deviation")
    (limit,) = diagnosis.limits
    assert limit.startswith("Not checked") and "padding" in limit


def test_options_with_one_outcome_are_one():
    ranked = [((3, 0, 0.5), 0), ((3, 0, 0.5), 1), ((3, 0, 0.2), 2), ((3, 1, 0.2), 3)]
    assert _unlike(ranked) == [0, 2, 3]


@pytest.mark.parametrize("kind", ["DecoderLayer", "TokenDecoder", "Transformer"])
def test_no_mask_at_all_is_no_mask_of_the_source(kind):
    diagnosis = diagnose(variant(kind, self_mask="none"))
    assert diagnosis.ids[:1] == ("A25",) and diagnosis.alternatives == (), diagnosis
    assert diagnosis.verdict == "mistake"


def test_a_mask_that_nobody_speaks_of_is_not_ignored_but_absent():
    candidate = variant("Transformer", masking="ignored")
    assert diagnose(candidate).ids[:1] == ("A24",)
    candidate.speaks_of_padding = False
    diagnosis = diagnose(candidate)
    named = [finding.mistake.id for finding in diagnosis.findings if finding.severity == "mistake"]
    assert (named, diagnosis.verdict) == (["A25"], "mistake")


def test_padding_of_the_target_that_nobody_masks_is_harmless():
    """Beside another mistake too. Where padding has a mask of its own, it was overwritten."""
    candidate = variant("Transformer", padding="lost beside causal")
    assert diagnose(candidate).ids[:1] == ("A29",)
    candidate.looks_for_padding = False
    diagnosis = diagnose(candidate)
    found = next(finding for finding in diagnosis.findings if finding.mistake.id == "A24")
    assert (found.form, found.severity) == (TARGET_ONLY, "harmless")
    assert diagnosis.verdict != "mistake"
    both = variant("Transformer", padding="lost beside causal", memory_mask="none")
    both.looks_for_padding = False
    assert set(diagnose(both).ids) >= {"A22", "A24"}


@pytest.mark.parametrize("takes_vectors, severity", [(False, "mistake"), (True, "harmless")])
def test_a_model_of_vectors_may_have_no_padding(takes_vectors, severity):
    candidate = variant("Transformer", padding="ignored")
    assert untold(candidate.kind, candidate) == []
    candidate.speaks_of_padding, candidate.takes_vectors = False, takes_vectors
    assert [(change.id, change.form) for change in untold(candidate.kind, candidate)] == [("A24", "padding is ignored")]
    (finding,) = [finding for finding in diagnose(candidate).findings if finding.mistake.id == "A24"]
    assert finding.severity == severity


# ---- Crashes, and what is random ----


class Stopping(canonical.SelfAttention):
    def forward(self, x, mask=None):
        if mask is not None and not bool(mask[..., -1].all()):
            raise RuntimeError("padding at the end")
        return super().forward(x, mask)


def test_what_stops_with_some_masks_is_not_right():
    candidate = variant("SelfAttention")
    settings = candidate.settings
    candidate.module = Stopping({**settings}, RIGHT).double().eval()
    diagnosis = diagnose(candidate)
    assert diagnosis.verdict == "crashed"
    assert any("padding at the end" in limit for limit in diagnosis.limits)


def test_nothing_is_searched_for_what_is_random():
    candidate = variant("FeedForward")
    inner = candidate.module.forward
    candidate.module.forward = lambda x: inner(x) + torch.rand_like(x)
    session = Session(candidate)
    assert session.is_random and find(session).tried == 0
    assert not Session(variant("FeedForward")).is_random


# ---- Parts and wholes ----


def test_keys_and_values_that_are_given_apart_are_judged_apart():
    def attention(self, q, k, v, mask=None): ...

    def crossed(self, x, memory, mask=None): ...

    def kinds(forward):
        return guess.kinds_of(
            "MultiHeadAttention", type("MultiHeadAttention", (nn.Module,), {"forward": forward}), KINDS
        )

    assert "CrossAttention" not in kinds(attention)
    assert "CrossAttention" in kinds(crossed)


def test_a_part_that_works_by_itself_is_not_replaced_in_the_whole_that_calls_it():
    class Part(nn.Module):
        def forward(self, x):
            return x @ torch.ones(99, 1)

    class Whole(nn.Module):
        def forward(self, x):
            return Part()(x)

    library = Library(KINDS)
    library.add(Part, ("FeedForward",))
    with pytest.raises(RuntimeError) as raised:
        Whole()(torch.ones(2, 3))
    assert library.at_fault(raised.value, Whole)[0] == "Part"
    assert supplied.culprit(raised.value, Whole, {}) is None
    library.resolved[Part] = types.SimpleNamespace(limits=[])
    assert library.at_fault(raised.value, Whole) is None
    library.resolved[Part].limits.append("something in it was replaced")
    assert library.at_fault(raised.value, Whole)[0] == "Part"


def test_a_whole_has_the_mistakes_of_its_parts_that_only_training_shows():
    def diagnosed(verdict, *ids):
        findings = tuple(Finding(MISTAKES[id], "") for id in ids)
        return Diagnosis("EncoderLayer", verdict, 0.0, "", findings)

    part = diagnosed("mistake", "B24", "A21", "A18")
    assert of_parts(diagnosed("matches the builtin"), [part]) == ["B24"]
    assert of_parts(diagnosed("matches the builtin", "B24"), [part]) == []
    assert of_parts(diagnosed("unknown mismatch"), [part]) == ["B24", "A21"]


# ---- Words ----


def test_a_verdict_names_the_parts_that_it_is_not_about():
    result = Result("A", "a.py:1", verdict="matches the builtin", replaced=["Norm"], limits=["Its Norm stops."])
    assert named(result) == "matches the builtin, with the reference's Norm"
    assert limits([result, Result("B", "a.py:9", limits=["Its Norm stops."])]) == {"Its Norm stops.": ["A", "B"]}


# ---- One change at a time ----


def test_mutations_of_a_function():
    text = "def f(x, mask, y=1):\n    '''Text.'''\n    if mask is None:\n        return x + y\n"
    text += "    return g(x, mask, dim=-1)\n"
    found = {(m.kind, m.words) for m in mutations(text)}
    assert {
        ("comparison", "mask is None -> mask is not None"),
        ("operator", "x + y -> x - y"),
        ("mask", "mask -> None"),
        ("arguments", "g(x, mask, dim=-1) -> g(mask, x, dim=-1)"),
        ("arguments", "g(x, mask, dim=-1) -> g(x, mask)"),
        ("constant", "1 -> 2"),
        ("name", "x -> y"),
    } <= found
    assert not any("Text" in words for _, words in found)
    assert all(m.text != text and compile(m.text, "f", "exec") for m in mutations(text))
