"""The search: in which order explanations are tried, which of those that fit is taken, and when it gives up."""

import math
from types import SimpleNamespace

import pytest

from scratch_transformer.kit import clock as kits_clock
from scratch_transformer.kit.judge import changes as changes_tried
from scratch_transformer.kit.judge import search
from scratch_transformer.kit.judge.changes import changes_of
from scratch_transformer.kit.judge.search import Change, Hypothesis, Match, find
from scratch_transformer.kit.judge.session import EXACT, ROUNDED
from scratch_transformer.kit.kind import Diagnosis, Finding
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.recipe import RIGHT

DDOF, EPS = Change("LN1", "", (("ddof", 1),)), Change("LN2", "", (("eps_inside", False),))
TINY = Change("LN3", "1e-6", (("eps", 1e-6),))
TINIER = Change("LN3", "1e-12", (("eps", 1e-12),))


def hypothesis(*changes, design=""):
    return Hypothesis(design, changes, RIGHT.with_({name: value for c in changes for name, value in c.entries}))


NOTHING, ONE, TWO, BOTH = hypothesis(), hypothesis(DDOF), hypothesis(EPS), hypothesis(DDOF, EPS)


TINY_ALONE, BOTH_EPS = hypothesis(TINY), hypothesis(EPS, TINY)


class Session:
    """Says how far off recipes are, and writes down which it was asked about."""

    is_random, failed = False, ""

    def __init__(self, errors=(), everywhere=(), kind="LayerNorm", failed=""):
        self.kind, self.errors, self.everywhere, self.asked = KINDS[kind], dict(errors), dict(everywhere), []
        self.fails = failed

    def error(self, recipe, stop_above=math.inf, everywhere=False):
        self.asked.append(recipe)
        assert everywhere or stop_above <= 10 * ROUNDED
        error = (self.everywhere if everywhere else self.errors).get(recipe, 1.0)
        self.failed = self.fails if error > stop_above else ""
        return error


@pytest.fixture
def tiers(monkeypatch):
    """Sets what is tried, tier by tier; with True what is for exact matches only."""

    def set_to(*tiers):
        pairs = [tier if isinstance(tier, tuple) else (False, tier) for tier in tiers]
        monkeypatch.setattr(search, "_tiers", lambda session, parts: iter(pairs))

    return set_to


# ---- Which explanation is taken ----


def test_the_first_tier_that_explains_ends_the_search(tiers):
    tiers([NOTHING], [ONE, TWO], [BOTH])
    session = Session({ONE.recipe: 1e-15, BOTH.recipe: 1e-15})
    assert find(session) == Match((ONE,), 1e-15, 3, {"LN1": ()})
    assert session.asked == [NOTHING.recipe, ONE.recipe, TWO.recipe]


@pytest.mark.parametrize("error", [0.0, 1e-6])
def test_of_two_that_explain_the_one_that_does_everywhere(error, tiers):
    tiers([hypothesis(DDOF), hypothesis(EPS)])
    assert find(Session({ONE.recipe: error, TWO.recipe: error}, {ONE.recipe: 1.0})).hypotheses == (ONE, TWO)
    tiers([hypothesis(DDOF), hypothesis(EPS)])
    everywhere = {ONE.recipe: 1.0, TWO.recipe: 0.0}
    assert find(Session({ONE.recipe: error, TWO.recipe: error}, everywhere)).hypotheses == (TWO,)


def test_nothing_explains(tiers):
    tiers([NOTHING, ONE])
    assert find(Session()) == Match((), math.inf, 2, {})


def test_what_is_random_is_not_searched(tiers):
    tiers([NOTHING])
    session = Session({NOTHING.recipe: 0.0})
    session.is_random = True
    assert find(session) == Match()
    assert session.asked == []


@pytest.mark.parametrize("error, explains", [(EXACT, True), (ROUNDED, True), (ROUNDED * 1.01, False)])
def test_up_to_float32s_rounding(error, explains, tiers):
    tiers([NOTHING], [ONE])
    match = find(Session({NOTHING.recipe: error}))
    assert match.hypotheses == ((NOTHING,) if explains else ())
    assert match.tried == (1 if error == EXACT else 2)
    assert match.error == (error if explains else math.inf)


def test_an_exact_one_later_is_better_than_a_rounded_one_before(tiers):
    tiers([NOTHING], [ONE])
    assert find(Session({NOTHING.recipe: 1e-6, ONE.recipe: 1e-15})).hypotheses == (ONE,)


def test_pairs_are_tried_for_exact_matches_only(tiers):
    tiers([NOTHING, ONE], (True, [BOTH]))
    session = Session({ONE.recipe: 1e-6, BOTH.recipe: 0.0})
    assert find(session) == Match((ONE,), 1e-6, 2, {"LN1": ()})
    session = Session({BOTH.recipe: 0.0})
    assert find(session).hypotheses == (BOTH,)


@pytest.mark.parametrize("without, found", [(1e-16, TINY_ALONE), (9e-6, TINY_ALONE), (1e-4, BOTH_EPS)])
def test_what_explains_up_to_rounding_needs_each_of_its_mistakes(without, found, tiers):
    """An ε outside of the root explains nothing where another ε alone does as well, which nobody has come to yet."""
    tiers([NOTHING, BOTH_EPS])
    session = Session({BOTH_EPS.recipe: 1e-6, TINY_ALONE.recipe: without})
    assert find(session).hypotheses == (found,)


def test_a_difference_of_rounding_is_explained_by_no_mistake(tiers):
    tiers([NOTHING, TWO])
    assert find(Session({TWO.recipe: 1e-5, NOTHING.recipe: 3e-5})).hypotheses == ()


def test_a_design_that_explains_is_not_left_for_another_one(tiers):
    other = Hypothesis("other", (), RIGHT.with_({"norm_order": "pre"}))
    tiers([NOTHING, ONE, other])
    session = Session({ONE.recipe: 0.0, other.recipe: 0.0})
    assert find(session).hypotheses == (ONE,)
    assert other.recipe not in session.asked


def test_no_recipe_is_tried_twice_in_a_tier(tiers):
    tiers([NOTHING, hypothesis(design="another name"), ONE])
    session = Session()
    assert find(session).tried == 2
    assert session.asked == [NOTHING.recipe, ONE.recipe]


class Slow(Session):
    """For each comparison so many seconds are counted."""

    seconds = 1.0

    def error(self, *args, **options):
        kits_clock.count(self.seconds)
        return super().error(*args, **options)


def test_it_gives_up_after_so_many_seconds(tiers):
    tiers([NOTHING, ONE, TWO, BOTH])
    assert find(Slow(), seconds=2.5).tried == 3


def test_seconds_unless_given(tiers):
    for seconds, tried in ((search.SECONDS - 0.1, 2), (search.SECONDS, 1)):
        tiers([NOTHING, ONE])
        session = Slow()
        session.seconds = seconds
        assert find(session).tried == tried


def test_how_long_it_really_takes_is_all_the_same(tiers, monkeypatch):
    monkeypatch.setattr(kits_clock.time, "process_time", iter(range(0, 10**6, 1000)).__next__)
    tiers([NOTHING, ONE, TWO, BOTH])
    assert find(Session(), seconds=1.0).tried == 4


def test_padding_that_got_lost_goes_with_any_other(tiers):
    lost = next(c for c in changes_of(KINDS["Transformer"]) if (c.id, c.form) == search.PADDING_LOST)
    both = search._and(hypothesis(DDOF), lost)
    assert both == Hypothesis("", (DDOF, lost), RIGHT.with_({"ddof": 1, **dict(lost.entries)}))
    for failed, expected in (("gap", (both,)), ("another probe", ())):
        tiers([NOTHING], [ONE])
        assert find(Session({both.recipe: 0.0}, kind="Transformer", failed=failed)).hypotheses == expected
    tiers([NOTHING], [ONE])
    assert find(Session({both.recipe: 0.0}, kind="LayerNorm", failed="gap")).hypotheses == ()


# ---- What fits alike ----


def chosen(pairs, everywhere=()):
    return search._chosen(Session(everywhere=everywhere), pairs, 7)


def test_the_simplest_first_and_others_beside_it():
    match = chosen([(1e-15, ONE), (1e-12, TWO)], {ONE.recipe: 0.0, TWO.recipe: 0.0})
    assert (match.hypotheses, match.error, match.tried) == ((ONE, TWO), 1e-15, 7)


def test_what_only_supposes_more_is_no_other_explanation():
    assert chosen([(0.0, ONE), (0.0, BOTH)], {ONE.recipe: 0.0, BOTH.recipe: 0.0}).hypotheses == (ONE,)


def test_where_outputs_do_not_count_tells_apart():
    assert chosen([(0.0, ONE), (0.0, TWO)], {ONE.recipe: 0.5, TWO.recipe: 0.0}).hypotheses == (TWO,)
    assert chosen([(0.0, ONE), (0.0, TWO)], {ONE.recipe: 0.5, TWO.recipe: 0.4}).hypotheses == (ONE, TWO)
    assert chosen([(0.0, ONE), (0.0, TWO)], {ONE.recipe: 4.0, TWO.recipe: 0.4}).hypotheses == (ONE, TWO)
    assert chosen([(0.0, ONE), (0.0, TWO)], {ONE.recipe: 4.1, TWO.recipe: 0.4}).hypotheses == (TWO,)
    assert chosen([(0.0, ONE), (0.0, TWO)], {ONE.recipe: EXACT, TWO.recipe: 0.0}).hypotheses == (ONE, TWO)


def test_rounded_ones_must_be_as_near_as_the_nearest():
    everywhere = {ONE.recipe: 0.0, TWO.recipe: 0.0}
    assert chosen([(1e-6, ONE), (9e-6, TWO)], everywhere).hypotheses == (ONE, TWO)
    assert chosen([(1e-6, ONE), (1.1e-5, TWO)], everywhere).hypotheses == (ONE,)
    assert chosen([(EXACT, ONE), (1.1 * EXACT, TWO)], everywhere).hypotheses == (ONE,)
    assert chosen([(EXACT / 100, ONE), (EXACT, TWO)], everywhere).hypotheses == (ONE, TWO)


def test_the_first_of_those_with_the_same_mistakes():
    small, smaller = hypothesis(TINY), hypothesis(TINIER)
    session = Session()
    match = search._chosen(session, [(0.0, small), (0.0, smaller)], 2)
    assert match.hypotheses == (small,)
    assert session.asked == []  # nothing to tell apart
    assert match.twins == {"LN3": ("1e-12",)}
    match = chosen(
        [(0.0, ONE), (0.0, small), (0.0, smaller)], dict.fromkeys((x.recipe for x in (ONE, small, smaller)), 0.0)
    )
    assert match.hypotheses == (ONE, small)


def test_twins_are_other_forms_with_words():
    wordless = hypothesis(Change("LN3", "", (("eps", 0.5),)))
    forms = [hypothesis(TINY), hypothesis(TINIER), wordless, hypothesis(TINY), hypothesis(TINIER)]
    assert search._twins(forms[0], forms) == {"LN3": ("1e-12",)}
    assert search._twins(wordless, forms) == {"LN3": ()}
    assert search._twins(NOTHING, forms) == {}
    both = hypothesis(DDOF, TINY)
    assert search._twins(both, [both, hypothesis(DDOF, TINIER)]) == {"LN1": (), "LN3": ("1e-12",)}


# ---- What is tried, and in which order ----


@pytest.fixture
def tried(monkeypatch):
    """The tiers of a kind with these mistakes, of which designs and fits are given."""
    fit = ("LN3", "0.5", {"eps": 0.5})

    def tiers(parts=(), designs=(("", {}),), mistakes=("LN1", "LN2", "LN3:1e-6", "LN7:over the batch"), **known):
        ids, seen = KINDS["LayerNorm"].ids, []
        kind = SimpleNamespace(name="LayerNorm", mistakes=mistakes, designs={"": {}}, ids=ids, inputs=("x",))
        nothing = {"explained": None, "shown": {}, "missing": (), "is_tried": False, "module": None, "limits": []}
        nothing |= {"definition": None, "speaks_of_padding": True}
        candidate = SimpleNamespace(**nothing | known)
        session = SimpleNamespace(
            kind=kind, candidate=candidate, variants=SimpleNamespace(kind=kind), ran=[], asked=(), settings={}
        )
        monkeypatch.setattr(changes_tried, "is_evident", lambda variants, entries, missing: False)
        monkeypatch.setattr(search, "of_session", lambda session, known: seen.append(known) or list(designs))
        monkeypatch.setattr(
            search, "fitted", lambda session, recipes: seen.append(recipes) or [[fit, ("LN1", "", {"ddof": 1})]]
        )
        found = [(is_last, list(tier)) for is_last, tier in search._tiers(session, parts)]
        return found, seen

    return tiers


BATCH = Change("LN7", "over the batch", (("norm_dims", "batch"),))
FIT = (Change("LN3", "0.5", (("eps", 0.5),)), DDOF)
SINGLE = [(DDOF,), (EPS,), (TINY,), (BATCH,)]
PAIRS = [(DDOF, EPS), (DDOF, TINY), (DDOF, BATCH), (EPS, TINY), (EPS, BATCH), (TINY, BATCH)]
OFTEN = [(DDOF, EPS), (DDOF, TINY), (EPS, TINY), (DDOF, EPS, TINY), (DDOF, EPS, BATCH), (DDOF, EPS, TINY, BATCH)]


def changes(tier):
    return [h.changes for h in tier]


def test_from_none_to_two_mistakes(tried):
    tiers, seen = tried()
    assert [is_last for is_last, _ in tiers] == [False] * 6 + [True]
    nothing, of_parts, more_of_parts, single, fits, together, pairs = (changes(tier) for _, tier in tiers)
    assert (nothing, of_parts, more_of_parts) == ([()], [], [])
    assert single == SINGLE
    assert fits == [FIT]
    assert together == OFTEN
    assert pairs == PAIRS
    assert seen == [[], [RIGHT]]


def test_what_is_known_of_the_parts_comes_first(tried):
    part = Diagnosis(
        "LayerNorm",
        "mistake",
        1.0,
        "",
        (Finding(MISTAKES["LN2"], "", "", {}),),
        recipe=RIGHT.with_({"eps_inside": False}),
    )
    tiers, seen = tried(["LN1", part, "LN1", "A1"])
    assert seen[0] == [part]
    assert [is_last for is_last, _ in tiers] == [False] * 6 + [True, True]
    assert changes(tiers[1][1]) == [(EPS,)]
    assert changes(tiers[2][1]) == [(DDOF,)]
    assert changes(tiers[6][1]) == [(EPS, DDOF), (EPS, TINY), (EPS, BATCH)]


def test_several_known_mistakes_all_at_once_and_then_fewer(tried):
    tiers, _ = tried(["LN1", "LN3", "LN7"])
    assert changes(tiers[1][1]) == [(DDOF, TINY, BATCH)]
    assert changes(tiers[2][1]) == [(DDOF, TINY), (DDOF, BATCH), (TINY, BATCH), (DDOF,), (TINY,), (BATCH,)]
    assert changes(tiers[6][1]) == [(DDOF, TINY, BATCH, EPS)]


def test_known_mistakes_that_exclude_each_other_are_tried_one_by_one(tried):
    tiers, _ = tried(["A5", "A6"], mistakes=("A5:sees the future only", "A6:hides the diagonal"))
    assert [{c.id for c in h.changes} for h in tiers[1][1]] == [{"A5"}] * len(search.FILLS)
    assert [{c.id for c in h.changes} for h in tiers[2][1]] == [{"A6"}] * len(search.FILLS)


def test_every_design_has_them_all(tried):
    designs = [("pre", {"norm_order": "pre"}), ("post", {})]
    tiers, seen = tried(designs=designs)
    assert [(h.design, h.recipe) for h in tiers[0][1]] == [("pre", RIGHT.with_({"norm_order": "pre"})), ("post", RIGHT)]
    assert [h.design for h in tiers[3][1]] == ["pre"] * 4 + ["post"] * 4
    assert tiers[3][1][0].recipe == RIGHT.with_({"norm_order": "pre", "ddof": 1})
    assert seen[1] == [RIGHT.with_({"norm_order": "pre"}), RIGHT]


def test_after_it_was_tried_with_every_design_one_mistake_besides_the_known_ones_goes_before_one_alone(tried):
    tiers, _ = tried(["LN1"], is_tried=True)
    assert changes(tiers[3][1]) == [(DDOF, EPS), (DDOF, TINY), (DDOF, BATCH)]
    assert changes(tiers[4][1]) == SINGLE


def test_of_many_designs_the_likeliest_are_tried_with_one_mistake_besides_the_known_ones_before_all_with_one(
    tried, monkeypatch
):
    designs = [(str(n), {}) for n in range(search.MOST_DESIGNS + 1)]
    monkeypatch.setattr(search, "_nearest", lambda session, designs, shown: designs)
    tiers, _ = tried(["LN1"], designs)
    assert [(h.design, h.changes) for h in tiers[3][1]] == [
        (name, (DDOF, other)) for name in "01" for other in (EPS, TINY, BATCH)
    ]
    assert {h.design for h in tiers[4][1]} == {name for name, _ in designs}


def test_what_its_numbers_have_shown_is_tried_first_with_the_parts_mistakes(tried):
    part = Diagnosis("LayerNorm", "mistake", 1.0, "", (Finding(MISTAKES["LN1"], ""),), recipe=RIGHT.with_({"ddof": 1}))
    designs = [("pre", {"norm_order": "pre"}), ("post", {"norm_order": "post"})]
    tiers, _ = tried([part], designs, shown={"norm_order": "post"}, explained=RIGHT)
    assert [(h.design, h.ids) for _, tier in tiers[:2] for h in tier] == [("post", ()), ("post", ("LN1",))]
    assert [h.design for h in tiers[2][1]] == ["pre", "post"]


def test_of_many_designs_the_nearest_that_the_parts_show_come_first():
    near = {"a": 3.0, "b": 1.0, "c": 2.0, "d": 0.0}
    session = SimpleNamespace(near=lambda recipe: near[recipe.activation])
    designs = [(name, {"activation": name, "norm_order": "pre" if name == "d" else "post"}) for name in near]
    found = search._nearest(session, designs, {"norm_order": "post"})
    assert [name for name, _ in found] == ["b", "c", "a", "d"]
    many = [(str(n), {"norm_order": "pre"}) for n in range(60)]
    assert len(search._nearest(session, designs + many, {"norm_order": "post"})) == search.MOST_NEAR


def test_a_mistake_goes_before_its_design():
    (found,) = search.with_changes([("", {"eps": 7.0})], [(TINY,)])
    assert found.recipe.eps == 1e-6


def test_rows_that_a_mistake_empties_may_be_filled_in_each_way():
    causal = Change("A5", "f", (("causal", "future"),))
    found = list(search.with_changes([("", {})], [(causal,)]))
    assert [h.recipe.fill for h in found] == list(search.FILLS)
    assert {h.changes for h in found} == {(causal,)}
    filled = Change("A11", "NaN", (("fill", "-inf"),))
    assert [h.recipe.fill for h in search.with_changes([("", {})], [(causal, filled)])] == ["-inf"]
    assert [h.recipe.fill for h in search.with_changes([("", {"fill": "-1e4"})], [(DDOF,)])] == ["-1e4"]


def test_what_explained_it_while_it_was_resolved_is_told_by_its_mistakes():
    explained = RIGHT.with_({"norm_order": "pre", "memory_mask": "none", "eps": 1e-6})
    session = SimpleNamespace(candidate=SimpleNamespace(explained=explained, shown={"norm_order": "pre"}, limits=[]))
    changes = changes_of(KINDS["DecoderLayer"])
    assert {change.id for change in search._explained(session, changes)} == {"A22", "LN3"}
    session.candidate.explained = None
    assert search._explained(session, changes) == ()
