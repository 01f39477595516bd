"""Models of two vocabularies that are given their parts, whatever those and the function that joins them are called."""

import pytest

from reference_tests.kit.learners.checked import IMPORTS, checking_of, time_to_look, written

pytestmark = pytest.mark.long

PARTS = """
class Heads(nn.Module):
    def __init__(self, d_model, h):
        super().__init__()
        self.h, self.d_k = h, d_model // h
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, q, k, v, mask):
        q, k, v = (f(x).unflatten(-1, (self.h, self.d_k)).transpose(1, 2) for f, x in
                   ((self.q, q), (self.k, k), (self.v, v)))
        scores = (q @ k.transpose(-2, -1) / math.sqrt(self.d_k)).masked_fill(mask == 0, float("-inf"))
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.down(F.relu(self.up(x)))


class ReadingStep(nn.Module):
    def __init__(self, d_model, heads, net):
        super().__init__()
        self.heads, self.net = heads, net
        self.n1, self.n2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, mask):
        x = self.n1(x + self.heads(x, x, x, mask))
        return self.n2(x + self.net(x))


class WritingStep(nn.Module):
    def __init__(self, d_model, heads, cross, net):
        super().__init__()
        self.heads, self.cross, self.net = heads, cross, net
        self.n1, self.n2, self.n3 = (nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, x, memory, src_mask, tgt_mask):
        x = self.n1(x + self.heads(x, x, x, tgt_mask))
        x = self.n2(x + self.cross(x, memory, memory, src_mask))
        return self.n3(x + self.net(x))


class Chain(nn.Module):
    def __init__(self, steps):
        super().__init__()
        self.steps = nn.ModuleList(steps)

    def forward(self, x, *others):
        for step in self.steps:
            x = step(x, *others)
        return x


class Lookup(nn.Module):
    def __init__(self, vocab, d_model):
        super().__init__()
        self.table, self.d_model = nn.Embedding(vocab, d_model), d_model

    def forward(self, ids):
        return self.table(ids) * math.sqrt(self.d_model)


class Transformer(nn.Module):
    def __init__(self, encoder, decoder, src_embed, tgt_embed, generator):
        super().__init__()
        self.encoder, self.decoder, self.generator = encoder, decoder, generator
        self.src_embed, self.tgt_embed = src_embed, tgt_embed

    def forward(self, src, tgt, src_mask, tgt_mask):
        memory = self.encoder(self.src_embed(src), src_mask)
        return self.generator(self.decoder(self.tgt_embed(tgt), memory, src_mask, tgt_mask))


def put_together(src_vocab, tgt_vocab, N=2, d_model=32, d_ff=64, h=4):
    reading = [ReadingStep(d_model, Heads(d_model, h), Mlp(d_model, d_ff)) for _ in range(N)]
    writing = [WritingStep(d_model, Heads(d_model, h), Heads(d_model, h), Mlp(d_model, d_ff)) for _ in range(N)]
    return Transformer(Chain(reading), Chain(writing), Lookup(src_vocab, d_model), Lookup(tgt_vocab, d_model),
                       nn.Linear(d_model, tgt_vocab))
"""
TRANSLATOR = """
class SourceReader(nn.Module):
    def __init__(self, src_vocab, d_model, n_heads, d_ff, n_layers, max_len=100):
        super().__init__()
        self.tok, self.pos = nn.Embedding(src_vocab, d_model), nn.Embedding(max_len, d_model)
        layer = nn.TransformerEncoderLayer(d_model, n_heads, d_ff, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, n_layers, enable_nested_tensor=False)

    def forward(self, src, src_pad_mask):
        x = self.tok(src) + self.pos(torch.arange(src.size(1)))
        return self.layers(x, src_key_padding_mask=src_pad_mask)


class TargetWriter(nn.Module):
    def __init__(self, tgt_vocab, d_model, n_heads, d_ff, n_layers, max_len=100):
        super().__init__()
        self.tok, self.pos = nn.Embedding(tgt_vocab, d_model), nn.Embedding(max_len, d_model)
        layer = nn.TransformerDecoderLayer(d_model, n_heads, d_ff, batch_first=True)
        self.layers, self.out = nn.TransformerDecoder(layer, n_layers), nn.Linear(d_model, tgt_vocab)

    def forward(self, tgt, memory, src_pad_mask):
        x = self.tok(tgt) + self.pos(torch.arange(tgt.size(1)))
        causal = torch.triu(torch.ones(tgt.size(1), tgt.size(1)), 1).bool()
        return self.out(self.layers(x, memory, tgt_mask=causal, memory_key_padding_mask=src_pad_mask))


class Translator(nn.Module):
    def __init__(self, encoder, decoder, pad_id=0):
        super().__init__()
        self.encoder, self.decoder, self.pad_id = encoder, decoder, pad_id

    def forward(self, src, tgt):
        pad = src == self.pad_id
        return self.decoder(tgt, self.encoder(src, pad), pad)


class RecurrentTranslator(nn.Module):
    def __init__(self, encoder, decoder):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def forward(self, src, trg):
        hidden, cell = self.encoder(src)
        return self.decoder(trg, hidden, cell)
"""


def result(text, folder, name):
    path = folder / "learner.py"
    path.write_text(IMPORTS + text)
    return checking_of(path, {name})[1].get(name)


@pytest.mark.parametrize(
    ("old", "new", "ids"),
    [("", "", ["B4"]), ("* math.sqrt(self.d_model)", "", ["B4", "E2"]), (" / math.sqrt(self.d_k)", "", ["B4", "A1"])],
)
def test_what_a_function_puts_together_is_judged(old, new, ids, tmp_path):
    """B4: no norm after the stacks, as in the paper."""
    assert old in PARTS
    found = result(PARTS.replace(old, new) if old else PARTS, tmp_path, "put_together")
    assert {*found.ids, *found.inherited} == {*ids} and found.verdict != "unknown mismatch"


def test_embeddings_that_are_lent_are_nobodys_without_a_scale(tmp_path):
    found = result(PARTS[: PARTS.index("def put_together")], tmp_path, "Transformer")
    assert found.replaced and "E2" not in found.ids


@pytest.mark.parametrize(("name", "ids"), [("TargetWriter", ["A24"]), ("Translator", ["B4", "A24"])])
def test_a_translator_and_its_parts_are_judged(name, ids, tmp_path):
    found = result(TRANSLATOR, tmp_path, name)
    assert found.ids == ids and found.verdict in ("harmless deviation", "matches the paper, not the builtin")


def test_what_keeps_a_state_is_no_transformer(tmp_path):
    assert result(TRANSLATOR, tmp_path, "RecurrentTranslator") is None


BUILDER = """
class Reader(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab_size, d_model), nn.Embedding(100, d_model)
        layer = nn.TransformerEncoderLayer(d_model, num_heads, d_ff, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, num_layers, enable_nested_tensor=False)
        self.labels = nn.Linear(d_model, 3)

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.size(1)))
        return self.labels(self.layers(x, src_key_padding_mask=ids == 0).mean(1))


class Both(nn.Module):
    def __init__(self, src_vocab_size, tgt_vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.encoder = SourceReader(src_vocab_size, d_model, num_heads, d_ff, num_layers)
        self.decoder = TargetWriter(tgt_vocab_size, d_model, num_heads, d_ff, num_layers)

    def forward(self, src, tgt):
        return self.decoder(tgt, self.encoder(src, src == 0), src == 0)


def build_model(cfg):
    sizes = {"d_model": cfg["d_model"], "num_heads": cfg["num_heads"], "d_ff": cfg["d_ff"]}
    return MADE(VOCABULARY, num_layers=cfg["num_layers"], **sizes)MOVED
"""
OF_ONE, OF_TWO = 'vocab_size=cfg["vocab_size"]', 'cfg["src_vocab_size"], cfg["tgt_vocab_size"]'


@pytest.mark.parametrize("moved", ["", '.to(torch.device("cpu"))', ".to('cpu').eval()"])
@pytest.mark.parametrize(("made", "words"), [("Reader", OF_ONE), ("Both", OF_TWO)])
def test_a_builder_may_move_its_model_at_once(made, words, moved, tmp_path):
    """It is what it builds, and not a decoder alone: nothing in cfg says which of them that is."""
    text = BUILDER.replace("MADE", made).replace("VOCABULARY", words).replace("MOVED", moved)
    guesses = checking_of(written(TRANSLATOR + text, tmp_path), ())[0].library.guesses
    found = {one.__name__: kinds for one, kinds in guesses.items()}
    assert found["build_model"][: len(found[made])] == found[made]


def test_what_a_builder_has_moved_is_judged(tmp_path):
    text = BUILDER.replace("MADE", "Both").replace("VOCABULARY", OF_TWO).replace("MOVED", ".to('cpu')")
    with time_to_look(1):
        found = result(TRANSLATOR + text, tmp_path, "build_model")
    assert found.kind == "Transformer" and found.ids == ["B4", "A24"], found
