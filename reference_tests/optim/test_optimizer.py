"""Parameter groups and zero_grad are those of torch's optimizers; bad parameters are refused."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch.nn import Parameter

from scratch_transformer.optim import Adam, Optimizer

SHAPES = [(3, 5), (7,), (2, 3, 4)]


def make_params():
    generator = torch.Generator().manual_seed(7)
    return [Parameter(torch.randn(shape, generator=generator, dtype=torch.float64)) for shape in SHAPES]


def make_groups(params):
    return [{"params": params[:2]}, {"params": params[2:], "lr": 0.2}]


def run(optimizer, params, steps):
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        for param in params:
            grad = torch.randn(param.shape, generator=generator, dtype=torch.float64)
            param.grad = None if param.dim() == 1 and step % 2 else grad.to(param)
        optimizer.step()


def test_groups_inherit_the_defaults_and_the_callers_dict_is_left_alone():
    params = make_params()
    given = {"params": params[2:], "lr": 0.5, "note": "kept"}
    optimizer = Adam([{"params": params[0]}, given], betas=(0.1, 0.2), maximize=True)
    first, second = optimizer.param_groups
    assert first["params"] == [params[0]]
    assert first["lr"] == 1e-3
    assert first["betas"] == (0.1, 0.2)
    assert second["lr"] == 0.5
    assert second["maximize"] is True
    assert second["note"] == "kept"
    assert set(given) == {"params", "lr", "note"}
    assert set(optimizer.defaults) == {"lr", "betas", "eps", "weight_decay", "amsgrad", "maximize"}


def test_a_group_added_later_is_optimized():
    ours, theirs = make_params(), make_params()
    optimizer, reference = Adam(ours[:1]), torch.optim.Adam(theirs[:1])
    for adam, params in ((optimizer, ours), (reference, theirs)):
        run(adam, params, range(1, 4))
        adam.add_param_group({"params": (p for p in params[1:]), "lr": 0.3})
        run(adam, params, range(4, 8))
    assert all(torch.equal(our, their) for our, their in zip(ours, theirs, strict=True))


def test_an_iterator_of_parameters_is_enough():
    module = torch.nn.Linear(3, 5)
    assert Adam(module.parameters()).param_groups[0]["params"] == [module.weight, module.bias]
    group = Adam(module.named_parameters()).param_groups[0]
    assert group["params"] == [module.weight, module.bias]
    assert group["param_names"] == ["weight", "bias"]


def test_a_non_leaf_that_retains_its_gradient_is_allowed_as_by_torch():
    tensor = torch.ones(3, requires_grad=True) * 2
    tensor.retain_grad()
    assert Adam([tensor]).param_groups[0]["params"][0] is tensor


def test_repr_shows_every_groups_options():
    text = repr(Adam(make_groups(make_params()), eps=1e-5))
    assert text.startswith("Adam(\n    2 tensors, {")
    assert "    1 tensors, {" in text
    assert "'lr': 0.2" in text
    assert "'eps': 1e-05" in text
    assert "params" not in text
    assert text.endswith("}\n)")


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ([], ValueError, r"^params is empty: .*\(was a generator used twice\?\)$"),
        (iter(()), ValueError, "^params is empty: expected at least one parameter"),
        (torch.ones(3), TypeError, "params is a Tensor: expected an ordered iterable of tensors"),
        (Parameter(torch.ones(3)), TypeError, "params is a Parameter: expected an ordered iterable of tensors"),
        (torch.nn.Linear(2, 3), TypeError, r"params is a Linear: .* pairs or of dicts, such as model.parameters\(\)$"),
        ([torch.ones(3), "bias"], TypeError, r"params\[1\] is a str: expected a tensor"),
        ([torch.ones(3), {"params": []}], TypeError, r"params\[1\] is a dict: expected a tensor"),
        ([{"params": []}, torch.ones(3)], TypeError, "param_group is a Tensor: expected a dict"),
        ([("w", 3.0)], TypeError, "w is a float: expected a tensor"),
        ([{"params": {torch.ones(3)}}], TypeError, "params is a set: expected an ordered iterable"),
        ([{"lr": 1.0}], KeyError, r"param_group has no entry 'params', only \['lr'\]"),
        (
            [torch.ones(2, requires_grad=True) * 2],
            ValueError,
            r"params\[0\] is a non-leaf tensor, computed by <MulBack",
        ),
        ([("w", torch.ones(2)), torch.ones(3)], ValueError, r"params has 1 \(name, tensor\) pairs of 2: expected all"),
        (
            [{"params": [("w", torch.ones(2))]}, {"params": [torch.ones(3)]}],
            ValueError,
            "^params has names in .* none$",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_bad_parameters_are_refused_as_by_torch(params, error, message):
    if not hasattr(params, "__next__"):
        with pytest.raises(error):
            torch.optim.Adam(copy.copy(params))
    with pytest.raises(error, match=message):
        Adam(params)


def test_what_torch_lets_pass_and_should_not_is_refused():
    with pytest.raises(TypeError, match="params is a set: expected an ordered iterable"):
        Adam({torch.ones(3)})
    with pytest.raises(TypeError, match=r"params\[0\] has dtype torch.complex64: expected a real tensor"):
        Adam([torch.ones(3, dtype=torch.complex64)])
    with pytest.raises(ValueError, match="lr is -1: expected"):
        Adam([{"params": [torch.ones(3)], "lr": -1}])
    with pytest.raises(ValueError, match="lr is nan: expected"):
        Adam([torch.ones(3)]).add_param_group({"params": [torch.ones(2)], "lr": math.nan})


def test_a_parameter_that_occurs_twice_is_refused():
    """Torch warns of it within a group, and refuses it in two."""
    first, second = make_params()[:2]
    message = r"params\[{}\] of shape \({}\) occurs twice, .* earlier one: expected each parameter once, .*twice$"
    with pytest.raises(ValueError, match=message.format(2, "3, 5")):
        Adam([first, second, first])
    with pytest.raises(ValueError, match=message.format(0, "7,")):
        Adam([{"params": [first, second]}, {"params": [second]}])
    optimizer = Adam([first])
    with pytest.raises(ValueError, match=message.format(1, "3, 5")):
        optimizer.add_param_group({"params": [second, first]})
    assert len(optimizer.param_groups) == 1
    with pytest.raises(ValueError):
        torch.optim.Adam([first]).add_param_group({"params": [second, first]})


def test_zero_grad_forgets_the_gradients_or_sets_them_to_zero():
    params = make_params()
    optimizer = Adam(make_groups(params))
    params[0].grad, params[2].grad = torch.ones_like(params[0]), torch.ones_like(params[2])
    buffer = params[2].grad
    optimizer.zero_grad(set_to_none=False)
    assert params[2].grad is buffer
    assert not buffer.any()
    assert not params[0].grad.any()
    assert params[1].grad is None
    optimizer.zero_grad()
    assert [param.grad for param in params] == [None, None, None]


def test_zero_grad_lets_go_of_the_graph_of_the_gradient():
    param = Parameter(torch.tensor([2.0, 3.0]))
    (gradient,) = torch.autograd.grad((param**3).sum(), param, create_graph=True)
    param.grad = gradient
    assert gradient.grad_fn is not None
    Adam([param]).zero_grad(set_to_none=False)
    assert param.grad is gradient
    assert gradient.grad_fn is None
    assert not gradient.requires_grad
    assert not gradient.any()


def test_zero_grad_takes_a_gradient_that_requires_grad():
    param = Parameter(torch.ones(3))
    param.grad = torch.ones(3, requires_grad=True)
    Adam([param]).zero_grad(set_to_none=False)
    assert not param.grad.any()
    assert not param.grad.requires_grad


def test_the_base_class_alone_is_no_optimizer():
    assert not hasattr(Optimizer(make_params(), {"lr": 0.1}), "step")
