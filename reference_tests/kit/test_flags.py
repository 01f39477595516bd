"""A mask that code asks whether it is true: a flag is True or False, and a mask that stops it is a mistake."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.report.finding import FINE

pytestmark = pytest.mark.long

ATTENTION = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, q, k, v, mask=None):
        split = lambda x: x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
        q, k, v = split(self.w_q(q)), split(self.w_k(k)), split(self.w_v(v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if mask:
            MADE
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return self.w_o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""
FLAG = "mask = torch.ones(scores.shape[-2:]).tril()"


@pytest.mark.parametrize(
    "made, scaled, verdict, ids",
    [
        (FLAG, "math.sqrt(q.shape[-1])", "harmless deviation", []),
        (FLAG, "q.shape[-1]", "mistake", ["A1"]),
        ("pass", "math.sqrt(q.shape[-1])", "mistake", ["A31"]),
    ],
    ids=["a flag", "a flag beside a mistake", "a mask"],
)
def test_what_is_asked_as_if_it_were_true_or_false(made, scaled, verdict, ids, tmp_path):
    text = ATTENTION.replace("MADE", made).replace("math.sqrt(q.shape[-1])", scaled)
    result = check_text(text, tmp_path)["MultiHeadAttention"]
    assert (result.kind, result.verdict, result.severe) == ("MultiheadAttention", verdict, ids), result
    assert not any("a flag and no mask" in limit for limit in result.limits)  # it was judged with it, too


CORE = """
def sdpa(keys, queries, values, mask=None):
    B, H, T, d = keys.shape
    if mask is not None:
        mask = mask.view(SHAPE)
    return F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
"""


@pytest.mark.parametrize("shape, ids", [("B, 1, T, T", ["A35"]), ("B, 1, T, T + 1", ["A31"])])
def test_a_mask_that_needs_as_many_keys_as_queries_stops_nothing_else(shape, ids, tmp_path):
    (result,) = check_text(CORE.replace("SHAPE", shape), tmp_path).values()
    assert [found.id for found in result.mistakes if found.severity != "note"] == ids


ASKED = """
def attention(q, k, v, mask=DEFAULT):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    HIDDEN
    return scores.softmax(-1) @ v
"""
BY_HAND = "torch.ones(scores.shape[-2:]).tril()"


@pytest.mark.parametrize(
    "hidden, default, is_mask, put",
    [
        ("scores = scores.masked_fill(mask == 0, -1e20) if mask else scores", "None", True, "if mask is not None else"),
        ("if not mask:\n        return scores.softmax(-1) @ v\n    scores = scores.masked_fill(mask == 0, -1e20)",
         "None", True, "if mask is None:"),
        ("if not mask:\n        pass\n    else:\n        scores = scores + mask.log()",
         "None", True, "if mask is None:"),
        ("if not mask:\n        mask = torch.ones(scores.shape[-2:])\n    scores = scores.masked_fill(mask == 0, -1e9)",
         "None", True, "if mask is None:"),
        (f"mask = {BY_HAND} if mask else None\n    scores = scores if mask is None else scores + mask.log()",
         "None", False, ""),
        (f"if mask:\n        scores = scores.masked_fill({BY_HAND} == 0, -1e20)", "None", False, ""),
        (f"if mask:\n        scores = scores + float(mask) * {BY_HAND}.log()", "False", False, ""),
    ],
)  # fmt: skip
def test_what_becomes_of_it_where_it_is_true_tells_a_mask_from_a_flag(hidden, default, is_mask, put, tmp_path):
    text = ASKED.replace("HIDDEN", hidden).replace("DEFAULT", default)
    result = check_text(text, tmp_path)["attention"]
    assert ["A31"] * is_mask == result.severe, result
    if is_mask:
        assert put in result.mistakes[0].put[0]


LAYER = """
class EncoderLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, n_heads)
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, mask):
        x = self.norm1(x + self.attention(x, x, x, mask))
        return self.norm2(x + self.down(torch.relu(self.up(x))))
"""


def test_a_layer_stops_with_the_mask_of_its_attention(tmp_path):
    part = ATTENTION.replace("if mask:", "if not mask:\n            pass\n        else:").replace("MADE", "pass")
    results = check_text(part.replace("mask=None", "mask") + LAYER, tmp_path)
    assert "A31" in results["MultiHeadAttention"].ids
    assert "A31" in results["EncoderLayer"].inherited


BEHIND_A_FLAG = """
def attention(q, k, v, is_causal=False, mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(k.size(-1))
    if FLAG:
        scores = scores.masked_fill(mask[..., : k.size(-2)] == 0, float("-inf"))
    return scores.softmax(-1) @ v
"""


@pytest.mark.parametrize("flag, ids", [("is_causal", []), ("False", ["A24"])])
def test_a_mask_that_is_looked_at_with_a_flag_alone_is_given_with_that(flag, ids, tmp_path):
    assert check_text(BEHIND_A_FLAG.replace("FLAG", flag), tmp_path)["attention"].severe == ids


TOLD_TO_SCALE = """
class Attention(nn.Module):
    def __init__(self, nx, n_head, scale=False):
        super().__init__()
        self.n_head, self.scale = n_head, scale
        self.c_attn, self.c_proj = nn.Linear(nx, 3 * nx), nn.Linear(nx, nx)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (y.view(B, T, self.n_head, -1).transpose(1, 2) for y in self.c_attn(x).chunk(3, -1))
        w = q @ k.transpose(-1, -2)
        if self.scale:
            w = w / math.sqrt(v.size(-1))
        return self.c_proj((w.softmax(-1) @ v).transpose(1, 2).flatten(2))


class MLP(nn.Module):
    def __init__(self, n_state, config):
        super().__init__()
        nx = config.n_embd
        self.c_fc, self.c_proj = nn.Linear(nx, n_state), nn.Linear(n_state, nx)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x)))


class Block(nn.Module):
    def __init__(self, config, scale=False):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(config.n_embd), nn.LayerNorm(config.n_embd)
        self.attn, self.mlp = Attention(config.n_embd, config.n_head, scale), MLP(4 * config.n_embd, config)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.h = nn.ModuleList([BLOCKS for _ in range(config.n_layer)])

    def forward(self, x):
        for block in self.h:
            x = block(x)
        return x
"""


@pytest.mark.parametrize("blocks, ids", [("Block(config, scale=True)", []), ("Block(config)", ["A1"])])
def test_a_flag_without_which_nothing_is_scaled_is_what_the_model_tells_it(blocks, ids, tmp_path):
    """Through the layer that hands it on; of two widths, n_state is the one in between."""
    results = check_text(TOLD_TO_SCALE.replace("BLOCKS", blocks), tmp_path)
    assert results["Attention"].severe == results["Block"].inherited[: len(ids)] == ids, results["Block"]
    assert {results[name].verdict == "mistake" for name in ("Attention", "Block")} == {bool(ids)}
    assert results["MLP"].verdict in FINE
