"""Gradients without any oracle: central finite differences."""

import numpy as np


def difference_gradient(function, x, dy, step=1e-5):
    """dx_i = Σ dy (f(x + h e_i) - f(x - h e_i)) / 2h, with an error of order h²."""
    gradient = np.empty_like(x)
    for i in np.ndindex(x.shape):
        above, below = x.copy(), x.copy()
        above[i] += step
        below[i] -= step
        gradient[i] = np.sum(dy * (function(above) - function(below))) / (2 * step)
    return gradient


def assert_is_gradient(gradient, function, x, dy, tolerance=1e-8):
    """`gradient` is the gradient at x of Σ dy f(x), as far as differences can tell."""
    expected = difference_gradient(function, x, dy)
    error = np.linalg.norm(gradient - expected) / np.linalg.norm(expected)
    assert error < tolerance, f"relative error against finite differences: {error:.2e}"
