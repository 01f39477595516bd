"""Methods beside forward which always stop, as they read what nothing sets (B26)."""

import pytest

from reference_tests.kit.learners.checked import check_text

NETWORK = """
class Widened(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.wide = nn.Linear(d_model, d_ff)

    def forward(self, x):
        return torch.relu(self.wide(x))

class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.first, self.narrow = Widened(d_model, d_ff), nn.Linear(d_ff, d_model)

    def MORE

    def forward(self, x):
        return self.narrow(self.first(x))
"""


def found_in(more, tmp_path, behind=""):
    result = check_text(NETWORK.replace("MORE", more) + behind, tmp_path)["FeedForward"]
    found = [one for one in result.mistakes if one.id == "B26"]
    assert (result.verdict == "mistake") == bool(found), result
    return [(one.shown.strip(), one.evidence.partition(",")[0]) for one in found]


@pytest.mark.parametrize(
    "head, line, read",
    [
        ("tie(self):", "self.narrow.weight = self.first.lut.weight", "self.first.lut"),
        ("count(self):", "return sum(p.numel() for p in self.paramters())", "self.paramters"),
        ("where(self):", "return self.narrow.wieght.device", "self.narrow.wieght"),
        ("longest(self):", "return self.max_len", "self.max_len"),
    ],
)
def test_what_nothing_sets_stops_a_method(head, line, read, tmp_path):
    name = head.partition("(")[0]
    assert found_in(f"{head}\n        {line}", tmp_path) == [(line, f"Its {name} reads {read}")]


@pytest.mark.parametrize(
    "more",
    [
        "tie(self):\n        self.narrow.bias = self.first.wide.bias",
        "longest(self):\n        return self.max_len if hasattr(self, 'max_len') else 64",
        "longest(self):\n        if hasattr(self, 'max_len'):\n            return self.max_len\n        return 9",
        "longest(self):\n        if not hasattr(self, 'max_len'):\n            return 9\n        return self.max_len",
        "longest(self):\n        try:\n            return self.max_len\n        except Exception:\n            pass",
        "keep(self, n):\n        self.max_len = n\n\n    def longest(self):\n        return self.max_len",
        "longest(self):\n        self.max_len = self.narrow.in_features\n        return self.max_len",
        "later(self):\n        return lambda: self.max_len",
        "__getattr__(self, name):\n        return super().__getattr__(name.replace('max_len', 'narrow'))\n\n"
        "    def longest(self):\n        return len(self.max_len)",
    ],
)
def test_what_may_be_set_or_need_not_be_read_stops_nothing(more, tmp_path):
    assert found_in(more, tmp_path) == []


def test_what_the_file_gives_a_model_afterwards_is_set(tmp_path):
    behind = "\ndef build(model):\n    model.max_len = 64\n    return model\n"
    assert found_in("longest(self):\n        return self.max_len", tmp_path, behind) == []
