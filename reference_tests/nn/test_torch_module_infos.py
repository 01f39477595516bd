"""PyTorch's own samples, ModuleInfo for the modules and OpInfo for the functions, give the same through ours.

Somebody else chose these inputs, for other reasons than ours. They live in `torch.testing._internal`, which needs the
package expecttest and may change at any time: nothing else relies on it, and where it cannot be imported this skips.
"""

from __future__ import annotations

import copy
import importlib

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from scratch_transformer import functional, nn
from scratch_transformer.attention import scaled_dot_product_attention
from scratch_transformer.conformance.compare import DEFINITION, relative_error

# All but Dropout and TransformerDecoder, of which torch has no samples.
TORCH = tuple(map(int, torch.__version__.split(".")[:2]))
MODULES = [
    *("BatchNorm1d", "CrossEntropyLoss", "Embedding", "GELU", "LayerNorm", "Linear", "MultiheadAttention", "RMSNorm"),
    *(
        "ReLU",
        "SiLU",
        "Softmax",
        "Transformer",
        "TransformerDecoderLayer",
        "TransformerEncoder",
        "TransformerEncoderLayer",
    ),
]


def batch_norm(x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    mean, variance = functional.channel_statistics(x) if training else (running_mean, running_var)
    return functional.batch_norm(x, mean, variance, weight, bias, eps)


FUNCTIONS = {
    "log_softmax": functional.log_softmax,
    "softmax": functional.softmax,
    "nn.functional.batch_norm": batch_norm,
    "nn.functional.cross_entropy": functional.cross_entropy,
    "nn.functional.dropout": functional.dropout,
    "nn.functional.embedding": lambda weight, ids, **options: functional.embedding(ids, weight, **options),
    "nn.functional.gelu": functional.gelu,
    "nn.functional.layer_norm": functional.layer_norm,
    "nn.functional.linear": functional.linear,
    "nn.functional.relu": functional.relu,
    "nn.functional.rms_norm": functional.rms_norm,
    "nn.functional.silu": functional.silu,
    "nn.functional.scaled_dot_product_attention": scaled_dot_product_attention,
}

# float32 is here to notice another dtype on the way; its precision is measured elsewhere.
LIMITS = {torch.float64: DEFINITION, torch.float32: 1e-3}

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's samples warn, about torch's options


@pytest.fixture(scope="module")
def module_infos():
    return {info.module_cls: info for info in samples_of("common_modules").module_db}


@pytest.fixture(scope="module")
def op_infos():
    return {op.name: op for op in samples_of("common_methods_invocations").op_db if not op.variant_test_name}


@pytest.mark.parametrize(
    ("training", "dtype"), [(True, torch.float64), (False, torch.float64), (True, torch.float32)], ids=str
)
@pytest.mark.parametrize("name", MODULES)
@pytest.mark.long
def test_module(name, training, dtype, module_infos):
    for where, sample in module_samples(module_infos, name, "module_inputs_func", dtype, training):
        arguments = sample.constructor_input
        builtin = getattr(torch.nn, name)(*arguments.args, **arguments.kwargs).to(dtype).train(training)
        ours = getattr(nn, name)(*map(as_ours, arguments.args), **arguments.kwargs).to(dtype).train(training)
        randomise(builtin)
        ours.load_state_dict(builtin.state_dict(), strict=True)
        expected, actual = (differentiate(module, sample.forward_input) for module in (builtin, ours))
        assert_agree(actual, expected, dtype, where)


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("name", ["BatchNorm1d", "CrossEntropyLoss", "Embedding"])
def test_module_errors(name, training, module_infos):
    for where, error in module_samples(module_infos, name, "module_error_inputs_func", torch.float64, training):
        print(f"{name}, {where}: expecting {error.error_type} {error.error_regex!r}")
        # in evaluation some of these raise something else, so the builtin is asked
        with pytest.raises(error.error_type if training else Exception) as builtin:
            build_and_call(getattr(torch.nn, name), error.module_error_input, training)
        # releases before 2.13 refuse eps = 0 there too, and look at it first
        with pytest.raises(builtin.type if training or TORCH >= (2, 13) else Exception):
            build_and_call(getattr(nn, name), error.module_error_input, training)


@pytest.mark.parametrize("dtype", LIMITS, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name, dtype, op_infos):
    op = op_infos.get(name) or pytest.skip(f"this torch has no samples of {name}")
    seeded = samples_of("common_methods_invocations").wrapper_set_seed  # as op.op does where it draws numbers
    for number, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=True)):
        call = samples_of("common_modules").FunctionInput(sample.input, *sample.args, **sample.kwargs)
        expected = differentiate(op.op, call)
        actual = differentiate(lambda *args, **kwargs: seeded(FUNCTIONS[name], *args, **kwargs), call)
        assert_agree(actual, expected, dtype, f"sample {number}")


def samples_of(file):
    """torch.testing._internal.<file>. Its import forbids to set torch.backends.*, as conftest.py does: undone here."""
    with torch.backends.__allow_nonbracketed_mutation():
        try:
            return importlib.import_module(f"torch.testing._internal.{file}")
        except Exception as error:  # private code may fail in any way
            pytest.skip(f"torch.testing._internal.{file} cannot be imported: {error!r}")


def module_samples(module_infos, name, which, dtype, training):
    info = module_infos.get(getattr(torch.nn, name))
    make_samples = getattr(info, which, None) or pytest.skip(f"this torch has no {which} of {name}")
    samples = make_samples(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
    assert samples, f"{which} of {name} is empty"
    return [(f"sample {number}", sample) for number, sample in enumerate(samples)]


def as_ours(value):
    """A copy of a builtin layer, with all its parts, as ours: attributes have the same names, so the class is all."""
    value = copy.deepcopy(value)
    if isinstance(value, torch.nn.Module):
        for module in value.modules():
            module.__class__ = getattr(nn, type(module).__name__.replace("NonDynamicallyQuantizable", ""))
    return value


def build_and_call(module_class, sample, training):
    module = module_class(*sample.constructor_input.args, **sample.constructor_input.kwargs).train(training)
    return module(*sample.forward_input.args, **sample.forward_input.kwargs)


def randomise(module):
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.2)  # biases start at zero, and a forgotten one would not be noticed


def differentiate(function, call):
    """Outputs, their gradients to all inputs and parameters, and the state afterwards."""
    args, kwargs = tree_map(leaf, (call.args, call.kwargs))
    torch.manual_seed(0)  # for dropout
    outputs = [x for x in tree_leaves(function(*args, **kwargs)) if isinstance(x, Tensor)]
    state = [*function.parameters(), *function.buffers()] if isinstance(function, torch.nn.Module) else []
    sources = [x for x in (*tree_leaves((args, kwargs)), *state) if isinstance(x, Tensor) and x.requires_grad]
    torch.manual_seed(1)
    upstream = [torch.randn(output.shape, dtype=output.dtype) for output in outputs]
    gradients = torch.autograd.grad(outputs, sources, upstream, allow_unused=True, materialize_grads=True)
    return [x.detach() for x in (*outputs, *gradients, *state)]


def leaf(value):
    return value.detach().clone().requires_grad_(value.requires_grad) if isinstance(value, Tensor) else value


def assert_agree(actual, expected, dtype, where):
    """‖actual - expected‖∞ relative to ‖expected‖∞, which counts as at least 1/100 of the largest tensor, or 1/100.

    Torch draws from (-9, 9), so softmax is saturated, and gradients are small differences of large numbers, upstream
    gradients (about 1) among them.
    """
    assert len(actual) == len(expected), where
    largest = max([1.0, *(x.abs().max().item() for x in expected if x.numel())])
    for number, (ours, builtin) in enumerate(zip(actual, expected, strict=True)):
        error = relative_error(ours, builtin, largest / 100)
        assert error <= LIMITS[dtype], f"{where}, tensor {number} {tuple(builtin.shape)}: relative error {error}"
