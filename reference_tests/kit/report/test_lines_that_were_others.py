"""Lines that other lines look like: the root of attention, an eps of a norm, the bias of one projection."""

import importlib
import linecache

import pytest

from reference_tests.kit.learners.checked import IMPORTS, check_here, check_text
from scratch_transformer.kit.judge import evidence
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.report import stubs
from scratch_transformer.kit.report.fixes import fixed
from scratch_transformer.kit.report.lines import place

LAYER = """
class SelfAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q, self.w_k = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.w_v, self.w_o = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def heads(self, x):
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.heads(self.w_q(x)), self.heads(self.w_k(x)), self.heads(self.w_v(x))
        root = math.sqrt(q.shape[-1])
        return self.w_o(((q @ k.transpose(-2, -1) / root).softmax(-1) @ v).transpose(1, 2).flatten(2))

class Scaled(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        spread = x.var(-1, keepdim=True, unbiased=False)
        return self.scale * (x - x.mean(-1, keepdim=True)) / (spread + 1e-5) + self.shift

class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = SelfAttention(d_model, num_heads)
        self.first, self.second = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm1, self.norm2 = Scaled(d_model), Scaled(d_model)

    def forward(self, x):
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.second(torch.relu(self.first(x))))
"""


def _line(result, id):
    named = next(found for found in result.mistakes if found.id == id)
    return named.shown, named


def test_the_root_of_attention_is_no_deviation(tmp_path):
    inner = LAYER.replace("class Scaled", "class Inner")  # which nothing takes for a norm by itself
    results = check_text(inner.replace("Scaled(", "Inner("), tmp_path)
    line, named = next(_line(one, "LN10") for one in results.values() if any(m.id == "LN10" for m in one.mistakes))
    assert "root" not in line and ("spread" in line), named
    assert "these are the same" not in named.form


@pytest.mark.parametrize(
    "head", ["eps: float = 10**-6", "eps: Optional[float] = 1e-6", "eps: float | None = 1e-12", "eps=10 ** (-8)"]
)
def test_a_default_eps_is_rewritten_however_it_is_written(head):
    line = f"    def __init__(self, width: int, {head}) -> None:"
    at, put = fixed("LN3", "1e-06", ["class Norm:", line])
    assert at == 1 and put == [line.replace(head.partition("= ")[2] or head.partition("=")[2], "1e-5")]
    assert fixed("LN3", "1e-06", ["    def __init__(self, width, eps: Optional[float] = 10**-5):"]) is None


OWN = """
class SelfAttention(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.W_query = nn.Parameter(torch.randn(d_in, d_out))
        self.W_key = nn.Parameter(torch.randn(d_in, d_out))
        self.W_value = nn.Parameter(torch.randn(d_in, d_out))

    def forward(self, x):
        q, k, v = x @ self.W_query, x @ self.W_key, x @ self.W_value
        return (q @ k.transpose(-2, -1) / k.shape[-1] ** 0.5).softmax(-1) @ v
"""


def test_matrices_of_ones_own_have_no_linear_layer_to_mend(tmp_path):
    line, named = _line(check_text(OWN, tmp_path)["SelfAttention"], "A14")
    assert "self.W_query = nn.Parameter" in line and "bias=False" not in named.fix


MODEL = LAYER.replace("num_heads):", "num_heads, qkv_bias=False):").replace(
    "d_model, d_model)", "d_model, d_model, qkv_bias)"
)
MODEL += """
class GPT(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads):
        super().__init__()
        self.embedding, self.attention = nn.Embedding(vocab_size, d_model), SelfAttention(d_model, num_heads)
        self.head = nn.Linear(d_model, vocab_size, bias=False)
"""


def test_a_map_to_scores_without_a_bias_is_none_of_attentions(tmp_path, monkeypatch):
    (tmp_path / "model_without_biases.py").write_text(IMPORTS + MODEL)
    monkeypatch.syspath_prepend(tmp_path)
    found = place("A14", "left out", importlib.import_module("model_without_biases").GPT)
    assert "self.w_q" in linecache.getline(found.file, found.line) and found.put == []


CONFIGURED = """
class Config:
    d_model, num_heads, bias = 64, 4, False

class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.num_heads = config.num_heads
        self.key = nn.Linear(config.d_model, config.d_model, bias=config.bias)
        self.query = nn.Linear(config.d_model, config.d_model, bias=config.bias)
        self.value = nn.Linear(config.d_model, config.d_model, bias=config.bias)
        self.proj = nn.Linear(config.d_model, config.d_model)

    def forward(self, x):
        split = lambda y: y.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        q, k, v = split(self.query(x)), split(self.key(x)), split(self.value(x))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).flatten(2))

class Rest(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm = nn.LayerNorm(config.d_model)
"""


@pytest.mark.parametrize(
    "norm, severity", [("config.d_model", "harmless"), ("config.d_model, bias=config.bias", "mistake")]
)
def test_a_bias_of_the_output_where_a_config_is_asked_for_those_of_queries(norm, severity, tmp_path):
    text = CONFIGURED.replace("nn.LayerNorm(config.d_model)", f"nn.LayerNorm({norm})")
    line, named = _line(check_text(text, tmp_path)["CausalSelfAttention"], "A15")
    assert "self.proj = " in line and named.severity == severity
    forgotten = text.replace("self.query = nn.Linear(config.d_model, config.d_model, bias=config.bias)",
                             "self.query = nn.Linear(config.d_model, config.d_model)")  # fmt: skip
    _, named = _line(check_text(forgotten, tmp_path)["CausalSelfAttention"], "A15")
    assert named.severity == "mistake"


TOKENS = """
class Tokens(nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        TABLE

    def forward(self, x):
        return LOOKED

class Places(nn.Module):
    def __init__(self, d_model, max_len):
        super().__init__()
        steps = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        angles = torch.arange(max_len)[:, None] * steps
        self.register_buffer("codes", torch.stack([angles.sin(), angles.cos()], -1).flatten(1))

    def forward(self, x):
        return x + self.codes[: x.shape[1]]

class Embeddings(nn.Module):
    def __init__(self, vocab_size, d_model, max_len):
        super().__init__()
        self.tokens, self.places = Tokens(vocab_size, d_model), Places(d_model, max_len)

    def forward(self, x):
        return self.places(self.tokens(x))

class Decoder(nn.Module):
    def __init__(self, vocab_size, d_model, max_len, num_heads, d_ff):
        super().__init__()
        self.embedding = Embeddings(vocab_size, d_model, max_len)
        self.layer = nn.TransformerEncoderLayer(d_model, num_heads, d_ff, batch_first=True)
        self.out = nn.Linear(d_model, vocab_size)

    def forward(self, x):
        h = self.embedding(x)
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
        return self.out(self.layer(h, src_mask=mask))
"""


@pytest.mark.parametrize(
    "table, looked, fix",
    [
        ("self.embedding = nn.Embedding(vocab_size, d_model)", "self.embedding(x)", "self.embedding(x)"),
        (
            "self.emb = nn.Parameter(torch.randn(vocab_size, d_model))",
            "self.emb[x]",
            "self.emb[x] * self.emb.shape[-1] ** 0.5",
        ),
    ],
)
def test_words_are_scaled_where_they_are_looked_up(table, looked, fix, tmp_path):
    text = TOKENS.replace("TABLE", table).replace("LOOKED", looked)
    results = check_text(text, tmp_path)
    found = [_line(one, "E2") for one in results.values() if any(m.id == "E2" for m in one.mistakes)]
    assert found, {name: one.ids for name, one in results.items()}
    for _, named in found:
        assert "h = self.embedding" not in " ".join(named.code[named.line - named.first : named.line - named.first + 1])
    if "emb[" in looked:
        assert any(fix in named.fix for _, named in found)


def test_all_of_it_is_a_hundred_percent():
    assert evidence.share(0.999).startswith("100 %") and evidence.share(0.97).startswith("97 %")
    assert evidence.share(1.2).startswith("1.2 times")


def test_a_file_whose_name_begins_with_a_number_is_imported_by_a_function():
    text = stubs.stub(KINDS["LayerNorm"], "Norm", "02_norms")
    compile(text, "adapters.py", "exec")
    assert "importlib.import_module('02_norms').Norm" in text
    assert "from norms import Norm" in stubs.stub(KINDS["LayerNorm"], "Norm", "norms")


def test_of_a_method_its_class_is_imported():
    text = stubs.stub(KINDS["LayerNorm"], "Model.norm", "norms")
    compile(text, "adapters.py", "exec")
    assert "from norms import Model\n" in text


BRACKETS = """
class TokenNorm(nn.Module):
    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.gain, self.offset, self.eps = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width)), eps

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        spread = ((x - mean) ** 2).mean(-1, keepdim=True)
        dev = (spread + self.eps) ** 0.5
        RESULT
"""


@pytest.mark.parametrize("result", [
    "return self.gain * (x - mean / dev) + self.offset",
    "return self.gain * (x - mean) / (dev + self.offset)",
    "return self.gain * ((x - mean) / dev + self.offset)",
])  # fmt: skip
def test_brackets_in_the_wrong_place_are_shown(result, tmp_path):
    line, _ = _line(check_text(BRACKETS.replace("RESULT", result), tmp_path)["TokenNorm"], "LN14")
    assert line.strip() == result


TWO = """
class Own(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        B, T, E = x.shape
        q = self.q(x).view(B, T, self.heads, -1).transpose(1, 2)
        k, v = self.k(x), self.v(x)
        k = k.view(B, T, self.heads, E // self.heads).transpose(1, 2)
        v = v.view(B, T, self.heads, E // self.heads).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(E // self.heads)
        future = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(future, float("-inf")).softmax(-1)
        return self.o((weights @ v).transpose(1, 2).reshape(B, T, E))


class Crossing(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x, memory):
        B, T, E = x.shape
        q = self.q(x).view(B, T, self.heads, -1).transpose(1, 2)
        k, v = self.k(memory), self.v(memory)
        k = k.view(B, COUNT, self.heads, E // self.heads).transpose(1, 2)
        v = v.view(B, -1, self.heads, E // self.heads).transpose(1, 2)
        weights = (q @ k.mT / math.sqrt(E // self.heads)).softmax(-1)
        return self.o((weights @ v).transpose(1, 2).reshape(B, T, E))


class DecoderLayer(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.own, self.crossing = Own(width, heads), Crossing(width, heads)
        self.first, self.second = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(width) for _ in range(3))

    def forward(self, x, memory):
        x = self.norm1(x + self.own(x))
        x = self.norm2(x + self.crossing(x, memory))
        return self.norm3(x + self.second(torch.relu(self.first(x))))
"""
CUT = "k = k.view(B, T, self.heads, E // self.heads).transpose(1, 2)"


@pytest.mark.parametrize("count, ids", [("T", ["A35"]), ("-1", [])])
def test_of_two_lines_that_read_the_same_the_one_is_shown_at_which_it_stops(count, ids, tmp_path, monkeypatch):
    """As only the second is run with more keys than queries."""
    head, layer, body = (IMPORTS + TWO.replace("COUNT", count)).partition("class DecoderLayer")
    alike = [number for number, one in enumerate(head.splitlines(), 1) if one.strip() == CUT]
    (tmp_path / f"two_attentions_{len(ids)}.py").write_text(head, encoding="utf-8")
    text = f"{IMPORTS}from two_attentions_{len(ids)} import Crossing, Own\n\n\n{layer}{body}"
    (tmp_path / "layer.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    found = [one for one in check_here(tmp_path / "layer.py")["DecoderLayer"].mistakes if one.id == "A35"]
    assert [(one.id, one.where) for one in found] == [(id, f"two_attentions_1.py:{alike[1]}") for id in ids]
