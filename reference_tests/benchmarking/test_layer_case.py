"""Modules as cases: ours and torch's find the same, and what is counted is what torch counts."""

from dataclasses import replace

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from scratch_transformer.benchmarking import race
from scratch_transformer.benchmarking.case import Wrong
from scratch_transformer.benchmarking.layer_case import RIVALS, LayerCase

SMALL = {"B": 2, "T": 5, "d_model": 12, "num_heads": 4, "d_ff": 20}
NAMES = ["MultiheadAttention", "TransformerEncoderLayer", "Transformer"]
COMPILED = {"ours compiled": "compiles for long", "torch compiled": "compiles for long"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", ["evaluation", "training", "step"])
def test_ours_and_torchs_are_right(name, mode):
    lineup = race.line_up(LayerCase(name, mode=mode, **SMALL), "cpu", COMPILED)
    expected = {"ours", "torch"} | ({"torch fast path"} if mode == "evaluation" else set())
    assert set(lineup.ready) == expected
    assert all(error < 1e-5 for error in lineup.errors.values())


@pytest.mark.parametrize("name", NAMES)
def test_operations_are_those_that_torch_counts(name):
    case = LayerCase(name, **SMALL)
    prepared = case.prepare(RIVALS[2], case.draw("cpu"))
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        prepared()
    assert case.flops == counter.get_total_flops()
    assert replace(case, mode="training").flops == 3 * case.flops


@pytest.mark.parametrize("name", NAMES)
def test_bytes_are_those_of_sequences_and_weights(name):
    case = LayerCase(name, **SMALL)
    inputs = case.draw("cpu")
    weights = sum(x.nbytes for x in inputs["state"].values() if x.dim() == 2)
    assert case.bytes == weights + 2 * inputs["x"].nbytes
    assert case.tokens == 10


def test_what_is_timed_in_training_drops_and_what_is_checked_does_not():
    case = LayerCase("TransformerEncoderLayer", mode="training", **SMALL)
    prepared = case.prepare(RIVALS[0], case.draw("cpu"))
    assert not torch.equal(prepared()[0], prepared()[0])
    assert torch.equal(prepared.outcome()[0], prepared.outcome()[0])
    assert not torch.equal(prepared()[0], prepared()[0])  # the proof has not switched it off for good


def test_a_step_changes_the_parameters():
    case = LayerCase("MultiheadAttention", mode="step", **SMALL)
    prepared = case.prepare(RIVALS[0], case.draw("cpu"))
    before = prepared.outcome()
    prepared()
    assert not torch.equal(prepared.outcome()[0], before[0])


def test_the_fast_path_is_on_for_one_rival_only():
    case = LayerCase("TransformerEncoderLayer", **SMALL)
    seen = {}
    for rival in case.rivals("cpu"):
        with case.prepare(rival, case.draw("cpu")).context():
            seen[rival.name] = torch.backends.mha.get_fastpath_enabled()
    assert [name for name, is_on in seen.items() if is_on] == ["torch fast path"]
    assert not torch.backends.mha.get_fastpath_enabled()


def test_another_result_is_refused():
    case = LayerCase("MultiheadAttention", **SMALL)
    inputs = case.draw("cpu")
    right = case.golden(inputs)
    with pytest.raises(Wrong):
        case.check(tuple(x + 1 for x in right), right)


def test_the_row_names_its_subject():
    step, layer = LayerCase("Transformer", mode="step", **SMALL), LayerCase("Transformer", **SMALL)
    assert (step.facts["subject"], layer.facts["subject"]) == ("training", "layers")
    assert step.facts["direction"] == "step"
    assert step.facts["shape"] == SMALL
