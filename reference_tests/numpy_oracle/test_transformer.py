import pytest
import torch

from reference_tests.numpy_oracle.against_torch import B, E, F, H, S, T, blocked, compare, normal, padding, randomized


def build(**options):
    constructor = {
        "d_model": E,
        "nhead": H,
        "num_encoder_layers": 2,
        "num_decoder_layers": 3,
        "dim_feedforward": F,
        "layer_norm_eps": 0.01,
        **options,
    }
    transformer = torch.nn.Transformer(**constructor)
    return constructor, randomized(transformer)


def inputs(layout):
    shapes = {"batch_first": ((B, S), (B, T)), "sequence_first": ((S, B), (T, B)), "unbatched": ((S,), (T,))}[layout]
    return [normal(*shape, E) for shape in shapes]


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@pytest.mark.parametrize("options", [{}, {"norm_first": True, "activation": "gelu"}, {"bias": False}])
@pytest.mark.parametrize("layout", ["batch_first", "sequence_first", "unbatched"])
def test_transformer_equals_torch(layout, options):
    options = options | {"batch_first": layout == "batch_first"}
    compare("Transformer", *build(**options), inputs(layout))


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
def test_every_mask_equals_torch():
    masks = {
        "src_mask": blocked(B * H, S, S),
        "tgt_mask": torch.ones(T, T).triu(1).bool(),
        "memory_mask": blocked(T, S),
        "src_key_padding_mask": padding(S),
        "tgt_key_padding_mask": padding(T)[[0, 0, 2]],  # on the right: every causal query keeps a key
        "memory_key_padding_mask": padding(S)[[1, 0, 2]],
    }
    compare("Transformer", *build(batch_first=True), inputs("batch_first"), masks)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
def test_left_padded_targets_whose_first_queries_see_nothing():
    """torch gives zeros there too, since it asks scaled_dot_product_attention and not for the weights."""
    masks = {"tgt_mask": torch.ones(T, T).triu(1).bool(), "tgt_key_padding_mask": padding(T)}
    compare("Transformer", *build(batch_first=True), inputs("batch_first"), masks)
