"""Any component as a third opinion, by torch's name: `ORACLES[name](constructor, parameters, args, kwargs, upstream)`.

    >>> import numpy as np
    >>> from scratch_transformer.numpy_oracle import ORACLES
    >>> x, dy = np.array([[1.0, 2.0]]), np.array([[1.0]])
    >>> parameters = {"weight": np.array([[3.0, 4.0]]), "bias": np.array([5.0])}
    >>> result = ORACLES["Linear"]({"in_features": 2, "out_features": 1}, parameters, (x,), {}, dy)
    >>> result.output, result.input_gradients[0], result.parameter_gradients["weight"]
    (array([[16.]]), array([[3., 4.]]), array([[1., 2.]]))

`run` says what goes in and what comes out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from .attention import MultiheadAttention, ScaledDotProductAttention
from .buffers import BatchNorm1d, CrossEntropyLoss
from .component import Component, Result, run
from .functions import GELU, Dropout, Embedding, LayerNorm, Linear, LogSoftmax, ReLU, RMSNorm, SiLU, Softmax
from .language import CausalSelfAttention, GatedFeedForward, RotaryEmbedding
from .stacks import TransformerDecoder, TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer
from .transformer import Transformer

COMPONENTS: dict[str, type[Component]] = {
    "Linear": Linear,
    "Embedding": Embedding,
    "Dropout": Dropout,
    "ReLU": ReLU,
    "GELU": GELU,
    "SiLU": SiLU,
    "Softmax": Softmax,
    "LogSoftmax": LogSoftmax,
    "LayerNorm": LayerNorm,
    "RMSNorm": RMSNorm,
    "BatchNorm1d": BatchNorm1d,
    "CrossEntropyLoss": CrossEntropyLoss,
    "scaled_dot_product_attention": ScaledDotProductAttention,
    "MultiheadAttention": MultiheadAttention,
    "TransformerEncoderLayer": TransformerEncoderLayer,
    "TransformerEncoder": TransformerEncoder,
    "TransformerDecoderLayer": TransformerDecoderLayer,
    "TransformerDecoder": TransformerDecoder,
    "Transformer": Transformer,
    "RotaryEmbedding": RotaryEmbedding,
    "GatedFeedForward": GatedFeedForward,
    "CausalSelfAttention": CausalSelfAttention,
}

ORACLES: dict[str, Callable[..., Result]] = {name: partial(run, kind) for name, kind in COMPONENTS.items()}

__all__ = ["COMPONENTS", "ORACLES", "Result", "run"]
