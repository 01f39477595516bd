"""The cache of a whole model is judged by what its words come to, also where forward ends before the projection."""

import pytest

from reference_tests.kit.learners.checked import check_text, time_to_look

pytestmark = pytest.mark.long

MODEL = """
class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0, "d_model must be a multiple of num_heads"
        self.h = num_heads
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, x, past=None):
        q, k, v = (y.unflatten(-1, (self.h, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        if past is not None:
            k, v = torch.cat((past[0], k), -2), torch.cat((past[1], v), -2)
        mask = torch.ones(x.shape[1], k.shape[-2]).tril(k.shape[-2] - x.shape[1]).bool()
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(y.transpose(1, 2).flatten(2)), (k, v)


class Block(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = CausalSelfAttention(d_model, num_heads)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))

    def forward(self, x, past=None):
        y, kept = self.attention(self.norm1(x), past)
        x = x + y
        return x + self.ffn(self.norm2(x)), kept


class GPT(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers, max_len):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList([Block(d_model, num_heads, d_ff) for _ in range(num_layers)])
        self.norm, self.head = nn.LayerNorm(d_model), nn.Linear(d_model, vocab_size)

    def forward(self, ids, past=None):
        start = 0 if past is None else past[0][0].shape[-2]
        x = self.embedding(ids) + self.positions(torch.arange(start, start + ids.shape[1]))
        kept = []
        for index, block in enumerate(self.blocks):
            x, one = block(x, None if past is None else past[index])
            kept.append(one)
        return RETURNED, kept

    def generate(self, ids):
        for _ in range(4):
            ids = torch.cat((ids, self.head(self(ids)[0])[:, -1:].argmax(-1)), 1)
        return ids
"""
HEADLESS = "self.norm(x)"


@pytest.mark.parametrize("returned", [HEADLESS, f"self.head({HEADLESS})"])
@pytest.mark.parametrize("start, ids", [("past[0][0].shape[-2]", []), ("0", ["P7"])])
def test_the_cache_of_a_model(returned, start, ids, tmp_path):
    text = MODEL.replace("RETURNED", returned).replace("else past[0][0].shape[-2]", f"else {start}")
    result = check_text(text, tmp_path)["GPT"]
    assert result.severe == ids, result


TOLD_PLACES = MODEL.replace("def forward(self, ids, past=None)", "def forward(self, ids, position_ids=None, past=None)")
TOLD_PLACES = TOLD_PLACES.replace(
    "        start = 0 if past is None else past[0][0].shape[-2]\n",
    "        if position_ids is None:\n            position_ids = torch.arange(ids.shape[1]).unsqueeze(0)\n",
)
TOLD_PLACES = TOLD_PLACES.replace("torch.arange(start, start + ids.shape[1])", "position_idsPLACES")


@pytest.mark.parametrize("places, ids", [("[:, :]", []), ("[:, :1] * 0 + torch.arange(ids.shape[1])", ["P7"])])
def test_places_that_a_model_is_told_for_each_sentence_are_told_so(places, ids, tmp_path):
    text = TOLD_PLACES.replace("RETURNED", f"self.head({HEADLESS})").replace(
        "position_idsPLACES", f"position_ids{places}"
    )
    result = check_text(text, tmp_path)["GPT"]
    assert result.severe == ids and not any("cache" in limit for limit in result.limits), result


OWN_COUNT = """
class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0, "d_model must be a multiple of num_heads"
        self.h = num_heads
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def turned(self, x, start):
        half = x.shape[-1] // 2
        angles = torch.outer(torch.arange(start, start + x.shape[-2]), 10000.0 ** (-torch.arange(half) / half))
        a, b, c, s = x[..., :half], x[..., half:], angles.cos(), angles.sin()
        return torch.cat((a * c - b * s, a * s + b * c), -1)

    def forward(self, x, past_kv=None, use_cache=False, start_pos=0):
        q, k, v = (y.unflatten(-1, (self.h, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        kept = 0 if past_kv is None else past_kv[0].shape[-2]
        q, k = self.turned(q, start_pos + kept), self.turned(k, start_pos + kept)
        new = (k, v)
        if past_kv is not None:
            k, v = torch.cat((past_kv[0], k), -2), torch.cat((past_kv[1], v), -2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=past_kv is None)
        return self.out(y.transpose(1, 2).flatten(2)), RETURNED if use_cache else None
"""
ALL, NEW, TWICE = "(k, v)", "new", "(new[0], new[0])"


@pytest.mark.parametrize("returned, ids", [(ALL, []), (NEW, []), (TWICE, ["K1"])])
def test_a_cache_may_count_its_tokens_and_be_kept_by_whoever_calls(returned, ids, tmp_path):
    result = check_text(OWN_COUNT.replace("RETURNED", returned), tmp_path)["CausalSelfAttention"]
    assert result.ids == ids
    assert any("whoever calls it" in note for note in result.notes) == (returned == NEW)


CHUNKS = """
class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0, "d_model must be a multiple of num_heads"
        self.heads = num_heads
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, x, past=None):
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        if past is not None:
            k, v = torch.cat((past[0], k), -2), torch.cat((past[1], v), -2)
        T, S = q.shape[-2], k.shape[-2]
        y = F.scaled_dot_product_attention(q, k, v, HIDDEN)
        return self.out(y.transpose(1, 2).flatten(2)), (k, v)
"""


@pytest.mark.parametrize("hidden, found", [
    ("torch.ones(T, S, device=x.device).tril(S - T).bool()", []), ("is_causal=T == S", [("K1", "note")]),
    ("is_causal=past is None", [("K1", "note")]), ("is_causal=True", [("K1", "mistake")]),
    ("torch.ones(T, S, device=x.device).tril().bool() if T > 1 else None", [("K1", "note")]),
])  # fmt: skip
def test_several_tokens_behind_others_see_no_later_ones(hidden, found, tmp_path):
    """One by one there is no later one to be hidden."""
    result = check_text(CHUNKS.replace("HIDDEN", hidden), tmp_path)["CausalSelfAttention"]
    assert [(mistake.id, mistake.severity) for mistake in result.mistakes] == found, result
    assert all("S - T" in mistake.fix for mistake in result.mistakes if mistake.severity == "note")


SWITCHED = """
class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads, use_cache: bool):
        super().__init__()
        assert d_model % num_heads == 0, "d_model must be a multiple of num_heads"
        self.h, self.use_cache, self.pos_base = num_heads, use_cache, 0
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.k_cache = self.v_cache = None

    def turned(self, x, start):
        half = x.shape[-1] // 2
        angles = torch.outer(torch.arange(start, start + x.shape[-2]), 10000.0 ** (-torch.arange(half) / half))
        a, b, c, s = x[..., :half], x[..., half:], angles.cos(), angles.sin()
        return torch.cat((a * c - b * s, a * s + b * c), -1)

    def forward(self, x, pos_offset: int = 0):
        q, k, v = (y.unflatten(-1, (self.h, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        start = self.pos_base if self.use_cache else pos_offset
        q, k = self.turned(q, start), self.turned(k, start)
        if self.use_cache:
            if self.k_cache is not None:
                k, v = torch.cat((self.k_cache, k), -2), torch.cat((self.v_cache, v), -2)
            self.k_cache, self.v_cache = k, KEPT
            self.pos_base += x.shape[1]
        mask = torch.ones(q.shape[-2], k.shape[-2]).tril(k.shape[-2] - q.shape[-2]).bool()
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(y.transpose(1, 2).flatten(2))
"""


@pytest.mark.parametrize("kept, ids", [("v", []), ("k", ["K1"])])
def test_a_cache_that_the_constructor_switches_on_is_judged_in_use(kept, ids, tmp_path):
    """What it counts from, pos_base = 0, is no base of rotary positions."""
    result = check_text(SWITCHED.replace("KEPT", kept), tmp_path)["CausalSelfAttention"]
    assert (result.kind, result.ids) == ("CausalRotaryAttention", ids)
    assert ids or any("token by token" in note for note in result.notes)


ONE_TOKEN = """
class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads, max_len=40):
        super().__init__()
        assert d_model % num_heads == 0, "d_model must be a multiple of num_heads"
        self.h = num_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))
        self.cache_k = torch.zeros(8, max_len, num_heads, d_model // num_heads)
        self.cache_v = torch.zeros(8, max_len, num_heads, d_model // num_heads)

    def forward(self, x, start_pos: int):
        B, L, _ = x.shape
        assert L == 1, "one token at a time"
        q, k, v = (w(x).view(B, L, self.h, -1) for w in (self.wq, self.wk, self.wv))
        self.cache_k[ROWSstart_pos : start_pos + L] = k
        self.cache_v[ROWSstart_pos : start_pos + L] = v
        k, v = (kept[:B, : start_pos + L].transpose(1, 2) for kept in (self.cache_k, self.cache_v))
        scores = q.transpose(1, 2) @ k.mT / math.sqrt(k.shape[-1])
        return self.wo((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""


def test_what_is_given_one_token_at_a_time_gives_gradients_to_its_own_weights(tmp_path):
    result = check_text(ONE_TOKEN.replace("ROWS", ":B, "), tmp_path)["CausalSelfAttention"]
    assert result.severe == []


@pytest.mark.parametrize("rows, at, along", [("", 0, 1), (":B, :, ", 2, 1)])
def test_a_cache_that_is_written_along_another_axis_stops_there(rows, at, along, tmp_path):
    result = check_text(ONE_TOKEN.replace("ROWS", rows), tmp_path)["CausalSelfAttention"]
    (found,) = result.mistakes
    assert (result.verdict, found.id) == ("mistake", "B26"), result
    assert f"cuts dimension {at}" in found.evidence and f"dimension {along} is cut" in found.evidence, found.evidence
    assert "self.cache_k[" in found.evidence.partition("It stops at: ")[2]


@pytest.mark.parametrize(
    "text, axis, right", [(MODEL, -2, 2), (OWN_COUNT.replace("RETURNED", "(k, v)"), -2, 2), (SWITCHED, -2, 2)]
)
@pytest.mark.parametrize("wrong", [0, 1, -1])
def test_of_a_cache_that_is_joined_along_another_axis_it_is_said_which(text, axis, right, wrong, tmp_path):
    text = text.replace("RETURNED", HEADLESS).replace("KEPT", "v").replace(f"k), {axis})", f"k), {wrong})")
    result = check_text(text.replace(f"v), {axis})", f"v), {wrong})"), tmp_path)["CausalSelfAttention"]
    (found,) = [found for found in result.mistakes if found.severity == "mistake"]
    assert found.id == "K1" and f"along dimension {wrong}, and the tokens are along {right}" in found.evidence
    assert "torch.cat" in found.evidence.partition("It does so at: ")[2]


HELD = """
class KVCache:
    def __init__(self, n_layer):
        self.k, self.v, self.seen = [None] * n_layer, [None] * n_layer, 0

    def __len__(self):
        return 0 if self.k[-1] is None else self.k[-1].size(2)

    def update(self, layer, k, v):
        if self.k[layer] is not None:
            k, v = torch.cat([self.k[layer], k], 2), torch.cat([self.v[layer], v], 2)
        self.k[layer], self.v[layer] = k, v
        return k, v


class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads, layer=0):
        super().__init__()
        assert d_model % num_heads == 0, "d_model must be a multiple of num_heads"
        self.h, self.layer = num_heads, layer
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, x, cacheANNOTATED=None):
        q, k, v = (y.unflatten(-1, (self.h, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        if cache is not None:
            KEPT
        mask = torch.ones(x.shape[1], k.shape[-2]).tril(k.shape[-2] - x.shape[1]).bool()
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, layer=0):
        super().__init__()
        self.attention = CausalSelfAttention(d_model, num_heads, layer)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))

    def forward(self, x, cacheANNOTATED=None):
        x = x + self.attention(self.norm1(x), cache)
        return x + self.ffn(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers, max_len):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList([Block(d_model, num_heads, d_ff, i) for i in range(num_layers)])
        self.norm, self.head = nn.LayerNorm(d_model), nn.Linear(d_model, vocab_size)

    def forward(self, ids, cacheANNOTATED=None):
        start = 0 if cache is None else STARTS
        x = self.embedding(ids) + self.positions(torch.arange(start, start + ids.shape[1]))
        for i, block in enumerate(self.blocks):
            x = block(x, PASSED)
        return self.head(self.norm(x))
"""
OBJECT = {
    "ANNOTATED": ": KVCache | None",
    "KEPT": "k, v = cache.update(self.layer, k, v)",
    "STARTS": "len(cache)",
    "PASSED": "cache",
}
EACH = {
    "ANNOTATED": "",
    "KEPT": "k, v = cache.update(0, k, v)",
    "STARTS": "len(cache[0])",
    "PASSED": "cache[i] if cache else None",
}
FILLS = """if self.layer in cache:
                k, v = torch.cat([cache[self.layer][0], k], 2), torch.cat([cache[self.layer][1], v], 2)
            cache[self.layer] = (k, v)"""
DICTIONARY = {
    "ANNOTATED": ": dict | None",
    "KEPT": FILLS,
    "STARTS": "cache[0][0].shape[2] if cache else 0",
    "PASSED": "cache",
}


@pytest.mark.parametrize(
    "how, changed, ids",
    [
        (OBJECT, {}, []),
        (OBJECT, {"STARTS": "cache.seen"}, []),  # whoever calls it counts
        (OBJECT, {"STARTS": "max(len(cache) - 1, 0)"}, ["P7"]),
        (OBJECT, {"KEPT": "k, v = cache.update(0, k, v)"}, ["K1"]),
        (EACH, {}, []),
        (EACH, {"STARTS": "0"}, ["P7"]),
        (DICTIONARY, {}, []),
        (DICTIONARY, {"STARTS": "0"}, ["P7"]),
    ],
)
def test_caches_that_are_objects(how, changed, ids, tmp_path):
    text = HELD
    for name, value in (how | changed).items():
        text = text.replace(name, value)
    result = check_text(text, tmp_path, {"GPT"})["GPT"]
    assert result.severe == ids, result
    assert ids or any("With its cache" in note for note in result.notes)


WHOLE = "torch.ones(q.shape[-2], k.shape[-2]).tril(k.shape[-2] - q.shape[-2])"
OF_NEW = "torch.ones(q.shape[-2], q.shape[-2]).tril().view(q.shape[-2], k.shape[-2])"


@pytest.mark.parametrize("mask, stops", [(WHOLE, []), (OF_NEW, [True])])
def test_a_cache_with_which_it_stops_is_not_passed_over(mask, stops, tmp_path):
    result = check_text(SWITCHED.replace("KEPT", "v").replace(WHOLE, mask), tmp_path)["CausalSelfAttention"]
    assert [found for found in result.mistakes if found.severity == "mistake"] == []
    told = [limit for limit in result.limits if "Its cache was not checked" in limit]
    assert ["It stops at: mask =" in limit for limit in told] == stops, result


APART = """
class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h, self.qkv, self.out = num_heads, nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, x, k_cache=None, v_cache=None):
        q, k, v = (y.unflatten(-1, (self.h, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        if k_cache is not None:
            k, v = torch.cat((k_cache, k), 2), torch.cat((v_cache, v), 2)
        S, T = k.shape[2], q.shape[2]
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = scores.masked_fill(torch.ones(T, S).triu(1 + S - T).bool(), float("-inf")).softmax(-1)
        y = self.out((weights @ v).transpose(1, 2).flatten(2))
        return y, k, v
"""
AS_DICTIONARY = 'return {"output": y, "past_key_value": (k, v)}'
TOGETHER = {"k_cache=None, v_cache=None": "past_key_value=None", "k_cache is": "past_key_value is",
            "k_cache,": "past_key_value[0],", "v_cache,": "past_key_value[1],",
            "return y, k, v": AS_DICTIONARY}  # fmt: skip


@pytest.mark.parametrize("changed, ids", [
    ({}, []), ({"return y, k, v": "return y, v, k"}, ["K1"]), (TOGETHER, []), ({**TOGETHER, "1 + S - T": "1"}, ["K1"]),
])  # fmt: skip
def test_keys_and_values_may_be_kept_apart_and_returned_in_a_dictionary(changed, ids, tmp_path):
    text = APART
    for old, new in changed.items():
        text = text.replace(old, new)
    result = check_text(text, tmp_path)["CausalSelfAttention"]
    assert [id for id in result.ids if id != "A19"] == ids and not any("cache" in one for one in result.limits), result


DICTIONARIES = """
class Attention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0, "d_model must be a multiple of num_heads"
        self.h = num_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))

    def forward(self, x, cos, sin, held=None):
        q, k, v = (w(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        begin = held["k"].size(2) if held else 0
        q, k = turned(q, cos, sin, BEGIN), turned(k, cos, sin, BEGIN)
        if held is not None:
            if "k" in held:
                k, v = torch.cat([held["k"], k], 2), torch.cat([held["v"], v], 2)
            held["k"], held["v"] = k, v
        hidden = torch.ones(q.size(2), k.size(2), dtype=torch.bool).triu(1 + k.size(2) - q.size(2))
        scores = (q @ k.mT / math.sqrt(q.size(-1))).masked_fill(hidden, float("-inf"))
        return self.wo((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


def turned(x, cos, sin, begin):
    length = x.size(2)
    first, second = x.chunk(2, -1)
    turned_by_half = torch.cat((-second, first), -1)
    return x * ROWS_OF_COS + turned_by_half * sin[begin : begin + length]


class Network(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.gate, self.up = nn.Linear(d_model, d_ff, bias=False), nn.Linear(d_model, d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(d_model, 1e-6), nn.RMSNorm(d_model, 1e-6)
        self.attention, self.network = Attention(d_model, num_heads), Network(d_model, d_ff)

    def forward(self, x, cos, sin, held=None):
        x = x + self.attention(self.norm1(x), cos, sin, held)
        return x + self.network(self.norm2(x))


class LlamaModel(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers, max_len):
        super().__init__()
        self.embedding, self.norm = nn.Embedding(vocab_size, d_model), nn.RMSNorm(d_model, 1e-6)
        self.blocks = nn.ModuleList([Block(d_model, num_heads, d_ff) for _ in range(num_layers)])
        self.head = nn.Linear(d_model, vocab_size, bias=False)
        rates = 10000.0 ** (-torch.arange(0, d_model // num_heads, 2).float() / (d_model // num_heads))
        angles = torch.outer(torch.arange(max_len).float(), rates).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, ids, kv_cachesANNOTATED=None):
        x = self.embedding(ids)
        for i, block in enumerate(self.blocks):
            x = block(x, self.cos, self.sin, None if kv_caches is None else kv_caches[i])
        return self.head(self.norm(x))
"""
FROM_BEGIN = "cos[begin : begin + length]"


@pytest.mark.parametrize("annotated", ["", ": list | None"])
@pytest.mark.parametrize("begin, ids", [("begin", []), ("0", ["P7"])])
def test_a_list_of_dictionaries_that_fill(annotated, begin, ids, tmp_path):
    text = DICTIONARIES.replace("ANNOTATED", annotated).replace("ROWS_OF_COS", FROM_BEGIN).replace("BEGIN", begin)
    result = check_text(text, tmp_path, {"LlamaModel"})["LlamaModel"]
    assert result.severe == ids, result
    assert ids or any("With its cache" in note for note in result.notes)


def test_the_first_rows_of_a_table_are_shown_with_the_rows_that_are_meant(tmp_path):
    text = DICTIONARIES.replace("ANNOTATED", "").replace("ROWS_OF_COS", "cos[:length]").replace("BEGIN", "begin")
    text = text.replace("sin[begin : begin + length]", "sin[:length]")
    result = check_text(text, tmp_path, {"LlamaModel"})["LlamaModel"]
    (found,) = (one for one in result.mistakes if one.id == "P7")
    assert "cos[:length]" in found.shown
    assert found.fix == "cos[offset : offset + length], offset being the number of tokens already seen."


ASKED_FOR = MODEL.replace("def forward(self, ids, past=None)", "def forward(self, ids, kv_caches)")
ASKED_FOR = ASKED_FOR.replace("self(ids)[0]", "self(ids, [None] * len(self.blocks))[0]").replace(
    "None if past is None else past[index]", "kv_caches[index]"
)
ASKED_FOR = ASKED_FOR.replace("0 if past is None else past[0][0]", "0 if kv_caches[0] is None else kv_caches[0][0]")


@pytest.mark.parametrize("returned", [HEADLESS, f"self.head({HEADLESS})"])
@pytest.mark.parametrize("start, ids", [("kv_caches[0][0].shape[-2]", []), ("0", ["P7"])])
def test_the_caches_of_all_layers_that_must_be_given_are_no_encoders_output(returned, start, ids, tmp_path):
    text = ASKED_FOR.replace("RETURNED", returned).replace("else kv_caches[0][0].shape[-2]", f"else {start}")
    with time_to_look(1):
        result = check_text(text, tmp_path, ["GPT"])["GPT"]
    assert result.severe == ids, result


def test_a_list_of_caches_has_a_place_for_each_layer_and_none_for_each_sentence(tmp_path):
    """Where the layers listen to none, that is what is wrong."""
    text = ASKED_FOR.replace("RETURNED", HEADLESS).replace(
        "self.attention(self.norm1(x), past)", "self.attention(self.norm1(x))"
    )
    with time_to_look(1):
        result = check_text(
            text.replace("0 if kv_caches[0] is None else kv_caches[0][0].shape[-2]", "0"), tmp_path, ["GPT"]
        )
    assert result["GPT"].severe == ["K1"], result["GPT"]


SIDE_BY_SIDE = """
from dataclasses import dataclass


class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0, "d_model must be a multiple of num_heads"
        self.h = num_heads
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q, k, v = (y.unflatten(-1, (self.h, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        if cache is not None:
            k, v = torch.cat((cache[0], k), dim=2), torch.cat((cache[1], v), dim=2)
        mask = torch.ones(x.shape[1], k.shape[2], device=x.device).tril(HIDDEN).bool()
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(y.transpose(1, 2).flatten(2)), k, v


@dataclass
class Kept:
    x: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor


class Block(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = CausalSelfAttention(d_model, num_heads)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))

    def forward(self, x, cache=None):
        y, k, v = self.attention(self.norm1(x), cache)
        x = x + y
        return Kept(x + self.ffn(self.norm2(x)), k, v)


class GPT(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers, max_len):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList([Block(d_model, num_heads, d_ff) for _ in range(num_layers)])
        self.norm, self.head = nn.LayerNorm(d_model), nn.Linear(d_model, vocab_size)
"""
FILLED_IN = """
    def forward(self, tokens, cache: list | None = None, pos_in_sequence: int = 0):
        places = torch.arange(START, START + tokens.shape[1], device=tokens.device)
        x = self.embedding(tokens) + self.positions(places)
        for i, block in enumerate(self.blocks):
            out = block(x, cache[i] if isinstance(cache, list) else None)
            x = out.x
            if isinstance(cache, list):
                cache[i] = [out.k, out.v]
        return self.head(self.norm(x)), pos_in_sequence + tokens.shape[1]
"""
IN_AN_OBJECT = """
    def forward(self, tokens, kv_caches: list[tuple[torch.Tensor, torch.Tensor]] | None = None):
        offset = kv_caches[0][0].shape[-2] if kv_caches else 0
        x, kept = self.embedding(tokens) + self.positions(torch.arange(START, START + tokens.shape[1])), []
        for i, block in enumerate(self.blocks):
            out = block(x, kv_caches[i] if kv_caches else None)
            x = out.x
            kept.append((out.k, out.v))
        return Output(self.head(self.norm(x)), kept)


@dataclass
class Output:
    logits: torch.Tensor
    kv_caches: list[tuple[torch.Tensor, torch.Tensor]]
"""


@pytest.mark.parametrize("name", ["CausalSelfAttention", "Block"])
@pytest.mark.parametrize("hidden, ids", [("k.shape[2] - x.shape[1]", []), ("0", ["K1"])])
def test_keys_and_values_that_come_side_by_side_are_passed_on_together(name, hidden, ids, tmp_path):
    result = check_text(SIDE_BY_SIDE.replace("HIDDEN", hidden), tmp_path, ["CausalSelfAttention", "Block"])[name]
    assert [*result.severe, *result.inherited] == ids, result
    assert ids or any("token by token" in note for note in result.notes), result


@pytest.mark.parametrize("forward, place", [(FILLED_IN, "pos_in_sequence"), (IN_AN_OBJECT, "offset")])
@pytest.mark.parametrize("start, ids", [("", []), ("0", ["P7"])])
def test_the_caches_of_all_layers_are_a_list_that_is_filled_or_come_in_an_object(forward, place, start, ids, tmp_path):
    text = SIDE_BY_SIDE.replace("HIDDEN", "k.shape[2] - x.shape[1]") + forward.replace("START", start or place)
    result = check_text(text, tmp_path, ["GPT"])["GPT"]
    assert [id for id in result.severe if id != "B32"] == ids, result
    assert ids or any("token by token" in note for note in result.notes), result
