import numpy as np
import pytest
import torch

from reference_tests.numpy_oracle.against_torch import (
    B,
    E,
    H,
    S,
    T,
    as_arrays,
    biases,
    blocked,
    compare,
    normal,
    padding,
    randomized,
)
from reference_tests.numpy_oracle.differences import assert_is_gradient
from scratch_transformer.numpy_oracle import multihead_attention, multihead_attention_backward

LAYOUTS = pytest.mark.parametrize("layout", ["batch_first", "sequence_first", "unbatched"])
OPTIONS = [
    {},
    {"bias": False},
    {"kdim": 5, "vdim": 6},
    {"kdim": 5, "bias": False},
    {"add_bias_kv": True},
    {"add_zero_attn": True},
    {"add_bias_kv": True, "add_zero_attn": True, "vdim": 6},
    {"num_heads": 1},
    {"num_heads": E},
]


def build(layout="batch_first", **options):
    constructor = {"embed_dim": E, "num_heads": H, "batch_first": layout == "batch_first", **options}
    return constructor, randomized(torch.nn.MultiheadAttention(**constructor))


def inputs(layout="batch_first", kdim=E, vdim=E, **_):
    batch = {"batch_first": lambda n: (B, n), "sequence_first": lambda n: (n, B), "unbatched": lambda n: (n,)}[layout]
    return [normal(*batch(length), width) for length, width in ((T, E), (S, kdim), (S, vdim))]


@LAYOUTS
@pytest.mark.parametrize("options", OPTIONS)
def test_every_option_equals_torch(layout, options):
    compare("MultiheadAttention", *build(layout, **options), inputs(layout, **options))


@LAYOUTS
@pytest.mark.parametrize("kind", ["boolean", "float"])
@pytest.mark.parametrize("which", ["attn_mask", "per_head_mask", "key_padding_mask", "both"])
@pytest.mark.parametrize("options", [{}, {"add_bias_kv": True, "add_zero_attn": True}])
def test_masks_and_their_gradients_equal_torch(layout, kind, which, options):
    heads = H if layout == "unbatched" else B * H
    masks = {}
    if which != "key_padding_mask":
        shape = (heads, T, S) if which == "per_head_mask" else (T, S)
        masks["attn_mask"] = blocked(*shape) if kind == "boolean" else biases(*shape)
    if which in ("key_padding_mask", "both"):
        mask = padding(S) if kind == "boolean" else normal(B, S).masked_fill(padding(S), -torch.inf)
        masks["key_padding_mask"] = mask[0] if layout == "unbatched" else mask
    compare("MultiheadAttention", *build(layout, **options), inputs(layout), masks, differentiable=masks)


@LAYOUTS
@pytest.mark.parametrize("options", [{"need_weights": False}, {"average_attn_weights": False}])
def test_weights_as_torch_returns_them(layout, options):
    compare("MultiheadAttention", *build(layout), inputs(layout), options)


def test_self_attention_collects_three_gradients_in_one_input():
    _, module = build()
    x, dy = normal(B, T, E).requires_grad_(), normal(B, T, E)
    module(x, x, x, need_weights=False)[0].backward(dy)
    _, cache = multihead_attention(*[x.detach().numpy()] * 3, as_arrays(module.state_dict()), H, batch_first=True)
    gradients = multihead_attention_backward(dy.numpy(), cache)
    np.testing.assert_allclose(gradients.query + gradients.key + gradients.value, x.grad, rtol=1e-10, atol=1e-12)


def test_a_causal_mask_with_torchs_hint_equals_torch():
    mask = torch.nn.Transformer.generate_square_subsequent_mask(T, dtype=torch.float64)
    args = [normal(B, T, E) for _ in range(3)]
    options = {"attn_mask": mask, "is_causal": True, "need_weights": False}
    compare("MultiheadAttention", *build(), args, options)


def test_dropout_equals_torch_where_it_drops_the_same_weights():
    constructor, module = build(dropout=0.4)
    module.train()
    args = inputs()
    seed = torch.random.get_rng_state()
    keep = (module(*args, average_attn_weights=False)[1] != 0).numpy()
    assert 0 < keep.mean() < 1
    torch.random.set_rng_state(seed)
    module.zero_grad()
    options = {"average_attn_weights": False}
    # the comparison draws its upstream gradients after the module has drawn its mask
    compare("MultiheadAttention", constructor, module, args, options, training=True, keep_masks={"": keep})


def test_a_query_without_keys_gets_the_output_bias_and_gives_no_gradient():
    _, module = build()
    q, k, v = (x.numpy() for x in inputs())
    mask = blocked(T, S).numpy()
    mask[1] = True
    parameters = as_arrays(module.state_dict())
    (y, weights), cache = multihead_attention(q, k, v, parameters, H, batch_first=True, attn_mask=mask)
    gradients = multihead_attention_backward(normal(B, T, E).numpy(), cache)
    np.testing.assert_array_equal(y[:, 1], np.broadcast_to(parameters["out_proj.bias"], (B, E)))
    assert not weights[:, :, 1].any()
    assert not gradients.query[:, 1].any()
    assert all(np.isfinite(gradient).all() for gradient in gradients.parameters.values())


def test_gradients_by_finite_differences():
    rng = np.random.default_rng(0)
    q, k, v, dy = (rng.normal(size=shape) for shape in [(2, 4), (3, 5), (3, 6), (2, 4)])
    shapes = {"q_proj_weight": (4, 4), "k_proj_weight": (4, 5), "v_proj_weight": (4, 6), "in_proj_bias": (12,)}
    shapes |= {"out_proj.weight": (4, 4), "out_proj.bias": (4,), "bias_k": (1, 1, 4), "bias_v": (1, 1, 4)}
    parameters = {key: rng.normal(size=shape) for key, shape in shapes.items()}

    def forward(q, parameters):
        return multihead_attention(q, k, v, parameters, 2, add_zero_attn=True)

    gradients = multihead_attention_backward(dy, forward(q, parameters)[1])
    assert_is_gradient(gradients.query, lambda q: forward(q, parameters)[0][0], q, dy)
    assert set(gradients.parameters) == set(parameters)
    for key, value in parameters.items():
        assert_is_gradient(
            gradients.parameters[key], lambda value, key=key: forward(q, parameters | {key: value})[0][0], value, dy
        )


GOOD = {"in_proj_weight": np.ones((3 * E, E)), "out_proj.weight": np.ones((E, E))}
Q, K = np.ones((B, T, E)), np.ones((B, S, E))


@pytest.mark.parametrize(
    ("args", "num_heads", "message"),
    [
        ((np.ones(E), K, K), H, "query must be 2- or 3-dimensional"),
        ((Q, K[0], K[0]), H, "equally many dimensions"),
        ((Q, K, K[:, 1:]), H, "key and value must be equally long"),
        ((Q, K[1:], K[1:]), H, r"the batch \(dimension 0\) must be the same"),
        ((Q[..., 1:], K, K), H, "query's last dimension must be embed_dim=14"),
        ((Q, K, K), 3, "num_heads=3 must divide embed_dim=14"),
        ((Q, K, K), 0, "num_heads=0 must divide embed_dim=14"),
        ((Q, K[..., 1:], K), H, "in_features=14"),
    ],
)
def test_shapes_that_disagree_are_refused(args, num_heads, message):
    with pytest.raises(ValueError, match=message):
        multihead_attention(*args, GOOD, num_heads, batch_first=True)


def test_a_missing_parameter_is_named():
    with pytest.raises(KeyError, match=r"'out_proj.weight' is missing; given are \['in_proj_weight'\]"):
        multihead_attention(Q, K, K, {"in_proj_weight": GOOD["in_proj_weight"]}, H, batch_first=True)
