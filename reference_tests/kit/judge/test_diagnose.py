"""From explanations to a diagnosis: what is named, how much it weighs, and what is said of what was not seen."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from reference_tests.kit.made import Made, found, variant
from scratch_transformer.kit.judge import diagnose as judged
from scratch_transformer.kit.judge.changes import changes_of
from scratch_transformer.kit.judge.diagnose import diagnose
from scratch_transformer.kit.judge.search import Change, Hypothesis, Match
from scratch_transformer.kit.judge.session import EXACT, ROUNDED, Session
from scratch_transformer.kit.kind import Finding, Probe
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.attention import NOT_ASKED, TARGET_ONLY
from scratch_transformer.kit.recipe import RIGHT

OF_SEVERITY = {}
for mistake in MISTAKES.values():
    OF_SEVERITY.setdefault(mistake.severity, Finding(mistake, ""))
RIGHT_ONE = Hypothesis("")


def session(stops=()):
    return SimpleNamespace(stops=list(stops))


# ---- The verdict ----


@pytest.mark.parametrize(
    "severities, best, error, stops, verdict",
    [
        ((), RIGHT_ONE, 0.0, (), "matches the builtin"),
        ((), RIGHT_ONE, ROUNDED, (), "matches the builtin"),
        ((), RIGHT_ONE, 1.01 * ROUNDED, (), "unknown mismatch"),
        ((), None, 0.0, (), "unknown mismatch"),
        ((), RIGHT_ONE, 0.0, ("crash",), "crashed"),
        ((), None, 0.0, ("crash",), "unknown mismatch"),
        (("note",), RIGHT_ONE, 0.0, (), "matches the builtin"),
        (("harmless", "note"), RIGHT_ONE, 1.0, (), "harmless deviation"),
        (("paper", "harmless"), RIGHT_ONE, 1.0, (), "matches the paper, not the builtin"),
        (("paper",), RIGHT_ONE, 1.0, ("crash",), "crashed"),
        (("harmless",), None, 1.0, (), "unknown mismatch"),
        (("mistake", "paper"), None, 0.0, ("crash",), "mistake"),
    ],
)
def test_verdict(severities, best, error, stops, verdict):
    findings = [OF_SEVERITY[severity] for severity in severities]
    assert judged._verdict(best, findings, error, session(stops)) == verdict


@pytest.mark.parametrize(
    "harmless, verdict",
    [
        (("E2", "not scaled"), "harmless deviation"),
        (("B4", "pre-norm without final norms"), "harmless deviation"),
        (("A8", ""), "matches the paper, not the builtin"),
        (("A18", ""), "matches the paper, not the builtin"),
    ],
)
def test_what_gives_other_numbers_than_the_paper_does_not_match_it(harmless, verdict):
    """-1e9 in float16 and dropout give none."""
    id, form = harmless
    findings = [OF_SEVERITY["paper"], Finding(MISTAKES[id], "", form)]
    assert judged._verdict(RIGHT_ONE, findings, 1.0, session()) == verdict


def test_the_worst_first_and_each_once():
    note, harmless, paper, mistake = (OF_SEVERITY[s] for s in ("note", "harmless", "paper", "mistake"))
    again = Finding(note.mistake, "seen again")
    assert judged._sorted([note, harmless, again, mistake, paper]) == [mistake, paper, harmless, note]
    first, second = (Finding(MISTAKES[id], "") for id in ("LN2", "LN1"))
    assert judged._sorted([first, second]) == [first, second]


@pytest.mark.parametrize("stronger, weaker", [("B11", "A25"), ("B21", "B12")])
def test_what_another_one_shows_is_not_named_beside_it(stronger, weaker):
    one, other = (Finding(MISTAKES[id], "") for id in (stronger, weaker))
    assert judged._sorted([other, one]) == [one]
    assert judged._sorted([one]) == [one]
    assert judged._sorted([other]) == [other]


# ---- What is named ----


def asked(looks_for_padding=True, is_causal_by_name=True):
    candidate = SimpleNamespace(
        looks_for_padding=looks_for_padding, is_causal_by_name=is_causal_by_name, speaks_of_padding=True, replaced=[]
    )
    worst = lambda design, **options: (math.inf, None)  # noqa: E731
    return SimpleNamespace(candidate=candidate, worst=worst, kind=SimpleNamespace(builtin="", ids=()))


def named(session, change, twins=()):
    best = Hypothesis("", (change,))
    (found,) = judged._named(session, best, Match((best,), twins={change.id: twins}), RIGHT)
    return found


def of(id, form=None):
    form, entries = next((f, e) for f, e in MISTAKES[id].changes.items() if form in (None, f))
    return Change(id, form, tuple(entries.items()))


def test_nothing_is_named_without_an_explanation():
    assert list(judged._named(asked(), None, Match(), RIGHT)) == []
    assert list(judged._named(asked(), RIGHT_ONE, Match((RIGHT_ONE,)), RIGHT)) == []


def test_a_mistake_with_its_form_and_its_twins():
    change = of("LN3", "1e-6")
    found = named(asked(), change, ("1e-12",))
    assert found == Finding(MISTAKES["LN3"], "", "1e-6", twins=("1e-12",))


def test_a_mistake_without_twins():
    best = Hypothesis("", (of("LN3", "1e-6"),))
    assert [f.twins for f in judged._named(asked(), best, Match((best,)), RIGHT)] == [()]


def test_padding_that_nobody_looked_for():
    change = of("A29", "the padding is lost")
    assert named(asked(), change) == Finding(MISTAKES["A29"], "", change.form)
    found = named(asked(looks_for_padding=False), change)
    assert found == Finding(MISTAKES["A24"], "", TARGET_ONLY, dict(change.entries))
    other = next(Change("A29", f, tuple(e.items())) for f, e in MISTAKES["A29"].changes.items() if f != change.form)
    assert named(asked(looks_for_padding=False), other).mistake.id == "A29"


def test_the_future_of_what_need_not_hide_it():
    change = of("A25")
    assert named(asked(), change).form == change.form
    assert named(asked(is_causal_by_name=False), change).form == NOT_ASKED
    assert named(asked(is_causal_by_name=False), of("LN3", "1e-6")).form == "1e-6"
    assert judged._is_note(asked(is_causal_by_name=False), change)
    assert not judged._is_note(asked(), change)


# ---- What it is measured against ----


def test_a_design_is_the_explanations_with_what_is_no_mistake():
    session = Session(variant("EncoderLayer", activation="silu"))
    (note,) = (c for c in changes_of(KINDS["EncoderLayer"]) if dict(c.entries) == {"activation": "silu"})
    design, entries = list(session.kind.designs.items())[-1]
    best = Hypothesis(design, (of("LN1"), note))
    assert judged._design(session, best) == RIGHT.with_({**entries, "activation": "silu"})


def test_without_an_explanation_the_nearest_design():
    designs = list(KINDS["EncoderLayer"].designs.values())
    for entries in (designs[0], designs[-1]):
        session = Session(variant("EncoderLayer", **{**designs[0], **entries, "ddof": 1}))
        assert judged._design(session, None) == RIGHT.with_(entries)


def test_a_causal_mask_that_nobody_asks_for_is_a_design():
    change = of("A25")
    for is_asked, design in ((False, RIGHT.with_(dict(change.entries))), (True, RIGHT)):
        candidate = SimpleNamespace(is_causal_by_name=is_asked, replaced=[])
        session = SimpleNamespace(kind=SimpleNamespace(designs={"": {}}, ids=()), candidate=candidate)
        assert judged._design(session, Hypothesis("", (change,))) == design


def test_the_first_of_the_possible_designs_that_are_as_near(monkeypatch):
    designs = {name: {"eps": eps} for name, eps in (("a", 1.0), ("b", 2.0), ("c", 3.0))}
    errors = {1.0: 0.0, 2.0: 0.5, 3.0: 0.5}
    session = SimpleNamespace(
        kind=SimpleNamespace(designs=designs), error=lambda recipe, stop_above: errors[recipe.eps]
    )
    monkeypatch.setattr(judged, "of_session", lambda session: [(name, designs[name]) for name in "bc"])
    assert judged._design(session, None).eps == 2.0
    monkeypatch.setattr(judged, "of_session", lambda session: [])
    assert judged._design(session, None).eps == 1.0


# ---- What is said beside it ----


@pytest.mark.parametrize(
    "error, said",
    [(EXACT, None), (1.1 * EXACT, "1e-09"), (ROUNDED, "2e-05"), (1.1 * ROUNDED, None)],
)
def test_single_precision_is_said(error, said):
    expected = (
        [] if said is None else [f"Somewhere it computes in single precision (float32): it agrees to {said} only."]
    )
    assert list(judged._notes(Match((), error))) == expected


def limits(left_out=(), crashes=(), said=(), findings=()):
    probe = lambda shows: Probe("p", {}, shows=shows)  # noqa: E731
    results = [SimpleNamespace(probe=probe(shows), error=error) for shows, error in crashes]
    candidate = SimpleNamespace(limits=said)
    return list(
        judged._limits(
            SimpleNamespace(left_out=[probe(s) for s in left_out], crashes=results, candidate=candidate, settings={}),
            findings,
        )
    )


def test_limits():
    assert limits() == []
    assert limits(["masks", "padding", "masks"]) == ["Not checked, as it cannot be given such inputs: masks; padding."]
    assert limits(["masks"], said=["It takes no mask."]) == []
    assert limits(["masks"], said=["It is slow."]) != []
    assert limits(crashes=[("one token", ValueError("\n two\nlines"))]) == [
        "With one token it stops with ValueError: two"
    ]


@pytest.mark.parametrize(
    "error, line", [(None, "None"), (ValueError(), ""), (ValueError("  a\nb"), "a"), (ValueError("x" * 201), "x" * 200)]
)
def test_first_line(error, line):
    assert judged._first_line(error) == line


class Norm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight, self.bias, self.eps = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model)), eps

    def forward(self, x):
        return nn.functional.layer_norm(x, x.shape[-1:], self.weight, self.bias, self.eps)


def norm(forward):
    return type("Changed", (Norm,), {"forward": forward})


def test_what_always_stops_has_crashed():
    calls = []

    def forward(self, x):
        calls.append(x)
        raise KeyError("no\nsuch" if len(calls) == 1 else "another")

    candidate = Made("LayerNorm", norm(forward), d_model=12)
    candidate.notes.append("A note.")
    diagnosis = diagnose(candidate)
    assert (diagnosis.kind, diagnosis.verdict, diagnosis.error) == ("LayerNorm", "crashed", math.inf)
    assert diagnosis.against == "torch.nn.LayerNorm"
    assert diagnosis.notes == ("A note.", "KeyError: 'no\\nsuch'")


def test_what_cannot_be_loaded_has_crashed():
    class Broken(Made):
        def load(self, state):
            raise ValueError("no place for weight")

    diagnosis = diagnose(Broken("LayerNorm", Norm, d_model=12))
    assert (diagnosis.verdict, diagnosis.notes) == ("crashed", ("ValueError: no place for weight",))


def test_what_cannot_be_given_anything_has_crashed():
    class Closed(Made):
        def accepts(self, inputs):
            return False

    diagnosis = diagnose(Closed("LayerNorm", Norm, d_model=12))
    assert (diagnosis.verdict, diagnosis.notes) == ("crashed", ("It cannot be given any of the inputs.",))
    assert diagnosis.findings == ()


def test_a_crash_that_is_typical_of_a_mistake():
    says = "sqrt(): argument 'input' (position 1) must be Tensor, not int"
    diagnosis = judged._crashed(variant("SelfAttention"), TypeError(says))
    assert (diagnosis.verdict, diagnosis.ids, diagnosis.notes) == ("crashed", ("E1",), (f"TypeError: {says}",))


def test_a_crash_on_one_probe_is_told_once():
    last = Session(variant("LayerNorm", {"d_model": 12})).probes[-1]

    def forward(self, x):
        if torch.equal(x, last.inputs["x"]):
            raise TypeError("sqrt(): argument 'input' (position 1) must be Tensor, not int")
        return Norm.forward(self, x)

    diagnosis = found("LayerNorm", norm(forward), d_model=12)
    assert diagnosis.ids == ("E1",)
    assert "sqrt()" in diagnosis.findings[0].evidence and diagnosis.limits == ()  # once is enough
    assert limits(crashes=[(last.shows, TypeError("sqrt()"))], findings=diagnosis.findings) == []
    assert limits(crashes=[(last.shows, TypeError("another"))], findings=diagnosis.findings) != []


def test_no_mistake_is_told_from_nan():
    diagnosis = found("LayerNorm", norm(lambda self, x: x * math.nan), d_model=12)
    assert (diagnosis.verdict, diagnosis.error, diagnosis.findings) == ("unknown mismatch", math.inf, ())
    assert diagnosis.kind == "LayerNorm"
    assert diagnosis.against == "torch.nn.LayerNorm"
    assert diagnosis.notes == ("Its outputs are NaN or infinite, all of them, whatever it is given.",)


def test_without_a_builtin_it_is_the_reference():
    kind = next(kind for kind in KINDS.values() if not kind.builtin)
    candidate = variant(kind.name)
    assert judged._without_numbers(Session(candidate)).against == "the reference"
    assert judged._crashed(candidate, None).against == "the reference"
    assert diagnose(candidate).against == "the reference"


# ---- All together ----


def test_right():
    diagnosis = found("LayerNorm", Norm, d_model=12)
    assert (diagnosis.kind, diagnosis.verdict, diagnosis.ids) == ("LayerNorm", "matches the builtin", ())
    assert diagnosis.error < 1e-12
    assert diagnosis.alternatives == diagnosis.notes == diagnosis.limits == diagnosis.replaced == ()
    assert (diagnosis.divergence, diagnosis.unexplained, diagnosis.recipe) == ("", False, RIGHT)
    assert diagnosis.design in KINDS["LayerNorm"].designs


def test_one_mistake():
    candidate = variant("LayerNorm", eps_inside=False)
    candidate.limits.append("A limit.")
    candidate.replaced.append("a part")
    diagnosis = diagnose(candidate)
    session = Session(variant("LayerNorm", eps_inside=False))
    error, worst = session.worst(RIGHT)
    assert (diagnosis.verdict, diagnosis.ids, diagnosis.error) == ("mistake", ("LN2",), error)
    assert diagnosis.probe == worst.probe.shows
    assert diagnosis.ordinary == session.worst(RIGHT, ordinary=True)[0] != error
    assert diagnosis.recipe.eps_inside is False
    assert diagnosis.limits == ("A limit.",)
    assert diagnosis.replaced == ("a part",)
    assert not diagnosis.unexplained


def test_a_mistake_that_the_parts_have_is_found_at_once():
    by_parts, alone = (diagnose(variant("EncoderLayer", ddof=1), parts) for parts in (("LN1",), ()))
    assert by_parts.ids == alone.ids == ("LN1",)


@pytest.mark.long
def test_who_is_told_what(monkeypatch):
    """The search is told of the parts, and all others of what it found."""
    told = {}
    for name in ("find", "_design", "detected", "design_notes", "from_extras"):
        original = getattr(judged, name)
        monkeypatch.setattr(judged, name, lambda *args, f=original, n=name: told.setdefault(n, (args, f(*args)))[1])
    diagnosis = diagnose(variant("EncoderLayer", activation="silu", ddof=1), ("LN1",))
    (session, parts, _), match = told["find"]
    best = match.hypotheses[0]
    assert parts == ("LN1",)
    assert told["_design"][0] == told["detected"][0] == told["from_extras"][0] == (session, best)
    assert told["design_notes"][0] == (session, best.recipe, best.design)
    assert (best.design, diagnosis.design) == ("post-norm, ReLU", "post-norm")  # which SiLU is in the place of
    assert diagnosis.recipe == best.recipe


def test_another_activation_is_another_design():
    diagnosis = diagnose(variant("EncoderLayer", activation="silu"))
    assert (diagnosis.verdict, diagnosis.ids, diagnosis.ordinary) == ("matches the builtin", ("B8",), None)
    assert diagnosis.error < 1e-12


@pytest.fixture
def made_of(monkeypatch):
    """A diagnosis of what was found, seen, and measured: (error, on ordinary input)."""

    def made_of(hypotheses=(), seen=(), measured=(0.5, 0.25), error=1e-15, kind="LayerNorm", is_causal=True):
        session = Session(variant(kind))
        session.candidate.is_causal_by_name = is_causal
        session.candidate.notes.append("A note.")
        result = session.ran[0]
        worst = lambda design, ordinary=False: (measured[ordinary], None if measured[ordinary] is None else result)  # noqa: E731
        monkeypatch.setattr(session, "worst", worst)
        monkeypatch.setattr(judged, "find", lambda *args: Match(tuple(hypotheses), error))
        monkeypatch.setattr(judged, "evidence", lambda *args: "")
        monkeypatch.setattr(judged, "detected", lambda session, best: list(seen))
        for name in ("design_notes", "from_extras"):
            monkeypatch.setattr(judged, name, lambda *args: [])
        monkeypatch.setattr(judged, "first_divergence", lambda session, design: "here")
        return judged._diagnosed(session, (), None)

    return made_of


def explained(*changes, design=""):
    return Hypothesis(design, changes, RIGHT.with_({name: value for c in changes for name, value in c.entries}))


def test_other_explanations(made_of):
    ones = [explained(of("LN1")), explained(of("LN2")), explained(of("LN1"), of("LN2"))]
    diagnosis = made_of(ones)
    assert diagnosis.ids == ("LN1",)
    assert diagnosis.alternatives == (("LN2",), ("LN1", "LN2"))
    assert (diagnosis.divergence, diagnosis.unexplained) == ("", False)


def test_which_design_it_is(made_of):
    design = list(KINDS["EncoderLayer"].designs)[-1]
    assert design
    assert made_of([explained(of("LN1"), design=design)], kind="EncoderLayer").design == design


@pytest.mark.parametrize(
    "seen, verdict, unexplained, divergence",
    [
        ((), "unknown mismatch", False, "here"),
        ((Finding(MISTAKES["B10"], ""),), "mistake", True, "here"),
        ((Finding(MISTAKES["B10"], "", explains=True),), "mistake", False, ""),
        ((Finding(MISTAKES["B10"], ""), Finding(MISTAKES["B21"], "", explains=True)), "mistake", False, ""),
    ],
)
def test_a_mistake_that_was_seen_may_not_be_the_reason(seen, verdict, unexplained, divergence, made_of):
    diagnosis = made_of(seen=seen, error=math.inf)
    assert (diagnosis.verdict, diagnosis.unexplained, diagnosis.divergence) == (verdict, unexplained, divergence)
    assert diagnosis.design == ""


@pytest.mark.parametrize("measured, ordinary", [((0.5, 0.25), 0.25), ((0.5, 0.5), None), ((0.5, None), None)])
def test_the_error_on_ordinary_input_is_said_if_it_is_another(measured, ordinary, made_of):
    diagnosis = made_of([explained(of("LN1"))], measured=measured)
    assert (diagnosis.error, diagnosis.ordinary) == (0.5, ordinary)


def test_notes_are_the_candidates_and_that_of_single_precision(made_of):
    first, second = made_of([explained(of("LN1"))], error=1e-6).notes
    assert first == "A note."
    assert "float32" in second


def test_what_no_builtin_is_set_up_for_is_measured_against_the_explanation(made_of):
    note = next(c for c in changes_of(KINDS["EncoderLayer"]) if dict(c.entries) == {"activation": "silu"})
    design = next(iter(KINDS["EncoderLayer"].designs))
    for measured, error, least in (((0.5, 0.25), 1e-15, 1e-15), ((1e-13, 0.25), 1e-10, 1e-13)):
        diagnosis = made_of([explained(note, design=design)], measured=measured, error=error, kind="EncoderLayer")
        assert (diagnosis.error, diagnosis.ordinary) == (least, None)
    causal = made_of([explained(of("A25"))], is_causal=False)
    assert (causal.error, causal.ordinary) == (1e-15, None)
    both = made_of([explained(note, of("LN1"), design=design)], kind="EncoderLayer")
    assert (both.error, both.ordinary) == (0.5, 0.25)


def test_nobody_knows():
    diagnosis = found("LayerNorm", norm(lambda self, x: Norm.forward(self, x) ** 3), d_model=12)
    assert (diagnosis.verdict, diagnosis.design, diagnosis.alternatives) == ("unknown mismatch", "", ())
    assert diagnosis.error > 0.1
    assert diagnosis.recipe == RIGHT


def test_another_seed_is_used(monkeypatch):
    seeds = []
    monkeypatch.setattr(judged, "Session", lambda candidate, seed: seeds.append(seed) or Session(candidate, seed))
    diagnose(variant("LayerNorm"), seed=3)
    diagnose(variant("LayerNorm"))
    assert seeds == [3, 0]
