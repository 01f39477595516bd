"""torch.nn.Transformer: an encoder and a decoder, both with a final norm."""

from __future__ import annotations

from typing import Any

from ..arrays import Array, prefixed
from ..sublayers import LayerOptions
from ..transformer import transformer, transformer_backward
from . import shapes
from .attention import check_causal_hint
from .component import Component, Gradients


class Transformer(Component):
    """Embedded source and target to the decoder's output."""

    inputs = (
        "src",
        "tgt",
        "src_mask",
        "tgt_mask",
        "memory_mask",
        "src_key_padding_mask",
        "tgt_key_padding_mask",
        "memory_key_padding_mask",
        "src_is_causal",
        "tgt_is_causal",
        "memory_is_causal",
    )

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str = "relu",
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if custom_encoder is not None or custom_decoder is not None:
            raise NotImplementedError("Transformer(custom_encoder, custom_decoder): the oracle cannot run a module")
        self.options = LayerOptions(nhead, dropout, activation, layer_norm_eps, batch_first, norm_first)
        norm = shapes.affine((d_model,), weight=True, bias=bias)
        encoder_layer = shapes.encoder_layer(d_model, dim_feedforward, bias)
        decoder_layer = shapes.decoder_layer(d_model, dim_feedforward, bias)
        self.shapes = {
            **prefixed("encoder", shapes.stack(encoder_layer, num_encoder_layers, norm)),
            **prefixed("decoder", shapes.stack(decoder_layer, num_decoder_layers, norm)),
        }

    def forward(
        self,
        src: Array,
        tgt: Array,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
        **masks: Array | None,
    ) -> Array:
        """See `transformer`."""
        hints = {"src_mask": src_is_causal, "tgt_mask": tgt_is_causal, "memory_mask": memory_is_causal}
        for mask, is_causal in hints.items():
            check_causal_hint(is_causal, masks.get(mask))
        y, self.cache = transformer(src, tgt, self.state, self.options, keep_masks=self.keep_masks, **masks)
        return y

    def backward(self, dy: Array) -> Gradients:
        """See `transformer_backward`."""
        dsrc, dtgt, named = transformer_backward(dy, self.cache)
        return {"src": dsrc, "tgt": dtgt}, {**named}
