"""Functions that make a table of positions, or a causal mask, whatever their names have around that."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.report.finding import FINE
from scratch_transformer.kit.resolve import guess
from scratch_transformer.kit.resolve.functions.sizes import is_table

pytestmark = pytest.mark.long

TABLE = """
import numpy as np


def make_positional_encoding_matrix(timesteps, d_model):
    place, feature = np.arange(timesteps)[:, None], np.arange(d_model)[None]
    angle = place / np.power(10000, 2 * (feature // 2) / d_model)
    angle[:, 0::2] = np.sin(angle[:, 0::2])
    angle[:, 1::2] = np.cos(angle[:, 1::2])
    return torch.from_numpy(angle)
"""


@pytest.mark.parametrize(
    "old, new, verdict, ids",
    [
        ("", "", "matches the builtin", []),
        ("np.cos(", "np.sin(", "mistake", ["P14"]),
        ("2 * (feature // 2) / d_model", "2 / d_model", "unknown mismatch", []),
    ],
)
def test_a_table_by_a_function(old, new, verdict, ids, tmp_path):
    result = check_text(TABLE.replace(old, new), tmp_path)["make_positional_encoding_matrix"]
    assert (result.kind, result.verdict, result.ids) == ("PositionalEncoding", verdict, ids), result
    assert any("shape (5, 1)" in limit for limit in result.limits) == (verdict == "unknown mismatch"), result.limits


def test_a_table_of_angles_is_no_code(tmp_path):
    """Neither sine nor cosine is taken; the line that is shown computes the angles."""
    text = TABLE.replace("np.sin(", "np.asarray(").replace("np.cos(", "np.asarray(")
    result = check_text(text, tmp_path)["make_positional_encoding_matrix"]
    assert (result.verdict, result.ids) == ("mistake", ["P14"]), result
    assert result.mistakes[0].form == "the angles themselves" and "np.power(10000" in result.mistakes[0].shown


def test_the_exponent_of_every_feature_is_shown_where_it_is_made(tmp_path):
    """The sines and cosines are taken of columns whose angles are there already."""
    text = TABLE.replace("2 * (feature // 2) / d_model", "feature / d_model")
    (named,) = check_text(text, tmp_path)["make_positional_encoding_matrix"].mistakes
    assert (named.id, named.form) == ("P2", "the cosine has the next exponent") and "np.power(10000" in named.shown


def fetch_positional_encoding_matrix(timesteps, d_model): ...
def fetch_positional_encoding_batch(x, lengths): ...
def fetch_positional_encoding(d_model): ...


def test_what_is_told_a_length_and_a_width_is_a_table():
    named = (fetch_positional_encoding_matrix, fetch_positional_encoding_batch, fetch_positional_encoding)
    assert [is_table(one, KINDS["PositionalEncoding"]) for one in named] == [True, False, False]


SUB_MASK = """
def get_sub_mask(ids):
    length = ids.shape[1]
    kept = torch.ones(length, length).triu(0).T
    return torch.zeros(length, length).masked_fill(kept == 0, float("-inf"))
"""


@pytest.mark.parametrize("diagonal, ids", [("0", []), ("1", ["A6"])])
def test_a_triangle_of_ids_is_a_causal_mask(diagonal, ids, tmp_path):
    result = check_text(SUB_MASK.replace("triu(0)", f"triu({diagonal})"), tmp_path)["get_sub_mask"]
    assert (result.kind, result.ids) == ("CausalMask", ids), result


def both_mask(ids, pad):
    return ids.tril() + pad


def triangle(ids):
    return ids.tril()


def word_mask(ids):
    return ids != 3


def test_what_makes_no_triangle_or_is_given_more_is_no_causal_mask():
    named = (both_mask, triangle, word_mask)
    assert [guess.kinds_of(one.__name__, one, KINDS)[:1] for one in named] == [(), (), ("PaddingMask",)]


ADDED = """
def positional_encoding(embedded, whole_positional_encoding_matrix):
    rows = whole_positional_encoding_matrix[None, : embedded.shape[1], :]
    return embedded + rows
"""


@pytest.mark.parametrize(("sum_", "verdict"), [("+", "matches the builtin"), ("-", "unknown mismatch")])
def test_a_table_that_is_given(sum_, verdict, tmp_path):
    result = check_text(ADDED.replace("embedded +", f"embedded {sum_}"), tmp_path)["positional_encoding"]
    assert (result.kind, result.verdict) == ("PositionalEncoding", verdict), result


MATRICES = """
def get_rotary_matrix(context_window, embedding_dim):
    R = torch.zeros(context_window, embedding_dim, embedding_dim)
    for position in range(context_window):
        for i in range(embedding_dim // 2):
            angle = position * 10000.0 ** (-2.0 * COUNTED / embedding_dim)
            R[position, 2 * i, 2 * i] = R[position, 2 * i + 1, 2 * i + 1] = math.cos(angle)
            R[position, 2 * i, 2 * i + 1], R[position, 2 * i + 1, 2 * i] = -math.sin(angle), math.sin(angle)
    return R


class RoPEMaskedAttentionHead(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.w_q, self.w_k, self.w_v = (nn.Linear(config["d_model"], config["d_model"]) for _ in range(3))
        self.register_buffer("R", get_rotary_matrix(config["context_window"], config["d_model"]))

    def forward(self, x):
        q, k = (torch.einsum("tij,btj->bti", self.R[: x.shape[1]], w(x)) for w in (self.w_q, self.w_k))
        return F.scaled_dot_product_attention(q, k, self.w_v(x), is_causal=True)
"""


@pytest.mark.parametrize("counted, ids", [("i", []), ("(i - 1)", ["R2"])])
def test_a_matrix_for_every_position_turns(counted, ids, tmp_path):
    """What is called masked, and takes no mask, hides the future; what turns is no rotation because of its name."""
    results = check_text(MATRICES.replace("COUNTED", counted), tmp_path)
    assert [mistake.id for mistake in results["get_rotary_matrix"].mistakes] == ids
    head = results["RoPEMaskedAttentionHead"]
    assert (head.kind, head.severe, head.verdict in FINE) == ("CausalRotaryAttention", [], True), head
