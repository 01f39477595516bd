"""What answers for the last token alone is compared where it answers: it is given every beginning of a sentence."""

import pytest
import torch

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.report.finding import FINE
from scratch_transformer.kit.resolve.call import beginnings

HEAD = """
class OutputProjection(nn.Module):
    def __init__(self, d_model, vocab_size):
        super().__init__()
        self.linear, self.softmax = nn.Linear(d_model, vocab_size), nn.Softmax(dim=-1)

    def forward(self, x):
        return self.softmax(self.linear(x[:, -1, :].squeeze()))
"""
MODEL = """
class TinyGPT(nn.Module):
    def __init__(self, vocab_size, block_size, n_embd, n_head, n_layer):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocab_size, n_embd), nn.Embedding(block_size, n_embd)
        layer = nn.TransformerEncoderLayer(n_embd, n_head, 4 * n_embd, 0.0, "gelu", batch_first=True, norm_first=True)
        self.blocks = nn.ModuleList(copy.deepcopy(layer) for _ in range(n_layer))
        self.norm, self.head = nn.LayerNorm(n_embd), nn.Linear(n_embd, vocab_size)

    def forward(self, idx):
        x = self.tokens(idx) + self.places(torch.arange(idx.shape[1]))
        later = torch.ones(idx.shape[1], idx.shape[1]).triu(1).bool()
        for block in self.blocks:
            x = block(x, src_mask=later)
        return self.head(self.norm(x)[:, -1])
"""


@pytest.mark.parametrize("text, name", [(HEAD, "OutputProjection"), (MODEL, "TinyGPT")])
def test_scores_of_the_word_to_come_are_right(text, name, tmp_path):
    result = check_text(text, tmp_path)[name]
    assert result.verdict in FINE, result
    assert any("every beginning" in note for note in result.notes)


@pytest.mark.parametrize(
    "text, name, old, new",
    [
        (HEAD, "OutputProjection", "x[:, -1, :]", "x[:, 0, :]"),
        (MODEL, "TinyGPT", "self.tokens(idx) + self", "self.tokens(idx) * self"),
    ],
)
@pytest.mark.long
def test_another_token_and_other_scores_are_not(text, name, old, new, tmp_path):
    assert old in text
    assert check_text(text.replace(old, new), tmp_path)[name].verdict not in FINE


def test_every_beginning_has_its_part_of_the_masks():
    seen = []

    def call(inputs):
        seen.append({name: tuple(value.shape) for name, value in inputs.items()})
        return inputs["tgt"][:, -1:].double()

    masks = {"src_mask": torch.ones(2, 1, 1, 5), "tgt_mask": torch.ones(2, 1, 3, 3)}
    inputs = {"src": torch.zeros(2, 5), "tgt": torch.arange(6).view(2, 3), **masks}
    assert beginnings.with_every_beginning(call, inputs, "tgt")[..., 0].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert [shapes["tgt_mask"] for shapes in seen] == [(2, 1, end, end) for end in (1, 2, 3)]
    assert {(shapes["src"], shapes["src_mask"]) for shapes in seen} == {((2, 5), (2, 1, 1, 5))}
