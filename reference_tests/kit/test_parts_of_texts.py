"""Which words of a text a model is given, by methods that write, and of how many likely ones the next is drawn."""

import pytest

from reference_tests.kit.learners.checked import IMPORTS, check_text, reported

pytestmark = pytest.mark.long

MODEL = """
class Writer(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, block_size):
        super().__init__()
        self.block_size = block_size
        self.words, self.places = nn.Embedding(vocab_size, d_model), nn.Embedding(block_size, d_model)
        self.layer = nn.TransformerEncoderLayer(d_model, num_heads, 4 * d_model, batch_first=True, dropout=0.0)
        self.head = nn.Linear(d_model, vocab_size)

    def forward(self, idx):
        T = idx.size(1)
        x = self.words(idx) + self.places(torch.arange(T, device=idx.device))
        return self.head(self.layer(x, src_mask=torch.ones(T, T, dtype=torch.bool, device=idx.device).triu(1)))

    @torch.no_grad()
    def generate(self, idx, max_new_tokens):
        for _ in range(max_new_tokens):
            begin = {0}
            logits = self(idx[:, begin:])[:, -1, :]
            best, places = torch.topk(logits.softmax(-1), {1}, dim=-1)
            idx = torch.cat((idx, places.gather(-1, torch.multinomial(best, 1))), dim=1)
        return idx
"""
COUNTED, AT_LEAST_0 = "idx.size(1) - self.block_size", "max(0, idx.size(1) - self.block_size)"


@pytest.mark.parametrize("begin, ids", [("-self.block_size", []), (AT_LEAST_0, []), (COUNTED, ["D9"])])
@pytest.mark.parametrize("most", [3, 50])
def test_where_the_part_begins(begin, ids, most, tmp_path):
    result = check_text(MODEL.format(begin, most), tmp_path)["Writer.generate"]
    assert (result.verdict, result.ids) == ("mistake" if ids else "matches the builtin", ids)
    for named in result.mistakes:
        assert named.form == "of a shorter text, whose part begins below 0"
        assert named.shown.strip() == f"begin = {COUNTED}"


def test_what_is_left_where_the_colon_is_on_the_wrong_side(tmp_path):
    text = MODEL.replace("idx[:, begin:]", "idx if begin else idx[:, :-self.block_size]")
    result = check_text(text.format("idx.size(1) <= self.block_size", 3), tmp_path)["Writer.generate"]
    (named,) = result.mistakes
    assert (result.verdict, named.id, named.form) == ("mistake", "D9", "all but the last words")
    assert ":-self.block_size" in named.shown


def test_a_loop_over_the_words_is_none_over_layers(tmp_path):
    """A model of one layer, which a method that writes calls again and again, has one layer."""
    result = check_text(MODEL.format("-self.block_size", 3), tmp_path)["Writer"]
    assert (result.verdict, result.severe) == (
        "matches the builtin",
        [],
    )


UNKNOWN = """
class Writer(nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.words, self.head = nn.Embedding(vocab_size, d_model), nn.Linear(d_model, vocab_size)

    def forward(self, idx, kept=None):
        return self.head(self.words(idx)), kept

    @torch.no_grad()
    def generate(self, idx, max_new_tokens, temperature=1.0):
        found = self(idx, None)
        kept = found.kept
        for _ in range(max_new_tokens):
            found = self(idx, kept)
            word = torch.multinomial(torch.softmax(found.output[:, -1] / temperature, -1), 1)
            idx = torch.cat((idx, word), 1)
        return idx
"""


def test_what_is_not_known_is_called_as_it_is_written(tmp_path):
    (tmp_path / "writer.py").write_text(IMPORTS + UNKNOWN)
    report = reported(tmp_path / "writer.py")
    (told,) = (name for name in report.ignored if name.startswith("Writer.generate"))
    assert "no attribute 'kept'" in told and not [name for name in report.ignored if "sampling" in name]
