"""Padding of queries and of keys in one mask, as their product: rows of padding are nobody's, until they are NaN."""

import pytest

from reference_tests.kit.learners.checked import check_text, time_to_look
from scratch_transformer.kit.mistakes.attention import SPREADS

ATTENTION = """
class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        assert dim % heads == 0, "dim must be a multiple of heads"
        self.h = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, query, key, value, MASK):
        pairs = zip((self.q, self.k, self.v), (query, key, value))
        q, k, v = (linear(t).unflatten(-1, (self.h, -1)).transpose(1, 2) for linear, t in pairs)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        if ASKED is not None:
            scores = scores.masked_fill(PRODUCT == 0, FILL)
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""
OF_ONE = {"MASK": "mask=None", "ASKED": "mask", "PRODUCT": "(mask[:, None, None, :] * mask[:, None, :, None])"}
OF_TWO = {
    "MASK": "q_mask=None, k_mask=None",
    "ASKED": "k_mask",
    "PRODUCT": "torch.einsum('bi,bj->bij', q_mask.float(), k_mask.float())[:, None]",
}
GIVEN = {"MASK": "mask=None", "ASKED": "mask", "PRODUCT": "mask.unsqueeze(1)"}
LAYER = """

class EncoderLayer(nn.Module):
    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.attend = Attention(dim, heads)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))

    def forward(self, x, mask):
        x = self.norm1(x + self.attend(x, x, x, mask))
        return self.norm2(x + self.mlp(x))


class Encoder(nn.Module):
    def __init__(self, dim, heads, hidden, num_layers):
        super().__init__()
        self.layers = nn.ModuleList([EncoderLayer(dim, heads, hidden) for _ in range(num_layers)])

    def forward(self, x, pad):
        JOINED
        for layer in self.layers:
            x = layer(x, mask)
        return x
"""
GPT = """

class GPT(nn.Module):
    def __init__(self, vocab_size, dim, heads, hidden, num_layers, max_len, pad_id=0):
        super().__init__()
        self.pad_id = pad_id
        self.words, self.places = nn.Embedding(vocab_size, dim), nn.Embedding(max_len, dim)
        self.layers = nn.ModuleList([EncoderLayer(dim, heads, hidden) for _ in range(num_layers)])
        self.head = nn.Linear(dim, vocab_size)

    def forward(self, ids):
        T = ids.size(1)
        pad = ids != self.pad_id
        JOINED & torch.ones(T, T, device=ids.device).tril().bool()
        x = self.words(ids) + self.places(torch.arange(T, device=ids.device))
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(x)
"""
JOINED = "mask = pad.unsqueeze(1) & pad.unsqueeze(2)"
RIGHT = "matches the builtin", "harmless deviation"
BY_FILL = [("-1e9", False), ("-math.inf", True)]


def _with(text, **words):
    for word, said in words.items():
        text = text.replace(word, said)
    return text


@pytest.mark.parametrize("fill", ["-1e9", "-math.inf"])
@pytest.mark.parametrize("form", [OF_ONE, OF_TWO], ids=["of one mask", "of two"])
def test_an_attention_may_make_the_product_itself(form, fill, tmp_path):
    with time_to_look(1):
        result = check_text(_with(ATTENTION, **form, FILL=fill), tmp_path)["Attention"]
    assert result.verdict in RIGHT and not {*result.ids} - {"A8"}, result


@pytest.mark.long
def test_what_is_wrong_with_the_product_is_named(tmp_path):
    turned = {**OF_ONE, "== 0": "!= 0"}
    for changes in ({**turned, "FILL": "-1e9"}, {**OF_ONE, "FILL": "-1e-9"}):
        result = check_text(_with(ATTENTION, **changes), tmp_path)["Attention"]
        assert not result.verdict.startswith("matches") and "A8" not in result.ids, result


@pytest.mark.long
@pytest.mark.parametrize("fill, is_wrong", BY_FILL)
@pytest.mark.parametrize("joined", [JOINED, "mask = torch.bmm(pad[:, :, None].float(), pad[:, None].float())"])
def test_rows_of_padding_cost_nothing_until_they_are_nan(joined, fill, is_wrong, tmp_path):
    text = _with(ATTENTION, **GIVEN, FILL=fill) + _with(LAYER, JOINED=joined)
    with time_to_look(1):
        results = check_text(text, tmp_path)
    found = [one.form for one in results["Encoder"].mistakes if one.id == "A11"]
    assert found == [SPREADS] * is_wrong, results["Encoder"]
    assert (results["Encoder"].verdict == "mistake") == is_wrong
    assert results["EncoderLayer"].verdict in RIGHT, results["EncoderLayer"]


@pytest.mark.long
@pytest.mark.parametrize("fill, is_wrong", BY_FILL)
def test_so_it_is_in_a_language_model(fill, is_wrong, tmp_path):
    text = _with(ATTENTION, **GIVEN, FILL=fill) + _with(LAYER + GPT, JOINED=JOINED)
    with time_to_look(1):
        result = check_text(text, tmp_path)["GPT"]
    assert [one.form for one in result.mistakes if one.id == "A11"] == [SPREADS] * is_wrong, result
    assert (result.verdict == "mistake") == is_wrong


@pytest.mark.long
def test_rows_in_place_of_columns_are_still_the_mistake(tmp_path):
    """Filled with -∞, they are NaN too; that is no reason of its own."""
    text = _with(ATTENTION, **GIVEN, FILL="-math.inf") + _with(LAYER, JOINED="mask = pad.unsqueeze(2)")
    result = check_text(text, tmp_path)["Encoder"]
    assert [one.id for one in result.mistakes if one.severity == "mistake"] == ["A7"], result
