"""KnownOutputs that are known without computing them are those that would be computed."""

import itertools

import pytest
import torch

from reference_tests.kit.made import CanonicalCandidate
from scratch_transformer.kit.judge import variants
from scratch_transformer.kit.judge.changes import changes_of
from scratch_transformer.kit.judge.places import SUBLAYERS, compatible, in_a_sublayer, merged
from scratch_transformer.kit.judge.variants import Variants
from scratch_transformer.kit.kind import asked_of
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.recipe import RIGHT
from scratch_transformer.kit.resolve.trial import MISTAKEN, NOTHING, Trial


def recipes(name, every):
    """Of single mistakes, of pairs, and of what is made around one sublayer or two; some of all."""
    kind = KINDS[name]
    changes, designs = changes_of(kind)[::every], [*kind.designs.values()][:2]
    combinations = [(), *((change,) for change in changes)]
    combinations += [pair for pair in itertools.combinations(changes, 2) if compatible(pair)][:: 9 * every]
    if name in SUBLAYERS:
        single = [c for change in changes for c in in_a_sublayer(name, (change,))]
        combinations += [*single, *((a[0], b[0]) for a, b in itertools.pairwise(single) if a[0].part != b[0].part)]
    return [RIGHT.with_(merged(design, some)) for design in designs for some in combinations]


def computed(one, recipe, asked, probe):
    try:
        return variants.call(one.module(recipe, 0, asked), probe.inputs)
    except (RuntimeError, ValueError, IndexError):
        return None


NAMES = ("LayerNorm", "SelfAttention", "ScaledDotProductAttention", "EncoderLayer", "DecoderLayer", "MaskedLlamaBlock")


@pytest.mark.parametrize("name", NAMES)
def test_what_is_known_is_what_would_be_computed(name):
    kind = KINDS[name]
    settings = kind.complete({})
    asked, known, anew = asked_of(kind, settings, 0), Variants(kind, settings), Variants(kind, settings)
    for recipe, probe in itertools.product(recipes(name, 5), kind.probes(settings, 0)[:3]):
        expected, output = computed(anew, recipe, asked, probe), known.output(recipe, 0, asked, probe)
        assert (output is None) == (expected is None)
        assert output is None or torch.equal(output.nan_to_num(), expected.nan_to_num())


def counting(monkeypatch):
    """The calls of the reference from now on."""
    calls, called = [], variants.called
    monkeypatch.setattr(variants, "called", lambda module, inputs: calls.append(module) or called(module, inputs))
    return calls


def test_a_mistake_in_masking_is_not_computed_where_there_is_no_mask(monkeypatch):
    kind = KINDS["SelfAttention"]
    settings = kind.complete({})
    one, asked = Variants(kind, settings), asked_of(kind, settings, 0)
    probe = next(probe for probe in kind.probes(settings, 0) if probe.inputs["mask"] is None)
    calls = counting(monkeypatch)
    right = one.output(RIGHT, 0, asked, probe)
    for changes in ({"masking": "after softmax"}, {"fill": "-1e4"}, {"padding": "queries", "masking": "times"}):
        assert one.output(RIGHT.with_(changes), 0, asked, probe) is right
    assert len(calls) == 1
    assert not torch.equal(one.output(RIGHT.with_({"scale": "none"}), 0, asked, probe), right)
    assert len(calls) == 2
    one.output(RIGHT, 1, {name: 2 * values for name, values in asked.items()}, probe)  # with other weights
    assert len(calls) == 3


def test_the_same_mistake_in_another_part_is_another_output():
    kind = KINDS["EncoderLayer"]
    settings = kind.complete({})
    one, asked, probe = Variants(kind, settings), asked_of(kind, settings, 0), kind.probes(settings, 0)[0]
    entries = (("ddof", 1),), (("ddof", 0),), (("eps", 0.5),)
    of_both = [(("norm1", first), ("norm2", second)) for first, second in itertools.product(entries, repeat=2)]
    of_one = [((name, own),) for name, own in itertools.product(("norm1", "norm2"), entries)]
    outputs = [one.output(RIGHT.with_({"parts": parts}), 0, asked, probe) for parts in of_both]
    assert not any(torch.equal(a, b) for a, b in itertools.combinations(outputs, 2))
    alone = [one.output(RIGHT.with_({"parts": parts}), 0, asked, probe) for parts in of_one]
    for parts, output in zip([*of_both, *of_one], [*outputs, *alone], strict=True):
        expected = computed(Variants(kind, settings), RIGHT.with_({"parts": parts}), asked, probe)
        torch.testing.assert_close(output, expected, rtol=0, atol=0)


class Counted(CanonicalCandidate):
    """Not the reference's numbers; or only where it is given a mask."""

    def __init__(self, kind, is_right_without):
        super().__init__(kind)
        self.calls, self.is_right_without = 0, is_right_without

    def __call__(self, **inputs):
        self.calls += 1
        output = self.module(**inputs)
        return output if self.is_right_without and inputs["mask"] is None else output.sin()


@pytest.mark.parametrize("is_right_without", [False, True])
def test_what_the_first_probe_shows_in_vain_is_not_run_on_the_others_again(is_right_without):
    kind = KINDS["SelfAttention"]
    trial, every = Trial(kind, {}), kind.probes(kind.complete({}), 0)
    probes = sorted(every, key=lambda probe: probe.inputs["mask"] is not None)
    one = Counted(kind, is_right_without)
    first, calls = trial.score(one, probes, MISTAKEN), one.calls
    assert first[0] == NOTHING
    assert trial.score(one, probes, MISTAKEN) == first
    assert one.calls - calls == (len(probes) if is_right_without else 1)
