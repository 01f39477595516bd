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
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("shape", [(B, S), (S,)], ids=["batch", "unbatched"])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("mask_size", [B, S, E, None])
@pytest.mark.parametrize("hint", [None, True, False])
def test_how_attention_is_called(hint, mask_size, batch_first, shape, norm_first):
    """As by torch: without weights, and with the hint; None is whether the mask is the causal one, of x's length."""
    mask = None if mask_size is None else Draw().future(mask_size)
    x = tokens(*shape if batch_first else reversed(shape))
    calls = []
    for library in (nn, torch.nn):
        layer = library.TransformerEncoderLayer(**{**LAYER, "batch_first": batch_first}, norm_first=norm_first).double()
        stack = library.TransformerEncoder(layer, 1)
        calls.append(called := [])
        stack.layers[0].self_attn.forward = lambda x, *_, called=called, **options: called.append(options) or (x, None)
        stack(x, mask, is_causal=hint)
    ours, builtin = ([(o["need_weights"], o["is_causal"]) for o in called] for called in calls)
    assert ours == builtin
    assert len(ours) == 1


@quiet
def test_blocks_as_a_subclass_may_call_them():
    ours, builtin = (stack.layers[0] for stack in encoders())
    x = tokens(B, S)
    assert_equal(ours._sa_block(x, None, None), builtin._sa_block(x, None, None))
    assert_equal(ours._ff_block(x), builtin._ff_block(x))


@quiet
def test_vmap_over_masks():
    """Under vmap nobody can see whether a mask is the causal one: each is applied as it is."""
    ours, builtin = encoders()
    x, every = tokens(B, S), torch.stack([Draw().future(S), Draw().future(S).T, torch.eye(S) == 0])
    actual = torch.vmap(lambda mask: ours(x, mask))(every)
    assert_equal(actual, torch.stack([builtin(x, mask) for mask in every]))


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
