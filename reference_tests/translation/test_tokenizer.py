"""Tokenizers: nothing gets lost, special tokens are not to be had from a text, and the file comes back."""

import pytest

from scratch_transformer.translation import tokenizer
from scratch_transformer.translation.errors import InputError
from scratch_transformer.translation.tokenizer import Tokenizer

TEXTS = [
    "three hundred and forty-five thousand, six hundred",
    'Grüße, Wörter! "zitiert" (hier).',
    "dreihundertfünfundvierzig",
    "l'été à Paris",
]


@pytest.fixture(params=["word", "char", "bpe"])
def trained(request):
    return tokenizer.train(request.param, 100, TEXTS)


def test_a_text_comes_back(trained):
    for text in TEXTS:
        assert trained.decode(trained.encode(text)) == text
    assert trained.encode_all(TEXTS) == [trained.encode(text) for text in TEXTS]


def test_the_special_tokens_come_first(trained):
    assert trained.tokens(range(4)) == ["<pad>", "<unk>", "<bos>", "<eos>"]
    assert (trained.pad_id, trained.unk_id, trained.bos_id, trained.eos_id) == (0, 1, 2, 3)
    assert trained.tokens(trained.encode("")) == []


def test_a_text_cannot_contain_a_special_token(trained):
    assert not {0, 2, 3} & set(trained.encode("a <eos> <pad><bos>"))


def test_an_unknown_character_is_unk(trained):
    assert trained.unk_id in trained.encode("漢")
    assert "<unk>" in trained.decode(trained.encode("漢"))


def test_decoding_ends_before_eos_and_leaves_out_padding(trained):
    ids = trained.encode(TEXTS[0])
    decoded = trained.decode([trained.bos_id, *ids, trained.pad_id, trained.eos_id, *ids])
    assert decoded == TEXTS[0]
    assert trained.decode([]) == trained.decode([trained.eos_id]) == ""


def test_an_id_outside_the_vocabulary_is_refused(trained):
    with pytest.raises(ValueError, match=f"id {trained.vocab_size} is not in the vocabulary"):
        trained.tokens([trained.vocab_size])


def test_the_file_comes_back(trained, tmp_path):
    trained.save(tmp_path / "t.json")
    loaded = Tokenizer.load(tmp_path / "t.json")
    assert loaded.vocab_size == trained.vocab_size
    assert [loaded.encode(text) for text in [*TEXTS, "<eos>"]] == [trained.encode(text) for text in [*TEXTS, "<eos>"]]


@pytest.mark.parametrize("kind", ["word", "char", "bpe"])
def test_the_vocabulary_is_as_small_as_asked_for(kind):
    small = tokenizer.train(kind, 20, TEXTS)
    assert small.vocab_size == 20
    assert small.unk_id in small.encode(TEXTS[1])


def test_the_kinds():
    words, characters, pieces = (
        tokenizer.train(kind, 60, ["ab ab, ab abc"] * 3) for kind in ("word", "char", "bpe")
    )  # fmt: skip
    assert words.tokens(words.encode("ab, abc")) == ["▁ab", ",", "▁abc"]
    assert characters.tokens(characters.encode("ab, c")) == ["▁", "a", "b", ",", "▁", "c"]
    assert pieces.tokens(pieces.encode("ab bc")) == ["▁ab", "▁", "b", "c"]


def test_training_is_the_same_every_time():
    again = [tokenizer.train("bpe", 50, TEXTS * 5).library.to_str() for _ in range(3)]
    assert len(set(again)) == 1


def test_one_way_to_write_a_text():
    assert tokenizer.normalized("  e\N{COMBINING ACUTE ACCENT}t\N{NO-BREAK SPACE} \t e ") == "ét e"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read"),
        (b"", "expected a tokenizer"),
        (b"{}", "expected a tokenizer"),
        (b"\xff\xfe", "expected a tokenizer"),
    ],
)
def test_a_file_that_is_no_tokenizer(tmp_path, content, message):
    if content is not None:
        (tmp_path / "t.json").write_bytes(content)
    with pytest.raises(InputError) as caught:
        Tokenizer.load(tmp_path / "t.json")
    assert message in str(caught.value)
    assert "t.json" in str(caught.value)


def test_bytes_for_what_has_no_token(tmp_path):
    with_bytes = tokenizer.train("bpe", 300, TEXTS, byte_fallback=True)
    text = "six 漢字 🙂 Ünï <eos> <0x41> \N{LATIN SMALL LETTER L WITH STROKE}"
    assert with_bytes.vocab_size == 300 and with_bytes.decode(with_bytes.encode(text)) == text
    assert not {0, 1, 2, 3} & set(with_bytes.encode(text))
    assert with_bytes.tokens(with_bytes.encode("漢")) == ["▁", "<0xE6>", "<0xBC>", "<0xA2>"]
    assert with_bytes.tokens(range(296, 300)) == ["<0xFC>", "<0xFD>", "<0xFE>", "<0xFF>"]
    half = list(with_bytes.encode("漢"))[:-1]
    assert with_bytes.decode(half) == "��"  # what a model may say
    with_bytes.save(tmp_path / "t.json")
    assert Tokenizer.load(tmp_path / "t.json").encode(text) == with_bytes.encode(text)
    plain = tokenizer.train("bpe", 44, TEXTS)
    assert with_bytes.tokens(with_bytes.encode(TEXTS[0])) == plain.tokens(plain.encode(TEXTS[0]))


# ---- Vocabularies that others made ----


def like_gpt2():
    """Bytes under other names, one special token, the last."""
    from tokenizers import ByteLevelBPETokenizer

    library = ByteLevelBPETokenizer()
    library.train_from_iterator(TEXTS, vocab_size=300, special_tokens=[], show_progress=False)
    library.add_special_tokens(["<|endoftext|>"])
    return library._tokenizer


def like_bert():
    """Small letters, pieces with ##, unknown words, five special tokens; cuts and pads what is asked for alone."""
    from tokenizers import BertWordPieceTokenizer

    library = BertWordPieceTokenizer()
    library.train_from_iterator(TEXTS, vocab_size=120, show_progress=False)
    library.enable_truncation(4)
    library.enable_padding(length=4)
    return library._tokenizer


@pytest.mark.parametrize("made", [like_gpt2, like_bert])
def test_somebody_elses_tokenizer(made, tmp_path):
    """Its tokens come after ours; nothing of it is cut, padded, or taken for ours."""
    library = made()
    library.save(str(tmp_path / "t.json"))
    theirs = Tokenizer.load(tmp_path / "t.json")
    library.no_truncation()
    library.no_padding()
    assert theirs.vocab_size == library.get_vocab_size() + 4
    assert theirs.tokens(range(4)) == ["<pad>", "<unk>", "<bos>", "<eos>"]
    for text in TEXTS:
        ids = theirs.encode(text)
        expected = library.encode(text, add_special_tokens=False)
        assert [i - 4 for i in ids] == expected.ids and theirs.tokens(ids) == expected.tokens
        assert theirs.decode([theirs.bos_id, *ids, theirs.eos_id, 7]) == library.decode(expected.ids).strip()
        assert theirs.encode_all([text, text]) == [ids, ids]
    assert min(theirs.encode("<|endoftext|> <eos> [SEP] one")) > 0
    for number in (-1, theirs.vocab_size):
        with pytest.raises(ValueError, match="is not in the vocabulary"):
            theirs.tokens([number])


def test_what_is_unknown_to_it_is_unknown_to_us(tmp_path):
    like_bert().save(str(tmp_path / "t.json"))
    theirs = Tokenizer.load(tmp_path / "t.json")
    assert theirs.encode("漢") == [theirs.unk_id]
    assert theirs.decode([*theirs.encode("six"), theirs.unk_id]) == "six <unk>"


def test_without_a_decoder_the_words_stand_apart(tmp_path):
    from tokenizers import Tokenizer as Library
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    library = Library(WordLevel({"a": 0, "b": 1}, unk_token="?"))
    library.pre_tokenizer = Whitespace()
    library.save(str(tmp_path / "t.json"))
    assert (theirs := Tokenizer.load(tmp_path / "t.json")).decode(theirs.encode("b a")) == "b a"
    Library(WordLevel({}, unk_token="?")).save(str(tmp_path / "empty.json"))
    with pytest.raises(InputError, match="empty.json: has no token: expected a tokenizer that was trained"):
        Tokenizer.load(tmp_path / "empty.json")
