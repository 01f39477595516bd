"""Functions that repeat the heads of keys and values which several queries share."""

from __future__ import annotations

from torch import Tensor

from scratch_transformer.kit.canonical.base import OfRecipe
from scratch_transformer.kit.kind import Inputs, Kind, Probe, Settings, State
from scratch_transformer.kit.kinds.inputs import B, Draw, T
from scratch_transformer.kit.recipe import Recipe

KV_HEADS, GROUPS, D_K = 3, 2, 4


class RepeatedHeads(OfRecipe):
    """x (B, kv, T, d_k), groups -> (B, kv · groups, T, d_k)."""

    def forward(self, x: Tensor, groups: int) -> Tensor:
        if self.recipe.kv_order == "all repeated":
            return x.repeat(1, groups, 1, 1)
        return x[:, :, None].expand(-1, -1, groups, -1, -1).flatten(1, 2)


def probes(settings: Settings, seed: int) -> tuple[Probe, ...]:
    x = Draw(seed).normal(B, KV_HEADS, T, D_K)
    return (
        Probe("shared", {"x": x, "groups": GROUPS}, shows="heads that two queries share"),
        Probe("own", {"x": x, "groups": 1}, shows="heads that are not shared"),
    )


def builtin(settings: Settings, recipe: Recipe, state: State, inputs: Inputs) -> Tensor:
    output: Tensor = inputs["x"].repeat_interleave(inputs["groups"], dim=1)
    return output


REPEATED = Kind(
    name="RepeatedHeads",
    what="Repeats each head of keys or values for the queries that share it.",
    synonyms=("repeatkv", "expandkv", "repeatkeyvalue", "repeatkvheads", "repeatkeysvalues", "expandkvheads"),
    source="Ainslie et al. 2023, section 2.2",
    inputs=("x", "groups"),
    defaults={},
    build=lambda settings, recipe: RepeatedHeads(recipe),
    probes=probes,
    mistakes=("G3:", "A12"),
    oracle=builtin,
    builtin="torch.repeat_interleave",
)
