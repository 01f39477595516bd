"""Masks of padding and masks that hide the future, each given by itself, or one of them made by the model."""

import pytest
import torch

from reference_tests.kit.learners.checked import check_text
from reference_tests.kit.test_ways_to_call import plan_of
from scratch_transformer.kit.judge.diagnose import diagnose
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.report.finding import FINE
from scratch_transformer.kit.resolve.call.masks import Form, Inexpressible
from scratch_transformer.kit.resolve.candidate import Resolved
from scratch_transformer.kit.resolve.trials.mask_search import _of_two_sorts, with_required_masks

pytestmark = pytest.mark.long


def test_each_may_be_meant_in_its_own_way():
    """As what makes `padding & ~future` of a padding mask (B, 1, 1, S) and one of the future (T, S) asks for them."""
    names = ("padding_mask", "future_mask", "memory_padding_mask")
    plan = plan_of(("x", "memory", "mask", "memory_mask"), "x", "memory", *names)
    takers = [(p, name) for p, name, _ in plan.mask_parameters]
    assert takers == [("padding_mask", "mask"), ("future_mask", "mask"), ("memory_padding_mask", "memory_mask")]
    said = [{p: str(form) for p, (_, form) in forms.items()} for forms in _of_two_sorts(takers)]
    keys = "(B, 1, 1, S), True = may attend"
    assert dict(zip(names, (keys, "(T, S), True = blocked", keys), strict=True)) in said
    required = [{p: form.shape for p, (_, form) in one.masks.items()} for one in with_required_masks(plan, True)]
    assert dict(zip(names, ("(B, 1, 1, S)", "(T, S)", "(B, 1, 1, S)"), strict=True)) in required


def test_required_masks_of_each_sample_may_be_one_of_rows_and_one_of_keys():
    """As what asserts src_mask.shape == (B, S) and tgt_mask.shape == (B, T, T) asks for them."""
    plan = plan_of(("src", "tgt", "src_mask", "tgt_mask"), "src", "tgt", "src_mask", "tgt_mask")
    required = [{p: form.shape for p, (_, form) in one.masks.items()} for one in with_required_masks(plan, True)]
    assert {"src_mask": "(B, S)", "tgt_mask": "(B, T, S)"} in required


def layer(x, padding_mask, future_mask):
    """Of which nothing but the masks is looked at: every token is the mean of those that it may attend to."""
    keep = (padding_mask & ~future_mask).double()
    return (keep[:, 0] @ x) / keep[:, 0].sum(-1, keepdim=True).clamp(min=1)


def test_a_causal_mask_that_was_taken_the_wrong_way_round_is_turned():
    kind = KINDS["DecoderOnlyLayer"]
    plan = plan_of(kind.inputs, "x", "padding_mask", "future_mask")
    names = {"padding_mask": "(B, 1, 1, S)", "future_mask": "(T, S)"}
    taken = {p: ("mask", Form("True = may attend", shape)) for p, shape in names.items()}
    candidate = Resolved(kind, layer, kind.defaults, plan.with_masks(taken))
    candidate.notes.append("Its future_mask was given as (T, S), True = may attend.")
    turned = candidate.with_turned_mask()
    assert {p: str(form) for p, (_, form) in turned.plan.masks.items()} == {
        "padding_mask": "(B, 1, 1, S), True = may attend", "future_mask": "(T, S), True = blocked",
    }  # fmt: skip
    assert turned.notes == ["Its future_mask was given as (T, S), True = blocked."]
    alone = Resolved(kind, layer, kind.defaults, plan.with_masks({"future_mask": taken["future_mask"]}))
    assert alone.with_turned_mask() is None  # of one mask, for padding and the future, the other way is another mask
    assert "A5" not in diagnose(candidate).ids


def test_a_model_that_finds_padding_itself_is_told_of_the_future_alone():
    """Before, what it gives for padding in the target was not checked."""
    plan = plan_of(("src", "tgt", "src_mask", "tgt_mask"), "src", "tgt", "future_mask")
    plan = plan.with_masks({"future_mask": ("tgt_mask", Form("True = blocked", "(T, S)"))})
    ids = torch.tensor([[3, 4, 5], [3, 4, 1]])
    padded = (ids != 1)[:, None, None, :] & torch.ones(3, 3).tril().bool()
    inputs = {"src": ids, "tgt": ids, "src_mask": None, "tgt_mask": padded}
    with pytest.raises(Inexpressible):
        plan.give(inputs)
    by_itself = Resolved(KINDS["Transformer"], FindsPadding().forward, {}, plan).plan
    assert torch.equal(by_itself.give(inputs)["future_mask"], torch.ones(3, 3).triu(1).bool())


class FindsPadding:
    def forward(self, src, tgt, future_mask):
        tgt_padding_mask = tgt != 1
        return src, tgt_padding_mask, future_mask


# ---- What has the word in its name, and is none ----

MASKED_TOKENS = """
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, masked_x):
        return self.down(torch.relu(self.up(masked_x)))


class TransformerEncoder(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers, max_len):
        super().__init__()
        self.words, self.places = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        made = (nn.TransformerEncoderLayer(d_model, num_heads, d_ff, batch_first=True) for _ in range(num_layers))
        self.layers = nn.ModuleList(made)

    def forward(self, masked_tokens{}):
        x = self.words(masked_tokens) + self.places(torch.arange(masked_tokens.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return x
"""


@pytest.mark.parametrize("more, severity", [("", "harmless"), (", padding_mask=None", "mistake")])
def test_what_words_are_hidden_in_is_no_mask(more, severity, tmp_path):
    """As BERT is given it; what takes a mask besides, and ignores it, is named."""
    results = check_text(MASKED_TOKENS.format(more), tmp_path)
    assert results["FeedForward"].verdict == "matches the builtin"
    assert {m.id: m.severity for m in results["TransformerEncoder"].mistakes}["A24"] == severity


OF_KEYS = """
class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        scores = q @ k.mT * q.shape[-1] ** -0.5
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, None, :], -torch.finfo(scores.dtype).max)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""


@pytest.mark.parametrize(("old", "new", "ids"), [
    ("", "", []), ("None, None, :]", "None, :, None]", ["A7"]),
    ("scores = scores.masked_fill", "scores.masked_fill", ["A24"]),
])  # fmt: skip
def test_what_hides_the_queries_of_padding_does_not_ignore_the_mask(old, new, ids, tmp_path):
    result = check_text(OF_KEYS.replace(old, new), tmp_path)["SelfAttention"]
    assert [id for id in result.ids if id != "A19"] == ids, result


ACROSS = """
class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attn, self.crs = (nn.MultiheadAttention(d_model, num_heads, batch_first=True) for _ in range(2))
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))
        self.h = num_heads

    def given(self, mask):
        return None if mask is None else (mask == 0).repeat_interleave(self.h, 0)

    def forward(self, x, memory, tgt_mask, crs_mask):
        x = self.norm1(x + self.attn(x, x, x, attn_mask=self.given(tgt_mask))[0])
        x = self.norm2(x + self.crs(x, memory, memory, attn_mask=self.given(crs_mask))[0])
        return self.norm3(x + self.ffn(x))


class Seq2Seq(nn.Module):
    def __init__(self, src_vocab_size, tgt_vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.src_embed, self.tgt_embed = nn.Embedding(src_vocab_size, d_model), nn.Embedding(tgt_vocab_size, d_model)
        layers = [nn.TransformerEncoderLayer(d_model, num_heads, d_ff, batch_first=True) for _ in range(num_layers)]
        self.encoder, self.h = nn.ModuleList(layers), num_heads
        self.decoder = nn.ModuleList([DecoderLayer(d_model, num_heads, d_ff) for _ in range(num_layers)])
        self.project = nn.Linear(d_model, tgt_vocab_size)

    def forward(self, src, tgt, src_mask=None, tgt_mask=None, crs_mask=None):
        memory, x = self.src_embed(src), self.tgt_embed(tgt)
        for layer in self.encoder:
            memory = layer(memory, None if src_mask is None else (src_mask == 0).repeat_interleave(self.h, 0))
        for layer in self.decoder:
            x = layer(x, memory, tgt_mask, crs_mask)
        return self.project(x)
"""


@pytest.mark.parametrize("given, named", [("crs_mask", False), ("None", True)])
def test_a_mask_for_the_attention_across_is_the_sources(given, named, tmp_path):
    plan = plan_of(("src", "tgt", "src_mask", "tgt_mask"), "src", "tgt", "src_mask", "tgt_mask", "crs_mask")
    assert [name for _, name, _ in plan.mask_parameters] == ["src_mask", "tgt_mask", "src_mask"]
    text = ACROSS.replace(
        "tgt_mask, crs_mask)\n        return self.project", f"tgt_mask, {given})\n        return self.project"
    )
    result = check_text(text, tmp_path)["Seq2Seq"]
    assert ("A22" in result.ids) == named, result
    assert named or result.verdict in FINE, result


EXPANDED = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, heads):
        super().__init__()
        self.heads, self.d_k = heads, d_model // heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def split(self, x):
        return x.view(len(x), -1, self.heads, self.d_k).transpose(1, 2)

    def forward(self, q, k, v, mask=None):
        q, k, v = self.split(self.w_q(q)), self.split(self.w_k(k)), self.split(self.w_v(v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask.expand(-1, self.heads, q.size(-2), k.size(-2)), float("-inf"))
        return self.w_o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class DecoderBlock(nn.Module):
    def __init__(self, d_model, d_ff, heads):
        super().__init__()
        self.attention, self.across = MultiHeadAttention(d_model, heads), MultiHeadAttention(d_model, heads)
        self.network = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, x, encoder_output, padding_mask, combined_mask):
        x = self.norm1(x + self.attention(x, x, x, combined_mask))
        x = self.norm2(x + self.across(x, encoder_output, encoder_output, padding_mask))
        return self.norm3(x + self.network(x))
"""


@pytest.mark.parametrize("name, ids", [("across", []), ("attention", ["A36"])])
def test_a_combined_mask_is_of_padding_and_the_future(name, ids, tmp_path):
    text = EXPANDED.replace("self.across(", f"self.{name}(")
    result = check_text(text, tmp_path)["DecoderBlock"]
    assert result.severe == ids, result
    assert ids or result.verdict in FINE, result


@pytest.mark.parametrize("names, expected", [
    (("pad_mask", "mask"), ["memory_mask", "mask"]),
    (("mask", "pad_mask"), ["mask", "memory_mask"]),
    (("mask_dec_self", "mask_dec_enc"), ["mask", "memory_mask"]),
    (("mask_enc_dec", "mask_dec"), ["memory_mask", "mask"]),
])  # fmt: skip
def test_of_a_decoders_two_masks_the_names_tell_the_sources(names, expected):
    plan = plan_of(("x", "memory", "mask", "memory_mask"), "x", "memory", *names)
    assert [name for _, name, _ in plan.mask_parameters] == expected


# ---- The future by a flag, and the padding by a mask ----

BY_A_FLAG = """
class SelfAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0
        self.h = num_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, padding_mask=None, is_causal=False):
        B, T, C = x.shape
        q, k, v = (p(x).view(B, T, self.h, -1).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        hides = is_causal and padding_mask is None
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=padding_mask, is_causal=hides)
        return self.out_proj(y.transpose(1, 2).reshape(B, T, C))
"""
JOINED = """hides = False
        if is_causal:
            future = torch.ones(T, T, dtype=torch.bool).tril()
            padding_mask = future if padding_mask is None else padding_mask & future
"""


def test_a_flag_for_the_future_that_a_mask_of_padding_undoes(tmp_path):
    result = check_text(BY_A_FLAG, tmp_path)["SelfAttention"]
    (found,) = (one for one in result.mistakes if one.severity == "mistake")
    assert found.id == "A29" and "hides = is_causal and padding_mask is None" in found.code[2]
    right = BY_A_FLAG.replace("hides = is_causal and padding_mask is None\n", JOINED)
    assert check_text(right, tmp_path)["SelfAttention"].verdict in FINE


MULTIPLIED = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h = num_heads
        self.w_q, self.w_k = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.w_v, self.w_o = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask):
        q, k, v = (y.unflatten(-1, (self.h, -1)).transpose(1, 2) for y in (self.w_q(q), self.w_k(k), self.w_v(v)))
        scores = (q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))).masked_fill(mask.unsqueeze(1).bool(), -math.inf)
        return self.w_o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.own, self.cross = MultiHeadAttention(d_model, num_heads), MultiHeadAttention(d_model, num_heads)
        self.network = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, dec_input, enc_output, NAME, self_attn_mask, dec_enc_attn_mask):
        x = self.norm1(dec_input + self.own(dec_input, dec_input, dec_input, self_attn_mask)) * KEPT
        x = self.norm2(x + self.cross(x, enc_output, enc_output, CROSS)) * KEPT
        return self.norm3(x + self.network(x)) * KEPT
"""


@pytest.mark.parametrize("optional", [False, True])
@pytest.mark.parametrize("name, kept", [("pad_mask", "pad_mask.unsqueeze(-1)"), ("non_pad_mask", "non_pad_mask")])
@pytest.mark.parametrize("cross, ids", [("dec_enc_attn_mask", []), ("torch.zeros_like(dec_enc_attn_mask)", ["A22"])])
def test_masks_that_tokens_are_multiplied_with_are_told_from_those_of_scores(
    name, kept, cross, ids, optional, tmp_path
):
    """1 for words, and with a dimension for features or without; the others are 1 where scores are hidden."""
    text = MULTIPLIED.replace("KEPT", kept).replace("CROSS", cross)
    own = "self_attn_mask, dec_enc_attn_mask"
    others = f"{own}, NAME=None" if optional else f"NAME, {own}"
    text = text.replace(f"NAME, {own}", others).replace("NAME", name)
    result = check_text(text, tmp_path)["DecoderLayer"]
    assert (result.verdict in FINE, result.severe) == (not ids, ids), result
    assert any(f"Its {name} was 1 for all tokens" in limit for limit in result.limits)
