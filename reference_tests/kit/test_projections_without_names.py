"""Projections of which no name says what they are: their shapes and their use tell, in attention and in a layer."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.report.finding import FINE

pytestmark = pytest.mark.long

ATTENTION = """
class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        assert dim % heads == 0, "dim must be a multiple of heads"
        self.h = heads
        MAKE

    def split(self, y):
        return y.unflatten(-1, (self.h, -1)).transpose(1, 2)

    def forward(self, x, mask=None):
        PROJECT
        q, k, v = self.split(q), self.split(k), self.split(v)
        scores = q @ k.transpose(-2, -1)SCALE
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -math.inf)
        return self.back((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""
SCALE = " / math.sqrt(q.shape[-1])"
THREE = "self.pack, self.back = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)"
TURNED = "self.back, self.pack = nn.Linear(dim, dim), nn.Linear(dim, 3 * dim)"
TWO = "self.one, self.pack, self.back = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)"
TWO_TURNED = "self.back, self.pack, self.one = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)"
WAYS = [
    (THREE, "q, k, v = self.pack(x).chunk(3, -1)"),
    (TURNED, "q, k, v = self.pack(x).chunk(3, -1)"),
    (THREE, "v, q, k = self.pack(x).chunk(3, -1)"),
    (THREE, "v, k, q = self.pack(x).chunk(3, -1)"),
    (TWO, "q, (k, v) = self.one(x), self.pack(x).chunk(2, -1)"),
    (TWO, "q, (v, k) = self.one(x), self.pack(x).chunk(2, -1)"),
    (TWO_TURNED, "q, (k, v) = self.one(x), self.pack(x).chunk(2, -1)"),
    (TWO, "v, (q, k) = self.one(x), self.pack(x).chunk(2, -1)"),
]


@pytest.mark.parametrize("make, project", WAYS)
@pytest.mark.parametrize("scale, ids", [(SCALE, []), ("", ["A1"])])
def test_packed_projections_of_any_name(make, project, scale, ids, tmp_path):
    text = ATTENTION.replace("MAKE", make).replace("PROJECT", project).replace("SCALE", scale)
    result = check_text(text, tmp_path)["Attention"]
    assert result.severe == ids and result.verdict == ("mistake" if ids else "matches the builtin"), result


@pytest.mark.parametrize("scale, ids", [(SCALE, []), ("", ["A1"])])
def test_a_projection_called_like_a_norm_is_one_all_the_same(scale, ids, tmp_path):
    """self.ln2 = nn.Linear(dim, dim), for a linear layer."""
    text = ATTENTION.replace("MAKE", f"self.pack, self.ln2 = {THREE.partition(' = ')[2]}").replace("SCALE", scale)
    text = text.replace("PROJECT", "q, k, v = self.pack(x).chunk(3, -1)").replace("self.back", "self.ln2")
    result = check_text(text, tmp_path)["Attention"]
    assert result.severe == ids and result.verdict == ("mistake" if ids else "matches the builtin"), result


LAYER = """
class EncoderLayer(nn.Module):
    def __init__(self, dim, heads, hidden):
        super().__init__()
        assert dim % heads == 0, "dim must be a multiple of heads"
        self.h = heads
        MAKE
        self.one, self.two = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.grow, self.shrink = nn.Linear(dim, hidden), nn.Linear(hidden, dim)

    def split(self, y):
        return y.unflatten(-1, (self.h, -1)).transpose(1, 2)

    def forward(self, x, mask=None):
        q, k, v = (self.split(y) for y in PROJECTED)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -math.inf)
        y = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        x = self.one(x + self.back(y))
        return NETWORK
"""
FOUR = "self.a, self.b, self.c, self.back = (nn.Linear(dim, dim) for _ in range(4))"
OF_LAYERS = [(THREE, "self.pack(x).chunk(3, -1)"), (TURNED, "self.pack(x).chunk(3, -1)"),
             (FOUR, "(self.a(x), self.b(x), self.c(x))")]  # fmt: skip


@pytest.mark.parametrize("make, projected", OF_LAYERS)
@pytest.mark.parametrize("network, ids", [("self.two(x + self.shrink(self.grow(x).relu()))", []),
                                          ("self.two(self.shrink(self.grow(x).relu()))", ["B13"]),
                                          ("self.two(x + self.shrink(self.grow(x)))", ["B16"])])  # fmt: skip
def test_a_layer_that_attends_with_matrices_of_any_name(make, projected, network, ids, tmp_path):
    text = LAYER.replace("MAKE", make).replace("PROJECTED", projected).replace("NETWORK", network)
    result = check_text(text, tmp_path)["EncoderLayer"]
    assert result.severe == ids and result.verdict == ("mistake" if ids else "matches the builtin"), result


OWN_PARTS = """
class Linear(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) * 0.1)

    def forward(self, x):
        return x @ self.weight.T


class Embedding(nn.Module):
    def __init__(self, count, d_model):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(count, d_model))

    def forward(self, ids):
        return self.weight[ids]


class LanguageModel(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers):
        super().__init__()
        layer = nn.TransformerEncoderLayer(d_model, num_heads, 4 * d_model, 0.0, batch_first=True, norm_first=True)
        self.first = Embedding(vocab_size, d_model)
        self.second = nn.TransformerEncoder(layer, num_layers, nn.LayerNorm(d_model), enable_nested_tensor=False)
        self.third = Linear(d_model, vocab_size)

    def forward(self, ids):
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        return self.third(self.second(self.first(ids), mask, is_causal=True))
"""


@pytest.mark.parametrize("old, new, is_right", [("", "", True), ("self.first(ids)", "self.first(ids).flip(1)", False)])
def test_parts_of_its_own_are_what_their_classes_are_called(old, new, is_right, tmp_path):
    """Matrices of one shape, whose attributes say nothing: the embedding's and that of the scores."""
    result = check_text(OWN_PARTS.replace(old, new), tmp_path)["LanguageModel"]
    assert (result.verdict in FINE) == is_right


BOTH = [("embedding", "output_embeddings"), ("out_emb", "head"), ("words", "out_embed")]


@pytest.mark.parametrize("first, third", BOTH)
def test_what_is_called_an_output_embedding_is_what_its_class_says(first, third, tmp_path):
    """The matrix that gives the scores, or the embedding of what is put out."""
    text = OWN_PARTS.replace("self.first", f"self.{first}").replace("self.third", f"self.{third}")
    assert check_text(text, tmp_path)["LanguageModel"].verdict in FINE
