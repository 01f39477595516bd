"""Configs that check their fields: those that are no settings are filled as they are annotated."""

import enum
from typing import Literal

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.resolve.build.fields import neutral, one_of

pytestmark = pytest.mark.long

TWO_CONFIGS = """
from dataclasses import dataclass, fields
from enum import Enum
from typing import Literal


class Words(Enum):
    JOINT = "joint"
    APART = "apart"


class Checked:
    def __post_init__(self):
        for field in fields(self):
            value, kind = getattr(self, field.name), getattr(field.type, "__name__", field.type)
            if type(value).__name__ != kind and value not in ("shared", "kept"):
                raise TypeError(field.name)


@dataclass
class NetworkConfig(Checked):
    d_model: int
    num_heads: int
    d_ff: int
    num_layers: int
    source_words: int
    target_words: int
    max_len: int


@dataclass
class TextConfig(Checked):
    language: str
    words: Words
    case: Literal["shared", "kept"]
    portion: float


class FeedForward(nn.Module):
    def __init__(self, network_config: NetworkConfig, text_config: TextConfig):
        super().__init__()
        if text_config.words == Words.JOINT or text_config.case == "shared":
            raise ValueError("one vocabulary for both")
        self.a = nn.Linear(network_config.d_model, network_config.d_ff)
        self.b = nn.Linear(network_config.d_ff, network_config.d_model)

    def forward(self, x):
        return self.b(ACT(self.a(x)))
"""


@pytest.mark.parametrize("act, verdict, severe", [
    ("torch.relu", "matches the builtin", []), ("torch.cos", "unknown mismatch", []), ("", "mistake", ["B16"]),
])  # fmt: skip
def test_what_is_given_two_configs_that_check_their_fields(act, verdict, severe, tmp_path):
    result = check_text(TWO_CONFIGS.replace("ACT", act), tmp_path)["FeedForward"]
    assert (result.verdict, result.severe) == (verdict, severe)


class Case(enum.Enum):
    SHARED = 1
    KEPT = 2


class Told:
    far: "Literal['shared', 'far']"
    case: Case
    word: Literal["tied", "each"]
    turns: "Case"
    name: str
    rate: "float"
    names: list[int]
    later: object


class Unheard(Told):
    other: "Another"  # noqa: F821
    also: "float"


def test_what_a_field_is_filled_with():
    assert [neutral(Told, name) for name in ("name", "rate", "names", "later", "nothing")] == ["", 0.0, [], None, None]
    assert [neutral(Unheard, name) for name in ("name", "also", "names", "other")] == ["", 0.0, [], None]
    found = [one_of(Told, name) for name in ("case", "word", "turns", "far", "name", "nothing")]
    assert found == [Case.KEPT, "each", Case.KEPT, "far", None, None]
