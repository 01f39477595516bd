"""Few queries or few keys in bfloat16: what is rounded, and to what; masks, bands, norms; when it is done so."""

import math
from types import SimpleNamespace

import pytest
import torch

from reference_tests.agreement import differentiate
from reference_tests.attention.tiled.others import builtin, draw, naive, tiled, visible
from scratch_transformer.attention import explain
from scratch_transformer.attention.tiled import few, forward, note, products, workers
from scratch_transformer.attention.tiled.problem import Problem
from scratch_transformer.conformance.measures import error_ratio

pytestmark = pytest.mark.usefixtures("small_tiles")

CPU = torch.device("cpu")
B, H, G, T, S, D, DV = 2, 6, 3, 5, 29, 7, 4


@pytest.fixture(autouse=True)
def multiplies(monkeypatch):
    """As on a processor that does."""
    monkeypatch.setattr(products, "multiplies_bfloat16", lambda: True)


@pytest.fixture
def taken(monkeypatch):
    """The problems that were computed here."""
    seen = []
    original = few.forward
    monkeypatch.setattr(few, "forward", lambda problem, *args: seen.append(problem) or original(problem, *args))
    return seen


def qkv(queries=T, factor=1.0):
    shapes = (H, queries, D), (G, S, D), (G, S, DV)
    query, *others = (draw(B, *shape).bfloat16() for shape in shapes)
    return [query * factor, *others]


MASKS = {
    "none": lambda: None,
    "bool": lambda: torch.rand(B, 1, T, S) < 0.6,
    "one key": lambda: (torch.arange(S) == 2).expand(T, S),
    "float": lambda: torch.randn(H, T, S),
    "low": lambda: torch.zeros(B, 1, 1, S).masked_fill(torch.rand(B, 1, 1, S) < 0.5, -1e9),
}
BANDS = [{}, {"is_causal": True}, {"is_causal": True, "bottom_right": True}, {"window": (3, 2)}]


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("options", BANDS, ids=str)
@pytest.mark.parametrize("factor", [1.0, 4.0])
def test_as_exact_as_the_builtin(mask, options, factor, taken):
    """By the doctrine, against float64: 2 times its error beside a rounding, and 3 times in gradients.

    (Gradients are small differences, which the rounded result decides, where scores are large or keys are few.)
    """
    mask, q = mask(), qkv(factor=factor)
    ours, theirs = (
        differentiate(lambda *x, f=f: f(*x, mask, enable_gqa=True, **options), *q) for f in (tiled, builtin)
    )
    wide = mask.double() if mask is not None and mask.is_floating_point() else mask
    golden = differentiate(lambda *x: naive(*x, wide, enable_gqa=True, **options), *(x.double() for x in q))
    assert taken
    assert ours["result"].dtype == torch.bfloat16
    assert error_ratio(ours["result"], theirs["result"], golden["result"], 2) <= 2
    for gradients in zip(ours["gradient"], theirs["gradient"], golden["gradient"], strict=True):
        assert factor > 1 or options or error_ratio(*gradients, 3) <= 3


def test_only_the_weights_and_the_result_are_rounded():
    """Scores are those of float32, though they are large: the weights of 2 ** score, divided by their sum, once."""
    query, key, value = (x[:1, :1] for x in qkv(1, factor=30.0))
    scores = (query.double() @ key.double().mT) / math.sqrt(D)
    weights = scores.softmax(-1).float().bfloat16()
    expected = (weights.double() @ value.double()).bfloat16()
    assert torch.allclose(tiled(query, key, value), expected, rtol=2**-8, atol=1e-5)


def test_norms_are_those_of_all_scores():
    """A = 2 ** (score - shift) / total, as the backward pass takes it."""
    query, key, value = qkv()
    problem = Problem.of(query, key, value, None, None, 0.0, None, 2, 0.3)
    shape = problem.query.shape[:-1]
    out, norms = query.new_empty(*shape, DV), problem.like.new_empty(*shape, 2)
    forward.forward(problem, out, norms)
    exponents = problem.exponent_scale * problem.query.double() @ problem.key.double().unsqueeze(2).mT
    exponents.masked_fill_(~visible(T, S, window=(None, 2)), -math.inf)
    found = torch.exp2(exponents - norms[..., :1]) / norms[..., 1:]
    assert torch.allclose(found, (exponents * math.log(2)).softmax(-1), atol=1e-6)
    assert (norms[..., 0] == exponents.amax(-1).float()).all() or torch.allclose(
        norms[..., 0].double(), exponents.amax(-1), rtol=1e-6
    )


@pytest.mark.parametrize("form", ["bool", "float"])
def test_who_may_attend_to_nothing_gets_zeros(form, taken):
    allowed = torch.rand(B, 1, T, S) < 0.6
    allowed[0, :, 2] = False
    mask = allowed if form == "bool" else torch.zeros(allowed.shape).masked_fill(~allowed, -math.inf)
    outcome = differentiate(lambda *x: tiled(*x, mask, enable_gqa=True), *qkv())
    assert (outcome["result"][0, :, 2] == 0).all()
    assert (outcome["result"][1] != 0).any()
    assert all(gradient.isfinite().all() for gradient in outcome["gradient"])
    assert (outcome["gradient"][0][0, :, 2] == 0).all()
    assert taken


def test_a_band_without_keys():
    """The last queries see none: whole blocks of them."""
    query, key, value = qkv(40)
    out = tiled(query, key[:, :, :2], value[:, :, :2], enable_gqa=True, window=(1, 0))
    assert (out[:, :, 3:] == 0).all()
    assert (out[:, :, :3] != 0).any(-1).all()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("over", [math.inf, -math.inf])
@pytest.mark.parametrize("held", [1, 60, 1 << 21])
def test_whatever_is_held_at_a_time(threads, over, held, monkeypatch):
    monkeypatch.setattr(few, "HELD", held)
    monkeypatch.setattr(workers._crowd, "over", over)
    query, key, value = qkv()
    expected = naive(query.double(), key.double(), value.double(), enable_gqa=True)
    usual = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        out = tiled(query, key, value, enable_gqa=True)
    finally:
        torch.set_num_threads(usual)
    assert (out - expected).abs().max() < 2**-6


@pytest.mark.parametrize("held, heads", [(1, 1), (2 * T * S, 1), (2 * 2 * T * S, 2)])
def test_no_more_scores_are_held_than_that(held, heads, monkeypatch):
    """`T` queries of 2 heads share each key: of one head at least."""
    monkeypatch.setattr(few, "HELD", held)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    seen = []
    original = few._attend
    monkeypatch.setattr(
        few, "_attend", lambda p, block, *args: seen.append(block.h1 - block.h0) or original(p, block, *args)
    )
    monkeypatch.setattr(forward.tile, "QUERIES", 99)
    monkeypatch.setattr("scratch_transformer.attention.tiled.problem.TILE", 4 * 2 * T * 3)
    tiled(*qkv(), enable_gqa=True)
    assert max(seen) == heads


def test_tiles_of_few_heads_have_more_keys(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)  # held-up threads would share the heads out
    query, key, value = qkv()
    cut = Problem.of(query, key, value, None, None, 0.0, None, None, 1.0)
    (first, *_) = cut.blocks()
    lengths = [keys.stop - keys.start for keys in cut.key_tiles(first, 12)]
    assert lengths == [12, 12, 5]
    assert [keys.stop - keys.start for keys in cut.key_tiles(first, 1)] == [3] * 9 + [2]
    seen = []
    original = Problem.key_tiles
    monkeypatch.setattr(few, "HELD", 2 * cut.rows * S)  # two heads are taken at a time
    monkeypatch.setattr(few, "WIDENED", 8 * D * 2)
    monkeypatch.setattr(Problem, "key_tiles", lambda p, block, least=0: seen.append(least) or original(p, block, least))
    few.forward(
        cut, torch.empty(*cut.query.shape[:-1], DV, dtype=query.dtype), cut.like.new_empty(*cut.query.shape[:-1], 2)
    )
    assert set(seen) == {8}


@pytest.mark.parametrize("tiles", [[slice(0, S)], [slice(0, 20), slice(20, S)]], ids=["one", "two"])
def test_scores_of_several_tiles_lie_beside_each_other(tiles):
    """Those of one are not copied."""
    query, key, value = (x[:1, :1] for x in qkv())
    cut, scratch = Problem.of(query, key, value, None, None, 0.0, None, None, 1.0), workers.Scratch(torch.float32, CPU)
    (block, *_) = cut.blocks()
    scores = few._scores(cut, block, tiles, scratch)
    expected = math.log2(math.e) * query[0, 0, block.t0 : block.t1].double() @ key[0].double().mT
    assert torch.allclose(scores.double(), expected, rtol=1e-5, atol=1e-5)
    is_copied = "all scores" in {name for name, _ in scratch._buffers}
    assert is_copied == (len(tiles) > 1)


@pytest.mark.parametrize(
    "dtype, device, rows, keys, dropout_p, expected",
    [
        (torch.bfloat16, CPU, few.FEW, 10**6, 0.0, True),
        (torch.bfloat16, CPU, few.FEW + 1, few.FEW_KEYS + 1, 0.0, False),
        (torch.bfloat16, CPU, 10**6, few.FEW_KEYS, 0.0, True),
        (torch.bfloat16, CPU, 1, 1, 0.1, False),
        (torch.float16, CPU, 1, 1, 0.0, False),
        (torch.float32, CPU, 1, 1, 0.0, False),
        (torch.bfloat16, torch.device("meta"), 1, 1, 0.0, False),
    ],
    ids=str,
)
def test_whom_it_suits(dtype, device, rows, keys, dropout_p, expected, monkeypatch):
    assert few.suits(dtype, device, rows, keys, dropout_p) is expected
    monkeypatch.setattr(products, "multiplies_bfloat16", lambda: False)
    assert not few.suits(dtype, device, rows, keys, dropout_p)


@pytest.mark.parametrize("queries, is_taken", [(few.FEW // 2, True), (few.FEW // 2 + 1, False)])
def test_heads_that_share_a_key_count_together(queries, is_taken, taken):
    query, key, value = qkv(queries)
    key, value = (x.repeat(1, 1, few.FEW_KEYS // S + 1, 1) for x in (key, value))
    tiled(query, key, value, enable_gqa=True)
    assert bool(taken) == is_taken
    words = "; weights of few queries or keys are rounded to bfloat16; products "
    said = explain(query, key, value, enable_gqa=True, algorithm="tiled").splitlines()[0]
    assert (words in said) == is_taken
    for one in (0, (0, 0)):  # without a batch, and without heads
        assert words in explain(*(x[one][..., :9, :] for x in (query[:, :G], key, value)), algorithm="tiled")


@pytest.mark.parametrize("shape, rows", [((T, D), T), ((H, T, D), H // G * T), ((B, H, T, D), H // G * T)])
def test_rows_are_the_queries_that_share_a_key(shape, rows, monkeypatch):
    """As they are asked for in words."""
    seen = []
    monkeypatch.setattr(few, "suits", lambda dtype, device, rows, *_: seen.append(rows))
    of_keys = [*shape[:-3], *[G] * (len(shape) > 2), S, D]
    note(torch.empty(shape), torch.empty(of_keys), 0.0)
    assert seen == [rows]
    assert type(seen[0]) is int


def test_its_time_tells_whether_cores_are_held(taken, monkeypatch):
    seen = []
    original = workers.run
    monkeypatch.setattr(workers, "run", lambda *args: seen.append(args[-1]) or original(*args))
    tiled(*qkv(), enable_gqa=True)
    assert seen == [taken[0].flops]


@pytest.mark.parametrize("times, expected", [(0.5, False), (1.2, False), (1.4, True)])
def test_measured_by_the_fastest_of_some(times, expected, monkeypatch):
    """By a clock on which products in bfloat16 take 3 seconds, others so many times as many, and two longer."""
    now, asked, products_of = [0.0], [0], []

    def clock():
        asked[0] += 1
        if asked[0] % 2 == 0:
            now[0] += (3 if products_of[-1] == torch.bfloat16 else 3 * times) * (50 if asked[0] < 5 else 1)
        return now[0]

    original = torch.bmm
    monkeypatch.setattr(products, "time", SimpleNamespace(perf_counter=clock))
    monkeypatch.setattr(torch, "bmm", lambda a, b: products_of.append(a.dtype) or original(a, b))
    assert MULTIPLIES() is expected
    assert set(products_of) == {torch.float32, torch.bfloat16}


MULTIPLIES = products.multiplies_bfloat16.__wrapped__


def test_many_queries_of_few_keys(taken):
    """In many blocks, each with the keys that its band leaves."""
    query, key, value = qkv(100)
    options = {"enable_gqa": True, "window": (30, 40)}
    ours, theirs, golden = (
        tiled(query, key, value, **options),
        *(builtin(*(x.to(dtype) for x in (query, key, value)), **options) for dtype in (torch.bfloat16, torch.float64)),
    )
    assert len(taken) == 1
    assert taken[0].rows > few.FEW
    seen = visible(100, S, window=(30, 40)).any(-1)
    assert error_ratio(ours[:, :, seen], theirs[:, :, seen], golden[:, :, seen], 2) <= 2
    assert (ours[:, :, ~seen] == 0).all()


def test_beside_the_builtin_decoding(taken):
    """One query of a cache, as it comes from generating: bottom right, so that it sees all."""
    query, key, value = qkv(1)
    options = {"enable_gqa": True, "is_causal": True, "bottom_right": True}
    assert (tiled(query, key, value, **options) - builtin(query, key, value, enable_gqa=True)).abs().max() < 2**-6
    assert len(taken) == 1
