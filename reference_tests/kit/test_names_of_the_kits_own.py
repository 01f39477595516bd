"""What the kit puts around a class is no part of it: no mistake, and no name that its writer does not know."""

import pytest
import torch
from torch import nn

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.judge.running import running
from scratch_transformer.kit.resolve.library.around import Around

pytestmark = pytest.mark.long

ATTENTION = """
class maskedMultiHeadAttention(nn.Module):
    def __init__(self, sentence_length, source_vocab_size, d_model, num_heads, key_size):
        super().__init__()
        self.num_heads, self.key_size = num_heads, key_size
        self.keys, self.queries, self.values = (
            nn.ParameterList([torch.rand(d_model, key_size) for _ in range(num_heads)]) for _ in range(3)
        )
        self.out = nn.Parameter(torch.rand(num_heads * key_size, d_model))

    def head(self, i, x):
        k, q, v = x @ self.keys[i], x @ self.queries[i], x @ self.values[i]
        return (q @ k.transpose(1, 2) / self.key_size**0.5).softmax(-1) @ v

    def forward(self, x):
        return torch.cat([self.head(i, x) for i in range(self.num_heads)], -1) @ self.out
"""


@pytest.mark.parametrize("size", ["source_vocab_size, ", ""])
def test_attention_that_is_told_how_many_words_there_are_is_no_language_model(size, tmp_path):
    (result,) = check_text(ATTENTION.replace("source_vocab_size, ", size), tmp_path).values()
    assert result.kind.endswith("Attention") and result.severe == ["A25", "B22"], result  # nothing is masked


MODEL = """
class Block(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.h = num_heads
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.network = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask):
        q, k, v = (y.unflatten(-1, (self.h, -1)).transpose(1, 2) for y in self.qkv(self.norm1(x)).chunk(3, -1))
        weights = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]) + mask).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).flatten(2))
        return x + self.network(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers, max_len):
        super().__init__()
        self.register_buffer("mask", torch.full((max_len, max_len), float("-inf")).triu(1))
        self.layers = [Block(d_model, num_heads, d_ff) for _ in range(num_layers)]
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x, self.mask[: x.shape[1], : x.shape[1]])
        return self.norm(x)
"""


def test_what_a_model_of_vectors_keeps_is_named_as_its_class_names_it(tmp_path):
    result = check_text(MODEL, tmp_path)["GPT"]
    assert any("put around it" in note for note in result.notes), result
    assert result.severe == ["B10"] and "inner" not in repr(result)
    (layers,) = (one for one in result.mistakes if one.id == "B10")
    assert layers.evidence.startswith("self.layers is a Python list") and "self.layers = [" in layers.shown


def test_what_is_put_around_a_model_is_seen_to_run_it():
    around = Around(nn.Identity(), {"d_model": 4, "vocab_size": 7})
    assert around.inner in running(around, lambda: around.forward(input=torch.tensor([[1, 2]])))
