"""What is said to attend to nothing: no model whose only attention is torch's."""

import pytest
import torch
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


class ByPositions(nn.Module):
    """A matrix for each position, all of them summed, and again one for each."""

    def __init__(self, vocab_size, embedding_dim, length):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.encode = nn.Parameter(torch.randn(length, embedding_dim, embedding_dim))
        self.decode = nn.Parameter(torch.randn(length, embedding_dim, embedding_dim))

    def forward(self, ids):
        summed = torch.einsum("btd,tde->be", self.embedding(ids), self.encode)
        return torch.einsum("btd,vd->btv", torch.einsum("be,ted->btd", summed, self.decode), self.embedding.weight)


class ByProducts(ByPositions):
    """Of the tokens with each other: attention without a softmax."""

    def forward(self, ids):
        x = self.embedding(ids)
        mixed = torch.einsum("bqk,bkd->bqd", torch.einsum("bqd,bkd->bqk", x, x), x)
        return torch.einsum("btd,vd->btv", mixed, self.embedding.weight)


@pytest.mark.parametrize("cls, why", [(ByPositions, "it attends to nothing"), (ByProducts, "")])
def test_products_with_weights_are_no_attention(cls, why):
    assert foreign.attends_to_nothing(cls, "DecoderOnly") == why
