"""The oracle is worth something only as long as nothing of torch is in it."""

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from scratch_transformer import numpy_oracle

PACKAGE = Path(numpy_oracle.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))


def imported(file):
    """(how many packages up, what) for every import in the file, wherever it stands."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((0, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.level, node.module or ""


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_a_file_imports_only_numpy_the_standard_library_and_the_oracle(file):
    depth = len(file.relative_to(PACKAGE).parts)  # so many dots stay inside the package
    for level, name in imported(file):
        outside = level == 0 and name.partition(".")[0] not in {"numpy", *sys.stdlib_module_names}
        assert not outside, f"{file.name} imports {name}"
        assert level <= depth, f"{file.name} imports {'.' * level}{name} from outside the oracle"
        assert name.partition(".")[0] not in {"importlib", "runpy"}, f"{file.name} may import anything through {name}"


def test_no_file_imports_at_run_time():
    calls = [node for file in FILES for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))]
    names = {node.id for node in calls if isinstance(node, ast.Name)}
    assert not names & {"__import__", "exec", "eval"}


def test_it_works_where_torch_cannot_be_imported():
    program = """
import sys
sys.modules["torch"] = None
import numpy as np
from numpy_oracle import softmax
assert np.allclose(softmax(np.zeros((1, 4)))[0], 0.25)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=PACKAGE.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_public_name_is_there_and_every_forward_has_its_backward():
    without_backward = {
        "ORACLES",
        "LayerOptions",
        "Result",
        "causal",
        "rotary_turns",
        "sinusoidal_positions",
        "updated_running_statistics",
    }
    names = set(numpy_oracle.__all__)
    for name in names:
        assert getattr(numpy_oracle, name) is not None
        assert name.endswith("_backward") or name in without_backward or f"{name}_backward" in names


def test_inputs_and_parameters_are_never_changed():
    rng = np.random.default_rng(0)
    x, weight, bias, dy = (rng.normal(size=shape) for shape in [(3, 4), (4,), (4,), (3, 4)])
    for array in (x, weight, bias, dy):
        array.setflags(write=False)  # writing raises
    for name, constructor, parameters in (
        ("LayerNorm", {"normalized_shape": 4}, {"weight": weight, "bias": bias}),
        ("BatchNorm1d", {"num_features": 4, "track_running_stats": False}, {"weight": weight, "bias": bias}),
        ("ReLU", {"inplace": True}, {}),
        ("Softmax", {"dim": 1}, {}),
    ):
        result = numpy_oracle.ORACLES[name](constructor, parameters, (x,), {}, dy)
        assert result.input_gradients[0].shape == x.shape
