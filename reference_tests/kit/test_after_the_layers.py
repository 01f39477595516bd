"""What a model makes of its layers' output, and how its parts are asked for it."""

import pytest

from reference_tests.kit.learners.checked import LESS, check_text, time_to_look
from scratch_transformer.kit.report.finding import FINE
from scratch_transformer.kit.resolve.names.inputs import is_mask

BERT = """
class Layer(nn.Module):
    def __init__(self, dim, num_heads, intermediate_size):
        super().__init__()
        assert dim % num_heads == 0
        self.heads = num_heads
        self.query, self.key, self.value, self.out = (nn.Linear(dim, dim) for _ in range(4))
        self.up, self.down = nn.Linear(dim, intermediate_size), nn.Linear(intermediate_size, dim)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x, attention_mask):
        q, k, v = (w(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for w in (self.query, self.key, self.value))
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if attention_mask is not None:
            scores = scores.masked_fill(attention_mask[:, None, None] == 0, float("-inf"))
        x = self.norm1(x + self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2)))
        return NETWORK


class Head(nn.Module):
    def __init__(self, dim, vocab_size):
        super().__init__()
        self.dense, self.norm, self.decoder = nn.Linear(dim, dim), nn.LayerNorm(dim), nn.Linear(dim, vocab_size)

    def forward(self, x):
        return self.decoder(self.norm(F.gelu(self.dense(x))))


class Bert(nn.Module):
    def __init__(self, vocab_size, dim, num_heads, intermediate_size, num_layers, max_len):
        super().__init__()
        self.words, self.places = nn.Embedding(vocab_size, dim), nn.Embedding(max_len, dim)
        self.layers = nn.ModuleList(Layer(dim, num_heads, intermediate_size) for _ in range(num_layers))
        self.norm, self.cls = nn.LayerNorm(dim), Head(dim, vocab_size)

    def forward(self, input_ids, attention_mask=None, masked_lm_labels=None):
        places = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = self.norm(self.words(input_ids) + self.places(places))
        for layer in self.layers:
            x = layerCALL(x, attention_mask)
        scores = self.clsCALL(x)
        if masked_lm_labels is not None:
            return F.cross_entropy(scores.flatten(0, 1), masked_lm_labels.flatten())
        return scores
"""


@pytest.mark.parametrize("call", ["", ".forward"])
@pytest.mark.parametrize("network, is_right", [
    ("self.norm2(x + self.down(F.gelu(self.up(x))))", True),
    ("x + self.norm2(self.down(F.gelu(self.up(x))))", False),
])  # fmt: skip
@pytest.mark.long
def test_what_a_head_computes_between_its_linear_layers_is_none_of_the_layers(call, network, is_right, tmp_path):
    with time_to_look(1 if is_right else LESS):
        result = check_text(BERT.replace("NETWORK", network).replace("CALL", call), tmp_path)["Bert"]
    assert (result.verdict in FINE) == is_right, result
    assert any("the layers are compared" in limit for limit in result.limits) or not is_right


def test_labels_are_no_mask():
    assert not is_mask("masked_lm_labels") and not is_mask("mask_labels") and is_mask("label_mask")


CLASSIFIER = """
class Layer(nn.Module):
    def __init__(self, n_dim, hidden_dim, head_num):
        super().__init__()
        self.attention = nn.MultiheadAttention(n_dim, head_num, batch_first=True)
        self.network = nn.Sequential(nn.Linear(n_dim, hidden_dim), nn.ReLU(), nn.Linear(hidden_dim, n_dim))
        self.norm1, self.norm2 = nn.LayerNorm(n_dim), nn.LayerNorm(n_dim)

    def forward(self, x, x_mask=None):
        x = self.norm1(x + self.attention(x, x, x, key_padding_mask=x_mask)[0])
        return self.norm2(x + self.network(x))


class TransformerEncoder(nn.Module):
    def __init__(self, vocab_size, n_dim, hidden_dim, n_enc_blocks, head_num):
        super().__init__()
        self.embedding, self.n_dim = nn.Embedding(vocab_size, n_dim), n_dim
        self.blocks = nn.ModuleList([Layer(n_dim, hidden_dim, head_num) for _ in range(n_enc_blocks)])

    def forward(self, x, src_mask=None):
        x = self.embedding(x) * self.n_dim**0.5
        for block in self.blocks:
            x = block(x, src_mask)
        return x


class TransformerClassifier(nn.Module):
    def __init__(self, n_classes, vocab_size, n_dim, hidden_dim, n_enc_blocks, head_num):
        super().__init__()
        self.encoder = TransformerEncoder(vocab_size, n_dim, hidden_dim, n_enc_blocks, head_num)
        self.linear = nn.Linear(n_dim, n_classes)

    def forward(self, x, mask=None):
        return self.linear(self.encoder(x, mask)[:, 0])
"""


@pytest.mark.long
def test_what_takes_one_sequence_is_given_no_other(tmp_path):
    result = check_text(CLASSIFIER, tmp_path)["TransformerClassifier"]
    assert result.kind == "TokenEncoder" and result.verdict in FINE, result


STACK = """
class TransformerEncoder(nn.Module):
    def __init__(self, num_layers, d_model, num_heads, d_ff, dropout=0.1):
        super().__init__()
        self.num_layers, self.drop = num_layers, nn.Dropout(dropout)
        self.attentions = nn.ModuleList(
            nn.MultiheadAttention(d_model, num_heads, batch_first=True) for _ in range(num_layers)
        )
        self.networks = nn.ModuleList(
            nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model)) for _ in range(num_layers)
        )
        self.norms1 = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(num_layers))
        self.norms2 = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(num_layers))

    def forward(self, x):
        for i in range(self.num_layers):
            x = self.norms1[i](x + self.drop(self.attentions[i](x, x, x)[0]))
            x = LAST
        return x
"""


@pytest.mark.parametrize("last, ids", [
    ("self.norms2[i](x + self.drop(self.networks[i](x)))", []),
    ("self.drop(self.norms2[i](x + self.networks[i](x)))", ["B24"]),
])  # fmt: skip
def test_a_stack_that_has_its_layers_written_out_may_drop_features_of_the_sum(last, ids, tmp_path):
    result = check_text(STACK.replace("LAST", last), tmp_path)["TransformerEncoder"]
    assert result.severe == ids, result
    assert (result.verdict in FINE) == (not ids)


OF_PRETRAINING = """
class Bert(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers, max_len):
        super().__init__()
        self.words, self.places = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        made = (nn.TransformerEncoderLayer(d_model, num_heads, d_ff, batch_first=True) for _ in range(num_layers))
        self.layers = nn.ModuleList(made)

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.size(1), device=ids.device))
        for layer in self.layers:
            x = layer(x)
        return x


class NextSentencePrediction(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.linear, self.end = nn.Linear(d_model, 2), nn.LogSoftmax(dim=-1)

    def forward(self, x):
        return self.end(self.linear(x[:, 0]))


class MaskedLanguageModel(nn.Module):
    def __init__(self, d_model, vocab_size):
        super().__init__()
        self.linear = nn.Linear(d_model, vocab_size)
        self.softmax = nn.LogSoftmax(dim=-1)

    def forward(self, x):
        return self.softmax(self.linear(x))


class BERTLM(nn.Module):
    def __init__(self, bert: Bert, vocab_size):
        super().__init__()
        self.bert, d_model = bert, bert.words.embedding_dim
        self.next_sentence, self.mask_lm = NextSentencePrediction(d_model), MaskedLanguageModel(d_model, vocab_size)

    def forward(self, ids):
        x = self.bert(ids)
        return self.next_sentence(x), self.mask_lm(x)
"""


@pytest.mark.parametrize("end", ["end", "softmax"])
@pytest.mark.long
def test_what_scores_sentences_and_hidden_words_speaks_of_no_mask(end, tmp_path):
    """MaskedLanguageModel finds words that were hidden: a model of it need not make a mask of the padding."""
    results = check_text(OF_PRETRAINING.replace("self.end", f"self.{end}"), tmp_path)
    assert results["NextSentencePrediction"].kind == "SentenceHead"
    assert all(one.verdict in FINE for one in results.values()), results
    alone = check_text(OF_PRETRAINING, tmp_path, ["BERTLM"])["BERTLM"]  # before its part is judged
    assert (alone.verdict, alone.severe) == ("harmless deviation", [])
