"""What the text of a training script shows: by whole scripts in the styles of learners, right and wrong."""

import pytest

from reference_tests.kit.learners.checked import reported
from scratch_transformer.kit.judge.scripts import read
from scratch_transformer.kit.mistakes.training import OF_THE_SOURCE

SEQ2SEQ = """
import torch
import torch.nn as nn
from torch.utils.data import DataLoader

PAD_IDX = 1

class Seq2Seq(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.transformer = nn.Transformer(batch_first=True)
        self.fc = nn.Linear(512, vocab)

    def forward(self, src, tgt):
        causal = torch.triu(torch.ones(tgt.size(1), tgt.size(1)), diagonal=1).bool()
        return self.fc(self.transformer(src, tgt, tgt_mask=causal))

def train(model, loader):
    criterion = nn.CrossEntropyLoss(ignore_index=PAD_IDX)
    for src, tgt in loader:
        logits = model(src, tgt[:, :-1])
        loss = criterion(logits.reshape(-1, logits.shape[-1]), tgt[:, 1:].reshape(-1))
        loss.backward()

model = Seq2Seq(100)
"""
LANGUAGE_MODEL = """
import torch
import torch.nn as nn
import torch.nn.functional as F

class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("tril", torch.tril(torch.ones(8, 8)))

    def forward(self, idx):
        return self.head(self.blocks(self.embed(idx)))

model = GPT()
for _ in range(100):
    x, y = get_batch("train")
    logits = model(x)
    B, T, C = logits.shape
    loss = F.cross_entropy(logits.view(B * T, C), y.view(B * T))
    loss.backward()
"""
TRAINER = """
import torch.nn as nn
from model import make_model

class Trainer:
    def __init__(self, pad_idx):
        self.model = make_model()
        self.loss_fn = nn.CrossEntropyLoss(ignore_index=pad_idx)

    def step(self, batch):
        tgt_input, tgt_output = batch.tgt[:, :-1], batch.tgt[:, 1:]
        output = self.model(batch.src, tgt_input)
        output = output.contiguous().view(-1, output.size(-1))
        return self.loss_fn(output, tgt_output.contiguous().view(-1))
"""
CLASSIFIER = """
import torch.nn as nn
pad_idx = 0
criterion = nn.CrossEntropyLoss()
for batch, labels in loader:
    logits = model(batch, batch != pad_idx)
    loss = criterion(logits.view(-1, num_labels), labels.view(-1))
"""
MASKED = """
import torch.nn.functional as F
for batch in loader:
    logits = model(batch.ids)
    target = batch.ids.masked_fill(batch.ids == pad_idx, -100)
    loss = F.cross_entropy(logits[:, :-1].reshape(-1, V), target[:, 1:].reshape(-1))
"""
PACKED = """
import torch.nn.functional as F
tokenizer = AutoTokenizer.from_pretrained("gpt2")
if tokenizer.pad_token is None:
    tokenizer.pad_token = tokenizer.eos_token
for x, y in loader:
    logits = model(x)
    loss = F.cross_entropy(logits.view(-1, V), y[:, 1:].reshape(-1))
"""
RIGHT = {
    "packed": PACKED,
    "seq2seq": SEQ2SEQ,
    "gpt": LANGUAGE_MODEL,
    "trainer": TRAINER,
    "classifier": CLASSIFIER,
    "masked": MASKED,
}
WRONG = [
    ("T4", PACKED, "    logits = model(x)", "    logits = model(tokenizer(x, padding='max_length').input_ids)"),
    ("T4", SEQ2SEQ, "nn.CrossEntropyLoss(ignore_index=PAD_IDX)", "nn.CrossEntropyLoss()"),
    ("T4", TRAINER, "nn.CrossEntropyLoss(ignore_index=pad_idx)", "nn.CrossEntropyLoss()"),
    ("T2", SEQ2SEQ, "return self.fc(", "return torch.softmax(dim=-1, input=self.fc("),
    ("T2", LANGUAGE_MODEL, "    B, T, C", "    logits = F.softmax(logits, dim=-1)\n    B, T, C"),
    ("T2", TRAINER, "self.loss_fn(output,", "self.loss_fn(output.softmax(-1),"),
    ("T13", SEQ2SEQ, "tgt[:, 1:].reshape(-1)", "tgt[:, :-1].reshape(-1)"),
    ("T13", LANGUAGE_MODEL, "y.view(B * T)", "x.view(B * T)"),
]


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT)
def test_right_scripts_raise_no_alarm(text):
    assert list(read(text)) == []


@pytest.mark.parametrize("id, text, old, new", WRONG)
def test_a_mistake_is_read(id, text, old, new):
    assert text.count(old) == 1
    changed = text.replace(old, new)
    if new.endswith("self.fc("):
        changed = changed.replace("tgt_mask=causal))", "tgt_mask=causal)))")
    (found,) = read(changed)
    assert found.id == id
    assert changed.splitlines()[found.line - 1].strip()
    assert ("softmax" in found.evidence) == (id == "T2")


def test_the_model_may_be_in_another_file():
    model, _, rest = SEQ2SEQ.partition("def train")
    script = "from model import Seq2Seq\ndef train" + rest.replace("tgt[:, :-1]", "tgt").replace("tgt[:, 1:]", "tgt")
    assert [found.id for found in read(script, [model])] == ["T13"]
    assert list(read(script)) == []  # an unknown model may shift by itself
    shifting = model.replace("self.transformer(src, tgt,", "self.transformer(src, tgt[:, :-1],")
    assert list(read(script, [shifting])) == []


MASK_OUTSIDE = """
class LanguageModel(nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.embedding, self.fc = nn.Embedding(vocab_size, d_model), nn.Linear(d_model, vocab_size)
        self.layer = nn.TransformerEncoderLayer(d_model, 4, batch_first=True)

    def forward(self, x, mask=None):
        return self.fc(self.layer(self.embedding(x), mask))


model = LanguageModel(100, 32)


def train(model, loader, criterion=nn.CrossEntropyLoss()):
    for ids in loader:
        mask = torch.triu(torch.ones(ids.size(1), ids.size(1)), diagonal=1).bool()
        criterion = nn.CrossEntropyLoss()
        outputs = model(ids[:, :-1], mask[1:, 1:])
        criterion(outputs.reshape(-1, 100), ids[:, 1:].reshape(-1)).backward()
"""


@pytest.mark.parametrize("old, new, ids", [
    ("", "", []), ("ids[:, :-1], mask[1:, 1:]", "ids, mask", ["T13"]), ("ids[:, :-1], mask[1:, 1:]", "ids", []),
])  # fmt: skip
def test_the_mask_of_the_future_may_be_made_outside_of_the_model(old, new, ids):
    """Without one, it may be meant to find hidden words: those that it is given are asked for."""
    text = MASK_OUTSIDE.replace(old, new).replace("ids[:, 1:]", "ids") if old else MASK_OUTSIDE
    assert [found.id for found in read(text)] == ids


OF_A_CLASS = """
class Training:
    def __init__(self, net, words):
        self.net, self.words = net, words
        self.criterion = nn.CrossEntropyLoss(ignore_index=0)

    def loss_of(self, logits, wanted):
        logits = logits.view(-1, self.words)
        return self.criterion(logits, wanted.view(-1))

    def write(self, ids):
        logits = torch.softmax(self.net(ids), dim=-1)
        return logits[:, -1].argmax(-1)

    def step(self, ids, wanted):
        out = self.net(ids)
        return self.loss_of(out, wanted)


def sample(net, ids):
    scores = net(ids).softmax(-1)
    return torch.multinomial(scores[:, -1], 1)


def error(scores, wanted):
    return F.cross_entropy(scores, wanted)
"""


@pytest.mark.parametrize("more, said", [
    ("", []),
    ("\nprint(error(net(ids), wanted))", []),
    ("\nprint(error(net(ids).softmax(-1), wanted))", ["error"]),
    ("\ndef test(net, ids, y):\n    p = net(ids).softmax(-1)\n    return error(wanted=y, scores=p)", ["error"]),
    ("\ntraining = Training(net, 9)\nother.loss_of(net(ids).softmax(-1), wanted)", []),
    ("\nother.loss_of(net(ids).softmax(-1), wanted)", []),
])  # fmt: skip
def test_a_parameter_is_what_its_function_is_called_with(more, said):
    """And no local name of another function, whatever that is called."""
    assert [found.function for found in read(OF_A_CLASS + more)] == said
    assert {found.id for found in read(OF_A_CLASS + more)} == ({"T2"} if said else set())


def test_a_method_is_called_of_self_or_of_an_object_of_its_class():
    of_self = OF_A_CLASS.replace("self.loss_of(out,", "self.loss_of(out.softmax(-1),")
    before, call, after = OF_A_CLASS.partition("        return self.loss_of(out, wanted)\n")
    of_object = (
        before
        + "        return out\n"
        + after
        + ("training = Training(net, 9)\ntraining.loss_of(training.step(ids).softmax(-1), wanted)\n")
    )
    assert call
    for text in (of_self, of_object):
        assert [(found.id, found.function) for found in read(text)] == [("T2", "loss_of")]


def test_where_it_is():
    (found,) = read(SEQ2SEQ.replace("ignore_index=PAD_IDX", ""))
    assert (found.function, SEQ2SEQ.splitlines()[found.line - 1].split()[0]) == ("train", "criterion")
    assert "PAD_IDX = 1" in found.evidence


@pytest.mark.parametrize("text", ["def f(:", "", "x" * 10, "\x00"])
def test_what_is_no_python_shows_nothing(text):
    assert list(read(text)) == []


def test_a_long_line_is_quoted_in_whole_or_cut_where_that_is_seen():
    text = PADDED_IN_ONE_LINE
    for more in ("_of_a_table_of_words", "_of_a_name_that_goes_on_and_on_until_nobody_reads_it"):
        (found,) = [one for one in read(text.replace("WIDTH", f"width{more}"), []) if one.id == "T4"]
        assert found.evidence.endswith("padding_idx=3))." if len(more) < 30 else "…)."), found.evidence


PADDED_IN_ONE_LINE = """
import torch.nn as nn
def train(model, loader, words, WIDTH):
    model.table_of_words = nn.Embedding(words, WIDTH, padding_idx=3)
    criterion = nn.CrossEntropyLoss()
    for source, tgt in loader:
        logits = model(source, tgt[:, :-1])
        loss = criterion(logits.view(-1, words), tgt[:, 1:].reshape(-1))
        loss.backward()
"""


LIGHTNING = """
class LitGPT(pl.LightningModule):
    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.embed, self.head = nn.Embedding(vocab_size, d_model), nn.Linear(d_model, vocab_size)
        self.blocks = nn.TransformerEncoder(nn.TransformerEncoderLayer(d_model, 4, batch_first=True), 2)
        self.criterion = nn.CrossEntropyLoss(ignore_index=pad_id)

    def forward(self, ids):
        mask = nn.Transformer.generate_square_subsequent_mask(ids.size(1))
        return self.head(self.blocks(self.embed(ids), mask=mask))

    def training_step(self, batch, batch_idx):
        ids, tgt = batch
        logits = self(ids)
        loss = self.criterion(logits.view(-1, logits.size(-1)), tgt.view(-1))
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        ids, tgt = batch
        self.log("loss", F.cross_entropy(self.forward(ids).transpose(1, 2), tgt, ignore_index=0))
"""


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("", "", []),
        ("tgt.view(-1)", "ids.view(-1)", [("T13", "training_step")]),
        (
            *("return self.head(self.blocks(self.embed(ids), mask=mask))",),
            *("return F.softmax(self.head(self.blocks(self.embed(ids), mask=mask)), -1)",),
            [("T2", "training_step"), ("T2", "validation_step")],
        ),
        ("logits = self(ids)", "logits = self(ids).softmax(-1)", [("T2", "training_step")]),
        ("(ignore_index=pad_id)", "()", [("T4", "LitGPT")]),
        ("logits = self(ids)", "ids, tgt = ids[:, :-1], ids[:, 1:]\n        logits = self(ids)", []),
    ],
)
def test_a_module_of_lightning_calls_itself(old, new, found):
    assert old in LIGHTNING
    assert [(one.id, one.function) for one in read(LIGHTNING.replace(old, new) if old else LIGHTNING)] == found


TWICE_WRONG = """
import torch
from torch import nn

def train_model(model, batches, PAD=0):
    optimizer = torch.optim.Adam(model.parameters())
    criterion = nn.CrossEntropyLoss()
    for src, tgt in batches:
        scores = torch.softmax(model(src, tgt), -1)
        loss = criterion(scores.view(-1, scores.size(-1)), tgt.view(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

def plot(losses):
    print(losses)
"""


def test_a_function_of_which_the_text_tells_is_listed_once(tmp_path):
    """With all that is wrong in it, and not among what is no component."""
    (tmp_path / "learner.py").write_text(TWICE_WRONG)
    report = reported(tmp_path / "learner.py")
    assert [(result.name, result.ids) for result in report.results] == [("train_model", ["T2", "T4"])]
    assert report.ignored == ["plot (it shows or logs)"]


COLLATED = """
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence

PAD, FIRST, LAST = 1, 2, 3

def collate(pairs):
    rows = [torch.tensor([FIRST, *ids, LAST]) for ids in pairs]
    return pad_sequence(rows, batch_first=True, padding_value=1)

def train(model, loader, words):
    criterion = nn.CrossEntropyLoss(ignore_index=1)
    for tgt in loader:
        logits = model(tgt[:, :-1])
        criterion(logits.reshape(-1, words), tgt[:, 1:].reshape(-1)).backward()
"""
VOCABULARY = """
import torch.nn.functional as F

class Words:
    def __init__(self, words):
        self.ids = {"<unk>": 0, "<pad>": 1, "<s>": 2}
        self.ids.update({word: 3 + i for i, word in enumerate(words)})

def loss_of(model, batch, words):
    logits = model(batch[:, :-1])
    return F.cross_entropy(logits.transpose(1, 2), batch[:, 1:], ignore_index=1)
"""
TRAINED = """
import torch.nn as nn
from tokenizers.trainers import WordLevelTrainer

SPECIAL = ["[UNK]", "[PAD]", "[SOS]"]
trainer = WordLevelTrainer(special_tokens=SPECIAL)
criterion = nn.NLLLoss(ignore_index=1)
"""
PRETRAINED = """
import torch.nn as nn
from transformers import AutoTokenizer

name = "gpt2"
tokenizer = AutoTokenizer.from_pretrained(name)
tokenizer.pad_token = tokenizer.eos_token
batch = tokenizer(lines, padding=True, return_tensors="pt")
criterion = nn.CrossEntropyLoss(ignore_index=50256)
"""
OF_BERT = PRETRAINED.replace("gpt2", "bert-base-uncased").replace("50256", "0").replace("token.eos_token", "token")
FILLED = """
import torch.nn.functional as F

class Bytes:
    def __init__(self):
        self.special = {"<s>": 256, "<pad>": 0}
        self.pad_id = self.special["<pad>"]

def cut(ids, n):
    labels = ids[1:] + [0] * (n - len(ids))
    return ids[:-1] + [0] * (n - len(ids)), labels

def loss_of(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=0)
"""
PADDING = {
    "filled": FILLED,
    "collated": COLLATED,
    "vocabulary": VOCABULARY,
    "trained": TRAINED,
    "gpt2": PRETRAINED,
    "bert": OF_BERT,
}


@pytest.mark.parametrize("text", PADDING.values(), ids=PADDING)
def test_the_loss_ignores_what_the_file_pads_with(text):
    before, _, after = text.rpartition("ignore_index=")
    right, rest = after.split(")", 1)
    assert [found.id for found in read(text)] == []
    wrong = f"{before}ignore_index=7){rest}"
    (found,) = read(wrong)
    assert (found.id, "ignore_index" in wrong.splitlines()[found.line - 1]) == ("T5", True)
    assert f"ignores the id 7, and the file pads with {right} (line " in found.evidence


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (COLLATED, "padding_value=1", "padding_value=dataset.filler"),  # whatever that is
        (COLLATED, "    for tgt in loader:", "    for tgt in loader:\n        tgt[tgt == PAD] = 7"),
        (VOCABULARY, "def loss_of", "def padded(ids, n):\n    return ids + [7] * (n - len(ids))\n\ndef loss_of"),
        (VOCABULARY, '"<s>": 2}', '"<s>": 2}\n        self.others = {"<pad>": 7}'),
        (TRAINED, "(special_tokens=SPECIAL)", "()\nSRC_PAD_ID = 1\nmask = ids != SRC_PAD_ID"),
        (FILLED, "[0] * (n - len(ids))", "[filler] * (n - len(ids))"),
        (PRETRAINED, 'name = "gpt2"', 'name = "a/tokenizer"'),
        (PRETRAINED, "batch =", "labels = torch.where(labels == 50256, 7, labels)\nbatch ="),
    ],
)
def test_what_the_text_does_not_say_is_no_other_padding(text, old, new):
    assert old in text
    before, _, after = text.rpartition("ignore_index=")
    wrong = f"{before}ignore_index=7){after.split(')', 1)[1]}"
    assert [found.id for found in read(wrong)] == ["T5"]
    assert [found.id for found in read(wrong.replace(old, new))] == []


def test_what_sentences_are_filled_up_with_is_no_padding_of_the_tokenizer():
    text = FILLED.replace("ignore_index=0", "ignore_index=tokenizer.pad_id").replace(
        "def cut", "tokenizer = Bytes()\n\ndef cut"
    )
    assert [found.id for found in read(text)] == []
    (found,) = read(text.replace('"<pad>": 0', '"<pad>": 257'))
    assert (found.id, found.function) == ("T5", "loss_of")
    assert "ignores the id 257, and the file pads with 0 (line 13" in found.evidence


def test_a_mask_that_is_filled_up_is_no_sentence():
    kept = VOCABULARY + "\ndef mask_of(ids, n):\n    mask = [True] * len(ids) + [0] * (n - len(ids))\n    return mask\n"
    assert [found.id for found in read(kept)] == []
    assert [found.id for found in read(kept.replace("mask = ", "ids = "))] == ["T5"]


TWO_LANGUAGES = """
def train(config, loader, tokenizer_src, tokenizer_tgt):
    model = Transformer(tokenizer_src.get_vocab_size(), tokenizer_tgt.get_vocab_size())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    PAD
    criterion = nn.CrossEntropyLoss(ignore_index=IGNORED, label_smoothing=0.1)
    for batch in loader:
        logits = model(batch["src"], batch["tgt"])
        loss = criterion(logits.view(-1, tokenizer_tgt.get_vocab_size()), batch["label"].view(-1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""
ASKED = "tokenizer_{}.token_to_id('[PAD]')"


@pytest.mark.parametrize(("pad", "ignored"), [("", ASKED), (f"pad = {ASKED}", "pad"), ("", "{}_pad_id")])
def test_a_loss_of_the_target_that_asks_the_source_for_its_padding(pad, ignored):
    def text(side):
        other = "tgt_pad_id = config.tgt_pad_id" if "_id" in ignored else ""
        return TWO_LANGUAGES.replace("PAD", pad.format(side) or other or "pass", 1).replace(
            "IGNORED", ignored.format(side)
        )

    assert [found.id for found in read(text("tgt"))] == []
    (found,) = read(text("src"))
    assert (found.id, found.function, found.form) == ("T5", "train", OF_THE_SOURCE)
    assert " for the id of padding in the target, and not " in found.evidence


def test_a_source_without_a_target_has_the_padding_of_both():
    text = TWO_LANGUAGES.replace("PAD", "pass", 1).replace("IGNORED", ASKED.format("src"))
    assert [found.id for found in read(text.replace("tokenizer_tgt", "tokenizer"))] == []
