"""Training runs that did not happen."""

from scratch_transformer.conformance.training import Parity, Settings, Side


def parity(losses=(2.0, 1.0), builtin=(2.0, 1.0), accuracy=1.0, key_bias=0.0, same_start=True, parameter_error=0.0):
    """Ours had `losses`, `accuracy` and `key_bias`; torch had `builtin`, and is right."""
    ours = Side("scratch_transformer", tuple(losses), accuracy, key_bias, 1.5)
    expected = Side("torch", tuple(builtin), 1.0, 0.0, 1.25)
    return Parity(Settings(steps=len(losses)), ours, expected, same_start, parameter_error)
