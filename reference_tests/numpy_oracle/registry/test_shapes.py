import pytest
import torch

from scratch_transformer.numpy_oracle.registry import COMPONENTS

SMALL = {"d_model": 6, "nhead": 2, "dim_feedforward": 5}
CASES = [
    ("Linear", {"in_features": 2, "out_features": 3}),
    ("Linear", {"in_features": 2, "out_features": 3, "bias": False}),
    ("Embedding", {"num_embeddings": 4, "embedding_dim": 3}),
    ("LayerNorm", {"normalized_shape": [3, 4]}),
    ("LayerNorm", {"normalized_shape": 3, "bias": False}),
    ("LayerNorm", {"normalized_shape": 3, "elementwise_affine": False}),
    ("RMSNorm", {"normalized_shape": 3}),
    ("BatchNorm1d", {"num_features": 3}),
    ("BatchNorm1d", {"num_features": 3, "affine": False, "track_running_stats": False}),
    ("CrossEntropyLoss", {"weight": torch.ones(3)}),
    ("MultiheadAttention", {"embed_dim": 6, "num_heads": 2}),
    ("MultiheadAttention", {"embed_dim": 6, "num_heads": 2, "bias": False, "kdim": 4, "add_bias_kv": True}),
    ("TransformerEncoderLayer", SMALL),
    ("TransformerEncoderLayer", SMALL | {"bias": False}),
    ("TransformerDecoderLayer", SMALL),
    ("TransformerDecoderLayer", SMALL | {"bias": False}),
    ("Transformer", SMALL | {"num_encoder_layers": 1, "num_decoder_layers": 2, "batch_first": True}),
]


@pytest.mark.parametrize(("name", "constructor"), CASES)
def test_keys_and_shapes_are_those_of_torchs_state_dict(name, constructor):
    component = COMPONENTS[name](**constructor)
    module = getattr(torch.nn, name)(**constructor)
    assert component.shapes == {key: tuple(value.shape) for key, value in module.named_parameters()}
    assert component.buffer_shapes == {key: tuple(value.shape) for key, value in module.named_buffers()}
    assert set(component.shapes | component.buffer_shapes) == set(module.state_dict())
