"""The one table of components. Tests, `verify`, the kit and the documentation all read it."""

from scratch_transformer.conformance.component import Component
from scratch_transformer.conformance.table.activations import ACTIVATIONS
from scratch_transformer.conformance.table.attention import ATTENTION
from scratch_transformer.conformance.table.language import LANGUAGE
from scratch_transformer.conformance.table.layers import LAYERS
from scratch_transformer.conformance.table.loss import LOSSES
from scratch_transformer.conformance.table.normalization import NORMALIZATION
from scratch_transformer.conformance.table.stacks import STACKS

COMPONENTS: dict[str, Component] = {
    component.name: component
    for component in (*LAYERS, *ACTIVATIONS, *NORMALIZATION, *ATTENTION, *STACKS, *LOSSES, *LANGUAGE)
}
"""Every component by name, from the simplest to the whole Transformer; then what language models added."""
