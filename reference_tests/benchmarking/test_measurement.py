"""Measurements are kept with date and machine, whole or not at all."""

import json

import pytest

from scratch_transformer.benchmarking import measurement, profile


def test_a_measurement_is_kept_with_date_and_machine(tmp_path):
    with measurement.kept("How fast, and why", tmp_path) as values:
        values["rate"] = 2.5
    (path,) = tmp_path.iterdir()
    document = json.loads(path.read_text(encoding="utf-8"))
    assert path.name == f"{document['date'][:10]}-how-fast-and-why.json"
    assert document["values"] == {"rate": 2.5}
    assert document["environment"].keys() >= {"processor", "torch", "threads", "processors", "used by others"}


def test_nothing_is_kept_without_a_folder_without_values_or_after_an_error(tmp_path):
    with measurement.kept("x", None) as values:
        values["a"] = 1
    with measurement.kept("x", tmp_path):
        pass
    with pytest.raises(ZeroDivisionError), measurement.kept("x", tmp_path) as values:
        values.update(a=1, b=1 / 0)
    assert not any(tmp_path.iterdir())


def test_parts_of_one_day_are_one_document(tmp_path):
    for part in ("first", "second"):
        with measurement.kept("x", tmp_path, by_parts=True) as values:
            values[part] = 1
    (path,) = tmp_path.iterdir()
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["values"] == {"first": 1, "second": 1}
    path.write_text(json.dumps(document | {"date": "2026-01-02T03:04:05+00:00"}))
    with measurement.kept("x", tmp_path, by_parts=True) as values:
        assert values == {}  # of another day


def test_the_documents_of_a_subject_are_found_the_newest_first(tmp_path):
    for subject, date in (("a", "2026-01-02"), ("a", "2026-02-01"), ("b", "2027-01-01")):
        document = {"schema": measurement.SCHEMA, "subject": subject, "date": date}
        (tmp_path / f"{date}-{subject}.json").write_text(json.dumps(document))
    (tmp_path / "other.json").write_text('{"schema": "another"}')
    assert measurement.latest("a", tmp_path)["date"] == "2026-02-01"
    assert measurement.latest("c", tmp_path) is None
    assert [document["date"] for document in measurement.every("a", tmp_path)] == ["2026-02-01", "2026-01-02"]


def test_the_profile_is_kept(tmp_path, capsys):
    profile.main(["--shape", "1", "2", "512", "16", "--keep", str(tmp_path)])
    values = measurement.latest(profile.SUBJECT, tmp_path)["values"]
    assert values["shape"] == [1, 2, 512, 16] and "aten::bmm" in values["shares"]
    assert f"{values['products'] / 1e9:.0f} GFLOP/s" in capsys.readouterr().out
