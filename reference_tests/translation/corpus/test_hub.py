"""A data set in the hub's format, from a local copy."""

import logging
from pathlib import Path

import pytest

from scratch_transformer.translation.corpus.hub import read_hub
from scratch_transformer.translation.errors import InputError

datasets = pytest.importorskip("datasets", reason="datasets is not installed")

CARD = "---\nconfigs:\n- config_name: en-it\n  data_files:\n  - split: train\n    path: en-it/train-*\n---\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Like Helsinki-NLP/opus_books: a card that names its configurations, and a Parquet file for each."""
    import pyarrow
    import pyarrow.parquet

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    rows = [{"id": str(i), "translation": {"en": f"book {i}", "it": " " if i == 1 else f"libro {i}"}} for i in range(3)]
    copy = tmp_path / "opus_books"
    (copy / "en-it").mkdir(parents=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), copy / "en-it" / "train-00000-of-00001.parquet")
    (copy / "README.md").write_text(CARD)
    return str(copy)


@pytest.fixture(autouse=True)
def _quiet():
    datasets.disable_progress_bars()
    yield
    datasets.enable_progress_bars()


def test_a_pair_a_row_in_either_direction(folder):
    skipped = f"{folder}, row 2: the it is empty"
    assert list(read_hub(folder, "en", "it")) == [("book 0", "libro 0"), skipped, ("book 2", "libro 2")]
    assert list(read_hub(folder, "it", "en")) == [("libro 0", "book 0"), skipped, ("libro 2", "book 2")]


def test_a_pair_that_it_lacks(folder):
    with pytest.raises(InputError, match=r"cannot load .*opus_books, en-fr: .*en-fr"):
        list(read_hub(folder, "en", "fr"))


def test_a_data_set_that_is_not_there(folder):
    with pytest.raises(InputError, match="cannot load /nowhere/books, en-it: ") as caught:
        list(read_hub("/nowhere/books", "en", "it"))
    assert "\n" not in str(caught.value)


def test_rows_of_another_form(folder, monkeypatch):
    monkeypatch.setattr(datasets, "load_dataset", lambda *names, split: [{"text": "a"}])
    with pytest.raises(InputError, match=r'row 1: expected {"translation": {"en": ..., "it": ...}}'):
        list(read_hub(folder, "en", "it"))


def test_a_plain_name_is_tried_with_its_owner(folder, monkeypatch):
    asked = []

    def load_dataset(name, pair, split):
        asked.append((name, pair, split))
        if name == "Helsinki-NLP/opus_books":
            return [{"translation": {"en": "a", "it": "b"}}]
        raise FileNotFoundError(name)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    assert list(read_hub("opus_books", "en", "it")) == [("a", "b")]
    assert asked[-1] == ("Helsinki-NLP/opus_books", "en-it", "train")


def test_a_hub_that_is_out_of_reach_is_asked_once_and_a_folder_is_not_looked_for_there(folder, monkeypatch, caplog):
    asked = []

    def load_dataset(name, pair, split):
        asked.append((name, datasets.config.HF_HUB_OFFLINE))
        logging.getLogger("huggingface_hub.utils").warning("Retrying in 1s")
        raise ConnectionError("Couldn't reach it\non the hub")

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(InputError, match="^cannot load unheard_of, en-it: Couldn't reach it on the hub$"):
        list(read_hub("unheard_of", "en", "it"))
    assert [is_offline for _, is_offline in asked] == [False, True, True, True] and not caplog.records
    assert datasets.config.HF_HUB_OFFLINE is False
    monkeypatch.chdir(Path(folder).parent)
    with pytest.raises(InputError):
        list(read_hub("opus_books", "en", "fr"))
    assert {name for name, _ in asked[4:]} == {"opus_books"}
