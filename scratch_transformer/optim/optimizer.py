"""What any optimizer needs besides its update rule: parameter groups, gradients to clear, a state to save."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from copy import deepcopy
from itertools import chain
from typing import Any

from torch import Tensor

Group = dict[str, Any]  # one parameter group: {"params": [tensor, ...], "lr": ..., ...}
State = dict[str, Any]  # what is remembered about one parameter: {"step": ..., "exp_avg": ..., ...}
Params = Iterable[Tensor] | Iterable[tuple[str, Tensor]] | Iterable[Group]


class Optimizer:
    """Parameters in groups, each group with its own options, and a state per parameter.

    A subclass supplies `step()` and may refuse bad options (`check_options`) and bad saved states (`check_state`).
    It has the attributes of torch's optimizers:

    - `param_groups`: a list of dicts, `"params"` and every option of the constructor;
      change `group["lr"]` between two steps to change the learning rate.
    - `state`: what the update rule remembers about each parameter, empty until its first step.
    - `defaults`: the options of a group that does not give its own.

    Args:
        params: tensors; or `(name, tensor)` pairs, as `named_parameters()` gives; or dicts
            `{"params": tensors or pairs, option: value, ...}`, one per group.
        defaults: the options that every group has, and their values.

    Raises:
        TypeError: `params` is a tensor, a set (it has no fixed order) or not iterable, or holds something
            that is not a real tensor.
        ValueError: there are no parameters; one is not a leaf of the autograd graph, or occurs twice;
            only some of them have names.
    """

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        entries: list[Any] = _as_list(params)
        if not entries:
            raise ValueError("params is empty: expected at least one parameter (was a generator used twice?)")
        self.defaults = defaults
        self.check_options(defaults)
        self.state: defaultdict[Tensor, State] = defaultdict(dict)
        self.param_groups: list[Group] = []
        for group in entries if isinstance(entries[0], dict) else [{"params": entries}]:
            self.add_param_group(group)

    def check_options(self, options: dict[str, Any]) -> None:
        """Raise an error that names the option, if one of them has a value that makes no sense."""

    def check_state(self, where: str, param: Tensor, state: State, group: Group) -> None:
        """Raise a ValueError that begins with `where`, if a saved `state` cannot belong to `param`."""

    def add_param_group(self, param_group: Group) -> None:
        """Optimize more parameters; the options that `param_group` does not give are the defaults.

        Raises:
            KeyError: there is no entry `"params"`.
            TypeError, ValueError: as the constructor; also if a parameter is in an earlier group.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group is a {type(param_group).__name__}: expected a dict with an entry 'params'")
        if "params" not in param_group:
            raise KeyError(f"param_group has no entry 'params', only {sorted(param_group)}")
        entries = param_group["params"]
        names, params = _split_names([entries] if isinstance(entries, Tensor) else _as_list(entries))
        group = {**self.defaults, **param_group, "params": params}
        if names:
            group["param_names"] = names
        for position, param in enumerate(params):
            _check_param(names[position] if names else f"params[{position}]", param)
        self.check_options(group)
        self._check_against_other_groups(group)
        self.param_groups.append(group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients: set them to None, or to zero with `set_to_none=False`.

        The two differ: `step()` skips a parameter whose gradient is None, but one whose gradient is zero
        still moves, by its momentum and its weight decay.
        """
        for param in chain.from_iterable(group["params"] for group in self.param_groups):
            if set_to_none or param.grad is None:
                param.grad = None
            else:
                if param.grad.grad_fn is not None:  # backward(create_graph=True): let go of that graph
                    param.grad.detach_()
                param.grad.requires_grad_(False).zero_()

    def state_dict(self) -> dict[str, Any]:
        """Return `{"state": {index: state}, "param_groups": [options and "params": indices]}`.

        Parameters are numbered through all groups in order, one that is in several by its first place. The tensors
        are not copies: save the result (`torch.save`) or `copy.deepcopy` it before the next `step()`.
        """
        params = list(chain.from_iterable(group["params"] for group in self.param_groups))
        index_of = {param: index for index, param in reversed(list(enumerate(params)))}
        return {
            "state": {index_of[param]: state for param, state in self.state.items()},
            "param_groups": [{**g, "params": [index_of[p] for p in g["params"]]} for g in self.param_groups],
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a `state_dict()`, this optimizer's or torch's: options and state are both replaced.

        Parameters are matched by their position in the groups, not by name. Everything is copied (torch's own
        optimizers go on sharing the state's tensors with `state_dict`), and cast to the parameter's dtype and
        device; the step count keeps its dtype. If an error is raised, nothing has changed.

        Raises:
            ValueError: another number of groups or of parameters in a group; a state for a parameter that is
                in no group; options or a state that this optimizer cannot have.
        """
        saved_groups = state_dict["param_groups"]
        _check_same_sizes(self.param_groups, saved_groups)
        groups, owner = [], {}
        for own, saved in zip(self.param_groups, saved_groups, strict=True):
            names = {"param_names": own["param_names"]} if "param_names" in own else {}
            groups.append({**self.defaults, **names, **deepcopy(saved), "params": own["params"]})
            self.check_options(groups[-1])
            owner.update({key: (param, groups[-1]) for key, param in zip(saved["params"], own["params"], strict=True)})

        state: defaultdict[Tensor, State] = defaultdict(dict)
        for key, saved_state in state_dict["state"].items():
            if key not in owner:
                raise ValueError(f"state_dict['state'][{key!r}] belongs to a parameter that is in no group")
            param, group = owner[key]
            self.check_state(f"state_dict['state'][{key!r}]", param, saved_state, group)
            state[param] = {name: _copy_for(param, name, value) for name, value in saved_state.items()}
        self.param_groups, self.state = groups, state

    def __repr__(self) -> str:
        options = [{k: v for k, v in sorted(group.items()) if k != "params"} for group in self.param_groups]
        lines = [f"    {len(g['params'])} tensors, {o}" for g, o in zip(self.param_groups, options, strict=True)]
        return "\n".join([f"{type(self).__name__}(", *lines, ")"])

    def _check_against_other_groups(self, group: Group) -> None:
        for other in self.param_groups:
            if ("param_names" in other) != ("param_names" in group):
                raise ValueError("params has names in some groups and none in others: expected names in all or none")
        seen = set(chain.from_iterable(other["params"] for other in self.param_groups))
        for position, param in enumerate(group["params"]):
            if param in seen:
                raise ValueError(
                    f"params[{position}] of shape {tuple(param.shape)} occurs twice, in this group or an earlier one: "
                    "expected each parameter once, or one step would update it twice"
                )
            seen.add(param)


def _as_list(params: Any) -> list[Any]:
    if isinstance(params, (Tensor, set, frozenset)) or not isinstance(params, Iterable):
        raise TypeError(
            f"params is a {type(params).__name__}: expected an ordered iterable of tensors, of (name, tensor) pairs "
            "or of dicts, such as model.parameters()"
        )
    return list(params)


def _split_names(entries: list[Any]) -> tuple[list[str], list[Any]]:
    pairs = [entry for entry in entries if isinstance(entry, tuple)]
    if not pairs:
        return [], entries
    if len(pairs) < len(entries):
        raise ValueError(f"params has {len(pairs)} (name, tensor) pairs of {len(entries)}: expected all or none")
    return [name for name, _ in pairs], [param for _, param in pairs]


def _check_param(name: str, param: Any) -> None:
    if not isinstance(param, Tensor):
        raise TypeError(f"{name} is a {type(param).__name__}: expected a tensor")
    if param.is_complex():
        raise TypeError(f"{name} has dtype {param.dtype}: expected a real tensor")
    if not (param.is_leaf or param.retains_grad):
        raise ValueError(f"{name} is a non-leaf tensor, computed by {param.grad_fn}: expected a leaf, or retain_grad()")


def _check_same_sizes(groups: list[Group], saved_groups: list[Group]) -> None:
    sizes, saved_sizes = ([len(g["params"]) for g in gs] for gs in (groups, saved_groups))
    if len(sizes) != len(saved_sizes):
        raise ValueError(f"state_dict has {len(saved_sizes)} parameter groups: expected {len(sizes)}")
    if sizes != saved_sizes:
        raise ValueError(f"state_dict has groups of {saved_sizes} parameters: expected {sizes}")


def _copy_for(param: Tensor, name: str, value: Any) -> Any:
    if not isinstance(value, Tensor):
        return deepcopy(value)
    if name == "step":  # a count: bfloat16 cannot hold 257; and read on the CPU at every step
        return value.detach().to(device="cpu", copy=True)
    dtype = param.dtype if param.is_floating_point() else value.dtype
    return value.detach().to(device=param.device, dtype=dtype, copy=True)
