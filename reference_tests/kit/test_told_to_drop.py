"""scaled_dot_product_attention, which drops out whenever it is told to, and takes a mask or is_causal, not both."""

import pytest
import torch

from reference_tests.kit.learners.checked import check_text

ATTENTION = """
class SelfAttention(nn.Module):
    def __init__(self, d_model, num_heads, dropout):
        super().__init__()
        assert d_model % num_heads == 0
        self.heads, self.size, self.p = num_heads, d_model // num_heads, dropout
        self.q, self.k = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.v, self.out = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def forward(self, {}):
        {}
        B, T, E = x.shape
        q, k, v = (map_of(x).view(B, T, self.heads, self.size).transpose(1, 2) for map_of in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(
            q, k, v,
            dropout_p={}, is_causal=True{}
        )
        return self.out(y.transpose(1, 2).reshape(B, T, E))
"""
PAIR = "x, mask = both; mask = mask.view(len(x), 1, x.size(1), x.size(1))"
NOTHING = "assert x.dim() == 3"
MODEL = """

class Block(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout):
        super().__init__()
        self.attention = SelfAttention(d_model, num_heads, dropout)
        self.first, self.second = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.network = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = x + self.dropout(self.attention(self.first(x)))
        return x + self.dropout(self.network(self.second(x)))


class GPT(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers, max_len, dropout):
        super().__init__()
        self.words, self.places = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList([Block(d_model, num_heads, d_ff, dropout=dropout) for _ in range(num_layers)])
        self.norm, self.head = nn.LayerNorm(d_model), nn.Linear(d_model, vocab_size)

    def forward(self, ids):
        x = self.dropout(self.words(ids) + self.places(torch.arange(ids.size(1), device=ids.device)))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))
"""


def takes_both():
    """Whether this PyTorch takes attn_mask beside is_causal=True on a CPU, without dropout: up to 2.13."""
    one = torch.ones(1, 1, 1, 1)
    try:
        torch.nn.functional.scaled_dot_product_attention(one, one, one, attn_mask=one > 0, is_causal=True)
    except RuntimeError:
        return False
    return True


ALWAYS, IN_TRAINING = "self.p", "self.p if self.training else 0.0"


def shown(named):
    return named.shown.strip()


@pytest.mark.parametrize("p, ids", [(ALWAYS, ["B12"]), (IN_TRAINING, [])])
def test_it_drops_out_whenever_it_is_told_to(p, ids, tmp_path):
    result = check_text(ATTENTION.format("x", NOTHING, p, ""), tmp_path)["SelfAttention"]
    assert result.ids == ids
    for named in result.mistakes:
        assert shown(named) == "dropout_p=self.p, is_causal=True"
        assert named.put == ["            dropout_p=self.p if self.training else 0.0, is_causal=True"]
        assert "nn.Dropout(p)" not in named.fix


def test_of_a_model_the_line_is_that_of_its_attention(tmp_path):
    results = check_text(ATTENTION.format("x", NOTHING, ALWAYS, "") + MODEL, tmp_path)
    assert (results["GPT"].verdict, results["GPT"].inherited) == ("mistake", ["B12"])


@pytest.mark.parametrize("p, ids", [(ALWAYS, {"B26", "B12"}), (IN_TRAINING, {"B26"})])
def test_what_is_causal_and_takes_a_mask_stops_in_training(p, ids, tmp_path):
    """Without dropout, PyTorch may take both on the CPU: it is causal attention then, whatever the mask hides."""
    result = check_text(ATTENTION.format("both", PAIR, p, ", attn_mask=mask"), tmp_path)["SelfAttention"]
    (stop,) = (named for named in result.mistakes if named.id == "B26")
    assert result.verdict == "mistake" and "attn_mask or is_causal=True, not both" in stop.fix
    if takes_both():
        assert set(result.ids) == ids and result.error < 1e-12 and not result.unexplained
        assert "built with dropout = 0.1, its forward stops with RuntimeError" in stop.evidence
    else:
        assert "gives F.scaled_dot_product_attention attn_mask=mask and is_causal=True" in stop.evidence


BESIDE = """
class SelfAttention(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.1):
        super().__init__()
        assert d_model % num_heads == 0
        self.heads, self.dropout = num_heads, dropout
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, x, mask):
        B, T, E = x.shape
        q, k, v = (y.view(B, T, self.heads, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=DROPPED, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(B, T, E))
"""


@pytest.mark.long
@pytest.mark.parametrize(("dropped", "ids"), [
    ("self.dropout", {"B26", "B12"}), ("self.dropout if self.training else 0.0", {"B26"}), ("0.0", set()),
])  # fmt: skip
def test_what_its_mask_stops_with_dropout_alone_is_told(dropped, ids, tmp_path):
    """Of attention that hides the future itself, and is judged without that mask."""
    ids = ids if takes_both() else ids - {"B26"}  # with it, it always stops
    result = check_text(BESIDE.replace("DROPPED", dropped), tmp_path)["SelfAttention"]
    assert {*result.ids} & {"B26", "B12"} == ids, result
    (stops,) = [one for one in result.mistakes if one.id == "B26"] or [None]
    assert stops is None or ("built with dropout" in stops.evidence and "not both" in stops.fix)


MADE = """
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.1):
        super().__init__()
        self.p = dropout
        self.first, self.second = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        x = self.first(x).relu()
        return self.second(nn.Dropout(self.p)(x))
"""
AT_ONCE, BY_NAME = "return self.second(nn.Dropout(self.p)(x))", "leave_out = nn.Dropout(p=share)"
MADE_BESIDE = (
    MADE.replace(AT_ONCE, "return self.second(thinned(x))")
    + f"""

def thinned(x, share=0.1):
    {BY_NAME}
    return leave_out(x)
"""
)


@pytest.mark.long
@pytest.mark.parametrize("text, line", [(MADE, AT_ONCE), (MADE_BESIDE, BY_NAME)])
def test_a_dropout_that_is_made_in_every_call_is_shown_where_it_is_made(text, line, tmp_path):
    mistakes = check_text(text, tmp_path, ["FeedForward"])["FeedForward"].mistakes
    (found,) = (one for one in mistakes if one.id == "B12")
    assert "in the constructor" in found.fix
    assert found.shown.strip() == line


TELLS_ITSELF = """
class SelfAttention(nn.Module):
    def __init__(self, d_model, num_heads, d_rate=0.0):
        super().__init__()
        assert d_model % num_heads == 0
        self.heads, self.p, self.qkv = num_heads, d_rate, nn.Linear(d_model, 3 * d_model)
        self.out, self.drop = nn.Linear(d_model, d_model), nn.Dropout(d_rate)

    def forward(self, x, trains=True):
        DOES
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.p if self.training else 0.0)
        return self.drop(self.out(y.transpose(1, 2).flatten(2)))
"""


@pytest.mark.parametrize("does, ids", [("self.training = trains", ["B12"]), ("assert trains", [])])
def test_what_sets_its_own_mode_drops_out_in_evaluation(does, ids, tmp_path):
    """With a probability of dropout that is called d_rate."""
    found = check_text(TELLS_ITSELF.replace("DOES", does), tmp_path)["SelfAttention"].mistakes
    assert [one.id for one in found] == ids
    assert all(one.shown.strip().startswith(does) and "model.eval()" in one.fix for one in found)


NETWORK = """
class FeedForward(nn.Module):
    def __init__(self, n_embd, h_dim=None):
        super().__init__()
        h_dim = h_dim or 4 * n_embd
        self.net = nn.Sequential(nn.Linear(n_embd, WIDTH), nn.ReLU(), nn.Linear(WIDTH, n_embd))

    def forward(self, x):
        return self.net(x)
"""


@pytest.mark.parametrize("width, ids", [("4 * n_embd", ["B29"]), ("h_dim", [])])
def test_h_dim_is_the_width_of_a_network(width, ids, tmp_path):
    assert check_text(NETWORK.replace("WIDTH", width), tmp_path)["FeedForward"].severe == ids
