"""Modules of the two libraries inside each other: our layers in torch's stacks, torch's layers in ours."""

import itertools

import pytest
import torch

from reference_tests.agreement import assert_agree
from reference_tests.nn.examples import QUIET
from scratch_transformer import nn
from scratch_transformer.conformance import Draw

pytestmark = QUIET

B, T, S, E, H, FF = 2, 4, 5, 6, 3, 7
LAYER = {"d_model": E, "nhead": H, "dim_feedforward": FF, "dropout": 0.2, "batch_first": True}
LIBRARIES = {"ours": nn, "torch": torch.nn}
MIXTURES = list(itertools.product(LIBRARIES, repeat=2))
every_mixture = pytest.mark.parametrize("mixture", MIXTURES, ids=["-".join(mixture) for mixture in MIXTURES])


def encoder(stack, layer):
    return stack.TransformerEncoder(layer.TransformerEncoderLayer(**LAYER), 2, layer.LayerNorm(E))


def decoder(stack, layer):
    return stack.TransformerDecoder(layer.TransformerDecoderLayer(**LAYER), 2, layer.LayerNorm(E))


def assert_as_torchs(module, builtin, *inputs, **masks):
    Draw(0).randomise(builtin.double())
    module.double().load_state_dict(builtin.state_dict())
    assert_agree(module.train(), builtin.train(), *inputs, **masks)
    assert_agree(module.eval(), builtin.eval(), *inputs, **masks)


@pytest.fixture
def masks():
    draw = Draw(1)
    return {"causal": draw.future(T), "source": draw.padding(B, S), "target": draw.padding(B, T)}


def tokens(length):
    return torch.randn(B, length, E, dtype=torch.float64)


@every_mixture
def test_encoder(mixture, masks):
    stack, layer = (LIBRARIES[name] for name in mixture)
    builtin = encoder(torch.nn, torch.nn)
    assert_as_torchs(encoder(stack, layer), builtin, tokens(S), src_key_padding_mask=masks["source"])


@every_mixture
def test_decoder(mixture, masks):
    stack, layer = (LIBRARIES[name] for name in mixture)
    builtin, options = decoder(torch.nn, torch.nn), {"tgt_mask": masks["causal"], "tgt_is_causal": True}
    assert_as_torchs(decoder(stack, layer), builtin, tokens(T), tokens(S), **options)


@every_mixture
@pytest.mark.parametrize("whole", LIBRARIES)
def test_custom_stacks_in_transformer(whole, mixture, masks):
    encoder_library, decoder_library = (LIBRARIES[name] for name in mixture)

    def make(whole, encoder_library, decoder_library):
        stacks = encoder(encoder_library, encoder_library), decoder(decoder_library, decoder_library)
        return whole.Transformer(E, H, custom_encoder=stacks[0], custom_decoder=stacks[1], batch_first=True)

    module = make(LIBRARIES[whole], encoder_library, decoder_library)
    builtin = make(torch.nn, torch.nn, torch.nn)
    options = {
        "tgt_mask": masks["causal"],
        "src_key_padding_mask": masks["source"],
        "memory_key_padding_mask": masks["source"],
        "tgt_key_padding_mask": masks["target"],
    }
    assert_as_torchs(module, builtin, tokens(S), tokens(T), **options)


@pytest.mark.parametrize("part", ["self_attn", "linear1", "norm1", "dropout1"])
@every_mixture
def test_a_part_of_a_layer_replaced(mixture, part):
    """What people do who patch a model: one submodule swapped for the other library's."""
    host, guest = (LIBRARIES[name] for name in mixture)
    builtin = torch.nn.TransformerEncoderLayer(**LAYER)
    module = host.TransformerEncoderLayer(**LAYER)
    setattr(module, part, getattr(guest.TransformerEncoderLayer(**LAYER), part))
    assert_as_torchs(module, builtin, tokens(S))
