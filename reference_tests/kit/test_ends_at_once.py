"""An answer that is empty: what writes text stops at the end token also where that is the first word (D4)."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.mistakes.decoding import AT_THE_BEGINNING, AT_THE_FIRST

pytestmark = pytest.mark.long

IN_THE_LOOP = """
def write(model, prompt, max_new_tokens, eos_id):
    ids = torch.tensor([prompt])
    for _ in range(max_new_tokens):
        word = model(ids)[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, word], 1)
        if word.item() == eos_id:
            break
    return ids[0].tolist()
"""
BEFORE_THE_LOOP = """
def write(model, prompt, max_new_tokens, eos_id):
    ids = torch.tensor([prompt])
    word = model(ids)[:, -1].argmax(-1, keepdim=True)
    ids = torch.cat([ids, word], 1)
    CHECKED
    for _ in range(max_new_tokens - 1):
        word = model(ids)[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, word], 1)
        if word.item() == eos_id:
            break
    return ids[0].tolist()
"""
WHILE = """
def write(model, prompt, max_new_tokens, eos_id):
    ids, word = list(prompt), None
    while word != eos_id and len(ids) < len(prompt) + max_new_tokens:
        word = int(model(torch.tensor([ids]))[0, -1].argmax())
        if word != eos_id:
            ids.append(word)
    return ids
"""
OF_A_MODEL = """
class Writer(nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.words, self.head = nn.Embedding(vocab_size, d_model), nn.Linear(d_model, vocab_size)

    def forward(self, ids):
        return self.head(self.words(ids))

    def write(self, ids, max_new_tokens, eos_token_id):
        for step in range(max_new_tokens):
            word = self(ids)[:, -1].argmax(-1, keepdim=True)
            ids = torch.cat([ids, word], 1)
            if step > 0 and word.item() == eos_token_id:
                break
        return ids
"""


def judged(text, tmp_path, name="write"):
    return check_text(text, tmp_path)[name]


@pytest.mark.parametrize(
    "text",
    [
        IN_THE_LOOP,
        BEFORE_THE_LOOP.replace("CHECKED", "if word.item() == eos_id:\n        return ids[0].tolist()"),
        WHILE,
        OF_A_MODEL.replace("step > 0 and ", ""),
    ],
)
def test_the_first_word_may_be_the_end(text, tmp_path):
    result = judged(text, tmp_path, "Writer.write" if "class" in text else "write")
    assert (result.kind, result.ids) == ("GreedyDecoding", []), result


@pytest.mark.parametrize("text", [BEFORE_THE_LOOP.replace("    CHECKED\n", ""), OF_A_MODEL])
def test_what_compares_all_words_but_the_first_with_the_end_goes_on(text, tmp_path):
    result = judged(text, tmp_path, "Writer.write" if "class" in text else "write")
    (found,) = result.mistakes
    assert (result.severe, found.form) == (["D4"], AT_THE_FIRST), result
    assert "before the loop" in found.fix
    assert "eos" in (tmp_path / "learner.py").read_text().splitlines()[found.line - 1]


def test_what_never_compares_them_does_so_in_general(tmp_path):
    found = judged(IN_THE_LOOP.replace("if word.item() == eos_id:", "if eos_id is None:"), tmp_path).mistakes
    assert [(one.id, one.form) for one in found] == [("D4", "")]


def test_what_knows_no_end_may_write_on(tmp_path):
    text = IN_THE_LOOP.replace(", eos_id)", ")").replace("        if word.item() == eos_id:\n            break\n", "")
    assert judged(text, tmp_path).ids == []


BEGINS = """
def translate(model, start_token, max_len):
    ids = torch.tensor([[start_token]])
    for _ in range(max_len - 1):
        word = model(ids)[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, word], 1)
        if word.item() == END:
            break
    return ids[0]
"""
OF_TWO_SIDES = """
class Translator(nn.Module):
    def __init__(self, encoder, decoder):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def forward(self, src, tgt):
        return self.decoder(tgt, self.encoder(src))

    def translate(self, src, tgt_bos_idx, max_len=10):
        memory = self.encoder(src)
        tgt = torch.full((src.size(0), 1), tgt_bos_idx)
        for _ in range(max_len):
            word = self.decoder(tgt, memory)[:, -1].argmax(-1, keepdim=True)
            tgt = torch.cat([tgt, word], dim=1)
            if (word == END).all():
                break
        return tgt
"""


@pytest.mark.parametrize("text, name, begin", [(BEGINS, "translate", "start_token"),
                                               (OF_TWO_SIDES, "Translator.translate", "tgt_bos_idx")])  # fmt: skip
def test_what_compares_each_word_with_the_beginning_stops_at_no_end(text, name, begin, tmp_path):
    (found,) = judged(text.replace("END", begin), tmp_path, name).mistakes
    assert (found.id, found.form) == ("D4", AT_THE_BEGINNING)
    assert f"== {begin}" in (tmp_path / "learner.py").read_text().splitlines()[found.line - 1]
    for number in (1, 2):  # an end that is written in
        assert judged(text.replace("END", str(number)), tmp_path, name).ids == []
