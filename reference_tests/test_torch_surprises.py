"""Where torch surprises, and what this package does in the same place: the modules but attention.

Every test records what torch does, so that a change upstream is noticed. All hold from torch 2.6 to 2.13.
"""

import math

import pytest
import torch
import torch.nn.functional as F

from reference_tests.agreement import assert_equal
from scratch_transformer import functional, nn
from scratch_transformer.conformance import Draw
from scratch_transformer.conformance.environment import TORCH

B, T, E, H, FF = 2, 3, 8, 2, 5
LAYER = {"d_model": E, "nhead": H, "dim_feedforward": FF, "dropout": 0.0, "batch_first": True}


@pytest.fixture
def x():
    return torch.randn(B, T, E, dtype=torch.float64)


# ---- The Transformer and the paper ----


def test_transformer_normalizes_its_last_layer_twice(x):
    """The paper's stacks end with the last layer's own norm; torch's, and so the drop-in's, with one more."""
    ours, builtin = (lib.Transformer(E, H, 1, 1, FF, 0.0, batch_first=True).double() for lib in (nn, torch.nn))
    Draw(0).randomise(builtin)
    ours.load_state_dict(builtin.state_dict())
    for module in (ours, builtin):
        last_layer = module.encoder.layers[0](x)
        assert_equal(module.encoder(x), module.encoder.norm(last_layer))
        # the second norm undoes the scale and shift of the first, and applies its own
        assert (module.encoder(x) - last_layer).abs().max() > 0.1
    assert_equal(ours(x, x), builtin(x, x))


def test_a_stack_starts_with_equal_layers():
    """The layers are copies of one: all start with the same random values, in torch and here."""
    for library in (nn, torch.nn):
        stack = library.TransformerEncoder(library.TransformerEncoderLayer(**LAYER), 2, enable_nested_tensor=False)
        first, second = stack.layers
        assert torch.equal(first.linear1.weight, second.linear1.weight)


def test_the_feed_forward_network_has_a_dropout_that_the_paper_has_not(x):
    """Between its two linear maps. With p = 1 nothing of the first is left."""
    for library in (nn, torch.nn):
        layer = library.TransformerEncoderLayer(**LAYER).double().train()
        layer.dropout.p = 1.0
        assert_equal(layer._ff_block(x), layer.linear2.bias.expand(B, T, E))


# ---- Smaller ones ----


@pytest.mark.parametrize(("rank", "dim"), [(0, 0), (1, 0), (2, 1), (3, 0), (4, 1), (5, 1)])
def test_softmax_guesses_a_dimension(rank, dim):
    """Without dim: 0 for tensors of 0, 1 and 3 dimensions, otherwise 1; with a warning."""
    x = torch.randn(2, 3, 4, 5, 6, dtype=torch.float64)[(0,) * (5 - rank)]
    for library in (nn, torch.nn):
        with pytest.warns(UserWarning, match="Implicit dimension choice for softmax has been deprecated"):
            assert_equal(library.Softmax()(x), F.softmax(x, dim))


def test_cross_entropy_of_nothing_but_ignored_targets():
    """The mean over no targets is NaN: a batch of padding alone spoils the loss, in torch and here."""
    logits, target = torch.zeros(2, 5), torch.full((2,), -100)
    for loss in (nn.CrossEntropyLoss(), torch.nn.CrossEntropyLoss()):
        assert loss(logits, target).isnan()


def test_the_padding_row_of_an_embedding_is_not_kept_at_zero():
    """It starts at zero and gets no gradient. It is looked up like any other, and loading may change it."""
    for library in (nn, torch.nn):
        table = library.Embedding(4, 3, padding_idx=1)
        assert (table.weight[1] == 0).all()
        table.weight.data.fill_(2.0)
        rows = table(torch.tensor([1, 2]))
        assert (rows == 2).all()
        assert torch.autograd.grad(rows.sum(), table.weight)[0].sum(-1).tolist() == [0, 0, 3, 0]


def test_rms_norm_of_half_precision_had_another_eps():
    """eps=None is the machine epsilon of float32 for bfloat16 too, as of torch 2.13; torch 2.6 took bfloat16's."""
    x = torch.full((4,), 1e-4, dtype=torch.bfloat16)
    ours, builtin = (f.rms_norm(x, (4,))[0].item() for f in (functional, F))
    value = x[0].double().item()
    by_eps = {dtype: value / math.sqrt(value**2 + torch.finfo(dtype).eps) for dtype in (torch.float32, torch.bfloat16)}
    assert ours == pytest.approx(by_eps[torch.float32], rel=1e-2)
    if TORCH == (2, 6):
        assert builtin == pytest.approx(by_eps[torch.bfloat16], rel=1e-2)
    if TORCH >= (2, 13):
        assert builtin == ours


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # torch uses it for its own forward derivatives
def test_a_scaled_gradient_is_no_derivative():
    """scale_grad_by_freq changes the backward derivative. Torch's forward derivative doesn't know it; ours does."""
    ids, table = torch.tensor([0, 1, 1]), torch.ones(2, 3, dtype=torch.float64)
    along = torch.ones_like(table)
    _, ours = torch.func.jvp(lambda w: functional.embedding(ids, w, scale_grad_by_freq=True), (table,), (along,))
    _, builtin = torch.func.jvp(lambda w: F.embedding(ids, w, scale_grad_by_freq=True), (table,), (along,))
    assert ours[:, 0].tolist() == [1, 0.5, 0.5]
    assert builtin[:, 0].tolist() == [1, 1, 1]
