"""Files: whole or not there, and said what is wrong with them."""

import pytest
import torch

from scratch_transformer.translation import files
from scratch_transformer.translation.errors import InputError


def test_writing_replaces_at_once_and_leaves_nothing_else(tmp_path):
    files.write_bytes(tmp_path / "a", b"old")
    files.write_bytes(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    files.write_bytes(tmp_path / "a", b"old")

    def no_space(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", no_space)
    with pytest.raises(InputError, match="cannot write .*a: No space left"):
        files.write_bytes(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_parts_are_removed(tmp_path):
    (tmp_path / ".a.123.part").touch()
    (tmp_path / "a.part").touch()
    files.remove_parts(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["a.part"]


def test_a_removed_folder_leaves_nothing(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    files.remove_folder(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 10**5])
def test_what_is_no_json(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.json: expected JSON, got "):
        files.read_json(tmp_path / "a.json")


def test_tensors_come_back(tmp_path):
    tensors = {"a": torch.randn(3, 5).T, "b": torch.arange(4)}
    files.write_bytes(tmp_path / "t", files.tensors_to_bytes(tensors))
    loaded = files.read_tensors(tmp_path / "t", files.digest(tmp_path / "t"))
    assert loaded.keys() == tensors.keys()
    assert all(torch.equal(loaded[name], tensors[name]) for name in tensors)


def test_damaged_tensors(tmp_path):
    content = files.tensors_to_bytes({"a": torch.zeros(30)})
    (tmp_path / "t").write_bytes(content)
    checksum = files.digest(tmp_path / "t")
    for damaged in (content[:-1], content[:-1] + b"\1", b""):
        (tmp_path / "t").write_bytes(damaged)
        with pytest.raises(InputError, match="t: is damaged or another file than the one that was saved"):
            files.read_tensors(tmp_path / "t", checksum)
    for foreign in (content[:-1], content[:20], b"", b"\x80\x02}q\x00.", b"PK\3\4" + bytes(40)):
        (tmp_path / "t").write_bytes(foreign)
        with pytest.raises(InputError, match="t: expected a safetensors file, got "):
            files.read_tensors(tmp_path / "t")
    with pytest.raises(InputError, match="cannot read .*nowhere: there is no such file"):
        files.read_tensors(tmp_path / "nowhere")
