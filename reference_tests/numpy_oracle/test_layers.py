import itertools

import pytest
import torch

from reference_tests.numpy_oracle.against_torch import (
    B,
    E,
    F,
    H,
    S,
    T,
    biases,
    blocked,
    compare,
    normal,
    padding,
    randomized,
)

KINDS = ["post relu", "pre gelu", "post gelu nobias", "pre relu nobias"]
LAYOUTS = pytest.mark.parametrize("layout", ["batch_first", "sequence_first", "unbatched"])


def build(name, layout, kind="post relu", dropout=0.0):
    constructor = {
        "d_model": E,
        "nhead": H,
        "dim_feedforward": F,
        "dropout": dropout,
        "activation": "gelu" if "gelu" in kind else "relu",
        "layer_norm_eps": 0.01,
        "batch_first": layout == "batch_first",
        "norm_first": "pre" in kind,
        "bias": "nobias" not in kind,
    }
    return constructor, randomized(getattr(torch.nn, name)(**constructor))


def sequence(layout, length):
    return normal(*{"batch_first": (B, length), "sequence_first": (length, B), "unbatched": (length,)}[layout], E)


def self_masks(prefix, layout, length, kind):
    """A causal or random mask, and left and right padding."""
    mask, pad = blocked(B * H, length, length), padding(length)
    mask[:, range(length), range(length)] = False
    pad_values = {"boolean": pad, "float": normal(B, length).masked_fill(pad, -torch.inf)}[kind]
    mask_values = {"boolean": mask, "float": biases(B * H, length, length).masked_fill(mask, -2.0)}[kind]
    if layout == "unbatched":
        mask_values, pad_values = mask_values[:H], pad_values[0]
    return {f"{prefix}_mask": mask_values, f"{prefix}_key_padding_mask": pad_values}


@LAYOUTS
@pytest.mark.parametrize("kind", KINDS)
def test_encoder_layer_equals_torch(layout, kind):
    compare("TransformerEncoderLayer", *build("TransformerEncoderLayer", layout, kind), [sequence(layout, S)])


@LAYOUTS
@pytest.mark.parametrize("kind", KINDS)
def test_decoder_layer_equals_torch(layout, kind):
    args = [sequence(layout, T), sequence(layout, S)]
    compare("TransformerDecoderLayer", *build("TransformerDecoderLayer", layout, kind), args)


@LAYOUTS
@pytest.mark.parametrize("kind", ["boolean", "float"])
def test_masked_encoder_layer_equals_torch(layout, kind):
    masks = self_masks("src", layout, S, kind)
    compare("TransformerEncoderLayer", *build("TransformerEncoderLayer", layout), [sequence(layout, S)], masks)


@LAYOUTS
@pytest.mark.parametrize("kind", ["boolean", "float"])
def test_masked_decoder_layer_equals_torch(layout, kind):
    memory = self_masks("memory", layout, S, kind)
    memory["memory_mask"] = blocked(T, S) if kind == "boolean" else biases(T, S)
    masks = self_masks("tgt", layout, T, kind) | memory
    args = [sequence(layout, T), sequence(layout, S)]
    compare("TransformerDecoderLayer", *build("TransformerDecoderLayer", layout), args, masks)


@pytest.mark.parametrize("kind", ["post relu", "pre relu"])
def test_causal_layers_equal_torch(kind):
    causal = torch.nn.Transformer.generate_square_subsequent_mask(T, dtype=torch.float64)
    tgt, memory = sequence("batch_first", T), sequence("batch_first", S)
    for hints in ({}, {"is_causal": True}):
        layer = build("TransformerEncoderLayer", "batch_first", kind)
        compare("TransformerEncoderLayer", *layer, [tgt], {"src_mask": causal, **hints})
    for hints in ({}, {"tgt_is_causal": True}):
        layer = build("TransformerDecoderLayer", "batch_first", kind)
        compare("TransformerDecoderLayer", *layer, [tgt, memory], {"tgt_mask": causal, **hints})


class Drop(torch.nn.Module):
    """Drops what its mask says."""

    def __init__(self, keep, p):
        super().__init__()
        self.keep, self.p = keep, p

    def forward(self, x):
        return x * self.keep / (1 - self.p)


def with_known_masks(monkeypatch, layer, p, lengths):
    """Replace every dropout in a torch layer by one with a known mask; return the masks by module name."""
    masks = {}
    for name, module in list(layer.named_children()):
        if isinstance(module, torch.nn.Dropout):
            masks[name] = torch.rand(B, T, F if name == "dropout" else E) > p
            setattr(layer, name, Drop(masks[name], p))
        elif isinstance(module, torch.nn.MultiheadAttention):
            masks[name] = torch.rand(B, H, T, lengths[name]) > p

    in_order = itertools.cycle([masks[name] for name in lengths])

    def attention(q, k, v, attn_mask, dropout_p, is_causal):
        assert (attn_mask, dropout_p, is_causal) == (None, p, False)
        return Drop(next(in_order), p)((q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)) @ v

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", attention)
    return {name: mask.numpy() for name, mask in masks.items()}


@pytest.mark.parametrize("kind", ["post relu", "pre gelu"])
@pytest.mark.parametrize("name", ["TransformerEncoderLayer", "TransformerDecoderLayer"])
def test_train_mode_equals_torch_with_the_same_elements_dropped(monkeypatch, name, kind):
    p = 0.3
    constructor, layer = build(name, "batch_first", kind, dropout=p)
    lengths = {"self_attn": T} | ({"multihead_attn": S} if "Decoder" in name else {})
    masks = with_known_masks(monkeypatch, layer.train(), p, lengths)
    args = [sequence("batch_first", T)] + ([sequence("batch_first", S)] if "Decoder" in name else [])
    compare(name, constructor, layer, args, training=True, keep_masks=masks)
    for missing in masks:
        others = {key: mask for key, mask in masks.items() if key != missing}
        with pytest.raises(KeyError, match="no mask for dropout"):
            compare(name, constructor, layer, args, training=True, keep_masks=others)
