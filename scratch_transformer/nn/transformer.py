"""The encoder-decoder."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, init

from scratch_transformer import checks, functional, masks
from scratch_transformer.nn.decoder import TransformerDecoder, TransformerDecoderLayer
from scratch_transformer.nn.encoder import Activation, TransformerEncoder, TransformerEncoderLayer
from scratch_transformer.nn.normalization import LayerNorm


class Transformer(Module):
    """decoder(tgt, encoder(src)): the Transformer of Vaswani et al. 2017, figure 1, between embedding and projection.

    Drop-in for `torch.nn.Transformer`, and like it different from the paper in one thing: both stacks end in a layer
    normalization even when the layers are post-norm, so that the last layer's output is normalized twice.
    custom_encoder, custom_decoder: modules to use instead of the stacks.

    Raises:
        RuntimeError: activation is a string other than "relu" and "gelu".
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = functional.relu,
        custom_encoder: Any | None = None,
        custom_decoder: Any | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        factory = {"device": device, "dtype": dtype}
        super().__init__()
        layer_arguments = (
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
            bias,
        )
        if custom_encoder is not None:
            self.encoder = custom_encoder
        else:
            encoder_layer = TransformerEncoderLayer(*layer_arguments, **factory)
            encoder_norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **factory)
            self.encoder = TransformerEncoder(encoder_layer, num_encoder_layers, encoder_norm)
        if custom_decoder is not None:
            self.decoder = custom_decoder
        else:
            decoder_layer = TransformerDecoderLayer(*layer_arguments, **factory)
            decoder_norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **factory)
            self.decoder = TransformerDecoder(decoder_layer, num_decoder_layers, decoder_norm)
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """src (B, S, E), tgt (B, T, E) if batch_first, else (S, B, E), (T, B, E), or without B -> like tgt.

        Masks and the is_causal hints: as in `MultiheadAttention.forward`; memory_mask (T, S) masks the attention of
        the decoder over the encoder's output.

        Raises:
            RuntimeError: src and tgt differ in batch size, or are not d_model wide.
        """
        self._check_inputs(src, tgt)
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(
        sz: int, device: torch.device | None = None, dtype: torch.dtype | None = None
    ) -> Tensor:
        """The causal mask as an additive one: (sz, sz), 0 on and below the diagonal, -inf above it."""
        return masks.to_additive(masks.causal(sz, device=device), dtype)

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)

    def _check_inputs(self, src: Tensor, tgt: Tensor) -> None:
        checks.refuse_nested(self, src=src, tgt=tgt)
        shapes = f"src is {tuple(src.shape)} and tgt {tuple(tgt.shape)}"
        batch_dim = 0 if self.batch_first else 1
        if src.dim() == 3 and src.shape[batch_dim] != tgt.shape[batch_dim]:
            raise RuntimeError(
                f"the batch number of src and tgt must be equal, but with batch_first={self.batch_first} {shapes}"
            )
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError(
                f"the feature number of src and tgt must be equal to d_model={self.d_model}, but {shapes}"
            )
