"""Checks an implementation of the Transformer: ours against torch.nn, by one table of components."""

from scratch_transformer.conformance.compare import compare_definition, compare_precision
from scratch_transformer.conformance.component import Call, Case, Component, ErrorCase, Invariant
from scratch_transformer.conformance.draw import Draw
from scratch_transformer.conformance.table import COMPONENTS

__all__ = [
    "COMPONENTS",
    "Call",
    "Case",
    "Component",
    "Draw",
    "ErrorCase",
    "Invariant",
    "compare_definition",
    "compare_precision",
]
