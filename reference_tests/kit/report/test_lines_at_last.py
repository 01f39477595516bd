"""Lines and fixes of what has no usual words: a norm in two lines, heads that nothing divides, a softmax undropped."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

NORM = """
class LayerNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        centred = x - x.mean(dim=-1, keepdim=True)
        unit = centred / \\
            centred.std(dim=-1, keepdim=True, unbiased=False)
        return unit * self.scale + self.shift
"""
ATTENTION = """
class SelfAttention(nn.Module):
    def __init__(self, width, n_heads, dropout=0.1):
        super().__init__()
        self.n_heads = n_heads
        self.to_q, self.to_k = nn.Linear(width, width), nn.Linear(width, width)
        self.to_v, self.to_out = nn.Linear(width, width), nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        cut = lambda y: y.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
        q, k, v = cut(self.to_q(x)), cut(self.to_k(x)), cut(self.to_v(x))
        JOINED
        return self.dropout(self.to_out(joined.transpose(1, 2).flatten(2)))
"""
BY_HAND = "joined = (q @ k.mT / k.shape[-1] ** 0.5).softmax(-1) @ v"
TORCHS = "joined = F.scaled_dot_product_attention(q, k, v)"
WORDS = """
class EmbeddingWithPositions(nn.Module):
    def __init__(self, vocab_size, width, dropout=0.1, max_len=64):
        super().__init__()
        self.words = nn.Embedding(vocab_size, width)
        steps = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        angles = torch.arange(max_len).unsqueeze(1) * steps
        self.register_buffer("table", torch.stack((angles.sin(), angles.cos()), -1).flatten(1))
        self.dropout = nn.Dropout(dropout)

    def forward(self, ids):
        x = self.words(ids)
        return self.dropout(x + self.table[: ids.size(1)])

class Encoder(nn.Module):
    def __init__(self, vocab_size, width, n_heads, d_ff, n_layers, dropout=0.1):
        super().__init__()
        self.embed = EmbeddingWithPositions(vocab_size, width, dropout)
        layer = nn.TransformerEncoderLayer(width, n_heads, d_ff, dropout, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, n_layers)

    def forward(self, ids, mask=None):
        x = self.embed(ids)
        return self.layers(x, src_key_padding_mask=mask)
"""


def _shown(result, id):
    named = next(found for found in result.mistakes if found.id == id)
    return named.shown.strip(), [line.strip() for line in named.put], named.fix


def test_a_norm_without_eps_is_shown_where_it_divides(tmp_path):
    line, _, _ = _shown(check_text(NORM, tmp_path)["LayerNorm"], "LN3")
    assert line.startswith("centred.std(")


@pytest.mark.parametrize("joined", [BY_HAND, TORCHS])
def test_heads_that_nothing_divides_are_checked_where_they_are_kept(joined, tmp_path):
    result = check_text(ATTENTION.replace("JOINED", joined), tmp_path)["SelfAttention"]
    line, put, _ = _shown(result, "A19")
    assert line == put[0] == "self.n_heads = n_heads"
    assert put[1:] == ["assert width % n_heads == 0, f'{n_heads=} must divide {width=}'"]


@pytest.mark.parametrize(
    "joined, said", [(BY_HAND, "self.dropout(weights)"), (TORCHS, "dropout_p=self.p if self.training")]
)
def test_weights_that_are_not_dropped_are_shown_at_their_softmax(joined, said, tmp_path):
    line, _, fix = _shown(check_text(ATTENTION.replace("JOINED", joined), tmp_path)["SelfAttention"], "A18")
    assert line == joined and fix.startswith(said)


IN_VAIN = """weights = (q @ k.mT / k.shape[-1] ** 0.5).softmax(-1)
        dropped = self.dropout(weights)
        self.last = dropped
        joined = USED"""


@pytest.mark.parametrize(
    "used", ["weights @ v", "torch.matmul(weights, v)", "torch.einsum('bhij,bhjd->bhid', weights, v)"]
)
def test_weights_that_are_dropped_in_vain_are_shown_where_they_are_used(used, tmp_path):
    text = ATTENTION.replace("JOINED", IN_VAIN.replace("USED", used)).replace("return self.dropout(", "return (")
    line, _, fix = _shown(check_text(text, tmp_path)["SelfAttention"], "A18")
    assert line == f"joined = {used}" and fix.startswith("Multiply the values with what dropout gives")


def test_weights_that_are_dropped_and_used_are_not_told_of(tmp_path):
    text = ATTENTION.replace("JOINED", IN_VAIN.replace("USED", "dropped @ v"))
    assert "A18" not in check_text(text, tmp_path)["SelfAttention"].ids


@pytest.mark.parametrize("text", [WORDS, WORDS.split("class Encoder")[0]])
def test_words_that_get_positions_beside_them_are_scaled_where_they_are_looked_up(text, tmp_path):
    line, put, fix = _shown(check_text(text, tmp_path)["EmbeddingWithPositions"], "E2")
    assert line == "x = self.words(ids)" and put == ["x = self.words(ids) * self.words.embedding_dim ** 0.5"], fix


IN_A_PART = (
    WORDS.replace(
        "class Encoder",
        """
class Layer(nn.Module):
    def __init__(self, width, n_heads, d_ff, dropout=0.1):
        super().__init__()
        self.inner = nn.MultiheadAttention(width, n_heads, dropout, batch_first=True)
        self.up, self.down = nn.Linear(width, d_ff), nn.Linear(d_ff, width)
        self.norm1, self.norm2, self.dropout = nn.LayerNorm(width), nn.LayerNorm(width), nn.Dropout(dropout)

    def attend(self, x, mask=None):
        return self.inner(x, x, x, key_padding_mask=mask, need_weights=False)[0]

    def forward(self, x, mask=None):
        x = self.norm1(x + self.dropout(self.attend(x, mask=mask)))
        return self.norm2(x + self.dropout(self.down(self.dropout(torch.relu(self.up(x))))))

class Encoder""",
    ).split("        layer = nn")[0]
    + """
        self.layers = nn.ModuleList([Layer(width, n_heads, d_ff, dropout) for _ in range(n_layers)])

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return x
"""
)


def test_a_whole_without_a_mask_is_shown_where_it_hands_none_on(tmp_path):
    line, _, fix = _shown(check_text(IN_A_PART, tmp_path)["Encoder"], "A24")
    assert line == "x = layer(x)" and fix.startswith("Make a mask of the padding"), fix


def test_none_that_is_handed_on_in_place_of_a_mask_is_mended_in_its_call(tmp_path):
    line, put, fix = _shown(check_text(IN_A_PART.replace("mask=mask)))", "mask=None)))"), tmp_path)["Layer"], "A24")
    assert "mask=None" in line and put == [line.replace("mask=None", "mask=mask")] and fix.startswith("mask=mask")


UNDROPPED = """
class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.1):
        super().__init__()
        self.inner = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        attended = self.inner(x, x, x, need_weights=False)[0]
        SUM
        return self.norm2(x + self.down(torch.relu(self.up(x))))
"""


@pytest.mark.parametrize("line", [
    "x = self.norm1(x + attended)", "x = x + attended; x = self.norm1(x)", "x += attended; x = self.norm1(x)",
])  # fmt: skip
def test_sublayers_that_are_not_dropped_are_shown_where_they_are_added(line, tmp_path):
    shown, _, fix = _shown(check_text(UNDROPPED.replace("SUM", line), tmp_path)["EncoderLayer"], "B6")
    assert shown == line and fix == "x + self.dropout(sublayer(...))."


ADDED = """
class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.1):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.cross_attn = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.network = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.leave_out = nn.Dropout(dropout)

    def join(self, x, y):
        return torch.stack((x, y)).sum(0)

    def forward(self, x, memory, tgt_mask=None):
        attended, _ = self.self_attn(x, x, x, attn_mask=tgt_mask)
        x = self.norm1(FIRST)
        attended, _ = self.cross_attn(x, memory, memory)
        x = self.norm2(SECOND)
        x = self.norm3(self.join(x, self.network(x)))
        return x
"""


@pytest.mark.parametrize(
    "first, second, line",
    [
        ("torch.add(x, attended)", "x.add(attended)", "x = self.norm1(torch.add(x, attended))"),
        ("attended.add_(x)", "x + attended", "x = self.norm1(attended.add_(x))"),
        ("self.join(x, attended)", "x.add(attended)", "x = self.norm2(x.add(attended))"),
        ("self.join(x, attended)", "self.join(x, attended)", "self.leave_out = nn.Dropout(dropout)"),
    ],
)
def test_a_dropout_that_nothing_applies_is_shown_where_it_is_to_be_or_is_made(first, second, line, tmp_path):
    result = check_text(ADDED.replace("FIRST", first).replace("SECOND", second), tmp_path)["DecoderLayer"]
    assert _shown(result, "B6")[0].strip() == line
