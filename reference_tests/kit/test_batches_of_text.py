"""Batches of a text, get_batch(split): windows of it drawn at random, and for each token of them the next."""

import pytest

from reference_tests.kit.learners.checked import check_text, reported, time_to_look, written

pytestmark = pytest.mark.long

OF_GLOBALS = """
batch_size, block_size, device = 64, 256, "cuda" if torch.cuda.is_available() else "cpu"
train_data = val_data = torch.zeros(0, dtype=torch.long)  # until a file is read


def get_batch(split):
    data = train_data if split == "train" else val_data
    begin = torch.randint(len(data) - block_size, (batch_size,))
    x = torch.stack([data[i : i + block_size] for i in begin])
    y = torch.stack([data[i + 1 : i + 1 + block_size] for i in begin])
    return x.to(device), y.to(device)
"""
OF_ARRAYS = """
def get_batch(dataset: np.ndarray, batch_size: int, context_length: int, device: torch.device):
    starts = np.random.randint(0, len(dataset) - context_length, size=batch_size)
    x = np.stack([dataset[s : s + context_length] for s in starts]).astype(np.int64)
    y = np.stack([dataset[s + 1 : s + context_length + 1] for s in starts]).astype(np.int64)
    if device.type == "cuda":
        return [torch.from_numpy(x).pin_memory(), torch.from_numpy(y).pin_memory()]
    return [torch.from_numpy(x), torch.from_numpy(y)]
"""
OF_A_FILE = """
class Config:
    block_size, batch_size, folder = 1024, 12, "data"


def batch_of(split, config):
    data = np.memmap(f"{config.folder}/{split}.bin", dtype=np.uint16, mode="r")
    places = [random.randint(0, len(data) - config.block_size - 1) for _ in range(config.batch_size)]
    pairs = [torch.from_numpy(data[p : p + config.block_size + 1].astype(np.int64)) for p in places]
    return torch.stack([pair[:-1] for pair in pairs]), torch.stack([pair[1:] for pair in pairs])
"""
OF_A_GENERATOR = """
def sample_batch(tokens, B, T, rng):
    rows = [tokens[i : i + T + 1] for i in rng.integers(len(tokens) - T, size=B)]
    return {"inputs": torch.tensor([row[:T] for row in rows]), "targets": torch.tensor([row[1:] for row in rows])}
"""
OF_A_PART = """
def get_batches(data, split, batch_size, context_window):
    train, val = data[: int(0.8 * len(data))], data[int(0.8 * len(data)) :]
    part = train if split == "train" else val
    begin = torch.randint(0, part.size(0) - context_window, (batch_size,))
    x = torch.stack([part[i : i + context_window] for i in begin]).long()
    return x, torch.stack([part[i + 1 : i + context_window + 1] for i in begin]).long()
"""
OF_AN_OBJECT = """
class Loader:
    def __init__(self, path, block_size, batch_size):
        self.text = torch.load(path)
        self.block_size, self.batch_size = block_size, batch_size

    def get_batch(self):
        begin = torch.randint(low=0, high=len(self.text) - self.block_size, size=(self.batch_size,))
        rows = torch.stack([self.text[i : i + self.block_size + 1] for i in begin])
        return rows[:, :-1], rows[:, 1:]
"""
ALL = {
    "Loader.get_batch": (OF_AN_OBJECT,),
    "get_batch": (OF_GLOBALS, OF_ARRAYS),
    "batch_of": (OF_A_FILE,),
    "sample_batch": (OF_A_GENERATOR,),
    "get_batches": (OF_A_PART,),
}


@pytest.mark.parametrize("name, text", [(name, text) for name, texts in ALL.items() for text in texts])
def test_they_are_judged_whatever_a_text_and_its_sizes_come_from(name, text, tmp_path):
    with time_to_look(1):
        result = check_text(f"import random\nimport numpy as np\n{text}", tmp_path)[name]
    assert (result.kind, result.verdict) == ("TextBatches", "matches the builtin"), result


@pytest.mark.parametrize(
    "old, new, verdict, named",
    [
        ("i + 1 : i + 1 + block_size", "i : i + block_size", "mistake", "T13"),
        ("i + 1 : i + 1 + block_size", "i + 2 : i + 2 + block_size", "mistake", "T13"),
        ("len(data) - block_size,", "len(data) - block_size + 1,", "mistake", "T26"),
        ("len(data) - block_size,", "len(data) - block_size - 1,", "harmless deviation", "T26"),
    ],
)
def test_what_is_wrong_with_them_is_named(old, new, verdict, named, tmp_path):
    assert old in OF_GLOBALS
    result = check_text(OF_GLOBALS.replace(old, new), tmp_path)["get_batch"]
    assert result.verdict == verdict and named in result.ids, result


def test_the_line_that_draws_too_late_is_shown(tmp_path):
    report = reported(written(OF_GLOBALS.replace("- block_size,", "- block_size + 1,"), tmp_path))
    shown = [mistake.shown for result in report.results for mistake in result.mistakes]
    assert [line.strip().startswith("begin = torch.randint") for line in shown] == [True], shown


OTHERS = """
def get_batch(x, y, seq_len):
    i = int(torch.randint(len(x) - seq_len, (1,)))
    return x[i : i + seq_len], y[i : i + seq_len]


def masked_batch(tokens, batch_size, seq_len):
    begin = torch.randint(len(tokens) - seq_len, (batch_size,))
    labels = torch.stack([tokens[i : i + seq_len] for i in begin])
    return labels.masked_fill(torch.rand(labels.shape) < 0.15, 0), labels


def window_batch(tokens, batch_size, seq_len):
    return torch.stack([tokens[i : i + seq_len] for i in torch.randint(len(tokens) - seq_len, (batch_size,))])
"""


def test_what_is_to_be_said_in_other_tasks_is_not_judged_by_what_comes_next(tmp_path):
    assert not {"get_batch", "masked_batch", "window_batch"} & {*check_text(OTHERS, tmp_path)}
