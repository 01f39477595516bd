"""Tiled attention is torch's and the naive one: over the whole signature, in many small tiles."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reference_tests.agreement import assert_equal
from reference_tests.attention.tiled.others import assert_right, builtin, draw, naive, tiled
from scratch_transformer.attention.tiled import is_transformed, run, unsupported

pytestmark = pytest.mark.usefixtures("small_tiles")

B, H, T, S, D, DV = 2, 3, 7, 11, 5, 6
BANDS = {
    "full": {},
    "causal": {"is_causal": True},
    "bottom right": {"is_causal": True, "bottom_right": True},
    "window": {"window": (2, 1)},
    "to the left": {"window": (3, None)},
    "to the right": {"window": (None, 2)},
    "itself": {"window": (0, 0)},
    "causal window": {"is_causal": True, "window": (4, 3)},
    "window at the bottom right": {"bottom_right": True, "window": (2, 3)},
}
every_band = pytest.mark.parametrize("band", BANDS.values(), ids=BANDS)


def draw_qkv(batch=(B, H), queries=T, keys=S, width=D, value_width=DV):
    return draw(*batch, queries, width), draw(*batch, keys, width), draw(*batch, keys, value_width)


@every_band
@pytest.mark.parametrize("lengths", [(7, 11), (11, 7), (12, 12), (1, 11), (11, 1), (1, 1), (15, 2)], ids=str)
def test_bands(band, lengths):
    """With many queries and few keys, windows leave whole blocks of queries without any."""
    assert_right(*draw_qkv((2,), *lengths), **band)


def test_plain_attention_unless_something_is_asked_for():
    """No dropout, no band; and one is at the top left."""
    qkv = draw_qkv()
    for options in ({}, {"is_causal": True}):
        assert_equal(run(*qkv, **options), builtin(*qkv, **options))


@pytest.mark.parametrize("batch", [(), (B,), (B, H), (4, B, H), (2, 2, B, H)], ids=str)
def test_ranks(batch):
    assert_right(*draw_qkv(batch))
    assert_right(*draw_qkv(batch), draw(T, S), is_causal=True)
    if len(batch) > 2:
        assert_right(*draw_qkv(batch), torch.rand(B, H, T, S) < 0.6)
        assert_right(*draw_qkv(batch), draw(batch[0], *(1,) * (len(batch) - 2), H, 1, S))


SIZES = list(itertools.product((1, B), (1, H), (1, T), (1, S)))
MASK_SHAPES = [*SIZES, *{size[1:] for size in SIZES}, *{size[2:] for size in SIZES}]


@pytest.mark.parametrize("form", ["bool", "float", "float with -inf"])
@pytest.mark.parametrize("shape", sorted(MASK_SHAPES, key=lambda shape: (len(shape), shape)), ids=str)
def test_masks_of_every_shape(shape, form):
    """Some rows see nothing. Float masks get their gradients, summed over what they were broadcast over."""
    allowed = torch.rand(shape) < 0.6
    additive = draw(*shape)
    mask = {"bool": allowed, "float": additive, "float with -inf": additive.masked_fill(~allowed, -torch.inf)}[form]
    assert_right(*draw_qkv(), mask)


@pytest.mark.parametrize("form", ["bool", "float"])
@pytest.mark.parametrize("shape", [(S,), ()], ids=str)
def test_masks_of_fewer_dimensions_than_torch_takes(shape, form):
    mask = torch.tensor(True).expand(shape) if form == "bool" else torch.randn(shape, dtype=torch.float64)
    qkv = draw_qkv()
    assert_equal(tiled(*qkv, mask), naive(*qkv, mask))


@every_band
@pytest.mark.parametrize("form", ["bool", "float"])
def test_bands_and_masks_together(band, form):
    mask = torch.rand(B, 1, T, S) < 0.6 if form == "bool" else draw(H, T, S)
    assert_right(*draw_qkv(), mask, **band)


@pytest.mark.parametrize("groups", [1, 2, 6], ids=str)
@pytest.mark.parametrize("mask_shape", [None, (B, 6, T, S), (6, 1, S), (B, 1, T, 1)], ids=str)
def test_grouped_queries(groups, mask_shape):
    qkv = draw(B, 6, T, D), draw(B, groups, S, D), draw(B, groups, S, DV)
    mask = None if mask_shape is None else draw(*mask_shape)
    assert_right(*qkv, mask, is_causal=True, enable_gqa=True)


@pytest.mark.parametrize("scale", [0.37, -0.5, 1e-9, 0.0, 40.0], ids=str)
@pytest.mark.parametrize("form", [None, "bool", "float"], ids=str)
def test_scale(scale, form):
    mask = {None: None, "bool": torch.rand(T, S) < 0.6, "float": draw(T, S)}[form]
    assert_right(*draw_qkv(), mask, scale=scale)


def not_contiguous():
    query, key, value = (draw(B, n, H, width).transpose(1, 2) for n, width in ((T, D), (S, D), (S, DV)))
    yield "heads beside the width", (query, key, value)
    yield "of a packed projection", tuple(draw(B, T, H, 3 * D).transpose(1, 2).chunk(3, dim=-1))
    yield "one key for all heads", (query, key[:, :1].expand(-1, H, -1, -1), value)
    yield "one key for all", (query, key[:1, :1].expand(B, H, -1, -1), value[:1].expand(B, -1, -1, -1))
    yield "one query for all", (query[:1, :, :1].expand(B, -1, T, -1), key, value)
    yield "every other number", tuple(x[..., ::2] for x in draw_qkv())
    yield "every other row", tuple(x[..., 1::2, :] for x in draw_qkv(queries=2 * T))
    yield "every other head", tuple(x[:, ::2] for x in draw_qkv())
    yield "transposed", (draw(H, B, D, T).mT.transpose(0, 1), draw(B, H, D, S).mT, draw(B, H, DV, S).mT)


STRIDED = dict(not_contiguous())


@pytest.mark.parametrize("qkv", STRIDED.values(), ids=STRIDED)
@pytest.mark.parametrize("is_causal", [False, True])
def test_inputs_that_are_not_contiguous(qkv, is_causal):
    assert_right(*qkv, is_causal=is_causal)


def test_masks_that_are_not_contiguous():
    assert_right(*draw_qkv(), draw(S, T, H, B).permute(3, 2, 1, 0))
    assert_right(*draw_qkv(), (torch.rand(B, 1, 1, S) < 0.6).expand(-1, H, T, -1))
    assert_right(*draw_qkv(), draw(B, 2 * H, T, 2 * S)[:, ::2, :, 1::2])


@st.composite
def calls(draw_one):
    """Arguments of a call, from any corner of the signature."""
    choose = lambda *options: draw_one(st.sampled_from(options))  # noqa: E731
    size = lambda most: draw_one(st.integers(1, most))  # noqa: E731
    batch, groups, shared, length, keys = size(3), size(3), size(3), size(14), size(14)
    torch.manual_seed(draw_one(st.integers(0, 999)))
    query = draw(batch, groups * shared, length, width := size(6)) * choose(1.0, 4.0)
    key, value = draw(batch, groups, keys, width), draw(batch, groups, keys, size(6))
    shape = [choose(1, n) for n in (batch, groups * shared, length, keys)]
    mask = choose(None, torch.rand(shape) < 0.7, draw(*shape), draw(*shape).masked_fill_(torch.rand(shape) < 0.3, -1e9))
    side = st.none() | st.integers(0, 15)
    return (query, key, value, mask), {
        "is_causal": choose(False, True),
        "bottom_right": choose(False, True),
        "window": (draw_one(side), draw_one(side)),
        "scale": choose(None, 0.3, -1.5),
        "enable_gqa": True,
    }


@given(calls())
def test_anything(call):
    args, kwargs = call
    assert_right(*args, **kwargs)


# ---- What it leaves to others ----

LARGER = {
    "more batches": ((3, 1, 4, 5), (1, 2)),
    "more heads": ((1, 6, 4, 5), (1, 1)),
    "more dimensions": ((1, 1, 4, 5), (2,)),
}


@pytest.mark.parametrize("shape, batch", LARGER.values(), ids=LARGER)
def test_a_mask_larger_than_the_scores(shape, batch):
    qkv = draw_qkv(batch, 4, 5)
    assert unsupported(*qkv, torch.ones(shape)) == "query is broadcast over the mask"
    with pytest.raises(RuntimeError, match="'tiled' can't run this call: query is broadcast over the mask"):
        tiled(*qkv, torch.ones(shape, dtype=torch.bool))


@pytest.mark.parametrize(
    "call, reason",
    [
        ([draw(2, 3, 4).long()] * 3, "torch.int64 is no floating-point dtype"),
        ([torch.empty(2, 3, 4, device="meta")] * 3, "tensors without data have no tiles"),
        ([torch.empty(0, 3, 4)] * 3, "a tensor is empty"),
        ([draw(2, 3, 4), draw(3, 4), draw(3, 4)], "query, key and value are broadcast"),
        ([draw(2, 2, 3, 4), draw(1, 2, 3, 4), draw(1, 2, 3, 4)], "query, key and value are broadcast"),
        ([draw(2, 3, 4), draw(2, 3, 4), draw(1, 3, 4)], "query, key and value are broadcast"),
        ([draw(1, 3, 4), draw(2, 3, 4), draw(2, 3, 4)], "query is broadcast over the heads of key"),
        ([*[draw(2, 3, 4)] * 3, None, 1.0], "dropout_p is 1.0: no weight is left to scale"),
        ([*[draw(2, 3, 4)] * 3, None, 1 - 1e-6], "dropout_p is 0.999999: no weight is left to scale"),
    ],
    ids=lambda x: x.replace(" ", "-") if isinstance(x, str) else "",
)
def test_unsupported(call, reason):
    assert unsupported(*call) == reason
    if not call[0].is_meta:
        assert unsupported(draw(2, 3, 4), draw(2, 3, 4), draw(2, 3, 4)) is None


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # within torch
def test_forward_mode_derivatives_are_refused_rather_than_lost():
    query, key, value = draw_qkv()
    with pytest.raises(RuntimeError, match="forward-mode derivatives"):
        torch.func.jvp(lambda x: tiled(x, key, value), (query,), (query,))
    with pytest.raises(RuntimeError, match="torch.func"):
        torch.func.grad(lambda x: tiled(x, key, value).sum())(query)
    with torch.autograd.forward_ad.dual_level(), pytest.raises(RuntimeError, match="forward-mode derivatives"):
        tiled(torch.autograd.forward_ad.make_dual(query, query), key, value)
    said = []
    torch.func.grad(lambda x: said.append(unsupported(x, key, value)) or x.sum())(query)
    assert said == ["forward-mode derivatives and torch.func look into every operation"]
    assert unsupported(query, key, value) is None


def test_who_sees_the_operator_whole_is_no_transform(monkeypatch):
    """As what compiles a graph does, which could not look into the two questions either."""
    said = []
    for is_compiling in (True, False):
        monkeypatch.setattr(torch.compiler, "is_compiling", lambda is_compiling=is_compiling: is_compiling)
        torch.func.vmap(lambda x: said.append(is_transformed()) or x)(torch.ones(2))
    assert said == [False, True]
