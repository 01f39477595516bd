"""A cache is known by what is done with it: under a flag of any name, what comes is joined with what was kept."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

BLOCK = """
class CausalAttention(nn.Module):
    def __init__(self, dim, heads, longest=64, stepping=False):
        super().__init__()
        assert dim % heads == 0, "dim must be a multiple of heads"
        self.h, self.stepping = heads, stepping
        self.qkv, self.out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)
        rates = 10000.0 ** (-torch.arange(0, dim // heads, 2).float() / (dim // heads))
        angles = torch.outer(torch.arange(longest).float(), rates)
        self.register_buffer("cos", torch.cat((angles, angles), -1).cos(), persistent=False)
        self.register_buffer("sin", torch.cat((angles, angles), -1).sin(), persistent=False)
        self.keys = self.values = None

    def turned(self, x, start):
        a, b = x.chunk(2, -1)
        rows = slice(start, start + x.shape[-2])
        return x * self.cos[rows] + torch.cat((-b, a), -1) * self.sin[rows]

    def forward(self, x, stepping=False):
        q, k, v = (y.unflatten(-1, (self.h, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        start = START
        q, k = self.turned(q, start), self.turned(k, start)
        if FLAG:
            if self.keys is not None:
                k, v = torch.cat((self.keys, k), -2), torch.cat((self.values, v), -2)
            self.keys, self.values = k, v
        mask = torch.ones(x.shape[1], k.shape[-2], dtype=torch.bool).tril(k.shape[-2] - x.shape[1])
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attention = CausalAttention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim))

    def forward(self, x, stepping=False):
        x = x + self.attention(self.norm1(x), stepping)
        return x + self.mlp(self.norm2(x))
"""
KEPT = "self.keys.shape[2] if FLAG and self.keys is not None else 0"


@pytest.mark.parametrize("flag", ["stepping", "self.stepping"])
@pytest.mark.parametrize("start, ids", [("0", ["P7"]), (KEPT, [])])
def test_positions_of_what_is_kept_under_any_flag(flag, start, ids, tmp_path):
    results = check_text(BLOCK.replace("START", start).replace("FLAG", flag), tmp_path)
    attention, block = results["CausalAttention"], results["Block"]
    assert attention.severe == ids, attention
    assert block.severe == [] and bool(block.inherited) == bool(ids), block


def test_what_is_only_collected_is_no_cache(tmp_path):
    kept = (
        "                self.keys = torch.cat((self.keys, k), -2)\n            else:\n                self.keys = k\n"
    )
    begin, end = BLOCK.index("                k, v = torch"), BLOCK.index("        mask = torch")
    text = (BLOCK[:begin] + kept + BLOCK[end:]).replace("START", "0").replace("FLAG", "stepping")
    assert check_text(text, tmp_path)["CausalAttention"].severe == []
