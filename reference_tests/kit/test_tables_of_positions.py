"""Tables of sines that differ from the paper's in several ways at once: each way is named."""

import pytest

from reference_tests.kit.learners.checked import check_text, time_to_look
from scratch_transformer.kit.report.finding import FINE

pytestmark = pytest.mark.long

TABLE = """
class PositionalEncoding(nn.Module):
    def forward(self, x):
        half = x.shape[2] // 2
        rates = torch.exp(torch.arange(half, dtype=torch.float64) * -math.log(10_000) / DIVISOR)
        angles = torch.arange(START, x.shape[1] + START)[:, None] * rates
        return x + torch.cat((angles.sin(), angles.cos()), dim=1)[None]
"""


@pytest.mark.parametrize(
    "divisor, start, named",
    [
        ("(half - 1)", 0, {"P2": "the last exponent is 1"}),
        ("(half - 1)", 1, {"P2": "the last exponent is 1", "P9": "from 1"}),
        ("(half * 0.7)", 1, {"P2": "those of its sines are 1, 0.112, 0.0125, …", "P9": "from 1"}),
    ],
    ids=["the authors'", "from 1", "other rates from 1"],
)
def test_angles_order_and_first_position_at_once(divisor, start, named, tmp_path):
    text = TABLE.replace("DIVISOR", divisor).replace("START", str(start))
    result = check_text(text, tmp_path)["PositionalEncoding"]
    found = {one.id: one.form for one in result.mistakes if one.id in ("P2", "P3", "P9")}
    assert found == {"P3": "all sines, then all cosines", **named}
    assert (result.verdict in FINE) == (divisor == "(half - 1)")


COUNTED = """
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=60):
        super().__init__()
        self.width = d_model
        rows = [[self.one(place, i) for i in range(FIRST, d_model + FIRST)] for place in range(1, max_len + 1)]
        self.register_buffer("table", torch.tensor(rows, dtype=torch.float64))

    def one(self, place, i):
        angle = place / 10_000 ** (2 * (i // 2) / self.width)
        return math.sin(angle) if i % 2 == 0 else math.cos(angle)

    def forward(self, x):
        return x + self.table[: x.shape[1]]
"""


@pytest.mark.parametrize("first, named", [("0", {}), ("1", {"P3": "features are counted from 1"})])
def test_features_that_are_counted_from_1_have_no_other_frequencies(first, named, tmp_path):
    result = check_text(COUNTED.replace("FIRST", first), tmp_path)["PositionalEncoding"]
    assert result.verdict in FINE, result
    found = {one.id: one.form for one in result.mistakes if one.id in ("P2", "P3", "P9")}
    assert found == {"P9": "from 1", **named}


def test_angles_that_are_no_multiples_of_the_position_are_not_named(tmp_path):
    text = TABLE.replace("DIVISOR", "half").replace("START", "0").replace("[:, None] *", "[:, None] ** 1.1 *")
    result = check_text(text, tmp_path)["PositionalEncoding"]
    assert result.verdict not in FINE and "P2" not in {one.id for one in result.mistakes}


OF_EIGHT = """
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=40):
        super().__init__()
        angles = torch.arange(max_len)[:, None] * torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / WIDTH))
        self.register_buffer("pe", torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)[None])

    def forward(self, x):
        return x + self.pe[:, : x.shape[1]]
"""


@pytest.mark.parametrize(
    "width, form",
    [
        ("d_model", None),
        ("8", "its base is 1e+06, not 10,000; or 8 is written in for d_model"),
        ("512", "its base is 1.24094, not 10,000; or 512 is written in for d_model"),
        ("(d_model * 4 / 3)", "its base is 1000, not 10,000"),
    ],
)
def test_a_width_that_is_written_in_is_said_beside_the_base_that_it_comes_to(width, form, tmp_path):
    result = check_text(OF_EIGHT.replace("WIDTH", width), tmp_path)["PositionalEncoding"]
    assert next((one.form for one in result.mistakes if one.id == "P2"), None) == form


WITHIN = """
class Embeddings(nn.Module):
    def __init__(self, vocab_size, d_model, max_len):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab_size, d_model), PositionalEncoding(d_model, max_len)

    def forward(self, ids):
        return self.pos(self.tok(ids))
"""


def test_a_base_that_is_the_longest_length_is_another_in_every_model(tmp_path):
    text = OF_EIGHT.replace("10000.0", "max_len").replace("WIDTH", "d_model")
    results = check_text(text + WITHIN, tmp_path)
    (found,) = [one for one in results["PositionalEncoding"].mistakes if one.id == "P2"]
    assert found.form == "its base is the longest length, not 10,000"
    assert results["Embeddings"].verdict == "mistake"
    assert not results["Embeddings"].unexplained


OF_A_THOUSAND = """
class GPT(nn.Module):
    def __init__(self, vocab_size, embedding_dim=256, num_heads=4, num_layers=4, ff_hidden_dim=1024):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.pos_embedding = nn.Parameter(torch.randn(1, 1000, embedding_dim))
        layer = nn.TransformerEncoderLayer(embedding_dim, num_heads, ff_hidden_dim)
        self.transformer = nn.TransformerEncoder(layer, num_layers=num_layers, enable_nested_tensor=False)
        self.fc_out = nn.Linear(embedding_dim, vocab_size)

    def forward(self, x):
        T = x.shape[1]
        x = self.embedding(x) + self.pos_embedding[:, :T, :]
        x = self.transformer(x.transpose(0, 1), torch.ones(T, T).triu(1).bool())
        return self.fc_out(x.transpose(0, 1))
"""


@pytest.mark.parametrize("old, new, ids", [
    ("", "", set()), (", torch.ones(T, T).triu(1).bool())", ")", {"A25"}), (":T, :]", ":1, :]", None),
])  # fmt: skip
def test_a_table_of_as_many_positions_as_are_written_in(old, new, ids, tmp_path):
    result = check_text(OF_A_THOUSAND.replace(old, new), tmp_path)["GPT"]
    assert (result.verdict in FINE) == (ids == set())
    assert ids is None or {named.id for named in result.mistakes if named.severity == "mistake"} == ids


ONE_ROW_MORE = """
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, seq_len, dropout):
        super().__init__()
        angles = torch.arange(seq_len)[:, None] * torch.exp(torch.arange(0, d_model, 2) * -math.log(10000.0) / d_model)
        self.register_buffer("pe", torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)[None])
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.dropout(x + self.pe[:, : x.shape[1] + 1])
"""


@pytest.mark.parametrize("base, ids", [("10000.0", ["B26"]), ("1000.0", ["B26", "P2"])])
def test_a_table_that_is_cut_a_row_too_late_fits_the_longest_sentence_alone(base, ids, tmp_path):
    result = check_text(ONE_ROW_MORE.replace("10000.0", base), tmp_path)["PositionalEncoding"]
    assert [id for id in result.ids if id not in ("P1", "P6")] == ids, result
    assert "longest length alone" in " ".join(result.limits)
    assert "self.pe[:, :x.shape[1] + 1] has 6 rows" in result.mistakes[0].evidence


CUT = """
class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head, block_size):
        super().__init__()
        assert n_embd % n_head == 0
        self.n_head, self.block_size = n_head, block_size
        self.qkv, self.proj = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd)
        self.register_buffer("tril", torch.tril(torch.ones(block_size, block_size)))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.n_head, -1).transpose(1, 2) for t in self.qkv(x).split(C, dim=-1))
        hidden = self.trilCUT == 0
        scores = (q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))).masked_fill(hidden, float("-inf"))
        return self.proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(B, T, C))


class Block(nn.Module):
    def __init__(self, n_embd, n_head, block_size):
        super().__init__()
        self.attention = CausalSelfAttention(n_embd, n_head, block_size)
        self.network = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.ReLU(), nn.Linear(4 * n_embd, n_embd))
        self.norm1, self.norm2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.network(self.norm2(x))
"""


@pytest.mark.parametrize(
    "cut, ids", [("[: self.block_size, : self.block_size]", ["B26"]), ("[: T + 1, : T + 1]", ["B26"]), ("", [])]
)
def test_a_mask_that_is_not_cut_to_the_tokens_stops_the_attention_and_what_has_it(cut, ids, tmp_path):
    """Where it is not cut at all, one length is meant."""
    results = check_text(CUT.replace("CUT", cut), tmp_path)
    attention, block = results["CausalSelfAttention"], results["Block"]
    assert (attention.severe, block.inherited) == (ids, ids)
    assert "longest length alone" in " ".join(attention.limits)
    if ids:
        assert attention.mistakes[0].code[2].strip() == f"hidden = self.tril{cut} == 0"


ALONG_THE_BATCH = """
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=50):
        super().__init__()
        pos = torch.arange(max_len).unsqueeze(1)
        angles = pos / 10000 ** (torch.arange(0, d_model, 2) / d_model)
        pe = torch.zeros(max_len, 1, d_model)
        pe[:, 0, 0::2], pe[:, 0, 1::2] = angles.sin(), angles.cos()
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[: x.size(0)]


class Transformer(nn.Module):
    def __init__(self, num_tokens, dim_model, num_heads, num_layers):
        super().__init__()
        self.dim_model = dim_model
        self.positions = PositionalEncoding(dim_model)
        self.embedding = nn.Embedding(num_tokens, dim_model)
        self.transformer = nn.Transformer(dim_model, num_heads, num_layers, num_layers)
        self.out = nn.Linear(dim_model, num_tokens)

    def embedded(self, ids):
        return self.positions(self.embedding(ids) * math.sqrt(self.dim_model)).permute(1, 0, 2)

    def forward(self, src, tgt, tgt_mask=None, src_pad_mask=None, tgt_pad_mask=None):
        out = self.transformer(
            self.embedded(src), self.embedded(tgt), tgt_mask=tgt_mask, src_key_padding_mask=src_pad_mask,
            tgt_key_padding_mask=tgt_pad_mask, memory_key_padding_mask=src_pad_mask,
        )
        return self.out(out)
"""
"""A table for (length, batch, features) in a model of (batch, length), that returns (length, batch, words)."""
TURNED = "* math.sqrt(self.dim_model)).permute(1, 0, 2)", ".permute(1, 0, 2) * math.sqrt(self.dim_model))"


@pytest.mark.filterwarnings("ignore")
def test_a_table_for_sequence_first_is_taken_along_the_batch_in_a_whole_that_is_batch_first(tmp_path):
    results = check_text(ALONG_THE_BATCH, tmp_path)
    assert results["PositionalEncoding"].verdict == "matches the builtin"
    assert results["Transformer"].severe == ["P4"], results["Transformer"]
    assert "It returns its scores as (T, B, V)." in results["Transformer"].notes


@pytest.mark.filterwarnings("ignore")
def test_and_is_right_where_that_is_turned_before(tmp_path):
    whole = check_text(ALONG_THE_BATCH.replace(*TURNED).replace("out(out)", "out(out).permute(1, 2, 0)"), tmp_path)
    assert whole["Transformer"].verdict == "matches the builtin", whole["Transformer"]
    assert "It returns its scores as (B, V, T)." in whole["Transformer"].notes


FROZEN = """
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=50):
        super().__init__()
        angles = torch.arange(max_len)[:, None] / 10000 ** (torch.arange(0, d_model, 2) / d_model)
        table = COMPUTED
        self.table = nn.Embedding.from_pretrained(table.flatten(1).float(), freeze=True)

    def forward(self, x):
        return x + self.table(torch.arange(x.shape[1]))
"""


@pytest.mark.parametrize("computed, is_right", [("(angles.sin(), angles.cos())", True), ("(angles, angles)", False)])
def test_a_frozen_table_that_is_computed_is_not_learned_whatever_is_in_it(computed, is_right, tmp_path):
    text = FROZEN.replace("COMPUTED", f"torch.stack({computed}, -1)")
    assert (check_text(text, tmp_path)["PositionalEncoding"].verdict in FINE) == is_right


KEPT = """
class PositionalEncoding(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.signal = torch.zeros(max_len, d_model)
        angles = torch.arange(max_len)[:, None] / 10000 ** (torch.arange(0, d_model, 2) / d_model)
        self.table = torch.stack((angles.sin(), angles.cos()), -1).flatten(1).float()

    def forward(self, x):
        return x + self.table[: x.shape[1]]
"""


@pytest.mark.parametrize("old, new, ids", [("", "", {"P5"}), ("10000", "1000", {"P2", "P5"})])
def test_zeros_that_are_kept_beside_a_table_are_no_learned_positions(old, new, ids, tmp_path):
    result = check_text(KEPT.replace(old, new), tmp_path)["PositionalEncoding"]
    assert (set(result.ids) & {"P2", "P5"}, result.unexplained) == (ids, False)


OF_PADDING = """
class PositionalEncoding(nn.Module):
    def __init__(self, n_position, d_model, padding=0):
        super().__init__()
        rows = torch.arange(n_position).float()[:, None] / 10000 ** (2 * (torch.arange(d_model) // 2) / d_model)
        codes = torch.zeros(n_position, d_model)
        codes[:, 0::2], codes[:, 1::2] = rows[:, 0::2].sin(), rows[:, 1::2].cos()
        codes[padding] = 0.0
        self.codes = nn.Embedding.from_pretrained(codes, freeze=True)

    def forward(self, positions):
        return self.codes(positions)
"""


def test_a_table_whose_first_row_is_for_padding_is_asked_for_the_rows_from_1_on(tmp_path):
    result = check_text(OF_PADDING, tmp_path)["PositionalEncoding"]
    assert (result.verdict, result.ids, result.error) == ("matches the builtin", [], None), result
    assert any("1, 2, 3" in note for note in result.notes), result.notes
    wrong = check_text(OF_PADDING.replace("codes[padding] = 0.0", "codes[padding + 2] = 0.0"), tmp_path)
    assert wrong["PositionalEncoding"].verdict in ("unknown mismatch", "mistake"), wrong


UNCUT = """
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len):
        super().__init__()
        angles = torch.arange(max_len)[:, None] * torch.exp(torch.arange(0, d_model, 2) * -math.log(10000.0) / d_model)
        self.register_buffer("pe", torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)[None])

    def forward(self, x):
        return x + self.pe


class Attention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h, self.d_k = num_heads, d_model // num_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, q, k, v, mask=None):
        q, k, v = (f(x).unflatten(-1, (self.h, -1)).transpose(1, 2)
                   for f, x in ((self.q, q), (self.k, k), (self.v, v)))
        scores = q @ k.transpose(-2, -1) / self.d_k**0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = Attention(d_model, num_heads)
        self.network = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        x = self.norm1(x + self.attention(x, x, x, mask))
        return self.norm2(x + self.network(x))


class TransformerEncoder(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers, max_len):
        super().__init__()
        self.d_model, self.embed = d_model, nn.Embedding(vocab_size, d_model)
        self.pe = PositionalEncoding(d_model, max_len)
        self.layers = nn.ModuleList([EncoderLayer(d_model, num_heads, d_ff) for _ in range(num_layers)])

    def forward(self, ids, mask):
        x = self.pe(self.embed(ids) * math.sqrt(self.d_model))
        for layer in self.layers:
            x = layer(x, mask)
        return x
"""
WRONG = (("x + self.pe", "math.sqrt(x.shape[-1]) * x + self.pe"), ("self.d_k**0.5", "self.d_k"))


def test_a_table_that_is_never_cut_needs_the_longest_sentence(tmp_path):
    found = check_text(UNCUT, tmp_path)["TransformerEncoder"]
    assert found.verdict in FINE and any("longest length alone" in limit for limit in found.limits)


def test_so_do_a_mistake_of_a_part_and_one_of_its_own(tmp_path):
    text = UNCUT
    for old, new in WRONG:
        assert old in text
        text = text.replace(old, new)
    found = check_text(text, tmp_path)
    model = found["TransformerEncoder"]
    assert model.verdict == "mistake" and model.ids == ["E2"] and "A1" in model.inherited


CUT_BY_SAMPLES = """
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000):
        super().__init__()
        pe, position = torch.zeros(max_len, d_model), torch.arange(max_len).unsqueeze(1)
        angles = position * torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe[:, 0::2], pe[:, 1::2] = angles.sin(), angles.cos()
        self.register_buffer("pe", pe.unsqueeze(0))

    def forward(self, x):
        return x + self.pe[:, :x.size(AXIS)]
"""


@pytest.mark.parametrize("axis, base, ids", [(1, "10000.0", []), (0, "10000.0", ["P4"]), (1, "1000.0", ["P2"])])
def test_a_table_with_a_row_for_the_batch_that_is_cut_by_the_number_of_samples(axis, base, ids, tmp_path):
    """It fits a sentence alone, whose tokens all get the first row."""
    text = CUT_BY_SAMPLES.replace("AXIS", str(axis)).replace("10000.0", base)
    (result,) = check_text(text, tmp_path).values()
    assert result.severe == ids, result


BY_SAMPLE = '''
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=50):
        super().__init__()
        pe, places = torch.zeros(max_len, 1, d_model), torch.arange(max_len).unsqueeze(1)
        angles = places * torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe[:, 0, 0::2], pe[:, 0, 1::2] = angles.sin(), angles.cos()
        self.register_buffer("pe", pe)

    def forward(self, x):
        """x: SHAPE"""
        return x + self.pe[: x.size(0)]
'''


@pytest.mark.parametrize("shape, ids", [
    ("(batch_size, seq_len, d_model)", ["P4"]), ("[B, T, C]", ["P4"]), ("(seq_len, batch_size, d_model)", []),
    ("(seq_len, batch, d_model), no (batch, seq_len, d_model)", []), ("embeddings", []),
])  # fmt: skip
def test_rows_by_the_first_dimension_are_right_unless_that_is_said_to_be_of_the_samples(shape, ids, tmp_path):
    result = check_text(BY_SAMPLE.replace("SHAPE", shape), tmp_path)["PositionalEncoding"]
    assert result.severe == ids
    assert result.verdict == ("mistake" if ids else "matches the builtin")


@pytest.mark.parametrize("table", ["angles.sin(), angles.cos()", "torch.randn(2, max_len, d_model // 2)"])
def test_a_colon_that_is_missing_gives_one_row_to_all_tokens(table, tmp_path):
    text = CUT_BY_SAMPLES.replace(":x.size(AXIS)", "x.size(1)").replace("angles.sin(), angles.cos()", table)
    if "randn" in table:
        text = text.replace('self.register_buffer("pe", pe.unsqueeze(0))', "self.pe = nn.Parameter(pe.unsqueeze(0))")
    (result,) = check_text(text, tmp_path).values()
    (severe,) = (mistake for mistake in result.mistakes if mistake.severity == "mistake")
    assert (severe.id, severe.form.split(":")[0]) == ("P4", "one row for all tokens, that of their number"), result


OF_A_WAVELENGTH = """
class PositionalEncoding(nn.Module):
    def __init__(self, wavelength: float, d_model: int, max_len: int):
        super().__init__()
        angles = torch.arange(max_len)[:, None] / BASE ** (torch.arange(0, d_model, 2) / d_model)
        self.register_buffer("pe", torch.stack((angles.sin(), angles.cos()), -1).flatten(1))

    def forward(self, x):
        return x + self.pe[: x.shape[1]]
"""


@pytest.mark.parametrize("base, ids", [("wavelength", []), ("(wavelength / 10)", ["P2"])])
def test_a_wavelength_is_the_base_of_the_frequencies(base, ids, tmp_path):
    result = check_text(OF_A_WAVELENGTH.replace("BASE", base), tmp_path)["PositionalEncoding"]
    assert result.severe == ids


RAISED = """
class PositionalEmbedding(nn.Module):
    def __init__(self, embedding_dim, sinusoidal_wave):
        super().__init__()
        self.embedding_dim, self.sinusoidal_wave = embedding_dim, sinusoidal_wave

    def forward(self, x):
        i = np.arange(self.embedding_dim)[None]
        angles = np.arange(x.size(1))[:, None] / POWER
        angles[:, 0::2], angles[:, 1::2] = np.sin(angles[:, 0::2]), np.cos(angles[:, 1::2])
        return x + torch.tensor(angles, device=x.device)
"""


@pytest.mark.parametrize("power, ids", [
    ("np.power(self.sinusoidal_wave, 2 * (i // 2) / self.embedding_dim)", []),
    ("self.sinusoidal_wave ** (2 * (i // 2) / self.embedding_dim)", []),
    ("self.sinusoidal_wave ** (4 * (i // 2) / self.embedding_dim)", ["P2"]),
])  # fmt: skip
def test_what_is_raised_to_a_fraction_is_the_base_whatever_it_is_called(power, ids, tmp_path):
    result = check_text("import numpy as np\n" + RAISED.replace("POWER", power), tmp_path)["PositionalEmbedding"]
    assert result.severe == ids
    assert (result.verdict in FINE) == (not ids), result


OF_HALVES = """
NAME = 8
WIDE
max_len = 64

class PositionalEncoding(nn.Module):
    def __init__(self):
        super().__init__()
        angles = torch.arange(max_len)[:, None] SIGN 10000 ** (torch.arange(NAME) / NAME)
        table = torch.zeros(max_len, d_model)
        table[:, 0::2], table[:, 1::2] = angles.sin(), angles.cos()
        self.register_buffer("table", table)

    def forward(self, x):
        return x + self.table[: x.shape[1]]
"""


@pytest.mark.parametrize("name, wide, sign, ids", [
    ("half_dim", "d_model = 2 * half_dim", "/", []),
    ("half_dim", "d_model = 2 * half_dim", "*", ["P2"]),
    ("pairs", "d_model = 2 * pairs", "/", []),  # nobody knows that of ours
    ("pairs", "d_model = 3 * pairs", "/", ["B26"]),
])  # fmt: skip
def test_a_number_that_is_half_of_another_at_the_top_of_a_file(name, wide, sign, ids, tmp_path):
    text = OF_HALVES.replace("WIDE", wide).replace("NAME", name).replace("SIGN", sign)
    result = check_text(text, tmp_path)["PositionalEncoding"]
    assert result.severe == ids, result
    assert result.verdict in FINE or ids or name == "pairs"


OF_A_SENTENCE = '''
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=50):
        super().__init__()
        pe, places = torch.zeros(max_len, d_model), torch.arange(max_len).unsqueeze(1)
        angles = places * torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe[:, 0::2], pe[:, 1::2] = angles.sin(), angles.cos()
        self.register_buffer("pe", pe)

    def forward(self, x):
        """SAID"""
        return x + self.pe[: x.size(AXIS)]


class TransformerEncoder(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, d_ff):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(vocab_size, d_model), PositionalEncoding(d_model)
        layer = nn.TransformerEncoderLayer(d_model, num_heads, d_ff, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, num_layers, enable_nested_tensor=False)

    def forward(self, ids):
        return self.layers(self.positions(self.embedding(ids)))
'''


@pytest.mark.parametrize("axis, said, severity", [
    ("0", "Adds the positions.", "note"), ("0", "x: (batch, seq_len, d_model)", "mistake"), ("-2", "", ""),
])  # fmt: skip
def test_what_is_right_for_a_sentence_that_is_no_batch_is_tried_in_one_too(axis, said, severity, tmp_path):
    results = check_text(OF_A_SENTENCE.replace("AXIS", axis).replace("SAID", said), tmp_path)
    named = {name: [m.severity for m in result.mistakes if m.id == "P4"] for name, result in results.items()}
    assert named["PositionalEncoding"] == ([severity] if severity else []), results
    assert bool(named["TransformerEncoder"]) == bool(severity), results["TransformerEncoder"]


ROWS = """
class PositionalEncoding(nn.Module):
    def __init__(self, ROWS, d_model=512, dropout=0.1):
        super().__init__()
        angles = torch.arange(ROWS).unsqueeze(1) / 10000 ** (torch.arange(0, d_model, 2).float() / d_model)
        table = torch.zeros(ROWS, d_model)
        table[:, ::2], table[:, 1::2] = angles.sin(), angles.cos()
        self.register_buffer("table", table)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.dropout(x + self.table[: x.size(-2)])
"""


@pytest.mark.parametrize("name", ["max_len", "vocab_len", "n_tokens", "num_embeddings", "n", "size"])
def test_what_its_rows_are_counted_by_is_a_length_whatever_it_is_called(name, tmp_path):
    result = check_text(ROWS.replace("ROWS", name), tmp_path)["PositionalEncoding"]
    assert (result.verdict, result.ids, result.notes) == ("matches the builtin", [], [])


GROWING = """
class PositionalEncoding(nn.Module):
    def __init__(self, width, max_len=100):
        super().__init__()
        self.width = width
        self.fill(max_len)

    def fill(self, longest):
        self.longest = longest
        at = torch.arange(longest).unsqueeze(1)
        rate = torch.exp(torch.arange(0, self.width, 2) * (-math.log(10000.0) / self.width))
        table = torch.zeros(longest, self.width)
        table[:, 0::2], table[:, 1::2] = torch.sin(at * rate), torch.cos(at * rate)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        GROWS
        return self.table[x]
"""


@pytest.mark.parametrize(
    "grows, is_limited", [("if len(x) > self.longest: self.fill(len(x))", False), ("length = len(x)", True)]
)
def test_a_table_that_grows_has_no_limit(grows, is_limited, tmp_path):
    result = check_text(GROWING.replace("GROWS", grows), tmp_path)["PositionalEncoding"]
    assert ("P6" in [m.id for m in result.mistakes]) == is_limited, result


FILLED = """
class PositionEmbedding(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.embedding = nn.Embedding(max_len, d_model)
        angles = torch.arange(max_len)[:, None] / 10000 ** (torch.arange(0, d_model, 2) / d_model)
        self.embedding.weight{data}[:, 0::2] = angles.sin()
        self.embedding.weight{data}[:, 1::2] = angles.cos()
        self.embedding.weight.requires_grad = False

    def forward(self, x):
        return x + self.embedding(torch.arange(x.shape[1], device=x.device))
"""


@pytest.mark.parametrize("data, ids", [("", ["B26"]), (".data", [])])
def test_a_constructor_that_writes_into_a_weight_stops_where_gradients_are_on(data, ids, tmp_path):
    (result,) = check_text(FILLED.format(data=data), tmp_path).values()
    severe = [one for one in result.mistakes if one.severity == "mistake"]
    assert [one.id for one in severe] == ids
    assert all("= angles.sin()" in one.evidence and "no_grad" in one.fix for one in severe)


OF_HEADS = """
class PositionalEncoding(nn.Module):
    def __init__(self, seq_len, dim, base=10000):
        super().__init__()
        rates = base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
        angles = FIRSTtorch.arange(seq_len)[:, None] * rates
        table = torch.zeros(1, 1, seq_len, dim, dtype=torch.float64)
        table[..., 0::2], table[..., 1::2] = angles.sin(), angles.cos()
        self.register_buffer("position", table)

    def forward(self, x):
        return x + self.position
"""


@pytest.mark.parametrize("first, named", [("", set()), ("rates + ", {"P9"})])
def test_positions_that_are_added_to_heads_are_given_heads(first, named, tmp_path):
    """All rows of the table, to (B, h, T, d)."""
    result = check_text(OF_HEADS.replace("FIRST", first), tmp_path)["PositionalEncoding"]
    assert result.verdict in FINE and {one.id for one in result.mistakes} & {"P2", "P3", "P9"} == named
    assert any("it was given one, (B, 1, T, E)" in note for note in result.notes)


WITH_HEADS = """
class Model(nn.Module):
    def __init__(self, seq_len, dim):
        super().__init__()
        self.positions = PositionalEncoding(seq_len, dim)

    def forward(self, x):
        return self.positions(x)
"""


def test_what_a_class_gives_three_dimensions_is_given_no_heads(tmp_path):
    """A sentence would come out of it with an axis more."""
    result = check_text(OF_HEADS.replace("FIRST", "") + WITH_HEADS, tmp_path)["PositionalEncoding"]
    assert result.verdict == "unknown mismatch"


COUNTED_PAST_PADDING = """
import numpy as np

PAD = 1


def positions(ids):
    return torch.tensor([[i + 1 if word != PAD else 0 for i, word in enumerate(row)] for row in ids.tolist()])


def table(n, d):
    angles = np.array([[place / np.power(10000, EXPONENT / d) for i in range(d)] for place in range(n)])
    angles[:, 0::2], angles[:, 1::2] = np.sin(angles[:, 0::2]), np.cos(angles[:, 1::2])
    angles[0] = 0.0
    return torch.FloatTensor(angles)


class Encoder(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers, max_len=100):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, d_model)
        self.places = nn.Embedding.from_pretrained(table(max_len + 1, d_model), freeze=True)
        layer = nn.TransformerEncoderLayer(d_model, num_heads, d_ff, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, num_layers, enable_nested_tensor=False)

    def forward(self, ids):
        return self.layers(self.embed(ids) + self.places(positions(ids)), src_key_padding_mask=ids == PAD)
"""


@pytest.mark.parametrize("exponent, ids", [("2 * (i // 2)", []), ("2 * i", ["P2"])])
def test_other_frequencies_of_positions_from_1_in_a_whole(exponent, ids, tmp_path):
    """The embeddings are not scaled either: three deviations at once."""
    result = check_text(COUNTED_PAST_PADDING.replace("EXPONENT", exponent), tmp_path)["Encoder"]
    assert result.severe == ids and result.verdict != "unknown mismatch"
    assert {"P9", "E2"} <= {mistake.id for mistake in result.mistakes}


AMONG_WORDS = """
class WordsAndPlaces(nn.Module):
    def __init__(self, n_vocab, width, longest):
        super().__init__()
        self.words, self.width = nn.Embedding(n_vocab, width), width
        angles = torch.arange(longest)[:, None] / BASE ** (torch.arange(width) // 2 * 2 / width)
        angles[:, 0::2], angles[:, 1::2] = angles[:, 0::2].sin(), angles[:, 1::2].cos()
        self.register_buffer("places", angles)

    def forward(self, ids):
        return self.words(ids) * self.width**POWER + self.places[: ids.shape[1]]
"""


@pytest.mark.parametrize("power", ["0.5", "0"])
@pytest.mark.parametrize("base, forms", [("10000", []), ("1000", ["its base is 1000, not 10,000"])])
def test_another_base_of_what_is_added_to_words_is_named(base, forms, power, tmp_path):
    with time_to_look(1):
        text = AMONG_WORDS.replace("BASE", base).replace("POWER", power)
        found = check_text(text, tmp_path)["WordsAndPlaces"]
    assert [one.form for one in found.mistakes if one.id == "P2"] == forms, found
    assert (found.verdict != "unknown mismatch") and [*found.severe] == ["P2"] * len(forms), found


LEARNED = """
class TransformerEmbedding(nn.Module):
    def __init__(self, n_vocab, width, longest):
        super().__init__()
        self.words, self.places = nn.Embedding(n_vocab, width), nn.Embedding(longest + 1, width)

    def forward(self, ids):
        return self.words(ids) + self.places(torch.arange(ids.shape[1]) + FIRST)
"""


@pytest.mark.parametrize("first, ids", [("0", []), ("1", ["P9"])])
def test_rows_that_are_learned_may_be_counted_from_one(first, ids, tmp_path):
    with time_to_look(1):
        found = check_text(LEARNED.replace("FIRST", first), tmp_path)["TransformerEmbedding"]
    assert found.verdict in FINE and [id for id in found.ids if id == "P9"] == ids, found
