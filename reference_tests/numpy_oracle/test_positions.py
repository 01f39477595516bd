import math

import numpy as np
import pytest

from scratch_transformer.numpy_oracle import sinusoidal_positions


@pytest.mark.parametrize("d_model", [1, 2, 7, 8])
def test_every_element_is_the_papers_formula(d_model):
    found = sinusoidal_positions(6, d_model)
    assert found.shape == (6, d_model)
    for position in range(6):
        for column in range(d_model):
            angle = position / 10000 ** (2 * (column // 2) / d_model)
            expected = math.sin(angle) if column % 2 == 0 else math.cos(angle)
            assert found[position, column] == pytest.approx(expected, rel=1e-14, abs=1e-16)


def test_moving_by_k_positions_is_a_rotation():
    """PE(pos + k) is a linear function of PE(pos), the paper's reason for sinusoids."""
    encoding, k, d_model = sinusoidal_positions(20, 6), 5, 6
    for i in range(d_model // 2):
        angle = k / 10000 ** (2 * i / d_model)
        rotation = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
        pair = encoding[:, 2 * i : 2 * i + 2]
        np.testing.assert_allclose(pair[:-k] @ rotation.T, pair[k:], atol=1e-14)


def test_bad_sizes_are_refused():
    with pytest.raises(ValueError, match="length must not be negative, but is -1"):
        sinusoidal_positions(-1, 4)
    with pytest.raises(ValueError, match="d_model must be positive, but is 0"):
        sinusoidal_positions(3, 0)
