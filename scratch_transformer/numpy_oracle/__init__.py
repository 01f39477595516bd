"""The Transformer in NumPy float64, forward and backward, every gradient by hand: a second opinion without torch.

Each component is a pair. The forward returns its output and a cache; the backward takes the gradient of the output and
that cache, and returns the gradients of the inputs and the parameters:

    y, cache = layer_norm(x, (5,), weight, bias)
    dx, dweight, dbias = layer_norm_backward(dy, cache)

d stands before what it is a gradient of: dx = ∂ℓ/∂x, of x's shape, for one number ℓ, the loss. A composite calls the
smaller pairs forwards, and their backwards in the opposite order. Its parameters are a flat dict with the keys of
torch.nn's state_dict, `{key: value.numpy() for key, value in module.state_dict().items()}`, and the gradients come back
under the same keys.

The files build on each other in this order:

    arrays                      float64, error messages, named parameters
    linear, activations, normalization, batch_norm, dropout, positions, loss
                                one equation and its derivative at a time
    masks, attention            softmax(QKᵀ/√d_k + M) V
    modules, projections, multihead_attention
                                the same with several heads and torch's parameters
    sublayers, layers, stacks, transformer
                                residual connections, layers, encoder and decoder
    model                       from token ids to the loss
    rotary, gated, causal_self_attention
                                what language models added
    registry                    every component by torch's name: ORACLES

One letter for each dimension, at the end of a name for an array of that shape (q_BHTD is (B, H, T, D)):

    B batch     T target, queries       S source, keys          H heads         D width of a head, d_k
    E d_model   F feed-forward width    V vocabulary            C classes, channels
    I, O features in and out            N all leading dimensions in one         G key heads in grouped queries

Wrong shapes and options raise ValueError, missing parameters KeyError, ids out of range IndexError, and what the oracle
cannot do NotImplementedError. A query that may attend to nothing gets zeros, and gives zero gradients.
"""

from .activations import (
    gelu,
    gelu_backward,
    log_softmax,
    log_softmax_backward,
    relu,
    relu_backward,
    sigmoid,
    sigmoid_backward,
    silu,
    silu_backward,
    softmax,
    softmax_backward,
)
from .attention import (
    attention_weights,
    attention_weights_backward,
    scaled_dot_product_attention,
    scaled_dot_product_attention_backward,
)
from .batch_norm import batch_norm, batch_norm_backward, updated_running_statistics
from .causal_self_attention import causal_self_attention, causal_self_attention_backward
from .dropout import dropout, dropout_backward
from .gated import gated_feed_forward, gated_feed_forward_backward
from .layers import decoder_layer, decoder_layer_backward, encoder_layer, encoder_layer_backward
from .linear import embedding, embedding_backward, linear, linear_backward
from .loss import cross_entropy, cross_entropy_backward
from .masks import causal
from .model import model_loss, model_loss_backward
from .multihead_attention import multihead_attention, multihead_attention_backward
from .normalization import layer_norm, layer_norm_backward, rms_norm, rms_norm_backward
from .positions import sinusoidal_positions
from .registry import ORACLES, Result
from .rotary import rotary, rotary_backward, rotary_turns
from .stacks import decoder, decoder_backward, encoder, encoder_backward
from .sublayers import LayerOptions, feed_forward, feed_forward_backward
from .transformer import transformer, transformer_backward

__all__ = [
    "ORACLES",
    "LayerOptions",
    "Result",
    "attention_weights",
    "attention_weights_backward",
    "batch_norm",
    "batch_norm_backward",
    "causal",
    "causal_self_attention",
    "causal_self_attention_backward",
    "cross_entropy",
    "cross_entropy_backward",
    "decoder",
    "decoder_backward",
    "decoder_layer",
    "decoder_layer_backward",
    "dropout",
    "dropout_backward",
    "embedding",
    "embedding_backward",
    "encoder",
    "encoder_backward",
    "encoder_layer",
    "encoder_layer_backward",
    "feed_forward",
    "feed_forward_backward",
    "gated_feed_forward",
    "gated_feed_forward_backward",
    "gelu",
    "gelu_backward",
    "layer_norm",
    "layer_norm_backward",
    "linear",
    "linear_backward",
    "log_softmax",
    "log_softmax_backward",
    "model_loss",
    "model_loss_backward",
    "multihead_attention",
    "multihead_attention_backward",
    "relu",
    "relu_backward",
    "rms_norm",
    "rms_norm_backward",
    "rotary",
    "rotary_backward",
    "rotary_turns",
    "scaled_dot_product_attention",
    "scaled_dot_product_attention_backward",
    "sigmoid",
    "sigmoid_backward",
    "silu",
    "silu_backward",
    "sinusoidal_positions",
    "softmax",
    "softmax_backward",
    "transformer",
    "transformer_backward",
    "updated_running_statistics",
]
