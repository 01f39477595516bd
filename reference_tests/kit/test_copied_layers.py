"""Layers that are handed over ready made, matrices and norms of PyTorch's among them, and copied."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.report.finding import FINE

TEXT = """
import copy


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, heads, in_fc, out_fc, dropout=0.0):
        super().__init__()
        self.d_model, self.heads, self.dropout = d_model, heads, nn.Dropout(dropout)
        self.q_fc, self.k_fc, self.v_fc = (copy.deepcopy(in_fc) for _ in "qkv")
        self.out_fc = out_fc

    def forward(self, *, query, key, value, mask=None):
        def heads(x, fc):
            return fc(x).view(len(x), -1, self.heads, self.d_model // self.heads).transpose(1, 2)

        q, k, v = heads(query, self.q_fc), heads(key, self.k_fc), heads(value, self.v_fc)
        scores = q @ k.transpose(-2, -1) / math.sqrt(k.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        x = self.dropout(torch.softmax(scores, dim=-1)) @ v
        return self.out_fc(x.transpose(1, 2).reshape(len(query), -1, self.d_model))


class FeedForward(nn.Module):
    def __init__(self, fc1, fc2, dropout=0.0):
        super().__init__()
        self.fc1, self.fc2, self.dropout = fc1, fc2, nn.Dropout(dropout)

    def forward(self, x):
        return self.fc2(self.dropout(torch.relu(self.fc1(x))))


class Residual(nn.Module):
    def __init__(self, norm, dropout=0.0):
        super().__init__()
        self.norm, self.dropout = norm, nn.Dropout(dropout)

    def forward(self, x, sublayer):
        return x + self.dropout(sublayer(self.norm(x)))


class EncoderBlock(nn.Module):
    def __init__(self, attention, feed_forward, norm, dropout=0.0):
        super().__init__()
        self.attention, self.feed_forward = attention, feed_forward
        self.residual1, self.residual2 = (Residual(copy.deepcopy(norm), dropout) for _ in range(2))

    def forward(self, x, mask):
        x = self.residual1(x, lambda x: self.attention(query=x, key=x, value=x, mask=mask))
        return self.residual2(x, self.feed_forward)
"""
NAMES = ("MultiHeadAttention", "FeedForward", "Residual", "EncoderBlock")


def test_matrices_and_norms_may_be_handed_over(tmp_path):
    results = check_text(TEXT, tmp_path)
    assert [results[name].verdict in FINE for name in NAMES] == [True] * 4, results


@pytest.mark.long
@pytest.mark.parametrize(
    ("old", "new", "name", "id"),
    [
        (" / math.sqrt(k.shape[-1])", "", "MultiHeadAttention", "A1"),
        ("torch.relu(self.fc1(x))", "self.fc1(x)", "FeedForward", "B16"),
        ("return x + self.dropout", "return self.dropout", "Residual", "B13"),
    ],
)
def test_with_one_mistake_it_is_named(old, new, name, id, tmp_path):
    assert check_text(TEXT.replace(old, new), tmp_path)[name].ids == [id, *(["A8"] if id == "A1" else [])]


STACK = """
class EncoderLayer(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, n_heads, batch_first=True)
        self.network = nn.Sequential(nn.Linear(d_model, 17), nn.ReLU(), nn.Linear(17, d_model))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x):
        x = self.norm1(x + self.attention(x, x, x)[0])
        return self.norm2(x + self.network(x))


class Encoder(nn.Module):
    def __init__(self, d_model, n_heads, nx_layers):
        super().__init__()
        self.layers = nn.ModuleList([EncoderLayer(d_model, n_heads) for _ in range(nx_layers)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""


def test_what_layers_are_counted_by_is_a_number_however_it_is_called(tmp_path):
    result = check_text(STACK, tmp_path)["Encoder"]
    assert result.verdict in FINE, result


WRAPPED = """
class Both(nn.Module):
    def __init__(self, src_vocab, tgt_vocab, d_model, heads, layers, d_ff, max_len):
        super().__init__()
        self.d_model = d_model
        self.src_embed, self.tgt_embed = nn.Embedding(src_vocab, d_model), nn.Embedding(tgt_vocab, d_model)
        self.places = nn.Embedding(max_len, d_model)
        sizes = (d_model, heads, d_ff, 0.0)
        self.encoder = nn.ModuleList(nn.TransformerEncoderLayer(*sizes, batch_first=True) for _ in range(layers))
        self.decoder = nn.ModuleList(nn.TransformerDecoderLayer(*sizes, batch_first=True) for _ in range(layers))
        self.linear = nn.Linear(d_model, tgt_vocab)

    def forward(self, src, tgt, src_hidden, tgt_hidden):
        x = self.src_embed(src) * math.sqrt(self.d_model) + self.places(torch.arange(src.shape[1]))
        for layer in self.encoder:
            x = layer(x, src_key_padding_mask=src_hidden)
        y = self.tgt_embed(tgt) * math.sqrt(self.d_model) + self.places(torch.arange(tgt.shape[1]))
        later = torch.ones(tgt.shape[1], tgt.shape[1]).triu(1).bool()
        for layer in self.decoder:
            y = layer(y, x, later, None, tgt_hidden, src_hidden)
        return self.linear(y)


class TranslationTransformer(nn.Module):
    def __init__(self, src_vocab, tgt_vocab, d_model, heads, layers, d_ff, max_len):
        super().__init__()
        self.encoder_decoder = Both(src_vocab, tgt_vocab, d_model, heads, layers, d_ff, max_len)

    def forward(self, src, tgt):
        return self.encoder_decoder(src, tgt, src == 0, tgt == 0)
"""


@pytest.mark.long
def test_what_all_matrices_are_in_says_nothing_of_one_of_them(tmp_path):
    result = check_text(WRAPPED, tmp_path)["TranslationTransformer"]
    assert result.verdict in FINE, result


@pytest.mark.long
def test_inputs_beside_sources_are_the_targets(tmp_path):
    text = WRAPPED.replace("def forward(self, src, tgt):", "def forward(self, sources, inputs):")
    text = text.replace(
        "self.encoder_decoder(src, tgt, src == 0, tgt == 0)",
        "self.encoder_decoder(sources, inputs, sources == 0, inputs == 0)",
    )
    result = check_text(text, tmp_path)["TranslationTransformer"]
    assert result.verdict in FINE and "B25" not in result.ids, result
