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


def test_somebody_elses_tokenizer_is_refused(tmp_path):
    from tokenizers import Tokenizer as Library
    from tokenizers.models import WordLevel

    Library(WordLevel({"<unk>": 0, "a": 1}, unk_token="<unk>")).save(str(tmp_path / "t.json"))
    with pytest.raises(InputError, match="is no tokenizer of this program: expected <pad> <unk> <bos> <eos>"):
        Tokenizer.load(tmp_path / "t.json")
