"""A cache that a word turns on, self.mode == "inference", in a class that is built with another one."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

ATTENTION = """
class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads, max_len, batch_size=2, mode="train"):
        super().__init__()
        assert d_model % num_heads == 0, "d_model must be a multiple of num_heads"
        assert mode in ["use", "train"]
        self.mode, self.h, self.d_k = mode, num_heads, d_model // num_heads
        self.q_proj, self.k_proj = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.v_proj, self.o_proj = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.register_buffer("cache_k", torch.zeros(batch_size, max_len, num_heads, self.d_k))
        self.register_buffer("cache_v", torch.zeros(batch_size, max_len, num_heads, self.d_k))

    def forward(self, x, start_pos=0):
        B, T, d = x.shape
        q, k, v = (f(x).view(B, T, self.h, self.d_k) for f in (self.q_proj, self.k_proj, self.v_proj))
        if self.ASKED == "use":
            self.cache_k[:B, start_pos : start_pos + T] = k
            self.cache_v[:B, start_pos : start_pos + T] = v
            k, v = self.cache_k[:B, BEGIN : start_pos + T], self.cache_v[:B, BEGIN : start_pos + T]
        hidden = torch.ones(T, k.size(1), dtype=torch.bool, device=x.device).triu(1 + k.size(1) - T)
        scores = q.transpose(1, 2) @ k.permute(0, 2, 3, 1) / self.d_k ** 0.5
        y = scores.masked_fill(hidden, -math.inf).softmax(-1) @ v.transpose(1, 2)
        return self.o_proj(y.transpose(1, 2).reshape(B, T, d))
"""
TOLD = "With its cache it gives, token by token, what one call gives."


@pytest.mark.parametrize(
    ("asked", "begin", "ids", "is_told"),
    [("mode", "0", [], True), ("mode", "start_pos", ["K1"], False)],
)
def test_a_cache_is_judged_as_it_is_used(asked, begin, ids, is_told, tmp_path):
    result = check_text(ATTENTION.replace("ASKED", asked).replace("BEGIN", begin), tmp_path)["CausalSelfAttention"]
    assert (result.severe, TOLD in result.notes) == (ids, is_told), result


def test_a_cache_that_is_not_used_gives_nothing_else(tmp_path):
    text = ATTENTION.replace("self.ASKED ==", "self.mode.upper() ==").replace("BEGIN", "0")
    result = check_text(text, tmp_path)["CausalSelfAttention"]
    assert (result.severe, TOLD in result.notes) == ([], False), result


MUST_BE_GIVEN = """
class CausalSelfAttention(nn.Module):
    def __init__(self, width, heads, dropout=0.0):
        super().__init__()
        assert width % heads == 0
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, kv_cache: Optional[torch.Tensor]):
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        if kv_cache is not None:
            before = kv_cache.unbind(0)
            k, v = torch.cat((before[0], k), 2), torch.cat((before[1], v), 2)
        scores = q @ k.mT / math.sqrt(k.shape[-1])
        hidden = torch.ones(scores.shape[-2:], device=x.device).triu(1 + k.shape[2] - q.shape[2]) == 1
        weights = self.drop(scores.masked_fill(hidden, -math.inf).softmax(-1))
        y = self.out((weights @ v).transpose(1, 2).flatten(2))
        return y, None if kv_cache is None else torch.stack((k, v))

class Block(nn.Module):
    def __init__(self, width, heads, dropout=0.0):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), CausalSelfAttention(width, heads, dropout)
        self.norm2, self.inner = nn.LayerNorm(width), nn.Linear(width, 4 * width)
        self.outer = nn.Linear(4 * width, width)
        self.drop1, self.drop2, self.drop3 = (nn.Dropout(dropout) for _ in range(3))

    def forward(self, x, kv_cache: Optional[torch.Tensor]):
        y, kv_cache = self.attention(self.norm1(x), kv_cache)
        x = x + self.drop1(y)
        return x + self.drop3(self.outer(self.drop2(self.inner(self.norm2(x)).relu()))), kv_cache
"""


@pytest.mark.parametrize(
    ("old", "new", "ids"),
    [("", "", []), ("math.sqrt(k.shape[-1])", "k.shape[-1]", ["A1"]), (": Optional[torch.Tensor]", "", [])],
)
def test_a_cache_that_must_be_given_is_none_at_first(old, new, ids, tmp_path):
    found = check_text("from typing import Optional\n" + MUST_BE_GIVEN.replace(old, new), tmp_path)
    assert found["CausalSelfAttention"].ids == ids
    assert not any(result.unexplained or result.replaced for result in found.values()), found


STORED = """
class Store(nn.Module):
    def __init__(self, max_batch, max_len, n_heads, head_dim):
        super().__init__()
        self.register_buffer("keys", torch.zeros(max_batch, n_heads, max_len, head_dim), persistent=False)
        self.register_buffer("values", torch.zeros(max_batch, n_heads, max_len, head_dim), persistent=False)

    def update(self, start, k, v):
        end = start + k.shape[2]
        self.keys[: len(k), :, start:end] = k
        self.values[: len(k), :, start:end] = v
        return self.keys[: len(k), :, :end], self.values[: len(k), :, :end]

class GroupedQueryAttention(nn.Module):
    def __init__(self, dim, n_heads, n_kv_heads):
        super().__init__()
        self.n_heads, self.n_kv_heads, self.width = n_heads, n_kv_heads, dim // n_heads
        self.wq, self.wo = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.wk, self.wv = nn.Linear(dim, n_kv_heads * self.width), nn.Linear(dim, n_kv_heads * self.width)

    def forward(self, x, mask=None, start_pos=0, kv_cache: Store = None):
        q = self.wq(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
        k, v = (w(x).unflatten(-1, (self.n_kv_heads, -1)).transpose(1, 2) for w in (self.wk, self.wv))
        if kv_cache is not None:
            k, v = kv_cache.update(start_pos, k, v)
        k, v = (y.repeat_interleave(self.n_heads // self.n_kv_heads, 1) for y in (k, v))
        scores = q @ k.mT / math.sqrt(self.width)
        scores = scores if mask is None else scores + mask
        return self.wo((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""


@pytest.mark.parametrize(("old", "new", "ids"), [("", "", []), ("start:end] = v", "start:end] = k", ["K1"])])
def test_a_store_of_shared_heads_has_as_many_as_there_are_keys(old, new, ids, tmp_path):
    result = check_text(STORED.replace(old, new), tmp_path)["GroupedQueryAttention"]
    assert result.severe == ids and not result.limits, result
