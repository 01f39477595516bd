"""A saved state is the one of torch.optim.Adam, can be loaded in both directions, and a run goes on bitwise."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from torch.nn import Parameter

from scratch_transformer.optim import Adam, Optimizer

SHAPES = [(3, 5), (7,), (2, 3, 4)]
OPTIONS = {"lr": 0.03, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1, "amsgrad": True, "maximize": True}
# Options that only torch has: it sets them itself when it loads a state without them.
ONLY_TORCHS = {"foreach", "capturable", "differentiable", "fused", "decoupled_weight_decay"}


def make_params(device="cpu", dtype=torch.float64, shapes=SHAPES):
    generator = torch.Generator().manual_seed(7)
    return [
        Parameter(torch.randn(shape, generator=generator, dtype=torch.float64).to(device, dtype)) for shape in shapes
    ]


def make_groups(params, named=False):
    entries = [(f"layer{i}.weight", param) for i, param in enumerate(params)] if named else params
    return [{"params": entries[:2]}, {"params": entries[2:], "lr": 0.2, "betas": (0.5, 0.6), "weight_decay": 0}]


def run(optimizer, params, steps):
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        for param in params:
            grad = torch.randn(param.shape, generator=generator, dtype=torch.float64)
            param.grad = None if param.dim() == 1 and step % 2 else grad.to(param)
        optimizer.step()


def clone(params):
    return [Parameter(param.detach().clone()) for param in params]


def without_torchs_own(param_groups):
    return [{name: value for name, value in group.items() if name not in ONLY_TORCHS} for group in param_groups]


def assert_same_state(ours, theirs):
    assert without_torchs_own(ours["param_groups"]) == without_torchs_own(theirs["param_groups"])
    torch.testing.assert_close(ours["state"], theirs["state"], rtol=0, atol=0)


@pytest.mark.parametrize("named", [False, True], ids=["tensors", "named"])
@pytest.mark.parametrize("amsgrad", [False, True])
def test_the_state_dict_is_torchs(named, amsgrad):
    ours, theirs = make_params(), make_params()
    options = {**OPTIONS, "amsgrad": amsgrad}
    optimizer = Adam(make_groups(ours, named), **options)
    reference = torch.optim.Adam(make_groups(theirs, named), **options)
    assert_same_state(optimizer.state_dict(), reference.state_dict())
    run(optimizer, ours, range(1, 6))
    run(reference, theirs, range(1, 6))
    state = optimizer.state_dict()
    assert_same_state(state, reference.state_dict())
    assert set(state) == {"state", "param_groups"}
    assert set(state["state"]) == {0, 1, 2}
    assert [group["params"] for group in state["param_groups"]] == [[0, 1], [2]]
    assert set(state["state"][1]) == {"step", "exp_avg", "exp_avg_sq"} | ({"max_exp_avg_sq"} if amsgrad else set())
    assert ("param_names" in state["param_groups"][0]) == named


def test_a_parameter_that_was_put_into_two_groups_has_its_first_number():
    found = []
    for optimizer in (Adam(make_params()), torch.optim.Adam(make_params())):
        first = optimizer.param_groups[0]
        optimizer.param_groups.append({**first, "params": first["params"][1:]})
        found.append([group["params"] for group in optimizer.state_dict()["param_groups"]])
    assert found == [[[0, 1, 2], [1, 2]]] * 2


def test_a_parameter_without_a_gradient_has_no_state():
    params = make_params()
    optimizer = Adam(params)
    params[1].grad = torch.ones_like(params[1])
    optimizer.step()
    assert set(optimizer.state_dict()["state"]) == {1}


@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize(
    ("first", "second"),
    [(Adam, Adam), (torch.optim.Adam, Adam), (Adam, torch.optim.Adam)],
    ids=["ours->ours", "torch->ours", "ours->torch"],
)
def test_a_run_resumes_bitwise_in_the_middle(first, second, amsgrad, device):
    options = {**OPTIONS, "amsgrad": amsgrad}
    params = make_params(device)
    optimizer = first(make_groups(params), **options)
    run(optimizer, params, range(1, 30))

    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    resumed_params = clone(params)
    resumed = second([{"params": resumed_params[:2]}, {"params": resumed_params[2:]}])  # options come from the file
    resumed.load_state_dict(torch.load(file, weights_only=True))

    run(optimizer, params, range(30, 60))
    run(resumed, resumed_params, range(30, 60))
    for ours, theirs in zip(resumed_params, params, strict=True):
        rtol = 0 if device.type == "cpu" or first is second else 1e-12
        torch.testing.assert_close(ours, theirs, rtol=rtol, atol=rtol)
    assert without_torchs_own(resumed.param_groups) != without_torchs_own(second(make_groups(params)).param_groups)
    assert resumed.state_dict()["state"][0]["step"].item() == 59


def test_loading_copies_while_torch_shares_the_tensors():
    params = make_params()
    optimizer = Adam(make_groups(params), **OPTIONS)
    run(optimizer, params, range(1, 4))
    saved = optimizer.state_dict()
    before = copy.deepcopy(saved)

    ours, theirs = clone(params), clone(params)
    resumed = Adam(make_groups(ours), **OPTIONS)
    resumed.load_state_dict(saved)
    run(resumed, ours, range(4, 8))
    assert_same_state(saved, before)
    assert_same_state(optimizer.state_dict(), before)

    reference = torch.optim.Adam(make_groups(theirs), **OPTIONS)
    reference.load_state_dict(saved)
    assert reference.state[theirs[0]]["exp_avg"] is saved["state"][0]["exp_avg"]  # if this fails: tell the docstring


def test_loading_copies_the_options():
    params = make_params()
    optimizer = Adam(make_groups(params))
    saved = optimizer.state_dict()
    saved["param_groups"][0]["note"] = ["mine"]
    optimizer.load_state_dict(saved)
    saved["param_groups"][0]["note"].append("changed later")
    saved["param_groups"][0]["lr"] = 77.0
    assert optimizer.param_groups[0]["note"] == ["mine"]
    assert optimizer.param_groups[0]["lr"] == 1e-3


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_loading_casts_the_state_to_the_parameter_but_not_the_step_count(dtype, device):
    params = make_params(device)
    optimizer = Adam(params, amsgrad=True)
    run(optimizer, params, range(1, 4))
    for state in optimizer.state.values():
        state["step"] += 256  # 257 and more are no bfloat16 numbers

    ours, theirs = make_params(device, dtype), make_params(device, dtype)
    resumed, reference = Adam(ours), torch.optim.Adam(theirs)
    resumed.load_state_dict(optimizer.state_dict())
    reference.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert_same_state(resumed.state_dict(), reference.state_dict())
    state = resumed.state[ours[0]]
    assert state["exp_avg"].dtype == state["exp_avg_sq"].dtype == state["max_exp_avg_sq"].dtype == dtype
    assert state["step"].dtype == torch.float32
    assert state["step"].item() == 259


def test_loading_moves_the_state_to_the_parameters_device_and_the_step_count_to_the_cpu():
    params = make_params()
    optimizer = Adam(params)
    run(optimizer, params, [2])
    moved = [Parameter(param.detach().to("meta")) for param in params]
    resumed = Adam(moved)
    resumed.load_state_dict(optimizer.state_dict())
    assert {name: value.device.type for name, value in resumed.state[moved[0]].items()} == {
        "step": "cpu",
        "exp_avg": "meta",
        "exp_avg_sq": "meta",
    }


def test_loading_brings_a_step_count_from_another_device_to_the_cpu(device):
    """Torch's capturable and fused kernels keep it with the parameter; the meta device has no count to bring."""
    param = Parameter(torch.ones(2, device=device))
    optimizer = Optimizer([param], {})
    state = {"param_groups": [{"params": [0]}]}
    optimizer.load_state_dict({**state, "state": {0: {"step": torch.tensor(7.0, device=device)}}})
    assert (optimizer.state[param]["step"].device.type, optimizer.state[param]["step"].item()) == ("cpu", 7)
    with pytest.raises(NotImplementedError, match="meta"):
        optimizer.load_state_dict({**state, "state": {0: {"step": torch.tensor(7.0, device="meta")}}})


def test_loading_from_torchs_other_kernels():
    """Options that only choose a kernel come along, so that torch finds them when it loads the state again."""
    params = make_params()
    reference = torch.optim.Adam(params, lr=0.1, fused=True)
    run(reference, params, range(1, 4))
    ours = clone(params)
    optimizer = Adam(ours)
    optimizer.load_state_dict(reference.state_dict())
    assert optimizer.param_groups[0]["fused"] is True
    run(reference, params, range(4, 9))
    run(optimizer, ours, range(4, 9))
    torch.testing.assert_close(ours, params, rtol=1e-13, atol=1e-13)


def test_loading_a_learning_rate_that_is_a_tensor():
    params = make_params()
    reference = torch.optim.Adam(params, lr=torch.tensor(0.25))
    ours = clone(params)
    optimizer = Adam(ours)
    optimizer.load_state_dict(reference.state_dict())
    run(reference, params, range(1, 5))
    run(optimizer, ours, range(1, 5))
    assert all(torch.equal(our, their) for our, their in zip(ours, params, strict=True))


@pytest.mark.parametrize("adam", [Adam, torch.optim.Adam], ids=["ours", "torch"])
def test_loading_keeps_names_unless_the_state_brings_others(adam):
    named, plain = adam(make_groups(make_params(), named=True)), adam(make_groups(make_params()))
    named.load_state_dict(plain.state_dict())
    assert named.param_groups[0]["param_names"] == ["layer0.weight", "layer1.weight"]
    renamed = named.state_dict()
    renamed["param_groups"][0]["param_names"] = ["a", "b"]
    for optimizer in (named, plain):
        optimizer.load_state_dict(renamed)
        assert optimizer.param_groups[0]["param_names"] == ["a", "b"]


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([SHAPES], "state_dict has 2 parameter groups: expected 1"),
        ([SHAPES[:1], SHAPES[1:]], r"state_dict has groups of \[2, 1\] parameters: expected \[1, 2\]"),
    ],
)
def test_a_state_of_other_groups_is_refused_as_by_torch(shapes, message):
    state = Adam(make_groups(make_params())).state_dict()
    groups = [{"params": make_params(shapes=group)} for group in shapes]
    with pytest.raises(ValueError, match=message):
        Adam(groups).load_state_dict(state)
    with pytest.raises(ValueError):
        torch.optim.Adam(groups).load_state_dict(state)


def test_what_is_loaded_is_copied_and_cast():
    """Floating-point entries to the parameter's dtype, unless it counts; other things are copied to their depth."""
    params = [Parameter(torch.ones(2, dtype=torch.bfloat16)), Parameter(torch.ones(2).int(), requires_grad=False)]
    optimizer = Optimizer(params, {})
    values = torch.tensor([0.5, 1.5], dtype=torch.float64)
    given = {"history": [[1]], "mean": values, "step": torch.tensor(257.0)}
    optimizer.load_state_dict({"state": {0: given, 1: given}, "param_groups": [{"params": [0, 1]}]})
    for param, dtype in zip(params, [torch.bfloat16, torch.float64], strict=True):
        loaded = optimizer.state[param]
        assert loaded["history"] == [[1]]
        assert loaded["history"][0] is not given["history"][0]
        assert loaded["mean"].dtype == dtype
        assert loaded["mean"].tolist() == [0.5, 1.5]
        assert loaded["mean"].data_ptr() != values.data_ptr()
        assert (loaded["step"].dtype, loaded["step"].item()) == (torch.float32, 257)
        assert loaded["step"].data_ptr() != given["step"].data_ptr()


def broken_states():
    def case(name, message, change):
        return pytest.param(change, message, id=name)

    where = r"state_dict\['state'\]\[0\]"
    return [
        case(
            "shape",
            rf"{where}\['exp_avg'\] has shape \(5, 3\): expected the parameter's \(3, 5\)",
            lambda s: s["state"][0].update(exp_avg=torch.zeros(5, 3)),
        ),
        case(
            "sgd",
            rf"{where} has no \['exp_avg', 'exp_avg_sq', 'max_exp_avg_sq'\], only \['momentum_buffer', 'step'\]",
            lambda s: s["state"].update({0: {"step": 1, "momentum_buffer": torch.zeros(3, 5)}}),
        ),
        case("no maximum", rf"{where} has no \['max_exp_avg_sq'\]", lambda s: s["state"][0].pop("max_exp_avg_sq")),
        case("no step", rf"{where} has no \['step'\]", lambda s: s["state"][0].pop("step")),
        case(
            "stranger",
            r"state_dict\['state'\]\[9\] belongs to a parameter that is in no group",
            lambda s: s["state"].update({9: s["state"][0]}),
        ),
        case("lr", "lr is -1: expected a number >= 0", lambda s: s["param_groups"][1].update(lr=-1)),
        case(
            "adamw",
            "^decoupled_weight_decay is True: expected False, for this is Adam, not AdamW$",
            lambda s: s["param_groups"][0].update(decoupled_weight_decay=True),
        ),
        case(
            "differentiable",
            "^differentiable is True: expected False, for gradients do not flow through this step$",
            lambda s: s["param_groups"][0].update(differentiable=True),
        ),
    ]


@pytest.mark.parametrize(("change", "message"), broken_states())
def test_a_state_that_cannot_be_right_is_refused_and_changes_nothing(change, message):
    params = make_params()
    optimizer = Adam(make_groups(params), **OPTIONS)
    run(optimizer, params, [2])
    before, broken = copy.deepcopy(optimizer.state_dict()), copy.deepcopy(optimizer.state_dict())
    change(broken)
    with pytest.raises(ValueError, match=message):
        optimizer.load_state_dict(broken)
    assert_same_state(optimizer.state_dict(), before)


def test_the_state_of_torchs_adamw_is_refused_unless_it_decays_nothing():
    def state(weight_decay):
        return torch.optim.AdamW(make_params(), weight_decay=weight_decay).state_dict()

    if "decoupled_weight_decay" not in state(0.1)["param_groups"][0]:
        pytest.skip("this torch does not say in the state whether it is AdamW's")
    with pytest.raises(ValueError, match="AdamW"):
        Adam(make_params()).load_state_dict(state(0.1))
    optimizer = Adam(make_params(), lr=0.5)
    optimizer.load_state_dict(state(0.0))
    assert optimizer.param_groups[0]["lr"] == 1e-3
