"""A config object that another file fills, config.set(width=…): what a class reads of it is a setting all the same."""

import pytest

from reference_tests.kit.learners.checked import reported

pytestmark = pytest.mark.long

CONFIG = """class Settings:
    def put(self, **given):
        for name, value in given.items():
            setattr(self, name, value)


settings = Settings()
"""
HEAD = """import torch
import torch.nn as nn

from shared import settings


class Head(nn.Module):
    def __init__(self, head_size):
        super().__init__()
        self.key = nn.Linear(settings.n_embd, head_size, bias=False)
        self.query = nn.Linear(settings.n_embd, head_size, bias=False)
        self.value = nn.Linear(settings.n_embd, head_size, bias=False)
        self.register_buffer("tril", torch.tril(torch.ones(settings.block_size, settings.block_size)))
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, x):
        T = x.shape[1]
        scores = self.query(x) @ self.key(x).transpose(-2, -1) * WIDTH**-0.5
        scores = scores.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        return self.dropout(scores.softmax(-1)) @ self.value(x)
"""
HEAD_SIZE, WHOLE_WIDTH = "self.key.out_features", "x.shape[-1]"


@pytest.mark.parametrize("width, ids", [(HEAD_SIZE, []), (WHOLE_WIDTH, ["A1"])])
def test_what_another_file_sets_is_a_setting(width, ids, tmp_path):
    (tmp_path / "shared.py").write_text(CONFIG)
    (tmp_path / "head.py").write_text(HEAD.replace("WIDTH", width))
    (result,) = reported(tmp_path / "head.py").results
    assert (result.severe, result.error < 1e-12) == (ids, True)


def test_what_no_file_can_set_is_not_there(tmp_path):
    (tmp_path / "shared.py").write_text("class Settings: ...\n\n\nsettings = Settings()\n")
    (tmp_path / "head.py").write_text(HEAD.replace("WIDTH", HEAD_SIZE))
    assert [one.verdict for one in reported(tmp_path / "head.py").results] == ["could not be built"]
