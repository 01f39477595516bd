"""What learners' styles of today do not show: positions along the heads, rotation before the split, tables given."""

from pathlib import Path

import pytest
import torch

from reference_tests.kit.learners.checked import IMPORTS, LESS, MORE, check_here, check_text, time_to_look, written
from reference_tests.kit.made import CanonicalCandidate, variant
from scratch_transformer.kit.canonical import rotary
from scratch_transformer.kit.judge import designs
from scratch_transformer.kit.judge.diagnose import diagnose
from scratch_transformer.kit.judge.session import distance
from scratch_transformer.kit.judge.variants import Variants
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.kinds.today import TODAY
from scratch_transformer.kit.mistakes.normalization import OF_RMS
from scratch_transformer.kit.recipe import RIGHT
from scratch_transformer.kit.report.finding import FINE
from scratch_transformer.kit.resolve import fitness
from scratch_transformer.kit.resolve.call import beside
from scratch_transformer.kit.resolve.weights import attention

pytestmark = pytest.mark.long

SHARED = {"d_model": 24, "num_heads": 6, "num_kv_heads": 3}


@pytest.mark.parametrize("order", ["interleaved", "halves"])
def test_a_rotation_keeps_lengths_and_scores_depend_on_distances(order):
    recipe = RIGHT.with_({"rotary": order})
    q, k = torch.randn(2, 1, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    turned = [[rotary.rotated(x, torch.tensor([t]), 1e4, recipe) for t in (3, 9)] for x in (q, k)]
    torch.testing.assert_close(turned[0][0].norm(), q.norm(), rtol=1e-12, atol=0)
    here, there = (
        (rotary.rotated(q, torch.tensor([t + 2]), 1e4, recipe) * turned[1][i]).sum() for i, t in enumerate((3, 9))
    )
    torch.testing.assert_close(here, there, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("order", ["interleaved", "halves"])
def test_taking_pairs_apart_and_joining_them_changes_nothing(order):
    x = torch.arange(12.0).reshape(2, 6)
    assert torch.equal(rotary.joined(*rotary.pairs(x, order), order), x)


@pytest.mark.parametrize("id, changes", [("R5", {"rotary_axis": "heads"}), ("R8", {"rotary_place": "all features"})])
@pytest.mark.parametrize("kind", ["RotaryAttention", "CausalRotaryAttention"])
def test_positions_in_the_wrong_place_are_named(kind, id, changes):
    assert id in diagnose(variant(kind, **changes)).ids


def test_heads_repeated_in_another_order_are_named_where_heads_share_keys():
    assert "G3" in diagnose(variant("CausalSelfAttention", SHARED, kv_order="all repeated")).ids
    assert diagnose(variant("CausalSelfAttention", SHARED)).verdict == "matches the builtin"


@pytest.mark.parametrize("which", ["keys alone", "values alone"])
def test_keys_of_one_head_and_values_of_another_are_a_mistake(which):
    found = diagnose(variant("CausalSelfAttention", SHARED, kv_order=which))
    assert (found.ids[0], found.findings[0].severity) == ("G3", "mistake")


GATED = """
class NAME(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.w1, self.w3, self.w2 = nn.Linear(d, h), nn.Linear(d, h), nn.Linear(h, d)

    def forward(self, x):
        return self.w2(ACTIVATION(self.w1(x)) * self.w3(x))
"""


@pytest.mark.parametrize(
    "name, activation, ids",
    [("SwiGLU", "F.silu", []), ("SwiGLU", "torch.sigmoid", ["G6"]), ("MLP", "torch.sigmoid", [])],
)
def test_swiglu_has_silu_and_a_width_called_h(name, activation, ids, tmp_path):
    result = check_text(GATED.replace("NAME", name).replace("ACTIVATION", activation), tmp_path)[name]
    assert (result.ids, result.error < 1e-12) == (ids, not ids), result


@pytest.mark.parametrize(
    "new, id",
    [
        ("self.w1(x) * F.silu(self.w3(x))", "G1"),
        ("F.silu(self.w1(x)) + self.w3(x)", "G2"),
        ("self.w1(x) * self.w3(x)", "G4"),
        ("F.silu(self.w1(x) * self.w3(x))", "G5"),
    ],
)
def test_the_line_of_a_gate_is_shown(new, id, tmp_path):
    text = GATED.replace("NAME", "SwiGLU").replace("ACTIVATION(self.w1(x)) * self.w3(x)", new)
    (found,) = check_text(text, tmp_path)["SwiGLU"].document()["mistakes"]
    line = int(found["where"].rpartition(":")[2])
    assert (found["id"], new in (IMPORTS + text).splitlines()[line - 1]) == (id, True), found["where"]


@pytest.mark.parametrize("settings", [SHARED, {"d_k": 7}, {**SHARED, "d_k": 5}])
@pytest.mark.parametrize("kind", ["MultiheadAttention", "SelfAttention", "CausalSelfAttention", "RotaryAttention"])
def test_the_reference_is_the_builtin_with_shared_and_other_heads(kind, settings):
    kind = KINDS[kind]
    turns = kind.name.startswith("Rotary")
    if turns and settings.get("d_k", 4) % 2:
        return
    recipe = RIGHT.with_({"rotary": "halves"} if turns else {})
    settings = kind.complete(settings)
    module = kind.reference(settings, recipe)
    for probe in kind.probes(settings, 1):
        expected = kind.oracle(settings, recipe, module.state_dict(), probe.inputs)
        torch.testing.assert_close(module(**probe.inputs), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", TODAY)
@pytest.mark.parametrize("settings", [{}, SHARED])
def test_two_sides_are_the_builtins_functions_put_together(name, settings):
    kind = TODAY[name]
    settings, every = kind.complete(settings), list(kind.designs.values())
    for changes in every[5 :: len(every) // 4]:
        recipe = RIGHT.with_(changes)
        module = kind.reference(settings, recipe)
        for probe in kind.probes(settings, 1):
            with torch.no_grad():
                expected = kind.oracle(settings, recipe, dict(module.state_dict()), probe.inputs)
            assert distance(module(**probe.inputs), expected, probe) < 1e-12


def test_the_kinds_of_the_paper_know_those_of_today():
    assert {name for name, kind in KINDS.items() if kind.today is not None} == set(TODAY)
    assert all(TODAY[name].inputs == KINDS[name].inputs for name in TODAY)


@pytest.mark.parametrize("name", ["Encoder", "Transformer", "LlamaModel", "Loss"])
def test_what_speaks_against_an_option_does_whatever_the_others_are(name):
    """Choices are narrowed one by one: the same designs are left as if each had been looked at."""
    kind = KINDS[name]
    variants = Variants(kind, kind.complete({}))
    every = set(kind.build(variants.settings, RIGHT.with_(kind.full)).state_dict())
    for changes in list(kind.designs.values())[:: max(len(kind.designs) // 7, 1)]:
        missing = frozenset(every - set(kind.build(variants.settings, RIGHT.with_(changes)).state_dict()))
        found = designs.possible(variants, missing, [], {})
        assert found == designs._fitting(variants, dict(kind.designs), missing, [], False)
        assert len(found) < len(kind.designs) or not missing


def test_a_block_with_shared_heads_and_a_gate_is_right():
    changes = {"gated": True, "activation": "silu", "norm_kind": "rms", "rotary": "interleaved", "norm_order": "pre"}
    candidate = CanonicalCandidate(KINDS["LlamaBlock"], SHARED, RIGHT.with_(changes))
    diagnosis = diagnose(candidate)
    assert diagnosis.verdict == "matches the builtin"
    assert diagnosis.design == "pre-norm, rotary positions, RMSNorm, SwiGLU"


# ---- Two sides in other combinations ----

TWO_SIDES = Path(__file__).parent / "learners" / "wild" / "both_sides.py"
OTHERWISE = {
    "both attentions": {
        "turned(q, *rope), turned(k, *rope)": "turned(q, *rope(q.shape[2])), turned(k, *rope(k.shape[2]))",
        "self.rope(x.shape[1])": "self.rope",
        "memory, src_mask)\n        return x": "memory, src_mask, rope)\n        return x",
    },
    "normalized queries and keys": {
        "        self.o = nn": "        self.qn, self.kn = RMSNorm(self.d), RMSNorm(self.d)\n        self.o = nn",
        "        if rope is not None:": "        q, k = self.qn(q), self.kn(k)\n        if rope is not None:",
    },
    "post-norm": {
        "y = self.norm1(x)\n        x = x + self.self_attention(y, y, tgt_mask, rope)": "x = self.norm1(x + "
        "self.self_attention(x, x, tgt_mask, rope))",
        "x = x + self.cross_attention(self.norm2(x), memory, src_mask)": "x = self.norm2(x + "
        "self.cross_attention(x, memory, src_mask))",
        "x + self.ffn(self.norm3(x))": "self.norm3(x + self.ffn(x))",
    },
    "pre-norm": {  # the norms made in another order than that of their use
        "self.norm1, self.norm2, self.norm3 = ": "self.norm_1, self.norm_ffn, self.norm_cross = ",
        "self.cross_attention(self.norm2(x)": "self.cross_attention(self.norm_cross(x)",
        "self.norm1(x)\n        x = x + self.self_": "self.norm_1(x)\n        x = x + self.self_",
        "self.norm3(x)": "self.norm_ffn(x)",
    },
    "no rotary positions, LayerNorm": {"RMSNorm(d_model)": "nn.LayerNorm(d_model)", "if rope is not None": "if False"},
}


@pytest.mark.parametrize("design", OTHERWISE)
def test_a_decoder_of_today_is_understood_in_any_combination(design, tmp_path):
    text = TWO_SIDES.read_text(encoding="utf-8")
    for old, new in OTHERWISE[design].items():
        assert old in text
        text = text.replace(old, new)
    with time_to_look(MORE):
        results = check_text(text, tmp_path, {"RMSNorm", "GatedFeedForward", "Attention", "DecoderLayer"})
    assert {name for name, result in results.items() if result.verdict not in FINE} == set()
    assert design in results["DecoderLayer"].design
    assert results["DecoderLayer"].replaced == []


OTHER_NAMES = {"RMSNorm": "Norm", "RotaryTable": "Angles", "rope": "table", "turned": "moved", "GatedFeed": "Feed"}


def test_what_its_parts_are_tells_of_today_where_no_name_does(tmp_path):
    text = TWO_SIDES.read_text(encoding="utf-8").partition('"""\n\n')[2]
    for old, new in OTHER_NAMES.items():
        text = text.replace(old, new)
    results = check_text(text, tmp_path, {"Norm", "FeedForward", "Attention", "DecoderLayer", "Decoder"})
    assert results["Norm"].kind == "RMSNorm"
    assert results["Decoder"].verdict in FINE and "RMSNorm, GEGLU" in results["Decoder"].design


ALONG = """
class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0, "d_model must be a multiple of num_heads"
        self.h = num_heads
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, x, rope=None, token_positions=None):
        q, k, v = (y.unflatten(-1, (self.h, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
"""


def test_positions_that_a_study_takes_along_and_does_not_read_are_no_mistake(tmp_path):
    """The same numbers as those of positions along the heads (R5), which would read them."""
    result = check_text(ALONG, tmp_path)["CausalSelfAttention"]
    assert (result.kind, result.ids) == ("CausalSelfAttention", [])


APART = """
class RoPE(nn.Module):
    def __init__(self, theta, d_k, max_seq_len):
        super().__init__()
        angles = torch.outer(torch.arange(max_seq_len), theta ** (-torch.arange(0, d_k, 2) / d_k))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, x, token_positions):
        cos, sin, (even, odd) = self.cos[token_positions], self.sin[token_positions], (x[..., ::2], x[..., 1::2])
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0, "d_model must be a multiple of num_heads"
        self.d_k = d_model // num_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, token_positions=None, rope=None):
        hidden = ~torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        heads = []
        for q, k, v in zip(*(f(x).split(self.d_k, dim=-1) for f in (self.q, self.k, self.v))):
            if rope is not None and token_positions is not None:
                q, k = rope(q, token_positions), TURNED
            scores = (q @ k.mT / math.sqrt(self.d_k)).masked_fill(hidden, -math.inf)
            heads.append(scores.softmax(-1) @ v)
        return self.o(torch.cat(heads, dim=-1))
"""


@pytest.mark.parametrize("turned, ids", [("rope(k, token_positions)", []), ("k", ["R4"])])
def test_what_turns_is_told_the_positions_that_it_is_called_with(turned, ids, tmp_path):
    """Without them nothing is turned, which gives the numbers of positions along the heads (R5)."""
    with time_to_look(1):
        result = check_text(APART.replace("TURNED", turned), tmp_path)["CausalSelfAttention"]
    assert ([m.id for m in result.mistakes], result.verdict) == (ids, "mistake" if ids else "matches the builtin")


@pytest.mark.parametrize("of_the_file", [True, False])
def test_the_kits_own_rotation_turns_one_head(of_the_file, tmp_path):
    text = APART.replace("TURNED", "rope(k, token_positions)")
    text = text if of_the_file else "class CausalSelfAttention" + text.partition("class CausalSelfAttention")[2]
    with time_to_look(1):
        result = check_text(text, tmp_path)["CausalSelfAttention"]
    assert (result.kind, result.verdict) == ("CausalRotaryAttention", "matches the builtin")


# ---- What a forward is given beside its tensors ----


def test_parameters_are_known_by_their_names():
    tables = beside.usual(9, 4, 1e4)
    assert isinstance(beside.options("token_positions", tables, 9)[0], beside.Positions)
    assert beside.options("start_pos", tables, 9) == [0]
    assert isinstance(beside.options("seq_len", tables, 9)[0], beside.Length)
    assert all(isinstance(value, beside.Table) for value in beside.options("freqs_cis", tables, 9))
    assert beside.options("x", tables, 9) == []


def test_cosines_and_sines_are_given_together():
    tables = beside.usual(9, 4, 1e4)
    found = {name: beside.options(name, tables, 9) for name in ("cos", "sin")}
    for values in beside.combinations(found):
        cos, sin = (values[name].of(2, 5) for name in ("cos", "sin"))
        torch.testing.assert_close(cos**2 + sin**2, torch.ones_like(cos))


def test_a_table_is_cut_to_the_length_of_the_call():
    table = beside.Table((torch.zeros(1, 9, 1, 4),), rows=9)
    assert table.of(2, 5).shape == (1, 5, 1, 4)
    assert beside.Table((torch.zeros(9, 4), torch.ones(9, 4)), 9).of(2, 5)[1].shape == (5, 4)
    assert beside.Table((torch.zeros(9, 4),), 9, whole=True).of(2, 5).shape == (9, 4)


# ---- Weights ----


def test_projections_of_shared_and_other_heads_are_found():
    sizes = attention.sizes_of({**SHARED, "d_k": 5})
    shapes = {"wq": (30, 24), "wk": (15, 24), "wv": (15, 24), "wo": (24, 30)}
    weights, start = {}, 0
    for name, (rows, columns) in shapes.items():
        weights[f"{name}.weight"] = torch.arange(start, start + rows * columns).reshape(rows, columns)
        start += rows * columns
    _, layout = next(attention.layouts(weights, sizes, lambda path: False))
    assert torch.equal(layout["w_k.weight"], weights["wk.weight"])
    assert layout["w_o.weight"].shape == (24, 30)


def test_a_packed_matrix_of_shared_heads_is_split():
    sizes = attention.sizes_of(SHARED)
    packed = torch.arange((24 + 2 * 12) * 24).reshape(48, 24)
    weights = {"qkv.weight": packed, "out.weight": torch.arange(24 * 24).reshape(24, 24) + packed.numel()}
    _, layout = next(attention.layouts(weights, sizes, lambda path: False))
    assert torch.equal(layout["w_k.weight"], packed[24:36])
    assert torch.equal(layout["w_v.weight"], packed[36:])


class NormsAndDrops(torch.nn.Module):
    def forward(self, x, mask):
        return self.drop_encoded(self.norm_source(x))


class Turned(torch.nn.Module):
    def forward(self, x, mask):
        return self.apply_rope(self.rms_norm(x))


class Aggregates(torch.nn.Module):
    def forward(self, x):
        return self.transforms(self.aggregate(self.terms, x))


class Gates(torch.nn.Module):
    def forward(self, x):
        return self.down(self.gate_proj(x) * self.up_proj(x))


def get_activation_fn(name):
    return torch.nn.functional.glu if name == "glu" else torch.nn.functional.relu


def gated(x):
    return torch.nn.functional.glu(x)


class Picks(torch.nn.Module):
    def forward(self, x):
        return get_activation_fn("relu")(x)


class GatesByAFunction(torch.nn.Module):
    def forward(self, x):
        return gated(x)


def test_a_function_that_has_many_activations_to_give_says_nothing_of_today():
    """DETR's layers are given ReLU, GELU or GLU, whatever they ask for."""
    assert not fitness.speaks_of_today(Picks()) and fitness.speaks_of_today(GatesByAFunction())


def test_a_module_speaks_of_today_or_has_letters_of_that():
    said = {cls: fitness.speaks_of_today(cls()) for cls in (NormsAndDrops, Turned, Aggregates, Gates)}
    assert said == {NormsAndDrops: False, Turned: True, Aggregates: False, Gates: True}
    assert fitness.speaks_of_today(torch.nn.Sequential(torch.nn.RMSNorm(4)))
    assert not fitness.speaks_of_today(torch.nn.LayerNorm(4))


def test_what_speaks_of_todays_parts_is_told_from_what_has_their_letters():
    """normSource has the letters of RMS, dropEncoded those of RoPE."""
    block = KINDS["MaskedLlamaBlock"]
    assert fitness.of_today(block, Turned) > 0 > fitness.of_today(block, NormsAndDrops)


# ---- Caches ----

STEPS = """
class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0, "d_model must be a multiple of num_heads"
        self.h = num_heads
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def turned(self, x, start):
        half = x.shape[-1] // 2
        t = torch.arange(start, start + x.shape[-2]).double()
        angles = torch.outer(t, 10000.0 ** (-torch.arange(half) / half))
        a, b, c, s = x[..., :half], x[..., half:], angles.cos(), angles.sin()
        return torch.cat((a * c - b * s, a * s + b * c), -1)

    def forward(self, x, past=None):
        q, k, v = (y.unflatten(-1, (self.h, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        start = 0 if past is None else past[0].shape[-2]
        q, k = self.turned(q, START), self.turned(k, START)
        if past is not None:
            k, v = torch.cat((past[0], k), -2), torch.cat((past[1], v), -2)
        mask = torch.ones(x.shape[1], k.shape[-2]).tril(k.shape[-2] - x.shape[1]).bool()
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(y.transpose(1, 2).flatten(2)), (k, KEPT)
"""


def checked(tmp_path, start="start", kept="v"):
    return check_text(STEPS.replace("START", start).replace("KEPT", kept), tmp_path)["CausalSelfAttention"]


def test_a_cache_that_is_right_is_said_to_be(tmp_path):
    result = checked(tmp_path)
    assert result.verdict == "matches the builtin"
    assert "With its cache it gives, token by token, what one call gives." in result.notes


@pytest.mark.parametrize("start", ["0", "max(start - 1, 0)", "start + (start > 0)"])
def test_positions_that_do_not_go_on_are_named(tmp_path, start):
    result = checked(tmp_path, start)
    assert (result.verdict, result.ids) == ("mistake", ["P7"])


def test_another_cache_is_named(tmp_path):
    assert checked(tmp_path, kept="k").ids == ["K1"]


def test_a_triangle_from_the_first_key_on_is_named_with_its_line(tmp_path):
    text = STEPS.replace("START", "start").replace("KEPT", "v").replace("attn_mask=mask", "is_causal=True")
    path = written(text, tmp_path)
    found, *_ = check_here(path)["CausalSelfAttention"].document()["mistakes"]
    line = path.read_text().splitlines()[int(found["where"].rpartition(":")[2]) - 1]
    assert (found["id"], "is_causal=True" in line) == ("K1", True)


GIVEN_A_MASK = """
class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0, "d_model must be a multiple of num_heads"
        self.h = num_heads
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, x, mask, cache=None):
        q, k, v = (y.unflatten(-1, (self.h, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        if cache is not None:
            k, v = torch.cat((cache[0], k), -2), torch.cat((cache[1], v), -2)
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        scores = OWN
        if mask is not None:
            scores = scores.masked_fill(mask, FILL)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2)), (k, v)
"""
OWN = (
    "scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1 + scores.shape[-1] - scores.shape[-2]).bool(), -math.inf)"
)


def given_a_mask(tmp_path, *changes, own="scores", fill="-math.inf"):
    text = GIVEN_A_MASK.replace("OWN", own).replace("FILL", fill)
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert old in text
        text = text.replace(old, new)
    return check_text(text, tmp_path)["CausalSelfAttention"]


def test_what_is_called_causal_and_takes_a_mask_is_judged_with_it(tmp_path):
    result = given_a_mask(tmp_path)
    assert (result.verdict, result.kind) == ("matches the builtin", "SelfAttention")
    assert "With its cache it gives, token by token, what one call gives." in result.notes
    with time_to_look(MORE):
        assert given_a_mask(tmp_path, fill="0.0").ids[0] == "A4"
    assert given_a_mask(tmp_path, "(cache[1], v)", "(v, cache[1])").ids[0] == "K1"


def test_where_time_is_short_it_is_not_called_right_without_its_mask(tmp_path):
    with time_to_look(LESS):
        assert given_a_mask(tmp_path, fill="0.0").verdict not in FINE


def test_what_makes_its_own_mask_is_said_not_to_be_given_another(tmp_path):
    result = given_a_mask(
        tmp_path,
        "x, mask, cache",
        "x, padding_mask=None, cache",
        "if mask is",
        "mask = padding_mask\n        if mask is",
        own=OWN,
    )
    assert (result.verdict, result.kind) == ("matches the builtin", "CausalSelfAttention")
    assert "It was not given its padding_mask." in result.limits


@pytest.mark.parametrize("name", ["DecoderLayer", "Decoder"])
def test_a_decoder_with_wider_heads_has_an_oracle(name):
    """torch.nn's layers have heads of d_model / h features only; the oracle is made of torch's functions then."""
    kind = KINDS[name]
    for changes in kind.designs.values():
        recipe, settings = RIGHT.with_(changes), kind.complete({"d_k": 7})
        module = kind.reference(settings, recipe)
        for probe in kind.probes(settings, 0):
            with torch.no_grad():
                expected = kind.oracle(settings, recipe, dict(module.state_dict()), probe.inputs)
            assert distance(module(**probe.inputs), expected, probe) < 1e-12


COUNTED = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model: int, num_heads: int, max_seq_len: int, theta: float = 10000.0):
        super().__init__()
        assert d_model % num_heads == 0
        self.num_heads, width = num_heads, d_model // num_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))
        angles = torch.outer(torch.arange(max_seq_len), theta ** -(torch.arange(0, width, 2) / width))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def turned(self, x, places):
        cos, sin, (even, odd) = self.cos[places], self.sin[places], (x[..., ::2], x[..., 1::2])
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)

    def forward(self, x, token_positions=None):
        B, T, _ = x.shape
        CHECK
        q, k, v = (f(x).view(B, T, self.num_heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = self.turned(q, token_positions) @ self.turned(k, token_positions).mT / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(~torch.ones(T, T, dtype=torch.bool, device=x.device).tril(), -math.inf)
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""
MADE = "token_positions = torch.arange(T, device=x.device){} if token_positions is None else token_positions"


@pytest.mark.parametrize("check, ids", [
    ("assert token_positions is not None", []), (MADE.format(""), []), (MADE.format(".expand(B, -1)"), ["B26"]),
])  # fmt: skip
def test_what_need_not_be_told_its_positions_runs_without(check, ids, tmp_path):
    result = check_text(COUNTED.replace("CHECK", check), tmp_path)["MultiHeadAttention"]
    assert ([m.id for m in result.mistakes], result.verdict) == (ids, "mistake" if ids else "matches the builtin")
    wrong = check_text(COUNTED.replace("CHECK", check).replace("- odd * sin", "+ odd * sin"), tmp_path)
    assert wrong["MultiHeadAttention"].verdict in ("mistake", "unknown mismatch")


BARE = """
from dataclasses import dataclass

@dataclass
class Config:
    block_size: int = 64
    vocab_size: int = 100
    n_layer: int = 2
    n_head: int = 4
    n_kv_head: int = 4
    n_embd: int = 32

def norm(x):
    return F.rms_norm(x, (x.shape[-1],), eps=1e-5)

def apply_rotary_emb(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

class CausalAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        assert config.n_embd % config.n_head == 0
        self.heads, self.kv_heads, self.width = config.n_head, config.n_kv_head, config.n_embd // config.n_head
        self.c_q = nn.Linear(config.n_embd, config.n_embd, bias=False)
        self.c_k = nn.Linear(config.n_embd, self.kv_heads * self.width, bias=False)
        self.c_v = nn.Linear(config.n_embd, self.kv_heads * self.width, bias=False)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=False)

    def forward(self, x, cos_sin, cache):
        B, T, E = x.shape
        q = self.c_q(x).view(B, T, self.heads, self.width)
        k = self.c_k(x).view(B, T, self.kv_heads, self.width)
        v = self.c_v(x).view(B, T, self.kv_heads, self.width)
        cos, sin = cos_sin
        q, k = norm(apply_rotary_emb(q, cos, sin)), norm(apply_rotary_emb(k, cos, sin))
        q, k, v = (part.transpose(1, 2) for part in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.heads != self.kv_heads)
        return self.c_proj(y.transpose(1, 2).reshape(B, T, E))

class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.up = nn.Linear(config.n_embd, 4 * config.n_embd, bias=False)
        self.down = nn.Linear(4 * config.n_embd, config.n_embd, bias=False)

    def forward(self, x):
        return self.down(F.relu(self.up(x)).square())

class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attn, self.mlp = CausalAttention(config), MLP(config)

    def forward(self, x, cos_sin, cache):
        x = x + self.attn(norm(x), cos_sin, cache)
        return x + self.mlp(norm(x))

class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.n_layer)])
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        width = config.n_embd // config.n_head
        places = torch.arange(config.block_size).float()
        angles = torch.outer(places, 10000.0 ** -(torch.arange(0, width, 2).float() / width))
        self.register_buffer("cos", angles.cos()[None, :, None, :], persistent=False)
        self.register_buffer("sin", angles.sin()[None, :, None, :], persistent=False)

    def forward(self, ids, targets=None, cache=None):
        T = ids.shape[1]
        x = norm(self.wte(ids))
        for block in self.blocks:
            x = block(x, (self.cos[:, :T], self.sin[:, :T]), cache)
        logits = 15 * torch.tanh(self.lm_head(norm(x)) / 15)
        return logits if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten())
"""
WHOLE = ("CausalAttention", "MLP", "Block", "GPT")


def test_norms_without_weights_behind_the_embedding_too_and_angles_for_heads_after_the_length(tmp_path):
    results = check_text(BARE, tmp_path)
    assert {name: results[name].verdict in FINE for name in WHOLE} == dict.fromkeys(WHOLE, True), results


def test_with_norms_without_weights_what_is_turned_wrongly_is_not_right(tmp_path):
    assert (
        check_text(BARE.replace("b * cos + a * sin", "b * cos - a * sin"), tmp_path, {"apply_rotary_emb"})[
            "apply_rotary_emb"
        ].verdict
        not in FINE
    )


def test_the_number_types_own_eps_is_no_other_place_for_it(tmp_path):
    """LN3 with 1e-12, up to rounding, and exactly so with LN2 besides, would explain it too."""
    text = BARE.replace(", eps=1e-5)", ")").replace("float()", "double()")
    for inner in ("self.attn(norm(x)", "self.mlp(norm(x)"):
        text = text.replace(inner, inner.replace("norm(x)", "F.rms_norm(x, x.shape[-1:])"))
    (found,) = check_text(text, tmp_path, {"Block"})["Block"].mistakes
    assert (found.id, found.severity, found.form) == ("LN3", "note", OF_RMS)


FREQUENCIES = """
def apply_rope(x, positions, inv_freq):
    angles = torch.outer(positions.to(inv_freq.dtype), inv_freq)
    cos, sin = angles.cos(), angles.sin()
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)
"""


@pytest.mark.parametrize(
    ("old", "new", "ids"), [("", "", []), ("even * sin + odd * cos", "even * sin - odd * cos", None)]
)
def test_a_function_may_be_given_frequencies_and_positions(old, new, ids, tmp_path):
    result = check_text(FREQUENCIES.replace(old, new), tmp_path)["apply_rope"]
    assert (result.verdict in FINE) == (ids is not None)
    assert result.kind == "RotaryEmbedding"


TURNING = """
class Rotary(nn.Module):
    def __init__(self, dim, max_seq_len):
        super().__init__()
        FREQUENCIES
        theta = torch.outer(torch.arange(max_seq_len).float(), freq)
        self.register_buffer("cos", theta.cos())
        self.register_buffer("sin", theta.sin())

    def forward(self, x):  # (batch, length, heads, dim)
        cos, sin = (table[None, : x.shape[-3], None] for table in (self.cos, self.sin))
        first, second = x.chunk(2, -1)
        return torch.cat((first * cos + second * sin, second * cos - first * sin), -1)


def repeat_kv(x, times):
    return x.repeat_interleave(times, 1)


class GroupedAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.n_heads, self.n_kv_heads, self.d_k = config.n_heads, config.n_kv_heads, config.d_k
        self.n_kv_groups = config.n_kv_groups
        self.q_proj = nn.Linear(config.d_model, self.n_heads * self.d_k, bias=False)
        self.k_proj = nn.Linear(config.d_model, self.n_kv_heads * self.d_k, bias=False)
        self.v_proj = nn.Linear(config.d_model, self.n_kv_heads * self.d_k, bias=False)
        self.w_o = nn.Linear(self.n_heads * self.d_k, config.d_model, bias=False)
        self.rotary = Rotary(self.d_k, config.max_seq_len)

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (-1, self.d_k)) for f in (self.q_proj, self.k_proj, self.v_proj))
        q, k = TURNED
        q, k, v = (y.transpose(1, 2) for y in (q, k, v))
        k, v = repeat_kv(k, self.n_kv_groups), repeat_kv(v, self.n_kv_groups)
        return self.w_o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
"""
HALF = "freq = torch.cat(((1 / 10000) ** torch.linspace(0, 1, dim // 4), torch.zeros(dim // 4)))"
ALL = "freq = 10000 ** (-torch.arange(0, dim, 2) / dim)"
ALONG_TOKENS = "self.rotary(q), self.rotary(k)"
ALONG_HEADS = "(self.rotary(y.transpose(1, 2)).transpose(1, 2) for y in (q, k))"


@pytest.mark.parametrize(
    ("frequencies", "turned", "ids"),
    [
        (ALL, ALONG_TOKENS, ["R7"]),
        (HALF, ALONG_TOKENS, ["R2", "R7"]),
        (HALF, ALONG_HEADS, ["R2", "R5", "R7"]),
        (HALF, "self.rotary(q), k", ["R2", "R4", "R7"]),
    ],
)
def test_half_of_the_pairs_may_stand_still_and_groups_say_how_many_share(frequencies, turned, ids, tmp_path):
    text = TURNING.replace("FREQUENCIES", frequencies).replace("TURNED", turned)
    result = check_text(text, tmp_path)["GroupedAttention"]
    assert sorted({*result.ids, *result.inherited} - {"A19"}) == ids
    assert (result.verdict == "mistake") == (turned != ALONG_TOKENS)
    places = [named.where for named in result.mistakes if named.id == "R5"]
    assert all(ALONG_HEADS in (IMPORTS + text).splitlines()[int(one.rpartition(":")[2]) - 1] for one in places)


BY_FEATURE = """
class RotaryEmbedding(nn.Module):
    def __init__(self, d_k):
        super().__init__()
        self.d_k = d_k

    def forward(self, x):  # (batch, length, d_k)
        numbers = torch.arange(0, self.d_k, 2, device=x.device)
        angles = COUNTED * 10000 ** (-numbers / self.d_k)
        cos, sin = angles.cos(), angles.sin()
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)
"""


@pytest.mark.parametrize(
    ("counted", "forms"),
    [
        ("torch.arange(x.shape[1], device=x.device)[:, None]", []),
        ("numbers", ["the numbers of the features"]),
    ],
)
def test_the_features_may_be_counted_in_place_of_the_tokens(counted, forms, tmp_path):
    result = check_text(BY_FEATURE.replace("COUNTED", counted), tmp_path)["RotaryEmbedding"]
    assert [named.form for named in result.mistakes] == forms
    assert (result.verdict in FINE) == (not forms)


IN_A_TUPLE = """
def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def turned(x, cos, sin):
    return x * cos.unsqueeze(1) + rotate_half(x) * sin.unsqueeze(1)


class LlamaAttention(nn.Module):
    def __init__(self, hidden_size, num_heads):
        super().__init__()
        self.h = num_heads
        self.q_proj, self.k_proj = (nn.Linear(hidden_size, hidden_size, bias=False) for _ in range(2))
        self.v_proj, self.o_proj = (nn.Linear(hidden_size, hidden_size, bias=False) for _ in range(2))

    def forward(self, hidden_states, position_embeddings):
        q, k, v = (
            proj(hidden_states).unflatten(-1, (self.h, -1)).transpose(1, 2)
            for proj in (self.q_proj, self.k_proj, self.v_proj)
        )
        cos, sin = position_embeddings
        y = F.scaled_dot_product_attention(turned(q, cos, sin), KEYS, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).flatten(2))
"""


@pytest.mark.parametrize("keys, ids", [("turned(k, cos, sin)", []), ("k", ["R4"])])
def test_cosines_and_sines_of_every_sentence_in_a_tuple(keys, ids, tmp_path):
    """(batch, length, d_k), as a model makes them once for all its layers."""
    result = check_text(IN_A_TUPLE.replace("KEYS", keys), tmp_path)["LlamaAttention"]
    assert (result.verdict in FINE, result.severe) == (not ids, ids), result


@pytest.mark.parametrize("keys, ids", [("turned(k, cos, sin)", []), ("k", ["R4"])])
def test_what_is_taken_apart_is_a_pair_and_tells_positions_by_itself(keys, ids, tmp_path):
    """So optional positions beside it are left out, and no time is lost with tables that are no pair."""
    text = IN_A_TUPLE.replace("KEYS", keys).replace("position_embeddings", "pos_embds")
    text = text.replace("pos_embds):", "pos_embds, past_key_value=None, positions_ids=None):")
    result = check_text(text, tmp_path)["LlamaAttention"]
    assert (result.verdict in FINE, result.severe) == (not ids, ids), result


COMPLEX = """
def apply_rotary(x, m_theta_complex):
    z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2)) * m_theta_complex[None, :, None]
    return torch.view_as_real(z).reshape(*x.shape).type_as(x)


class SelfAttention(nn.Module):
    def __init__(self, dim, n_heads):
        super().__init__()
        self.h = n_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim, bias=False) for _ in range(4))

    def forward(self, x, m_theta_complex):
        q, k, v = (proj(x).unflatten(-1, (self.h, -1)) for proj in (self.wq, self.wk, self.wv))
        q, k = apply_rotary(q, m_theta_complex), KEYS
        y = F.scaled_dot_product_attention(*(each.transpose(1, 2) for each in (q, k, v)), is_causal=True)
        return self.wo(y.transpose(1, 2).flatten(2))
"""


@pytest.mark.parametrize("keys, ids", [("apply_rotary(k, m_theta_complex)", []), ("k", ["R4"])])
def test_complex_numbers_are_angles_whatever_they_are_of(keys, ids, tmp_path):
    found = check_text(COMPLEX.replace("KEYS", keys), tmp_path)
    assert found["apply_rotary"].verdict in FINE, found["apply_rotary"]
    assert found["SelfAttention"].severe == ids


WRITTEN_BASE = """
from dataclasses import dataclass


@dataclass
class Config:
    hidden_size: int = 24
    num_attention_heads: int = 3
    rope_theta: float = 1e6


class RotaryEmbedding(nn.Module):
    def __init__(self, config):
        super().__init__()
        d, self.base = config.hidden_size // config.num_attention_heads, 1000000.0
        self.register_buffer("inv_freq", STEP / self.base ** (torch.arange(0, d, 2).double() / d))

    def forward(self, x, position_ids):
        freqs = position_ids[..., None] * self.inv_freq
        emb = torch.cat((freqs, freqs), -1)
        return emb.cos(), emb.sin()
"""


@pytest.mark.parametrize("step, is_right", [("1.0", True), ("1.1", False)])
def test_a_base_that_a_class_has_written_in_is_its_own_whatever_its_config_says(step, is_right, tmp_path):
    result = check_text(WRITTEN_BASE.replace("STEP", step), tmp_path)["RotaryEmbedding"]
    assert (result.verdict in FINE) == is_right, result
