"""Methods that look like components: those of a class that has a model are judged, and the others are told of."""

import pytest

from reference_tests.kit.learners.checked import reported, written

pytestmark = pytest.mark.long

TEXT = """
class Speaker:
    def __init__(self, model, tokenizer, device="cpu"):
        self.model, self.tokenizer, self.device = model, tokenizer, device

    def say(self, prompt, max_new_tokens=50, temperature=1.0):
        ids = torch.tensor([self.tokenizer.encode(prompt)], device=self.device)
        for _ in range(max_new_tokens):
            logits = self.model(ids)[:, -1] / temperature
            ids = torch.cat([ids, torch.multinomial(logits.softmax(-1), 1)], 1)
        return self.tokenizer.decode(ids[0].tolist())


class Translator:
    def __init__(self, model, src_vocab, tgt_vocab):
        self.model, self.src_vocab, self.tgt_vocab = model, src_vocab, tgt_vocab

    def translate(self, sentence, max_len=50):
        memory = self.model.encode(torch.tensor([[self.src_vocab[word] for word in sentence.split()]]))
        ids = torch.tensor([[self.tgt_vocab["<sos>"]]])
        for _ in range(max_len):
            word = self.model.decode(ids, memory)[:, -1].argmax(-1)
            ids = torch.cat([ids, word[:, None]], 1)
            if word.item() == self.tgt_vocab["<eos>"]:
                break
        return " ".join(self.tgt_vocab.itos[one] for one in ids[0].tolist())


class Model(nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.words, self.head = nn.Embedding(vocab_size, d_model), nn.Linear(d_model, vocab_size)
        self.layer = nn.TransformerEncoderLayer(d_model, 2, 4 * d_model, batch_first=True)
        self.register_buffer("table", self.generate_rows(9, d_model))

    def generate_rows(self, count, width):
        return torch.stack([self.generate_row(one, width) for one in range(count)])

    def generate_row(self, number, width):
        return torch.full((width,), number)

    def forward(self, ids):
        return self.head(self.layer(self.words(ids)))

    def training_step(self, batch, index):
        x, y = batch
        return F.cross_entropy(self(x).flatten(0, 1), y.flatten())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)

    sizes: dict = {}

    @classmethod
    def from_pretrained(cls, path):
        return torch.load(path)

    @staticmethod
    def whatever(one):
        return one

    @staticmethod
    def used(one):
        return one

    def uses(self, one):
        return self.used(one)

    def sample_text(self, prompt, tokenizer):
        return tokenizer.decode(self.used(tokenizer.encode(prompt)))
"""


BEGINS_ANYWHERE = """
class Sentences:
    def __init__(self, path, count_of_words):
        self.model, self.count = torch.load(path), count_of_words

    def generate(self, sentences=2, length=5):
        ids = torch.randint(self.count, (sentences, 1))
        for _ in range(length):
            chosen = torch.multinomial(self.model(ids)[:, -1].exp(), 1)
            ids = torch.cat((ids, chosen), dim=-1)
        return ids
"""


def test_that_a_method_is_judged_is_not_said_of_one_that_turns_out_to_be_none(tmp_path):
    ignored = reported(written(BEGINS_ANYWHERE, tmp_path)).ignored
    (said,) = (one for one in ignored if one.startswith("Sentences ("))
    assert "judged" not in said and any(one.startswith("Sentences.generate (") for one in ignored)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return reported(written(TEXT, tmp_path_factory.mktemp("methods")))


@pytest.mark.parametrize("name", ["Speaker.say", "Speaker.say.sampling", "Translator.translate"])
def test_what_writes_with_a_model_that_its_object_has_is_judged(name, report):
    assert {one.name: one.verdict for one in report.results}[name] == "matches the builtin"


@pytest.mark.parametrize(
    ("name", "old", "new", "id"),
    [
        ("Speaker.say", "[:, -1] / temp", "[:, 0] / temp", "D8"),
        ("Speaker.say.sampling", "/ temperature", "* temperature", "S1"),
        ("Translator.translate", "argmax", "argmin", "D6"),
        ("Translator.translate", "word.item() ==", "ids[0, 0] ==", "D4"),
    ],
)
def test_its_mistake_is_named(name, old, new, id, tmp_path):
    assert old in TEXT
    assert {one.name: one.ids for one in reported(written(TEXT.replace(old, new), tmp_path)).results}[name] == [id]


@pytest.mark.parametrize(
    "said",
    [
        "Speaker (no nn.Module; its say is judged)",
        "Model.training_step (it trains a model: read, not run)",
        "Model.configure_optimizers (it makes an optimizer of all weights)",
        "Model.from_pretrained (it saves or loads)",
        "Model.whatever (neither its name nor its code is a known part's)",
        "Model.used (a piece of Model, judged in it)",
        "Model.sample_text (it asks no model for one word after the other)",
    ],
)
def test_the_others_are_told_of(said, report):
    assert said in report.ignored


def test_of_what_is_no_such_method_nothing_is_said(report):
    others = ("Model.uses", "Model.forward", "Model.__init__", "Model.generate_row")
    assert not any(said.startswith(others) for said in report.ignored)
