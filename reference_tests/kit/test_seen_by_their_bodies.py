"""What a class or function is seen to be by what it does, in whatever file its parts lie."""

import importlib

import pytest

from reference_tests.kit.learners.checked import IMPORTS, check_text
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.report.finding import FINE
from scratch_transformer.kit.resolve import guess

SCORES = """
def weigh(q, k, v):
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v
"""
SEVERAL = """
import scores_of_files


class Several(nn.Module):
    def __init__(self, n, d_model):
        super().__init__()
        self.n = n
        self.a, self.b, self.c, self.d = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, v, k, q):
        split = [f(x).unflatten(-1, (self.n, -1)).transpose(1, 2) for f, x in ((self.a, q), (self.b, k), (self.c, v))]
        return self.d(scores_of_files.weigh(*split).transpose(1, 2).flatten(2))
"""
LAYER = """
import several_of_files


class NAME(nn.Module):
    def __init__(self, n, d_model, ffn_dim):
        super().__init__()
        self.mix = several_of_files.Several(n, d_model)
        self.net = nn.Sequential(nn.Linear(d_model, ffn_dim), nn.ReLU(), nn.Linear(ffn_dim, d_model))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x):
        x = self.norm1(x + self.mix(x, x, x))
        return self.norm2(x + self.net(x))
"""


@pytest.mark.parametrize("name", ["EncoderLayer", "ResidualLayer", "Block"])
def test_a_layer_attends_by_what_functions_of_other_files_do(name, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    texts = {"scores_of_files": SCORES, "several_of_files": SEVERAL, f"{name}_of_files": LAYER.replace("NAME", name)}
    for module, text in texts.items():
        (tmp_path / f"{module}.py").write_text(IMPORTS + text)
    layer = getattr(importlib.import_module(f"{name}_of_files"), name)
    assert "FeedForward" not in guess.kinds_of(name, layer, KINDS)


def test_what_is_called_an_encoder_layer_is_no_network_though_nothing_in_it_attends():
    text = LAYER.replace("several_of_files.Several(n, d_model)", "nn.Linear(d_model, d_model)")
    text = text.replace("self.mix(x, x, x)", "self.mix(x)").replace("import several_of_files", "")
    for name, is_one in (("NetLayerBlock", True), ("EncoderLayer", False), ("TransformerBlock", False)):
        names = {"__name__": "of_names"}
        exec(IMPORTS + text.replace("NAME", name), names)
        assert ("FeedForward" in guess.kinds_of(name, names[name], KINDS)) == is_one


BODIES = """
vocab_size, n_embd, n_head, block_size = 40, 24, 4, 16


class Past(nn.Module):
    def __init__(self, size, dropout):
        super().__init__()
        self.norm, self.dropout = nn.LayerNorm(size), nn.Dropout(dropout)

    def forward(self, inp, layer):
        out = layer(self.norm(inp))
        return inp + self.dropout(out)


class OneHead(nn.Module):
    def __init__(self, head_size):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(n_embd, head_size) for _ in range(3))

    def forward(self, x):
        later = torch.ones(x.shape[1], x.shape[1], device=x.device).triu(1).bool()
        scores = self.q(x) @ self.k(x).mT * self.k.out_features**-0.5
        return scores.masked_fill(later, -math.inf).softmax(-1) @ self.v(x)


class MultiHeadAttentionWrapper(nn.Module):
    def __init__(self, num_heads, head_size):
        super().__init__()
        self.heads = nn.ModuleList([OneHead(head_size) for _ in range(num_heads)])
        self.proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        return self.proj(torch.cat([head(x) for head in self.heads], -1))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.sa = MultiHeadAttentionWrapper(n_head, n_embd // n_head)
        self.ffwd = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.ReLU(), nn.Linear(4 * n_embd, n_embd))
        self.ln1, self.ln2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)

    def forward(self, x):
        x = x + self.sa(self.ln1(x))
        return x + self.ffwd(self.ln2(x))


class NextWordAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(vocab_size, n_embd), nn.Embedding(block_size, n_embd)
        self.blocks = nn.Sequential(Block(), Block())
        self.norm, self.lm_head = nn.LayerNorm(n_embd), nn.Linear(n_embd, vocab_size)

    def forward(self, idx):
        x = self.words(idx) + self.places(torch.arange(idx.shape[1], device=idx.device))
        return self.lm_head(self.norm(self.blocks(x)))


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, longest=50):
        super().__init__()
        pos, div = torch.arange(longest)[:, None], 10000 ** (torch.arange(0, d_model, 2) / d_model)
        self.register_buffer("pe", torch.stack([torch.sin(pos / div), torch.cos(pos / div)], -1).flatten(1))

    def forward(self, x):
        return x + self.pe[: x.shape[1]]


class Beginning(nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.emb, self.pos, self.d_model = nn.Embedding(vocab_size, d_model), PositionalEncoding(d_model), d_model

    def forward(self, x):
        return self.pos(self.emb(x) * math.sqrt(self.d_model))


class Translator(nn.Module):
    def __init__(self, src_vocab_size, tgt_vocab_size, d_model, num_heads, num_layers, d_ff):
        super().__init__()
        self.src_emb, self.tgt_emb = Beginning(src_vocab_size, d_model), Beginning(tgt_vocab_size, d_model)
        self.inner = nn.Transformer(d_model, num_heads, num_layers, num_layers, d_ff, batch_first=True)
        self.out = nn.Linear(d_model, tgt_vocab_size)

    def forward(self, src, tgt, src_key_padding_mask=None, tgt_key_padding_mask=None, tgt_mask=None):
        masks = {"src_key_padding_mask": src_key_padding_mask, "memory_key_padding_mask": src_key_padding_mask}
        masks |= {"tgt_key_padding_mask": tgt_key_padding_mask, "tgt_mask": tgt_mask}
        return self.out(self.inner(self.src_emb(src), self.tgt_emb(tgt), **masks))
"""
SEEN = {
    "Past": "ResidualConnection",
    "MultiHeadAttentionWrapper": "CausalSelfAttention",
    "NextWordAttention": "DecoderOnly",
    "Beginning": "EmbeddingWithPositions",
    "Translator": "Transformer",
}


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_whatever_they_are_called_parts_and_models_are_known_by_what_they_do(tmp_path):
    results = check_text(BODIES, tmp_path)
    assert {name: results[name].kind for name in SEEN} == SEEN
    assert {name: results[name].verdict for name in SEEN if results[name].verdict not in FINE} == {}


WORDS_ALONE = """
class Weigh(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        return (self.out(x).softmax(1) * x).sum(1)


class Tagger(nn.Module):
    def __init__(self, vocab_size, embed_dim, num_classes):
        super().__init__()
        self.words, self.rnn = nn.Embedding(vocab_size, embed_dim), nn.GRU(embed_dim, embed_dim)
        self.pos, self.weigh, self.out = 0, Weigh(embed_dim), nn.Linear(embed_dim, num_classes)

    def forward(self, x):
        return self.out(self.weigh(self.rnn(self.words(x))[0]))


class Gate(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x, other):
        return x + self.norm(other)


class BeamTranslator(nn.Module):
    def __init__(self, model, vocab_size):
        super().__init__()
        self.model, self.vocab_size = model, vocab_size

    def forward(self, src, tgt):
        return self.model(src, tgt).argmax(-1)
"""


def test_what_does_something_else_is_none_of_them():
    names = {"__name__": "of_something_else"}
    exec(IMPORTS + WORDS_ALONE, names)
    for name in ("Tagger", "Gate", "BeamTranslator"):
        assert not {*guess.kinds_of(name, names[name], KINDS)} & {*SEEN.values()}, name
