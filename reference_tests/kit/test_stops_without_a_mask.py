"""A mask that is None by default, with which something stops: a mistake where any call may leave it out."""

import pytest

from reference_tests.kit.learners.checked import check_text

CORE = """
def scaled_dot_product_attention(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    {}
    return scores.softmax(-1) @ v
"""
STOPS = 'scores = torch.where(mask, scores, float("-inf"))'
GUARDED = f"scores = scores if mask is None else {STOPS.partition('= ')[2]}"
REFUSES = f"""if mask is None:
        raise TypeError("a mask is required")
    {STOPS}"""
ASSERTS = f"""assert mask is not None, "a mask is required"
    {STOPS}"""

HEADS = """

class Attention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0
        self.heads, self.d_k = num_heads, d_model // num_heads
        self.q, self.k = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.v, self.out = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def split(self, x):
        return x.view(x.size(0), -1, self.heads, self.d_k).transpose(1, 2)

    def forward(self, x, mask{}):
        {}
        y = scaled_dot_product_attention(self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x)), {})
        return self.out(y.transpose(1, 2).flatten(2))
"""
LAYER = """

class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = Attention(d_model, num_heads)
        self.wide, self.narrow = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.first, self.second = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        {}
        x = self.first(x + self.attention(x, mask))
        return self.second(x + self.narrow(torch.relu(self.wide(x))))
"""
MADE = "mask = torch.ones(x.size(1), x.size(1), dtype=torch.bool).tril()"
NOTHING = "B = x.size(0)"


@pytest.mark.parametrize(
    "line, verdict, severities",
    [
        (STOPS, "mistake", ["mistake"]),
        (GUARDED, "matches the builtin", []),
        (REFUSES, "matches the builtin", []),
        (ASSERTS, "matches the builtin", []),
    ],
)
def test_of_what_nobody_calls(line, verdict, severities, tmp_path):
    result = check_text(CORE.format(line), tmp_path)["scaled_dot_product_attention"]
    found = [named for named in result.mistakes if named.id == "B26"]
    assert (result.verdict, [named.severity for named in found]) == (verdict, severities)
    for named in found:
        assert "mask is None by default" in named.evidence
        assert named.shown.strip() == STOPS
        assert "if mask is not None" in named.fix


@pytest.mark.parametrize(
    "default, before, given, severity",
    [
        ("=None", NOTHING, "mask", "mistake"),
        ("=None", NOTHING, "mask=mask", "mistake"),
        ("", NOTHING, "None", "mistake"),
        ("", NOTHING, "mask", "note"),
        ("=None", MADE, "mask", "note"),
        ("=None", f"if mask is None:\n            {MADE}", "mask", "note"),
        ("=None", "if mask is not None:\n            mask = mask.bool()", "mask", "mistake"),
    ],
)
def test_of_what_its_file_calls(default, before, given, severity, tmp_path):
    text = CORE.format(STOPS) + HEADS.format(default, before, given)
    result = check_text(text, tmp_path)["scaled_dot_product_attention"]
    assert [named.severity for named in result.mistakes if named.id == "B26"] == [severity]


@pytest.mark.parametrize("before, severity", [(NOTHING, "mistake"), (MADE, "note")])
def test_a_caller_s_default_counts_as_far_as_its_own_callers_leave_it_out(before, severity, tmp_path):
    text = CORE.format(STOPS) + HEADS.format("=None", NOTHING, "mask") + LAYER.format(before)
    results = check_text(text, tmp_path)
    assert [named.severity for named in results["scaled_dot_product_attention"].mistakes if named.id == "B26"] == [
        severity
    ]
    layer = results["EncoderLayer"]
    assert ("B26" in layer.inherited) == (severity == "mistake")


MODEL = """
class LanguageModel(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers):
        super().__init__()
        layer = nn.TransformerEncoderLayer(d_model, num_heads, 4 * d_model, 0.0, batch_first=True)
        self.words, self.scores = nn.Embedding(vocab_size, d_model), nn.Linear(d_model, vocab_size)
        self.layers = nn.TransformerEncoder(layer, num_layers, enable_nested_tensor=False)

    def forward(self, ids, attention_mask=None):
        {}
        future = nn.Transformer.generate_square_subsequent_mask(ids.shape[1]) < 0
        return self.scores(self.layers(self.words(ids), future, padding))
"""
READ = "padding = attention_mask.eq(0)"


@pytest.mark.long
@pytest.mark.parametrize(
    "line, calls, severities",
    [
        (READ, "", ["mistake"]),
        (READ, "def scores(model, ids, mask):\n    return model(ids, attention_mask=mask)", ["mistake"]),
        ("padding = None if attention_mask is None else attention_mask.eq(0)", "", []),
    ],
)
def test_of_a_model_that_takes_a_mask_of_padding(line, calls, severities, tmp_path):
    """Whatever is asked of it, it is given one that hides nothing."""
    result = check_text(f"{MODEL.format(line)}\n\n{calls}\n", tmp_path, ["LanguageModel"])["LanguageModel"]
    found = [named for named in result.mistakes if named.id == "B26"]
    assert [named.severity for named in found] == severities, result
    assert all("attention_mask is None by default" in named.evidence for named in found)
