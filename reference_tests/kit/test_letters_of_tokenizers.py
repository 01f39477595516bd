"""Tokenizers of letters, made of a text, of its letters, of a table, or of nothing: every letter has its own number."""

import pytest

from reference_tests.kit.learners.checked import check_text, reported, time_to_look

OF_A_TEXT = """
class Tokenizer:
    def __init__(self, corpus):
        self.letters = sorted(set(corpus))
        self.ids = {letter: i for i, letter in enumerate(self.letters)}

    def encode(self, text):
        return [self.ids[c] for c in text]

    def decode(self, ids):
        return "".join(self.letters[i] for i in ids)
"""
OF_ITS_LETTERS = """
class Alphabet:
    def __init__(self, chars):
        self.stoi = {c: i for i, c in enumerate(chars, 1)}
        self.itos = {i: c for c, i in self.stoi.items()}

    def encode(self, text):
        ids = []
        for letter in text:
            ids.append(self.stoi.get(letter, 0))
        return torch.tensor(ids)

    def decode(self, ids):
        return "".join([self.itos[int(i)] for i in ids])
"""
OF_A_TABLE = """
class Letters:
    def __init__(self, vocab):
        self.vocab = vocab
        self.back = {i: c for c, i in self.vocab.items()}

    def encode(self, s):
        return [self.vocab[c] for c in list(s)]

    def decode(self, ids):
        return "".join(map(self.back.get, ids))
"""
WRITTEN_IN = """
class LowerCase:
    def __init__(self):
        self.vocabulary = list(" abcdefghijklmnopqrstuvwxyz")

    def encode(self, text):
        return [self.vocabulary.index(c) for c in text]

    def decode(self, ids):
        return "".join([self.vocabulary[i] for i in ids])
"""
LEARNED = """
class Learning:
    def __init__(self):
        self.ids = {}

    def fit(self, text):
        for c in text:
            self.ids.setdefault(c, len(self.ids))

    def encode(self, text):
        return [self.ids[c] for c in text]

    def decode(self, ids):
        letters = list(self.ids)
        return "".join(letters[i] for i in ids)
"""
WITH_ENDS = """
class WithEnds:
    def __init__(self, vocab=None):
        self.vocab = vocab or {"<s>": 0, "</s>": 1}

    def build_vocab(self, texts):
        for text in texts:
            for c in sorted(set(text)):
                self.vocab.setdefault(c, len(self.vocab))

    def encode(self, text, adds_ends=True):
        ids = [self.vocab["<s>"]] if adds_ends else []
        for c in text:
            ids.append(self.vocab[c])
        return ids + [self.vocab["</s>"]] if adds_ends else ids

    def decode(self, ids):
        back = {i: c for c, i in self.vocab.items()}
        return "".join(back[i] for i in ids if i > 1)
"""
OF_EITHER = """
class OfEither:
    def __init__(self, vocab=None, corpus=None):
        if corpus is None and vocab is None:
            raise ValueError("neither a corpus nor a vocabulary")
        self.letters = vocab or sorted(set(corpus))

    def encode(self, text):
        return [self.letters.index(c) for c in text]

    def decode(self, ids):
        return "".join(self.letters[i] for i in ids)
"""
ALL = {"Tokenizer": OF_A_TEXT, "Alphabet": OF_ITS_LETTERS, "Letters": OF_A_TABLE, "LowerCase": WRITTEN_IN,
       "Learning": LEARNED, "WithEnds": WITH_ENDS, "OfEither": OF_EITHER}  # fmt: skip


@pytest.mark.parametrize("name", ALL)
def test_letters_have_numbers_that_give_the_text_again(name, tmp_path):
    with time_to_look(1):
        result = check_text(ALL[name], tmp_path)[name]
    assert (result.kind, result.verdict, result.ids) == ("LetterTokenizer", "matches the builtin", [])


@pytest.mark.parametrize(("name", "old", "new"), [
    *((name, '"".join', '" ".join') for name in ALL),
    ("Tokenizer", "self.letters[i] for i in ids", "self.letters[i] for i in ids[1:]"),
])  # fmt: skip
def test_a_text_that_is_another_behind_it_is_named(name, old, new, tmp_path):
    assert old in ALL[name]
    result = check_text(ALL[name].replace(old, new), tmp_path)[name]
    assert result.severe == ["W4"]


def test_two_letters_of_one_number_are_not_called_right(tmp_path):
    result = check_text(OF_A_TEXT.replace("enumerate(self.letters)}", "enumerate(self.letters)} | {'t': 1}"), tmp_path)
    assert result["Tokenizer"].verdict not in ("matches the builtin", "harmless deviation")


def test_words_are_no_letters(tmp_path):
    words = OF_A_TEXT.replace("set(corpus)", "set(corpus.split())").replace("for c in text", "for c in text.split()")
    assert check_text(words, tmp_path) == {}


def test_what_nobody_knows_how_to_teach_letters_is_no_component(tmp_path):
    (tmp_path / "learner.py").write_text(LEARNED.replace("fit(self", "letters_of(self"))
    report = reported(tmp_path / "learner.py")
    assert (report.results, report.ignored) == ([], ["Learning (of a tokenizer)"])


def test_the_method_that_learns_letters_is_not_told_of(tmp_path):
    (tmp_path / "learner.py").write_text(LEARNED)
    assert reported(tmp_path / "learner.py").ignored == []
