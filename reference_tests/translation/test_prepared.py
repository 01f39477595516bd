"""A corpus in files of the run: the same training, and no other data once it is there."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from reference_tests.translation import tiny
from scratch_transformer.translation import checkpoint, corpus, files, prepared
from scratch_transformer.translation.config import Data
from scratch_transformer.translation.corpus.source import Chosen
from scratch_transformer.translation.errors import InputError
from scratch_transformer.translation.train import resume


def write_pairs(path):
    """Pairs of all lengths, some twice, some that are none, and some that are overlong."""
    lines = [f"{'a ' * (i % 9)}s{i}\t{'b ' * (i % 5)}t{i}\n" for i in range(90)]
    path.write_text("".join([*lines, "no pair\n", *lines[:20], "a " * 30 + "\tb\n"]))
    return str(path)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A run with its pairs in memory and one with them on disk."""
    folder = tmp_path_factory.mktemp("runs")
    tsv = write_pairs(folder / "c.tsv")
    said = [tiny.run(folder / name, data__tsv=tsv, data__on_disk=name == "disk") for name in ("memory", "disk")]
    return folder, *said


def without(content, *names):
    return {name: file for name, file in content.items() if name not in names and not name.startswith("data/")}


def test_the_training_is_the_same(both):
    folder, in_memory, on_disk = both
    memory, disk = (without(tiny.content(folder / name), "config.json") for name in ("memory", "disk"))
    assert memory == disk and "checkpoints/step-00000006/model.safetensors" in memory
    path = str(folder / "disk")
    assert [
        line.replace(path, str(folder / "memory")) for line in on_disk if not line.startswith(("learn", "writ"))
    ] == in_memory
    assert any("1 pairs have more than data.max_length = 16 tokens: dropped" in line for line in on_disk)


def test_what_is_mapped_is_what_is_in_memory(both):
    folder, *_ = both
    kept = prepared._stored(checkpoint.read_config(folder / "disk"), folder / "disk")
    read = corpus.read(Data(tsv=str(folder / "c.tsv"), held_out=8, validation=9, pairs=120, max_length=16))
    assert isinstance(kept.training.sources.ids, np.memmap) and kept.training.sources.ids.dtype == np.uint16
    both_sides = zip(kept.training.sources, kept.training.targets, strict=True)
    pairs = [(kept.source.decode(source), kept.target.decode(target)) for source, target in both_sides]
    assert pairs == [pair for pair in read.training if len(pair[0]) < 40]
    assert kept.held_out == read.held_out and kept.fingerprint == read.fingerprint
    assert kept.validation.pairs == read.validation


def test_once_the_files_are_there_nothing_else_is_read(both, tmp_path):
    tsv = write_pairs(tmp_path / "c.tsv")
    tiny.run(tmp_path / "run", data__tsv=tsv, data__on_disk=True, training__steps=4)
    Path(tsv).unlink()
    resume(tmp_path / "run", say=print, **{"training.steps": 6})
    kept, expected = (
        without(tiny.content(run), "config.json", "skipped.txt") for run in (tmp_path / "run", both[0] / "disk")
    )
    assert kept == expected
    with pytest.raises(InputError, match=r"run/data has the data of this run, and no other are read: expected no data"):
        resume(tmp_path / "run", say=print, **{"training.steps": 9, "data.tsv": "other.tsv"})


def test_what_a_kill_left_half_done_is_made_anew(tmp_path):
    tsv = write_pairs(tmp_path / "c.tsv")
    tiny.run(tmp_path / "whole", data__tsv=tsv, data__on_disk=True)
    shutil.copytree(tmp_path / "whole", tmp_path / "run")
    for name in ("checkpoints", "tensorboard"):
        shutil.rmtree(tmp_path / "run" / name)
    (tmp_path / "run" / "data").rename(tmp_path / "run" / ".new-data")
    (tmp_path / "run" / ".new-data" / "source.ids").write_bytes(b"x")
    resume(tmp_path / "run", say=print)
    assert tiny.content(tmp_path / "run") == tiny.content(tmp_path / "whole")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("target.ids", b"ab", r"target.ids: is damaged: it has 1 tokens; without .*/data it is made anew"),
        ("source.ids", b"", r"cannot read .*source.ids: .*; without .*/data it is made anew"),
        ("source.ids", None, r"cannot read .*source.ids: .*No such file"),
        ("lengths.npy", b"", r"cannot read .*lengths.npy: "),
        ("data.json", b"{}", r"data.json: is nothing that this program wrote: without .*/data it is made anew"),
    ],
)
def test_damaged_files_are_named(both, tmp_path, name, content, message):
    run = shutil.copytree(both[0] / "disk", tmp_path / "run")
    (run / "data" / name).unlink() if content is None else (run / "data" / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        resume(run, say=print, **{"training.steps": 8})
    shutil.rmtree(run / "data")
    resume(run, say=print, **{"training.steps": 8})


def test_another_vocabulary_is_noticed(both, tmp_path):
    run = shutil.copytree(both[0] / "disk", tmp_path / "run")
    shutil.rmtree(run / "checkpoints")
    files.write_json(run / "source_tokenizer.json", json.loads((run / "source_tokenizer.json").read_text()) | {"a": 1})
    with pytest.raises(InputError, match="source_tokenizer.json: is damaged or another file than the one that was"):
        resume(run, say=print)


def test_a_vocabulary_is_learned_from_some_pairs_where_there_are_many(tmp_path, monkeypatch):
    """One in three, of 90 less those that are held out, where 25 are enough."""
    learned = []
    train = prepared.tokenizer.train
    monkeypatch.setattr(prepared, "LEARN", 25)
    monkeypatch.setattr(
        prepared.tokenizer,
        "train",
        lambda kind, size, texts, *rest: train(kind, size, learned.extend(texts) or learned, *rest),
    )
    tiny.run(tmp_path / "run", data__tsv=write_pairs(tmp_path / "c.tsv"), training__steps=1)
    assert len([text for text in learned if "s" in text]) == 25


def test_a_corpus_that_changes_while_it_is_read(tmp_path):
    found = [("a", "b"), ("c", "d"), "no pair", ("e", "f")]
    chosen = Chosen(lambda: found, np.array([True, False, True]))
    assert list(chosen) == [("a", "b"), ("e", "f")] and len(chosen) == 2
    del found[-1]
    with pytest.raises(InputError, match="the data have changed while they were read: they have fewer pairs now"):
        list(chosen)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pipe with a name")
def test_a_pipe_is_read_once(tmp_path):
    import os
    import threading

    os.mkfifo(tmp_path / "pipe")
    text = Path(write_pairs(tmp_path / "c.tsv")).read_text()
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_text(text))
    writer.start()
    from_pipe, from_file = (corpus.read(Data(tsv=str(tmp_path / name))) for name in ("pipe", "c.tsv"))
    writer.join()
    assert list(from_pipe.training) == list(from_file.training) and from_pipe.fingerprint == from_file.fingerprint
