"""What no output shows: inventories, buffers, dropout, other settings, other precisions, crashes."""

import copy
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from reference_tests.kit.made import Around, found, variant
from scratch_transformer.kit.canonical import activation, blocks, stacks
from scratch_transformer.kit.canonical import attention as canonical
from scratch_transformer.kit.judge.detectors import embedding, told
from scratch_transformer.kit.judge.diagnose import diagnose
from scratch_transformer.kit.judge.stops.crashes import crash_finding, explain_crash
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.recipe import RIGHT

SIZES = {"d_model": 12, "num_heads": 3}
F = nn.functional


# ---- Inventory ----


def scalar_norm(d_model):
    norm = nn.LayerNorm(d_model, elementwise_affine=False)
    norm.weight, norm.bias = nn.Parameter(torch.ones(1)), nn.Parameter(torch.zeros(1))
    norm.forward = lambda x: F.layer_norm(x, (d_model,)) * norm.weight + norm.bias
    return norm


def test_LN4_a_scalar_scale():
    diagnosis = found("LayerNorm", scalar_norm, d_model=12)
    assert diagnosis.verdict == "mistake"
    assert "LN4" in diagnosis.ids
    assert "12" in diagnosis.findings[0].evidence


def test_LN6_no_shift():
    class NoBias(nn.Module):
        def __init__(self, d_model):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(d_model))

        def forward(self, x):
            return F.layer_norm(x, x.shape[-1:], self.weight)

    diagnosis = found("LayerNorm", NoBias, d_model=12)
    assert (diagnosis.verdict, diagnosis.ids) == ("harmless deviation", ("LN6",))


class Attention(canonical.Attention):
    """Takes dropout, and drops out the weights, or not."""

    place = "weights"

    def __init__(self, d_model, num_heads, dropout=0.0, bias=True):
        super().__init__({"d_model": d_model, "num_heads": num_heads}, RIGHT)
        self.dropout, self.kept = nn.Dropout(dropout), None
        for name in ("w_q", "w_k", "w_v", "w_o"):
            self.add_module(name, nn.Linear(d_model, d_model, bias=bias))

    def forward(self, query, key, value, mask=None):
        h = self.num_heads
        given = {"queries": self.w_q(query), "keys": self.w_k(key), "values": self.w_v(value)}
        q, k, v = (self._split(x, h, which) for which, x in given.items())
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        scores = scores if mask is None else scores.masked_fill(~mask, float("-inf"))
        weights = scores.softmax(-1)
        if self.place == "always":
            weights = F.dropout(weights, self.dropout.p)
        elif self.place != "nowhere":
            weights = self.dropout(weights)
        self.kept = weights.detach()
        return self.w_o(self._merge(weights @ v))


def attention(place="weights", cls=Attention):
    return type("MyAttention", (cls,), {"place": place})


def test_attention_with_dropout_is_right_but_keeps_dropped_weights():
    diagnosis = found("MultiheadAttention", attention(), **SIZES, dropout=0.0)
    assert diagnosis.verdict == "matches the builtin"
    assert set(diagnosis.ids) == {"A11", "A17"}


class KeepsItsMask(Attention):
    def forward(self, query, key, value, mask=None):
        output = super().forward(query, key, value, mask)
        self.kept = torch.ones(1, query.shape[1], key.shape[1]).tril()
        return output


def test_a_mask_that_is_kept_is_not_taken_for_weights():
    assert "A17" not in found("MultiheadAttention", attention(cls=KeepsItsMask), **SIZES, dropout=0.0).ids


class CountsQueries(Attention):
    """Splits keys into heads with the number of queries; or with it always being 5."""

    length = None

    def forward(self, query, key, value, mask=None):
        B, T, E = query.shape
        key, value = (x.view(B, self.length or T, E) for x in (key, value))
        return super().forward(query, key, value, mask)


def test_A35_keys_that_are_counted_like_queries():
    diagnosis = found("MultiheadAttention", attention(cls=CountsQueries), **SIZES)
    assert (diagnosis.verdict, diagnosis.ids[0]) == ("harmless deviation", "A35")
    assert "shape '[2, 5, 12]' is invalid" in diagnosis.findings[0].evidence
    assert "A35" not in found("MultiheadAttention", attention(), **SIZES).ids
    fixed = type("Fixed", (CountsQueries,), {"length": 5})
    assert "A35" not in found("MultiheadAttention", attention(cls=fixed), **SIZES).ids


def test_A18_no_attention_dropout():
    assert "A18" in found("MultiheadAttention", attention("nowhere"), **SIZES, dropout=0.0).ids


class DropsItsHeads(Attention):
    def _merge(self, heads):
        return self.dropout(super()._merge(heads))


@pytest.mark.parametrize(("place", "is_named"), [("nowhere", True), ("weights", False)])
def test_A18_dropout_of_the_joined_heads_is_none_of_the_weights(place, is_named):
    """W_o mixes what is left of them: by its outputs alone, the weights might have been dropped."""
    diagnosis = found("MultiheadAttention", attention(place, cls=DropsItsHeads), **SIZES, dropout=0.0)
    assert ("A18" in diagnosis.ids) == is_named


def test_B12_dropout_in_evaluation():
    diagnosis = found("MultiheadAttention", attention("always"), **SIZES, dropout=0.0)
    assert (diagnosis.verdict, diagnosis.ids[0]) == ("mistake", "B12")


def test_A14_no_biases_as_in_the_paper():
    def without(d_model, num_heads):
        return Attention(d_model, num_heads, bias=False)

    diagnosis = found("MultiheadAttention", without, **SIZES)
    assert diagnosis.verdict == "matches the paper, not the builtin"
    assert "None of the four" in next(f.evidence for f in diagnosis.findings if f.mistake.id == "A14")


def test_A14_the_bias_of_the_keys_alone():
    def without(d_model, num_heads):
        module = Attention(d_model, num_heads)
        module.w_k = nn.Linear(d_model, d_model, bias=False)
        return module

    finding = found("MultiheadAttention", without, **SIZES).findings[0]
    assert (finding.mistake.id, "no bias in w_k" in finding.evidence) == ("A14", True)


def test_A15_a_flag_that_is_ignored():
    class Forgetful(Attention):
        def __init__(self, d_model, num_heads, bias=True):
            super().__init__(d_model, num_heads, bias=bias)
            self.w_o = nn.Linear(d_model, d_model)

    diagnosis = found("MultiheadAttention", Forgetful, **SIZES, bias=True)
    assert diagnosis.ids[0] == "A15"
    assert "w_o.bias" in diagnosis.findings[0].evidence


def test_A19_heads_that_do_not_divide():
    class Unchecked(Attention):
        def __init__(self, d_model, num_heads):
            super().__init__(d_model, 1)
            self.num_heads = num_heads

    assert "A19" in found("MultiheadAttention", Unchecked, **SIZES).ids


def test_A12_an_input_changed_in_place():
    diagnosis = found("FeedForward", Shifting, d_model=12, d_ff=17)
    assert (diagnosis.verdict, diagnosis.ids) == ("mistake", ("A12",))
    assert "x has other values" in diagnosis.findings[0].evidence


class Shifting(activation.FeedForward):
    def __init__(self, d_model, d_ff):
        super().__init__(d_model, d_ff, RIGHT)

    def forward(self, x):
        y = super().forward(x.clone())
        x += 1
        return y


def test_A8_minus_1e9_in_float16():
    def masked(query, key, value, mask=None):
        scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
        return (scores if mask is None else scores.masked_fill(~mask, -1e9)).softmax(-1) @ value

    diagnosis = found("ScaledDotProductAttention", lambda: Around(masked))
    assert diagnosis.verdict == "harmless deviation"
    assert set(diagnosis.ids) == {"A8", "A11"}


# ---- Layers ----


class FeedForward(activation.FeedForward):
    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__(d_model, d_ff, RIGHT)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.linear2(self.dropout(self.linear1(x).relu()))


def test_B7_no_inner_dropout():
    sizes = {"d_model": 12, "d_ff": 17, "dropout": 0.0}
    assert found("FeedForward", FeedForward, **sizes).ids == ()
    without = type("Without", (FeedForward,), {"forward": lambda self, x: self.linear2(self.linear1(x).relu())})
    assert found("FeedForward", without, **sizes).ids == ("B7",)


class Layer(blocks.EncoderLayer):
    drops = True

    def __init__(self, d_model, num_heads, d_ff, dropout=0.0):
        super().__init__({"d_model": d_model, "num_heads": num_heads, "d_ff": d_ff}, RIGHT)
        self.dropout = nn.Dropout(dropout)

    def connect(self, x, sublayer, number, **others):
        dropped = (lambda x: self.dropout(sublayer(x))) if self.drops else sublayer
        return super().connect(x, dropped, number, **others)


def test_B6_no_residual_dropout():
    sizes = {**SIZES, "d_ff": 17, "dropout": 0.0}
    assert found("EncoderLayer", Layer, **sizes).ids == ()
    without = type("Without", (Layer,), {"drops": False})
    assert found("EncoderLayer", without, **sizes).ids == ("B6",)


@pytest.mark.parametrize("made, form", [(1, "the first alone"), (2, "2 in any case")])
def test_B28_a_number_of_layers_that_is_not_listened_to(made, form):
    class Encoder(stacks.Encoder):
        def __init__(self, num_layers, **settings):
            super().__init__({**settings, "num_layers": made if form else num_layers}, RIGHT)

    sizes = {**SIZES, "d_ff": 17, "num_layers": made}
    diagnosis = found("Encoder", Encoder, **sizes)
    assert [(f.mistake.id, f.form) for f in diagnosis.findings] == [("B28", form)]
    assert f"Told to make {made + 2} layers, it makes {made}." in diagnosis.findings[0].evidence
    assert diagnosis.verdict == "mistake"
    assert diagnosis.error < 1e-9
    form = ""
    assert found("Encoder", Encoder, **sizes).verdict == "matches the builtin"


def test_B29_a_width_that_is_not_listened_to():
    class Network(nn.Module):
        def __init__(self, d_model, d_ff, widens=4):
            super().__init__()
            width = widens * d_model if widens else d_ff
            self.linear1, self.linear2 = nn.Linear(d_model, width), nn.Linear(width, d_model)

        def forward(self, x):
            return self.linear2(self.linear1(x).relu())

    diagnosis = found("FeedForward", Network, d_model=12, d_ff=48)
    assert (diagnosis.verdict, diagnosis.ids) == ("mistake", ("B29",))
    assert "Told d_ff = 1031, it is what it was with 48." in diagnosis.findings[0].evidence
    assert found("FeedForward", Network, d_model=12, d_ff=48, widens=0).verdict == "matches the builtin"


def test_B29_a_number_of_heads_that_is_not_listened_to():
    class Three(Attention):
        heads = 3

        def __init__(self, d_model, num_heads):
            super().__init__(d_model, self.heads or num_heads)

    diagnosis = found("MultiheadAttention", Three, **SIZES)
    assert (diagnosis.verdict, diagnosis.findings[0].form) == ("mistake", "num_heads")
    assert "B29" not in found("MultiheadAttention", type("Own", (Three,), {"heads": 0}), **SIZES).ids


@pytest.mark.parametrize("used", [True, False])
def test_B29_heads_that_nothing_can_show_are_not_said_to_be_unheard(used):
    class Encoder(stacks.Encoder):
        def __init__(self, d_model, num_heads, d_ff, num_layers):
            super().__init__({"d_model": d_model, "num_heads": 3, "d_ff": d_ff, "num_layers": num_layers}, RIGHT)

        def forward(self, x, mask=None):
            y = x
            for layer in self.layers:
                y = layer(x, mask)
            return y if used else x

    diagnosis = found("Encoder", Encoder, **SIZES, d_ff=17, num_layers=2)
    assert set(diagnosis.ids) == ({"B19", "B29"} if used else {"B19"})


@pytest.mark.parametrize("shares, deaf, ids", [
    (True, {"src_vocab_size"}, []), (False, {"src_vocab_size"}, ["B29"]), ("whole", {"src_vocab_size"}, []),
    (True, {"src_vocab_size", "tgt_vocab_size"}, ["B29"]), (True, {"d_ff"}, ["B29"]),
])  # fmt: skip
def test_B29_one_table_of_words_for_both_languages_has_one_size(shares, deaf, ids, monkeypatch):
    model = nn.ModuleDict({"src": nn.Embedding(11, 4), "tgt": nn.Embedding(11, 4)})
    if shares:
        model["src"].weight = model["tgt"].weight
    if shares == "whole":
        model["src"] = model["tgt"]
    sizes = {"src_vocab_size": 11, "tgt_vocab_size": 11, "d_ff": 17}
    session = SimpleNamespace(candidate=SimpleNamespace(module=model, replaced=[]), settings=sizes)
    monkeypatch.setattr(told, "_is_deaf", lambda session, setting, value: setting in deaf)
    assert [found.mistake.id for found in told.other_sizes(session, SimpleNamespace(ids=()))] == ids


def test_B9_shared_layers_are_seen_and_own_layers_are_not():
    assert diagnose(variant("Encoder", layers="shared")).ids == ("B9",)
    assert diagnose(variant("Encoder")).ids == ()


def test_B10_layers_in_a_list():
    class Listed(stacks.Encoder):
        def __init__(self, d_model, num_heads, d_ff, num_layers):
            sizes = {"d_model": d_model, "num_heads": num_heads, "d_ff": d_ff, "num_layers": num_layers}
            super().__init__(sizes, RIGHT)
            self.others = [copy.deepcopy(layer) for layer in self.layers]

    diagnosis = found("Encoder", Listed, **SIZES, d_ff=17, num_layers=2)
    assert (diagnosis.verdict, diagnosis.ids) == ("mistake", ("B10",))
    assert "self.others is a Python list of 2 modules" in diagnosis.findings[0].evidence


def test_B11_causal_in_training_only():
    class Sometimes(canonical.CausalSelfAttention):
        def __init__(self, d_model, num_heads):
            super().__init__({"d_model": d_model, "num_heads": num_heads}, RIGHT)

        def forward(self, x):
            return super().forward(x) if self.training else canonical.Attention.forward(self, x, x, x)

    assert found("CausalSelfAttention", Sometimes, **SIZES).ids == ("B11",)


@pytest.mark.parametrize("in_training, ids", [("mask", ("B11",)), ("noise", ()), ("", ())])
def test_B11_another_sum_in_training(in_training, ids):
    """What is drawn at random is no reason to say so: that may be a dropout of one's own."""

    class Sometimes(canonical.CausalSelfAttention):
        def __init__(self, d_model, num_heads):
            super().__init__({"d_model": d_model, "num_heads": num_heads}, RIGHT)

        def forward(self, x):
            noise = torch.randn_like(x) if in_training == "noise" else x * (in_training == "mask")
            return super().forward(x + noise if self.training else x)

    assert found("CausalSelfAttention", Sometimes, **SIZES).ids == ids


# ---- Embeddings and positions ----


class Embedding(nn.Module):
    def __init__(self, vocab_size, d_model, padding_idx=None):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model, padding_idx=padding_idx)
        self.weight, self.d_model = self.table.weight, d_model

    def forward(self, ids):
        return self.table.weight[ids] * self.d_model**0.5


def test_E4_the_row_of_the_padding():
    class Fresh(Embedding):
        def __init__(self, vocab_size, d_model, padding_idx):
            super().__init__(vocab_size, d_model, padding_idx)
            nn.init.normal_(self.table.weight)

    sizes = {"vocab_size": 13, "d_model": 12, "padding_idx": 2}
    assert found("InputEmbedding", Fresh, **sizes).ids == ("E4",)
    assert found("InputEmbedding", Embedding, **sizes).ids == ()


def test_E4_the_row_of_the_second_embedding():
    class Twice(nn.Module):
        def __init__(self, vocab_size, d_model, padding_idx):
            super().__init__()
            self.source, self.table = (nn.Embedding(vocab_size, d_model, padding_idx=padding_idx) for _ in range(2))
            nn.init.normal_(self.table.weight)

    fresh = Twice(13, 12, 2)
    candidate = SimpleNamespace(rebuild=lambda: candidate, module=fresh, settings={"padding_idx": 2})
    (finding,) = embedding.padding_rows(SimpleNamespace(candidate=candidate, kind=KINDS["InputEmbedding"]), None)
    assert finding.mistake.id == "E4" and finding.evidence.startswith("self.table has")


def test_E5_a_fixed_padding_idx():
    diagnosis = found(
        "InputEmbedding", lambda vocab_size, d_model: Embedding(vocab_size, d_model, 0), vocab_size=13, d_model=12
    )
    assert (diagnosis.verdict, diagnosis.ids) == ("harmless deviation", ("E5",))


class Positions(nn.Module):
    buffer, checks, odd = True, True, True

    def __init__(self, d_model, max_len):
        super().__init__()
        pe = torch.zeros(max_len, d_model, dtype=torch.float64)
        pos, two_i = torch.arange(max_len).unsqueeze(1), torch.arange(0, d_model, 2, dtype=torch.float64)
        angles = pos / 10000 ** (two_i / d_model)
        pe[:, 0::2] = angles.sin()
        pe[:, 1::2] = angles.cos()[:, : d_model // 2] if self.odd else angles.cos()
        if self.buffer:
            self.register_buffer("pe", pe, persistent=False)
        else:
            self.pe = pe

    def forward(self, x):
        if self.checks and x.shape[1] > len(self.pe):
            raise ValueError(f"{x.shape[1]} tokens are too many")
        return x + self.pe[: x.shape[1]]


@pytest.mark.parametrize("id, changes", [("P1", {"odd": False}), ("P5", {"buffer": False}), ("P6", {"checks": False})])
def test_tables_of_positions(id, changes):
    sizes = {"d_model": 12, "max_len": 40}
    assert found("PositionalEncoding", Positions, **sizes).ids == ()
    assert found("PositionalEncoding", type("Mine", (Positions,), changes), **sizes).ids == (id,)


def test_T1_log_softmax_twice():
    def loss(logits, target):
        return F.cross_entropy(F.log_softmax(logits, -1), target, ignore_index=2)

    diagnosis = found("Loss", lambda: Around(loss))
    assert (diagnosis.verdict, diagnosis.ids) == ("harmless deviation", ("T1",))
    assert (
        found("Loss", lambda: Around(lambda logits, target: F.cross_entropy(logits, target, ignore_index=2))).ids == ()
    )


# ---- Crashes ----


def raised(function):
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


class NotCalled(nn.Module):
    def __init__(self):
        super.__init__()


def asks_of_a_mask(attn_mask):
    if attn_mask:
        raise ValueError


def asks_of_another(x):
    if x:
        raise ValueError


class LeftOut(nn.Module):
    def __init__(self):
        self.alpha = nn.Parameter(torch.ones(1))


@pytest.mark.parametrize(
    "id, function",
    [
        ("LN8", NotCalled),
        ("LN8", LeftOut),
        ("E1", lambda: torch.sqrt(512, dtype=torch.float32)),
        ("E1", lambda: torch.sqrt(512)),
        ("A31", lambda: asks_of_a_mask(torch.ones(2))),
        (None, lambda: asks_of_another(torch.ones(2))),
        ("A8", lambda: torch.zeros(2).half().masked_fill(torch.ones(2).bool(), -1e9)),
        (None, lambda: torch.zeros(2) + torch.zeros(3)),
    ],
)
def test_a_crash_with_a_known_cause(id, function):
    assert explain_crash(raised(function)) == id


def test_a_mask_that_is_asked_is_shown_where_it_is():
    error = raised(lambda: asks_of_a_mask(torch.ones(2)))
    assert crash_finding(error).evidence.endswith("It stops at: if attn_mask:")


def test_code_that_always_crashes():
    def crash(x):
        return x * torch.sqrt(512)

    diagnosis = found("softmax", lambda: Around(crash))
    assert (diagnosis.verdict, diagnosis.ids) == ("crashed", ("E1",))


# ---- torch.nn's own ----


def test_torch_nns_own_classes_pass():
    assert found("LayerNorm", lambda d_model, eps: nn.LayerNorm(d_model, eps), d_model=12, eps=1e-3).ids == ()
    assert found("RMSNorm", lambda d_model, eps: nn.RMSNorm(d_model, eps), d_model=12, eps=1e-3).ids == ()
    assert found("GELU", lambda: Around(nn.GELU())).ids == ()
    assert found("softmax", lambda: Around(lambda x: x.softmax(-1))).ids == ()
    assert found("ScaledDotProductAttention", lambda: Around(sdpa)).ids == ()
    assert found("InputEmbedding", Unscaled, vocab_size=13, d_model=12).ids == ("E2",)


class Unscaled(nn.Embedding):
    def __init__(self, vocab_size, d_model):
        super().__init__(vocab_size, d_model)

    def forward(self, ids):
        return super().forward(ids)


def sdpa(query, key, value, mask=None):
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
