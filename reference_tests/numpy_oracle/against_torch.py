"""One comparison for all components: the same arrays through torch.nn and through the oracle, forward and backward."""

import numpy as np
import torch

from scratch_transformer.numpy_oracle import ORACLES

# All different, so that no transposition can hide. E = H D.
B, T, S, H, D, E, F = 3, 4, 5, 2, 7, 14, 9


def assert_close(found, expected, what, tolerance=1e-12):
    """The error's norm is at most `tolerance` of the expected norm; what should be zero is zero to rounding."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape, f"{what}: shape {found.shape} instead of {expected.shape}"
    assert found.dtype == np.float64, f"{what}: dtype {found.dtype}"
    error, norm = np.linalg.norm(found - expected), np.linalg.norm(expected)
    assert error <= tolerance * norm + 1e-15, f"{what}: relative error {error / norm if norm else error:.2e}"


def randomized(module):
    """Every parameter and buffer random, in float64: biases that start at 0 and scales at 1 would hide mistakes."""
    module = module.double().eval()
    with torch.no_grad():
        for tensor in module.parameters():
            tensor.normal_()
        for name, tensor in module.named_buffers():
            if tensor.is_floating_point():
                tensor.uniform_(0.5, 1.5) if name.endswith("var") else tensor.normal_()
    return module


def as_arrays(values):
    return {key: tensor.detach().numpy().copy() for key, tensor in values.items()}


def leaf(value, differentiable):
    """A copy that collects a gradient if it can."""
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().clone().requires_grad_(differentiable and value.is_floating_point())


def plain(value):
    return value.detach().numpy() if isinstance(value, torch.Tensor) else value


def compare(name, constructor, module, args, kwargs=None, *, differentiable=(), training=False, keep_masks=None):
    """Check output, every input's gradient and every parameter's gradient; return the oracle's result.

    `args` are differentiable where they are floats, `kwargs` only those named in `differentiable`. `module` may be a
    function. The gradient of the output is random: with ones, many wrong derivations are right.
    """
    kwargs = kwargs or {}
    is_module = isinstance(module, torch.nn.Module)
    state = as_arrays(module.state_dict()) if is_module else {}
    leaves = [leaf(value, True) for value in args]
    named_leaves = {key: leaf(value, key in differentiable) for key, value in kwargs.items()}
    output = module(*leaves, **named_leaves)
    outputs = output if isinstance(output, tuple) else (output,)
    upstream = tuple(None if y is None else torch.randn_like(y) for y in outputs)
    torch.autograd.backward(
        *zip(*((y, dy) for y, dy in zip(outputs, upstream, strict=True) if y is not None), strict=True)
    )

    dy = tuple(plain(gradient) for gradient in upstream)
    result = ORACLES[name](
        constructor,
        state,
        [plain(value) for value in args],
        {key: plain(value) for key, value in kwargs.items()},
        dy if isinstance(output, tuple) else dy[0],
        training=training,
        keep_masks=keep_masks,
    )

    found_outputs = result.output if isinstance(output, tuple) else (result.output,)
    for i, (found, expected) in enumerate(zip(found_outputs, outputs, strict=True)):
        assert (found is None) == (expected is None), f"output {i}"
        if expected is not None:
            assert_close(found, plain(expected), f"output {i}")
    of_inputs = {**dict(enumerate(leaves)), **named_leaves}
    expected = {how: x.grad for how, x in of_inputs.items() if isinstance(x, torch.Tensor) and x.requires_grad}
    assert_gradients(result.input_gradients, expected, exactly=False)
    if is_module:
        assert_gradients(
            result.parameter_gradients, {key: p.grad for key, p in module.named_parameters()}, exactly=True
        )
    return result


def assert_gradients(found, expected, exactly):
    assert set(expected) <= set(found), f"gradients missing: {set(expected) - set(found)}"
    assert not exactly or set(expected) == set(found), f"gradients too many: {set(found) - set(expected)}"
    for key, gradient in expected.items():
        assert_close(found[key], plain(gradient), f"gradient of {key}")


def normal(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def padding(length):
    """(B, length), True = blocked: one sequence padded on the right, one on the left, the others not at all."""
    mask = torch.zeros(B, length, dtype=torch.bool)
    mask[0, -2:] = True
    mask[1, :1] = True
    return mask


def blocked(*shape):
    """Random, True = blocked, but every query may attend to the middle key, which `padding` never blocks."""
    mask = torch.rand(*shape) < 0.4
    mask[..., shape[-1] // 2] = False
    return mask


def biases(*shape):
    """A float mask: random biases, some of them -inf."""
    return normal(*shape).masked_fill(blocked(*shape), -torch.inf)
