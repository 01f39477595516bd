"""How far whole stacks, a tutorial's or ours, are from PyTorch's with the same weights."""

import math

import torch
from torch import nn

from docs.tutorials.classes import D_FF, D_MODEL, SRC_PAD, B, H, S, T, error
from reference_tests.as_taught.assembled import model_of_tutorial_a, model_of_tutorial_d
from scratch_transformer import functional, masks
from scratch_transformer.conversion import load_tutorial, to_torch
from scratch_transformer.model import build_transformer

N = 2
SIZES = (50, 60, 10, 12, D_MODEL, N, H, 0.0, D_FF)


def errors_of_ours():
    """Part -> error of our model, pre-norm."""
    model = build_transformer(*SIZES)
    return _errors(model, model)


def error_of_ours_post_norm():
    """Error of our encoder block, post-norm."""
    model, x = build_transformer(*SIZES, norm="post"), torch.randn(B, S, D_MODEL)
    block = nn.TransformerEncoderLayer(D_MODEL, H, D_FF, 0.0, batch_first=True)
    names = {name.removeprefix("encoder.layers.0."): values for name, values in to_torch(model.state_dict()).items()}
    block.load_state_dict({name: names[name] for name in block.state_dict()})
    return error(model.encoder.layers[0](x), block(x))


def errors_of_tutorial_a():
    """Part -> error of Tutorial A's model. "post" is its encoder block beside PyTorch's default, post-norm."""
    taught, ours = _glorot(model_of_tutorial_a(*SIZES)), build_transformer(*SIZES, attention_bias=False)
    load_tutorial(ours, taught.state_dict())
    return _errors(taught, ours)


def errors_of_tutorial_d():
    """The same of Tutorial D's model, which ends in log probabilities."""
    taught, ours = _glorot(model_of_tutorial_d(*SIZES)), build_transformer(*SIZES)
    load_tutorial(ours, taught.state_dict())
    return _errors(taught, ours, lambda logits: logits.log_softmax(-1))


def _errors(taught, ours, ending=lambda logits: logits):
    x, memory = torch.randn(B, T, D_MODEL), torch.randn(B, S, D_MODEL)
    torchs, torchs_post = _torch_stacks(ours), _torch_stacks(ours, norm_first=False)
    later = nn.Transformer.generate_square_subsequent_mask(T)
    causal = masks.causal(T)
    src, tgt = torch.randint(2, SRC_PAD, (B, S)), torch.randint(2, 60, (B, T))
    src_mask = masks.padding(src, SRC_PAD)
    logits = taught.project(taught.decode(taught.encode(src, src_mask), src_mask, tgt, causal))
    encoded = torchs.encoder(_embed(src, ours.src_embed))
    decoded = torchs.decoder(_embed(tgt, ours.tgt_embed), encoded, tgt_mask=later)
    projection = ours.projection_layer.proj
    block, post = torchs.encoder.layers[0], torchs_post.encoder.layers[0]
    decoder_block = torchs.decoder.layers[0](x, memory, tgt_mask=later)
    return {
        "encoder block": error(taught.encoder.layers[0](x, None), block(x)),
        "encoder": error(taught.encoder(x, None), torchs.encoder(x)),
        "decoder block": error(taught.decoder.layers[0](x, memory, None, causal), decoder_block),
        "decoder": error(taught.decoder(x, memory, None, causal), torchs.decoder(x, memory, tgt_mask=later)),
        "transformer": error(logits, ending(nn.functional.linear(decoded, projection.weight, projection.bias))),
        "post": error(taught.encoder.layers[0](x, None), post(x)),
    }


def _torch_stacks(ours, norm_first=True):
    options = {"dropout": 0.0, "batch_first": True, "norm_first": norm_first}
    encoder_layer = nn.TransformerEncoderLayer(D_MODEL, H, D_FF, **options)
    decoder_layer = nn.TransformerDecoderLayer(D_MODEL, H, D_FF, **options)
    encoder = nn.TransformerEncoder(encoder_layer, N, nn.LayerNorm(D_MODEL), enable_nested_tensor=False)
    decoder = nn.TransformerDecoder(decoder_layer, N, nn.LayerNorm(D_MODEL))
    stacks = nn.Transformer(D_MODEL, H, custom_encoder=encoder, custom_decoder=decoder, **options)
    stacks.load_state_dict(to_torch(ours.state_dict()))
    return stacks


def _embed(ids, embed):
    vectors = nn.functional.embedding(ids, embed.embedding.weight) * math.sqrt(D_MODEL)
    return vectors + functional.sinusoidal_positions(ids.shape[1], D_MODEL)


def _glorot(model):
    """Every matrix drawn as the tutorials and `build_transformer` do."""
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)
    return model
