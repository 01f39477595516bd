"""Inputs without elements: an empty batch, and sequences of length zero wherever torch takes them."""

import pytest
import torch

from reference_tests.agreement import assert_equal, differentiate
from scratch_transformer import nn
from scratch_transformer.conformance import Draw

B, T, S, E, H, FF = 2, 4, 5, 6, 3, 7
LAYER = {"d_model": E, "nhead": H, "dim_feedforward": FF, "dropout": 0.0}

SIMPLE = {
    "Linear": ((E, FF), [(0, E), (B, 0, E)]),
    "LayerNorm": ((E,), [(0, E), (B, 0, E)]),
    "RMSNorm": ((E,), [(0, E), (B, 0, E)]),
    "Dropout": ((0.5,), [(0,), (B, 0, E)]),
    "Softmax": ((-1,), [(0, E), (B, 0, E), (B, 0)]),
    "ReLU": ((), [(0,), (B, 0)]),
    "GELU": ((), [(0,), (B, 0)]),
}
SIMPLE_CASES = [(name, init, shape) for name, (init, shapes) in SIMPLE.items() for shape in shapes]

LIBRARIES = (nn, torch.nn)
# batch, target or query length, source or key length
SIZES = {"no batch": (0, T, S), "no queries": (B, 0, S), "no keys": (B, T, 0)}
every_size = pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)


def make(factory):
    """Ours and torch's from `factory(library)`, with the same random parameters, in float64."""
    ours, builtin = (factory(library).double() for library in LIBRARIES)
    Draw(0).randomise(builtin)
    ours.load_state_dict(builtin.state_dict())
    return ours, builtin


def assert_as_torch(modules, *args, **kwargs):
    """The same outcome, or the same type of exception; True if torch works."""
    ours, builtin = modules
    try:
        expected = differentiate(builtin, *args, **kwargs)
    except Exception as error:
        with pytest.raises(type(error)):
            differentiate(ours, *args, **kwargs)
        return False
    assert_equal(differentiate(ours, *args, **kwargs), expected)
    return True


def tokens(*shape):
    return torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize(("name", "init", "shape"), SIMPLE_CASES, ids=str)
def test_simple_modules(name, init, shape):
    assert assert_as_torch(make(lambda library: getattr(library, name)(*init)), tokens(*shape))


@pytest.mark.parametrize("shape", [(0, E), (0, E, T), (B, E, 0)], ids=str)
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm(shape, training):
    assert_as_torch(make(lambda library: library.BatchNorm1d(E).train(training)), tokens(*shape))


@pytest.mark.parametrize("shape", [(0,), (B, 0)], ids=str)
@pytest.mark.parametrize("options", [{}, {"padding_idx": 1}, {"scale_grad_by_freq": True}, {"max_norm": 1.0}], ids=str)
def test_embedding(shape, options):
    assert assert_as_torch(make(lambda library: library.Embedding(7, E, **options)), torch.zeros(shape).long())


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy(reduction):
    modules = make(lambda library: library.CrossEntropyLoss(reduction=reduction))
    assert assert_as_torch(modules, tokens(0, E), torch.zeros(0).long())


@every_size
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("has_masks", [True, False])
def test_multihead_attention(sizes, need_weights, has_masks):
    batch, queries, keys = sizes
    modules = make(lambda library: library.MultiheadAttention(E, H, batch_first=True))
    masks = {
        "attn_mask": torch.zeros(queries, keys, dtype=torch.bool),
        "key_padding_mask": torch.zeros(batch, keys, dtype=torch.bool),
    }
    inputs = tokens(batch, queries, E), tokens(batch, keys, E), tokens(batch, keys, E)
    options = {"need_weights": need_weights, **(masks if has_masks else {})}
    output, _ = modules[0](*inputs, **options)
    assert output.shape == (batch, queries, E)
    if keys == 0:
        assert_equal(output, modules[0].out_proj.bias.expand(batch, queries, E))  # a sum over nothing
    if has_masks and not need_weights and 0 in (batch, keys):
        with pytest.raises(RuntimeError, match="cannot reshape tensor of 0 elements"):
            modules[1](*inputs, **options)  # torch fails over a -1 in a shape
    else:
        assert assert_as_torch(modules, *inputs, **options)


@every_size
def test_encoder_layer(sizes):
    batch, _, length = sizes
    modules = make(lambda library: library.TransformerEncoderLayer(**LAYER, batch_first=True))
    assert_as_torch(modules, tokens(batch, length, E))


@every_size
def test_decoder_layer(sizes):
    batch, length, memory_length = sizes
    modules = make(lambda library: library.TransformerDecoderLayer(**LAYER, batch_first=True))
    assert_as_torch(modules, tokens(batch, length, E), tokens(batch, memory_length, E))


@every_size
@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
def test_transformer(sizes):
    batch, target_length, source_length = sizes
    depth = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    modules = make(lambda library: library.Transformer(**LAYER, **depth, batch_first=True))
    assert_as_torch(modules, tokens(batch, source_length, E), tokens(batch, target_length, E))


def test_what_torch_takes():
    """So that the tests above compare results and not only exceptions."""
    _, attention = make(lambda library: library.MultiheadAttention(E, H, batch_first=True))
    for batch, queries, keys in SIZES.values():
        output, _ = attention(tokens(batch, queries, E), tokens(batch, keys, E), tokens(batch, keys, E))
        assert output.shape == (batch, queries, E)
