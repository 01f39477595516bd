"""What is said of something: a table that is shared, a tokenizer within something else, a file that breaks off."""

import pytest

from reference_tests.kit.learners.checked import check_text, reported, written

pytestmark = pytest.mark.long

SHARED = """
class SharedEmbeddingLayer(nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.d_model = d_model
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.bias = nn.Parameter(torch.zeros(vocab_size))

    def forward(self, x, side="in"):
        if side == "in":
            return self.embedding(x) * FACTOR
        return (x @ self.embedding.weight.T + self.bias) / math.sqrt(self.d_model)
"""


@pytest.mark.parametrize(("factor", "ids"), [("math.sqrt(self.d_model)", []), ("self.d_model", ["E2"])])
def test_a_table_by_which_scores_are_made_too_is_judged_as_what_embeds(factor, ids, tmp_path):
    result = check_text(SHARED.replace("FACTOR", factor), tmp_path)["SharedEmbeddingLayer"]
    assert (result.kind, result.ids) == ("InputEmbedding", ids), result


WRITER = """
class SmallGPT(nn.Module):
    def __init__(self, state):
        super().__init__()
        self.state = state
        self.table, self.head = nn.Embedding(state.vocab_size, 32), nn.Linear(32, state.vocab_size)

    def forward(self, ids):
        return self.head(self.table(ids))

    def generate_text(self, start_text, max_tokens=50, temperature=0.7):
        tokens = self.state.tokenizer.encode(start_text)
        ids = torch.tensor(tokens).unsqueeze(0)
        for _ in range(max_tokens):
            logits = self(ids)[:, -1, :] / temperature
            new = torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)
            if new.item() == self.state.tokenizer.eot_token:
                break
            ids = torch.cat((ids, new), dim=1)
        return self.state.tokenizer.decode(ids[0].tolist())
"""


@pytest.mark.parametrize(
    ("old", "new", "ids"),
    [("", "", []), ("[:, -1, :]", "[:, 0, :]", ["D8"]), ("                break\n", "                pass\n", ["D4"])],
)
def test_a_method_writes_a_text_with_a_tokenizer_that_something_of_its_model_has(old, new, ids, tmp_path):
    result = check_text(WRITER.replace(old, new), tmp_path, ["SmallGPT.generate_text"])["SmallGPT.generate_text"]
    assert (result.kind, result.ids) == ("GreedyDecoding", ids), result


BEGUN = """
class EncoderLayer(nn.Module):
    def __init__(self, d_model, heads):
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, heads, batch_first=True)
        self.norm1 = nn.LayerNorm(d_model)
"""
ABSTRACT, CUT_OFF = (
    "EncoderLayer (abstract: it has no forward)",
    "EncoderLayer (its file breaks off behind its constructor)",
)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("", CUT_OFF),
        ("        self.norm2 =", CUT_OFF),
        ("\n    def reset(self):\n        self.norm1.reset_parameters()\n", ABSTRACT),
        ("\nWIDTH = 8\n", ABSTRACT),
    ],
)
def test_a_class_with_which_its_file_breaks_off_is_not_abstract(more, said, tmp_path):
    assert reported(written(BEGUN + more, tmp_path)).ignored == [said]
    if said == CUT_OFF and not more:
        base = BEGUN.replace("EncoderLayer", "BaseEncoder")
        assert reported(written(base, tmp_path)).ignored == ["BaseEncoder (abstract: it has no forward)"]


OF_WORDS = """
places = {"<unk>": 0}


def look_up(text):
    return [places[word] for word in text.split()]


def generate(start, steps=5):
    words = start.copy()
    for _ in range(steps):
        last = ["<unk>"] * 2 + words[-3:]
        logits = torch.nn.functional.one_hot(torch.tensor([LOOKED_UP]), 8)[0, -1]
        words.append(logits.argmax().item())
    return " ".join(map(str, words))
"""


@pytest.mark.parametrize(("looked_up", "is_of_words"), [('look_up(" ".join(last))', True), ("last", False)])
def test_what_looks_up_the_words_that_it_is_given_is_not_said_to_stop(looked_up, is_of_words, tmp_path):
    report = reported(written(OF_WORDS.replace("LOOKED_UP", looked_up), tmp_path))
    said = "generate (it is given words, not their ids, and looks them up itself)"
    assert (said in report.ignored) == is_of_words, report
    assert not is_of_words or not report.results


NO_PARTS = """
def load_model(path, vocab_size):
    state = torch.load(path)
    return state["decoder"].load(vocab_size)


def find_model_overrides_in_config(model_cfg, saved):
    return {field: getattr(model_cfg, field) for field in saved if getattr(model_cfg, field) != saved[field]}


def vae_loss(logits, target, mean, log_variance, weights):
    return weights.of(F.mse_loss(logits, target)) + (mean**2 - log_variance).sum()
"""


def test_what_only_reminds_of_a_part_is_what_its_name_says(tmp_path):
    assert {*reported(written(NO_PARTS, tmp_path)).ignored} == {
        "load_model (it saves or loads)",
        "find_model_overrides_in_config (settings)",
        "vae_loss (a loss of another sort)",
    }
