"""BERT as a sentence encoder, on `nn.TransformerEncoder`."""

from __future__ import annotations

from types import ModuleType

import torch
from torch import Tensor

from scratch_transformer import masks, nn
from scratch_transformer.pretrained.config import BertConfig

# Shapes: B sentences, T tokens, E hidden_size.


class SentenceEncoder(nn.Module):
    """Token ids to one vector of length 1 per sentence.

        xₜ = LayerNorm(word[iₜ] + position[t] + type[0])      h = TransformerEncoder(x)
        m = Σₜ vₜ hₜ / Σₜ vₜ                                  y = m / ‖m‖

    i: token ids (B, T), whole numbers in [0, vocab_size). v: (B, T), True (1) where a token is real, False (0) where
    it is padding. h: the last layer's states (B, T, E). y: the sentence embeddings (B, E).

    The encoder is the paper's: post-norm layers and no norm after the stack, with exact (erf) GELU instead of ReLU.
    It is made for inference and has no dropout: BERT drops at fewer places than `nn.TransformerEncoderLayer` does.

    layers: the namespace that the layers come from; `torch.nn` builds the same model, with the same state_dict, from
    PyTorch's layers.

    Source: Devlin et al. 2019, "BERT", section 3 (encoder, embeddings); Reimers and Gurevych 2019, "Sentence-BERT",
    section 3 (mean pooling).
    """

    def __init__(
        self,
        config: BertConfig,
        layers: ModuleType = nn,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        factory = {"device": device, "dtype": dtype}
        width, eps = config.hidden_size, config.layer_norm_eps
        self.config = config
        self.word_embeddings = layers.Embedding(config.vocab_size, width, **factory)
        self.position_embeddings = layers.Embedding(config.max_position_embeddings, width, **factory)
        self.token_type_embeddings = layers.Embedding(config.type_vocab_size, width, **factory)
        self.norm = layers.LayerNorm(width, eps=eps, **factory)
        layer = layers.TransformerEncoderLayer(
            width,
            config.num_attention_heads,
            config.intermediate_size,
            dropout=0.0,
            activation="gelu",
            layer_norm_eps=eps,
            batch_first=True,
            norm_first=False,
            **factory,
        )
        self.encoder = layers.TransformerEncoder(layer, config.num_hidden_layers, enable_nested_tensor=False)

    def forward(self, ids: Tensor, valid: Tensor) -> Tensor:
        """Sentence embeddings of length 1, (B, E). A sentence without a single valid token gives zeros.

        Raises:
            ValueError: see `hidden_states`.
        """
        return unit_length(mean_pool(self.hidden_states(ids, valid), valid))

    def hidden_states(self, ids: Tensor, valid: Tensor) -> Tensor:
        """The last layer's states (B, T, E) of `ids` (B, T); `valid` (B, T) is boolean, True = a real token.

        Raises:
            ValueError: `ids` is not (B, T), `valid` is not boolean or has another shape, or T exceeds the
                number of learned positions.
        """
        self._check(ids, valid)
        positions = torch.arange(ids.shape[1], device=ids.device)
        first_type = torch.zeros_like(positions)  # the second type marks the second of a pair of sentences
        x = self.word_embeddings(ids) + self.position_embeddings(positions) + self.token_type_embeddings(first_type)
        blocked = masks.from_blocked(valid)  # negation is its own inverse
        return self.encoder(self.norm(x), src_key_padding_mask=blocked)  # (B, T, E)

    def _check(self, ids: Tensor, valid: Tensor) -> None:
        if ids.dim() != 2:
            raise ValueError(f"ids must be (sentences, tokens), got shape {tuple(ids.shape)}")
        if valid.dtype != torch.bool or valid.shape != ids.shape:
            raise ValueError(
                f"valid must be boolean with the shape of ids {tuple(ids.shape)}, "
                f"got {valid.dtype} {tuple(valid.shape)}"
            )
        longest = self.config.max_position_embeddings
        if ids.shape[1] > longest:
            raise ValueError(f"ids has {ids.shape[1]} tokens a sentence; the model has {longest} positions")


def mean_pool(hidden_states: Tensor, valid: Tensor) -> Tensor:
    """The mean (B, E) of the states (B, T, E) at valid positions (B, T); zeros where there are none."""
    kept = torch.where(valid[..., None], hidden_states, 0.0)  # (B, T, E); `where` keeps even NaN padding out
    return kept.sum(1) / valid.sum(1, keepdim=True).clamp(min=1)


def unit_length(x: Tensor, eps: float = 1e-12) -> Tensor:
    """Vectors of length 1: x / max(‖x‖, eps) along the last dimension."""
    return x / x.square().sum(-1, keepdim=True).sqrt().clamp(min=eps)
