"""How learners want to be called: masks by what their names say, or by trial; sizes and forms that only errors tell."""

import dataclasses
import inspect

import pytest
import torch

from reference_tests.kit.learners.checked import LESS, MORE, check_here, check_text, time_to_look
from reference_tests.kit.learners.corpus import STYLES
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.resolve import foreign
from scratch_transformer.kit.resolve.call import beside, calling, forwards
from scratch_transformer.kit.resolve.call.masks import Form
from scratch_transformer.kit.resolve.names import inputs
from scratch_transformer.kit.resolve.trials.mask_search import with_required_masks

pytestmark = pytest.mark.long

DECODER = ("x", "memory", "mask", "memory_mask")
MODEL = ("src", "tgt", "src_mask", "tgt_mask")
RIGHT = ("matches the builtin", "matches the paper, not the builtin", "harmless deviation")


def forward_of(*names):
    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]

    def forward(**given):
        raise NotImplementedError

    forward.__signature__ = inspect.Signature(parameters)
    return forward


def plan_of(inputs, *names):
    return next(calling.plans(forward_of(*names), inputs, {"num_heads": 3}))


@pytest.mark.parametrize(
    ("inputs", "names", "meant"),
    [
        (DECODER, ("src_trg_mask", "target_mask"), ("memory_mask", "mask")),
        (DECODER, ("memory_mask", "inputs_mask"), ("memory_mask", "mask")),
        (DECODER, ("mask_src_tgt", "mask_self"), ("memory_mask", "mask")),
        (DECODER, ("pad_mask_src", "pad_mask_tgt"), ("memory_mask", "mask")),
        (DECODER, ("look_ahead_mask", "padding_mask"), ("mask", "memory_mask")),
        (DECODER, ("first_mask", "second_mask"), ("mask", "memory_mask")),
        (MODEL, ("enc_padding_mask", "look_ahead_mask", "dec_padding_mask"), ("src_mask", "tgt_mask", "src_mask")),
        (MODEL, ("enc_padding_mask", "dec_padding_mask"), ("src_mask", "tgt_mask")),
        (DECODER, ("look_ahead_mask", "dec_padding_mask"), ("mask", "memory_mask")),
        (DECODER, ("src_padding_mask", "no_peeking_mask"), ("memory_mask", "mask")),
        (DECODER, ("src_padding_mask", "tgt_padding_mask", "third_mask"), ("memory_mask", "mask", "mask")),
        (
            MODEL,
            ("encoder_self_attention_mask", "decoder_self_attention_mask", "decoder_cross_attention_mask"),
            ("src_mask", "tgt_mask", "src_mask"),
        ),
    ],
)
def test_a_mask_is_known_by_its_name_or_by_those_of_the_others(inputs, names, meant):
    plan = plan_of(inputs, *inputs[:2], *names)
    assert tuple(name for _, name, _ in plan.mask_parameters) == meant


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("masking_minus_inf", True), ("mask_value", True), ("mask_fill_value", True), ("neg_inf", True),
        ("mask", False), ("value_mask", False), ("masked", False), ("mask_info", False), ("values", False),
    ],
)  # fmt: skip
def test_the_number_that_scores_are_filled_with_is_no_mask(name, is_one):
    assert inputs.is_fill(name) == is_one
    plan = plan_of(("query", "key", "value", "mask"), "q", "k", "v", name)
    assert plan.constants.get(name) == (inputs.FILLED if is_one else None)


FILLED = """
import torch
from torch import nn

def scaled_dot_product_attention(Q, K, V, minus_inf, masked):
    scores = torch.matmul(Q, K.transpose(-2, -1)) / K.shape[-1] ** 0.5
    if masked:
        scores = scores + minus_inf * torch.triu(torch.ones(Q.shape[-2], K.shape[-2]), diagonal=1)
    return torch.matmul(scores.softmax(-1), V)

class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads, minus_inf):
        super().__init__()
        assert d_model % num_heads == 0
        self.h, self.minus_inf = num_heads, minus_inf
        self.q, self.k = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.v, self.o = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def forward(self, x):
        heads = [linear(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for linear in (self.q, self.k, self.v)]
        return self.o(scaled_dot_product_attention(*heads, self.minus_inf, True).transpose(1, 2).flatten(2))
"""


@pytest.mark.parametrize(("size", "ids"), [("minus_inf", []), ("1e-9", ["A25"])])
def test_a_constructor_may_be_told_what_scores_are_filled_with(size, ids, tmp_path):
    text = FILLED.replace("scores + minus_inf *", f"scores + {size} *").replace("minus_inf", "mask_value")
    results = check_text(text, tmp_path)
    assert results["scaled_dot_product_attention"].ids == ids, results  # with masked=True
    assert results["CausalSelfAttention"].inherited == ids, results


def test_masks_whose_names_say_nothing_are_turned_where_nothing_else_can_be_called():
    plan = plan_of(DECODER, "x", "memory", "first_mask", "second_mask")
    (turned,) = calling.reassigned(plan)
    assert [name for _, name, _ in turned.mask_parameters] == ["memory_mask", "mask"]


@pytest.mark.parametrize(
    "names, exchanged",
    [
        (("trg_mask", "src_mask"), ("trg_mask", "src_mask")),
        (("mask", "enc_mask"), ("enc_mask",)),
        (("first_mask", "second_mask"), ()),
    ],
)
def test_masks_that_are_turned_against_their_names_are_noted(names, exchanged):
    plan = plan_of(DECODER, "x", "memory", *names)
    (turned,) = calling.reassigned(plan)
    assert (plan.exchanged, turned.exchanged) == ((), exchanged)


def test_a_decoders_padding_that_cannot_be_the_sources_is_the_targets():
    plan = plan_of(MODEL, "src", "tgt", "enc_padding_mask", "look_ahead_mask", "dec_padding_mask")
    first = next(calling.reassigned(plan))
    assert [name for _, name, _ in first.mask_parameters] == ["src_mask", "tgt_mask", "tgt_mask"]


def test_the_mask_of_a_models_cross_attention_has_a_row_for_every_target():
    plan = plan_of(MODEL, "src", "tgt", "enc_mask", "dec_mask", "cross_mask")
    form = Form("True = may attend", "(B, T, S)")
    plan = plan.with_masks(
        {"enc_mask": ("src_mask", form), "dec_mask": ("tgt_mask", form), "cross_mask": ("src_mask", form)}
    )
    probe = KINDS["Transformer"].probes(KINDS["Transformer"].complete({}), 0)[1]
    S, T = probe.inputs["src"].shape[1], probe.inputs["tgt"].shape[1]
    given = plan.give(probe.inputs)
    assert [tuple(given[name].shape[1:]) for name in ("enc_mask", "dec_mask", "cross_mask")] == [(S, S), (T, T), (T, S)]
    assert torch.equal(given["cross_mask"][:, 0], given["enc_mask"][:, 0])
    without = plan.give({**probe.inputs, "src_mask": None, "tgt_mask": None})
    assert tuple(without["cross_mask"].shape[1:]) == (T, S)


OLD = '''
class CrossEntropyLoss(nn.Module):
    def __init__(self, ignore_index=0):
        super().__init__()
        self.ignore_index = ignore_index

    def forward(self, logits, target):
        return F.cross_entropy(logits.permute(0, 2, 1), target, ignore_index=self.ignore_index)


class RoPE(nn.Module):
    def __init__(self, dim, max_seq_len=64):
        super().__init__()
        angles = torch.outer(torch.arange(max_seq_len), 10000.0 ** (-torch.arange(0, dim, 2) / dim))
        self.register_buffer("angles", angles.repeat_interleave(2, -1))

    def forward(self, x, token_positions):
        cos, sin = (table[token_positions].unsqueeze(1) for table in (self.angles.cos(), self.angles.sin()))
        turned = torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
        return x * cos + turned * sin


class MultiHeadAttention(nn.Module):
    def __init__(self, hidden_size, head_size=8):
        super().__init__()
        self.head_size, self.att_size = head_size, hidden_size // head_size
        self.q, self.k, self.v, self.out = (nn.Linear(hidden_size, head_size * self.att_size) for _ in range(4))

    def forward(self, q, k, v, mask):
        split = lambda x: x.view(len(x), -1, self.head_size, self.att_size).transpose(1, 2)
        q, k, v = split(self.q(q)), split(self.k(k)), split(self.v(v))
        scores = (q @ k.transpose(2, 3) * self.att_size**-0.5).masked_fill(mask.unsqueeze(1), float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(len(q), -1, self.head_size * self.att_size))


class Encoder(nn.Module):
    """One layer, though it is called an encoder."""

    def __init__(self, hidden_size, filter_size):
        super().__init__()
        self.attention = MultiHeadAttention(hidden_size)
        self.norm1, self.norm2 = nn.LayerNorm(hidden_size), nn.LayerNorm(hidden_size)
        self.widen, self.narrow = nn.Linear(hidden_size, filter_size), nn.Linear(filter_size, hidden_size)

    def forward(self, x, mask):
        x = self.norm1(x + self.attention(x, x, x, mask))
        return self.norm2(x + self.narrow(torch.relu(self.widen(x))))


class TransformerEncoder(nn.Module):
    def __init__(self, hidden_size, filter_size, n_layers):
        super().__init__()
        self.layers = nn.ModuleList([Encoder(hidden_size, filter_size) for _ in range(n_layers)])

    def forward(self, x, mask):
        for layer in self.layers:
            x = layer(x, mask)
        return x
'''


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    with time_to_look(MORE):
        return check_text(OLD, tmp_path_factory.mktemp("old"))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("CrossEntropyLoss", "Loss"),
        ("RoPE", "RotaryEmbedding"),
        ("MultiHeadAttention", "MultiheadAttention"),
        ("Encoder", "EncoderLayer"),
        ("TransformerEncoder", "Encoder"),
    ],
)
def test_forms_and_sizes_that_only_trial_tells(results, name, kind):
    """Losses of (B, T, V), positions (B, T), eight heads that nobody is told of, a layer called an encoder."""
    assert (results[name].kind, results[name].verdict in RIGHT) == (kind, True)


class Bigram(torch.nn.Module):
    def __init__(self, vocab_size):
        super().__init__()
        self.table = torch.nn.Embedding(vocab_size, vocab_size)

    def forward(self, idx):
        return self.table(idx)

    def generate(self, idx, steps):
        for _ in range(steps):
            idx = torch.cat((idx, torch.multinomial(self(idx)[:, -1].softmax(-1), 1)), 1)
        return idx


class Given(torch.nn.Module):
    def __init__(self, inner, d_model):
        super().__init__()
        self.inner, self.out = inner, torch.nn.Linear(d_model, 2)

    def forward(self, x):
        return self.out(self.inner(x))


class OfLayers(torch.nn.Module):
    """A stack that names neither attention nor masks."""

    def __init__(self, layers: torch.nn.ModuleList):
        super().__init__()
        self.layers, self.norm = layers, torch.nn.Identity()

    def forward(self, x, encoder_output, src_msk, tgt_msk):
        for layer in self.layers:
            x = layer(x, encoder_output, src_msk, tgt_msk)
        return self.norm(x)


class ClassificationDecoder(torch.nn.Module):
    """The mean of what an encoder made of the words, without the padding."""

    def __init__(self, d_model, d_output):
        super().__init__()
        self.linear = torch.nn.Linear(d_model, d_output)

    def forward(self, states, encoder_mask):
        weights = encoder_mask[..., :1]
        return self.linear((weights * states).sum(1) / weights.sum(1))


def test_a_head_that_is_given_a_mask_attends_to_nothing():
    assert foreign.attends_to_nothing(ClassificationDecoder, "DecoderOnly") == "it attends to nothing"


def test_what_attends_to_nothing_is_no_whole():
    """Text is drawn from a softmax too: that is none of attention."""
    assert foreign.attends_to_nothing(Bigram, "DecoderOnly") == "it attends to nothing"
    assert foreign.attends_to_nothing(Bigram, "FeedForward") == ""


def test_what_is_given_a_part_may_attend():
    assert foreign.attends_to_nothing(Given, "Encoder") == ""
    assert foreign.attends_to_nothing(OfLayers, "Decoder") == ""


GIVEN_DROPOUT = """
class ScaledDotProductAttention(nn.Module):
    def __init__(self, dropout=None):
        super().__init__()
        if dropout is not None:
            self.dropout = dropout
        else:
            self.dropout = None

    def forward(self, q, k, v, mask=None):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -math.inf)
        weights = scores.softmax({})
        if self.dropout is not None:
            weights = self.dropout(weights)
        return weights @ v
"""
TABLE_OF_MASKS = """
class Encoder(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers, pad_idx):
        super().__init__()
        self.d_model, self.pad_idx, self.embedding = d_model, pad_idx, nn.Embedding(vocab_size, d_model)
        layer = nn.TransformerEncoderLayer(d_model, num_heads, d_ff, batch_first=True)
        self.layers = nn.ModuleList([copy.deepcopy(layer) for _ in range(num_layers)])

    def forward(self, src, mask=None):
        if mask:
            padding = mask["src_mask"]
        else:
            padding = src {} self.pad_idx
        x = self.embedding(src) * math.sqrt(self.d_model)
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=padding)
        return x
"""


@pytest.mark.parametrize("text, right, wrong", [(GIVEN_DROPOUT, "-1", "-2"), (TABLE_OF_MASKS, "==", "<")])
def test_dropout_that_may_be_none_is_a_module_and_masks_in_a_dictionary_are_left_out(text, right, wrong, tmp_path):
    found = [next(iter(check_text(text.format(word), tmp_path).values())) for word in (right, wrong)]
    assert [result.verdict == "matches the builtin" for result in found] == [True, False], found


@pytest.mark.parametrize("name", ["pad_ind", "blank", "src_filler"])
@pytest.mark.parametrize("word, is_right", [("==", True), ("<", False)])
def test_what_ids_are_compared_with_is_padding_whatever_it_is_called(name, word, is_right, tmp_path):
    result = check_text(TABLE_OF_MASKS.format(word).replace("pad_idx", name), tmp_path)["Encoder"]
    assert (result.verdict == "matches the builtin") == is_right, result


RESIDUAL = """
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.w_1, self.w_2, self.norm = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model), nn.LayerNorm(d_model)

    def forward(self, x, residual_x):
        return self.norm(self.w_2(torch.relu(self.w_1({}))) + residual_x)
"""


@pytest.mark.parametrize("inner, is_right", [("x", True), ("x + residual_x", False)])
def test_the_input_that_a_sublayer_adds_may_be_given_beside_it(inner, is_right, tmp_path):
    result = check_text(RESIDUAL.format(inner), tmp_path)["FeedForward"]
    assert (result.verdict == "matches the builtin") == is_right, result


POSITIONS_OF_A_HEAD = """
import math, torch, torch.nn as nn

class PositionalEncoding(nn.Module):
    def __init__(self, d_k, max_seq_len):
        super().__init__()
        places = torch.arange(max_seq_len)[:, None] * torch.exp(torch.arange(0, d_k, 2) * (-math.log(10000.0) / d_k))
        self.register_buffer("pe", torch.stack((places.sin(), places.cos()), -1).flatten(1))

    def forward(self, x):
        return x + self.pe[: x.size(1)]
"""


def test_what_has_no_heads_is_told_the_width_of_all(tmp_path):
    assert check_text(POSITIONS_OF_A_HEAD, tmp_path)["PositionalEncoding"].verdict == "matches the builtin"


MASK_ON_A_DEVICE = """
import torch

def causal_mask(size, device):
    return torch.triu(torch.ones(size, size, device=device), diagonal=1).bool()
"""


def test_a_mask_is_made_on_the_device_that_it_is_told(tmp_path):
    assert check_text(MASK_ON_A_DEVICE, tmp_path)["causal_mask"].verdict == "matches the builtin"
    wrong = check_text(MASK_ON_A_DEVICE.replace("diagonal=1", "diagonal=2"), tmp_path)["causal_mask"]
    assert (wrong.verdict, wrong.ids) == ("mistake", ["A6"])


COMPUTED = """
import torch.nn as nn
from dataclasses import dataclass

@dataclass
class Config:
    n_embd: int = 64

    @property
    def ffn_dim(self):
        return 4 * self.n_embd

class MLP(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.fc, self.proj = nn.Linear(config.n_embd, config.ffn_dim), nn.Linear(config.ffn_dim, config.n_embd)

    def forward(self, x):
        return self.proj(nn.functional.relu(self.fc(x)))
"""


def test_a_width_that_a_config_computes_is_listened_to(tmp_path):
    result = check_text(COMPUTED, tmp_path)["MLP"]
    assert (result.verdict, result.ids) == ("matches the builtin", [])


UNGROUPED = """
import torch, torch.nn as nn

class CausalSelfAttention(nn.Module):
    def __init__(self, dim, n_heads, n_kv_heads, max_len):
        super().__init__()
        self.heads, self.kv_heads, self.width = n_heads, n_kv_heads, dim // n_heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        self.register_buffer("future", torch.ones(max_len, max_len).triu(1).bool())

    def forward(self, x):
        B, T, E = x.shape
        q = self.q(x).view(B, T, self.heads, self.width).transpose(1, 2)
        k, v = (f(x).view(B, T, self.kv_heads, self.width).transpose(1, 2) for f in (self.k, self.v))
        scores = (q @ k.transpose(2, 3) / self.width**0.5).masked_fill(self.future[:T, :T], -torch.inf)
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).reshape(B, T, E))
"""


@pytest.mark.parametrize(("scale", "ids"), [("", []), ("**2", ["A1"])])
def test_what_stops_with_fewer_heads_of_keys_is_checked_with_as_many_and_says_so(scale, ids, tmp_path):
    text = UNGROUPED.replace("self.width**0.5", f"(self.width**0.5){scale}")
    result = check_text(text, tmp_path)["CausalSelfAttention"]
    assert [id for id in result.ids if id not in ("A14", "A19")] == ids
    assert any("as many heads of keys and values" in said for said in (*result.limits, *result.notes))


KEYS_AND_VALUES = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_head):
        super().__init__()
        self.n_head = n_head
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, q, k, v, mask=None):
        split = lambda x: x.unflatten(-1, (self.n_head, -1)).transpose(1, 2)
        q, k, v = split(self.w_q(q)), split(self.w_k(k)), split(self.w_v(v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return self.w_o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, d_ff, n_head):
        super().__init__()
        self.own, self.cross = MultiHeadAttention(d_model, n_head), MultiHeadAttention(d_model, n_head)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, enc_out, en_out, src_mask, trg_mask):
        x = self.norm1(x + self.own(x, x, x, trg_mask))
        x = self.norm2(x + self.cross(x, enc_out, en_out, src_mask))
        return self.norm3(x + self.ffn(x))
"""


@pytest.mark.parametrize("divided, is_right", [("math.sqrt(q.shape[-1])", True), ("q.shape[-1]", False)])
def test_the_memory_may_be_given_twice_as_keys_and_as_values(divided, is_right, tmp_path):
    text = KEYS_AND_VALUES.replace("math.sqrt(q.shape[-1])", divided)
    result = check_text(text, tmp_path)["DecoderLayer"]
    assert (result.verdict in RIGHT) == is_right and result.kind == "DecoderLayer", result


@pytest.mark.parametrize("names", [("x", "encoder_output"), ("x", "memory"), ("tgt", "x"), ("y", "x"), ("ids", "enc")])
def test_of_two_halves_the_decoder_is_given_the_target_and_what_the_encoder_gives(names):
    class Halves(torch.nn.Module):
        def encode(self, x, encoder_mask):
            return f"encoded {x}"

    exec(f"def decode(self, {', '.join(names)}, decoder_mask):\n    return {', '.join(names)}", scope := {})
    Halves.decode = scope["decode"]
    target, memory = forwards.forward_of(Halves(), KINDS["Transformer"])("the source", "the target")
    assert (target, memory) == ("the target", "encoded the source")


def test_of_two_halves_the_decoder_is_given_the_sources_ids_too_to_see_its_padding():
    class Halves(torch.nn.Module):
        def encode(self, src):
            return f"encoded {src}"

        def decode(self, src, memory, tgt):
            return src, memory, tgt

    given = forwards.forward_of(Halves(), KINDS["Transformer"])("the source", "the target")
    assert given == ("the source", "encoded the source", "the target")


GIVEN_POSITIONS = [
    ("(self, dec_inputs, enc_inputs, enc_outputs):", "(self, dec_inputs, pos, enc_inputs, enc_outputs):"),
    ("        positions = torch.arange(dec_inputs.size(1)).expand_as(dec_inputs)\n", ""),
    ("self.tgt_emb(dec_inputs) + self.pos_emb(positions)", "self.tgt_emb(dec_inputs) + self.pos_emb(pos)"),
]  # fmt: skip


@pytest.mark.parametrize("of_table, is_right", [("", True), ("angles[1] = 0", False)])
def test_positions_come_beside_the_ids_of_both_sides(of_table, is_right, tmp_path):
    text = STYLES["source_ids"].read_text(encoding="utf-8")
    last = "    return torch.tensor(angles"
    for old, new in [*GIVEN_POSITIONS, (last, f"    {of_table}\n{last}")]:
        assert text.count(old) == 1
        text = text.replace(old, new)
    (tmp_path / "learner.py").write_text(text, encoding="utf-8")
    names = {"MultiHeadAttention", "PoswiseFeedForwardNet", "DecoderLayer", "Decoder"}
    with time_to_look(1 if is_right else LESS):
        assert (check_here(tmp_path / "learner.py", names)["Decoder"].verdict in RIGHT) == is_right


OF_RAW_IDS = """
class SelfAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads, self.d_k = num_heads, d_model // num_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, x_raw):
        B, T, E = x.shape
        q, k, v = (f(x).view(B, T, self.num_heads, self.d_k).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_k)
        scores = scores + torch.where(x_raw != 0, 0, -1e20)[:, None, None]
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).reshape(B, T, E))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.att = SelfAttention(d_model, num_heads)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.ff1, self.ff2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x, input_ids):
        x = self.norm1(x + self.att(x, input_ids))
        return self.norm2(x + self.ff2(torch.relu(self.ff1(x))))
"""
"""Ids in place of a mask."""


@pytest.mark.parametrize(
    "right, other, ids",
    [("x_raw != 0", "x_raw != 1", []), ("[:, None, None]", "[:, None, :, None]", ["A7"]), ("!= 0", "== 0", None)],
)
def test_ids_beside_the_vectors_that_were_made_of_them_say_where_padding_is(right, other, ids, tmp_path):
    results = check_text(OF_RAW_IDS.replace(right, other), tmp_path)
    attention, layer = results["SelfAttention"], results["EncoderLayer"]
    if ids:
        assert (attention.verdict, layer.verdict) == ("mistake", "mistake") and attention.ids[:1] == ids
    elif ids is None:  # padding alone is attended to
        assert attention.verdict == "unknown mismatch"
    else:
        assert attention.verdict in RIGHT and layer.verdict in RIGHT
        assert "Its x_raw was given as (B, S), ids with 1 for padding." in attention.notes, attention.notes


LENGTH_FIRST = """
def precompute_cos_sin(rope_theta, n, d, device):
    angles = torch.outer(torch.arange(n), rope_theta ** (-torch.arange(0, d, 2, dtype=torch.float64) / d))
    cos, sin = torch.cat((angles, angles), -1).cos(), torch.cat((-angles.sin(), angles.sin()), -1)

    def get_cos_sin():
        return cos, sin

    return get_cos_sin


def apply_rotary(x, cos, sin):
    assert cos.size(0) == x.size(0)
    length, sentences, heads, width = x.shape
    cos, sin = cos.view(length, 1, 1, -1), sin.view(length, 1, 1, -1)
    return x * cos + torch.cat((x[..., width // 2 :], x[..., : width // 2]), dim=-1) * sin
"""
"""Heads as (T, B, h, d_k), turned by a table whose sines have their signs already."""


def test_a_table_whose_rows_are_asked_for_by_positions_is_given_whole():
    def apply_rotary(q, cos, sin, position_ids): ...

    for names, whole in ((("x", "positions"), True), (("x",), False)):
        plan = next(calling.plans(apply_rotary, names, {"max_len": 9}, tables=beside.usual(9, 4, 1e4)))
        assert plan.constants["cos"].whole == whole


@pytest.mark.parametrize("other, verdict", [("(-angles.sin()", "matches the builtin"), ("(angles.sin()", "mistake")])
def test_what_turns_heads_may_have_the_length_first(other, verdict, tmp_path):
    results = check_text(LENGTH_FIRST.replace("(-angles.sin()", other), tmp_path)
    assert results["apply_rotary"].verdict == verdict, results["apply_rotary"]
    assert "It takes the length first: (T, B, h, d_k)." in results["apply_rotary"].notes


ONE_IN_A_BATCH = """
class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.qkv, self.proj = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, x):
        B, T, E = x.shape
        q, k, v = (t.view(B, T, self.num_heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        future = torch.ones(T, T).triu(1).bool().expand(B, T, T)
        scores = q @ k.transpose(-2, -1) / math.sqrt(E // self.num_heads)
        return self.proj((scores.masked_fill(future, float("-inf")).softmax(-1) @ v).transpose(1, 2).reshape(B, T, E))
"""


@pytest.mark.parametrize("wrong", [False, True])
def test_what_stops_with_more_sentences_than_one_is_given_batches_of_one(tmp_path, wrong):
    text = ONE_IN_A_BATCH.replace("triu(1)", "triu(2)") if wrong else ONE_IN_A_BATCH
    result = check_text(text, tmp_path)["CausalSelfAttention"]
    assert result.severe == (["B26", "A6"] if wrong else ["B26"]), result
    stop = next(m for m in result.mistakes if m.id == "B26")
    assert stop.evidence.startswith("Right with one sentence in a batch, it stops with more: RuntimeError: The size of")
    assert stop.fix.startswith("Write the shape beside each line")


def test_what_refuses_more_sentences_than_one_in_words_is_right(tmp_path):
    refuses = "B, T, E = x.shape\n        if B > 1:\n            raise ValueError('one sentence at a time')\n"
    result = check_text(ONE_IN_A_BATCH.replace("B, T, E = x.shape\n", refuses), tmp_path)["CausalSelfAttention"]
    assert result.severe == [], result


def test_positions_of_source_and_target_have_the_lengths_of_their_sides():
    plan = plan_of(("src", "tgt"), "enc", "enc_pos", "dec", "dec_pos")
    inputs = {"src": torch.zeros(2, 7).long(), "tgt": torch.zeros(2, 5).long()}
    given = plan.give(inputs)
    assert (len(given["enc_pos"]), len(given["dec_pos"])) == (7, 5)
    given = dataclasses.replace(plan, more="tgt").give(inputs)  # it leaves out the last of both
    assert (len(given["enc_pos"]), len(given["dec_pos"]), given["dec"].shape[1]) == (7, 6, 6)
    plans = [*calling.plans(forward_of("enc", "enc_pos", "dec", "dec_pos"), ("src", "tgt"), {"num_heads": 3})]
    last = plans[-1].give(inputs)["dec_pos"]
    assert torch.equal(last, torch.arange(1, 6).expand(2, 5))  # where 0 is the position of padding


def test_an_attention_mask_is_none_of_padding_beside_a_padding_mask():
    sides = ("src_attention_mask", "tgt_attention_mask", "src_padding_mask", "tgt_padding_mask")
    ways = with_required_masks(plan_of(MODEL, "src", "trg", *sides), False)
    first = next(way.masks for way in ways if way.masks)
    assert [first[name][1].shape for name in sides] == ["(T, S)", "(T, S)", "(B, S)", "(B, S)"]


MSK = """
class AttentionHead(nn.Module):
    def __init__(self, d_model, head_size):
        super().__init__()
        self.K, self.Q, self.V = (nn.Linear(d_model, head_size, bias=False) for _ in range(3))

    def forward(self, idx_k, idx_q, idx_v, msk):
        keys, queries, values = self.K(idx_k), self.Q(idx_q), self.V(idx_v)
        scores = (queries @ keys.transpose(-2, -1) * keys.shape[-1] ** -{}).masked_fill(msk == 0, -math.inf)
        return scores.softmax(-1) @ values
"""


@pytest.mark.parametrize("power, ids", [("0.5", ["A14", "A11"]), ("1", ["A1", "A14", "A11"])])
def test_what_is_projected_may_be_named_by_its_role_and_a_mask_short_of_a_vowel(power, ids, tmp_path):
    assert [m.id for m in check_text(MSK.format(power), tmp_path)["AttentionHead"].mistakes] == ids


@pytest.mark.parametrize("names", [("enc_rep", "dec_rep"), ("dec_rep", "enc_rep")])
def test_of_two_unknown_names_the_one_that_says_enc_is_what_the_encoder_gives(names):
    exec(f"def forward({', '.join(names)}, enc_mask, dec_mask):\n    pass", scope := {})
    plan = next(calling.plans(scope["forward"], KINDS["DecoderLayer"].inputs, {"num_heads": 3}))
    assert plan.arguments == {"enc_rep": "memory", "dec_rep": "x"}


@pytest.mark.parametrize("name", ["segment_x", "seg_ids", "segments", "token_type_ids"])
def test_segments_have_many_names(name):
    assert inputs.is_segment(name) and not inputs.is_segment("segmented_sum")


def test_segments_that_may_be_left_out_are_given_all_the_same():
    """A mask may be refused without them."""

    def forward(ids, segment_ids=None, padding_mask=None):
        return ids

    given = [plan.constants["segment_ids"] for plan in calling.plans(forward, ("ids", "mask"), {})]
    assert isinstance(given[0], beside.Segments)
    assert None in given


NORM_OF_ROWS = """
class NAME:
    def __init__(self, dim, eps=1e-5):
        self.eps = eps
        self.gamma, self.beta = torch.ones(dim), torch.zeros(dim)

    def __call__(self, x):
        mean, var = x.mean(AXIS, keepdim=True), x.var(AXIS, keepdim=True, unbiased=False)
        return self.gamma * (x - mean) / torch.sqrt(var + self.eps) + self.beta

    def parameters(self):
        return [self.gamma, self.beta]
"""


@pytest.mark.parametrize("name, axis, ids", [
    ("LayerNorm1d", "1", []), ("LayerNorm1d", "-1", []), ("LayerNorm", "1", ["LN7"]), ("LayerNorm1d", "0", ["LN7"]),
])  # fmt: skip
def test_a_norm_that_is_called_one_of_rows_is_given_rows(name, axis, ids, tmp_path):
    """Axis 1 of (N, features) has the features."""
    result = check_text(NORM_OF_ROWS.replace("NAME", name).replace("AXIS", axis), tmp_path)[name]
    assert result.severe == ids


@pytest.mark.parametrize("said, used, ids", [
    ("(batch, features)", "", []), ("(batch, length, features)", "", ["LN7"]),
    ("(batch, features)", "norm = Normalizer(8)", ["LN7"]),
])  # fmt: skip
def test_nor_is_one_that_says_so_and_that_nothing_uses_given_sequences(said, used, ids, tmp_path):
    text = NORM_OF_ROWS.replace("NAME:", f'Normalizer:\n    """Layer normalization of x: {said}."""\n')
    result = check_text(f"{text.replace('AXIS', '1')}\n{used}\n", tmp_path)["Normalizer"]
    assert result.severe == ids


THREE_SIDES = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0
        self.heads = num_heads
        self.of_target, self.of_source, self.of_memory, self.out = (nn.Linear(d_model, d_model) for _ in range(4))

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, target, source, memory, mask=None):
        q, k = self.split(self.of_target(target)), self.split(self.of_source(source))
        v = self.split(self.of_memory(memory))
        scores = q @ k.mT / SCALE
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""


@pytest.mark.parametrize("scale, ids", [("q.size(-1) ** 0.5", []), ("q.size(-1)", ["A1"])])
def test_three_sides_are_the_query_the_key_and_the_value_whatever_they_are_called(scale, ids, tmp_path):
    """The source is no ids that tell where padding is: there is one for each of the three."""
    result = check_text(THREE_SIDES.replace("SCALE", scale), tmp_path)["MultiHeadAttention"]
    assert (result.verdict, result.severe) == ("mistake" if ids else "matches the builtin", ids), result
