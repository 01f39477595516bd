"""Code as strangers write it: it is understood, and the same with one mistake is never called right.

Styles that are checked in other ways than the corpus's: `learners/wild/`.
"""

from pathlib import Path

import pytest

from reference_tests.kit.learners.checked import check_here, reported
from reference_tests.kit.learners.corpus import _replaced
from scratch_transformer.kit.report.finding import FINE

WILD = Path(__file__).parent / "learners" / "wild"
RIGHT = {
    "wired": {
        "MultiHeadAttention": "SelfAttention",
        "FeedForward": "FeedForward",
        "EncoderLayer": "EncoderLayer",
        "CausalSelfAttention": "CausalSelfAttention",
    },
    "shared": {"DecoderLayer": "DecoderLayer", "Transformer": "Transformer"},
    "alike": {"Decoder": "DecoderLayer", "Transformer": "Transformer"},
    "copied": {"Encoder": "Encoder"},
    "single": {"TransformerEncoder": "TokenEncoder"},
    "pooled": {"TransformerClassifier": "DecoderOnly"},
    "nameless": {
        "Mixer": "CausalSelfAttention",
        "Expander": "FeedForward",
        "Unit": "DecoderOnlyLayer",
        "AllYouNeed": "DecoderOnly",
    },
    "hyperparameters": {"FeedForward": "FeedForward", "SelfAttention": "SelfAttention", "GPT": "DecoderOnly"},
    "scripted": {
        "gelu": "GELU",
        "attention": "ScaledDotProductAttention",
        "FeedForward": "FeedForward",
        "MultiHeadAttention": "MultiheadAttention",
    },
    "stateful": {"MultiHeadAttention": "MultiheadAttention", "DecoderBlock": "DecoderLayer"},
    "forms": {"LabelSmoothingLoss": "Loss", "RotaryEmbedding": "RotaryEmbedding"},
    "both_sides": {
        "Attention": "RotaryAttention",
        "GatedFeedForward": "FeedForward",
        "DecoderLayer": "DecoderLayer",
        "Encoder": "Encoder",
        "Transformer": "Transformer",
    },
    "tensorflow": {
        "PositionalEncoding": "PositionalEncoding",
        "MultiHeadAttention": "MultiheadAttention",
        "Transformer": "Transformer",
    },
}
SAID = {
    ("wired", "EncoderLayer"): "The size 512 is written in; it was checked with 12 in that place.",
    ("wired", "CausalSelfAttention"): "It works with sequences of its longest length alone: only such were checked.",
    ("alike", "Transformer"): "It works with sequences of its longest length alone: only such were checked.",
    ("copied", "Encoder"): "Nothing depends on its encoder.",
    (
        "pooled",
        "TransformerClassifier",
    ): "What it makes of the last layer's output, (2, 11), is not checked: the layers are compared.",
    ("stateful", "DecoderBlock"): "It was given its state as [memory, lengths, [None, …]], in training mode, where it "
    "hides the future.",
    ("forms", "LabelSmoothingLoss"): "It takes logits of several sentences, (B, T, V).",
    ("forms", "RotaryEmbedding"): "It takes the positions of every sentence, (B, T).",
}
"""What a limit or a note says."""


@pytest.mark.parametrize("style", RIGHT)
@pytest.mark.long
def test_it_is_understood(style):
    results = check_here(WILD / f"{style}.py", set(RIGHT[style]))
    assert {name: (r.verdict, r.problem) for name, r in results.items() if r.verdict not in FINE} == {}
    assert {name: result.kind for name, result in results.items()} == RIGHT[style]
    for (of, name), words in SAID.items():
        assert of != style or words in (*results[name].notes, *results[name].limits)


@pytest.mark.long
def test_parts_that_a_class_is_given_lie_in_files_beside_it():
    """As instances, and as classes."""
    report = reported(WILD / "beside" / "layers.py")
    assert [(r.name, r.verdict in FINE, r.replaced) for r in report.results] == [
        ("EncoderLayer", True, []),
        ("EncoderBlock", True, []),
    ]


# ---- With one mistake ----


def row(style, component, old, new, ids=""):
    return pytest.param(style, component, old, new, ids, id=f"{style}-{component}-{old[:25]}-{new[:25]}")


SPLIT = "return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)"
DECODED = "x = layer(x, memory, decoder_cross_attention_mask, decoder_self_attention_mask)"
ENCODED = "memory = layer(memory, encoder_self_attention_mask)"
ROLES = "zip((self.wq, self.wk, self.wv)"
HEADS = "w(x).unflatten(-1, (self.h, -1)).transpose(1, 2)"
CROSS = "x = self.norm1(x + self.self_attn(x, x, x, mask_of_self))\n        x = self.norm2(x + self.cross_attn(x,"
FIRST_INPUT = CROSS.replace("x = self.norm1", "y = self.norm1").replace("x + self.cross", "y + self.cross")
TABLE = '.to(device)\n        self.register_buffer("table", table)'
LAYER = "x = layer(x, look_ahead_mask, memory, dec_padding_mask)"
MISTAKEN = [
    row("tensorflow", "PositionalEncoding", TABLE, "\n        self.table = table", "P5"),
    row("tensorflow", "MultiHeadAttention", "x.view(x.size(0), -1, self.head_size, self.depth).transpose(1, 2)",
        "x.view(x.size(0), self.head_size, -1, self.depth)", "A13"),
    row("tensorflow", "Transformer", LAYER, "x = layer(x, look_ahead_mask, memory)", "A22"),
    row("wired", "MultiHeadAttention", " / 64**0.5", "", "A1"),
    row("wired", "MultiHeadAttention", " / 64**0.5", " / x.shape[-1] ** 0.5", "A1"),
    row("wired", "MultiHeadAttention", "f(x).unflatten(-1, (self.h, 64)).transpose(1, 2)",
        "f(x).reshape(len(x), self.h, -1, 64)", "A13"),
    row("wired", "MultiHeadAttention", ".transpose(1, 2).flatten(2))", ".reshape(x.shape))", "A23"),
    row("wired", "FeedForward", "torch.relu(self.expand(x))", "self.expand(x)"),
    row("wired", "EncoderLayer", "self.norm2(x + self.feed_forward(x))", "self.norm2(self.feed_forward(x))"),
    row("wired", "EncoderLayer", "self.norm2(x + self.feed_forward(x))", "self.norm1(x + self.feed_forward(x))"),
    row("wired", "CausalSelfAttention", "triu(1)", "tril(-1)", "A5"),
    row("wired", "CausalSelfAttention", ".masked_fill(self.later, -math.inf)", "", "A25"),
    row("wired", "CausalSelfAttention", "/ math.sqrt(q.shape[-1])", "* math.sqrt(q.shape[-1])"),
    row("wired", "CausalSelfAttention", ".transpose(1, 2).reshape(len(x), self.length, -1)", ".reshape(x.shape)",
        "A23"),
    row("shared", "MultiHeadAttention", ROLES, "zip((self.wv, self.wk, self.wv)", "A21"),
    row("shared", "MultiHeadAttention", ROLES, "zip((self.wq, self.wq, self.wv)", "A21"),
    row("shared", "MultiHeadAttention", HEADS, "w(x)[:, None]", "B29"),
    row("shared", "MultiHeadAttention", ".transpose(1, 2).flatten(2))",
        ".transpose(1, 2).flatten(2).mT.reshape(len(q), q.shape[2], -1))", "A23"),
    row("shared", "DecoderLayer", CROSS, FIRST_INPUT,
        "B23"),
    row("shared", "DecoderLayer", "self.norm3(x + self.ff(x))", "self.norm2(x + self.ff(x))"),
    row("shared", "DecoderLayer", "memory, mask_of_memory))", "memory))", "A22"),
    row("shared", "Transformer", DECODED,
        "x = layer(x, memory, decoder_self_attention_mask, decoder_cross_attention_mask)"),
    row("shared", "Transformer", DECODED, "x = layer(x, memory, None, decoder_self_attention_mask)"),
    row("shared", "Transformer", DECODED, "x = layer(x, memory, decoder_cross_attention_mask, None)"),
    row("shared", "Transformer", DECODED, DECODED.replace("x, memory", "x, x")),
    row("shared", "Transformer", ENCODED, "memory = layer(memory, None)"),
    row("shared", "Transformer", ENCODED, "memory = layer(self.embed(source), encoder_self_attention_mask)"),
    row("shared", "Transformer", ENCODED, "layer(memory, encoder_self_attention_mask)"),
    row("shared", "Transformer", "in self.decoder:", "in self.decoder[1:]:"),
    row("shared", "Transformer", "self.embed(target)", "self.embedding(target)"),
    row("shared", "Transformer", "torch.arange(ids.shape[1])", "torch.arange(ids.shape[1]) * 0"),
    row("alike", "Transformer", "x = decoder(x, memory, src", "x = decoder(x, x, src"),
    row("alike", "Transformer", "(memory, src_padding_mask)", "(memory, None)"),
    row("alike", "Transformer", "(decoder_input) + self.positions", "(decoder_input)"),
    row("alike", "Transformer", "return self.W_o(x)", "return self.W_o(memory)"),
    row("copied", "Encoder", "x = layer(x, mask)", "x = self.encoder(x, mask)"),
    row("copied", "EncoderLayer", "x + self.ff(self.norm2(x))", "self.ff(self.norm2(x))"),
    row("single", "Block", "self.norm2(x + self.ff(x))", "self.norm1(x + self.ff(x))"),
    row("single", "TransformerEncoder", "torch.arange(ids.shape[1])", "torch.arange(ids.shape[1]) * 0"),
    row("pooled", "TransformerClassifier", "x.mean(1)", "self.words(ids).mean(1)"),
    row("pooled", "TransformerClassifier", "x = block(x)", "block(x)"),
    row("pooled", "TransformerClassifier", "self.norm2(x + self.ff(x))", "self.norm2(self.ff(x))"),
    row("pooled", "TransformerClassifier", "torch.arange(ids.shape[1])", "torch.arange(ids.shape[0])[:, None]"),
    row("nameless", "Mixer", " / math.sqrt(q.shape[-1])", "", "A1"),
    row("nameless", "Unit", "x = x + self.mix(self.norm1(x))", "x = self.mix(self.norm1(x))"),
    row("nameless", "Unit", "self.expand(self.norm2(x))", "self.expand(self.norm1(x))"),
    row("nameless", "AllYouNeed", "x = unit(x)", "x = unit(self.words(ids))"),
    row("hyperparameters", "SelfAttention", "self.d_k**0.5", "self.h**0.5"),
    row("hyperparameters", "FeedForward", "nn.ReLU(), ", ""),
    row("hyperparameters", "GPT", ".triu(1)", ".tril(-1)"),
    row("hyperparameters", "GPT", ", src_mask=later", ""),
    row("before", "MultiHeadAttention", "-2, -1) / q.shape[-1] ** 0.5\n", "-2, -1)\n", "A34 A1"),
    row("before", "MultiHeadAttention", ".byte(), -1e9", ".byte(), 0.0", "A34 A4"),
    row("before", "SelfAttention", "-1e9)\n        return self.out((scores.softmax(-1)",
        "-1e9)\n        return self.out((scores.softmax(-2)",
        "A34 A2"),
    row("before", "SelfAttention", "for t in self.qkv", "for t in self.qkv", "A34"),
    row("scripted", "MultiHeadAttention", "** -0.5", "** 0.5"),
    row("scripted", "MultiHeadAttention", " * scale", "", "A1"),
    row("scripted", "attention", "softmax(dim=-1)", "softmax(dim=-2)"),
    row("scripted", "attention", " * scale", ""),
    row("scripted", "FeedForward", "gelu(self.up(x))", "self.up(x)"),
    row("scripted", "gelu", "1.41421356237309504880", "2"),
    row("stateful", "DecoderBlock", "if self.training:", "if not self.training:"),
    row("stateful", "DecoderBlock", "arange(1, steps + 1)", "arange(2, steps + 2)"),
    row("stateful", "DecoderBlock", "enc_outputs, enc_valid_lens)", "enc_outputs, None)"),
    row("stateful", "DecoderBlock", "Y = self.norm1(X + self", "Y = self.norm1(self"),
    row("stateful", "DecoderBlock", SPLIT, "return x.reshape(len(x), self.num_heads, x.shape[1], -1)"),
    row("forms", "RotaryEmbedding", "(-second, first)", "(second, first)"),
    row("forms", "RotaryEmbedding", "base ** (-torch", "base ** (torch"),
    row("forms", "LabelSmoothingLoss", "(1 - self.smoothing) * right", "right"),
    row("forms", "LabelSmoothingLoss", "log_softmax(-1)", "log_softmax(1)"),
    row("both_sides", "Attention", "turned(q, *rope), turned(k, *rope)", "turned(q, *rope), k", "R4"),
    row("both_sides", "GatedFeedForward", "F.gelu(self.wi_0(x))", "self.wi_0(x)", "G4"),
    row("both_sides", "EncoderLayer", "self.ffn(self.norm2(x))", "self.ffn(x)"),
    row("both_sides", "DecoderLayer", "memory, src_mask)", "memory)"),
    row("both_sides", "DecoderLayer", "x = x + self.cross_attention", "x = self.cross_attention"),
    row("both_sides", "Encoder", "dim, 2) / dim", "dim, 2) / (2 * dim)"),
    row("both_sides", "Transformer", "self.tgt_embed(tgt)", "self.src_embed(tgt)"),
    row("both_sides", "Transformer", "dtype=torch.bool).tril()", "dtype=torch.bool)", "A25"),
    row("both_sides", "Transformer", "self.encoder(self.src_embed(src), src_mask)", "self.src_embed(src)"),
    row("both_sides", "Transformer", "(tgt), memory, src_mask", "(tgt), memory, None"),
    row("both_sides", "Transformer", "x.pow(2).mean(-1", "x.pow(2).mean(-2"),
]  # fmt: skip


QUICK = (
    "tensorflow-PositionalEncoding",
    "tensorflow-MultiHead",
    "before-SelfAttention",
    "scripted-MultiHeadAttention",
    "scripted-Feed",
    "scripted-gelu",
    "forms",
    "hyperparameters-Feed",
    "wired-Feed",
)


@pytest.mark.parametrize(
    "style, component, old, new, ids", [one for one in MISTAKEN if one.id is not None and one.id.startswith(QUICK)]
)
@pytest.mark.long
def test_a_mistake_in_it_is_named_or_at_least_not_called_right(style, component, old, new, ids, tmp_path):
    """The others are in `learners/whole_corpus.py`: nothing explains them at once."""
    judge(style, component, old, new, ids, tmp_path)


def judge(style, component, old, new, ids, tmp_path):
    path = tmp_path / f"{style}.py"
    text = (WILD / f"{style}.py").read_text(encoding="utf-8")
    path.write_text(text if old == new else _replaced(text, old, new), encoding="utf-8")
    result = check_here(path, {component})[component]
    assert result.verdict not in FINE, result
    assert set(ids.split()) <= {found.id for found in result.mistakes} | set(result.inherited), result
