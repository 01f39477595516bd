"""Stacks and their layers: what a layer demands that is lent, and the loop in which each gets the first input."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

DECODER = """
class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MaskedAttention(d_model, num_heads)
        self.cross = MaskedAttention(d_model, num_heads)
        self.wide, self.narrow = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.first, self.second, self.third = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, memory{0}):
        x = self.first(x + self.attention(x, x, x))
        x = self.second(x + self.cross(x, memory, memory))
        return self.third(x + self.narrow(torch.relu(self.wide(x))))


class Decoder(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.layers = nn.ModuleList([DecoderLayer(d_model, num_heads, d_ff) for _ in range(num_layers)])

    def forward(self, x{1}):
        for layer in self.layers:
            x = layer({2})
        return x
"""


@pytest.mark.parametrize(
    "default, taken, handed, said",
    [
        ("", "", "x", "missing 1 required positional argument: 'memory'"),
        ("", ", memory", "x, memory, None, None", "takes fewer positional arguments than were given"),
        ("", ", memory", "x, context=memory", ""),  # missing, or unexpected: either is said
    ],
)
def test_a_layer_that_cannot_be_built_is_called_as_its_def_asks(default, taken, handed, said, tmp_path):
    results = check_text(DECODER.format(default, taken, handed), tmp_path)
    (named,) = results["Decoder"].mistakes
    assert (results["DecoderLayer"].ids, named.id, named.form) == (["B26"], "B26", "layer")
    assert f"DecoderLayer.forward() {said}" in named.evidence
    assert named.shown.strip() == f"x = layer({handed})"


@pytest.mark.parametrize(
    "default, taken, handed", [("", ", memory", "x, memory"), ("", ", memory", "x, memory=memory")]
)
def test_one_that_fits_is_lent(default, taken, handed, tmp_path):
    result = check_text(DECODER.format(default, taken, handed), tmp_path)["Decoder"]
    assert result.replaced and not [named for named in result.mistakes if named.severity == "mistake"]


STACK = """
class Rates:
    def __init__(self, optimizer):
        self.optimizer = optimizer

    def step(self, rate):
        for group, own in zip(self.optimizer.groups, [rate]):
            group["lr"] = own


class Through(nn.Sequential):
    def forward(self, x):
        for part in self:
            y = part(x)
        return y


class Encoder(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        layers = [nn.TransformerEncoderLayer(d_model, num_heads, d_ff, batch_first=True) for _ in range(num_layers)]
        self.through = Through(*layers)

    def forward(self, x):
        return self.through(x)

    def rates(self):
        return Rates(self)
"""


def test_the_loop_of_the_layers_is_shown_and_no_other(tmp_path):
    (named,) = [named for named in check_text(STACK, tmp_path)["Encoder"].mistakes if named.id == "B19"]
    assert named.shown.strip() == "for part in self:"


WITH_ITS_NORM = """
class Attention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.attn = nn.MultiheadAttention(d_model, num_heads, batch_first=True)

    def forward(self, x):
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        return self.attn(x, x, x, attn_mask=future, need_weights=False)[0]


class Block(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.attention = Attention(d_model, num_heads)
        self.network = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.ReLU(), nn.Linear(4 * d_model, d_model))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.network(self.norm2(x))


class SmallGPT(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, max_len):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        self.blocks = nn.Sequential({0}, nn.LayerNorm(d_model))
        self.head = nn.Linear(d_model, vocab_size)

    def forward(self, idx):
        return self.head(self.blocks(self.tokens(idx) + self.places(torch.arange(idx.shape[1], device=idx.device))))
"""


@pytest.mark.parametrize("number", [1, 3])
def test_the_norm_in_the_sequential_of_the_layers_is_no_layer(number, tmp_path):
    """However many layers are written out before it."""
    text = WITH_ITS_NORM.replace("{0}", ", ".join(["Block(d_model, num_heads)"] * number))
    assert check_text(text, tmp_path)["SmallGPT"].verdict == "matches the builtin"


@pytest.mark.parametrize("before, after", [
    ("", "nn.LayerNorm(d_model), nn.Dropout(0.1)"), ("", "nn.Dropout(0.1), nn.LayerNorm(d_model)"),
    ("nn.Dropout(0.1), ", "nn.LayerNorm(d_model), nn.Dropout(0.1)"),
    ("nn.Dropout(0.1), ", "nn.LayerNorm(d_model), nn.Linear(d_model, vocab_size)"),
])  # fmt: skip
def test_nor_is_what_drops_before_and_after_them_or_projects(before, after, tmp_path):
    """The norm behind layers of which each has mistakes is the model's final one."""
    text = WITH_ITS_NORM.replace("{0}", f"{before}*[Block(d_model, num_heads) for _ in range(4)]")
    text = text.replace("nn.LayerNorm(d_model))\n        self.head", f"{after})\n        self.head")
    if "Linear" in after:
        text = text.replace("self.head = nn.Linear(d_model, vocab_size)", "self.head = nn.Identity()")
    right = check_text(text, tmp_path)["SmallGPT"]
    assert right.verdict == "matches the builtin" and "final norm" in right.design, right
    wrong = check_text(text.replace("x = x + self.attention(", "x = self.attention("), tmp_path)["SmallGPT"]
    assert "B13" in (*wrong.ids, *wrong.inherited) and "final norm" in wrong.design, wrong
