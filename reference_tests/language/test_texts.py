import pytest

from scratch_transformer.language import texts
from scratch_transformer.language.config import Data
from scratch_transformer.translation.errors import InputError


def test_a_text_is_split_between_lines_and_nothing_is_lost(tmp_path):
    file = tmp_path / "a.txt"
    lines = [f"line {i}\n" for i in range(100)]
    file.write_text("".join(lines))
    found = texts.read(Data(text=str(file), held_out=0.1, validation=0.2))
    parts = [found.training, found.validation, found.held_out]
    assert "".join(part for texts in parts for part in texts) == "".join(lines)
    assert all(text.endswith("\n") for part in parts for text in part)
    total = sum(map(len, lines))
    assert 0.08 * total <= sum(map(len, found.held_out)) <= 0.1 * total
    assert 0.18 * total <= sum(map(len, found.validation)) <= 0.2 * total


@pytest.mark.parametrize(
    ("length", "kept", "last"),
    [
        (0, ["ab\ncd\n", "ef\n"], []),
        (3, ["ab\ncd\n"], ["ef\n"]),
        (4, ["ab\ncd\n"], ["ef\n"]),
        (6, ["ab\n"], ["cd\n", "ef\n"]),
        (8, ["ab\n"], ["cd\n", "ef\n"]),
        (9, [], ["ab\ncd\n", "ef\n"]),
        (99, [], ["ab\ncd\n", "ef\n"]),
    ],
)
def test_the_last_characters(length, kept, last):
    assert texts.split(["ab\ncd\n", "ef\n"], length) == (kept, last)


def test_a_text_of_one_line_is_split_within_it():
    assert texts.split(["abcdef"], 2) == (["abcd"], ["ef"])


def test_a_folder_is_a_document_a_file(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "two.md").write_bytes(b"two\r\nlines\r\n")
    (tmp_path / "one.txt").write_bytes("\ufeffone é".encode())
    (tmp_path / "no.py").write_text("no")
    assert texts.documents(str(tmp_path)) == ["two\nlines\n", "one é"]


def test_files_of_their_own_to_validate_with_and_to_hold_out(tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.txt").write_text(f"{name}\n" * 9)
    paths = {key: str(tmp_path / f"{name}.txt") for key, name in (("text", "a"), ("valid", "b"), ("test", "c"))}
    found = texts.read(Data(**paths))
    assert (found.training, found.validation, found.held_out) == (["a\n" * 9], ["b\n" * 9], ["c\n" * 9])


def test_python_brings_a_text():
    found = texts.read(Data())
    assert found.where == "the chapters of Python's help"
    assert sum(map(len, found.training)) > 100_000
    assert any("lambda" in text for text in found.training)


def test_the_fingerprint_is_of_what_is_trained_on_and_what_is_not():
    one = texts.Texts(["a", "b"], ["c"], ["d"], "here")
    assert one.fingerprint() == texts.Texts(["a", "b"], ["c"], ["d"], "there").fingerprint()
    for other in ((["ab"], ["c"], ["d"]), (["a"], ["b", "c"], ["d"]), (["b", "a"], ["c"], ["d"])):
        assert texts.Texts(*other, "here").fingerprint() != one.fingerprint()


def test_what_cannot_be_read_is_said(tmp_path):
    (tmp_path / "latin.txt").write_bytes("é".encode("latin-1"))
    (tmp_path / "short.txt").write_text("a")
    (tmp_path / "empty").mkdir()
    for text, message in (
        (tmp_path / "none.txt", "cannot read .*none.txt: No such file"),
        (tmp_path / "latin.txt", "latin.txt: expected UTF-8, got"),
        (tmp_path / "empty", "has no text: expected files that end with .txt, .md, .rst"),
        (tmp_path / "short.txt", "too short, there is nothing left to"),
    ):
        with pytest.raises(InputError, match=message):
            texts.read(Data(text=str(text)))
