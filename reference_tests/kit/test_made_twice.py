"""A name that is given twice, and another that is never given (B26): repaired in memory, and the rest is judged."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

NETWORK = """
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.1):
        super().__init__()
        FIRST
        SECOND
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.linear2(self.dropout(torch.tanh(self.linear1(x))))
"""
ONE, TWO = ("self.linear{} = nn.Linear(d_model, d_ff)", "self.linear{} = nn.Linear(d_ff, d_model)")


@pytest.mark.parametrize("number, line", [(1, TWO), (2, ONE)])
def test_of_two_that_are_numbered_the_one_that_is_missing_is_meant(number, line, tmp_path):
    text = NETWORK.replace("FIRST", ONE.format(number)).replace("SECOND", TWO.format(number))
    result = check_text(text, tmp_path)["FeedForward"]
    assert result.ids == ["B26", "B8"], result
    stop, behind = result.mistakes
    assert stop.shown.strip() == line.format(number)
    assert [one.strip() for one in stop.put] == [line.format(3 - number)]
    assert behind.evidence.startswith(f"With line {stop.line} repaired: ")


def test_what_is_used_in_between_is_meant(tmp_path):
    text = NETWORK.replace("FIRST", ONE.format(1) + "; nn.init.zeros_(self.linear1.bias)")
    result = check_text(text.replace("SECOND", TWO.format(1)), tmp_path)["FeedForward"]
    assert result.ids == ["B26"] and not any("repaired" in limit for limit in result.limits)


ATTENTION = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.OTHER = nn.Linear(d_model, WIDTH)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x):
        q, k, v = (w(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        return self.w_o(((q @ k.transpose(-2, -1)).softmax(-1) @ v).transpose(1, 2).flatten(2))
"""


@pytest.mark.parametrize("other, ids", [("w_q", ["B26", "A1"]), ("w_k", ["A1"])])
def test_of_two_that_are_made_alike_either_is_meant(other, ids, tmp_path):
    text = ATTENTION.replace("OTHER", other).replace("WIDTH", "d_model")
    assert check_text(text, tmp_path)["MultiHeadAttention"].ids == ids


def test_of_two_that_differ_nobody_knows(tmp_path):
    text = ATTENTION.replace("OTHER", "w_q").replace("WIDTH", "d_model, bias=False")
    assert check_text(text, tmp_path)["MultiHeadAttention"].ids == ["B26"]


MODEL = """
class Embeddings(nn.Module):
    def __init__(self, d_model, vocab_size):
        super().__init__()
        self.d_model, self.table = d_model, nn.Embedding(vocab_size, d_model)

    def forward(self, x):
        return self.table(x) * math.sqrt(self.d_model)

class Transformer(nn.Module):
    def __init__(self, encoder, decoder, src_embed, tgt_embed, head):
        super().__init__()
        self.encoder, self.decoder, self.head = encoder, decoder, head
        self.src_embed, self.tgt_embed = src_embed, tgt_embed

    def forward(self, src, tgt):
        mask = torch.triu(torch.ones(tgt.size(1), tgt.size(1), dtype=torch.bool, device=tgt.device), 1)
        memory = self.encoder(self.src_embed(src))
        return self.head(self.decoder(self.tgt_embed(tgt), memory, tgt_mask=mask))

def build_transformer(src_vocab, tgt_vocab, d_model=64, heads=4, d_ff=128, N=2):
    NAME = Embeddings(d_model, src_vocab)
    NAME = Embeddings(d_model, tgt_vocab)
    layer = nn.TransformerEncoderLayer(d_model, heads, d_ff, batch_first=True)
    encoder = nn.TransformerEncoder(layer, N, enable_nested_tensor=False)
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(d_model, heads, d_ff, batch_first=True), N)
    return Transformer(encoder, decoder, src_embed, tgt_embed, nn.Linear(d_model, tgt_vocab))
"""


@pytest.mark.parametrize("name, vocabulary", [("src_embed", "tgt_vocab"), ("tgt_embed", "src_vocab")])
def test_of_two_sides_the_one_whose_words_it_is_told_is_meant(name, vocabulary, tmp_path):
    result = check_text(MODEL.replace("NAME", name), tmp_path)["build_transformer"]
    stop = next(one for one in result.mistakes if one.id == "B26")
    assert vocabulary in stop.shown
    assert "A24" in result.ids and any("repaired: With padding" in one.evidence for one in result.mistakes), result
