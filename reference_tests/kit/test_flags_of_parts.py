"""A flag of its parts that _init_weights asks for, and that nothing sets (B26)."""

import pytest

from reference_tests.kit.learners.checked import check_text, reported, written
from scratch_transformer.kit.mistakes.construction import ASKED_IN_VAIN

NETWORK = """
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.wide, self.narrow = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        SET
        self.apply(self._init_weights)

    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            std = 0.01 if ASKED else 0.02
            nn.init.normal_(module.weight, 0.0, std)

    def forward(self, x):
        return self.narrow(torch.relu(self.wide(x)))
"""
FLAG = "self.narrow.init_flag = True"


@pytest.mark.parametrize(
    "kept, asked, fix",
    [
        (FLAG, 'hasattr(module, "init_flag")', None),
        (FLAG, 'hasattr(module, "init_flat")', "init_flag"),
        (FLAG, 'getattr(module, "init_flat", False)', "init_flag"),
        ("pass", 'hasattr(module, "init_flag")', ""),
        ("setattr(self.narrow, 'init_flag', 1)", 'hasattr(module, "init_flag")', None),
        ("setattr(self.narrow, 'init_' + 'flag', 1)", 'hasattr(module, "init_flag")', None),
        ("pass", 'hasattr(module, "bias")', None),
        ("pass", 'hasattr(module, "padding_idx")', None),
        ("pass", "hasattr(self, 'init_flag')", None),
    ],
)
def test_a_flag_that_is_asked_for_is_to_be_set(kept, asked, fix, tmp_path):
    result = check_text(NETWORK.replace("SET", kept).replace("ASKED", asked), tmp_path)["FeedForward"]
    found = [one for one in result.mistakes if one.id == "B26"]
    assert [(one.form, one.severity) for one in found] == [(ASKED_IN_VAIN, "harmless")] * (fix is not None)
    assert result.verdict == ("matches the builtin" if fix is None else "harmless deviation")
    for one in found:
        assert asked in one.shown and one.fix.startswith(fix)


@pytest.mark.long
def test_a_flag_that_a_file_beside_sets_is_set(tmp_path):
    (tmp_path / "parts.py").write_text("def mark(layer):\n    layer.init_flag = True\n")
    text = NETWORK.replace("SET", "pass").replace("ASKED", 'hasattr(module, "init_flag")')
    (result,) = [one for one in reported(written(text, tmp_path)).results if one.name == "FeedForward"]
    assert result.verdict == "matches the builtin", result
