"""Half precision is computed in float32 and rounded once."""

import pytest
import torch

from scratch_transformer.precision import rounded_once, widen

HALF = [torch.float16, torch.bfloat16]
FULL = [torch.float32, torch.float64, torch.int64, torch.bool]


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_half_precision_is_widened(dtype):
    x = torch.tensor([0.5, -3.0], dtype=dtype)
    assert widen(x).dtype == torch.float32
    assert torch.equal(widen(x), torch.tensor([0.5, -3.0]))


@pytest.mark.parametrize("value", [*(torch.ones(2, dtype=dtype) for dtype in FULL), None, 0.1, "tanh"], ids=str)
def test_anything_else_stays_as_it_is(value):
    assert widen(value) is value


@pytest.mark.parametrize("dtype", [*HALF, torch.float32, torch.float64], ids=str)
def test_the_arguments_of_an_equation(dtype):
    """Half precision arrives in float32; everything else, and half precision beside a wide x, as it was given."""
    seen = []

    @rounded_once
    def equation(x, *args, **kwargs):
        """Documented."""
        seen.append((x, args, kwargs))
        return x + 1

    x, weight = torch.ones(2, dtype=dtype), torch.ones(3, dtype=torch.float16)
    result = equation(x, weight, 7, bias=weight, eps=0.1)
    computed_in = torch.float32 if dtype in HALF else dtype
    others = torch.float32 if dtype in HALF else torch.float16
    ((got, args, kwargs),) = seen
    assert got.dtype == computed_in
    assert torch.equal(got, torch.ones(2, dtype=computed_in))
    assert (args[0].dtype, args[1], len(args)) == (others, 7, 2)
    assert (kwargs["bias"].dtype, kwargs["eps"], len(kwargs)) == (others, 0.1, 2)
    assert result.dtype == dtype
    assert torch.equal(result, torch.full((2,), 2, dtype=dtype))
    assert (equation.__name__, equation.__doc__) == ("equation", "Documented.")


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_one_rounding(dtype):
    """1 + ε/4 four times: each step alone would be rounded away."""
    quarter = torch.finfo(dtype).eps / 4

    @rounded_once
    def add_four_times(x):
        for _ in range(4):
            x = x + quarter
        return x

    one = torch.ones(1, dtype=dtype)
    assert add_four_times(one).item() == 1 + 4 * quarter
    assert add_four_times.__wrapped__(one).item() == 1
