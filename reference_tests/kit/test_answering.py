"""A config that looks every name up in a dictionary is asked what it has like any other object."""

import types

import pytest

from reference_tests.kit.learners.checked import IMPORTS, reported
from scratch_transformer.kit.discover import answering

CONFIG = """
class Config:
    def __init__(self, **values):
        self.__dict__["values"] = values

    def __getattr__(self, name):
        return self.__dict__["values"][name]


config = Config(p=0.0)


class FeedForward(nn.Module):
    def __init__(self, d_model=12, d_ff=17):
        super().__init__()
        self.first, self.second, self.drop = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model), nn.Dropout(config.p)

    def forward(self, x):
        return self.second(self.drop(torch.relu(self.first(x))))
"""


def test_what_it_lacks_it_says_as_others_do_and_as_it_did():
    module = types.ModuleType("learner")
    exec(compile(IMPORTS + CONFIG, "learner.py", "exec"), module.__dict__)
    with pytest.raises(KeyError):
        getattr(module.config, "forward", None)
    for _ in range(2):
        answering.settle(module)
    assert (module.config.p, getattr(module.config, "forward", None)) == (0.0, None)
    with pytest.raises(KeyError, match="forward"):
        module.config.forward  # noqa: B018


@pytest.mark.long
def test_a_file_that_has_one_is_judged(tmp_path):
    (tmp_path / "model.py").write_text(IMPORTS + CONFIG)
    (result,) = reported(tmp_path / "model.py").results
    assert result.verdict == "matches the builtin", result
