"""The sinusoidal position encoding. It has no inputs to differentiate, so it has no backward."""

from __future__ import annotations

import numpy as np

from .arrays import Array, require


def sinusoidal_positions(length: int, d_model: int) -> Array:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(pos / 10000^(2i/d_model)).

    An odd d_model has one sine more than cosines. Source: Vaswani et al. 2017, section 3.5.

    Returns:
        PE, (length, d_model).

    Raises:
        ValueError: `length` is negative, or `d_model` is not positive.
    """
    require(length >= 0, f"sinusoidal_positions: length must not be negative, but is {length}")
    require(d_model > 0, f"sinusoidal_positions: d_model must be positive, but is {d_model}")
    position_T1 = np.arange(length, dtype=np.float64)[:, None]
    two_i = np.arange(0, d_model, 2, dtype=np.float64)
    angle = position_T1 / 10000.0 ** (two_i / d_model)  # (T, ceil(E / 2))
    encoding_TE = np.empty((length, d_model))
    encoding_TE[:, 0::2] = np.sin(angle)
    encoding_TE[:, 1::2] = np.cos(angle[:, : d_model // 2])
    return encoding_TE
