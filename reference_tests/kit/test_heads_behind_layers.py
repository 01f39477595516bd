"""Models whose head has layers of its own behind the last: what they give is no layer's, and their norm no model's."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.report.finding import FINE

pytestmark = pytest.mark.long

PARTS = """
class BertEmbedding(nn.Module):
    def __init__(self, vocab_size, hidden_size, max_position_embeddings, type_vocab_size, dropout):
        super().__init__()
        self.token_embedding = nn.Embedding(vocab_size, hidden_size)
        self.position_embedding = nn.Embedding(max_position_embeddings, hidden_size)
        self.token_type_embedding = nn.Embedding(type_vocab_size, hidden_size)
        self.norm, self.dropout = nn.LayerNorm(hidden_size), nn.Dropout(dropout)

    def forward(self, input_ids, token_type_ids):
        places = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = self.token_embedding(input_ids) + self.token_type_embedding(token_type_ids)
        return self.dropout(self.norm(x + self.position_embedding(places)))


class BertSelfAttention(nn.Module):
    def __init__(self, num_heads, hidden_size):
        super().__init__()
        assert hidden_size % num_heads == 0
        self.num_heads = num_heads
        self.query, self.key, self.value = (nn.Linear(hidden_size, hidden_size) for _ in range(3))
        self.out = nn.Linear(hidden_size, hidden_size)

    def heads(self, x):
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def forward(self, x, attn_mask=None):
        q, k, v = (self.heads(one(x)) for one in (self.query, self.key, self.value))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if attn_mask is not None:
            scores = scores.masked_fill(attn_mask == 0, float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class BertMLP(nn.Module):
    def __init__(self, hidden_size, intermediate_size):
        super().__init__()
        self.first, self.second = nn.Linear(hidden_size, intermediate_size), nn.Linear(intermediate_size, hidden_size)

    def forward(self, x):
        return self.second(F.gelu(self.first(x)))


class BertBlock(nn.Module):
    def __init__(self, hidden_size, intermediate_size, num_heads, dropout):
        super().__init__()
        self.attention = BertSelfAttention(num_heads, hidden_size)
        self.mlp = BertMLP(hidden_size, intermediate_size)
        self.norm1, self.norm2 = nn.LayerNorm(hidden_size), nn.LayerNorm(hidden_size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, attn_mask=None):
        x = self.norm1(x + self.dropout(self.attention(x, attn_mask)))
        return self.norm2(x + self.dropout(self.mlp(x)))
"""
BERT = """

class Bert(nn.Module):
    def __init__(
        self, vocab_size, hidden_size, max_position_embeddings, type_vocab_size, dropout, intermediate_size, num_heads,
        num_layers, num_classes,
    ):
        super().__init__()
        self.embed = BertEmbedding(vocab_size, hidden_size, max_position_embeddings, type_vocab_size, dropout)
        blocks = [BertBlock(hidden_size, intermediate_size, num_heads, dropout) for _ in range(num_layers)]
        self.blocks = nn.Sequential(*blocks)
        self.lin, self.norm = nn.Linear(hidden_size, hidden_size), nn.LayerNorm(hidden_size)
        self.unembed, self.classify = nn.Linear(hidden_size, vocab_size), nn.Linear(hidden_size, num_classes)

    def forward(self, input_ids):
        x = LAYERS
        return SCORES
"""
LAYERS = "self.blocks(self.embed(input_ids, torch.zeros_like(input_ids)))"
SCORES = "self.unembed(self.norm(F.gelu(self.lin(x))))"


@pytest.mark.parametrize("scores", [SCORES, f"{SCORES}, self.classify(x[:, 0])"])
@pytest.mark.parametrize(
    "layers, is_right", [(LAYERS, True), (LAYERS.replace("self.blocks(", "self.blocks[:1]("), False)]
)
def test_a_head_for_masked_words_is_behind_the_layers(layers, is_right, scores, tmp_path):
    text = PARTS + BERT.replace("LAYERS", layers).replace("SCORES", scores)
    results = check_text(text, tmp_path)
    assert all(one.verdict in FINE for name, one in results.items() if name != "Bert")
    assert results["Bert"].kind == "TokenEncoder"
    assert (results["Bert"].verdict in FINE) == is_right


CLASSIFIER = """
class Block(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.first, self.second = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attention(y, y, y)[0]
        return x + self.second(F.relu(self.first(self.norm2(x))))


class TransformerClassifier(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, max_len, num_layers, num_classes):
        super().__init__()
        self.embed, self.pos = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, d_ff) for _ in range(num_layers))
        self.norm, self.hidden = nn.LayerNorm(d_model), nn.Linear(d_model, d_model)
        self.classify = nn.Linear(d_model, num_classes)

    def forward(self, ids):
        x = self.embed(ids) + self.pos(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.classify(torch.tanh(self.hidden(NORM.mean(1))))
"""


@pytest.mark.parametrize("norm, ids", [("self.norm(x)", []), ("x", ["B30"])])
def test_the_norm_before_a_head_of_two_layers_is_the_models(norm, ids, tmp_path):
    result = check_text(CLASSIFIER.replace("NORM", norm), tmp_path)["TransformerClassifier"]
    assert result.severe == ids, result
    assert "final norm" in result.design.split(", ") or ids
