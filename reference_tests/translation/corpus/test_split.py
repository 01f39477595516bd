"""The split: seeded, without a pair in common, and never with a held-out pair in the training."""

import pytest

from scratch_transformer.translation import corpus
from scratch_transformer.translation.config import Data
from scratch_transformer.translation.errors import InputError


def tsv(folder, pairs):
    path = folder / "c.tsv"
    path.write_text("".join(f"{a}\t{b}\n" for a, b in pairs), encoding="utf-8")
    return str(path)


PAIRS = [(f"s{i}", f"t{i}") for i in range(100)]


def test_the_parts_have_no_pair_in_common(tmp_path):
    read = corpus.read(Data(tsv=tsv(tmp_path, PAIRS * 3)))
    assert (len(read.training), len(read.validation), len(read.held_out)) == (85, 5, 10)
    assert sorted([*read.training, *read.validation, *read.held_out]) == sorted(PAIRS)


def test_the_seed_alone_decides(tmp_path):
    path = tsv(tmp_path, PAIRS)
    first, again, other = (corpus.read(Data(tsv=path, seed=seed)) for seed in (3, 3, 4))
    assert list(first.training) == list(again.training) and first.held_out == again.held_out
    assert first.fingerprint == again.fingerprint != other.fingerprint
    assert first.held_out != other.held_out


def test_the_sizes_can_be_chosen(tmp_path):
    read = corpus.read(Data(tsv=tsv(tmp_path, PAIRS), held_out=20, validation=30, pairs=7))
    assert (len(read.training), len(read.validation), len(read.held_out)) == (7, 30, 20)


def test_what_made_no_pair_is_kept(tmp_path):
    (tmp_path / "c.tsv").write_text("a\tb\nx\n" + "".join(f"{a}\t{b}\n" for a, b in PAIRS))
    assert corpus.read(Data(tsv=str(tmp_path / "c.tsv"))).skipped == [
        f"{tmp_path / 'c.tsv'}, line 2: has 1 columns, not a source, a tab and a target"
    ]


def test_texts_are_written_in_one_way(tmp_path):
    read = corpus.read(Data(tsv=tsv(tmp_path, [(f" s  {i} ", "e\N{COMBINING ACUTE ACCENT}") for i in range(30)])))
    assert {target for _, target in read.training} == {"é"}
    assert all(source == " ".join(source.split()) for source, _ in read.training)


@pytest.mark.parametrize(
    ("content", "message"),
    [("", "holds no pair of sentences"), ("x\ny\n", "holds no pair of sentences: .*line 1: has 1 columns")],
)
def test_no_pair_at_all(tmp_path, content, message):
    (tmp_path / "c.tsv").write_text(content)
    with pytest.raises(InputError, match=message):
        corpus.read(Data(tsv=str(tmp_path / "c.tsv")))


def test_too_few_pairs(tmp_path):
    with pytest.raises(InputError, match="only 2 different pairs, too few to hold out 1, keep 1 for validation"):
        corpus.read(Data(tsv=tsv(tmp_path, PAIRS[:2])))
    with pytest.raises(InputError, match="only 100 different pairs, too few to hold out 99, keep 5"):
        corpus.read(Data(tsv=tsv(tmp_path, PAIRS), held_out=99))


def test_numbers():
    read = corpus.read(Data(below=200, pairs=20))
    assert (len(read.training), len(read.validation), len(read.held_out)) == (20, 10, 20)
    assert len({*read.training, *read.validation, *read.held_out}) == 50


def test_the_fingerprint_is_that_of_the_pairs(tmp_path):
    first = corpus.read(Data(tsv=tsv(tmp_path, PAIRS)))
    assert first.fingerprint == corpus.read(Data(tsv=tsv(tmp_path, PAIRS))).fingerprint
    changed = corpus.read(Data(tsv=tsv(tmp_path, [*PAIRS[:-1], ("s99", "T99")])))
    assert first.fingerprint != changed.fingerprint


def test_files_of_ones_own_to_validate_with_and_to_hold_out(tmp_path):
    def write(name, numbers):
        (tmp_path / name).write_text("".join(f"a {i}\tb {i}\n" for i in numbers) + "no pair\n")
        return str(tmp_path / name)

    tsv, valid, test = write("c.tsv", range(40)), write("v.tsv", range(35, 50)), write("t.tsv", range(48, 60))
    pairs = lambda numbers: [(f"a {i}", f"b {i}") for i in numbers]  # noqa: E731
    both = corpus.read(Data(tsv=tsv, valid=valid, test=test))
    assert sorted(both.training) == sorted(pairs(range(35)))
    assert (both.validation, both.held_out) == (pairs(range(35, 48)), pairs(range(48, 60)))
    assert [line.rpartition("/")[2] for line in both.skipped] == [
        *(f"{name}, line {n}: has 1 columns, not a source, a tab and a target" for name, n in
          (("c.tsv", 41), ("t.tsv", 13), ("v.tsv", 16))),
        "2 pairs for validation that are validated with or held out too",
        "5 pairs for training that are validated with or held out too",
    ]  # fmt: skip
    one = corpus.read(Data(tsv=tsv, test=test))
    assert one.held_out == pairs(range(48, 60)) and len(one.validation) == 2 and len(one.training) == 38
    with pytest.raises(InputError, match="no pair is left for training: all are in data.valid or data.test too"):
        corpus.read(Data(tsv=tsv, valid=tsv))
