"""Attention as a case: what it counts, the result in float64, and which results are refused."""

import pickle
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as torch_attention

from reference_tests.benchmarking.made_up import needs_groups
from scratch_transformer.benchmarking import attention_rivals, grid, masking, race
from scratch_transformer.benchmarking.attention_case import AttentionCase
from scratch_transformer.benchmarking.case import PASSES, Rival, Unsupported, Wrong, relative_error

PLAIN = AttentionCase(2, 4, 6, 8, "float64")
FORMS = {
    "full": PLAIN,
    "causal": replace(PLAIN, is_causal=True),
    "mask": replace(PLAIN, variant="mask"),
    "padding": replace(PLAIN, variant="padding"),
    "window": replace(PLAIN, T=300, variant="window"),
    "grouped": replace(PLAIN, G=2),
    "one query": replace(PLAIN, T=1, S=7, G=1),
}
MATH = Rival("torch math", is_ours=False)


def outcome(case, attend, inputs):
    """O, dQ, dK, dV of any function, in float64."""
    query, key, value = (x.detach().double().requires_grad_() for x in (inputs.query, inputs.key, inputs.value))
    out = attend(query, key, value, **attention_rivals._options(case, inputs))
    return (out, *torch.autograd.grad(out, (query, key, value), inputs.upstream.double()))


# ---- What it counts ----


def test_operations_are_those_of_the_two_products():
    assert PLAIN.flops == 2 * 2 * (2 * 4 * 6 * 6 * 8)
    assert replace(PLAIN, is_causal=True).flops == PLAIN.flops / 2
    assert replace(PLAIN, direction="both").flops == 3.5 * PLAIN.flops == PLAIN.flops * sum(list(PASSES.values())[:2])
    assert replace(PLAIN, T=3, S=12).flops == PLAIN.flops


def test_a_windows_operations_are_those_of_its_pairs():
    case = FORMS["window"]
    assert masking.pairs(case) == masking.mask(case, "cpu").sum()


def test_bytes_are_every_input_and_output_once():
    case = AttentionCase(2, 4, 6, 8, "bfloat16", "both", S=10, G=2)
    inputs = case.draw("cpu")
    forward = [inputs.query, inputs.query, inputs.key, inputs.value]
    assert replace(case, direction="forward").bytes == sum(x.nbytes for x in forward)
    backward = [inputs.query] * 4 + [inputs.key] * 4
    assert replace(case, direction="backward").bytes == sum(x.nbytes for x in backward)
    assert case.bytes == sum(x.nbytes for x in forward + backward)
    assert case.tokens == 12


def test_names_tell_cases_apart_and_travel():
    cases = [case for subject in grid.SUBJECTS for case in grid.cases(subject, "full", "cpu")]
    assert len({case.name for case in cases}) == len(cases)
    assert pickle.loads(pickle.dumps(cases)) == cases
    assert replace(PLAIN, is_causal=True, G=2).name == "attention-B2-H4-G2-T6-D8-causal-float64-forward"


# ---- The inputs ----


def test_inputs_are_the_same_in_every_process_and_differ_from_each_other():
    first, second = PLAIN.draw("cpu"), PLAIN.draw("cpu")
    assert torch.equal(first.query, second.query)
    assert not torch.equal(first.query, first.key)
    assert not first.query.requires_grad
    assert replace(PLAIN, direction="both").draw("cpu").value.requires_grad


@pytest.mark.parametrize("form", ["causal", "mask", "padding", "window"])
def test_the_rule_is_the_mask(form):
    case = FORMS[form]
    attn_mask = masking.mask(case, "cpu")
    rule = masking.rule(case, attn_mask)
    expected = torch.ones(case.T, case.keys).tril().bool() if attn_mask is None else attn_mask
    b, h = torch.arange(case.B).view(-1, 1, 1, 1), torch.arange(case.H).view(-1, 1, 1)
    t, s = torch.arange(case.T).view(-1, 1), torch.arange(case.keys)
    size = (case.B, case.H, case.T, case.keys)
    assert torch.equal(rule(b, h, t, s).expand(size), expected.expand(size))
    assert masking.rule(PLAIN, None) is None


# ---- The result ----


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("direction", ["forward", "backward", "both"])
def test_golden_is_torchs_result_in_float64(form, direction):
    case = replace(FORMS[form], direction=direction)
    inputs = case.draw("cpu")
    places = {"forward": slice(0, 1), "backward": slice(1, 4), "both": slice(0, 4)}[direction]
    right = case.golden(inputs)
    assert relative_error(outcome(case, torch_attention, inputs)[places], right.tensors) < 1e-14
    assert right.variance == {}


@pytest.mark.parametrize("form", [form for form in FORMS if form != "one query"])
@pytest.mark.parametrize("direction", ["forward", "backward", "both"])
def test_every_rival_that_can_do_a_case_is_right(form, direction):
    if form == "grouped":
        needs_groups()
    case = replace(FORMS[form], direction=direction, dtype="float32")
    lineup = race.line_up(case, "cpu", {"torch flex": "compiles for long"})
    assert {"ours auto", "torch math"} <= set(lineup.ready)
    assert all(error < 1e-5 for error in lineup.errors.values())
    assert all(result.status in ("unsupported", "left out") for result in lineup.out.values())


@pytest.mark.parametrize("place", range(4))
def test_a_wrong_tensor_is_refused(place):
    case = replace(PLAIN, direction="both", dtype="float32")
    inputs = case.draw("cpu")
    right = case.golden(inputs)
    found = list(outcome(case, torch_attention, inputs))
    case.check(tuple(found), right)
    found[place] = found[place] * 1.001
    with pytest.raises(Wrong, match="relative error 1.0e-03"):
        case.check(tuple(found), right)


def test_an_algorithm_that_cannot_is_asked_before_it_is_called(monkeypatch):
    class Never:
        def unsupported(self, query, key, value, attn_mask, dropout_p):
            assert (attn_mask, dropout_p) == (None, 0.0)
            return f"not for widths of {query.shape[-1]}"

    monkeypatch.setattr(attention_rivals.attention, "ALGORITHMS", {"never": Never()})
    rivals = {rival.name: rival for rival in PLAIN.rivals("cpu")}
    with pytest.raises(Unsupported, match="not for widths of 8"):
        PLAIN.prepare(rivals["ours never"], PLAIN.draw("cpu"))


def test_an_algorithm_that_would_leave_a_case_to_another_does_not_compete(monkeypatch):
    monkeypatch.setattr(attention_rivals.attention.ALGORITHMS["hopper"], "unsupported", lambda *given: None)
    case, hopper = FORMS["window"], Rival("ours hopper", is_ours=True)
    with pytest.raises(Unsupported, match="hands this call to triton: the kernels have no window"):
        case.prepare(hopper, case.draw("cpu"))


def test_every_backend_of_torch_competes_on_a_gpu():
    names = [rival.name for rival in PLAIN.rivals("cuda")]
    assert names[0] == "ours auto"
    assert {"ours triton", "ours hopper", "ours decode"} < set(names)
    assert set(names) >= {"torch flash", "torch efficient", "torch cudnn", "torch math", "torch flex"}
    assert "torch cudnn" not in [rival.name for rival in PLAIN.rivals("cpu")]


# ---- Dropout ----

DROPPED = AttentionCase(4, 8, 64, 16, "float32", "both", variant="dropout")


def test_dropout_is_right_if_its_results_scatter_as_they_must():
    inputs = DROPPED.draw("cpu")
    right = DROPPED.golden(inputs)
    for _ in range(3):
        assert DROPPED.check(outcome(DROPPED, torch_attention, inputs), right) is None
    assert set(right.variance) == {0, 3}


@pytest.mark.parametrize(
    "mistake",
    [
        lambda *qkv, dropout_p, **options: torch_attention(*qkv, dropout_p=0.0, **options),
        lambda *qkv, dropout_p, **options: torch_attention(*qkv, dropout_p=0.2, **options),
        lambda *qkv, dropout_p, **options: torch_attention(*qkv, dropout_p=0.1, **options) * 0.9,
        lambda *qkv, dropout_p, **options: torch_attention(*qkv, dropout_p=0.1, **options) * float("nan"),
    ],
    ids=["none", "too much", "not scaled up", "nan"],
)
def test_a_mistake_in_dropout_is_refused(mistake):
    inputs = DROPPED.draw("cpu")
    with pytest.raises(Wrong, match="scatter"):
        DROPPED.check(outcome(DROPPED, mistake, inputs), DROPPED.golden(inputs))
