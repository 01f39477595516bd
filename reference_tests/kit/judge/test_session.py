"""A candidate on its probes: what ran and what did not, and how far recipes are from it."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from reference_tests.kit.made import CanonicalCandidate, Made, variant
from scratch_transformer.kit.judge import session as judged
from scratch_transformer.kit.judge.session import EXACT, Session, distance, in_precision
from scratch_transformer.kit.kind import Probe
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.recipe import RIGHT

X = torch.tensor([[[1.0, -4.0], [2.0, 3.0]]], dtype=torch.float64)
NAN, INF = math.nan, math.inf


def probe(valid=None, **inputs):
    return Probe("p", inputs, valid)


# ---- How far two outputs are apart ----


PAIRS = [
    (X, X, 0.0),
    (X + 1, X, 0.25),
    (X - 1, X, 0.25),
    (X * 0 + 0.5, X * 0, 0.5),
    (X * 0, X * 0, 0.0),
    (None, X, INF),
    (X, None, INF),
    ("text", X, INF),
    (X[0], X, INF),
    (X[:0], X[:0], 0.0),
    (X.masked_fill(X == 2, NAN), X, INF),
    (X.masked_fill(X == 2, NAN), X.masked_fill(X == 2, NAN), 0.0),
    (X.masked_fill(X == 2, NAN) + 1, X.masked_fill(X == 2, NAN), 0.25),
    (X.masked_fill(X == 2, INF), X.masked_fill(X == 2, INF), 0.0),
    (X * NAN, X * NAN, INF),
    (X[:, :1, :1] * NAN, X[:, :1, :1] * NAN, 0.0),
    (X.float() + 1, X, 0.25),
    (X, X.float() + 1, 0.25),
]
"""Of two outputs, and how far they are apart."""


@pytest.mark.parametrize(("actual", "expected", "far"), PAIRS)
def test_distance(actual, expected, far):
    assert distance(actual, expected, probe()) == far


@pytest.mark.parametrize(("actual", "expected", "far"), [pair for pair in PAIRS if not isinstance(pair[0], str)])
def test_one_number_tells_what_is_far_and_nothing_else(actual, expected, far):
    assert not judged.Sample(actual, probe()).is_far(expected) or far > judged.ROUNDED


def test_a_number_is_far_beyond_rounding_alone():
    sample = judged.Sample(X, probe())
    assert sample.is_far(X + 1) and sample.is_far(X * (1 + 4 * judged.ROUNDED) + judged.ROUNDED)
    assert not sample.is_far(X * (1 + judged.ROUNDED)) and not sample.is_far(X[0])
    assert not judged.Sample(X, probe(torch.ones(1, 2, 1, dtype=torch.bool))).is_far(X + 1)  # which may not count there


def test_only_where_the_output_counts():
    valid = torch.tensor([[[True], [False]]])
    other = X + torch.tensor([[[0.0], [9.0]]])
    assert distance(other, X, probe()) == 9 / 4
    assert distance(other, X, probe(valid)) == 0
    assert distance(X, other, probe(valid)) == 0
    assert distance(other, X, probe(valid[0])) == 0
    small = X / 64
    assert distance(small + torch.tensor([[[1 / 64], [9.0]]]), small, probe(valid)) == 1 / 4
    for unfitting in (torch.tensor([[[True], [True], [False]]]), torch.ones(1, 1, 1, 1, dtype=torch.bool)):
        assert distance(other, X, probe(unfitting)) == 9 / 4


def test_nan_everywhere_says_nothing():
    assert judged.says_nothing(X * NAN)
    assert judged.says_nothing(X * INF)
    assert judged.says_nothing(torch.tensor([NAN, INF]))
    assert not judged.says_nothing(X.masked_fill(X > 1, NAN))
    assert not judged.says_nothing(torch.tensor([NAN]))


def test_shapes_are_those_of_what_is_no_mask():
    made = probe(x=X, mask=X[0], padding_mask=X, step=3, none=None, memory=X.transpose(1, 2))
    assert judged.shapes(made) == {"x": (1, 2, 2), "memory": (1, 2, 2)}
    assert judged._is_square(probe(x=X, y=torch.zeros(5, 2, 7), mask=torch.zeros(1, 9)))
    assert not judged._is_square(probe(x=X, y=torch.zeros(1, 3, 2)))


# ---- What ran ----


class Norm(nn.Module):
    """Right, but for what a test puts in."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight, self.bias, self.eps = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model)), eps
        self.register_buffer("table", torch.full((d_model,), 1 / 3, dtype=torch.float64))

    def forward(self, x):
        return nn.functional.layer_norm(x, x.shape[-1:], self.weight, self.bias, self.eps)


def session_of(forward, **more):
    class Changed(Norm):
        def forward(self, x):
            return forward(super(), x)

    return Session(Made("LayerNorm", Changed, d_model=12), **more)


RIGHT_ONE = session_of(lambda norm, x: norm.forward(x))


def test_all_probes_ran_with_the_weights_that_were_asked_for():
    session = RIGHT_ONE
    assert [r.probe.name for r in session.ran] == [p.name for p in (*session.probes,) if not p.quiet] + [
        p.name for p in session.probes if p.quiet
    ]
    assert session.crashes == session.stops == []
    assert session.left_out == ()
    assert not session.is_random
    assert session.failed == ""
    assert session.settings["d_model"] == 12
    assert set(session.state) == {"weight", "bias"}
    for name, values in session.state.items():
        assert torch.equal(values, session.asked[name])
        assert values.dtype == torch.float64
    assert session.error(RIGHT) < EXACT


def test_another_seed_is_another_start():
    other = session_of(lambda norm, x: norm.forward(x), seed=5)
    assert not torch.equal(other.asked["weight"], RIGHT_ONE.asked["weight"])
    assert not torch.equal(other.probes[0].inputs["x"], RIGHT_ONE.probes[0].inputs["x"])


def test_quiet_probes_run_with_quiet_weights_of_another_seed():
    session = Session(variant("EncoderLayer"))
    quiet = [r for r in session.results if r.probe.quiet]
    assert quiet and session.results[-len(quiet) :] == quiet
    assert {p.quiet for p in session.probes} == {False, True}
    weight = next(name for name in session.asked if "norm" in name and name.endswith("weight"))
    assert session.quiet_asked[weight].abs().max() < 0.05 < session.asked[weight].abs().max()
    matrix = next(name for name, values in session.asked.items() if values.dim() == 2)
    assert not torch.equal(session.quiet_asked[matrix], session.asked[matrix])
    assert torch.equal(session.quiet_state[weight], session.quiet_asked[weight])
    for result in (quiet[0], session.results[0]):
        assert distance(session.variant(session.candidate.recipe, result.probe), result.output, result.probe) < EXACT
        assert distance(session.builtin(session.candidate.recipe, result.probe), result.output, result.probe) < EXACT
    module = session.module(session.candidate.recipe)
    assert torch.equal(module.state_dict()[weight], session.asked[weight])


def test_a_module_has_the_usual_weights_until_a_quiet_probe_wants_others():
    session = Session(variant("EncoderLayer"))
    module = session.module(session.candidate.recipe)
    for name, values in module.state_dict().items():
        assert torch.equal(values, session.state[name])
    for result in reversed(session.results):
        assert distance(session.variant(session.candidate.recipe, result.probe), result.output, result.probe) < EXACT


def test_without_quiet_probes_no_quiet_weights():
    assert RIGHT_ONE.quiet_state == {}


def test_what_a_candidate_cannot_be_given_is_left_out():
    class Picky(Made):
        def accepts(self, inputs):
            return inputs["x"].shape == first.inputs["x"].shape

    first = RIGHT_ONE.probes[0]
    session = Session(Picky("LayerNorm", Norm, d_model=12))
    same = [p.inputs["x"].shape == first.inputs["x"].shape for p in RIGHT_ONE.probes]
    assert [p.name for p in session.probes] == [p.name for p, fits in zip(RIGHT_ONE.probes, same, strict=True) if fits]
    assert [p.name for p in session.left_out] == [
        p.name for p, fits in zip(RIGHT_ONE.probes, same, strict=True) if not fits
    ]


def test_a_crash_is_kept_with_its_probe():
    small = min(p.inputs["x"].abs().max().item() for p in RIGHT_ONE.probes)

    def forward(norm, x):
        if x.abs().max() == small:
            raise KeyError("small")
        return norm.forward(x)

    session = session_of(forward)
    assert [str(r.error) for r in session.crashes] == ["'small'"]
    assert session.crashes[0].output is None
    assert len(session.ran) == len(session.probes) - 1
    shape = session.crashes[0].probe.inputs["x"].shape
    ran = any(r.probe.inputs["x"].shape == shape for r in session.ran)
    assert session.stops == (session.crashes if ran else [])


def test_a_fixed_length_is_no_stop():
    length = RIGHT_ONE.probes[0].inputs["x"].shape[1]

    def forward(norm, x):
        if x.shape[1] != length:
            raise RuntimeError("length")
        return norm.forward(x)

    assert session_of(forward).stops == []


def made_up(kind, inputs, ran=(), crashed=()):
    """A session's `stops` for probes with these inputs."""
    results = lambda all: [SimpleNamespace(probe=probe(**inputs)) for inputs in all]  # noqa: E731
    kind = SimpleNamespace(name=kind, inputs=inputs)
    return Session.stops.fget(SimpleNamespace(kind=kind, ran=results(ran), crashes=results(crashed)))


def test_stops_are_what_no_fixed_length_explains():
    short, long = {"x": torch.zeros(1, 3, 2)}, {"x": torch.zeros(1, 4, 2)}
    assert len(made_up("Encoder", ("x", "mask"), [short], [long])) == 0
    assert len(made_up("Encoder", ("x", "mask"), [short], [{**short, "mask": X}, long])) == 1
    for kind, other in (("CrossAttention", "memory"), ("Decoder", "src"), ("ScaledDotProductAttention", "key")):
        equal, unequal = ({**short, other: torch.zeros(1, length, 2)} for length in (3, 4))
        assert len(made_up(kind, ("x", other), [equal], [unequal])) == 0
        assert len(made_up(kind, ("x", other), [], [unequal, equal])) == 2
        assert len(made_up(kind, ("x", other), [unequal], [equal])) == 1


@pytest.mark.parametrize("noise, is_random", [(1e-3, True), (1e-7, False)])
def test_random_is_what_differs_by_more_than_rounding(noise, is_random):
    session = session_of(lambda norm, x: norm.forward(x) + noise * torch.rand_like(x))
    assert session.is_random is is_random


def test_what_never_runs_is_not_random():
    def fail(norm, x):
        raise ValueError

    session = session_of(fail)
    assert session.ran == []
    assert session.is_random is False
    assert session.error(RIGHT) == 0
    assert session.worst(RIGHT) == (INF, None)


# ---- How far recipes are ----


def test_the_largest_error_and_where_it_is():
    session = session_of(lambda norm, x: norm.forward(x) + (x.abs().max() > 1e3) * x.abs().max())
    wrong = RIGHT.with_({"ddof": 1})
    errors = {r.probe.name: distance(r.output, session.variant(RIGHT, r.probe), r.probe) for r in session.ran}
    assert session.error(RIGHT) == max(errors.values())
    assert session.failed == ""
    first = session.ran[0].probe.name
    assert session.error(wrong, stop_above=1e-9) > 1e-9
    assert session.failed == first
    session.error(wrong, stop_above=session.error(wrong))
    assert session.failed == ""
    assert RIGHT_ONE.worst(RIGHT)[0] < 1e-12


def test_the_largest_error_of_all_and_of_ordinary_input():
    session = Session(Made("LayerNorm", lambda d_model: Norm(d_model, 1e-3), d_model=12))
    expected = {r.probe.name: distance(r.output, session.builtin(RIGHT, r.probe), r.probe) for r in session.ran}
    found, result = session.worst(RIGHT)
    assert (found, result.probe.name) == (max(expected.values()), max(expected, key=expected.get))
    assert result.probe.provoking
    ordinary = {r.probe.name: expected[r.probe.name] for r in session.ran if r.probe.is_ordinary}
    found, result = session.worst(RIGHT, ordinary=True)
    assert (found, result.probe.name) == (max(ordinary.values()), max(ordinary, key=ordinary.get))


def are_alike(inputs, others):
    pairs = [(inputs[name], others[name]) for name in inputs]
    return all(a is b or (a is not None and b is not None and torch.equal(a, b)) for a, b in pairs)


def test_everywhere_is_also_where_the_output_does_not_count():
    class Padded(CanonicalCandidate):
        def __call__(self, **inputs):
            y, p = super().__call__(**inputs), next((p for p in padded if are_alike(p.inputs, inputs)), None)
            return y if p is None else y + 7 * ~p.valid

    right = variant("EncoderLayer")
    padded = [p for p in Session(right).probes if p.valid is not None]
    session = Session(Padded(right.kind, {}, right.recipe))
    assert session.error(right.recipe) < EXACT
    assert session.error(right.recipe, everywhere=True) > 0.1


def test_a_matrix_that_is_missing_is_not_searched_for():
    session = Session(variant("FeedForward"))
    recipe = session.candidate.recipe
    assert session.error(recipe) < EXACT
    matrices = (n for n, v in session.module(recipe).state_dict().items() if v.dim() == 2 and v.shape[0] != v.shape[1])
    session.candidate.missing = frozenset({next(matrices)})
    assert session.error(recipe) == INF


def test_a_class_that_adds_and_has_no_norm():
    session = Session(variant("ResidualConnection"))
    bare = RIGHT.with_({"norm_order": "no norm"})
    norms = {name for name in session.asked if "norm" in name}
    assert norms
    assert not session._is_bare(bare)
    session.candidate.missing = frozenset(norms)
    assert session._is_bare(bare)
    assert session.error(bare) == INF
    assert not session._is_bare(RIGHT)
    session.candidate.missing = frozenset(sorted(norms)[1:])
    assert not session._is_bare(bare)
    session.candidate.missing, session.candidate.module = frozenset(norms), None
    assert not session._is_bare(bare)


def test_in_another_precision_and_back():
    session = Session(Made("LayerNorm", Norm, d_model=12))
    module = session.candidate.module
    with torch.no_grad():
        module.weight.add_(1)
    table = module.table.clone()

    def fail():
        with in_precision(session, module, torch.float32):
            assert {x.dtype for x in (module.weight, module.table)} == {torch.float32}
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert torch.equal(module.table, table)  # a third, not a third in float32
    assert module.weight.dtype == torch.float64
    assert torch.equal(module.weight.detach(), session.asked["weight"])


def test_without_a_builtin_the_reference():
    session = Session(variant(next(name for name, kind in KINDS.items() if kind.oracle is None)))
    first = session.ran[0].probe
    assert torch.equal(
        session.builtin(session.candidate.recipe, first), session.variant(session.candidate.recipe, first)
    )


# ---- A batch ----


def test_what_a_batch_of_one_gives_is_asked_for_once():
    candidate, asked = CanonicalCandidate(KINDS["LayerNorm"]), []
    candidate.in_a_batch = lambda **inputs: asked.append(inputs) or X
    session = Session(candidate)
    assert session.in_a_batch is X and session.in_a_batch is X
    (inputs,) = asked
    assert inputs == session.ran[0].probe.inputs
