"""What is around a sublayer of a decoding step, merged into its first and its last map (`generation.affine`)."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from scratch_transformer.generation.affine import Affine, Normalization
from scratch_transformer.model import LayerNormalization, ResidualConnection
from scratch_transformer.nn import Linear


def normalization(norm: LayerNormalization) -> Normalization:
    """Of rows without their mean the same as the layer."""
    return Normalization(norm.alpha, norm.bias, norm.eps)


class Residual:
    """`model.ResidualConnection` without dropout, around a sublayer that begins with `reading` and ends with `writing`.

    Pre-norm, x is only ever looked at through normalizations, which take out its mean. So it never has one: it begins
    `centred`, and whatever is added to it is. Post-norm, nothing can be merged.
    """

    def __init__(self, connection: ResidualConnection) -> None:
        self.norm_first, self.norm = connection.norm_first, normalization(connection.norm)

    def reading(self, layer: Linear) -> Affine:
        return Affine.of(layer).behind(self.norm) if self.norm_first else Affine.of(layer)

    def writing(self, layer: Linear) -> Affine:
        return Affine.of(layer).centred() if self.norm_first else Affine.of(layer)

    def __call__(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.norm_first:
            return sublayer(self.norm.direction(x)).add_(x)
        return self.norm(self.norm.centred(sublayer(x).add_(x)))
