"""Attention with a cache that turns by the rows of a table behind the past: it is judged with the whole table."""

import pytest

from reference_tests.kit.learners.checked import check_text, time_to_look

pytestmark = pytest.mark.long

ATTENTION = """
class KVCache:
    def __init__(self, n_layers):
        self.k, self.v = [None] * n_layers, [None] * n_layers

    def get(self, layer):
        return self.k[layer], self.v[layer]

    def append(self, layer, k, v):
        past = self.k[layer] is not None
        self.k[layer] = torch.cat([self.k[layer], k], dim=-2) if past else k
        self.v[layer] = torch.cat([self.v[layer], v], dim=-2) if past else v


def turned(x, cos, sin, offset=0):
    cos, sin = (one[:, :, offset : offset + x.shape[2]] for one in (cos, sin))
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head):
        super().__init__()
        assert n_embd % n_head == 0
        self.n_head = n_head
        self.q, self.k = nn.Linear(n_embd, n_embd), nn.Linear(n_embd, n_embd)
        self.v, self.proj = nn.Linear(n_embd, n_embd), nn.Linear(n_embd, n_embd)

    def forward(self, x, cos_sin, kv_cache: KVCache | None = None, layer=0):
        q, k, v = (y.unflatten(-1, (self.n_head, -1)).transpose(1, 2) for y in (self.q(x), self.k(x), self.v(x)))
        cos, sin = cos_sin
        past = kv_cache.get(layer)[0] if kv_cache is not None else None
        past_len = PAST if past is not None else 0
        q, k = turned(q, cos, sin, offset=past_len), turned(k, cos, sin, offset=past_len)
        if kv_cache is not None:
            kv_cache.append(layer, k, v)
            k, v = kv_cache.get(layer)
        hidden = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=x.device).triu(1 + k.shape[2] - q.shape[2])
        scores = (q @ k.mT / k.shape[-1] ** 0.5).masked_fill(hidden, float("-inf"))
        return self.proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""


@pytest.mark.parametrize("past, ids", [("past.shape[-2]", []), ("past.shape[-2] - 1", ["P7"])])
def test_the_cache_is_judged(past, ids, tmp_path):
    with time_to_look(1):
        result = check_text(ATTENTION.replace("PAST", past), tmp_path)["CausalSelfAttention"]
    assert (result.severe, result.unexplained, result.limits) == (ids, False, [])
