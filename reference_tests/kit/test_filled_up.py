"""Sentences of words that are made as long as the longest, and tables with a few rows more than there are words."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.kind import ONE_LENGTH
from scratch_transformer.kit.report.finding import FINE
from scratch_transformer.kit.resolve.names.settings import settings_of

pytestmark = pytest.mark.long

SENTENCES = """
class SentenceEmbedding(nn.Module):
    def __init__(self, max_sequence_length, d_model, language_to_index, PADDING_TOKEN):
        super().__init__()
        self.length, self.to_index, self.padding = max_sequence_length, language_to_index, PADDING_TOKEN
        self.embedding = nn.Embedding(len(language_to_index) + 2, d_model)
        places = torch.arange(max_sequence_length)[:, None] / 10000 ** (torch.arange(0, d_model, 2) / d_model)
        self.register_buffer("places", torch.stack((places.sin(), places.cos()), dim=-1).flatten(1))

    def ids(self, sentence):
        found = [self.to_index[token] for token in list(sentence)]
        return torch.tensor(found + [self.to_index[self.padding]] * (self.length - len(found)))

    def forward(self, x):
        return self.embedding(torch.stack([self.ids(sentence) for sentence in x])) + self.places
"""


@pytest.mark.parametrize("added, is_right", [("+ self.places", True), ("* self.places", False)])
def test_words_that_are_filled_up_are_compared_with_the_longest_sentence(added, is_right, tmp_path):
    result = check_text(SENTENCES.replace("+ self.places", added), tmp_path)["SentenceEmbedding"]
    assert (result.kind, result.verdict in FINE) == ("EmbeddingWithPositions", is_right), result
    assert ONE_LENGTH in result.limits and not any("cannot be given" in limit for limit in result.limits)


MORE_WORDS = """
class GPT(nn.Module):
    def __init__(self, vocab_size, max_len, d_model, num_heads, num_layers):
        super().__init__()
        self.words, self.places = nn.Embedding(vocab_size + 2, d_model), nn.Embedding(max_len, d_model)
        layer = nn.TransformerEncoderLayer(d_model, num_heads, 4 * d_model, 0.0, batch_first=True)
        self.layers = nn.ModuleList([copy.deepcopy(layer) for _ in range(num_layers)])
        self.head = nn.Linear(d_model, vocab_size)

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = layer(x, src_mask=torch.ones(ids.shape[1], ids.shape[1]).triu(1).bool())
        return self.head(x)
"""


@pytest.mark.parametrize("added, is_right", [("ids) + self", True), ("ids) * self", False)])
def test_a_few_words_more_that_are_read_and_never_written(added, is_right, tmp_path):
    result = check_text(MORE_WORDS.replace("ids) + self", added), tmp_path)["GPT"]
    assert (result.verdict in FINE) == is_right, result


@pytest.mark.parametrize("name", ["num_decoder_block", "encoder_block_count", "n_block"])
def test_blocks_that_are_counted_are_layers(name):
    assert settings_of(name) == ("num_layers",) and settings_of("max_block_size") == ("max_len",)
