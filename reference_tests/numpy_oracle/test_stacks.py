import numpy as np
import pytest
import torch

from reference_tests.numpy_oracle.against_torch import B, E, F, H, S, T, blocked, compare, normal, padding, randomized
from scratch_transformer.numpy_oracle import LayerOptions, decoder, encoder

LAYER = {"d_model": E, "nhead": H, "dim_feedforward": F, "dropout": 0.1, "layer_norm_eps": 0.01}


def build(kind, num_layers, final_norm_eps=None, **options):
    """torch's stack, and the oracle's description of it: dicts in place of modules."""
    layer, norm = LAYER | options, None
    if final_norm_eps is not None:
        norm = {"normalized_shape": E, "eps": final_norm_eps, "bias": options.get("bias", True)}
    described = {f"{kind.lower()}_layer": layer, "num_layers": num_layers, "norm": norm}
    torch_layer = getattr(torch.nn, f"Transformer{kind}Layer")(**layer)
    torch_norm = None if norm is None else torch.nn.LayerNorm(**norm)
    extra = {"enable_nested_tensor": False} if kind == "Encoder" else {}
    stack = getattr(torch.nn, f"Transformer{kind}")(torch_layer, num_layers, torch_norm, **extra)
    return described | extra, randomized(stack)


@pytest.mark.parametrize("final_norm_eps", [None, 0.2])
@pytest.mark.parametrize("num_layers", [1, 3])
@pytest.mark.parametrize("options", [{"batch_first": True}, {"norm_first": True, "bias": False}])
def test_encoder_equals_torch(num_layers, final_norm_eps, options):
    x = normal(*((B, S) if "batch_first" in options else (S, B)), E)
    masks = {"mask": blocked(S, S), "src_key_padding_mask": padding(S)}
    compare("TransformerEncoder", *build("Encoder", num_layers, final_norm_eps, **options), [x], masks)


@pytest.mark.parametrize("final_norm_eps", [None, 0.2])
@pytest.mark.parametrize("num_layers", [1, 3])
@pytest.mark.parametrize("options", [{"batch_first": True}, {"norm_first": True, "bias": False}])
def test_decoder_equals_torch(num_layers, final_norm_eps, options):
    first = "batch_first" in options
    args = [normal(*((B, length) if first else (length, B)), E) for length in (T, S)]
    masks = {"tgt_mask": torch.ones(T, T).triu(1).bool(), "memory_key_padding_mask": padding(S)}
    compare("TransformerDecoder", *build("Decoder", num_layers, final_norm_eps, **options), args, masks)


def test_unbatched_stacks_equal_torch():
    compare("TransformerEncoder", *build("Encoder", 2), [normal(S, E)])
    compare("TransformerDecoder", *build("Decoder", 2), [normal(T, E), normal(S, E)])


def test_masks_by_position_equal_torch():
    args = [normal(S, B, E), blocked(S, S), padding(S)]
    compare("TransformerEncoder", *build("Encoder", 2), args)


@pytest.mark.parametrize(
    ("keys", "message"),
    [(["norm.weight"], r"the layers are \[\]"), (["layers.0.x", "layers.2.x"], r"the layers are \[0, 2\]")],
)
def test_layers_that_are_missing_are_noticed(keys, message):
    parameters, x = {key: np.ones(E) for key in keys}, np.ones((S, E))
    with pytest.raises(ValueError, match=message):
        encoder(x, parameters, LayerOptions(H))
    with pytest.raises(ValueError, match=message):
        decoder(x, x, parameters, LayerOptions(H))
