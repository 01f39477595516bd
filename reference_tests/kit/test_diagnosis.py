"""Every mistake of the catalogue is named from the reference with this mistake in it; what is right raises no alarm."""

import os

import pytest
import torch

from reference_tests.kit.learners.checked import MORE, time_to_look
from reference_tests.kit.made import CanonicalCandidate, variant
from scratch_transformer.kit.canonical import activation, core
from scratch_transformer.kit.judge import search
from scratch_transformer.kit.judge.changes import changes_of
from scratch_transformer.kit.judge.designs import shown_by
from scratch_transformer.kit.judge.diagnose import diagnose
from scratch_transformer.kit.judge.session import EXACT
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.decoding import AT_THE_BEGINNING
from scratch_transformer.kit.recipe import RIGHT
from scratch_transformer.kit.resolve.library import supplied

COMPOSITES = ("Encoder", "Decoder", "TokenEncoder", "TokenDecoder", "Transformer", "DecoderOnly")
SMOOTHED = {"label_smoothing": 0.1}
SHARED = {"d_model": 24, "num_heads": 6, "num_kv_heads": 3}
WRAPPED = {"wrapped": "post"}

# What a kind's probes cannot tell from what is right, or from another mistake, and why.
NOT_SEEN = {
    ("LN3", "1e-5"): "it is the default",
    ("A5", "sees the future only"): "of a mask alone, it is the other convention",
    ("A5", "sees itself and the future"): "of a mask alone, it is A6 in the other convention",
    ("A6", "hides the diagonal"): "of a mask alone, it is A5 in the other convention",
}
NOT_FELT = "at least eps"
"""A variance that is clamped at ε: no token within a layer has so little."""


def cases(kinds):
    for name in kinds:
        kind = KINDS[name]
        for change in changes_of(kind):
            is_mask = name in ("CausalMask", "TargetMask")
            if name != "LayerNorm" and ("variance", NOT_FELT) in change.entries:
                continue
            if (name, change.entries) == ("Adam", (("decay_rate", "alone"),)):
                continue  # its decay is part of the gradient, and has no rate of its own
            if (change.id, change.form) == ("LN3", "1e-5") or (is_mask and (change.id, change.form) in NOT_SEEN):
                continue
            yield pytest.param(name, change, id=f"{name}-{change.id}-{change.form}")


def first_kinds():
    """Each form of a mistake in the first kind that has it."""
    seen = set()
    for case in cases(KINDS):
        _, change = case.values
        if (change.id, change.form) not in seen:
            seen.add((change.id, change.form))
            yield case


def of_decoders():
    """What only a decoder's layer can have."""
    own = KINDS["DecoderLayer"].ids - KINDS["EncoderLayer"].ids
    return [case for case in cases(["DecoderLayer"]) if case.values[1].id in own]


def changed(name, change):
    is_inside = (name.endswith("Attention") and change.id == "B23") or (
        name == "FeedForward" and change.id.startswith("LN")
    )
    more = WRAPPED if is_inside else {}
    settings = {"T3": SMOOTHED, "T4": SMOOTHED, "G3": SHARED}.get(change.id, {})
    settings = {"knows_eos": False} if change.form == AT_THE_BEGINNING else settings  # else it is as if it had no end
    return variant(name, settings, **{**more, **dict(change.entries)})


@pytest.mark.parametrize("name, change", list(first_kinds()))
def test_a_mistake_is_named_by_its_own_variant(name, change):
    diagnosis = diagnose(changed(name, change))
    named = {finding.mistake.id: finding.form for finding in diagnosis.findings if finding.severity != "note"}
    assert change.id in diagnosis.ids, diagnosis
    # -1e9 is a form of A11, and fails in float16; a whole model without final norms is as in the paper
    assert set(named) - {change.id} <= {"A8", *(["B4"] if name == "Transformer" else [])}, diagnosis
    assert diagnosis.alternatives == ()
    form = next(f.form for f in diagnosis.findings if f.mistake.id == change.id)
    alike = ("LN3", "A4", "A27")  # 1e-9 is 0; an eps that was fitted has its own form; one only stops more often
    assert form == change.form or change.id in alike


def mostly_long(cases):
    """All of them marked as long, but for every fifth."""
    return [
        case if index % 5 == 0 else pytest.param(*case.values, id=case.id, marks=pytest.mark.long)
        for index, case in enumerate(cases)
    ]


@pytest.mark.parametrize(
    "name, change",
    mostly_long([*cases(["ResidualConnection"]), *list(cases(["EncoderLayer"]))[::3], *of_decoders()]),
)
def test_a_mistake_is_named_inside_a_layer(name, change):
    diagnosis = diagnose(changed(name, change))
    assert change.id in diagnosis.ids, diagnosis
    assert diagnosis.alternatives == ()


@pytest.mark.parametrize(
    "name, id",
    [
        *[("Transformer", id) for id in ("LN1", "A1", "A22", "A25", "P2", "B2", "B18", "A27")],
        *[("DecoderOnly", id) for id in ("A6", "A13", "B3", "P3")],
        *[("TokenEncoder", id) for id in ("A4", "B19")],
        *[("TokenDecoder", id) for id in ("A24", "B20")],
    ],
)
@pytest.mark.long
def test_a_mistake_is_named_inside_a_model(name, id):
    change = next(change for change in changes_of(KINDS[name]) if change.id == id)
    diagnosis = diagnose(changed(name, change))
    assert id in diagnosis.ids, diagnosis


def some(designs):
    """About half a dozen of them, from the first to the last; in `tox -e kit` ten times as many."""
    designs, most = list(designs), 60 if "WHOLE_TIME" in os.environ else 5
    step = len(designs) // most | 1  # odd: of two ways beside each other, both
    return designs if len(designs) <= most else designs[::step]


@pytest.mark.parametrize("name", KINDS)
def test_what_is_right_raises_no_alarm(name):
    kind = KINDS[name]
    notes = {"B1", "B4", "B8", "E2", "P13"} | (
        {"A11"} if name.endswith("Mask") else set()
    )  # rows that hide all are noted
    for design, changes in some(kind.designs.items()):
        diagnosis = diagnose(CanonicalCandidate(kind, SMOOTHED if "Loss" in name else {}, RIGHT.with_(changes)))
        assert diagnosis.verdict not in ("mistake", "unknown mismatch", "crashed"), (design, diagnosis)
        assert {finding.mistake.id for finding in diagnosis.findings} <= notes, (design, diagnosis)
        assert diagnosis.error <= EXACT


@pytest.mark.parametrize("name", KINDS)
def test_the_reference_is_the_builtin(name):
    """The canonical module agrees with torch.nn's, of thousands of designs in hundreds, on every probe."""
    kind = KINDS[name]
    if kind.oracle is None:
        assert kind.builtin == ""
        return
    settings = kind.complete(SMOOTHED if "Loss" in name else {})
    for changes in list(kind.designs.values())[:: 31 if len(kind.designs) > 40 else 1]:
        recipe = RIGHT.with_(changes)
        module = kind.reference(settings, recipe)
        for probe in kind.probes(settings, 1):
            expected = kind.oracle(settings, recipe, module.state_dict(), probe.inputs)
            actual = module(**probe.inputs)
            valid = torch.ones_like(expected, dtype=torch.bool) if probe.valid is None else probe.valid
            torch.testing.assert_close(actual * valid, expected * valid, rtol=1e-12, atol=1e-12)


# ---- Several mistakes at once ----

PAIRS = [
    ("LayerNorm", {"ddof": 1, "eps_inside": False}, {"LN1", "LN2"}),
    ("LayerNorm", {"ddof": 1, "eps_inside": False, "eps": 1e-6}, {"LN1", "LN2", "LN3"}),
    ("LayerNorm", {"eps_inside": False, "eps": 3e-4}, {"LN2", "LN3"}),
    ("ScaledDotProductAttention", {"scale": "1/d_k", "masking": "after softmax"}, {"A1", "A3"}),
    ("MultiheadAttention", {"scale": "none", "split": "view"}, {"A1", "A13"}),
    ("MultiheadAttention", {"swapped": "key and value", "merge": "view"}, {"A21", "A23"}),
    ("PositionalEncoding", {"angles": "doubled", "layout": "concatenated"}, {"P2", "P3"}),
    ("ResidualConnection", {"norm_order": "norm on the output", "ddof": 1, "eps_inside": False}, {"B3", "LN1", "LN2"}),
    ("EncoderLayer", {"ddof": 1, "eps_inside": False, "eps": 1e-6}, {"LN1", "LN2", "LN3"}),
    ("DecoderLayer", {"memory_mask": "none", "scale": "none"}, {"A22", "A1"}),
    ("Loss", {"loss_input": "softmax twice", "counted": "everything"}, {"T2", "T4"}),
]


@pytest.mark.long
@pytest.mark.parametrize("name, changes, ids", PAIRS, ids=[f"{name}-{'+'.join(sorted(ids))}" for name, _, ids in PAIRS])
def test_several_mistakes_are_named_together(name, changes, ids):
    parts = ["A1"] if name == "DecoderLayer" else []  # its attention was seen by itself
    if name == "ResidualConnection":  # three at once are found where the norm was seen by itself
        parts = [diagnose(variant("LayerNorm", ddof=1, eps_inside=False))]
    with time_to_look(MORE):
        diagnosis = diagnose(variant(name, **changes), parts)
    assert {f.mistake.id for f in diagnosis.findings if f.severity != "note"} == ids, diagnosis
    assert diagnosis.verdict == "mistake"


@pytest.mark.long
def test_a_whole_model_with_the_mistakes_of_its_parts():
    norm = diagnose(variant("LayerNorm", ddof=1, eps_inside=False, eps=1e-6))
    positions = diagnose(variant("PositionalEncoding", layout="concatenated"))
    changes = {"ddof": 1, "eps_inside": False, "eps": 1e-6, "layout": "concatenated", "norm_order": "pre"}
    diagnosis = diagnose(variant("Transformer", **changes, final_norm=True), [norm, positions])
    assert {"LN1", "LN2", "LN3", "P3"} <= set(diagnosis.ids)
    by_ids = diagnose(variant("EncoderLayer", **changes), ["LN1", "LN2", "LN3"])
    assert {"LN1", "LN2", "LN3"} <= set(by_ids.ids)


def test_a_scale_that_nobody_has_thought_of_is_fitted():
    diagnosis = diagnose(variant("MultiheadAttention", scale="0.123"))
    assert diagnosis.ids == ("A1",)
    assert "0.123" in diagnosis.findings[0].evidence


def test_no_guess_for_what_no_mistake_explains(monkeypatch):
    monkeypatch.setattr(search, "SECONDS", 0.5)
    candidate = CanonicalCandidate(KINDS["EncoderLayer"])
    original = candidate.module.feed_forward.forward
    candidate.module.feed_forward.forward = lambda x: original(x) * 1.01
    diagnosis = diagnose(candidate)
    assert diagnosis.verdict == "unknown mismatch"
    assert diagnosis.findings == ()
    assert "feed_forward" in diagnosis.divergence


@pytest.mark.parametrize(
    "kind, table, name",
    [("SelfAttention", core.WEIGHINGS, "softmax"), ("FeedForward", activation.ACTIVATIONS, "relu")],
)
def test_torch_has_the_last_word(kind, table, name, monkeypatch):
    """A mistake in the kit's own reference, which shares it with its candidate here."""
    right = table[name]
    monkeypatch.setitem(table, name, lambda *given: right(*given) * 1.01)
    diagnosis = diagnose(CanonicalCandidate(KINDS[kind]))
    assert diagnosis.verdict == "unknown mismatch"
    assert diagnosis.error > 1e-3


def test_single_precision_inside_is_no_mismatch():
    candidate = CanonicalCandidate(KINDS["FeedForward"])
    original = candidate.module.forward
    candidate.module.forward = lambda x: original(x.float().double())
    diagnosis = diagnose(candidate)
    assert diagnosis.verdict == "matches the builtin"
    assert any("float32" in note for note in diagnosis.notes)


def test_the_evidence_has_the_numbers_of_the_catalogue():
    unbiased = diagnose(variant("LayerNorm", {"d_model": 64}, ddof=1))
    assert "0.992157" in unbiased.findings[0].evidence
    scaled = diagnose(variant("MultiheadAttention", scale="none"))
    assert "multiplied by 1;" in scaled.findings[0].evidence


def test_parts_tell_the_designs():
    gelu = diagnose(variant("FeedForward", activation="gelu"))
    layer = diagnose(variant("EncoderLayer", norm_order="pre", activation="gelu"))
    assert shown_by([gelu]) == {"activation": "gelu"}
    of_layer = {"norm_order": "pre", "activation": "gelu", "norm_kind": "norm", "rotary": "none"}
    assert shown_by([layer]) == of_layer


def test_every_mistake_of_a_kind_is_in_the_catalogue():
    assert all(kind.ids <= MISTAKES.keys() for kind in KINDS.values())
    somewhere = set().union(*(kind.ids for kind in KINDS.values()))
    in_scripts = {f"T{n}" for n in range(14, 26)}  # seen in how a script calls things
    assert MISTAKES.keys() - somewhere == in_scripts | {id for id, mistake in MISTAKES.items() if mistake.explain_only}


@pytest.mark.long
def test_what_a_mask_means_is_said_by_the_layer_that_the_reference_stands_in_for():
    candidate = variant("DecoderOnly", causal="future")
    assert diagnose(candidate).verdict == "mistake"
    candidate.replaced = ["Block"]
    lent = diagnose(candidate)
    assert [(finding.mistake.id, finding.severity) for finding in lent.findings] == [("A5", "note")]
    assert lent.verdict == "matches the builtin"
    candidate = variant("DecoderOnly", causal="one ahead")
    candidate.replaced = ["Block"]
    assert diagnose(candidate).verdict == "mistake"


@pytest.mark.long
@pytest.mark.parametrize("lent, severity", [("SelfAttention", "note"), ("FeedForward", "mistake")])
def test_whether_the_future_is_hidden_is_said_by_the_attention_that_the_reference_stands_in_for(lent, severity):
    candidate = variant("DecoderOnly", causal="ignored")
    candidate.is_causal_by_name = True
    candidate.replaced, candidate.module.lent = ["Part"], supplied.instance_of(KINDS[lent])
    found = [finding.severity for finding in diagnose(candidate).findings if finding.mistake.id == "A25"]
    assert found == [severity]
