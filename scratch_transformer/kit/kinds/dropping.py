"""A dropout of one's own."""

from __future__ import annotations

from torch import Tensor, nn

from scratch_transformer.kit.kind import Kind
from scratch_transformer.kit.kinds.layers import token_probes


class Kept(nn.Module):
    """x as it is, as after eval()."""

    def forward(self, x: Tensor) -> Tensor:
        return x


DROPOUT = Kind(
    name="Dropout",
    what="Sets some numbers to 0 in training, and none in evaluation.",
    synonyms=(),
    source="Srivastava et al. 2014; Vaswani et al. 2017, section 5.4",
    inputs=("x",),
    defaults={"d_model": 12},
    build=lambda settings, recipe: Kept(),
    probes=token_probes,
    mistakes=("B11", "B12", "B27", "A12"),
    oracle=lambda settings, recipe, state, inputs: nn.functional.dropout(inputs["x"], training=False),
    builtin="torch.nn.Dropout",
)
