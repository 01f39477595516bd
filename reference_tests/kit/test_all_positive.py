"""Weights that start with torch.rand, all of them between 0 and 1 (B22): of matrices, and of tables."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.mistakes.construction import ALL_POSITIVE, POSITIVE_TABLE

ATTENTION = """
class Attention(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.w_q = nn.Parameter(QUERIES)
        self.w_k = nn.Parameter(torch.randn(d_model, d_model) * d_model ** -0.5)
        self.w_v = nn.Parameter(torch.empty(d_model, d_model))
        VALUES

    def forward(self, x):
        q, k, v = x @ self.w_q, x @ self.w_k, x @ self.w_v
        return (q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))).softmax(-1) @ v
"""
RAND, CENTRED = "torch.rand(d_model, d_model)", "(2 * torch.rand(d_model, d_model) - 1) * d_model ** -0.5"
XAVIER = "nn.init.xavier_uniform_(self.w_v)"
MATRIX, TABLE = [(ALL_POSITIVE, "mistake")], [(POSITIVE_TABLE, "harmless")]


def positive(result):
    found = [one for one in result.mistakes if one.id == "B22"]
    return [(one.form, one.severity) for one in found], [one.shown.strip() for one in found]


@pytest.mark.parametrize(
    "queries, values, expected, line",
    [
        (CENTRED, XAVIER, [], ""),
        (f"{RAND} / 10", XAVIER, [], ""),
        (RAND, XAVIER, MATRIX, f"self.w_q = nn.Parameter({RAND})"),
        (CENTRED, "nn.init.uniform_(self.w_v)", MATRIX, "nn.init.uniform_(self.w_v)"),
        (CENTRED, "self.w_v.data.uniform_(0, 1)", MATRIX, "self.w_v.data.uniform_(0, 1)"),
        (CENTRED, "nn.init.uniform_(self.w_v, -0.1, 0.1)", [], ""),
    ],
)
def test_a_matrix_is_to_start_around_zero(queries, values, expected, line, tmp_path):
    result = check_text(ATTENTION.replace("QUERIES", queries).replace("VALUES", values), tmp_path)["Attention"]
    assert positive(result) == (expected, [line] * len(expected)), result
    assert (result.verdict == "mistake") == (expected == MATRIX)


def test_what_fills_all_weights_afterwards_may_make_them_as_it_likes(tmp_path):
    fills = "self.apply(self.init)\n\n    def init(self, part):\n        nn.init.xavier_uniform_(self.w_q)"
    text = ATTENTION.replace("QUERIES", RAND).replace("VALUES", f"{XAVIER}\n        {fills}")
    assert positive(check_text(text, tmp_path)["Attention"]) == ([], [])


EMBEDDING = """
class TokenEmbedding(nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.d_model = d_model
        MADE

    def forward(self, x):
        return LOOKED_UP * math.sqrt(self.d_model)
"""
TORCHS = "self.emb = nn.Embedding(vocab_size, d_model)"


@pytest.mark.parametrize(
    "made, looked_up, expected",
    [
        ("self.table = nn.Parameter(torch.rand(vocab_size, d_model))", "self.table[x]", TABLE),
        ("self.table = nn.Parameter(torch.randn(vocab_size, d_model))", "self.table[x]", []),
        (TORCHS, "self.emb(x)", []),
        (f"{TORCHS}\n        self.emb.weight.data = torch.rand(vocab_size, d_model)", "self.emb(x)", TABLE),
    ],
)
def test_a_table_of_positive_numbers_is_harmless(made, looked_up, expected, tmp_path):
    text = EMBEDDING.replace("MADE", made).replace("LOOKED_UP", looked_up)
    result = check_text(text, tmp_path)["TokenEmbedding"]
    assert positive(result) == (expected, [made.rpartition("\n")[2].strip()] * len(expected)), result
    assert result.verdict == ("harmless deviation" if expected else "matches the builtin")
