import numpy as np
import pytest

from reference_tests.numpy_oracle.differences import assert_is_gradient
from scratch_transformer.numpy_oracle import LayerOptions, feed_forward, feed_forward_backward
from scratch_transformer.numpy_oracle.sublayers import (
    AttentionSublayer,
    attention,
    attention_backward,
    residual,
    residual_backward,
)

E, F = 4, 5
RNG = np.random.default_rng(0)
SHAPES = {
    "linear1.weight": (F, E),
    "linear1.bias": (F,),
    "linear2.weight": (E, F),
    "linear2.bias": (E,),
    "norm.weight": (E,),
    "norm.bias": (E,),
    "attn.in_proj_weight": (3 * E, E),
    "attn.in_proj_bias": (3 * E,),
    "attn.out_proj.weight": (E, E),
    "attn.out_proj.bias": (E,),
}
PARAMETERS = {key: RNG.normal(size=shape) for key, shape in SHAPES.items()}
X, MEMORY, DY = RNG.normal(size=(2, 3, E)), RNG.normal(size=(2, 6, E)), RNG.normal(size=(2, 3, E))


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_feed_forward_gradients_by_finite_differences(activation):
    options = LayerOptions(2, dropout=0.3, activation=activation)
    masks = {"dropout": RNG.uniform(size=(2, 3, F)) < 0.7, "last": RNG.uniform(size=(2, 3, E)) < 0.7}

    def forward(x, parameters=PARAMETERS):
        return feed_forward(x, parameters, options, masks, "last")

    dx, dmemory, named = feed_forward_backward(DY, forward(X)[1])
    assert dmemory is None
    assert_is_gradient(dx, lambda x: forward(x)[0], X, DY)
    assert set(named) == {key for key in PARAMETERS if key.startswith("linear")}
    for key, gradient in named.items():
        assert_is_gradient(gradient, lambda v, key=key: forward(X, PARAMETERS | {key: v})[0], PARAMETERS[key], DY)


@pytest.mark.parametrize("memory", [None, MEMORY])
def test_attention_gradients_by_finite_differences(memory):
    options = LayerOptions(2, dropout=0.3, batch_first=True)
    keys = X if memory is None else memory
    masks = {"attn": RNG.uniform(size=(2, 2, 3, keys.shape[1])) < 0.7, "last": RNG.uniform(size=(2, 3, E)) < 0.7}

    def forward(x, memory=memory, parameters=PARAMETERS):
        return attention(x, parameters, options, masks, AttentionSublayer("attn", "last", memory=memory))

    dx, dmemory, named = attention_backward(DY, forward(X)[1])
    assert_is_gradient(dx, lambda x: forward(x)[0], X, DY)
    assert (dmemory is None) == (memory is None)
    if memory is not None:
        assert_is_gradient(dmemory, lambda memory: forward(X, memory)[0], memory, DY)
    assert set(named) == {key for key in PARAMETERS if key.startswith("attn")}
    for key, gradient in named.items():
        assert_is_gradient(
            gradient, lambda v, key=key: forward(X, parameters=PARAMETERS | {key: v})[0], PARAMETERS[key], DY
        )


@pytest.mark.parametrize("norm_first", [False, True])
def test_residual_gradients_by_finite_differences(norm_first):
    options = LayerOptions(2, norm_first=norm_first, layer_norm_eps=0.1)

    def forward(x, parameters=PARAMETERS):
        f = lambda z: (np.sin(z), (np.cos(z),))  # noqa: E731
        return residual(x, f, parameters, "norm", options)

    def f_backward(dy, cache):
        return dy * cache[0], None, {"f": dy}

    dx, dmemory, named = residual_backward(DY, forward(X)[1], f_backward)
    assert_is_gradient(dx, lambda x: forward(x)[0], X, DY)
    assert dmemory is None
    assert set(named) == {"f", "norm.weight", "norm.bias"}
    for key in ("norm.weight", "norm.bias"):
        assert_is_gradient(named[key], lambda v, key=key: forward(X, PARAMETERS | {key: v})[0], PARAMETERS[key], DY)


def test_a_pre_norm_residual_around_nothing_is_the_identity_and_a_post_norm_one_is_not():
    nothing = lambda z: (np.zeros_like(z), ())  # noqa: E731
    pre, post = (
        residual(X, nothing, PARAMETERS, "norm", LayerOptions(2, norm_first=first))[0] for first in (True, False)
    )
    np.testing.assert_array_equal(pre, X)
    assert not np.allclose(post, X)


def test_an_activation_without_a_known_derivative_is_refused():
    with pytest.raises(NotImplementedError, match="no derivative is known for a callable"):
        LayerOptions(2, activation=np.tanh)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"activation must be one of \['gelu', 'relu'\], but is 'swish'"):
        LayerOptions(2, activation="swish")
