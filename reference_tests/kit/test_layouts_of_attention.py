"""Where an attention's weights are, when that is unusual: one tensor for all heads, keys in place of queries."""

import pytest

from reference_tests.kit.learners.checked import LESS, MORE, check_text, time_to_look
from scratch_transformer.kit.report.finding import FINE

pytestmark = pytest.mark.long

SHARED_KEYS = """
class Attention(nn.Module):
    def __init__(self, embedding_dims, out_dim, heads=1):
        super().__init__()
        self.heads, self.out_dim = heads, out_dim
        self.q = nn.Parameter(torch.randn(heads, embedding_dims, out_dim))
        self.k = nn.Parameter(torch.randn(embedding_dims, out_dim))
        self.v = nn.Parameter(torch.randn(embedding_dims, out_dim))
        self.Wo = nn.Parameter(torch.randn(out_dim * heads, embedding_dims))

    def forward(self, q, attn_mask=None):
        Q, K, V = q.unsqueeze(1) @ self.q, (q @ self.k).unsqueeze(1), (q @ self.v).unsqueeze(1)
        scores = Q @ K.mT / math.sqrt(self.out_dim)
        if attn_mask is not None:
            scores = scores.masked_fill(attn_mask, -torch.inf)
        context = scores.softmax(-1) @ V
        return context.transpose(1, 2).flatten(2) @ self.Wo
"""
KEYS_FIRST = """
class MultiHeadAttention(nn.Module):
    def __init__(self, input_size, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.w, self.proj = nn.Linear(input_size, 3 * input_size, bias=False), nn.Linear(input_size, input_size)

    def forward(self, x):
        q, k, v = self.w(x).unflatten(-1, (3, self.n_heads, -1)).permute(2, 0, 3, 1, 4)
        scores = torch.einsum("bhie,bhje->bhij", k, q) / k.shape[-1] ** 0.5
        scores[~torch.ones_like(scores, dtype=torch.bool).TRIANGLE] = -torch.inf
        return self.proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""


@pytest.mark.parametrize(
    "old, new, ids",
    [("", "", set()), ("/ math.sqrt(self.out_dim)", "", {"A1"}), ("Q @ K.mT", "(Q @ K.mT).sigmoid()", None)],
    ids=["right", "not scaled", "another function"],
)
def test_every_head_has_queries_of_its_own_and_all_share_keys(old, new, ids, tmp_path):
    result = check_text(SHARED_KEYS.replace(old, new), tmp_path)["Attention"]
    assert (result.verdict in FINE) == (ids == set())
    assert ids is None or {named.id for named in result.mistakes if named.severity == "mistake"} == ids


@pytest.mark.parametrize("triangle, ids", [("tril()", set()), ("triu()", {"A5"})])
def test_what_it_calls_keys_are_queries(triangle, ids, tmp_path):
    result = check_text(KEYS_FIRST.replace("TRIANGLE", triangle), tmp_path)["MultiHeadAttention"]
    assert {named.id for named in result.mistakes if named.severity == "mistake"} == ids
    assert (result.verdict in FINE) == (not ids)


HEADS_TURNED = """
def self_attention(q, k, v):
    scores = torch.einsum("bthd, bshd -> bhts", q, k) / torch.sqrt(torch.tensor(q.shape[-1]))
    return WEIGHTS @ v.permute(0, 2, 1, 3)
"""


@pytest.mark.parametrize("weights, is_right", [("scores.softmax(-1)", True), ("scores.softmax(-2)", False)])
def test_heads_come_after_the_length_and_go_before_it(weights, is_right, tmp_path):
    result = check_text(HEADS_TURNED.replace("WEIGHTS", weights), tmp_path)["self_attention"]
    assert (result.kind, result.verdict in FINE) == ("ScaledDotProductAttention", is_right)
    assert "A2" in result.ids or is_right


BACK = """
class DecoderLayer(nn.Module):
    def __init__(self, hidden_dim, n_heads):
        super().__init__()
        self.h = n_heads
        self.Wq, self.Wk, self.Wv, self.W_reshape_back = (nn.Linear(hidden_dim, hidden_dim) for _ in range(4))
        self.Wq2, self.Wk2, self.Wv2, self.W_reshape_back_2 = (nn.Linear(hidden_dim, hidden_dim) for _ in range(4))
        self.ffn1, self.ffn2 = nn.Linear(hidden_dim, 4 * hidden_dim), nn.Linear(4 * hidden_dim, hidden_dim)
        self.norm_sa, self.norm_ca, self.norm_ffn = (nn.LayerNorm(hidden_dim) for _ in range(3))

    def heads(self, x):
        return x.unflatten(-1, (self.h, -1)).transpose(1, 2)

    def attend(self, q, k, v, mask):
        scores = self.heads(q) @ self.heads(k).mT / math.sqrt(q.shape[-1] // self.h)
        return (scores.masked_fill(mask == 0, -1e9).softmax(-1) @ self.heads(v)).transpose(1, 2).flatten(2)

    def forward(self, x, memory, tgt_mask, src_mask):
        x = self.norm_sa(x + self.W_reshape_back(self.attend(self.Wq(x), self.Wk(x), self.Wv(x), tgt_mask)))
        y = self.attend(self.Wq2(x), self.Wk2(memory), self.Wv2(memory), src_mask)
        x = self.norm_ca(x + self.W_reshape_back_2(y))
        return self.norm_ffn(x + self.ffn2(torch.relu(self.ffn1(x))))
"""


@pytest.mark.parametrize("old, new", [
    ("", ""), ("self.W_reshape_back_2(y)", "self.W_reshape_back(y)"),
    ("self.Wv2(memory)", "self.W_reshape_back_2(memory)"),
], ids=["right", "one for both", "the output's for values"])  # fmt: skip
def test_what_projects_the_output_may_have_any_name(old, new, tmp_path):
    with time_to_look(LESS if old else 1):
        result = check_text(BACK.replace(old, new), tmp_path)["DecoderLayer"]
    assert (result.verdict in FINE) == (not old), result


WRITTEN_SCALE = """
keys = torch.zeros(6, 3)


class SelfAttention(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.W_query = nn.Parameter(torch.randn(d_in, d_out))
        self.W_key = nn.Parameter(torch.randn(d_in, d_out))
        self.W_value = nn.Parameter(torch.randn(d_in, d_out))

    def forward(self, x):
        q, k, v = x @ self.W_query, x @ self.W_key, x @ self.W_value
        return torch.softmax(q @ k.T / keys.shape[-1] ** 0.5, dim=-1) @ v
"""
"""A scale of other keys than its own, which are a global of the file."""


@pytest.mark.parametrize("scale", ["keys.shape[-1] ** 0.5", "8"])
def test_a_scale_that_is_written_in_is_found_whatever_the_weights_are_called(scale, tmp_path):
    result = check_text(WRITTEN_SCALE.replace("keys.shape[-1] ** 0.5", scale), tmp_path)["SelfAttention"]
    assert result.verdict == "mistake" and "A1" in [m.id for m in result.mistakes] and not result.unexplained, result


def test_beside_what_nothing_names_it_is_not_the_reason(tmp_path):
    result = check_text(WRITTEN_SCALE.replace("dim=-1) @ v", "dim=-1).square() @ v"), tmp_path)["SelfAttention"]
    assert result.verdict == "unknown mismatch" or result.unexplained, result


HEAD = """
class AttentionHead(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(d_model, d_model // num_heads) for _ in range(3))

    def forward(self, x, attn_mask):
        q, k, v = self.q(x), self.k(x), self.v(x)
        scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1]) + attn_mask
        return scores.softmax(-1) @ v
"""


@pytest.mark.parametrize("old, ids", [("", []), (" / math.sqrt(q.shape[-1])", ["A1"])])
def test_one_head_that_adds_the_mask_that_it_must_be_given(old, ids, tmp_path):
    """With masks of other shapes it gives outputs of other shapes, which are not one head's."""
    result = check_text(HEAD.replace(old, ""), tmp_path)["AttentionHead"]
    assert (result.verdict in FINE, result.ids) == (not ids, ids)


OF_SAMPLES = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, h):
        super().__init__()
        self.h, self.d_k = h, d_model // h
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    @staticmethod
    def attention(query, key, value, mask):
        d_k = query.shape[AXIS]
        scores = query @ key.transpose(-2, -1) / math.sqrt(d_k)
        if mask is not None:
            scores.HIDDEN(mask == 0, -1e9)
        return scores.softmax(-1) @ value

    def forward(self, q, k, v, mask):
        q, k, v = (w(x).view(len(x), -1, self.h, self.d_k).transpose(1, 2)
                   for w, x in ((self.w_q, q), (self.w_k, k), (self.w_v, v)))
        return self.w_o(self.attention(q, k, v, mask).transpose(1, 2).flatten(2))
"""


@pytest.mark.parametrize("axis, hidden, ids", [
    ("-1", "masked_fill_", set()), ("0", "masked_fill_", {"A1"}), ("0", "masked_fill", {"A1", "A24"}),
])  # fmt: skip
def test_the_number_of_samples_in_place_of_the_width_of_a_head(axis, hidden, ids, tmp_path):
    """And a mask that is not filled in place, whose result is thrown away."""
    (result,) = check_text(OF_SAMPLES.replace("AXIS", axis).replace("HIDDEN", hidden), tmp_path).values()
    assert {m.id for m in result.mistakes if m.severity == "mistake"} == ids
    assert (result.verdict in FINE) == (not ids)


STRIDED = """
class MultiHeadAttention(nn.Module):
    def __init__(self, embedding_dim, num_heads):
        super().__init__()
        self.num_heads, self.d_k = num_heads, embedding_dim // num_heads
        self.queries, self.keys, self.values = (nn.Linear(embedding_dim, embedding_dim) for _ in range(3))
        self.output = nn.Linear(embedding_dim, embedding_dim)

    def split(self, x):
        return x.reshape(*x.shape[:2], self.d_k, self.num_heads)

    def forward(self, queries, keys, values, mask=None):
        q, k, v = self.split(self.queries(queries)), self.split(self.keys(keys)), SPLIT(self.values(values))
        heads = []
        for i in range(self.num_heads):
            scores = q[..., i] @ k[..., i].transpose(1, 2) / math.sqrt(self.d_k)
            scores = scores if mask is None else scores.masked_fill(mask == 0, -math.inf)
            heads.append(scores.softmax(-1) @ v[..., i])
        return self.output(MERGED)
"""
ORDERS = [
    ("self.split", "torch.cat(heads, -1)", ["A13"], "harmless deviation"),
    ("self.split", "torch.stack(heads, -1).flatten(2)", ["A13", "A23"], "harmless deviation"),
    ("self.split", "torch.cat(heads, 1).reshape(*queries.shape)", ["A13", "A23"], "mistake"),
]


@pytest.mark.parametrize("split, merged, ids, verdict", ORDERS)
def test_heads_of_every_third_feature_are_right_in_another_order(split, merged, ids, verdict, tmp_path):
    text = STRIDED.replace("SPLIT", split).replace("MERGED", merged)
    result = check_text(text, tmp_path)["MultiHeadAttention"]
    assert result.verdict == verdict, (result.verdict, result.mistakes)
    assert sorted(m.id for m in result.mistakes if m.id in ("A13", "A23")) == ids


TOLD_A_LENGTH = """
class Attention(nn.Module):
    def __init__(self, reach: int, d_model: int):
        super().__init__()
        self.register_buffer("mask", torch.ones(reach, reach).TRIANGLE.bool())
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, x):
        T, E = x.shape[1:]
        q, k, v = self.qkv(x).split(E, dim=-1)
        scores = (q @ k.transpose(-1, -2) / E**0.5).masked_fill(~self.mask[:T, :T], -math.inf)
        return self.out(scores.softmax(-1) @ v)
"""


@pytest.mark.parametrize("triangle, ids", [("tril()", []), ("triu()", ["A5"])])
def test_a_mask_is_made_for_more_than_one_token_whatever_its_size_is_called(triangle, ids, tmp_path):
    """One row and one column would hide nothing, wherever they are broadcast to."""
    (result,) = check_text(TOLD_A_LENGTH.replace("TRIANGLE", triangle), tmp_path).values()
    assert (result.kind, [m.id for m in result.mistakes]) == ("CausalSelfAttention", ids)


OUTSIDE = """
class MultiHeadAttention(nn.Module):
    def __init__(self, emb_size, q_k_size, v_size, head):
        super().__init__()
        self.q_k_size, self.v_size, self.head = q_k_size, v_size, head
        self.w_q, self.w_k = nn.Linear(emb_size, head * q_k_size), nn.Linear(emb_size, head * q_k_size)
        self.w_v = nn.Linear(emb_size, head * v_size)

    def forward(self, x_q, x_k_v, attn_mask):
        q = self.w_q(x_q).view(*x_q.shape[:2], self.head, self.q_k_size).transpose(1, 2)
        k = self.w_k(x_k_v).view(*x_k_v.shape[:2], self.head, self.q_k_size).transpose(1, 2)
        v = self.w_v(x_k_v).view(*x_k_v.shape[:2], self.head, self.v_size).transpose(1, 2)
        scores = q @ k.transpose(2, 3){}
        scores = scores.masked_fill(attn_mask.unsqueeze(1).expand(-1, self.head, -1, -1), -1e9)
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


class DecoderBlock(nn.Module):
    def __init__(self, emb_size, q_k_size, v_size, f_size, head):
        super().__init__()
        self.first_multihead_attn = MultiHeadAttention(emb_size, q_k_size, v_size, head)
        self.z_linear1, self.addnorm1 = nn.Linear(head * v_size, emb_size), nn.LayerNorm(emb_size)
        self.second_multihead_attn = MultiHeadAttention(emb_size, q_k_size, v_size, head)
        self.z_linear2, self.addnorm2 = nn.Linear(head * v_size, emb_size), nn.LayerNorm(emb_size)
        self.feedforward = nn.Sequential(nn.Linear(emb_size, f_size), nn.ReLU(), nn.Linear(f_size, emb_size))
        self.addnorm3 = nn.LayerNorm(emb_size)

    def forward(self, x, encoder_z, first_attn_mask, second_attn_mask):
        x = self.addnorm1(x + self.z_linear1(self.first_multihead_attn(x, x, first_attn_mask)))
        x = self.addnorm2(x + self.z_linear2(self.second_multihead_attn(x, encoder_z, second_attn_mask)))
        return self.addnorm3(self.feedforward(x) + x)
"""


@pytest.mark.parametrize("scale, id", [(" / math.sqrt(self.q_k_size)", "A8"), ("", "A1")])
def test_a_layer_may_project_the_output_of_its_attentions_itself(scale, id, tmp_path):
    results = check_text(OUTSIDE.format(scale), tmp_path)
    assert results["MultiHeadAttention"].kind.endswith("Attention")
    for result in results.values():
        assert id in {m.id for m in result.mistakes} | {*result.inherited}
        assert (result.verdict in FINE) == (id == "A8")
    assert not results["DecoderBlock"].unexplained


UNMIXED = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0
        self.h, (self.q, self.k, self.v) = num_heads, (nn.Linear(d_model, d_model) for _ in range(3))

    def forward(self, x):
        q, k, v = (w(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for w in (self.q, self.k, self.v))
        return ((q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v).transpose(1, 2).flatten(2)


class Head(nn.Module):
    def __init__(self, d_model, head_size):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(d_model, head_size) for _ in range(3))

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v
"""


def test_several_heads_without_an_output_projection_are_said_to_be_such(tmp_path):
    results = check_text(UNMIXED, tmp_path)
    said = {name: [limit for limit in one.limits if "W_o" in limit] for name, one in results.items()}
    assert (len(said["MultiHeadAttention"]), said["Head"]) == (1, [])
    assert results["MultiHeadAttention"].verdict in FINE


WRITTEN_IN = """
class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(48, 3 * 48), nn.Linear(48, 48)
        self.register_buffer("mask", torch.tril(torch.ones(32, 32)).view(1, 1, 32, 32))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = HEADS
        scores = q @ k.transpose(-2, -1) / SCALE
        scores = scores.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
        return self.out((torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(B, T, C))
"""
CUT = {
    "each": "(y.view(B, T, 12, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))",
    "by unflatten": "(y.unflatten(-1, (12, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))",
    "all three": "self.qkv(x).reshape(B, T, 3, 12, 4).permute(2, 0, 3, 1, 4)",
}


@pytest.mark.parametrize("cut", CUT.values(), ids=CUT)
@pytest.mark.parametrize("scale, ids", [("math.sqrt(C // 12)", []), ("math.sqrt(C)", ["A1"])])
def test_heads_whose_number_is_written_in_alone(cut, scale, ids, tmp_path):
    result = check_text(WRITTEN_IN.replace("HEADS", cut).replace("SCALE", scale), tmp_path)["SelfAttention"]
    assert result.severe == ids, result
    assert (result.verdict == "matches the builtin") == (not ids)


WRITTEN_SCALES = """
def scaled_dot_product_attention(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) SCALE
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
    return scores.softmax(-1) @ v
"""


@pytest.mark.parametrize(
    "scale, severity",
    [("/ math.sqrt(16)", "harmless"), ("* 0.125", "harmless"), ("/ q.size(-1)", "mistake"), ("/ 4 ** 2", "mistake")],
)
def test_a_scale_that_is_right_for_heads_of_one_width_is_harmless(scale, severity, tmp_path):
    """With heads of that width it is right; in what has others, it is not."""
    with time_to_look(MORE):
        result = check_text(WRITTEN_SCALES.replace("SCALE", scale), tmp_path)["scaled_dot_product_attention"]
    assert [one.severity for one in result.mistakes if one.id == "A1"] == [severity], result


CLONES = """
class Linear(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.weights, self.bias = nn.Parameter(torch.randn(n_in, n_out)), nn.Parameter(torch.randn(n_out))

    def forward(self, x):
        return x @ self.weights + self.bias


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, h):
        super().__init__()
        self.h = h
        self.linears = nn.ModuleList([copy.deepcopy(Linear(d_model, d_model)) for _ in range(4)])

    def forward(self, q, k, v, mask=None):
        q, k, v = (f(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for f, x in zip(self.linears, (q, k, v)))
        scores = q @ k.mT / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -torch.inf)
        return self.linears[3]((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""


def test_own_linear_layers_in_a_list_have_their_biases_beside_them(tmp_path):
    result = check_text(CLONES, tmp_path)["MultiHeadAttention"]
    assert (result.verdict, result.ids) == ("harmless deviation", ["A19"])


A_LIST_OF_HEADS = """
class Head(nn.Module):
    def __init__(self, d_model, d):
        super().__init__()
        self.red, self.green, self.blue = nn.Linear(d_model, d), nn.Linear(d_model, d), nn.Linear(d_model, d)

    def forward(self, x):
        red, green = self.red(x), self.green(x)
        return (green @ red.mT * red.size(-1) ** -0.5).softmax(-1) @ self.blue(x)


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.all = nn.ModuleList([Head(d_model, d_model // num_heads) for _ in range(num_heads)])
        self.last = nn.Linear(d_model, d_model)

    def forward(self, x):
        return self.last(torch.cat([one(x) for one in self.all], dim=-1))
"""
LISTS_OF_MATRICES = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        d = d_model // num_heads
        self.red = nn.ModuleList([nn.Linear(d_model, d) for _ in range(num_heads)])
        self.green = nn.ModuleList([nn.Linear(d_model, d) for _ in range(num_heads)])
        self.blue = nn.ModuleList([nn.Linear(d_model, d) for _ in range(num_heads)])
        self.last = nn.Linear(d_model, d_model)

    def forward(self, x):
        heads = zip(self.red, self.green, self.blue)
        return self.last(torch.cat([self.of_one(*[map_(x) for map_ in head]) for head in heads], dim=-1))

    def of_one(self, red, green, blue):
        return (green @ red.mT * red.size(-1) ** -0.5).softmax(-1) @ blue
"""


@pytest.mark.parametrize("text", [A_LIST_OF_HEADS, LISTS_OF_MATRICES], ids=["heads", "matrices"])
@pytest.mark.parametrize("scale, ids", [("** -0.5", set()), ("** -1", {"A1"})])
def test_in_a_list_of_heads_projections_may_have_any_names(text, scale, ids, tmp_path):
    """Told by the order in which each head makes them, and by trial."""
    result = check_text(text.replace("** -0.5", scale), tmp_path)["MultiHeadAttention"]
    own = {named.id for named in result.mistakes if named.severity == "mistake"}
    assert own | {"A1"} & {*result.inherited} == ids  # of one head, or of all
    assert (result.verdict in FINE) == (not ids)
