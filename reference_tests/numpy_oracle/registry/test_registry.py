import doctest
import inspect

import numpy as np
import pytest
import torch

from scratch_transformer import nn
from scratch_transformer.numpy_oracle import registry
from scratch_transformer.numpy_oracle.registry import COMPONENTS, ORACLES

MODULES = sorted(set(COMPONENTS) - {"scaled_dot_product_attention"})


def module(name):
    """torch's class, or ours where torch has none."""
    return getattr(torch.nn, name, None) or getattr(nn, name)


def names(function):
    return [name for name in inspect.signature(function).parameters if name != "self"]


@pytest.mark.parametrize("name", MODULES)
def test_inputs_have_torchs_names_and_order(name):
    assert list(COMPONENTS[name].inputs) == names(module(name).forward)


def test_attentions_inputs_are_those_that_torch_documents():
    """The builtin has no signature to inspect."""
    documented = torch.nn.functional.scaled_dot_product_attention.__doc__.strip().partition("(")[2].partition(")")[0]
    expected = tuple(word.split("=")[0].strip(" *") for word in documented.replace("\n", " ").split(","))
    assert COMPONENTS["scaled_dot_product_attention"].inputs == expected


@pytest.mark.parametrize("name", MODULES)
def test_constructors_have_torchs_arguments_and_defaults(name):
    """Left out: device and dtype, which `run` removes, and private ones; a string stands for the function relu."""
    theirs = inspect.signature(module(name)).parameters
    ours = inspect.signature(COMPONENTS[name]).parameters
    public = {key: value for key, value in theirs.items() if key not in ("device", "dtype") and not key.startswith("_")}
    for key, value in public.items():
        is_function = key == "activation" and callable(value.default)
        assert ours[key].default == ("relu" if is_function else value.default), key
    assert set(ours) - set(public) <= {"bias"}  # older versions of torch had no BatchNorm1d(bias=...)


@pytest.mark.parametrize(
    ("name", "constructor", "message"),
    [
        ("Embedding", {"num_embeddings": 2, "embedding_dim": 3, "max_norm": 1.0}, r"Embedding\(max_norm=1.0\)"),
        ("Softmax", {}, r"Softmax\(dim=None\)"),
        ("LogSoftmax", {}, r"LogSoftmax\(dim=None\)"),
        ("CrossEntropyLoss", {"reduce": True}, r"CrossEntropyLoss\(size_average, reduce\)"),
        ("TransformerEncoderLayer", {"d_model": 2, "nhead": 1, "activation": np.tanh}, "activation=<ufunc 'tanh'>"),
        ("TransformerEncoder", {"encoder_layer": object(), "num_layers": 1}, "must be given as a dict"),
        (
            "TransformerDecoder",
            {"decoder_layer": {}, "num_layers": 1, "norm": object()},
            "norm must be given as a dict",
        ),
        ("Transformer", {"custom_encoder": object()}, r"Transformer\(custom_encoder, custom_decoder\)"),
    ],
)
def test_what_the_oracle_cannot_do_it_names(name, constructor, message):
    with pytest.raises(NotImplementedError, match=message):
        ORACLES[name](constructor, {}, ())


@pytest.mark.parametrize(
    ("name", "hint"),
    [("MultiheadAttention", "is_causal"), ("Transformer", "tgt_is_causal"), ("Transformer", "src_is_causal")],
)
def test_a_causal_hint_without_a_mask_is_refused(name, hint):
    sizes = {"MultiheadAttention": {"embed_dim": 2, "num_heads": 1}}.get(
        name, {"d_model": 2, "nhead": 1, "num_encoder_layers": 1, "num_decoder_layers": 1, "dim_feedforward": 3}
    )
    shapes = COMPONENTS[name](**sizes).shapes
    parameters, x = {key: np.ones(shape) for key, shape in shapes.items()}, np.ones((3, 2))
    args = (x, x, x) if name == "MultiheadAttention" else (x, x)
    with pytest.raises(ValueError, match="is_causal=True is a hint about the mask"):
        ORACLES[name](sizes, parameters, args, {hint: True})


def test_the_example_is_what_happens():
    failed, attempted = doctest.testmod(registry)
    assert attempted == 6
    assert failed == 0
