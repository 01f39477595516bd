"""The layers and stacks of torch.nn. Masks get no gradients here; MultiheadAttention has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..arrays import Array
from ..layers import decoder_layer, decoder_layer_backward, encoder_layer, encoder_layer_backward
from ..stacks import decoder, decoder_backward, encoder, encoder_backward
from ..sublayers import LayerOptions
from . import shapes
from .attention import check_causal_hint
from .component import Component, Gradients, named_arguments
from .functions import LayerNorm


class Layer(Component):
    """What both kinds of layer have in common: torch's constructor arguments."""

    shapes_of: Callable[[int, int, bool], shapes.Shapes]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.options = LayerOptions(nhead, dropout, activation, layer_norm_eps, batch_first, norm_first)
        self.shapes = self.shapes_of(d_model, dim_feedforward, bias)


class TransformerEncoderLayer(Layer):
    """Self-attention and feed-forward."""

    inputs = ("src", "src_mask", "src_key_padding_mask", "is_causal")
    shapes_of = staticmethod(shapes.encoder_layer)

    def forward(self, src: Array, is_causal: bool = False, **masks: Array | None) -> Array:
        """See `encoder_layer`."""
        check_causal_hint(is_causal, masks.get("src_mask"))
        y, self.cache = encoder_layer(src, self.state, self.options, keep_masks=self.keep_masks, **masks)
        return y

    def backward(self, dy: Array) -> Gradients:
        """See `encoder_layer_backward`."""
        dsrc, named = encoder_layer_backward(dy, self.cache)
        return {"src": dsrc}, {**named}


class TransformerDecoderLayer(Layer):
    """Self-attention, attention to the memory, and feed-forward."""

    inputs = (
        "tgt",
        "memory",
        "tgt_mask",
        "memory_mask",
        "tgt_key_padding_mask",
        "memory_key_padding_mask",
        "tgt_is_causal",
        "memory_is_causal",
    )
    shapes_of = staticmethod(shapes.decoder_layer)

    def forward(
        self,
        tgt: Array,
        memory: Array,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
        **masks: Array | None,
    ) -> Array:
        """See `decoder_layer`."""
        check_causal_hint(tgt_is_causal, masks.get("tgt_mask"))
        check_causal_hint(memory_is_causal, masks.get("memory_mask"))
        y, self.cache = decoder_layer(tgt, memory, self.state, self.options, keep_masks=self.keep_masks, **masks)
        return y

    def backward(self, dy: Array) -> Gradients:
        """See `decoder_layer_backward`."""
        dtgt, dmemory, named = decoder_layer_backward(dy, self.cache)
        return {"tgt": dtgt, "memory": dmemory}, {**named}


class Stack(Component):
    """What encoder and decoder have in common: layers like the one described, and perhaps a final norm."""

    layer: type[Layer]

    def __init__(self, layer: Mapping[str, Any], num_layers: int, norm: Mapping[str, Any] | None) -> None:
        super().__init__()
        for name, module in ((f"the {self.layer.__name__}", layer), ("norm", norm)):
            if module is not None and not isinstance(module, Mapping):
                raise NotImplementedError(f"{name} must be given as a dict of constructor arguments, not as {module!r}")
        described = self.layer(**named_arguments(layer))
        final = None if norm is None else LayerNorm(**named_arguments(norm))
        self.options, self.final_norm_eps = described.options, None if final is None else final.eps
        self.shapes = shapes.stack(described.shapes, num_layers, None if final is None else final.shapes)


class TransformerEncoder(Stack):
    """Encoder layers; `encoder_layer` and `norm` (a LayerNorm) are dicts of their constructor arguments."""

    layer = TransformerEncoderLayer
    inputs = ("src", "mask", "src_key_padding_mask", "is_causal")

    def __init__(
        self,
        encoder_layer: Mapping[str, Any],
        num_layers: int,
        norm: Mapping[str, Any] | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__(encoder_layer, num_layers, norm)

    def forward(self, src: Array, is_causal: bool | None = None, **masks: Array | None) -> Array:
        """See `encoder`."""
        check_causal_hint(is_causal, masks.get("mask"))
        how: dict[str, Any] = {"keep_masks": self.keep_masks, "final_norm_eps": self.final_norm_eps, **masks}
        y, self.cache = encoder(src, self.state, self.options, **how)
        return y

    def backward(self, dy: Array) -> Gradients:
        """See `encoder_backward`."""
        dsrc, named = encoder_backward(dy, self.cache)
        return {"src": dsrc}, {**named}


class TransformerDecoder(Stack):
    """Decoder layers; `decoder_layer` and `norm` (a LayerNorm) are dicts of their constructor arguments."""

    layer = TransformerDecoderLayer
    inputs = TransformerDecoderLayer.inputs

    def __init__(
        self, decoder_layer: Mapping[str, Any], num_layers: int, norm: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(decoder_layer, num_layers, norm)

    def forward(
        self,
        tgt: Array,
        memory: Array,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
        **masks: Array | None,
    ) -> Array:
        """See `decoder`."""
        check_causal_hint(tgt_is_causal, masks.get("tgt_mask"))
        check_causal_hint(memory_is_causal, masks.get("memory_mask"))
        how: dict[str, Any] = {"keep_masks": self.keep_masks, "final_norm_eps": self.final_norm_eps, **masks}
        y, self.cache = decoder(tgt, memory, self.state, self.options, **how)
        return y

    def backward(self, dy: Array) -> Gradients:
        """See `decoder_backward`."""
        dtgt, dmemory, named = decoder_backward(dy, self.cache)
        return {"tgt": dtgt, "memory": dmemory}, {**named}
