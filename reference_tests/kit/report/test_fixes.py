"""The fix on the learner's own line: what is proposed, and that the mistake is gone with it."""

import pytest

from reference_tests.kit.learners.mended import mended
from reference_tests.kit.learners.mistaken.tables import MISTAKEN
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.normalization import LARGE_EPS
from scratch_transformer.kit.report.fixes import REWRITES, fixed

PROPOSED = [
    ("LN1", "", "std = x.std(-1, keepdim=True)", "std = x.std(-1, keepdim=True, unbiased=False)"),
    ("LN1", "", "v = x.var(dim=-1, unbiased=False)", None),
    ("LN1", "", "std = x.std()", "std = x.std(unbiased=False)"),
    ("LN2", "", "return g * (x - m) / (std + self.eps) + b", "return g * (x - m) / (std**2 + self.eps) ** 0.5 + b"),
    ("LN2", "", "return g*(x-m)/(std+self.eps)+b", "return g*(x-m)/(std**2 + self.eps) ** 0.5+b"),
    ("LN2", "", "return x / (std + self.cfg.eps)", "return x / (std**2 + self.cfg.eps) ** 0.5"),
    ("LN2", "", "s = x.pow(2).mean(-1, keepdim=True).sqrt() + self.cfg.eps",
     "s = (x.pow(2).mean(-1, keepdim=True) + self.cfg.eps).sqrt()"),
    ("LN2", "", "return x / (torch.sqrt(x.var(-1, unbiased=False)) + eps)",
     "return x / (torch.sqrt(x.var(-1, unbiased=False) + eps))"),
    ("LN2", "", "s = a / b.sqrt() + eps", None),
    ("LN3", "1e-06", "def __init__(self, d, eps=1e-6):", "def __init__(self, d, eps=1e-5):"),
    ("LN3", LARGE_EPS, "def __init__(self, d, eps: float = 0.1):", "def __init__(self, d, eps: float = 1e-5):"),
    ("LN3", "1e-12", "def __init__(self, d, eps=0.00001):", None),
    ("A1", "not scaled", "s = q @ k.transpose(-2, -1)", "s = q @ k.transpose(-2, -1) / q.size(-1) ** 0.5"),
    ("A1", "not scaled", "y = w @ v", None),
    ("A1", "divided by √d_model", "s = torch.matmul(Q, K.transpose(-2, -1)) / math.sqrt(self.d_model)  # (B, h, T, S)",
     "s = torch.matmul(Q, K.transpose(-2, -1)) / Q.size(-1) ** 0.5  # (B, h, T, S)"),
    ("A1", "multiplied by √d_k", "s = q @ k.mT * d_k**0.5", "s = q @ k.mT / q.size(-1) ** 0.5"),
    ("A1", "multiplied by √d_k", "s = q @ k.mT / (width ** -0.5)", "s = q @ k.mT / q.size(-1) ** 0.5"),
    ("A1", "not scaled", "logits = q @ k.mT + causal_mask", "logits = q @ k.mT / q.size(-1) ** 0.5 + causal_mask"),
    ("A2", "over the queries", "w = F.softmax(s, dim=1)", "w = F.softmax(s, dim=-1)"),
    ("A4", "", "s = scores * mask", 's = scores.masked_fill(mask == 0, float("-inf"))'),
    ("A4", "filled with +inf", 's.masked_fill(mask == 0, float("inf"))', 's.masked_fill(mask == 0, float("-inf"))'),
    ("A4", "filled with 1e-9", "s = s.masked_fill(mask == 0, -1e-9)", 's = s.masked_fill(mask == 0, float("-inf"))'),
    ("A8", "", "s = s.masked_fill(mask == 0, -1e9)", 's = s.masked_fill(mask == 0, float("-inf"))'),
    ("A10", "-10000", "s = s.masked_fill(m, -10000.0)", 's = s.masked_fill(m, float("-inf"))'),
    ("A10", "-10000", "fill = -1e9 if s.dtype == torch.float32 else -1e4",
     'fill = float("-inf")'),
    ("A10", "-10000", "s = s + (1.0 - m) * -10000.0", None),
    ("A8", "", "s = s - 1e9 * m", None),
    ("A14", "left out", "self.q = nn.Linear(d, d, bias=False)", "self.q = nn.Linear(d, d)"),
    ("A14", "left out", "return f'{self.wide=}, bias=False'", None),
    ("A16", "1 = blocked is added", "a = a + self.mask[:T, :T]",
     'a = a.masked_fill(self.mask[:T, :T] != 0, float("-inf"))'),
    ("A19", "", "self.d_k = self.d // self.h",
     "assert self.d % self.h == 0, f'{self.h=} must divide {self.d=}'\nself.d_k = self.d // self.h"),
    ("A24", "", "scores.masked_fill(mask == 0, -1e9)", "scores = scores.masked_fill(mask == 0, -1e9)"),
    ("A24", "", "scores = scores.masked_fill(mask == 0, -1e9)", None),
    ("A24", "", "scores.masked_fill(mask == 0, -1e-9)", 'scores = scores.masked_fill(mask == 0, float("-inf"))'),
    ("A30", "self.mask", "self.mask = torch.tril(torch.ones(n, n))",
     'self.register_buffer("mask", torch.tril(torch.ones(n, n)), persistent=False)'),
    ("A30", "self.mask", "self.drop = nn.Dropout(0.1)", None),
    ("P5", "self.pe", "self.pe = pe", 'self.register_buffer("pe", pe)'),
    ("B9", "", "self.layers = nn.ModuleList([layer] * n)",
     "self.layers = nn.ModuleList([copy.deepcopy(layer) for _ in range(n)])"),
    ("B10", "", "self.layers = [Layer(d) for _ in range(n)]",
     "self.layers = nn.ModuleList([Layer(d) for _ in range(n)])"),
    ("B12", "", "x = F.dropout(x, 0.1)", "x = F.dropout(x, 0.1, training=self.training)"),
    ("B12", "", "x = F.dropout(x, 0.1, training=self.training)", None),
    ("B13", "norm(f(x))", "return self.norm(f(x))", None),
]  # fmt: skip
MENDED = [m for m in MISTAKEN if m.ids in ("LN1", "P5") and not m.file_name.endswith(".ipynb")]


@pytest.mark.parametrize("id, form, line, wanted", PROPOSED)
def test_what_is_proposed(id, form, line, wanted):
    found = fixed(id, form, ["x = 1", f"        {line}"])
    if wanted is None:
        assert found is None
    else:
        assert found == (1, [f"        {part}" for part in wanted.split("\n")])


def test_comments_and_messages_are_left_alone():
    lines = ["def forward(self, mask):", '    "Fills with -1e9."', "    # -1e9", '    assert x, "-1e9"', "    x = -1e9"]
    assert fixed("A8", "", lines)[0] == 4


def test_every_rewrite_is_of_the_catalogue():
    assert REWRITES.keys() <= MISTAKES.keys()


@pytest.mark.parametrize("mistaken", MENDED, ids=lambda mistaken: mistaken.name)
def test_with_the_fix_the_mistake_is_gone(mistaken, tmp_path):
    result = mended(mistaken.write(tmp_path), mistaken.component, mistaken.ids)
    assert result is not None
    assert mistaken.ids not in [*result.ids, *result.inherited]
    assert result.verdict in ("matches the builtin", "harmless deviation")
