"""What is right is no mistake because of how it is built or called, or of a mistake beside it; a wrong twin is one."""

from dataclasses import replace

import pytest
from torch import nn

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.judge.detectors.embedding import is_handed_in
from scratch_transformer.kit.judge.diagnose import diagnose
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.report.finding import FINE
from scratch_transformer.kit.resolve.library.library import Library
from scratch_transformer.kit.resolve.trials.match import resolve

# ---- A sum that is given both of its terms ----

ADD_AND_NORM = """
class AddAndNorm(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.layer_norm = nn.LayerNorm(d_model)

    def forward(self, x, residual):
        return SUM
"""


@pytest.mark.parametrize(
    "sum, ids",
    [
        ("self.layer_norm(x + residual)", []),
        ("self.layer_norm(x)", ["B13"]),
        ("residual + self.layer_norm(x)", ["B3"]),
        ("self.layer_norm(residual + residual + x)", ["B23"]),
    ],
)
def test_what_is_added_to_a_sublayers_output_is_known_by_its_name(sum, ids, tmp_path):
    """Given one tensor for both, norm(x + x) has a quarter of its eps."""
    result = check_text(ADD_AND_NORM.replace("SUM", sum), tmp_path)["AddAndNorm"]
    assert (result.kind, result.ids) == ("ResidualConnection", ids)


# ---- Parts that refuse sizes ----

GIVEN_PARTS = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_head):
        super().__init__()
        assert d_model % n_head == 0
        self.h, self.d_k = n_head, d_model // n_head
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, q, k, v):
        q, k, v = (w(x).view(*x.shape[:2], self.h, self.d_k).transpose(1, 2)
                   for w, x in ((self.w_q, q), (self.w_k, k), (self.w_v, v)))
        weights = (q @ k.transpose(-2, -1) / math.sqrt(self.d_k)).softmax(-1)
        return self.w_o((weights @ v).transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


class EncoderLayer(nn.Module):
    def __init__(self, multi_head_attention, feed_forward, d_model=512):
        super().__init__()
        self.attention, self.network = multi_head_attention, feed_forward
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x):
        x = self.norm1(x + self.attention(x, x, x))
        return self.norm2(x + self.network(x))
"""


@pytest.mark.long
def test_heads_that_a_part_refuses_are_refused(tmp_path):
    results = check_text(GIVEN_PARTS, tmp_path)
    assert results["EncoderLayer"].verdict == "matches the builtin"
    assert not any("A19" in (*result.ids, *result.inherited) for result in results.values())
    twin = check_text(GIVEN_PARTS.replace("        assert d_model % n_head == 0\n", ""), tmp_path)
    assert "A19" in twin["MultiHeadAttention"].ids


WIDTH_OF_THE_FILE = """
d_model = 64


class Attention(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.heads, self.d_k = heads, d_model // heads
        assert heads * self.d_k == d_model, "heads must divide d_model"
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (self.heads, self.d_k)).transpose(1, 2) for f in (self.q, self.k, self.v))
        weights = torch.softmax(q @ k.mT / math.sqrt(self.d_k), dim=-1)
        return self.o((weights @ v).transpose(1, 2).flatten(2))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, heads):
        super().__init__()
        self.attention = Attention(heads)
        self.network = nn.Sequential(nn.Linear(d_model, 96), nn.ReLU(), nn.Linear(96, d_model))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x):
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.network(x))
"""
CHECK = '        assert heads * self.d_k == d_model, "heads must divide d_model"\n'
IN_FORWARD = CHECK.replace("d_model,", "x.shape[-1],").replace("heads *", "self.heads *")


def test_heads_that_are_cut_from_another_width_do_not_fail_for_not_dividing_this_one(tmp_path):
    results = check_text("import math\n" + WIDTH_OF_THE_FILE, tmp_path)
    assert {name: result.verdict for name, result in results.items()} == dict.fromkeys(
        ("Attention", "EncoderLayer"), "matches the builtin"
    )


@pytest.mark.parametrize("check, ids", [("", ["A19"]), (IN_FORWARD, [])])
def test_heads_that_do_not_divide_are_refused_in_words_by_forward_too(check, ids, tmp_path):
    text = WIDTH_OF_THE_FILE.replace("self, heads)", "self, d_model, heads)").replace("(heads)\n", "(d_model, heads)\n")
    text = "import math\n" + text.replace(CHECK, "").replace("(self, x):\n", f"(self, x):\n{check}", 1)
    results = check_text(text, tmp_path)
    assert results["Attention"].ids == ids


# ---- Paddings, lists ----

LOOKED_UP = """
class Embeddings(nn.Module):
    def __init__(self, config, vocab, hidden=1):
        super().__init__()
        self.words = nn.Embedding(config["vocab_size"], config["embed_size"], padding_idx=PAD)

    def forward(self, ids):
        return self.words(ids) * math.sqrt(self.words.embedding_dim)
"""


@pytest.mark.parametrize(
    "pad, ids", [('vocab["<pad>"]', []), ("vocab.token_to_id('[PAD]')", []), ("0", ["E5"]), ("hidden", [])]
)
def test_padding_that_is_looked_up_is_no_fixed_number(pad, ids, tmp_path):
    assert check_text(LOOKED_UP.replace("PAD", pad), tmp_path)["Embeddings"].ids == ids


HEADS_IN_A_TUPLE = """
class Core(nn.Module):
    def forward(self, q, k, v):
        return (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(-1) @ v


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0, "num_heads must divide d_model"
        self.heads = tuple(CORE for _ in range(num_heads))
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, query, key, value):
        parts = (w(x).chunk(len(self.heads), -1) for w, x in ((self.w_q, query), (self.w_k, key), (self.w_v, value)))
        return self.w_o(torch.cat([head(*three) for head, three in zip(self.heads, zip(*parts))], -1))
"""


def test_modules_without_weights_may_be_in_a_tuple(tmp_path):
    result = check_text(HEADS_IN_A_TUPLE.replace("CORE", "Core()"), tmp_path)["MultiHeadAttention"]
    assert (result.verdict, result.ids) == ("matches the builtin", [])
    weighted = "        self.temperature = nn.Parameter(torch.zeros(3))\n"
    twin = HEADS_IN_A_TUPLE.replace(
        "class Core(nn.Module):\n",
        "class Core(nn.Module):\n    def __init__(self):\n        super().__init__()\n" + weighted + "\n",
    ).replace("CORE", "Core()")
    assert "B10" in check_text(twin, tmp_path)["MultiHeadAttention"].ids


# ---- Nothing is added ----

NO_POSITIONS = """
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000):
        super().__init__()

    def forward(self, x):
        return x


class Encoder(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers, max_len):
        super().__init__()
        self.embed, self.positions = nn.Embedding(vocab_size, d_model), PositionalEncoding(d_model, max_len)
        layers = (nn.TransformerEncoderLayer(d_model, num_heads, d_ff, batch_first=True) for _ in range(num_layers))
        self.layers = nn.ModuleList(layers)

    def forward(self, ids):
        x = self.positions(self.embed(ids))
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=ids == 0)
        return x
"""


def test_what_adds_nothing_is_no_table_of_integers(tmp_path):
    results = check_text(NO_POSITIONS, tmp_path)
    positions = results["PositionalEncoding"]
    assert (positions.verdict, positions.ids, positions.design) == ("mistake", ["P13"], "")
    whole = results["Encoder"]
    assert "no positions" in whole.design
    assert (whole.verdict, whole.inherited) == ("mistake", ["P13"])


# ---- What a mistake leaves undecided ----

LAYER = """
class Layer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.fc1, self.fc2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def network(self, x):
        return self.fc2(self.fc1(x))

    def forward(self, x):
        x = self.norm1(x + self.attention(x, x, x)[0])
        return self.norm2(x + self.network(x))
"""


def test_what_has_no_activation_has_no_gelu(tmp_path):
    result = check_text(LAYER.replace("class Layer", "class EncoderLayer"), tmp_path)["EncoderLayer"]
    assert (result.verdict, result.ids, result.design) == ("mistake", ["B16"], "post-norm")


def test_a_norm_after_the_sublayer_is_no_pre_norm(tmp_path):
    text = LAYER.replace("self.fc2(self.fc1(x))", "self.fc2(F.gelu(self.fc1(x)))")
    text = text.replace("self.norm1(x + self.attention(x, x, x)[0])", "x + self.norm1(self.attention(x, x, x)[0])")
    text = text.replace("self.norm2(x + self.network(x))", "x + self.norm2(self.network(x))")
    result = check_text(text.replace("class Layer", "class EncoderLayer"), tmp_path)["EncoderLayer"]
    assert (result.verdict, result.ids, result.design) == ("mistake", ["B3"], "GELU")


IDLE_NORMS = """
class Stack(nn.Module):
    def __init__(self, layer, number, d_model):
        super().__init__()
        self.layers = nn.ModuleList([copy.deepcopy(layer) for _ in range(number)])
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x, *others, **masks):
        for layer in self.layers:
            x = layer(x, *others, **masks)
        return x


class Transformer(nn.Module):
    def __init__(self, src_vocab_size, tgt_vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.src_embed, self.tgt_embed = nn.Embedding(src_vocab_size, d_model), nn.Embedding(tgt_vocab_size, d_model)
        sizes = d_model, num_heads, d_ff
        self.encoder = Stack(nn.TransformerEncoderLayer(*sizes, batch_first=True), num_layers, d_model)
        self.decoder = Stack(nn.TransformerDecoderLayer(*sizes, batch_first=True), num_layers, d_model)
        self.project = nn.Linear(d_model, tgt_vocab_size)

    def forward(self, src, tgt):
        pad, later = src == 0, torch.ones(tgt.shape[1], tgt.shape[1]).triu(1).bool()
        memory = self.encoder(self.src_embed(src), src_key_padding_mask=pad)
        out = self.decoder(self.tgt_embed(tgt), memory, tgt_mask=later, memory_key_padding_mask=pad)
        return self.project(out)
"""


@pytest.mark.long
def test_last_norms_that_are_made_and_not_used_tell_nothing_of_the_others(tmp_path):
    result = check_text(IDLE_NORMS, tmp_path)["Transformer"]
    assert "B1" not in result.ids and "final norm" not in result.design and "pre-norm" not in result.design
    assert "B4" in result.ids and "post-norm" in result.design


ONE_HEAD = """
class SelfAttention(nn.Module):
    def __init__(self, d_model, num_heads=1):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(d_model, d_model) for _ in range(3))

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        return (q @ k.transpose(-2, -1) / math.sqrt(k.size(-1))).softmax(-1) @ v
"""


@pytest.mark.long
def test_heads_that_are_not_listened_to_are_said_once(tmp_path):
    """That one head attends for all is what comes of it."""
    ids = check_text(ONE_HEAD, tmp_path)["SelfAttention"].ids
    assert "B29" in ids and "A13" not in ids
    told = check_text(ONE_HEAD.replace(", num_heads=1", ""), tmp_path)["SelfAttention"]
    assert told.verdict in FINE


CONFIG = """
class Config:
    def __init__(self, vocab_size, n_embd, n_head, n_layer):
        self.vocab_size, self.n_embd, self.n_head, self.n_layer = vocab_size, n_embd, n_head, n_layer
"""


@pytest.mark.parametrize("read, named", [("", set()), ("self.h = config.n_head", {"B29"})])
@pytest.mark.long
def test_one_head_whose_config_is_of_others_too(read, named, tmp_path):
    """What a class reads of its config is what it is told."""
    own = ONE_HEAD.replace("d_model, num_heads=1", "config").replace("d_model", "config.n_embd")
    own = own.replace("__init__()\n", f"__init__()\n        {read}\n")
    result = check_text(CONFIG + own, tmp_path)["SelfAttention"]
    assert {one.id for one in result.mistakes if one.severity == "mistake"} == named
    assert named or result.verdict in FINE


# ---- What is found, and was not ----

BY_LETTERS = """
class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.own, self.other = (nn.MultiheadAttention(d_model, num_heads, batch_first=True) for _ in range(2))
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, y, encoder_output):
        later = torch.ones(y.shape[1], y.shape[1]).triu(1).bool()
        y = self.norm1(y + self.own(y, y, y, attn_mask=later)[0])
        y = self.norm2(y + self.other(y, encoder_output, encoder_output)[0])
        return self.norm3(y + self.ffn(y))
"""


def test_a_letter_beside_the_encoders_output_is_the_target(tmp_path):
    result = check_text(BY_LETTERS, tmp_path)["DecoderLayer"]
    assert (result.kind, result.verdict) == ("DecoderLayer", "matches the builtin")


FILLED = """
class Attention(nn.Module):
    def forward(self, q, k, v, mask=None):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = BLOCKED
        return scores.softmax(-1) @ v
"""


@pytest.mark.parametrize(
    "blocked, form",
    [
        ("scores.masked_fill(mask == 0, 1e-9)", "filled with 1e-9"),
        ("scores.masked_fill(mask == 0, -1e-9)", "filled with -1e-9"),
        ("scores * mask", ""),
    ],
)
@pytest.mark.long
def test_a_small_number_in_place_of_a_large_one_is_no_product(blocked, form, tmp_path):
    (named, *_) = check_text(FILLED.replace("BLOCKED", blocked), tmp_path)["Attention"].mistakes
    assert (named.id, named.form) == ("A4", form)


TRIANGULAR = """
def _create_triangular_mask(batch_size, mask_size):
    mask = torch.TRI(torch.ones(mask_size, mask_size))
    return mask.unsqueeze(0).expand(batch_size, -1, -1)
"""


@pytest.mark.parametrize("tri, is_right", [("tril", True), ("triu", False)])
def test_a_mask_of_several_sentences_is_one_too(tri, is_right, tmp_path):
    result = check_text(TRIANGULAR.replace("TRI", tri), tmp_path)["_create_triangular_mask"]
    assert (result.kind, result.verdict in FINE, result.verdict == "mistake") == ("CausalMask", is_right, not is_right)


# ---- Masks that were not found in time ----


class Adds(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h = num_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, mask=None):
        q, k, v = (w(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        scores = scores if mask is None else scores + self.read(mask)
        return self.w_o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

    def read(self, mask):
        return mask


class AddsWhetherItMay(Adds):
    def read(self, mask):
        return (mask == 0).to(mask.dtype)


@pytest.mark.parametrize("cls, is_right", [(Adds, True), (AddsWhetherItMay, False)])
def test_what_adds_its_mask_is_not_blamed_for_one_of_ones_and_zeros(cls, is_right):
    """As the first form that runs is taken where the time is over."""
    library = Library(KINDS)
    library.add(cls, ("SelfAttention",))
    library.allow(20.0, True)
    candidate = resolve(cls, KINDS["SelfAttention"], library).candidate
    ((parameter, (name, form)),) = candidate.plan.masks.items()
    candidate.plan = candidate.plan.with_masks({parameter: (name, replace(form, polarity="1 = may attend"))})
    diagnosis = diagnose(candidate)
    assert ("A16" in diagnosis.ids) != is_right
    assert (diagnosis.verdict == "mistake") != is_right


# ---- Parts of other files ----

NORM = """
import torch, torch.nn as nn

class LayerNormalization(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.gamma, self.beta = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        mean, var = x.mean(-1, keepdim=True), x.var(-1, unbiased=False, keepdim=True)
        return self.gamma * (x - SUBTRACTED) / torch.sqrt(var + self.eps) + self.beta
"""


@pytest.mark.parametrize("subtracted, is_right", [("mean", True), ("var ** 2 + mean", False)])
@pytest.mark.long
def test_what_is_right_but_for_a_part_of_another_file_is_not_called_right(subtracted, is_right, tmp_path, monkeypatch):
    name = f"norm_of_{'right' if is_right else 'wrong'}"
    (tmp_path / f"{name}.py").write_text(NORM.replace("SUBTRACTED", subtracted))
    monkeypatch.syspath_prepend(tmp_path)
    text = LAYER.replace("class Layer", "class EncoderLayer").replace("nn.LayerNorm", "LayerNormalization")
    text = f"from {name} import LayerNormalization\n" + text.replace("self.fc1(x))", "self.fc1(x).relu())")
    result = check_text(text, tmp_path)["EncoderLayer"]
    assert result.verdict == ("matches the builtin" if is_right else "unknown mismatch")


# ---- A number that no name explains ----

CORE = """
class ScaledDotProductAttention(nn.Module):
    def __init__(self, d_tensor):
        super().__init__()
        self.scale = math.sqrt(d_tensorTIMES)

    def forward(self, q, k, v, mask=None):
        scores = q @ k.transpose(2, 3) / self.scale
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return F.softmax(scores, dim=-1) @ v
"""


@pytest.mark.parametrize("times, ids", [("", []), (" * 3", ["A1"])])
@pytest.mark.long
def test_of_what_is_given_heads_an_unknown_number_is_their_width(times, ids, tmp_path):
    """Its caller has a width for all heads together, it has none."""
    result = check_text(CORE.replace("TIMES", times), tmp_path)["ScaledDotProductAttention"]
    assert result.ids == ids


class Embedder(nn.Module):
    def __init__(self, num_embeddings, embedding_dim, padding_idx=0):
        super().__init__()
        self.words = nn.Embedding(num_embeddings, embedding_dim, padding_idx=padding_idx)


class Given(nn.Module):
    def __init__(self, embedding):
        super().__init__()
        self.embedding = embedding


class Making(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = Embedder(13, 12)


def test_a_table_that_is_handed_in_may_be_told_its_padding():
    """It is a fixed number (E5) of what makes the table without telling it, or of the table's own class."""
    assert is_handed_in(Given(Embedder(13, 12)), "embedding.words")
    assert not is_handed_in(Making(), "embedding.words")
    assert not is_handed_in(Embedder(13, 12), "words")
    assert not is_handed_in(Given(nn.ModuleList([nn.Embedding(13, 12, 0)])), "embedding.0")
