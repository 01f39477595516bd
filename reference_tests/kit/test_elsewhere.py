"""B32: what stops on another device, found out without one; and that nothing of the reference does."""

import subprocess
import sys

import pytest
import torch
from torch import nn

import scratch_transformer.nn as ours
from reference_tests.kit.learners.checked import check_text
from scratch_transformer import masks
from scratch_transformer.kit.judge.elsewhere import watched
from scratch_transformer.language_model import Config, LanguageModel
from scratch_transformer.model import build_transformer

pytestmark = pytest.mark.long

EMBEDDING = """\
{before}
class Embeddings(nn.Module):
    def __init__(self, vocab_size, d_model, max_len):
        super().__init__()
        self.words = nn.Embedding(vocab_size, d_model)
        self.positions = nn.Embedding(max_len, d_model)

    def forward(self, x):
        where = {where}
        return self.words(x) + self.positions(where)
"""
MADE = "torch.arange(x.size(1))"


def b32(text, name, tmp_path):
    result = check_text(text, tmp_path)[name]
    return [(mistake.severity, mistake.line) for mistake in result.mistakes if mistake.id == "B32"]


@pytest.mark.parametrize(
    "where, before, named",
    [
        (MADE, "DEVICE = 'cuda'", [("mistake", 15)]),
        (MADE, "", [("note", 15)]),
        (f"{MADE}  # of every token", "", [("note", 15)]),
        (f"{MADE}  # or on another device", "# @torch.autocast('cuda')", [("note", 15)]),
        (MADE, "torch.autocast(device_type='cpu')", [("note", 15)]),
        (MADE, "def table(size, device=None): return size", [("note", 15)]),
        (MADE, "def table(size, device: torch.device | None = None): kwargs = {'device': device}", [("note", 15)]),
        (MADE, "def table(size, device=None): return torch.ones(size, device=device)", [("mistake", 15)]),
        (f"{MADE[:-1]}, device=x.device)", "DEVICE = 'cuda'", []),
        (f"{MADE}.to(device)", "device = 'cuda' if torch.cuda.is_available() else 'cpu'", []),
        (f"{MADE}.to(x)", "device = 'cuda'", []),
        ("torch.ones_like(x[0]).cumsum(0) - 1", "device = 'cuda'", []),
        (MADE, "def main():\n    torch.set_default_device('cuda')\n", []),
        (f"{MADE}.cuda() if x.is_cuda else {MADE}", "", []),
    ],
)
def test_numbers_of_positions(where, before, named, tmp_path):
    assert b32(EMBEDDING.format(where=where, before=before), "Embeddings", tmp_path) == named


ATTENTION = '''\
class CausalSelfAttention(nn.Module):
    """Made for cuda."""

    def __init__(self, d_model, num_heads, device="cpu"):
        super().__init__()
        self.num_heads = num_heads
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.scale = {scale}

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (y.view(B, T, self.num_heads, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(-2, -1) / self.scale
        mask = {mask}
        scores = scores.masked_fill(mask == 0, float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(B, T, C))
'''
SCALE, MASK = "math.sqrt(d_model // num_heads)", "torch.ones(T, T, device=x.device).tril()"


@pytest.mark.parametrize(
    "scale, mask, named",
    [
        (SCALE, MASK, []),
        (SCALE, "torch.tril(torch.ones(T, T))", [("mistake", 20)]),
        (SCALE, "torch.FloatTensor(T, T).fill_(1).tril()", [("mistake", 20)]),
        ("torch.FloatTensor([d_model // num_heads]).sqrt()", MASK, [("mistake", 14)]),
        ("torch.FloatTensor([d_model // num_heads]).sqrt().to(device)", MASK, []),
        ("torch.tensor(d_model // num_heads).sqrt()", MASK, []),  # a single number goes with any device
    ],
)
def test_masks_and_scales(scale, mask, named, tmp_path):
    assert b32(ATTENTION.format(scale=scale, mask=mask), "CausalSelfAttention", tmp_path) == named


WAVES = """\
DEVICE = "cuda"
class Encoding(nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.words, self.d_model = nn.Embedding(vocab_size, d_model), d_model

    def forward(self, ids):
        return self.words(ids) * math.sqrt(self.d_model) + self.waves(ids.shape[1])MOVED

    def waves(self, n):
        table = torch.Tensor([[p / 1e4 ** ((i - i % 2) / self.d_model) for i in range(self.d_model)] for p in range(n)])
        table[:, 0::2] = table[:, 0::2].sin()
        table[:, 1::2] = table[:, 1::2].cos()
        return table
"""


@pytest.mark.parametrize("moved, named", [("", [("mistake", 17)]), (".to(ids.device)", [])])
def test_a_table_that_a_method_makes_of_numbers_is_on_the_cpu(moved, named, tmp_path):
    assert b32(WAVES.replace("MOVED", moved), "Encoding", tmp_path) == named


def of_the_reference():
    x = torch.randn(2, 5, 12)
    layers = {"d_model": 12, "nhead": 3, "batch_first": True}
    causal = nn.Transformer.generate_square_subsequent_mask(5)
    yield "MultiheadAttention", ours.MultiheadAttention(12, 3, batch_first=True), (x, x, x)
    yield "TransformerEncoderLayer", ours.TransformerEncoderLayer(**layers), (x,)
    yield "TransformerDecoderLayer", ours.TransformerDecoderLayer(**layers), (x, x)
    yield "Transformer", ours.Transformer(**layers, num_encoder_layers=1, num_decoder_layers=1), (x, x, None, causal)
    ids = torch.ones(2, 5, dtype=torch.int64)
    model = build_transformer(src_vocab_size=8, tgt_vocab_size=9, src_seq_len=5, tgt_seq_len=5, d_model=12, N=1, h=3)
    padding = masks.padding(ids, pad_id=0)
    yield "build_transformer", model, (ids, ids, padding, padding & masks.causal(5))
    config = Config.llama(
        vocab_size=8, max_length=5, d_model=12, num_layers=1, num_heads=3, num_kv_heads=3, head_dim=4, d_ff=16
    )
    yield "LanguageModel", LanguageModel(config), (ids,)


@pytest.mark.parametrize("module, given", [pytest.param(m, given, id=name) for name, m, given in of_the_reference()])
def test_nothing_of_the_reference_stays_on_the_cpu(module, given):
    assert watched(lambda moved: module(*moved), module, given, {}) == ([], True)


WHOLE = """\
device = "cuda" if torch.cuda.is_available() else "cpu"

class Encoder(nn.Module):
    def __init__(self, vocab_size, max_len, d_model, num_layers, num_heads, d_ff, dropout):
        super().__init__()
        self.words = nn.Embedding(vocab_size, d_model)
        {kept}
        self.layers = nn.ModuleList(
            [nn.TransformerEncoderLayer(d_model, num_heads, d_ff, dropout, batch_first=True) for _ in range(num_layers)]
        )

    def forward(self, x):
        x = self.words(x) + {used}
        for layer in self.layers:
            x = layer(x)
        return x

    def table(self, length, width):
        angles = torch.arange(length)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)[None]
"""
KEPT, USED = "self.positions = self.table(max_len, d_model)", "self.positions[:, : x.size(1)]"


@pytest.mark.parametrize(
    "kept, used, named",
    [
        (KEPT, USED, [13]),
        ("self.register_buffer('positions', self.table(max_len, d_model))", USED, []),
        (KEPT, f"{USED}.to(x.device)", []),
    ],
)
def test_a_whole_that_keeps_its_table_of_positions_itself(kept, used, named, tmp_path):
    result = check_text(WHOLE.format(kept=kept, used=used), tmp_path)["Encoder"]
    assert [mistake.line for mistake in result.mistakes if mistake.id == "P5"] == named


@pytest.mark.parametrize("table, severity", [("table", "mistake"), ("table.to(device)", "harmless")])
def test_a_table_that_a_method_puts_on_the_device_of_the_file(table, severity, tmp_path):
    text = WHOLE.format(kept=KEPT, used=USED).replace("return torch.stack", "table = torch.stack")
    result = check_text(f"{text}        return {table}\n", tmp_path)["Encoder"]
    assert [mistake.severity for mistake in result.mistakes if mistake.id == "P5"] == [severity]


ROTATED = """\
device = "cuda" if torch.cuda.is_available() else "cpu"

def make_angles(length, width, where):
    angles = torch.outer(torch.arange(length), 10000.0 ** (-torch.arange(0, width, 2) / width))
    return torch.polar(torch.ones_like(angles), angles).to(where)

class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads, max_len, device="cpu"):
        super().__init__()
        self.num_heads = num_heads
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.angles = make_angles(max_len, d_model // num_heads, {where})

    def turned(self, x):
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * self.angles[: x.shape[2]]).flatten(3)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (y.view(B, T, self.num_heads, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        y = nn.functional.scaled_dot_product_attention(self.turned(q), self.turned(k), v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(B, T, C))
"""


@pytest.mark.parametrize("where, severities", [("device", []), ("'cpu'", ["mistake"])])
def test_a_table_that_a_function_puts_where_the_constructor_is_told(where, severities, tmp_path):
    found = b32(ROTATED.format(where=where), "CausalSelfAttention", tmp_path)
    assert [severity for severity, _ in found] == severities


ROTARY = """\
{before}
class RotaryEmbedding(nn.Module):
    def __init__(self, dim, max_len=64, base=10000.0):
        super().__init__()
        angles = torch.outer(torch.arange(max_len).float(), base ** (-torch.arange(0, dim, 2).float() / dim))
        {kept}

    def forward(self, x):
        cos, sin = self.cos[: x.shape[-2]], self.sin[: x.shape[-2]]
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)
"""
ONE_BY_ONE = "self.sin = angles.sin()\n        self.cos = angles.cos()"
PUT = '        self.register_buffer("cos", angles.cos(), persistent=False)'
BUFFERS = "\n        ".join(
    f"self.register_buffer({name!r}, angles.{name}(), persistent=False)" for name in ("cos", "sin")
)


@pytest.mark.parametrize(
    "kept, before, named, put",
    [
        (ONE_BY_ONE, "device = 'cuda'", [("mistake", 13)], PUT),
        (ONE_BY_ONE, "", [("note", 13)], PUT),
        ("self.cos, self.sin = angles.cos(), angles.sin()", "device = 'cuda'", [("mistake", 12)], None),
        (BUFFERS, "device = 'cuda'", [], None),
    ],
)
def test_rotary_tables_are_shown_where_they_are_kept(kept, before, named, put, tmp_path):
    result = check_text(ROTARY.format(kept=kept, before=before), tmp_path)["RotaryEmbedding"]
    assert [(mistake.severity, mistake.line) for mistake in result.mistakes] == named
    assert [mistake.put for mistake in result.mistakes if mistake.put] == ([[put]] if put else [])


@pytest.mark.parametrize(
    "compute, is_refused",
    [
        (lambda x, here: x @ here.T, True),
        (lambda x, here: torch.einsum("ij,kj->ik", x, here), True),
        (lambda x, here: nn.functional.embedding(x.long(), here), True),
        (lambda x, here: x.clone().add_(here), True),
        (lambda x, here: here[x[0].long()], True),
        (lambda x, here: torch.arange(3, device=x.device) + torch.arange(3), True),
        (lambda x, here: x.new_tensor([1.0]) + here, True),
        (lambda x, here: here.to(x) + here, True),
        (lambda x, here: nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=here @ here.T), True),
        (lambda x, here: x[here[0].long()], False),
        (lambda x, here: x + here[0, 0], False),
        (lambda x, here: x.clone().copy_(here), False),
        (lambda x, here: here.to("cuda", non_blocking=True) + here.to(x) + here.type_as(x) + x, False),
        (lambda x, here: x + torch.zeros_like(x) + x.new_ones(4) + torch.ones(4, device=x.device), False),
        (lambda x, here: x * (2.0 if x.is_cuda and bool((x > 0).all()) else here), False),
    ],
)
def test_two_devices_are_refused_as_on_a_gpu(compute, is_refused):
    """What PyTorch says for CUDA: "Expected all tensors to be on the same device", but for copies, numbers, indices."""
    here = torch.ones(3, 4)
    found, is_whole = watched(lambda x: compute(x, here), None, torch.ones(3, 4), {id(here): "self.here"})
    assert (bool(found), is_whole) == (is_refused, True)


CORE = """\
class ScaledDotProductAttention(nn.Module):
    def forward(self, query, key, value, mask):
        scores = query @ key.mT / math.sqrt(key.size(-1))
        {mask}
        scores = scores.masked_fill(mask == 0, -1e9)
        return scores.softmax(-1) @ value
"""
SENT = [("mistake", 10)]


@pytest.mark.parametrize("mask, named", [
    ('mask = mask.to("cpu")', SENT), ("mask = mask.cpu()", SENT), ('mask = mask.to("cpu", torch.int)', SENT),
    ('mask = mask.to(torch.device("cpu"))', SENT), ("scores = scores.cpu()", SENT),
    ("mask = mask.to(scores.device)", []), ("mask = mask.bool()", []),
    ("mask = mask.cpu().to(scores.device)", []), ("print(mask.cpu().numpy().shape)", []),
    ("self.shown = scores.detach().cpu()", []),
])  # fmt: skip
def test_what_forward_puts_on_the_cpu_by_name(mask, named, tmp_path):
    """It meets there what is elsewhere; what is only looked at does no harm."""
    text = CORE.format(mask=mask)
    result = check_text(text, tmp_path)["ScaledDotProductAttention"]
    found = [(mistake.severity, mistake.line) for mistake in result.mistakes if mistake.id == "B32"]
    assert found == named, result
    assert all("Leave" in mistake.fix for mistake in result.mistakes if mistake.id == "B32")


LOADED = """
import pathlib, sys, tempfile
from reference_tests.kit.test_elsewhere import ATTENTION, SCALE, b32
with tempfile.TemporaryDirectory() as folder:
    text = ATTENTION.format(scale=SCALE, mask="torch.ones(T, T).tril()")
    assert b32(text, "CausalSelfAttention", pathlib.Path(folder))
sys.exit("torch._dynamo" in sys.modules)
"""


def test_torchs_compiler_is_not_loaded_for_it():
    """That would take as long as the check."""
    subprocess.run([sys.executable, "-c", LOADED], timeout=300, check=True)
