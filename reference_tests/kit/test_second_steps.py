"""A cache that keeps what has gradients: the second step of training goes back through the first one's graph."""

import pytest

from reference_tests.kit.learners.checked import IMPORTS, check_text

pytestmark = pytest.mark.long

CACHED = """
class CachedAttention(nn.Module):
    def __init__(self, d_model, num_heads, max_len=64, max_batch=8):
        super().__init__()
        assert d_model % num_heads == 0
        self.h, self.d_k = num_heads, d_model // num_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))
        self.register_buffer("cache_k", torch.zeros(max_batch, max_len, num_heads, self.d_k))
        self.register_buffer("cache_v", torch.zeros(max_batch, max_len, num_heads, self.d_k))

    def forward(self, x, start_pos=0):
        B, T, D = x.shape
        q, k, v = (w(x).view(B, T, self.h, self.d_k) for w in (self.w_q, self.w_k, self.w_v))
        end = start_pos + T
        KEEPS
        q, keys, values = (y.transpose(1, 2) for y in (q, keys, values))
        scores = q @ keys.transpose(-2, -1) / math.sqrt(self.d_k)
        hidden = torch.triu(torch.ones(T, end, dtype=torch.bool, device=x.device), start_pos + 1)
        weights = torch.softmax(scores.masked_fill(hidden, float("-inf")), -1)
        return self.w_o((weights @ values).transpose(1, 2).reshape(B, T, D))
"""
TRAINS = """

def train(model, batches, optimizer):
    for x, y in batches:
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
WRITES = """self.cache_k[:B, start_pos:end] = k
        self.cache_v[:B, start_pos:end] = v
        keys, values = self.cache_k[:B, :end], self.cache_v[:B, :end]"""
DETACHED = """self.cache_k[:B, start_pos:end] = k.detach()
        self.cache_v[:B, start_pos:end] = v.detach()
        keys = torch.cat((self.cache_k[:B, :start_pos], k), 1)
        values = torch.cat((self.cache_v[:B, :start_pos], v), 1)"""
NOT_IN_TRAINING = "keys, values = k, v\n        if not self.training:\n            " + WRITES.replace(
    "        ", "            "
)


LOG_PROBS = """
@torch.inference_mode()
def log_probs(model, ids):
    logits = model(ids)
    return -F.cross_entropy(input=logits.transpose(1, 2), target=ids, reduction="none")
"""


@pytest.mark.parametrize(("keeps", "after", "severity"), [
    (WRITES, TRAINS, "mistake"), (WRITES, "", "note"), (WRITES, LOG_PROBS, "note"),
    (DETACHED, TRAINS, ""), (NOT_IN_TRAINING, TRAINS, ""),
])  # fmt: skip
def test_a_cache_that_keeps_graphs_is_named_where_something_trains(keeps, after, severity, tmp_path):
    text = CACHED.replace("KEEPS", keeps) + after
    result = check_text(text, tmp_path)["CachedAttention"]
    found = [one for one in result.mistakes if one.id == "B27"]
    assert [one.severity for one in found] == [severity] * bool(severity), result
    assert ("B27" in result.ids) == (severity == "mistake") == (result.verdict == "mistake")
    for one in found:
        assert "the second stops" in one.evidence and "self.cache_k" in one.evidence and "detach" in one.fix
        line = (IMPORTS + text).splitlines()[one.line - 1].strip()
        assert line == "self.cache_k[:B, start_pos:end] = k"


def test_pytorch_stops_there_as_well(tmp_path):
    space = {}
    exec(IMPORTS + CACHED.replace("KEEPS", WRITES), space)
    model, x = space["CachedAttention"](12, 3), space["torch"].randn(2, 5, 12)
    model(x).sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        model(x).sum().backward()
