import pytest

from scratch_transformer.language import vocabulary
from scratch_transformer.language.vocabulary import Vocabulary
from scratch_transformer.translation.errors import InputError

TEXT = "To be, or not to be:\n\n  that is   the question. " * 20
SIZE = 280


@pytest.fixture(scope="module")
def words():
    return vocabulary.train(SIZE, [TEXT])


@pytest.mark.parametrize("text", [TEXT, "", " ", "\n\t\r", "Ünïcode 🙂 \u0000", "a <|endoftext|> inside", "日本語"])
def test_every_text_comes_back_as_it_was(words, text):
    ids = words.encode(text)
    assert words.decode(ids) == text
    assert words.eos_id not in ids
    assert words.encode_all([text, TEXT])[0] == ids


def test_pieces_of_words_are_learned(words):
    assert words.vocab_size == SIZE
    assert len(words.encode(TEXT)) < 0.6 * len(TEXT)
    assert vocabulary.train(257, [TEXT]).vocab_size == 257
    assert len(vocabulary.train(257, [TEXT]).encode(TEXT)) == len(TEXT)


def test_a_text_ends_where_its_end_is(words):
    ids = words.encode("one")
    assert words.decode([*ids, words.eos_id, *ids]) == "one"


def test_saved_and_loaded_it_is_the_same(words, tmp_path):
    words.save(tmp_path / "tokenizer.json")
    loaded = Vocabulary.load(tmp_path / "tokenizer.json")
    assert (loaded.vocab_size, loaded.eos_id, loaded.encode(TEXT)) == (SIZE, words.eos_id, words.encode(TEXT))


def test_what_is_no_vocabulary_is_refused(tmp_path):
    import tokenizers

    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(InputError, match="a.json: expected a tokenizer, got"):
        Vocabulary.load(tmp_path / "a.json")
    tokenizers.Tokenizer(tokenizers.models.BPE()).save(str(tmp_path / "b.json"))
    with pytest.raises(InputError, match=r"b.json: the vocabulary has no token for the end of a text: expected one of"):
        Vocabulary.load(tmp_path / "b.json")
