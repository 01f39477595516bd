"""What is said to attend to nothing: no model whose only attention is torch's."""

import pytest
from torch import nn

from scratch_transformer.kit.resolve import foreign


class OfTorch(nn.Module):
    """Scores, positions and all in one class."""

    def __init__(self, d_model, num_heads, num_layers, vocab_size):
        super().__init__()
        self.words = nn.Embedding(vocab_size, d_model)
        self.transformer = nn.Transformer(d_model, num_heads, num_layers, num_layers, batch_first=True)
        self.out = nn.Linear(d_model, vocab_size)

    def forward(self, src, tgt):
        return self.out(self.transformer(self.words(src), self.words(tgt)))


class Head(nn.Module):
    def __init__(self, d_model, num_classes):
        super().__init__()
        self.out = nn.Linear(d_model, num_classes)

    def forward(self, x, mask):
        return self.out((x * mask).mean(1))


@pytest.mark.parametrize("cls, why", [(OfTorch, ""), (Head, "it attends to nothing")])
def test_a_model_around_torchs_transformer_attends(cls, why):
    assert foreign.attends_to_nothing(cls, "Transformer") == why
