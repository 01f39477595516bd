"""What stops before it comes to a package that is not installed: it is that package that is lacking."""

import pytest

from reference_tests.kit.learners.checked import reported

pytestmark = pytest.mark.long

TEXT = """
import numpy as np
import nowhere_to_be_found.numpy as xnp

def soft(x):
    return xnp.softmax(x)

class SelfAttention:
    def __init__(self, qkv_weights, out_weights):
        self.qkv_weights, self.out_weights = qkv_weights, out_weights

    def __call__(self, x):
        q, k, v = np.split(x @ self.qkv_weights, 3, axis=-1)
        return SOFT(q @ k.T / np.sqrt(k.shape[-1])) @ v @ self.out_weights
"""


@pytest.mark.parametrize("soft", ["soft", "xnp.softmax"])
def test_it_is_said_to_need_that(soft, tmp_path):
    path = tmp_path / "attention.py"
    path.write_text(TEXT.replace("SOFT", soft))
    report = reported(path)
    assert not report.results, report.results
    assert any(one.startswith("SelfAttention (it needs nowhere_to_be_found") for one in report.ignored), report.ignored


def test_what_stops_without_it_still_does(tmp_path):
    path = tmp_path / "attention.py"
    path.write_text(
        TEXT.replace("SOFT", "np.exp").replace("import nowhere_to_be_found.numpy as xnp", "import re as xnp")
    )
    assert not any("it needs" in one for one in reported(path).ignored)
