"""Small parts that are made in another way than most: what their numbers tell is named, what they do not is not."""

import pytest

from reference_tests.kit.learners.checked import LESS, check_text, time_to_look
from scratch_transformer.kit.mistakes.normalization import OF_PLACES
from scratch_transformer.kit.report.finding import FINE

pytestmark = pytest.mark.long

EMBEDDING = """
class InputEmbedding(nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.d_model, self.vocab_size = d_model, vocab_size
        self.embedding = nn.Embedding(vocab_size, d_model)

    def forward(self, x):
        return {output}
"""
NETWORK = """
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.first, self.more, self.last = nn.Linear(d_model, d_ff), {more}, nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.last({between})
"""
NORM = """
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-6):
        super().__init__()
        self.gamma, self.beta, self.eps = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model)), eps

    def forward(self, x):
        mean, std = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
        return {output}
"""


def only(text, folder):
    (result,) = check_text(text, folder).values()
    return result


@pytest.mark.parametrize("output, verdict, form", [
    ("self.embedding(x) * self.d_model ** 1 / 2", "harmless deviation", "times 6"),
    ("self.embedding(x) * math.sqrt(self.vocab_size)", "harmless deviation", "times 3.60555"),
    ("self.embedding(x) * x[..., None]", "unknown mismatch", ""),
])  # fmt: skip
def test_any_factor_of_the_embedding_is_named_by_its_number(output, verdict, form, tmp_path):
    result = only(EMBEDDING.format(output=output), tmp_path)
    assert result.verdict == verdict
    assert [one.form for one in result.mistakes if one.id == "E2"] == [form] * bool(form)


@pytest.mark.parametrize("output, put", [
    ("self.embedding(x) / math.sqrt(self.d_model)", "self.embedding(x) * math.sqrt(self.d_model)"),
    ("self.embedding(x) / self.d_model ** 0.5", "self.embedding(x) * self.d_model ** 0.5"),
    ("self.embedding(x) * self.d_model ** -0.5", ""),
])  # fmt: skip
def test_embeddings_that_are_divided_are_no_harmless_ones(output, put, tmp_path):
    """Positions are added to what is left of them, which is told in numbers."""
    result = only(EMBEDDING.format(output=output), tmp_path)
    assert result.verdict == "mistake"
    ((named),) = result.mistakes
    assert (named.id, named.form) == ("E2", "divided by √d_model")
    assert "come out with 0.29 for d_model = 12 (0.044 for 512)" in named.evidence
    assert [line.strip() for line in named.put] == [f"return {put}"] * bool(put)


@pytest.mark.parametrize("more, between, verdict", [
    ("nn.BatchNorm1d(d_ff)", "torch.relu(self.more(self.first(x).mT).mT)", "mistake"),
    ("nn.Dropout(0.1)", "self.more(torch.relu(self.first(x)))", "matches the builtin"),
    ("nn.Linear(d_ff, d_ff)", "torch.relu(self.more(torch.relu(self.first(x))))",
     "of a design that is not known here: a feed-forward network of 3 linear layers"),
])  # fmt: skip
def test_what_more_there_is_in_a_network(more, between, verdict, tmp_path):
    result = only(NETWORK.format(more=more, between=between), tmp_path)
    assert result.verdict == verdict
    assert (verdict == "mistake") == ("LN7" in {one.id for one in result.mistakes})


GLU_WITHIN = """
class SwiGLU(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.both = nn.Linear(width, 2 * width)

    def forward(self, x):
        gate, value = self.both(x).chunk(2, dim=-1)
        return F.silu(gate) * value


class FeedForward(nn.Sequential):
    def __init__(self, dim, hidden):
        super().__init__(nn.Linear(dim, hidden), SwiGLU(hidden), nn.Linear(hidden, dim))
"""


def test_a_gate_with_matrices_of_its_own_is_another_design(tmp_path):
    """Between the two matrices of a network, where a function is meant."""
    result = check_text(GLU_WITHIN, tmp_path)["FeedForward"]
    assert result.verdict == "of a design that is not known here: a feed-forward network of 3 linear layers"


@pytest.mark.parametrize("output, ids", [
    ("self.gamma * (x - mean / (std + self.eps)) + self.beta", {"LN1", "LN2", "LN14"}),
    ("self.gamma * ((x - mean) / (std + self.eps) + self.beta)", {"LN1", "LN2", "LN14"}),
    ("self.gamma * (x - mean) / (std + self.eps + self.beta)", {"LN1", "LN2", "LN14"}),
    ("self.gamma * (x - mean) / (std + self.eps - self.beta)", None),
    ("(x - mean) / (std + 1e-3)", {"LN1", "LN2", "LN6"}), ("(x - mean) / std", {"LN1", "LN6"}),
    ("self.gamma * (x - mean) * (std + self.eps) + self.beta", {"LN1", "LN10"}),
    ("self.gamma * (x - mean) / torch.sqrt(std**4 + self.eps) + self.beta", {"LN1", "LN10"}),
    ("self.gamma * (x - mean) / (std * self.eps) + self.beta", {"LN1", "LN10"}),
    ("self.gamma * (x - mean) / (std.tanh() + self.eps) + self.beta", None),
])  # fmt: skip
def test_several_ways_to_normalize_wrongly_at_once(output, ids, tmp_path):
    result = only(NORM.format(output=output), tmp_path)
    assert result.verdict == ("unknown mismatch" if ids is None else "mistake")
    assert {one.id for one in result.mistakes} - {"LN3", "B30"} == (ids or set())


CORE = """
def scaled_dot_product_attention(query, key, value, mask=None):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(mask == 0, {fill})
    return {weights} @ value
"""


@pytest.mark.parametrize("fill, weights, named", [
    ("-1e9", "scores", ("A37", "the scores themselves")), ("-1e9", "scores.sigmoid()", ("A37", "sigmoid")),
    ("-1e9", "scores.softmax(-1).softmax(-1)", ("A37", "softmax twice")),
    ("1e9", "scores.softmax(-1)", ("A4", "filled with 1e9")),
    ("math.inf", "scores.softmax(-1)", ("A4", "filled with +inf")),
    ("-math.inf", "scores.softmax(-1)", ()), ("-1e9", "scores.softmax(-1) ** 2", None),
])  # fmt: skip
def test_what_becomes_of_the_scores(fill, weights, named, tmp_path):
    with time_to_look(LESS):
        result = only(CORE.format(fill=fill, weights=weights), tmp_path)
    assert result.verdict == ("unknown mismatch" if named is None else "mistake" if named else "matches the builtin")
    assert not named or named in {(one.id, one.form) for one in result.mistakes}


MAKES = """
def {name}(dim_input: int = 512, dim_feedforward: int = 2048) -> nn.Module:
    return nn.Sequential(
        nn.Linear(dim_input, dim_feedforward),
        nn.{activation}(),
        nn.Linear(dim_feedforward, dim_input),
    )
"""


@pytest.mark.parametrize("activation, ids", [("ReLU", []), ("Tanh", ["B8"]), ("Identity", ["B16"])])
def test_a_function_that_makes_a_part_is_called_for_it(activation, ids, tmp_path):
    result = only(MAKES.format(name="feed_forward", activation=activation), tmp_path)
    assert result.severe == ids
    assert result.verdict == ("mistake" if ids else "matches the builtin")


SOFTMAX = """
class SoftmaxLayer(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.dim = {dim}

    def forward(self, features):
        powers = torch.exp(features{shift})
        return powers / powers.sum(self.dim, keepdim=True)
"""


@pytest.mark.parametrize("shift, dim, ids", [
    (" - features.max(dim=self.dim, keepdim=True).values", "dim", []),
    (" - features.max(dim=self.dim, keepdim=True).values", "dim - 1", ["A2"]),
    ("", "dim", ["A26"]),
])  # fmt: skip
def test_a_softmax_is_told_its_axis_by_the_name_of_a_width(shift, dim, ids, tmp_path):
    result = only(SOFTMAX.format(shift=shift, dim=dim), tmp_path)
    assert (result.kind, [m.id for m in result.mistakes]) == ("softmax", ids)
    assert result.verdict == ("mistake" if ids else "matches the builtin")


LINEARS = """
class PositionLinear(nn.Module):
    def __init__(self, in_dim, out_dim):
        super().__init__()
        self.w, self.b = nn.Parameter(torch.randn(in_dim, out_dim)), nn.Parameter(torch.zeros(out_dim))

    def forward(self, x):
        return x @ self.w + self.b


class DenseSublayer(nn.Module):
    def __init__(self, dimension, dropout):
        super().__init__()
        self.linear_1, self.dropout = PositionLinear(dimension, 4 * dimension), nn.Dropout(dropout)
        self.linear_2 = PositionLinear(4 * dimension, dimension)

    def forward(self, x):
        return self.dropout(self.linear_2({}(self.linear_1(x))))
"""


@pytest.mark.parametrize("activation, ids", [("torch.relu", []), ("", ["B16"])])
def test_a_network_of_linear_layers_of_its_own_is_no_linear_layer(activation, ids, tmp_path):
    result = check_text(LINEARS.format(activation), tmp_path)["DenseSublayer"]
    assert (result.kind, result.severe) == ("FeedForward", ids)
    assert result.verdict == ("mistake" if ids else "matches the builtin")


WORDS_AND_PLACES = """
class PosEmbedding(nn.Module):
    def __init__(self, vocab_size, context_len, emb_dim):
        super().__init__()
        self.emb, self.pos_emb = nn.Embedding(vocab_size, emb_dim), nn.Embedding(context_len, emb_dim)

    def forward(self, tokens):
        return self.emb(tokens) + self.pos_emb(torch.arange(tokens.shape[1]))
"""


@pytest.mark.parametrize("joined, is_right", [("+", True), ("*", False)])
def test_positions_that_are_told_a_vocabulary_embed_words_too(joined, is_right, tmp_path):
    result = only(WORDS_AND_PLACES.replace(" + ", f" {joined} "), tmp_path)
    assert (result.kind, result.verdict in FINE) == ("EmbeddingWithPositions", is_right)


FOR_PLACES = """
class RMSNorm(nn.Module):
    def __init__(self, layer_shape):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(layer_shape))

    def forward(self, x):
        size = torch.linalg.norm(x, dim=(1, 2), keepdim=True) * x[0].numel() ** -0.5
        return self.scale[: x.shape[1], :] * (x / size)
"""


def test_a_norm_with_weights_for_each_place_is_told_how_many_places_there_are(tmp_path):
    result = only(FOR_PLACES, tmp_path)
    found = [(one.id, one.form) for one in result.mistakes]
    assert ("LN7", "over tokens and features") in found, result
    assert ("LN4", OF_PLACES) in found, result


STD = """
import torch
from torch import nn

class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-6):
        super().__init__()
        self.gamma, self.beta, self.eps = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model)), eps

    def forward(self, x):
        mean, std = x.mean(DIMS, keepdim=True), x.std(DIMS, keepdim=True)
        return self.gamma * (x - mean) / (std + self.eps) + self.beta
"""


@pytest.mark.parametrize(
    ("dims", "where"),
    [("1", "the tokens"), ("(0, 2)", "the batch and the features"), ("(0, 1)", "the batch and the tokens")],
)
def test_a_norm_over_other_axes_is_named_beside_all_that_std_brings_along(tmp_path, dims, where):
    result = only(STD.replace("DIMS", dims), tmp_path)
    severe = {one.id: one for one in result.mistakes if one.severity == "mistake"}
    assert result.verdict == "mistake" and {"LN1", "LN2", "LN7"} == {*severe}, result
    assert severe["LN7"].form == f"over {where}"
    assert "times PyTorch's" not in severe["LN1"].evidence  # its ratio would be that of all three


POWERS = """
import numpy as np

def {name}(values: torch.Tensor, dim: int = -1):
    powers = np.e ** ({given})
    return {output}
"""


@pytest.mark.parametrize("name, given, output, ids", [
    ("softmax", "values - values.amax(dim=dim, keepdim=True)", "powers / powers.sum(dim=dim, keepdim=True)", []),
    ("softmax", "values", "powers / powers.sum(dim=dim, keepdim=True)", ["A26"]),
    ("log_softmax", "values", "values - powers.sum(dim=dim, keepdim=True).log()", ["A26"]),
    ("log_softmax", "values", "torch.log_softmax(values, dim)", []),
    ("log_softmax", "values", "torch.log_softmax(values, dim - 1)", ["A2"]),
])  # fmt: skip
def test_a_number_of_numpys_makes_no_function_of_arrays(name, given, output, ids, tmp_path):
    result = only(POWERS.format(name=name, given=given, output=output), tmp_path)
    assert (result.kind, [one.id for one in result.mistakes]) == (name, ids)
    assert result.verdict == ("mistake" if ids else "matches the builtin")


ENDS = """
class Linear(nn.Module):
    def __init__(self, {names}, bias=True):
        super().__init__()
        self.weight = nn.Parameter(torch.randn({shape}))
        self.bias = nn.Parameter(torch.zeros({width})) if bias else None

    def forward(self, x):
        x = x @ self.weight
        return x if self.bias is None else x + self.bias
"""


@pytest.mark.parametrize("names, shape, verdict", [
    ("x, y", "x, y", "matches the builtin"),
    ("x, y", "y, x", "crashed"),
    ("n, m", "n, m", "matches the builtin"),
])  # fmt: skip
def test_a_linear_layer_is_told_what_goes_in_and_then_what_comes_out(names, shape, verdict, tmp_path):
    result = only(ENDS.format(names=names, shape=shape, width=names[-1]), tmp_path)
    assert (result.kind, result.verdict) == ("Linear", verdict)


AGAIN = """
class {name}(nn.Module):
    def __init__(self, vocab_size, embedding_size):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(vocab_size, embedding_size))

    def forward(self, ids):
        return {output}
"""


@pytest.mark.parametrize("name, output, ids, kind", [
    ("Embedding", "self.weight[ids]", [], "Embedding"),
    ("Embedding", "self.weight[ids] * 2", ["E2"], "InputEmbedding"),
    ("Embedding", "self.weight[ids] * self.weight.shape[1] ** 0.5", [], "InputEmbedding"),
    ("TokenEmbedding", "self.weight[ids]", ["E2"], "InputEmbedding"),
])  # fmt: skip
def test_torchs_table_written_again_scales_nothing(name, output, ids, kind, tmp_path):
    result = only(AGAIN.format(name=name, output=output), tmp_path)
    assert ([one.id for one in result.mistakes], result.kind) == (ids, kind)


SCALED_BESIDE = """
class WordEmbedder(nn.Module):
    def __init__(self, vocab_size, embed_dim):
        super().__init__()
        self.embedder = nn.Embedding(vocab_size, embed_dim)

    def forward(self, word):
        return self.embedder(word)


class {name}(nn.Module):
    def __init__(self, embed_dim, max_len):
        super().__init__()
        self.embed_dim = embed_dim
        angle = torch.arange(max_len)[:, None] / 10000 ** (torch.arange(0, embed_dim, 2) / embed_dim)
        self.register_buffer("table", torch.stack([angle.sin(), angle.cos()], -1).flatten(1))

    def forward(self, x):
        x = x * {factor}
        return x + self.table[: x.shape[1]]
"""


@pytest.mark.parametrize("name, factor, severity", [
    ("PositionEncoder", "math.sqrt(self.embed_dim)", "note"),
    ("PositionEncoder", "self.embed_dim ** 0.5", "note"),
    ("PositionEncoder", "math.sqrt(2 / math.pi)", "harmless"),
    ("PositionEncoder", "self.embed_dim", "harmless"),
    ("NormOfPositions", "math.sqrt(self.embed_dim)", "harmless"),
])  # fmt: skip
def test_embeddings_that_another_class_scales_need_not_be_scaled(name, factor, severity, tmp_path):
    result = check_text(SCALED_BESIDE.format(name=name, factor=factor), tmp_path)["WordEmbedder"]
    assert {one.id: one.severity for one in result.mistakes} == {"E2": severity}
    assert result.verdict == ("matches the builtin" if severity == "note" else "harmless deviation")


SCALED_IN_A_METHOD = """
class WordEmbedder(nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.table, self.d_model = nn.Embedding(vocab_size, d_model), d_model

    def forward(self, ids):
        return self.table(ids)


class Translator(nn.Module):
    def __init__(self, embedder, encoder):
        super().__init__()
        self.embedder, self.encoder = embedder, encoder

    def {method}(self, ids, attention_mask):
        words = {words}
        return self.encoder(words, attention_mask)
"""


@pytest.mark.parametrize("method, words, severity", [
    ("encode", "self.embedder(ids) * math.sqrt(self.embedder.d_model)", "note"),
    ("forward", "self.embedder.d_model ** 0.5 * self.embedder(ids)", "note"),
    ("encode", "self.embedder(ids) * self.embedder.d_model", "harmless"),
    ("encode", "self.encoder(ids, None) * math.sqrt(self.embedder.d_model)", "harmless"),
])  # fmt: skip
def test_embeddings_that_a_method_of_the_model_scales_need_not_be_scaled(method, words, severity, tmp_path):
    result = check_text(SCALED_IN_A_METHOD.format(method=method, words=words), tmp_path)["WordEmbedder"]
    assert {one.id: one.severity for one in result.mistakes} == {"E2": severity}
