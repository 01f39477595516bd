"""The comparison of refusals, on components that refuse too little, too much, or in the wrong words."""

import dataclasses

from reference_tests.conformance.wrong import AcceptsEverything, component, error_case
from scratch_transformer import nn
from scratch_transformer.conformance import COMPONENTS
from scratch_transformer.conformance.errors import faults, raised

WRONG_WIDTH = error_case("Linear", "wrong width")


class SaysNothing(nn.Linear):
    def forward(self, input):
        raise RuntimeError("wrong shape")


class RaisesAnotherType(nn.Linear):
    def forward(self, input):
        raise KeyError("(2, 5, 13) in_features=12")


def test_the_table_is_right():
    assert faults(COMPONENTS["Linear"], WRONG_WIDTH) == []


def test_nothing_raised():
    assert faults(component("Linear", AcceptsEverything), WRONG_WIDTH) == [
        "ours must raise RuntimeError, but nothing is raised"
    ]


def test_another_type_raised():
    (fault,) = faults(component("Linear", RaisesAnotherType), WRONG_WIDTH)
    assert fault.startswith("ours must raise RuntimeError, but KeyError is raised: ")


def test_a_message_that_does_not_help():
    assert faults(component("Linear", SaysNothing), WRONG_WIDTH) == [
        "the message must contain '(2, 5, 13)', but is 'wrong shape'",
        "the message must contain 'in_features=12', but is 'wrong shape'",
    ]


def test_a_claim_about_the_builtin_that_is_not_true():
    lenient = dataclasses.replace(COMPONENTS["Linear"], builtin=AcceptsEverything)
    assert faults(lenient, WRONG_WIDTH) == ["the builtin must raise RuntimeError, but nothing is raised"]
    assert faults(lenient, dataclasses.replace(WRONG_WIDTH, torch_raises=False)) == []


def test_errors_of_the_constructor():
    case = error_case("Dropout", "negative probability")
    assert case.call is None
    assert isinstance(raised(COMPONENTS["Dropout"], nn.Dropout, case), ValueError)
    assert raised(COMPONENTS["Dropout"], nn.Dropout, dataclasses.replace(case, init={"p": 0.1})) is None
