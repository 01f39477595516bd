"""TransformerEncoderLayer and TransformerEncoder against torch.nn's."""

import pytest
import torch

from reference_tests.agreement import assert_agree, assert_equal
from reference_tests.proof import prove, quiet
from scratch_transformer import nn
from scratch_transformer.conformance import Draw

test_definition, test_precision, test_errors = prove("TransformerEncoderLayer", "TransformerEncoder")

B, S, H, E, FF = 3, 5, 3, 6, 7
LAYER = {"d_model": E, "nhead": H, "dim_feedforward": FF, "batch_first": True}


def encoders(num_layers=2, **layer):
    """Ours and torch's with the same parameters, none of them zero, in evaluation mode."""
    ours, builtin = (
        library.TransformerEncoder(library.TransformerEncoderLayer(**LAYER, **layer), num_layers, library.LayerNorm(E))
        for library in (nn, torch.nn)
    )
    return with_equal_parameters(ours, builtin)


def with_equal_parameters(ours, builtin):
    Draw(0).randomise(builtin)
    ours.load_state_dict(builtin.state_dict())
    return ours.double().eval(), builtin.double().eval()


def tokens(*shape):
    return torch.randn(*shape, E, dtype=torch.float64)


@quiet
def test_layers_that_are_no_copies_of_each_other():
    """A stack runs what is in its list, whatever its settings."""
    settings = [{"norm_first": True}, {"activation": "gelu", "bias": False}, {"layer_norm_eps": 0.2}]
    stacks = []
    for library in (nn, torch.nn):
        layers = [
            library.TransformerEncoderLayer(**{**LAYER, "dim_feedforward": FF + i}, **s) for i, s in enumerate(settings)
        ]
        stack = library.TransformerEncoder(layers[0], 1)
        stack.layers = torch.nn.ModuleList(layers)
        stacks.append(stack)
    assert_agree(*with_equal_parameters(*stacks), tokens(B, S), src_key_padding_mask=Draw().padding(B, S))


@quiet
@pytest.mark.parametrize("side", ["left", "right"])
def test_torchs_fast_path_agrees_at_valid_positions(side):
    """In evaluation and without gradients torch takes a fused kernel, which makes padded positions zero."""
    ours, builtin = encoders()
    x, padding = tokens(B, S), Draw().padding(B, S, side)
    torch.backends.mha.set_fastpath_enabled(True)
    with torch.no_grad():
        actual, expected = (encoder(x, src_key_padding_mask=padding) for encoder in (ours, builtin))
    valid = ~padding[:, : expected.shape[1]]
    assert_equal(actual[:, : expected.shape[1]][valid], expected[valid])


@quiet
def test_nested_tensors_are_refused():
    nested = torch.nested.nested_tensor([torch.randn(4, E), torch.randn(S, E)], layout=torch.jagged)
    ours, _ = encoders()
    for module in (ours, ours.layers[0]):
        with pytest.raises(NotImplementedError, match=f"{type(module).__name__}: src is a nested tensor"):
            module(nested)
