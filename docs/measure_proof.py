"""Writes the table of components in proof.md: each compared with its builtin, case by case, on this machine.

python -m docs.measure_proof
"""

from pathlib import Path

from docs.measure_tutorials import replaced, table
from scratch_transformer.conformance import COMPONENTS, compare_definition
from scratch_transformer.conformance.oracle import compare_oracle
from scratch_transformer.conformance.verify import exact

PAGE = Path(__file__).parent / "proof.md"
HEAD = ("component", "source", "cases", "error of outputs", "of gradients", "oracle")


def tables():
    """Name of the marker -> table, measured now."""
    with exact():
        return {"components": table(HEAD, [row(component) for component in COMPONENTS.values()])}


def row(component):
    """A component's worst errors over all its cases."""
    found = [compare_definition(component, case) for case in component.cases]
    assert all(result.passed for result in found), component.name
    library = "torch.nn.functional" if component.is_function else "torch.nn"
    name = f"`{library if component.is_drop_in else 'nn'}.{component.name}`"
    errors = [worst(getattr(result, kind) for result in found) for kind in ("output_error", "gradient_error")]
    return (name, component.source, str(len(found)), *errors, worst(oracle_errors(component)))


def oracle_errors(component):
    """The errors against the NumPy oracle, of the cases that it can do."""
    for case in component.cases:
        try:
            result = compare_oracle(component, case)
        except NotImplementedError:
            continue
        assert result.passed, (component.name, case.description)
        yield max(result.output_error, result.gradient_error)


def worst(errors):
    """The largest, to one digit."""
    largest = max(errors)
    return f"{largest:.0e}".replace("e-0", "e-") if largest else "0"


if __name__ == "__main__":
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), tables()), encoding="utf-8")
