"""`torch.nn`'s transformer stack from tensor operations: same arguments, same state_dict, same results.

And what language models added since, which torch.nn does not have: `RotaryEmbedding`, `GatedFeedForward`,
`CausalSelfAttention` with its `KeyValueCache`.

import scratch_transformer.nn as nn   # instead of: import torch.nn as nn
"""

from torch.nn import Module, ModuleList, Parameter, init

from scratch_transformer.nn.activation import GELU, ReLU, SiLU, Softmax
from scratch_transformer.nn.cache import KeyValueCache
from scratch_transformer.nn.causal_self_attention import CausalSelfAttention
from scratch_transformer.nn.decoder import TransformerDecoder, TransformerDecoderLayer
from scratch_transformer.nn.dropout import Dropout
from scratch_transformer.nn.embedding import Embedding
from scratch_transformer.nn.encoder import TransformerEncoder, TransformerEncoderLayer
from scratch_transformer.nn.feed_forward import GatedFeedForward
from scratch_transformer.nn.linear import Linear
from scratch_transformer.nn.loss import CrossEntropyLoss
from scratch_transformer.nn.multihead_attention import MultiheadAttention
from scratch_transformer.nn.normalization import BatchNorm1d, LayerNorm, RMSNorm
from scratch_transformer.nn.rotary import RotaryEmbedding
from scratch_transformer.nn.transformer import Transformer

__all__ = [
    "GELU",
    "BatchNorm1d",
    "CausalSelfAttention",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "GatedFeedForward",
    "KeyValueCache",
    "LayerNorm",
    "Linear",
    "Module",
    "ModuleList",
    "MultiheadAttention",
    "Parameter",
    "RMSNorm",
    "ReLU",
    "RotaryEmbedding",
    "SiLU",
    "Softmax",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "init",
]
