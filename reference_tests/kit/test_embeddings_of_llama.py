"""Embeddings of a model of today: as they are, or times √d_model, are designs; divided by it, no more."""

import pytest

from reference_tests.kit.learners.checked import check_text, time_to_look
from reference_tests.kit.test_no_future_in_llama import MASK, MODEL
from scratch_transformer.kit.report.finding import FINE

pytestmark = pytest.mark.long

LAYERS = MODEL.partition("class LlamaModel")[0].replace("HIDDEN", MASK.replace("(T, T)", "(T, T, device=x.device)"))
MODEL = """
class RoutedLayer(nn.Module):
    def __init__(self, d_model, experts):
        super().__init__()
        self.router, self.experts = nn.Linear(d_model, experts), nn.Parameter(torch.randn(experts, d_model, d_model))

    def forward(self, x):
        return x + self.experts[self.router(x).argmax(-1)] @ x[..., None]


class LlamaModel(nn.Module):
    def __init__(self, vocab_size, d_model, num_layers, num_heads, d_ff, max_len=20, n_experts=None):
        super().__init__()
        self.embeddings, self.places = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        if n_experts is None:
            layers = [LlamaLayer(d_model, num_heads, d_ff) for _ in range(num_layers)]
        else:
            layers = [RoutedLayer(d_model, n_experts) for _ in range(num_layers)]
        self.layers, self.norm, self.fc = nn.ModuleList(layers), RMSNorm(d_model), nn.Linear(d_model, vocab_size)

    def forward(self, input_ids):
        x = SCALED + self.places(torch.arange(input_ids.shape[1], device=input_ids.device))
        for layer in self.layers:
            x = layer(x)
        return self.fc(self.norm(x))
"""


@pytest.mark.parametrize("scaled, severe", [
    ("self.embeddings(input_ids) / self.embeddings.embedding_dim**0.5", ["E2"]),
    ("self.embeddings(input_ids) * self.embeddings.embedding_dim**0.5", []),
    ("self.embeddings(input_ids)", []),
])  # fmt: skip
def test_words_that_are_divided_are_named(scaled, severe, tmp_path):
    """In a model that need have no experts, though it may."""
    with time_to_look(1):
        result = check_text(LAYERS + MODEL.replace("SCALED", scaled), tmp_path, ["LlamaModel"])["LlamaModel"]
    assert (result.severe, result.verdict in FINE) == (severe, not severe), result
