"""TransformerDecoderLayer and TransformerDecoder against torch.nn's."""

import pytest
import torch

from reference_tests.agreement import assert_agree, assert_equal
from reference_tests.proof import prove
from scratch_transformer import nn
from scratch_transformer.conformance import Draw

test_definition, test_precision, test_errors = prove("TransformerDecoderLayer", "TransformerDecoder")

B, T, S, H, E, FF = 3, 4, 5, 3, 6, 7
LAYER = {"d_model": E, "nhead": H, "dim_feedforward": FF, "batch_first": True}


def tokens(length):
    return torch.randn(B, length, E, dtype=torch.float64)


def test_layers_that_are_no_copies_of_each_other():
    """A stack runs what is in its list, whatever its settings."""
    settings = [{"norm_first": True}, {"activation": "gelu", "bias": False}, {"layer_norm_eps": 0.2}]
    stacks = []
    for library in (nn, torch.nn):
        layers = [
            library.TransformerDecoderLayer(**{**LAYER, "dim_feedforward": FF + i}, **s) for i, s in enumerate(settings)
        ]
        stack = library.TransformerDecoder(layers[0], 1)
        stack.layers = torch.nn.ModuleList(layers)
        stacks.append(stack.double().eval())
    ours, builtin = stacks
    Draw(0).randomise(builtin)
    ours.load_state_dict(builtin.state_dict())
    draw = Draw(1)
    masks = {"tgt_mask": draw.future(T), "memory_key_padding_mask": draw.padding(B, S, "left")}
    assert_agree(ours, builtin, tokens(T), tokens(S), **masks)


@pytest.mark.parametrize("is_masked", [True, False])
@pytest.mark.parametrize("hint", [None, True, False])
def test_the_hint_that_the_layers_get(hint, is_masked):
    """None: whether tgt_mask is the causal mask."""
    hints = []
    for library in (nn, torch.nn):
        stack = library.TransformerDecoder(library.TransformerDecoderLayer(**LAYER), 2).double()
        for layer in stack.layers:
            layer.forward = lambda x, memory, **options: hints.append(options["tgt_is_causal"]) or x
        stack(tokens(T), tokens(S), tgt_mask=Draw().future(T) if is_masked else None, tgt_is_causal=hint)
    assert hints == [is_masked if hint is None else hint] * 4


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("memory_hint", [True, False])
@pytest.mark.parametrize("hint", [None, True, False])
def test_how_attention_is_called(hint, memory_hint, norm_first):
    """As by torch: without weights, and with the hints."""
    calls = []
    for library in (nn, torch.nn):
        stack = library.TransformerDecoder(library.TransformerDecoderLayer(**LAYER, norm_first=norm_first), 1).double()
        calls.append(called := [])
        for attention in (stack.layers[0].self_attn, stack.layers[0].multihead_attn):
            attention.forward = lambda x, *_, called=called, **options: called.append(options) or (x, None)
        hints = {"tgt_is_causal": hint, "memory_is_causal": memory_hint}
        stack(tokens(T), tokens(S), tgt_mask=Draw().future(T), **hints)
    ours, builtin = ([(o["need_weights"], o["is_causal"]) for o in called] for called in calls)
    assert ours == builtin
    assert len(ours) == 2


def test_blocks_as_a_subclass_may_call_them():
    ours, builtin = (library.TransformerDecoderLayer(**LAYER).double().eval() for library in (nn, torch.nn))
    Draw(0).randomise(builtin)
    ours.load_state_dict(builtin.state_dict())
    x, memory = tokens(T), tokens(S)
    assert_equal(ours._sa_block(x, None, None), builtin._sa_block(x, None, None))
    assert_equal(ours._mha_block(x, memory, None, None), builtin._mha_block(x, memory, None, None))
    assert_equal(ours._ff_block(x), builtin._ff_block(x))


@pytest.mark.parametrize("position, name", list(enumerate(["tgt", "memory"])))
def test_nested_tensors_are_refused(position, name):
    layer = nn.TransformerDecoderLayer(**LAYER).double()
    inputs = [tokens(T), tokens(S)]
    inputs[position] = torch.nested.nested_tensor([torch.randn(T, E), torch.randn(S, E)], layout=torch.jagged)
    for module in (layer, nn.TransformerDecoder(layer, 2)):
        with pytest.raises(NotImplementedError, match=f"{type(module).__name__}: {name} is a nested tensor"):
            module(*inputs)
