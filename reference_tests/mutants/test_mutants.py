"""The tests are tested: every mistake of the catalogue fails a check that the real code passes."""

import pytest
import torch

from reference_tests.mutants.catalogue import MUTANTS
from reference_tests.mutants.checks import DEFINITION, RAISES, STATE, failing
from reference_tests.mutants.core import SDPA, core
from reference_tests.mutants.mutant import Mutant
from reference_tests.mutants.normalization import normalizing
from reference_tests.mutants.paper import PAPER
from scratch_transformer.conformance import COMPONENTS, Component, compare_definition
from scratch_transformer.kit import mistakes as kit

MISTAKES = [pytest.param(mutant, id=mutant.id) for mutant in MUTANTS.values() if not mutant.harmless]
HARMLESS = [pytest.param(mutant, id=mutant.id) for mutant in MUTANTS.values() if mutant.harmless]


def component(name: str) -> Component:
    """As it is now: a mutant may have replaced it."""
    return {**COMPONENTS, **PAPER}[name]


@pytest.mark.parametrize("name", [*COMPONENTS, *PAPER])
def test_the_real_code_passes(name):
    assert failing(component(name)) == {}


@pytest.mark.parametrize("name, dtype", [("LayerNorm", torch.float32), (SDPA, torch.float16)])
def test_the_real_code_passes_in_low_precision(name, dtype):
    assert failing(component(name), dtype) == {}


@pytest.mark.parametrize("mutant", MISTAKES)
def test_a_mistake_is_caught(mutant: Mutant):
    with mutant.applied():
        failures = failing(component(mutant.component), mutant.dtype)
    missed = set(mutant.caught_by) - set(failures)
    assert mutant.caught_by
    assert not missed, f"{mutant.id}, {mutant.mistake}: {missed} passed, only {failures} failed"
    # a mistake in the mutant itself would be caught as well: a wrong result is what must be caught
    crashes = any(failure.startswith(RAISES) for failure in failures.values())
    assert crashes == mutant.crashes or STATE in failures, failures


@pytest.mark.filterwarnings("ignore:size_average and reduce args will be deprecated")
@pytest.mark.parametrize("mutant", HARMLESS)
def test_a_harmless_change_shows_only_where_it_says(mutant: Mutant):
    cases = component(mutant.component).cases
    with mutant.applied():
        failures = failing(component(mutant.component))
        differing = [case for case in cases if not compare_definition(component(mutant.component), case).passed]
    assert set(failures) <= {DEFINITION}, failures
    assert [c.description for c in differing] == [c.description for c in cases if mutant.shows_in(c)]


def test_the_catalogue_has_every_entry_that_concerns_a_component():
    entries = {mutant.id.split("-")[0] for mutant in MUTANTS.values()}
    assert entries == {
        *("LN1", "LN2", "LN1+2", "LN3", "LN4", "LN5", "LN6", "LN7"),
        *("E2", "E4", "E5", "P1", "P2", "P3", "P4", "P5", "P6", "P8"),
        *("A1", "A2", "A3", "A4", "A5", "A6", "A7", "A8", "A10", "A11", "A12", "A13", "A14", "A15", "A16", "A17"),
        *("A18", "A19", "A21", "A22", "A23"),
        *("B1", "B2", "B3", "B4", "B6", "B7", "B8", "B9", "B10", "B11", "B12"),
        *("T1", "T2", "T3", "T4", "T5", "T7"),
        *("R1", "R2", "R3", "R4", "R6", "R7", "R8", "R9", "R10", "G1", "G2", "G3", "G4", "G5", "G6", "K1"),
    }


def test_every_mutant_is_an_entry_of_the_kits_catalogue():
    entries = {mutant.id.split("-")[0] for mutant in MUTANTS.values()} - {"LN1+2"}
    assert entries <= kit.MISTAKES.keys()


@pytest.mark.parametrize(
    "name, patches", [("LayerNorm", normalizing({})), (SDPA, core({})), ("MultiheadAttention", core({}))]
)
def test_the_way_of_mutating_is_not_what_is_caught(name, patches):
    """What is right, put in place in the same way, passes."""
    with Mutant("", "none", name, patches).applied():
        assert failing(component(name)) == {}


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_a_mutant_leaves_nothing_behind(mutant: Mutant):
    def values() -> list[object]:
        return [p.owner[p.name] if isinstance(p.owner, dict) else vars(p.owner)[p.name] for p in mutant.patches]

    before = values()
    with mutant.applied():
        assert all(now is not then for now, then in zip(values(), before, strict=True))
    assert all(now is then for now, then in zip(values(), before, strict=True))
