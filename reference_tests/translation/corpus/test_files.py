"""Text files as pairs; lines that make none are reported with their number."""

import pytest

from scratch_transformer.translation.corpus.files import read_aligned, read_tsv
from scratch_transformer.translation.errors import InputError


def written(folder, name, content):
    path = folder / name
    path.write_bytes(content)
    return str(path)


def test_a_pair_a_line(tmp_path):
    path = written(tmp_path, "a.tsv", "\ufeffone\teins\r\ntwo\tzwei\nthree\u2028x\tdrei".encode())
    assert list(read_tsv(path)) == [("one", "eins"), ("two", "zwei"), ("three\u2028x", "drei")]


def test_lines_that_make_no_pair(tmp_path):
    path = written(tmp_path, "a.tsv", b"\n one\t\n\tzwei\nno tab\na\tb\tc\n\xff\tx\ngood\tgut\n")
    *reports, pair = read_tsv(path)
    assert pair == ("good", "gut")
    assert reports == [
        f"{path}, line 1: is empty",
        f"{path}, line 2: the target is empty",
        f"{path}, line 3: the source is empty",
        f"{path}, line 4: has 1 columns, not a source, a tab and a target",
        f"{path}, line 5: has 3 columns, not a source, a tab and a target",
        f"{path}, line 6: is not UTF-8",
    ]


def test_aligned_files(tmp_path):
    sources = written(tmp_path, "a.en", b"one\n\nthree\n\xff\nfive\n")
    targets = written(tmp_path, "a.de", b"eins\nzwei\n \nvier\nf\xc3\xbcnf")
    assert list(read_aligned(sources, targets)) == [
        ("one", "eins"),
        f"{sources}, line 2: the source is empty",
        f"{targets}, line 3: the target is empty",
        f"{sources}, line 4: is not UTF-8",
        ("five", "fünf"),
    ]


def test_aligned_files_have_as_many_lines(tmp_path):
    sources, targets = written(tmp_path, "a.en", b"a\nb\n"), written(tmp_path, "a.de", b"a\n")
    with pytest.raises(InputError, match=r"a\.en has 2 lines and .*a\.de 1: expected as many"):
        list(read_aligned(sources, targets))


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match="cannot read .*nowhere.tsv: No such file"):
        list(read_tsv(str(tmp_path / "nowhere.tsv")))
    with pytest.raises(InputError, match="cannot read .*: Is a directory"):
        list(read_tsv(str(tmp_path)))
