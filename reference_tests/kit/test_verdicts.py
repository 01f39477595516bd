"""A verdict: what is named as the reason explains the numbers, and weighs the same in a part and in the whole."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from reference_tests.kit.made import CanonicalCandidate, Made, found, variant
from scratch_transformer.kit import check
from scratch_transformer.kit.canonical import attention as canonical
from scratch_transformer.kit.canonical import blocks
from scratch_transformer.kit.judge.changes import changes_of
from scratch_transformer.kit.judge.diagnose import diagnose
from scratch_transformer.kit.judge.evidence import share
from scratch_transformer.kit.kind import Diagnosis, Finding
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.recipe import RIGHT
from scratch_transformer.kit.report import text
from scratch_transformer.kit.report.finding import Named, Result
from scratch_transformer.kit.report.text import errors, explanation, listing
from scratch_transformer.kit.results.elsewhere import unsaid_of

pytestmark = pytest.mark.long

SIZES = {"d_model": 12, "num_heads": 3}
F = nn.functional


class FeedForward(nn.Module):
    """Right, but for what a subclass does."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.linear2(self.dropout(torch.relu(self.linear1(x))))


FEED_FORWARD = {"d_model": 12, "d_ff": 17}


# ---- The reason, or one of them ----


class Random(FeedForward):
    """New numbers in every call."""

    def forward(self, x):
        return super().forward(x) + torch.rand_like(x)


class Hidden(FeedForward):
    """A layer that no optimizer sees, and numbers that nothing explains."""

    def __init__(self, d_model, d_ff):
        super().__init__(d_model, d_ff)
        self.more = [nn.Linear(d_model, d_model)]

    def forward(self, x):
        return super().forward(x) ** 3


class OnlyHidden(Hidden):
    def forward(self, x):
        return FeedForward.forward(self, x)


@pytest.mark.parametrize(
    "cls, verdict, ids, unexplained",
    [
        (FeedForward, "harmless deviation", [], False),
        (OnlyHidden, "mistake", ["B10"], False),
        (Hidden, "mistake", ["B10"], True),
        (Random, "mistake", ["B21"], False),
    ],
)
def test_a_mistake_is_the_reason_only_if_it_explains_the_numbers(cls, verdict, ids, unexplained):
    diagnosis = found("FeedForward", cls, **FEED_FORWARD)
    mistakes = [finding.mistake.id for finding in diagnosis.findings if finding.severity == "mistake"]
    assert (mistakes, diagnosis.unexplained) == (ids, unexplained)
    if ids:
        assert diagnosis.verdict == verdict


def test_what_is_not_explained_is_said():
    result = Result("MyFFN", "f.py:1", "FeedForward", "mistake", 0.5, "torch.nn", unexplained=True, probe="tokens")
    result.mistakes = [Named("B10", "t", "mistake", "d", "e", "v", "f", "s")]
    text = " ".join(explanation(result))
    assert "B10 is named, but its numbers differ from those of torch.nn" in text
    assert "for another reason too" in text
    result.mistakes += [Named("A12", "t", "mistake", "d", "e", "v", "f", "s")]
    assert "B10 and A12 are named, but" in " ".join(explanation(result))


# ---- Severity ----

PARTS = {
    "FeedForward": ("EncoderLayer", "DecoderOnlyLayer"),
    "ResidualConnection": ("EncoderLayer",),
    "SelfAttention": ("EncoderLayer",),
}


@pytest.mark.parametrize("part, whole", [(part, whole) for part, wholes in PARTS.items() for whole in wholes])
def test_a_mistake_weighs_the_same_in_a_part_and_in_the_whole(part, whole):
    """B13 and B14 of one residual connection are of all in a layer; LN3 needs other tokens there, G3 shared heads."""
    shared = [change for change in changes_of(KINDS[part]) if change in changes_of(KINDS[whole])]
    assert len(shared) >= 8
    for change in shared[:: 3 if whole == "EncoderLayer" else 2]:
        if change.id.startswith(("LN", "A8", "A11", "G3")):
            continue
        verdicts = {diagnose(variant(name, {}, **dict(change.entries))).verdict for name in (part, whole)}
        severity = Finding(MISTAKES[change.id], "", change.form).severity
        expected = {"mistake": "mistake", "harmless": "harmless deviation", "note": "matches the builtin"}.get(severity)
        if expected:
            assert verdicts == {expected}, change


def test_another_activation_is_another_design_in_a_layer_too():
    diagnosis = diagnose(variant("EncoderLayer", {}, activation="silu"))
    assert (diagnosis.verdict, diagnosis.ids) == ("matches the builtin", ("B8",))
    assert diagnosis.error < 1e-12


def test_inputs_of_encoder_and_decoder_that_are_swapped_show_in_the_outputs_length():
    """Also where a query may attend to nothing then, whatever blocked scores are filled with."""
    swapped = variant("Transformer", roles="swapped before masks are made", fill="-1e9")
    assert diagnose(swapped, seconds=9).ids[0] == "B25"


def test_a_mask_that_is_ignored_hides_no_queries():
    """Where padding is all that a mask hides, both give the same for every word."""
    candidate = variant("EncoderLayer", masking="ignored", activation_place="at the end")
    candidate.explained = RIGHT.with_({"padding": "queries", "activation_place": "at the end"})
    assert set(diagnose(candidate).ids) == {"A24", "B17"}


class OfTorch(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.norm = nn.RMSNorm(d_model)

    def forward(self, x):
        return self.norm(x)


def test_the_eps_that_pytorchs_rms_norm_has_by_itself_is_no_deviation():
    result = check(OfTorch, "RMSNorm")
    assert (result.verdict, result.ids) == ("matches the builtin", [])
    assert "told no eps" in result.limits[0]


@pytest.mark.parametrize("eps, verdict", [(12.0, "mistake"), (1e-3, "harmless deviation")])
def test_an_eps_that_ordinary_tokens_show_is_a_mistake(eps, verdict):
    diagnosis = diagnose(variant("LayerNorm", eps=eps))
    assert (diagnosis.verdict, diagnosis.ids[0]) == (verdict, "LN3")


def test_a_gate_without_activation_is_no_missing_activation_between_two_maps():
    assert diagnose(variant("LlamaBlock", activation="none")).ids[0] == "G4"


def test_minus_10000_is_harmless():
    diagnosis = diagnose(variant("MultiheadAttention", {}, fill="-1e4"))
    assert (diagnosis.verdict, diagnosis.ids[0]) == ("harmless deviation", "A10")


# ---- Errors ----


def test_the_error_on_ordinary_tokens_stands_beside_that_on_provoking_ones():
    diagnosis = diagnose(variant("LayerNorm", {}, eps_inside=False))
    assert diagnosis.error > 0.5
    assert diagnosis.ordinary < 1e-4
    assert "with ordinary tokens, by 0.000" in diagnosis.findings[0].evidence
    assert diagnose(variant("LayerNorm", {}, ddof=1)).ordinary is None  # it shows on ordinary tokens as well
    assert diagnose(variant("MultiheadAttention", {}, scale="none")).ordinary is None


def test_a_share_of_the_largest_value():
    assert share(0.0433) == "4.3 % of the largest value"
    assert share(2.51) == "2.5 times the largest value"
    assert share(1e-16) == "rounding"


def test_what_is_harmless_stands_behind_the_mistakes():
    part = [
        Named(id, "", severity, "", "", "", "", "")
        for id, severity in (("A14", "harmless"), ("LN1", "mistake"), ("B1", "note"))
    ]
    result = Result("a", "b", verdict="mistake", mistakes=part, inherited=["A1"])
    assert text.named(result) == "mistake: LN1 (A1); A14"
    assert any(line.startswith("; A14 behind") for line in text._legend([result]))
    assert any(line.startswith("(A1) in brackets") for line in text._legend([result]))  # of the table, no others
    assert text.named(Result("a", "b", verdict="harmless deviation", mistakes=part[:1])) == "harmless deviation: A14"


def test_both_errors_in_the_table():
    result = Result("a", "b", error=0.9, ordinary=4e-6)
    assert errors(result) == "4e-06 (9e-01)"
    assert errors(Result("a", "b", error=0.9)) == "9e-01"
    assert Result("a", "b", ordinary=math.inf).document()["ordinary"] is None


# ---- Sizes that make two readings alike ----


@pytest.mark.parametrize("sizes, twins", [((64, 8), ("divided by √d_model",)), ((48, 4), ())])
def test_readings_that_the_sizes_make_alike_are_all_named(sizes, twins):
    settings = {"d_model": sizes[0], "num_heads": sizes[1]}
    candidate = CanonicalCandidate(KINDS["MultiheadAttention"], settings, RIGHT.with_({"scale": "1/d_k"}))
    (finding,) = [finding for finding in diagnose(candidate).findings if finding.mistake.id == "A1"]
    assert (finding.form, finding.twins) == ("divided by d_k", twins)
    said = "divided by d_k, or divided by √d_model: with its sizes these are the same" if twins else "divided by d_k"
    assert finding.words == said


# ---- Causal, for whom? ----


class Attention(nn.Module):
    """Sees everything."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.inner = canonical.SelfAttention({"d_model": d_model, "num_heads": num_heads}, RIGHT)

    def forward(self, x):
        return self.inner(x)


@pytest.mark.parametrize("asked, verdict", [(True, "mistake"), (False, "matches the builtin")])
def test_no_causal_mask_is_a_mistake_where_one_is_expected(asked, verdict):
    candidate = variant("CausalSelfAttention", {}, causal="ignored")
    candidate.is_causal_by_name = asked
    diagnosis = diagnose(candidate)
    assert (diagnosis.verdict, diagnosis.ids) == (verdict, ("A25",))


# ---- Masks that stop it, and that overwrite each other ----


def test_a_mask_that_stops_it_is_a_mistake():
    candidate = variant("SelfAttention")
    candidate.refused = ("mask", AttributeError("no attribute mask_fill"))
    (finding,) = diagnose(candidate).findings
    assert finding.mistake.id == "A31"
    assert "AttributeError: no attribute mask_fill" in finding.evidence


@pytest.mark.parametrize(
    "entry, form",
    [("padding", "the padding is lost"), ("causal", "the causal mask is lost"), (None, None)],
)
def test_of_two_masks_one_overwrites_the_other(entry, form):
    lost = {"padding": "lost beside causal", "causal": "lost beside padding"}
    other = variant("MultiheadAttention", {}, **({entry: lost[entry]} if entry else {}))
    candidate = variant("MultiheadAttention")

    def apart(**inputs):
        other.module.load_state_dict(candidate.module.state_dict())
        return [other(**inputs)]

    candidate.apart = apart
    diagnosis = diagnose(candidate)
    assert [finding.form for finding in diagnosis.findings] == ([form] if form else [])


# ---- When weights are made ----


class MakesLayers(FeedForward):
    def forward(self, x):
        return nn.Linear(17, 12, dtype=x.dtype)(torch.relu(self.linear1(x)))


class MakesNorms(blocks.EncoderLayer):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__({"d_model": d_model, "num_heads": num_heads, "d_ff": d_ff}, RIGHT)

    def connect(self, x, sublayer, number, **others):
        return super().connect(nn.LayerNorm(12, dtype=x.dtype)(x) * 0 + x, sublayer, number, **others)


class LeavesEmpty(FeedForward):
    def __init__(self, d_model, d_ff):
        super().__init__(d_model, d_ff)
        self.linear1.bias = nn.Parameter(torch.empty(d_ff))


class FillsEmpty(LeavesEmpty):
    def __init__(self, d_model, d_ff):
        super().__init__(d_model, d_ff)
        nn.init.zeros_(self.linear1.bias)


class IsGivenAPart(FeedForward):
    """What is built again may be given a part, as its mask, that leaves weights empty."""

    are_built = 0

    def __init__(self, d_model, d_ff):
        super().__init__(d_model, d_ff)
        IsGivenAPart.are_built += 1
        self.mask = True if IsGivenAPart.are_built == 1 else LeavesEmpty(d_model, d_ff)


@pytest.mark.parametrize(
    "cls, ids", [(MakesLayers, ["B21"]), (LeavesEmpty, ["B22"]), (FillsEmpty, []), (IsGivenAPart, [])]
)
def test_weights_that_are_made_anew_or_left_empty(cls, ids):
    findings = found("FeedForward", cls, **FEED_FORWARD).findings
    assert [finding.mistake.id for finding in findings if finding.severity == "mistake"] == ids
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_norm_that_is_made_in_forward():
    diagnosis = found("EncoderLayer", MakesNorms, **SIZES, d_ff=17)
    (finding,) = [finding for finding in diagnosis.findings if finding.mistake.id == "B21"]
    said, _, line = finding.evidence.partition(" It does so at: ")
    assert (said, diagnosis.unexplained) == ("Every call makes a new LayerNorm, which is never trained.", False)
    assert "nn.LayerNorm(12" in line and finding.fix.startswith("self.norm = nn.LayerNorm(…) in __init__")


class Masked(canonical.Attention):
    """Causal by a mask of its own."""

    def __init__(self, d_model, num_heads):
        super().__init__({"d_model": d_model, "num_heads": num_heads}, RIGHT)
        self.mask = torch.ones(50, 50).tril().bool()

    def forward(self, x):
        T = x.shape[1]
        return super().forward(x, x, x, self.placed(x)[:T, :T])

    def placed(self, x):
        return self.mask


class Moved(Masked):
    def placed(self, x):
        mask = self.mask
        return mask.to(x.device)


class Buffer(Masked):
    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        mask = self.mask
        del self.mask
        self.register_buffer("mask", mask, persistent=False)


class Told(Masked):
    def __init__(self, d_model, num_heads, device="cpu"):
        super().__init__(d_model, num_heads)
        mask = torch.ones(50, 50, device=device).tril()
        self.mask = mask.bool()


class Written(Told):
    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        self.mask = self.mask.to("cpu")


@pytest.mark.parametrize("cls, severities", [(Told, ["harmless"]), (Written, ["mistake"])])
def test_a_mask_that_stays_on_the_device_that_it_is_told_of_is_harmless(cls, severities):
    findings = found("CausalSelfAttention", cls, **SIZES).findings
    assert [f.severity for f in findings if f.mistake.id == "A30"] == severities


@pytest.mark.parametrize("cls, ids", [(Masked, ["A30"]), (Moved, []), (Buffer, [])])
def test_a_mask_that_stays_behind(cls, ids):
    findings = found("CausalSelfAttention", cls, **SIZES).findings
    assert [(f.mistake.id, f.form) for f in findings if f.severity == "mistake"] == [(id, "self.mask") for id in ids]


class Shared(canonical.Attention):
    def __init__(self, d_model, num_heads):
        super().__init__({"d_model": d_model, "num_heads": num_heads}, RIGHT)


class SharedCandidate(Made):
    """Its projection of queries is block-diagonal, as a layout of one small matrix makes it."""

    def load(self, state):
        block = state["w_q.weight"][:4, :4]
        return super().load({**state, "w_q.weight": torch.block_diag(block, block, block)})


def test_one_projection_for_all_heads():
    findings = diagnose(SharedCandidate("MultiheadAttention", Shared, **SIZES)).findings
    assert [f.mistake.id for f in findings if f.severity == "mistake"] == ["A28"]
    assert "4 × 4" in findings[0].evidence and "3 heads" in findings[0].evidence


# ---- Biases ----


def test_bias_false_concerns_projections():
    from scratch_transformer.kit.judge.detectors.settings import _is_projections

    shapes = {"attn.q.weight": (4, 4), "attn.q.bias": (4,), "norm.weight": (4,), "norm.bias": (4,), "ff.weight": (8, 4)}
    assert _is_projections("attn.q.bias", shapes, "EncoderLayer")
    assert not _is_projections("norm.bias", shapes, "EncoderLayer")
    assert not _is_projections("norm.bias", shapes, "MultiheadAttention")
    assert not _is_projections("ff.bias", shapes, "EncoderLayer")


# ---- T5 ----


class Unscaled(canonical.Attention):
    def __init__(self, d_model, num_heads):
        super().__init__({"d_model": d_model, "num_heads": num_heads}, RIGHT.with_({"scale": "none"}))


def test_scores_that_are_not_scaled_are_right_in_t5():
    diagnosis = found("MultiheadAttention", type("T5Attention", (Unscaled,), {}), **SIZES)
    assert (diagnosis.verdict, {f.severity for f in diagnosis.findings}) == ("matches the builtin", {"note"})
    assert found("MultiheadAttention", type("Vit5Attention", (Unscaled,), {}), **SIZES).verdict == "mistake"


# ---- Dropout ----


class Residual(nn.Module):
    def __init__(self, d_model, dropout=0.0, place="sublayer"):
        super().__init__()
        self.norm, self.dropout, self.place = nn.LayerNorm(d_model), nn.Dropout(dropout), place

    def forward(self, x, sublayer):
        if self.place == "norm":
            return self.dropout(self.norm(x + sublayer(x)))
        return self.norm(self.dropout(x + sublayer(x)) if self.place == "sum" else x + self.dropout(sublayer(x)))


class WrittenIn(Residual):
    """Its probability of dropout cannot be chosen."""

    def __init__(self, d_model, place):
        super().__init__(d_model, 0.1, place)


@pytest.mark.parametrize("place", ["sublayer", "sum", "norm"])
@pytest.mark.parametrize("cls, given", [(Residual, {"dropout": 0.0}), (WrittenIn, {})])
def test_dropout_after_the_sum_or_its_norm(cls, given, place):
    findings = found("ResidualConnection", cls, d_model=12, place=place, **given).findings
    assert [f.mistake.id for f in findings if f.severity == "mistake"] == ["B24"] * (place != "sublayer")


# ---- The learner's own line ----


def test_the_line_and_its_fix_are_listed():
    code = ["a = 1", "s = q @ k.T", "b = 2"]
    named = Named("A1", "t", "mistake", "d", "e", "v", "f", "s", code=code, first=4, line=5, put=["s = 0"])
    assert listing(named) == [(" ", 4, "a = 1"), ("-", 5, "s = q @ k.T"), ("+", 0, "s = 0"), (" ", 6, "b = 2")]
    named.put = []
    assert [sign for sign, _, _ in listing(named)] == [" ", ">", " "]


class WrongNorm(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        variance = x.var(-1, keepdim=True)
        return self.weight * centred / torch.sqrt(variance + 1e-5) + self.bias


def test_the_learners_line_is_shown_with_the_fix():
    text = str(check(WrongNorm(12), "LayerNorm"))
    assert "-  " in text and "x.var(-1, keepdim=True)" in text
    assert "variance = x.var(-1, keepdim=True, unbiased=False)" in text


@pytest.mark.parametrize("verdict, unexplained, ids", [
    ("mistake", True, ["P2"]), ("unknown mismatch", False, ["P2"]), ("mistake", False, []),
])  # fmt: skip
def test_what_parts_in_other_files_have_is_said_where_the_whole_is_not_explained(verdict, unexplained, ids):
    part = Diagnosis("PositionalEncoding", "mistake", 1.0, "", (Finding(MISTAKES["P2"], ""),))
    whole = Diagnosis("Transformer", verdict, 1.0, "", (Finding(MISTAKES["B32"], ""),), unexplained=unexplained)
    assert [finding.mistake.id for finding in unsaid_of(whole, [part])] == ids


def test_what_is_harmless_in_a_part_is_said_with_its_mistakes():
    found = (Finding(MISTAKES["LN1"], ""), Finding(MISTAKES["LN3"], ""))
    part = Diagnosis("LayerNorm", "mistake", 1.0, "", found)
    whole = Diagnosis("Encoder", "unknown mismatch", 1.0, "")
    assert [finding.mistake.id for finding in unsaid_of(whole, [part])] == ["LN1", "LN3"]
    assert unsaid_of(whole, [replace(part, verdict="harmless deviation", findings=found[1:])]) == []


@pytest.mark.parametrize("entries, said", [
    ({}, "It agrees with PyTorch's, set up in this way."),
    ({"scale": "none"}, "PyTorch's can be set up in this way, too."),
])  # fmt: skip
def test_a_design_agrees_only_where_nothing_else_differs(entries, said):
    candidate = variant("EncoderLayer", norm_order="pre", **entries)
    (finding,) = (one for one in diagnose(candidate).findings if one.mistake.id == "B1")
    assert finding.evidence == said


@pytest.mark.parametrize("places, heading, shown", [
    (["m.py:5", "m.py:12"], "line", ["5", "12"]),
    (["m.ipynb, cell 13, line 1", "m.ipynb, cell 17, line 2"], "where", ["cell 13, line 1", "cell 17, line 2"]),
    (["m.py:5", "n.py:12"], "where", ["m.py:5", "n.py:12"]),
])  # fmt: skip
def test_in_the_table_one_file_is_not_named_again_and_again(places, heading, shown):
    table = text._table([Result("a", place, verdict="mistake") for place in places], 80)
    assert (table.columns[1].header, [*table.columns[1].cells]) == (heading, shown)
