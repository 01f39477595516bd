"""What can be said of the classes without running them: arguments, methods, attributes and printed form are torch's."""

import inspect
import re

import pytest
import torch

from reference_tests.nn.examples import MODULES, QUIET, build, every_constructor, every_drop_in, every_module
from scratch_transformer import nn
from scratch_transformer.conformance import counterparts

pytestmark = QUIET

# Arguments that newer torch releases have and the oldest supported does not
NEWER_ARGUMENTS = {"BatchNorm1d": {"bias"}}

# What torch's have and ours do not, and why
ABSENT_METHODS = {
    "BatchNorm1d": {"_check_input_dim"},  # overridden in BatchNorm2d, 3d; here there is no family
    "Embedding": {"_fill_padding_idx_with_zero"},  # a part of reset_parameters
    "MultiheadAttention": {"merge_masks"},  # prepares the fused fast path's mask
}
ABSENT_ATTRIBUTES = {
    "TransformerEncoder": {"use_nested_tensor"},  # whether the fast path may be taken
    "TransformerEncoderLayer": {"activation_relu_or_gelu"},  # which of the fast path's kernels fits
}


def arguments(function):
    """Name, kind and default of every argument; of a default that is a function, its name."""
    return [
        (p.name, p.kind, getattr(p.default, "__name__", p.default))
        for p in inspect.signature(function).parameters.values()
    ]


def own_methods(cls):
    """Methods that the class, or a base below Module, defines; __init__ and forward among them."""
    inherited = {name for name, value in vars(torch.nn.Module).items() if value is getattr(cls, name, None)}
    methods = {name for name in dir(cls) if callable(getattr(cls, name)) and name not in inherited}
    return {name for name in methods if not hasattr(object, name) or name == "__init__"}


def test_the_table_has_every_class():
    classes = {name for name in nn.__all__ if getattr(nn, name) is not getattr(torch.nn, name, None)}
    assert classes - {"KeyValueCache"} == {component.name for component in MODULES}  # a cache is no module


@every_module
def test_pairs_are_of_one_name(component):
    assert component.ours is getattr(nn, component.name)
    assert component.builtin is getattr(torch.nn if component.is_drop_in else counterparts, component.name)
    assert component.ours is not component.builtin
    assert not issubclass(component.ours, component.builtin)


@every_module
def test_a_counterpart_is_made_of_torchs_parts_and_only_where_torch_has_none(component):
    assert component.is_drop_in == hasattr(torch.nn, component.name)
    parts = component.build(component.builtin, component.cases[0].init).modules()
    assert {type(part).__module__.partition(".")[0] for part in parts} <= {"torch"} | (
        set() if component.is_drop_in else {"scratch_transformer"}
    )
    assert not any(type(part).__module__.startswith(nn.__name__) for part in parts)


@every_drop_in
def test_arguments_of_every_method(component):
    methods = own_methods(component.builtin) - ABSENT_METHODS.get(component.name, set())
    assert {"__init__", "forward"} <= methods
    for name in methods:
        ours, builtin = (arguments(getattr(cls, name)) for cls in (component.ours, component.builtin))
        newer = NEWER_ARGUMENTS.get(component.name, set()) - {argument[0] for argument in builtin}
        assert [argument for argument in ours if argument[0] not in newer] == builtin, name


@every_module
def test_newer_arguments_are_keywords(component):
    """So that torch's order is not disturbed where torch doesn't have them yet."""
    parameters = inspect.signature(component.ours).parameters
    for name in NEWER_ARGUMENTS.get(component.name, ()):
        assert parameters[name].kind == inspect.Parameter.KEYWORD_ONLY
        assert parameters[name].default is True


@every_module
def test_class_attributes(component):
    for name, value in vars(component.builtin).items():
        if name == "__constants__" or not (name.startswith("__") or callable(value) or isinstance(value, classmethod)):
            assert getattr(component.ours, name) == value, name


@every_module
def test_the_lists_of_absences_are_not_longer_than_needed(component):
    """An entry that torch has dropped, or that ours has gained, must go."""
    for name in ABSENT_METHODS.get(component.name, ()):
        assert hasattr(component.builtin, name), name
        assert not hasattr(component.ours, name), name
    case = component.cases[0]
    ours, builtin = build(component, case)
    for name in ABSENT_ATTRIBUTES.get(component.name, ()):
        assert hasattr(builtin, name), name
        assert not hasattr(ours, name), name


@every_constructor
def test_attributes_of_an_instance(component, case):
    """Every public or protected name, of the module and its parts; values where they are plain."""
    ours, builtin = build(component, case)
    our_parts = dict(ours.named_modules())
    for path, part in builtin.named_modules():
        absent = ABSENT_ATTRIBUTES.get(type(part).__name__, set())
        for name, value in vars(part).items():
            if name in absent:
                continue
            assert hasattr(our_parts[path], name), f"{path}.{name}"
            if isinstance(value, (bool, int, float, str, tuple, type(None))):
                assert getattr(our_parts[path], name) == value, f"{path}.{name}"
            elif inspect.isfunction(value) or inspect.isbuiltin(value):
                assert getattr(our_parts[path], name).__name__ == value.__name__, f"{path}.{name}"


@every_constructor
def test_the_same_parts_in_the_same_order(component, case):
    """Paths and class names: what named_modules, apply and hooks walk through."""

    def parts(factory):
        return [
            (path, type(part).__name__.replace("NonDynamicallyQuantizableLinear", "Linear"))
            for path, part in component.build(factory, case.init).named_modules()
        ]

    assert parts(component.ours) == parts(component.builtin)


@every_constructor
def test_repr(component, case):
    ours, builtin = map(repr, build(component, case))
    # torch's out_proj is a Linear by another name, for its quantization
    builtin = builtin.replace("NonDynamicallyQuantizableLinear", "Linear")
    # older torch doesn't print whether a norm has a bias
    for norm in ("LayerNorm", "BatchNorm1d"):
        if not re.search(rf"{norm}\(.*bias=", builtin):
            ours = re.sub(rf"({norm}\(.*?), bias=(True|False)", r"\1", ours)
    assert ours == builtin


@pytest.mark.parametrize("name", ["encoder_layer", "decoder_layer"])
def test_activations_by_name_are_functions_of_that_name(name):
    layer_class = {"encoder_layer": "TransformerEncoderLayer", "decoder_layer": "TransformerDecoderLayer"}[name]
    for activation in ("relu", "gelu"):
        ours, builtin = (getattr(library, layer_class)(4, 2, activation=activation) for library in (nn, torch.nn))
        assert ours.activation.__name__ == builtin.activation.__name__ == activation


@pytest.mark.parametrize("name", ["Transformer", "TransformerEncoderLayer", "TransformerDecoderLayer"])
def test_the_defaults_build_what_torchs_build(name):
    described = []
    for library in (nn, torch.nn):
        with torch.device("meta"):  # takes no memory
            module = getattr(library, name)(*([] if name == "Transformer" else [8, 2]))
        heads = [part.num_heads for part in module.modules() if hasattr(part, "num_heads")]
        text = repr(module).replace("NonDynamicallyQuantizable", "")
        described.append((re.sub(r"(LayerNorm\(.*?), bias=\w+", r"\1", text), heads))  # older torch doesn't print it
    assert described[0] == described[1]
