"""What a model ends with, where that is more than one linear layer: the layers before it are judged all the same."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

MODEL = """
class Block(nn.Module):
    def __init__(self, width, n_heads):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, n_heads, batch_first=True)
        self.network = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        hides = torch.ones(x.size(1), x.size(1), dtype=torch.bool, device=x.device).triu(DIAGONAL)
        y = self.before(x)
        x = x + self.attention(y, y, y, attn_mask=hides)[0]
        return x + self.network(self.between(x))


class Scores(nn.Module):
    def __init__(self, width, n_words):
        super().__init__()
        self.wide, self.words = nn.Linear(width, 4 * width), nn.Linear(4 * width, n_words)

    def forward(self, x):
        return self.words(self.wide(x))


class LanguageModel(nn.Module):
    def __init__(self, vocab_size, d_model, n_heads, n_layers, max_len):
        super().__init__()
        self.words, self.places = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList([Block(d_model, n_heads) for _ in range(n_layers)])
        self.norm = nn.LayerNorm(d_model)
        self.head = HEAD

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.size(1), device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))
"""
HEADS = (
    "nn.Sequential(nn.Linear(d_model, d_model), nn.Linear(d_model, vocab_size))",
    "Scores(d_model, vocab_size)",
    "nn.Sequential(nn.Linear(d_model, 3 * d_model), nn.ReLU(), nn.Linear(3 * d_model, vocab_size))",
)
RIGHT = MODEL.replace("DIAGONAL", "1")
NOT_CHECKED = "What it makes of the last layer's output, (2, 5, 11), is not checked: the layers are compared."


@pytest.mark.parametrize("head", HEADS)
def test_the_layers_before_scores_of_several_linear_layers_are_judged(head, tmp_path):
    result = check_text(RIGHT.replace("HEAD", head), tmp_path)["LanguageModel"]
    assert result.error < 1e-12 and not result.severe and NOT_CHECKED in result.limits


def test_what_is_wrong_in_them_is_named(tmp_path):
    text = MODEL.replace("DIAGONAL", "2").replace("HEAD", HEADS[1])
    result = check_text(text, tmp_path)["LanguageModel"]
    assert result.inherited == ["A6"] and result.limits == [NOT_CHECKED]


ANSWERS = """
class TransformerAnswerHead(nn.Module):
    def __init__(self, d_model, labels, dropout):
        super().__init__()
        self.dense, self.out = nn.Linear(d_model, d_model), nn.Linear(d_model, labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, **more):
        return self.out(self.dropout(ACT(self.dense(self.dropout(x)))))
"""


@pytest.mark.parametrize("act, ids", [("F.gelu", []), ("F.softplus", None)])
def test_a_head_that_is_called_after_its_model_is_a_network(act, ids, tmp_path):
    result = check_text(ANSWERS.replace("ACT", act), tmp_path)["TransformerAnswerHead"]
    assert result.kind == "FeedForward"
    assert (result.error < 1e-12) == (ids is not None) and result.severe == (ids or [])
