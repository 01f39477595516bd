"""Files that are whole or not there."""

import os
from pathlib import Path

import pytest

from scratch_transformer.files import check_writable, write


def test_a_file_is_written_and_replaced(tmp_path):
    target = tmp_path / "a.json"
    for text in ("first", "zweitens: ‖x‖∞"):
        check_writable(target)
        write(target, text)
        assert target.read_text(encoding="utf-8") == text
    assert list(tmp_path.iterdir()) == [target]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "a.json"
    write(target, "old")
    with pytest.raises(UnicodeEncodeError):
        write(target, "new \ud800")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_checking_leaves_no_trace(tmp_path):
    check_writable(tmp_path / "new.json")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_is_found_out(tmp_path):
    with pytest.raises(IsADirectoryError):
        check_writable(tmp_path)
    with pytest.raises(FileNotFoundError):
        check_writable(tmp_path / "nowhere" / "a.json")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the administrator may write everywhere")
@pytest.mark.parametrize("read_only", ["file", "folder"])
def test_permissions_are_respected(read_only, tmp_path):
    target = tmp_path / "a.json"
    target.touch()
    (target if read_only == "file" else tmp_path).chmod(0o500)
    with pytest.raises(PermissionError):
        check_writable(target)
    tmp_path.chmod(0o700)


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="no symbolic links here")
def test_a_symbolic_link_stays_one(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)
    write(link, "text")
    assert link.is_symlink()
    assert target.read_text() == "text"


@pytest.mark.skipif(not Path("/dev/null").exists(), reason="no /dev/null here")
def test_a_device_is_written_to_and_not_replaced():
    check_writable("/dev/null")
    write("/dev/null", "text")
    assert not Path("/dev/null").is_file()
