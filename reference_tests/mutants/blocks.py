"""A21, A22 and B1 … B12: mistakes in the layers and the stacks."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from reference_tests.mutants.mutant import Mutant, Patch, after_init, around
from scratch_transformer import functional, nn
from scratch_transformer.nn import decoder, encoder

EncoderLayer, DecoderLayer = nn.TransformerEncoderLayer, nn.TransformerDecoderLayer
Original = Callable[..., Any]

# ---- Attention to the memory ----


def to_itself(original: Original, layer: DecoderLayer, x: Tensor, mem: Tensor, *masks: Any) -> Tensor:
    """A21."""
    return original(layer, x, x, *masks)


def unpadded(original: Original, layer: DecoderLayer, x: Tensor, mem: Tensor, attn_mask: Any, *rest: Any) -> Tensor:
    """A22."""
    return original(layer, x, mem, attn_mask, None, *rest[1:])


# ---- Norms and residuals ----


def other_order(layer: EncoderLayer) -> None:
    """B1."""
    layer.norm_first = not layer.norm_first


def normalized_residual(original: Original, layer: EncoderLayer, src: Tensor, *masks: Any, **more: Any) -> Tensor:
    """B2. x ← norm(x); x ← x + f(x)."""
    if not layer.norm_first:
        return original(layer, src, *masks, **more)
    x = layer.norm1(src)
    x = x + layer._sa_block(x, *named(*masks, **more))
    x = layer.norm2(x)
    return x + layer._ff_block(x)


def normalized_sublayer(original: Original, layer: EncoderLayer, src: Tensor, *masks: Any, **more: Any) -> Tensor:
    """B3. x ← x + norm(f(x))."""
    if layer.norm_first:
        return original(layer, src, *masks, **more)
    x = src + layer.norm1(layer._sa_block(src, *named(*masks, **more)))
    return x + layer.norm2(layer._ff_block(x))


def named(src_mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool = False) -> tuple[Any, Any, bool]:
    """The masks in the order of `_sa_block`, however they were passed to `forward`."""
    return src_mask, src_key_padding_mask, is_causal


def without_final_norms(transformer: nn.Transformer) -> None:
    """B4."""
    transformer.encoder.norm = None
    transformer.decoder.norm = None


def with_final_norm(stack: nn.TransformerEncoder) -> None:
    """B4."""
    if stack.norm is None:
        stack.norm = nn.LayerNorm(stack.layers[0].norm1.normalized_shape)


# ---- Dropout, activation, layers, masks ----


def without_residual_dropout(layer: EncoderLayer) -> None:
    """B6."""
    layer.dropout1.p = layer.dropout2.p = 0.0


def without_inner_dropout(layer: EncoderLayer) -> None:
    """B7."""
    layer.dropout.p = 0.0


def tanh_for_erf(layer: EncoderLayer) -> None:
    """B8."""
    if layer.activation is functional.gelu:
        layer.activation = lambda x: functional.gelu(x, approximate="tanh")


def gelu_for_relu(layer: EncoderLayer) -> None:
    """B8."""
    if layer.activation is functional.relu:
        layer.activation = functional.gelu


def one_layer_for_all(layer: nn.Module, num_layers: int) -> nn.ModuleList:
    """B9."""
    return nn.ModuleList([layer] * num_layers)


def python_list(layer: nn.Module, num_layers: int) -> list[nn.Module]:
    """B10."""
    return list(encoder_clones(layer, num_layers))


encoder_clones = encoder.clones


def stacking(clones: Callable[..., Any]) -> tuple[Patch, ...]:
    return Patch(encoder, "clones", clones), Patch(decoder, "clones", clones)


def causal_in_training_only(
    original: Original, layer: EncoderLayer, src: Tensor, src_mask: Any = None, *rest: Any, **more: Any
) -> Tensor:
    """B11."""
    if layer.training:
        return original(layer, src, src_mask, *rest, **more)
    return original(layer, src, None, *rest, **{**more, "is_causal": False})


def always(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """B12."""
    return plain_dropout(x, p, True, inplace)


plain_dropout = functional.dropout

BLOCKS = (
    Mutant("A21-memory",
           "Keys and values of the cross-attention come from the decoder, instead of the encoder.",
           "TransformerDecoderLayer", (around(DecoderLayer, "_mha_block", to_itself),),
           ("definition", "decoder future is invisible"), crashes=True),
    Mutant("A22",
           "The cross-attention does not get the padding mask of the source.",
           "TransformerDecoderLayer", (around(DecoderLayer, "_mha_block", unpadded),),
           ("definition", "memory padding is invisible")),
    Mutant("B1",
           "Normalizes before the sublayers where it should after, and the other way round.",
           "TransformerEncoderLayer", (after_init(EncoderLayer, other_order),), ("definition", "residuals remain")),
    Mutant("B2",
           "norm(x) + f(norm(x)) instead of x + f(norm(x)).",
           "TransformerEncoderLayer", (around(EncoderLayer, "forward", normalized_residual),),
           ("definition", "residuals remain")),
    Mutant("B3",
           "x + norm(f(x)) instead of norm(x + f(x)).",
           "TransformerEncoderLayer", (around(EncoderLayer, "forward", normalized_sublayer),),
           ("definition", "residuals remain")),
    Mutant("B4-missing",
           "The stacks end without a norm: as in the paper, but torch.nn.Transformer has one.",
           "Transformer", (after_init(nn.Transformer, without_final_norms),), ("state", "definition")),
    Mutant("B4-extra",
           "The stack ends in a norm that nobody asked for: as in torch.nn.Transformer, but not in the paper.",
           "TransformerEncoder", (after_init(nn.TransformerEncoder, with_final_norm),), ("state", "definition")),
    Mutant("B6",
           "The outputs of the sublayers are not dropped out.",
           "TransformerEncoderLayer", (after_init(EncoderLayer, without_residual_dropout),), ("definition",)),
    Mutant("B7",
           "Nothing is dropped between its two linear maps.",
           "TransformerEncoderLayer", (after_init(EncoderLayer, without_inner_dropout),),
           harmless="The paper has none there; torch.nn has, which shows in training only.",
           shows_in=lambda case: case.training),
    Mutant("B8-tanh",
           "The approximation by tanh in place of the exact GELU.",
           "TransformerEncoderLayer", (after_init(EncoderLayer, tanh_for_erf),), ("definition",)),
    Mutant("B8-gelu",
           "GELU where ReLU is claimed.",
           "TransformerEncoderLayer", (after_init(EncoderLayer, gelu_for_relu),), ("definition",)),
    Mutant("B9",
           "The stack is one layer, applied several times.",
           "TransformerEncoder", stacking(one_layer_for_all), ("state", "definition")),
    Mutant("B10",
           "A plain list hides the layers from parameters(), .to() and state_dict().",
           "TransformerEncoder", stacking(python_list), ("state", "definition")),
    Mutant("B11",
           "In evaluation the mask is dropped: later tokens change earlier outputs.",
           "TransformerEncoderLayer", (around(EncoderLayer, "forward", causal_in_training_only),),
           ("definition", "the future is invisible")),
    Mutant("B12",
           "Dropout ignores the mode, so evaluation is random.",
           "TransformerEncoderLayer", (Patch(functional, "dropout", always),),
           ("evaluation is deterministic", "reorders with its input", "samples stay apart")),
)  # fmt: skip
