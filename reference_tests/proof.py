"""The tests that run from the table of components: a few lines in each test file bring them all.

    test_definition, test_precision, test_errors = prove("Linear")

--dtype chooses: float64, the default, runs everything; another one only the precision in that dtype.
"""

import pytest
import torch

from scratch_transformer.conformance import COMPONENTS, compare_definition, compare_precision
from scratch_transformer.conformance.compare import BuiltinUnsupported
from scratch_transformer.conformance.errors import faults
from scratch_transformer.conformance.run import run

# torch's: why its encoder takes no fast path, and that two arguments of its loss are old
quiet = pytest.mark.filterwarnings("ignore:.*nested[ _]tensor", "ignore:size_average and reduce args")
LOW_PRECISION = [torch.float32, torch.bfloat16, torch.float16]


def prove(*names):
    """The three tests of these components: in float64, in low precision, of bad input."""
    components = [COMPONENTS[name] for name in names]
    cases, errors = (
        [
            pytest.param(component, item, id=f"{component.name}: {item.description}")
            for component in components
            for item in getattr(component, kind)
        ]
        for kind in ("cases", "errors")
    )

    @quiet
    @pytest.mark.parametrize("component, case", cases)
    def test_definition(component, case, device, dtype):
        if dtype != torch.float64:
            pytest.skip(f"--dtype {dtype}: the definition is in float64")
        skip_where_random_numbers_differ(component, case, device)
        equality = compare_definition(component, case, device=str(device))
        assert equality.passed, equality

    @quiet
    @pytest.mark.parametrize("low", LOW_PRECISION, ids=str)
    @pytest.mark.parametrize("component, case", cases)
    def test_precision(component, case, low, device, dtype):
        if dtype not in (torch.float64, low):
            pytest.skip(f"--dtype {dtype}: only that precision is wanted")
        skip_where_random_numbers_differ(component, case, device)
        try:
            precision = compare_precision(component, case, low, device=str(device))
        except BuiltinUnsupported as reason:
            pytest.skip(str(reason))
        assert precision.passed, precision

    @quiet
    @pytest.mark.parametrize("component, case", errors)
    def test_errors(component, case):
        assert faults(component, case) == []

    return test_definition, test_precision, test_errors


def skip_where_random_numbers_differ(component, case, device):
    if device.type != "cpu" and run(component, component.builtin, case, torch.float32).is_random:
        pytest.skip("dropout: the random numbers differ on this device by design")
