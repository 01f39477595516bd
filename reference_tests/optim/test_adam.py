"""Adam takes the steps of torch.optim.Adam, to the last bit, and those of the paper's algorithm."""

from __future__ import annotations

import copy
import inspect
import itertools
import math

import pytest
import torch
from torch.nn import Parameter

from scratch_transformer.optim import Adam

SHAPES = [(3, 5), (7,), (2, 3, 4), (), (11,)]
SOMETIMES_WITHOUT_GRAD, NEVER_WITH_GRAD = 1, 4  # positions in SHAPES
STEPS = 120

GRID = [
    {"weight_decay": weight_decay, "amsgrad": amsgrad, "maximize": maximize, **rates}
    for weight_decay, amsgrad, maximize, rates in itertools.product(
        (0, 0.1),
        (False, True),
        (False, True),
        ({}, {"lr": 0.02, "betas": (0.8, 0.98), "eps": 1e-3}, {"lr": 0.5, "betas": (0.0, 0.0), "eps": 0.0}),
    )
]
GRID.append({"weight_decay": 1})


def make_params(device="cpu", dtype=torch.float64):
    generator = torch.Generator().manual_seed(7)
    tensors = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in SHAPES]
    tensors[0] = tensors[0].T.contiguous().T  # not contiguous
    return [Parameter(tensor.to(device, dtype)) for tensor in tensors]


def set_gradients(step, *param_lists):
    """The same gradients for all lists. They shrink with the step: else AMSGrad's maximum would be the latest v."""
    generator = torch.Generator().manual_seed(step)
    for position, shape in enumerate(SHAPES):
        grad = torch.randn(shape, generator=generator, dtype=torch.float64) * 0.97**step
        missing = position == NEVER_WITH_GRAD or (position == SOMETIMES_WITHOUT_GRAD and step % 3 == 1)
        for params in param_lists:
            # laid out in memory as the parameter, as autograd does: torch's fused kernel relies on it
            params[position].grad = None if missing else torch.zeros_like(params[position]).copy_(grad)


def run(optimizer, params, steps):
    for step in steps:
        set_gradients(step, params)
        optimizer.step()


def assert_same(ours, theirs, where, rtol=0.0):
    """Bitwise by default. On other devices than the CPU, torch fuses operations and rounds fewer times."""
    assert (ours.dtype, ours.shape, ours.stride()) == (theirs.dtype, theirs.shape, theirs.stride()), where
    rtol = rtol if ours.device.type == "cpu" else max(rtol, 1e-12)
    if rtol == 0.0:
        assert torch.equal(ours, theirs), where
    else:
        torch.testing.assert_close(ours.detach(), theirs.detach(), rtol=rtol, atol=rtol, msg=lambda m: f"{where}: {m}")


def assert_same_state(optimizer, reference, where, rtol=0.0):
    ours, theirs = optimizer.state_dict()["state"], reference.state_dict()["state"]
    assert ours.keys() == theirs.keys(), where
    for index in theirs:
        assert list(ours[index]) == list(theirs[index]), where
        for name in theirs[index]:
            assert_same(ours[index][name], theirs[index][name], f"{where}, state {index} {name}", rtol)


def assert_same_run(ours, theirs, optimizer, reference, steps=STEPS, rtol=0.0):
    start = [param.detach().clone() for param in ours]
    for step in range(1, steps + 1):
        set_gradients(step, ours, theirs)
        optimizer.step()
        reference.step()
        for position, (our, their) in enumerate(zip(ours, theirs, strict=True)):
            assert_same(our, their, f"step {step}, parameter {position}", rtol)
        assert_same_state(optimizer, reference, f"step {step}", rtol)
    for position, (before, after) in enumerate(zip(start, ours, strict=True)):
        assert torch.equal(before, after) == (position == NEVER_WITH_GRAD)


@pytest.mark.parametrize("options", GRID, ids=str)
@pytest.mark.parametrize("foreach", [False, None], ids=["single", "default"])
def test_every_step_is_torchs_bitwise(options, foreach, device):
    ours, theirs = make_params(device), make_params(device)
    assert_same_run(ours, theirs, Adam(ours, **options), torch.optim.Adam(theirs, **options, foreach=foreach))


@pytest.mark.parametrize("options", GRID[:12], ids=str)
def test_torchs_fused_kernel_takes_the_same_steps_up_to_rounding(options, device):
    ours, theirs = make_params(device), make_params(device)
    reference = torch.optim.Adam(theirs, **options, fused=True)
    assert_same_run(ours, theirs, Adam(ours, **options), reference, rtol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("amsgrad", [False, True])
def test_low_precision_is_torchs_bitwise(dtype, amsgrad):
    options = {"lr": 0.02, "weight_decay": 0.1, "amsgrad": amsgrad, "eps": 1e-4}
    ours, theirs = make_params(dtype=dtype), make_params(dtype=dtype)
    assert_same_run(ours, theirs, Adam(ours, **options), torch.optim.Adam(theirs, **options))


@pytest.mark.parametrize("named", [False, True], ids=["tensors", "named"])
def test_groups_have_their_own_options(named, device):
    ours, theirs = make_params(device), make_params(device)

    def groups(params):
        entries = [(f"p{i}", param) for i, param in enumerate(params)] if named else params
        return [
            {"params": entries[:2], "lr": 0.1, "betas": (0.5, 0.7), "amsgrad": True},
            {"params": entries[2:3], "maximize": True, "weight_decay": 0.3},
            {"params": iter(entries[3:]), "eps": 0.1},
        ]

    options = {"lr": 0.01, "weight_decay": 0.05}
    assert_same_run(ours, theirs, Adam(groups(ours), **options), torch.optim.Adam(groups(theirs), **options))


def test_changing_a_groups_options_between_steps_takes_effect():
    ours, theirs = make_params(), make_params()
    optimizer, reference = Adam(ours), torch.optim.Adam(theirs)
    assert_same_run(ours, theirs, optimizer, reference, steps=5)
    for group in (optimizer.param_groups[0], reference.param_groups[0]):
        group.update(lr=0.3, betas=(0.6, 0.9), eps=0.01, weight_decay=0.2, maximize=True)
    assert_same_run(ours, theirs, optimizer, reference, steps=5)


@pytest.mark.parametrize(
    "option",
    [{"lr": 2e-3}, {"betas": (0.8, 0.999)}, {"betas": (0.9, 0.99)}, {"eps": 1e-4}]
    + [{"weight_decay": 0.1}, {"amsgrad": True}, {"maximize": True}],
    ids=str,
)
def test_every_option_matters(option):
    plain, changed = make_params(), make_params()
    run(Adam(plain), plain, range(1, 40))
    run(Adam(changed, **option), changed, range(1, 40))
    for position in set(range(len(SHAPES))) - {NEVER_WITH_GRAD}:
        assert not torch.allclose(plain[position], changed[position], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("amsgrad", [False, True])
def test_the_algorithm_of_the_paper_in_plain_numbers(amsgrad):
    """Kingma & Ba 2015, algorithm 1, one number at a time, without torch."""
    lr, beta1, beta2, eps, weight_decay = 0.05, 0.9, 0.98, 1e-9, 0.01
    gradients = [math.sin(7 * t) * 0.95**t for t in range(1, 101)]
    theta, m, v, v_max = 0.3, 0.0, 0.0, 0.0
    for t, gradient in enumerate(gradients, start=1):
        gradient += weight_decay * theta
        m = beta1 * m + (1 - beta1) * gradient
        v = beta2 * v + (1 - beta2) * gradient**2
        v_max = max(v_max, v)
        m_hat, v_hat = m / (1 - beta1**t), (v_max if amsgrad else v) / (1 - beta2**t)
        theta -= lr * m_hat / (math.sqrt(v_hat) + eps)

    param = Parameter(torch.tensor(0.3, dtype=torch.float64))
    optimizer = Adam([param], lr, (beta1, beta2), eps, weight_decay, amsgrad)
    for gradient in gradients:
        param.grad = torch.tensor(gradient, dtype=torch.float64)
        optimizer.step()
    assert param.item() == pytest.approx(theta, rel=1e-12)
    assert optimizer.state[param]["step"].item() == 100


def test_the_first_step_has_the_length_of_the_learning_rate_whatever_the_gradient():
    """m̂ = g and v̂ = g², so θ moves by lr · g / (|g| + ε)."""
    param = Parameter(torch.zeros(3, dtype=torch.float64))
    param.grad = torch.tensor([1e-3, -20.0, 4e5], dtype=torch.float64)
    Adam([param], lr=0.25).step()
    torch.testing.assert_close(param.detach(), param.new_tensor([-0.25, 0.25, -0.25]), rtol=2e-5, atol=0)


@pytest.mark.parametrize("maximize", [False, True])
def test_the_gradients_are_left_as_they_were(maximize):
    params = make_params()
    set_gradients(2, params)
    before = [param.grad if param.grad is None else param.grad.clone() for param in params]
    Adam(params, weight_decay=0.1, maximize=maximize, amsgrad=True).step()
    assert before[NEVER_WITH_GRAD] is None
    assert params[NEVER_WITH_GRAD].grad is None
    for gradient, param in zip(before[:NEVER_WITH_GRAD], params, strict=False):
        assert torch.equal(gradient, param.grad)


def test_none_is_skipped_but_zero_moves_by_momentum():
    skipped, moved = make_params(), make_params()
    for params, set_to_none in ((skipped, True), (moved, False)):
        optimizer = Adam(params)
        run(optimizer, params, [2])
        optimizer.zero_grad(set_to_none)
        optimizer.step()
        assert optimizer.state[params[0]]["step"].item() == (1 if set_to_none else 2)
    assert not torch.equal(skipped[0], moved[0])


def test_closure_is_called_once_with_gradients_and_its_result_returned():
    param = Parameter(torch.tensor([2.0]))
    optimizer = Adam([param], lr=0.1)
    calls = []

    def closure():
        calls.append(param.item())
        loss = (param**2).sum()
        loss.backward()
        return loss

    with torch.no_grad():
        loss = optimizer.step(closure)
    assert calls == [2.0]
    assert loss.item() == 4.0
    assert loss.requires_grad
    assert param.item() == pytest.approx(1.9)
    assert optimizer.step() is None


def test_a_step_records_no_graph_and_keeps_the_parameter_a_leaf():
    params = make_params()
    optimizer = Adam(params, weight_decay=0.1, amsgrad=True)
    run(optimizer, params, range(1, 3))
    assert all(param.is_leaf and param.requires_grad for param in params)
    assert not any(value.requires_grad for state in optimizer.state.values() for value in state.values())


@pytest.mark.parametrize("default_dtype", [torch.float32, torch.float64], ids=str)
def test_the_step_counts_dtype_follows_the_default_dtype_as_torchs(default_dtype):
    previous = torch.get_default_dtype()
    torch.set_default_dtype(default_dtype)
    try:
        ours, theirs = make_params(), make_params()
        assert_same_run(ours, theirs, Adam(ours), torch.optim.Adam(theirs), steps=2)
    finally:
        torch.set_default_dtype(previous)


def test_works_with_the_gradient_scaler():
    def steps(adam):
        params = make_params(dtype=torch.float32)
        optimizer, scaler = adam(params, lr=0.1), torch.amp.GradScaler("cpu", init_scale=8.0)
        for step in range(1, 5):
            optimizer.zero_grad()
            loss = sum((param * (param.detach() + step)).sum() for param in params)
            scaler.scale(loss * (math.inf if step == 2 else 1)).backward()
            scaler.step(optimizer)
            scaler.update()
        assert optimizer.state[params[0]]["step"].item() == 3  # the infinite gradient was skipped
        return params

    for ours, theirs in zip(steps(Adam), steps(torch.optim.Adam), strict=True):
        assert torch.equal(ours, theirs)


def test_deepcopy_continues_independently():
    params = make_params()
    optimizer = Adam(params, amsgrad=True)
    run(optimizer, params, range(1, 5))
    copied_params, copied = copy.deepcopy((params, optimizer))
    run(optimizer, params, range(5, 9))
    assert not torch.equal(params[0], copied_params[0])
    run(copied, copied_params, range(5, 9))
    assert all(torch.equal(a, b) for a, b in zip(params, copied_params, strict=True))


def test_signature_is_torchs_without_the_options_that_only_choose_a_kernel():
    ours, theirs = (inspect.signature(adam).parameters for adam in (Adam, torch.optim.Adam))
    missing = {"foreach", "capturable", "differentiable", "fused", "decoupled_weight_decay"}
    assert list(ours) == [name for name in theirs if name not in missing]
    for name, parameter in ours.items():
        assert (parameter.default, parameter.kind) == (theirs[name].default, theirs[name].kind)


def test_torchs_schedulers_take_torchs_optimizers_only():
    """Recorded so that a change upstream is noticed: the docstring says so."""
    with pytest.raises(TypeError, match="Adam is not an Optimizer"):
        torch.optim.lr_scheduler.LambdaLR(Adam(make_params()), lambda step: 1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lr": -0.1}, r"lr is -0.1: expected a number >= 0"),
        ({"lr": math.nan}, r"lr is nan: expected a number >= 0"),
        ({"eps": -1e-8}, r"eps is -1e-08: expected a number >= 0"),
        ({"weight_decay": -2}, r"weight_decay is -2: expected a number >= 0"),
        ({"betas": (1.0, 0.9)}, r"betas\[0\] is 1.0: expected a number in \[0, 1\)"),
        ({"betas": (-0.1, 0.9)}, r"betas\[0\] is -0.1: expected a number in \[0, 1\)"),
        ({"betas": (0.9, 1.5)}, r"betas\[1\] is 1.5: expected a number in \[0, 1\)"),
        ({"betas": (0.9, -1.0)}, r"betas\[1\] is -1.0: expected a number in \[0, 1\)"),
    ],
    ids=str,
)
def test_options_out_of_range_are_refused_as_by_torch(options, message):
    with pytest.raises(ValueError):
        torch.optim.Adam(make_params(), **options)
    with pytest.raises(ValueError, match=message):
        Adam(make_params(), **options)
    with pytest.raises(ValueError, match=message):
        Adam([{"params": make_params(), **options}])
    (name,) = options
    with pytest.raises(ValueError, match=message):  # a default that no group uses yet
        Adam([{"params": make_params(), name: (0.5, 0.5) if name == "betas" else 0.5}], **options)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"lr": "1e-3"}, TypeError, "lr is '1e-3', a str: expected a number"),
        ({"eps": None}, TypeError, "eps is None, a NoneType: expected a number"),
        ({"betas": (0.9, "x")}, TypeError, r"betas\[1\] is 'x', a str: expected a number"),
        ({"lr": torch.ones(2)}, TypeError, r"lr is tensor\(\[1., 1.\]\), a Tensor: expected a number"),
        ({"betas": 0.9}, ValueError, "betas is 0.9: expected two numbers"),
        ({"betas": (0.9, 0.99, 0.999)}, ValueError, r"betas is \(0.9, 0.99, 0.999\): expected two numbers"),
    ],
    ids=str,
)
def test_options_that_are_no_numbers_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        Adam(make_params(), **options)


@pytest.mark.parametrize("options", [{"lr": 0.0}, {"eps": 0.0}, {"weight_decay": 0.0}, {"betas": (0.0, 0.0)}], ids=str)
def test_the_ends_of_the_ranges_are_allowed(options):
    assert all(Adam(make_params(), **options).param_groups[0][name] == value for name, value in options.items())


def test_sparse_gradients_are_refused_before_anything_changes():
    params = [Parameter(torch.ones(4, 2)), Parameter(torch.ones(3, 2))]
    params[0].grad = torch.ones(4, 2)
    params[1].grad = torch.sparse_coo_tensor([[1]], torch.ones(1, 2), (3, 2), check_invariants=True)
    optimizer = Adam([{"params": params[:1]}, {"params": params[1:]}])
    where = r"^param_groups\[1\]\['params'\]\[0\] of shape \(3, 2\)"
    with pytest.raises(RuntimeError, match=rf"{where} has a sparse gradient: Adam expects .*torch.optim.SparseAdam"):
        optimizer.step()
    assert torch.equal(params[0], torch.ones(4, 2))
    assert not optimizer.state
    with pytest.raises(RuntimeError, match="sparse"):
        torch.optim.Adam(params).step()


@pytest.mark.parametrize("default", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_the_step_count_has_torchs_dtype_whatever_the_default(default):
    """bfloat16 could not count to 257."""
    dtypes = []
    torch.set_default_dtype(default)
    try:
        for adam in (Adam, torch.optim.Adam):
            param = Parameter(torch.ones(2, dtype=torch.float32))
            param.grad = torch.ones_like(param)
            optimizer = adam([param])
            optimizer.step()
            dtypes.append(optimizer.state[param]["step"].dtype)
    finally:
        torch.set_default_dtype(torch.float32)
    assert dtypes[0] == dtypes[1]


def test_the_step_count_stays_on_the_cpu_whatever_the_default():
    """Reading it from elsewhere would wait for the device at every step."""
    param = Parameter(torch.ones(2))
    param.grad = torch.ones(2)
    optimizer = Adam([param])
    with torch.device("meta"):
        optimizer.step()
    assert optimizer.state[param]["step"].device.type == "cpu"
