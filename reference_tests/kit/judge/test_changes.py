"""The changes of a recipe that are tried: those of a kind, of its parts, and those that weights show."""

import functools
from dataclasses import replace
from types import SimpleNamespace

import pytest

from scratch_transformer.kit.judge import changes
from scratch_transformer.kit.judge.changes import changes_of, evident, of_parts, on_their_sides, subsets
from scratch_transformer.kit.judge.places import Change, compatible
from scratch_transformer.kit.judge.variants import Variants
from scratch_transformer.kit.kind import Diagnosis, Finding
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.recipe import RIGHT

DDOF, EPS = Change("LN1", "", (("ddof", 1),)), Change("LN2", "", (("eps_inside", False),))
TINY = Change("LN3", "1e-6", (("eps", 1e-6),))
TINIER = Change("LN3", "1e-12", (("eps", 1e-12),))


def test_subsets_are_all_or_the_largest_and_the_single_ones():
    assert ["".join(subset) for subset in subsets("abc")] == ["abc", "ab", "ac", "bc", "a", "b", "c"]
    assert [len(subset) for subset in subsets("abcd")] == [4] + [3] * 4 + [2] * 6 + [1] * 4
    assert [len(subset) for subset in subsets("abcde")] == [5] + [4] * 5 + [1] * 5
    assert subsets("") == []


def test_only_different_entries_go_together():
    assert compatible((DDOF, EPS))
    assert not compatible((TINY, TINIER))


def test_one_form_of_a_mistake_only_where_a_kind_says_so():
    kind = SimpleNamespace(mistakes=("LN3:1e-6", "A25:", "LN7"))
    assert [(c.id, c.form) for c in changes_of(kind)] == [
        ("LN3", "1e-6"),
        *(("A25", form) for form in MISTAKES["A25"].changes if form == ""),
        *(("LN7", form) for form in MISTAKES["LN7"].changes),
    ]
    assert changes_of(kind)[0].entries == (("eps", 1e-6),)


def finding(id, form="", **entries):
    return Finding(MISTAKES[id], "", form, entries)


def diagnosis(*findings, kind="", **recipe):
    return Diagnosis(kind, "mistake", 1.0, "", findings, recipe=RIGHT.with_(recipe))


def test_a_mistake_that_one_side_of_a_model_has_is_looked_for_there():
    shared, both = Change("B15", "", (("norms", "shared"),)), Change("A1", "", (("scale", 1.0),))
    encoder = diagnosis(finding("B15"), finding("A1"), kind="EncoderLayer")
    decoder = diagnosis(finding("A1"), kind="TokenDecoder")
    sides = functools.partial(on_their_sides, KINDS["Transformer"], changes=(both, shared))
    assert sides([encoder, decoder]) == (both, replace(shared, part="encoder"))
    assert sides([encoder]) == () == sides([encoder, replace(decoder, findings=encoder.findings)])
    assert on_their_sides(KINDS["TokenDecoder"], [encoder, decoder], (both, shared)) == ()


def test_a_parts_mistake_is_what_its_recipe_has():
    kind = KINDS["LayerNorm"]
    assert of_parts(kind, [diagnosis(finding("LN3", "own"), eps=0.25)]) == [Change("LN3", "own", (("eps", 0.25),))]
    assert of_parts(kind, [diagnosis(finding("LN1"), ddof=1, eps=0.25)]) == [DDOF]


def test_what_another_of_its_mistakes_has_changed_is_none_of_it():
    """One head of all features may have the scale of several: that is so of a form that this part's is not."""
    kind = KINDS["EncoderLayer"]
    part = diagnosis(finding("A1", "divided by √d_model"), finding("A13"), scale="1/sqrt(d_model)", split="view")
    assert [change.entries for change in of_parts(kind, [part])] == [
        (("scale", "1/sqrt(d_model)"),), (("split", "view"),)
    ]  # fmt: skip


def test_without_it_what_the_finding_says():
    kind = KINDS["LayerNorm"]
    assert of_parts(kind, [diagnosis(finding("LN1", ddof=1))]) == [DDOF]
    assert of_parts(kind, [diagnosis(finding("LN1"))]) == []


def test_each_once_and_none_that_the_whole_cannot_have():
    kind = KINDS["LayerNorm"]
    parts = [diagnosis(finding("LN1"), finding("A1", scale="none"), ddof=1), diagnosis(finding("LN1"), ddof=2)]
    assert of_parts(kind, parts) == [DDOF]


def test_all_mistakes_of_all_parts():
    parts = [
        diagnosis(finding("LN1"), finding("LN2"), ddof=1, eps_inside=False),
        diagnosis(finding("LN3", "own"), eps=0.25),
    ]
    found = of_parts(KINDS["LayerNorm"], parts)
    assert found == [DDOF, EPS, Change("LN3", "own", (("eps", 0.25),))]


def test_what_a_right_design_has_too_is_no_change():
    kind = SimpleNamespace(designs={"": {}, "small": {"eps": 0.25}}, ids=frozenset({"LN3"}))
    assert of_parts(kind, [diagnosis(finding("LN3", "own"), eps=0.25)]) == []
    assert of_parts(kind, [diagnosis(finding("LN3", "own"), eps=0.5)]) == [Change("LN3", "own", (("eps", 0.5),))]


def test_what_a_right_design_decides_is_no_mistake():
    kind = KINDS["EncoderLayer"]
    name, value = next(
        (n, v) for entries in kind.designs.values() for n, v in entries.items() if v != getattr(RIGHT, n)
    )
    assert changes._is_design(kind, name, value)
    assert changes._is_design(kind, "fill", "-1e9") and not changes._is_design(kind, "fill", "1e-9")
    assert not changes._is_design(kind, "ddof", 1)


@pytest.mark.parametrize(
    "missing, known, expected",
    [
        (["norm2.weight", "norm2.bias"], [], ["B15"]),
        (["norm2.weight", "norm2.bias"], [Change("B15", "", (("norms", "shared"),))], []),
        (["norm1.weight", "norm2.weight"], [], []),  # it has no norm at all, as far as can be seen
        (["norm2.bias"], [], []),
        ([], [], []),
    ],
)
def test_a_mistake_that_parameters_show(missing, known, expected):
    kind = KINDS["EncoderLayer"]
    variants = Variants(kind, kind.complete({}))
    assert [change.id for change in evident(variants, missing, known)] == expected


@pytest.mark.parametrize("missing, form", [
    (("norm2", "norm3"), ""), (("norm3",), "the first sublayer's for the third too"),
    (("norm3",), "the second sublayer's for the third too"),
])  # fmt: skip
def test_the_norms_that_are_missing_show_which_sublayers_share_one(missing, form):
    """One norm for all three is not also one for two of them: the parts' mistakes are looked for beside it."""
    kind = KINDS["DecoderLayer"]
    lacking = [f"{norm}.{part}" for norm in (*missing, "norm_memory") for part in ("weight", "bias")]
    found = evident(Variants(kind, kind.complete({})), lacking, [])
    assert form in [c.form for c in found] and len(found) == (1 if len(missing) == 2 else 2)
