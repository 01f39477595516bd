"""Rotary positions in bfloat16: angles must not be rounded before their sines and cosines are taken (P8)."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

RATES = """
class RotaryEmbedding(nn.Module):
    def __init__(self, dim, theta=10000.0):
        super().__init__()
        self.register_buffer("rates", theta ** (-torch.arange(0, dim, 2).float() / dim), persistent=False)
"""
MADE_FOR = f"""{RATES}
    def forward(self, seq_len, device, dtype):
        t = torch.arange(seq_len, device=device, dtype=torch.float32)
        angles = torch.outer(t, self.rates.float())EARLY
        both = torch.cat((angles, angles), -1)
        return both.cos()LATE, both.sin()LATE
"""
TURNS = f"""{RATES}
    def forward(self, x):
        t = torch.arange(x.shape[-2], device=x.device, dtype=COUNTED)
        angles = torch.outer(t, self.rates)
        both = torch.cat((angles, angles), -1)
        a, b = x.chunk(2, -1)
        return x * both.cos().to(x.dtype) + torch.cat((-b, a), -1) * both.sin().to(x.dtype)
"""
KEPT = """
class RotaryEmbedding(nn.Module):
    def __init__(self, dim, max_len, theta=10000.0):
        super().__init__()
        rates = theta ** (-torch.arange(0, dim, 2).float() / dim)
        self.register_buffer("angles", torch.outer(torch.arange(max_len).float(), rates), persistent=False)

    def forward(self, x, positions):
        angles = self.angles[positions]EARLY
        a, b = x[..., ::2], x[..., 1::2]
        c, s = angles.cos()LATE, angles.sin()LATE
        return torch.stack((a * c - b * s, a * s + b * c), -1).flatten(-2)
"""
STYLES = [
    (MADE_FOR, {"EARLY": ".to(dtype)", "LATE": ""}, {"EARLY": "", "LATE": ".to(dtype)"}),
    (TURNS, {"COUNTED": "x.dtype"}, {"COUNTED": "torch.float32"}),
    (KEPT, {"EARLY": ".to(x.dtype)", "LATE": ""}, {"EARLY": "", "LATE": ".to(x.dtype)"}),
]


def _with(text, entries):
    for name, put in entries.items():
        text = text.replace(name, put)
    return text


@pytest.mark.parametrize("text, wrong, right", STYLES)
def test_angles_in_the_type_of_the_input(text, wrong, right, tmp_path):
    result = check_text(_with(text, wrong), tmp_path)["RotaryEmbedding"]
    (found,) = result.mistakes
    lines = (tmp_path / "learner.py").read_text().split("\n")
    rounded = next(n for n, line in enumerate(lines, 1) if "= " in line and wrong.get("EARLY", "dtype=x.dtype") in line)
    assert (found.id, found.line, "bfloat16" in found.evidence) == ("P8", rounded, True), result


@pytest.mark.parametrize("text, wrong, right", STYLES)
def test_rounded_sines_are_right(text, wrong, right, tmp_path):
    assert check_text(_with(text, right), tmp_path)["RotaryEmbedding"].verdict == "matches the builtin"


def test_a_type_that_nobody_has_to_say_is_what_it_is_by_default(tmp_path):
    text = """
def rope_table(dim, max_len, theta=10000.0, dtype=torch.float32):
    angles = torch.outer(torch.arange(max_len, dtype=dtype), theta ** (-torch.arange(0, dim, 2, dtype=dtype) / dim))
    return angles.cos(), angles.sin()
"""
    assert check_text(text, tmp_path)["rope_table"].verdict == "matches the builtin"


BOTH = """
def add_rope_embeddings(q, k):
    b, s, d = q.shape
    angles = torch.arange(s)[:, None] / 10000 ** (torch.arange(0, d // 2) / WIDTH)
    cos, sin = (t.repeat_interleave(2, dim=-1)[None] for t in (angles.cos(), angles.sin()))

    def turned(x):
        first, second = x.reshape(b, s, d // 2, 2).unbind(-1)
        return torch.stack((-second, first), dim=-1).reshape(b, s, d)

    return q * cos + turned(q) * sin, k * cos + turned(k) * sin
"""


@pytest.mark.parametrize("width, is_right", [("(d // 2)", True), ("d // 2", False)])
def test_what_turns_queries_and_keys_that_are_in_no_heads(width, is_right, tmp_path):
    result = check_text(BOTH.replace("WIDTH", width), tmp_path)["add_rope_embeddings"]
    assert (result.verdict == "matches the builtin") == is_right and not result.problem, result


CLAMPED = """
class RotaryPositionalEmbedding(nn.Module):
    def __init__(self, theta: float, d_k: int, max_seq_len: int):
        super().__init__()
        self.last = max_seq_len - 1
        rates = theta ** (-2 * torch.arange(d_k // 2).float() / d_k)
        self.register_buffer("angles", torch.arange(max_seq_len).float()[:, None] * rates, persistent=False)

    def forward(self, x, token_positions):
        angles = self.angles[token_positions.clamp(0, self.last)]EARLY
        a, b = x[..., ::2], x[..., 1::2]
        c, s = angles.cos()LATE, angles.sin()LATE
        return torch.stack((a * c - b * s, a * s + b * c), -1).flatten(-2)
"""


@pytest.mark.parametrize("early, late, expected", [(".to(x.dtype)", "", ["P8"]), ("", ".to(x.dtype)", [])])
def test_positions_beyond_the_table_are_not_rounded_ones(early, late, expected, tmp_path):
    result = check_text(_with(CLAMPED, {"EARLY": early, "LATE": late}), tmp_path)["RotaryPositionalEmbedding"]
    assert [found.id for found in result.mistakes] == expected, result
