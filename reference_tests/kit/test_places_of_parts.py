"""What lies elsewhere than usual: projections beside the attention, norms inside it, tables asked for by position."""

import sys

import pytest
import torch
from torch import nn

from reference_tests.kit.learners.checked import check_here
from scratch_transformer.kit import check
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.report.finding import FINE
from scratch_transformer.kit.resolve.library.library import Library

BESIDE = """
import math, torch
from torch import nn

class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        assert d_model % n_heads == 0
        self.n_heads, self.d_head = n_heads, d_model // n_heads
        self.W_0 = nn.Linear(d_model, d_model)

    def heads(self, x):
        return x.view(x.size(0), x.size(1), self.n_heads, self.d_head).transpose(1, 2)

    def forward(self, q, k, v, mask=None):
        q, k, v = self.heads(q), self.heads(k), self.heads(v)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_head)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        y = (scores.softmax(-1) @ v).transpose(1, 2).contiguous()
        return self.W_0(y.view(y.size(0), y.size(1), -1))

class DecoderBlock(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.W_q_1, self.W_k_1, self.W_v_1 = (nn.Linear(d_model, d_model) for _ in range(3))
        self.attention_1, self.norm_1 = MultiHeadAttention(d_model, n_heads), nn.LayerNorm(d_model)
        self.W_q_2, self.W_k_2, self.W_v_2 = (nn.Linear(d_model, d_model) for _ in range(3))
        self.attention_2, self.norm_2 = MultiHeadAttention(d_model, n_heads), nn.LayerNorm(d_model)
        self.net = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm_3 = nn.LayerNorm(d_model)

    def forward(self, x, memory, src_mask, tgt_mask):
        x = self.norm_1(x + self.attention_1(self.W_q_1(x), self.W_k_1(x), self.W_v_1(x), tgt_mask))
        k, v = self.W_k_2(memory), self.W_v_2(memory)
        x = self.norm_2(x + self.attention_2(self.W_q_2(x), k, v, src_mask))
        return self.norm_3(x + self.net(x))

class Decoder(nn.Module):
    def __init__(self, n_blocks, d_model, n_heads, d_ff):
        super().__init__()
        self.blocks = nn.ModuleList([DecoderBlock(d_model, n_heads, d_ff) for _ in range(n_blocks)])

    def forward(self, x, memory, src_mask, tgt_mask):
        for layer in self.blocks:
            x = layer(x, memory, src_mask, tgt_mask)
        return x
"""


def test_projections_beside_the_attention(tmp_path):
    file = tmp_path / "beside.py"
    file.write_text(BESIDE, encoding="utf-8")
    results = check_here(file, ["DecoderBlock", "Decoder"])
    assert {name: (r.verdict, r.replaced) for name, r in results.items()} == {
        "DecoderBlock": ("matches the builtin", []),
        "Decoder": ("matches the builtin", []),
    }


class Attention(nn.Module):
    """All that goes in is normalized, and the residual sum is inside; the last projection has a name of its own."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.norm, self.h = nn.LayerNorm(d_model), num_heads
        self.q, self.k, self.v = (nn.Linear(d_model, d_model) for _ in range(3))
        self.ff = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        heads = (
            project(self.norm(x)).unflatten(-1, (self.h, -1)).transpose(1, 2)
            for x, project in zip((q, k, v), (self.q, self.k, self.v), strict=True)
        )
        y = nn.functional.scaled_dot_product_attention(*heads, attn_mask=mask)
        return q + self.ff(y.transpose(1, 2).flatten(2))


def test_norms_of_all_that_goes_into_attention():
    result = check(Attention, kind="MultiheadAttention", d_model=12, num_heads=3)
    assert (result.verdict, result.ids) == ("harmless deviation", ["A19"])
    assert result.design == "norms of queries, keys and values, and residual inside"


class OutputFirst(nn.Module):
    """The output's projection is made first, and neither has a name that tells."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.out_linear, self.project = nn.Linear(d_model, d_model), nn.Linear(d_model, 3 * d_model)
        self.h = num_heads

    def forward(self, x, mask=None):
        q, k, v = self.project(x).unflatten(-1, (3, self.h, -1)).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out_linear(y.transpose(1, 2).flatten(2))


def test_the_larger_of_two_matrices_is_the_packed_one():
    result = check(OutputFirst, kind="SelfAttention", d_model=12, num_heads=3)
    assert (result.verdict, result.ids) == ("harmless deviation", ["A19"])


class FixedEmbedding(nn.Module):
    """A frozen table of sines, looked up by the number of a position."""

    def __init__(self, length, d_model):
        super().__init__()
        angles = torch.arange(length).unsqueeze(1) / 10000 ** (torch.arange(0, d_model, 2) / d_model)
        table = torch.stack([torch.sin(angles), torch.cos(angles)], -1).flatten(1)
        self.emb = nn.Embedding(length, d_model)
        self.emb.weight = nn.Parameter(table, requires_grad=False)

    def forward(self, x):
        return self.emb(x)


class SinusoidalEmbedding(nn.Module):
    """Frequencies that go with the model's dtype; positions are integers."""

    def __init__(self, d_model):
        super().__init__()
        self.register_buffer("freqs", 10000.0 ** (-torch.arange(0, d_model, 2) / d_model))

    def forward(self, positions):
        angles = torch.outer(positions, self.freqs)
        return torch.stack([torch.sin(angles), torch.cos(angles)], -1).flatten(1)


class IntegerEncoding(nn.Module):
    """The table has the dtype of the ids."""

    def __init__(self, d_model):
        super().__init__()
        self.d_model = d_model

    def forward(self, x):
        table = torch.zeros(*x.shape, self.d_model).to(x)
        angles = torch.arange(x.shape[1]).unsqueeze(1) / 10000 ** (torch.arange(0, self.d_model, 2) / self.d_model)
        table[..., 0::2], table[..., 1::2] = torch.sin(angles), torch.cos(angles)
        return table


@pytest.mark.parametrize(
    "cls, verdict, ids",
    [
        (FixedEmbedding, "matches the builtin", []),
        (SinusoidalEmbedding, "matches the builtin", []),
        (IntegerEncoding, "mistake", ["P8"]),
    ],
)
def test_tables_that_are_looked_up_by_position(cls, verdict, ids):
    result = check(cls, kind="PositionalEncoding")
    assert (result.verdict, result.ids) == (verdict, ids)


FREED = """
import torch
from torch import nn

class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head):
        super().__init__()
        self.qkv, self.out, self.n_head = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd), n_head

    def forward(self, x, training):
        q, k, v = (y.unflatten(-1, (self.n_head, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=training)
        return self.out(y.transpose(1, 2).flatten(2))

class Block(nn.Module):
    def __init__(self, n_embd, n_head):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.attn = CausalSelfAttention(n_embd, n_head)
        self.mlp = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd))

    def forward(self, x, training):
        x = x + self.attn(self.ln_1(x), training)
        return x + self.mlp(self.ln_2(x))

class GPT(nn.Module):
    def __init__(self, vocab_size, block_size, n_layer, n_head, n_embd):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab_size, n_embd), nn.Embedding(block_size, n_embd)
        self.h = nn.ModuleList([Block(n_embd, n_head) for _ in range(n_layer)])
        self.ln_f, self.lm_head = nn.LayerNorm(n_embd), nn.Linear(n_embd, vocab_size)

    def forward(self, idx, targets=None):
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1]))
        for block in self.h:
            x = block(x, targets is not None)
        logits = self.lm_head(self.ln_f(x))
        return logits, None if targets is None else nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
"""


@pytest.mark.long
def test_a_model_that_hides_the_future_in_training_only_is_judged_as_in_training(tmp_path):
    file = tmp_path / "freed.py"
    file.write_text(FREED, encoding="utf-8")
    result = check_here(file, ["GPT"])["GPT"]
    assert result.verdict in ("matches the builtin", "harmless deviation") and "A25" not in result.ids, result


class Packed(nn.Module):
    """The gate and what it multiplies are halves of one matrix."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.both, self.down = nn.Linear(d_model, 2 * d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        gate, up = self.halves(x)
        return self.down(nn.functional.silu(gate) * up)

    def halves(self, x):
        return self.both(x).chunk(2, -1)


class PackedOtherwise(Packed):
    def halves(self, x):
        return reversed(super().halves(x))


@pytest.mark.parametrize("cls", [Packed, PackedOtherwise])
def test_gate_and_up_in_one_matrix(cls):
    result = check(cls, kind="SwiGLU", d_model=12, d_ff=17)
    assert result.verdict == "matches the builtin"


def test_an_imported_part_with_a_mistake_is_the_wholes(tmp_path, monkeypatch):
    """Two mistakes of the part, and none of the whole: they are named though the part is not asked for."""
    norm = """
import torch
from torch import nn

class LayerNorm(nn.Module):
    def __init__(self, features, eps=1e-6):
        super().__init__()
        self.a, self.b, self.eps = nn.Parameter(torch.ones(features)), nn.Parameter(torch.zeros(features)), eps

    def forward(self, x):
        return self.a * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + self.eps) + self.b
"""
    whole = """
from torch import nn
from the_norm_of_another_file import LayerNorm

class SublayerConnection(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = LayerNorm(size)

    def forward(self, x, sublayer):
        return x + sublayer(self.norm(x))
"""
    (tmp_path / "the_norm_of_another_file.py").write_text(norm, encoding="utf-8")
    (tmp_path / "whole.py").write_text(whole, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    result = check_here(tmp_path / "whole.py")["SublayerConnection"]
    assert result.verdict == "mistake" and not result.inherited and not result.unexplained
    assert {"LN1", "LN2"} <= set(result.ids)


STARTS = """
import torch
from torch import nn

class LayerNorm(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale, self.shift = nn.Parameter(START(features)), nn.Parameter(torch.zeros(features))

    def forward(self, x):
        x = x - x.mean(-1, keepdim=True)
        return self.scale * x / torch.sqrt(x.square().mean(-1, keepdim=True) + 1e-5) + self.shift
"""
OF_STARTS = """
from torch import nn
from the_start_of_another_file import LayerNorm

class SublayerConnection(nn.Module):
    def __init__(self, size, dropout):
        super().__init__()
        self.norm, self.dropout = LayerNorm(size), nn.Dropout(dropout)
        FILLS

    def forward(self, x, sublayer):
        return x + self.dropout(sublayer(self.norm(x)))
"""


@pytest.mark.parametrize("start, fills, ids", [
    ("torch.ones", "", []), ("torch.randn", "", ["LN13"]), ("torch.randn", "nn.init.ones_(self.norm.scale)", []),
])  # fmt: skip
def test_what_a_part_of_another_file_starts_with_is_said_of_the_whole_that_does_not_fill_it(
    start, fills, ids, tmp_path, monkeypatch
):
    """Its own file is not asked about, and no whole is asked for that."""
    (tmp_path / "the_start_of_another_file.py").write_text(STARTS.replace("START", start), encoding="utf-8")
    (tmp_path / "whole.py").write_text(OF_STARTS.replace("FILLS", fills), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "the_start_of_another_file", raising=False)
    result = check_here(tmp_path / "whole.py")["SublayerConnection"]
    assert result.ids == ids, result
    assert (result.verdict in FINE) == (not ids)
    assert all(mistake.where.startswith("the_start_of_another_file.py") for mistake in result.mistakes[: len(ids)])


DROPS_THE_SUM = """
import torch
from torch import nn

class EncoderLayer(nn.Module):
    def __init__(self, width, heads, inner, dropout):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.network = nn.Sequential(nn.Linear(width, inner), nn.ReLU(), nn.Linear(inner, width))
        self.norm1, self.norm2, self.dropout = nn.LayerNorm(width), nn.LayerNorm(width), nn.Dropout(dropout)

    def forward(self, x):
        x = self.norm1(SUM)
        return self.norm2(x + self.dropout(self.network(x)))
"""
OF_LAYERS = """
from torch import nn
from the_layer_of_another_file import EncoderLayer

class Encoder(nn.Module):
    def __init__(self, width, heads, inner, num_layers, dropout):
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(width, heads, inner, dropout) for _ in range(num_layers))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""


@pytest.mark.parametrize("sum, ids", [
    ("self.dropout(x + self.attention(x, x, x)[0])", {"B24"}), ("x + self.dropout(self.attention(x, x, x)[0])", set()),
])  # fmt: skip
def test_what_a_layer_of_another_file_does_in_training_is_said_of_its_stack(sum, ids, tmp_path, monkeypatch):
    """As of one in the same file, which is asked about by itself."""
    (tmp_path / "the_layer_of_another_file.py").write_text(DROPS_THE_SUM.replace("SUM", sum), encoding="utf-8")
    (tmp_path / "whole.py").write_text(OF_LAYERS, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "the_layer_of_another_file", raising=False)
    result = check_here(tmp_path / "whole.py")["Encoder"]
    assert {one.id for one in result.mistakes if one.severity == "mistake"} == ids
    assert (result.verdict in FINE) == (not ids)


def test_what_may_be_nothing_is_no_part():
    library = Library(KINDS)
    library.add(nn.Identity, ())
    assert library.guesses == {} and library.kind_of_class(nn.Identity) is None


class PackedByAFactor(Packed):
    """The width inside is a multiple of the other: of twice the width, the shape alone is that of keys and values."""

    def __init__(self, dim, mlp_mult):
        super().__init__(dim, dim * mlp_mult)


class Added(PackedByAFactor):
    def forward(self, x):
        gate, up = self.halves(x)
        return self.down(nn.functional.silu(gate) + up)


@pytest.mark.parametrize(
    "cls, verdict, ids", [(PackedByAFactor, "matches the builtin", []), (Added, "mistake", ["G2"])]
)
def test_gate_and_up_in_one_matrix_as_wide_as_a_factor_tells(cls, verdict, ids):
    result = check(cls, kind="SwiGLU")
    assert (result.verdict, result.ids) == (verdict, ids)


def test_a_part_may_be_named_behind_its_file(tmp_path, monkeypatch):
    (tmp_path / "heads_of_mine.py").write_text(BESIDE)
    (tmp_path / "layer_of_mine.py").write_text(OF_ANOTHER_FILE)
    monkeypatch.syspath_prepend(tmp_path)
    import layer_of_mine

    parts = [part.__name__ for part in Library(KINDS).imported_parts(layer_of_mine.Layer, [])]
    assert parts == ["MultiHeadAttention"]


def test_a_part_of_an_installed_package_is_no_learners(tmp_path, monkeypatch):
    """It takes long to find out what such are, and nobody asked."""
    installed = tmp_path / "site-packages"
    installed.mkdir()
    (installed / "installed_heads.py").write_text(BESIDE)
    named = OF_ANOTHER_FILE.replace("import heads_of_mine as mine", "from installed_heads import MultiHeadAttention")
    (tmp_path / "layer_of_installed.py").write_text(named.replace("mine.", ""))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(installed)
    import layer_of_installed

    assert Library(KINDS).imported_parts(layer_of_installed.Layer, []) == []


OF_ANOTHER_FILE = """
import heads_of_mine as mine
from torch import nn

class Layer(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.attention = mine.MultiHeadAttention(d_model, n_heads)

    def forward(self, x):
        return x + self.attention(x, x, x)
"""


OF_ATTENTION = """
import math, torch
from torch import nn

class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, dropout):
        super().__init__()
        assert d_model % num_heads == 0
        self.h, self.d_k, self.dropout = num_heads, d_model // num_heads, nn.Dropout(dropout)
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, q, k, v, mask=None):
        q, k, v = (
            w(x).unflatten(-1, (self.h, self.d_k)).transpose(1, 2)
            for w, x in ((self.w_q, q), (self.w_k, k), (self.w_v, v))
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return self.dropout(self.w_o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2)))
"""
AROUND_IT = """
from torch import nn
from attention_of_another_file import MultiHeadAttention

class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout):
        super().__init__()
        self.attn = MultiHeadAttention(d_model, num_heads, dropout)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model), nn.Dropout(dropout))
        self.n1, self.n2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, mask):
        x = self.n1(x + self.attn(x, x, x, mask))
        return self.n2(x + self.ff(x))
"""


def test_what_is_harmless_in_a_part_of_another_file_is_told_of(tmp_path, monkeypatch):
    """Nothing else tells of it: that file was not given."""
    (tmp_path / "attention_of_another_file.py").write_text(OF_ATTENTION, encoding="utf-8")
    (tmp_path / "whole.py").write_text(AROUND_IT, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    result = check_here(tmp_path / "whole.py")["EncoderLayer"]
    assert [(one.id, one.severity) for one in result.mistakes] == [("A18", "harmless")]
    assert result.verdict == "harmless deviation"
    assert "attention_of_another_file.py:" in result.mistakes[0].where
