"""The gated feed-forward layer."""

import pytest
import torch

from reference_tests.agreement import assert_agree
from reference_tests.proof import prove
from scratch_transformer import nn

test_definition, test_precision, test_errors = prove("GatedFeedForward")


@pytest.mark.parametrize("bias", [False, True])
def test_names_and_shapes_are_llamas(bias):
    state = nn.GatedFeedForward(6, 10, bias=bias).state_dict()
    shapes = {"gate_proj.weight": (10, 6), "up_proj.weight": (10, 6), "down_proj.weight": (6, 10)}
    biases = {"gate_proj.bias": (10,), "up_proj.bias": (10,), "down_proj.bias": (6,)}
    assert {key: tuple(value.shape) for key, value in state.items()} == (shapes | biases if bias else shapes)


def test_without_weights_to_learn_it_is_torchs_glu():
    """torch.nn.GLU splits its input in two and opens the first half by the second."""
    ours = nn.GatedFeedForward(6, 3, activation="sigmoid").double()
    eye = torch.eye(6, dtype=torch.float64)
    ours.up_proj.weight.data, ours.gate_proj.weight.data = eye[:3].clone(), eye[3:].clone()
    ours.down_proj.weight.data = eye[:, :3].clone()
    x = torch.randn(2, 5, 6, dtype=torch.float64)
    for parameter in ours.parameters():
        parameter.requires_grad_(False)
    assert_agree(lambda x: ours(x)[..., :3], torch.nn.GLU(), x)
