"""What is made in one part alone is found, and said to be there."""

import pytest

from reference_tests.kit.made import CanonicalCandidate
from scratch_transformer.kit.judge.diagnose import diagnose
from scratch_transformer.kit.judge.places import Change, apart, by_side, compatible, merged
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.recipe import RIGHT

SCALE = Change("A1", "not scaled", (("scale", "none"),))
VIEW = Change("A13", "", (("split", "view"),))
USUAL = {"positions": "sinusoidal", "norm_order": "post"}


def made(kind, **entries):
    return CanonicalCandidate(KINDS[kind], recipe=RIGHT.with_(entries))


def parts(**own):
    return tuple((part, tuple(entries.items())) for part, entries in own.items())


# ---- Recipes of parts ----


def test_a_part_has_its_own_values_and_the_others_the_whole_ones():
    recipe = RIGHT.with_({"activation": "gelu", "parts": parts(decoder={"norm_order": "pre"})})
    assert recipe.within("decoder", "layers", "0").norm_order == "pre"
    assert recipe.within("decoder").activation == "gelu"
    assert recipe.within("encoder", "layers") is recipe


def test_merged_changes_stay_in_their_parts():
    in_decoder = Change("A13", "", VIEW.entries, "decoder")
    entries = merged({"norm_order": "pre", "parts": parts(decoder={"final_norm": True})}, [SCALE, in_decoder])
    assert entries == {
        "norm_order": "pre",
        "scale": "none",
        "parts": parts(decoder={"final_norm": True, "split": "view"}),
    }
    assert merged({"scale": "none"}, [VIEW]) == {"scale": "none", "split": "view"}


def test_the_same_entry_may_differ_between_parts_only():
    here, there = (Change("A1", "not scaled", SCALE.entries, part) for part in ("encoder", "decoder"))
    assert compatible([here, there]) and compatible([SCALE, VIEW]) and compatible([here, VIEW])
    assert not compatible([here, here]) and not compatible([SCALE, there]) and not compatible([SCALE, SCALE])


def test_each_of_two_mistakes_in_one_part_or_in_both():
    found = [tuple(change.part for change in changes) for changes in apart("Transformer", (SCALE, VIEW))]
    assert len(found) == len(set(found)) == 8
    assert ("", "") not in found and {("encoder", ""), ("decoder", "encoder")} <= set(found)
    assert apart("FeedForward", (SCALE,)) == [] == apart("FeedForward", (SCALE,) * 4)


def test_of_many_mistakes_one_is_in_one_part():
    many = tuple(Change(id, "", ((id, True),)) for id in "abcd")
    found = [tuple(change.part for change in changes) for changes in apart("Transformer", many)]
    assert len(found) == 8 and found[:3] == [("encoder", "", "", ""), ("decoder", "", "", ""), ("", "encoder", "", "")]


def test_sides_differ_by_the_last_norm_that_is_there_or_by_the_order():
    both, none = by_side([("", USUAL)], ()), by_side([("", USUAL)], ("encoder.norm.weight", "decoder.norm.weight"))
    orders = [dict(entries["parts"]) for _, entries in both]
    assert orders == [dict(entries["parts"]) for _, entries in none]
    assert [own["encoder"] for own in orders] == [(("norm_order", "pre"),), (("norm_order", "post"),)]
    one = [dict(entries["parts"]) for _, entries in by_side([("", USUAL)], ("decoder.norm.weight",))]
    assert len(one) == 3
    assert all(dict(own["encoder"])["final_norm"] and not dict(own["decoder"])["final_norm"] for own in one)


# ---- Diagnoses ----


@pytest.mark.long
@pytest.mark.parametrize(
    "own, said",
    [
        (
            {"encoder": {"norm_order": "pre"}, "decoder": {"norm_order": "post"}},
            "encoder: pre-norm, decoder: post-norm",
        ),
        (
            {"encoder": {"final_norm": True}, "decoder": {"final_norm": False}},
            "encoder: final norm, decoder: no final norm",
        ),
    ],
)
def test_sides_of_two_right_kinds_are_no_mistake(own, said):
    candidate = made("Transformer", parts=parts(**own))
    if "final_norm" in own["encoder"]:
        candidate.missing = frozenset({"decoder.norm.weight", "decoder.norm.bias"})
    diagnosis = diagnose(candidate)
    assert diagnosis.verdict in ("matches the builtin", "matches the paper, not the builtin")
    assert diagnosis.error < 1e-12 and diagnosis.design.endswith(said)
    assert not {f.severity for f in diagnosis.findings} & {"mistake"}


@pytest.mark.long
@pytest.mark.parametrize(
    "kind, part, words",
    [("Transformer", "decoder", "decoder"), ("DecoderLayer", "cross_attn", "attention to the encoder")],
)
def test_a_mistake_in_one_part_is_said_to_be_there(kind, part, words):
    diagnosis = diagnose(made(kind, parts=parts(**{part: {"split": "view"}})), ["A13"])
    mistakes = [f for f in diagnosis.findings if f.severity == "mistake"]
    assert diagnosis.verdict == "mistake" and [f.mistake.id for f in mistakes] == ["A13"]
    assert mistakes[0].part == part and mistakes[0].words == f"in the {words} alone"
