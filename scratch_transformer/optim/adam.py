"""Adam (Kingma & Ba 2015) and AdamW, with the options of torch's: AMSGrad, maximization, parameter groups."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from scratch_transformer.optim.optimizer import Group, Optimizer, Params, State


class Adam(Optimizer):
    """A step in the direction of the mean gradient, scaled for each element by the size of its gradients.

    With the gradient g_t = ∇f(θ_{t-1}) at step t = 1, 2, ... (-∇f if `maximize`), plus λ θ_{t-1}:

        m_t = β₁ m_{t-1} + (1 - β₁) g_t              mean of the gradients
        v_t = β₂ v_{t-1} + (1 - β₂) g_t²             mean of their squares
        m̂_t = m_t / (1 - β₁ᵗ)                        m₀ = v₀ = 0 pulls the means towards zero: correct that
        v̂_t = v_t / (1 - β₂ᵗ)                        with `amsgrad`: max(v_1, ..., v_t) / (1 - β₂ᵗ)
        θ_t = θ_{t-1} - lr · m̂_t / (√v̂_t + ε)

    Every operation is elementwise; g, m, v have the shape of the parameter θ. On CPU the results are bitwise those
    of torch.optim.Adam, whose state_dict this class reads and writes. Its `foreach`, `fused` and `capturable` only
    change how the same numbers are computed and do not exist here.

    Two choices are torch's: weight decay is the gradient of a penalty λ/2 ‖θ‖² and so passes through both means,
    unlike AdamW's; and AMSGrad's maximum is divided by 1 - β₂ᵗ, which Reddi et al. leave out.

    Schedulers of torch.optim.lr_scheduler accept subclasses of torch.optim.Optimizer only, hence not this class.
    Use `WarmupSchedule`, or assign to `group["lr"]` of the `param_groups`.

    Source: Kingma & Ba 2015, algorithm 1; Reddi et al. 2018, algorithm 2 (`amsgrad`). The Transformer was trained
    with betas=(0.9, 0.98), eps=1e-9 (Vaswani et al. 2017, section 5.3).

    Args:
        params: tensors, `(name, tensor)` pairs, or dicts with an entry "params" and the group's own options.
        lr: the learning rate.
        betas: (β₁, β₂), the decay of the means per step.
        eps: ε, keeps the division finite.
        weight_decay: λ.
        amsgrad: divide by the largest v so far instead of the latest.
        maximize: climb f instead of descending.

    Raises:
        TypeError: an option is not a number; or for `params`, see `Optimizer`.
        ValueError: lr, eps or weight_decay is negative; a beta is outside [0, 1); or for `params`, see `Optimizer`.
    """

    decouples = False  # whether weight decay leaves the means alone

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {**options, "amsgrad": amsgrad, "maximize": maximize})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient; return what `closure`, which may compute them, returns.

        Raises:
            RuntimeError: a gradient is sparse; no parameter has been changed.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._check_gradients()
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is not None:
                    self._update(param, param.grad, group)
        return loss

    def _update(self, param: Tensor, grad: Tensor, group: Group) -> None:
        beta1, beta2 = group["betas"]
        state = self.state[param]
        if not state:
            state.update(_initial_state(param, group["amsgrad"]))
        m, v = state["exp_avg"], state["exp_avg_sq"]
        state["step"] += 1
        t = float(state["step"])

        if group["maximize"]:
            grad = -grad
        if group["weight_decay"] != 0 and self.decouples:
            param.mul_(1 - group["lr"] * group["weight_decay"])
        elif group["weight_decay"] != 0:
            grad = grad.add(param, alpha=group["weight_decay"])

        # The order of these operations is torch's: any other rounds differently in the last bit.
        m.lerp_(grad, 1 - beta1)
        v.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        if group["amsgrad"]:
            v = torch.maximum(state["max_exp_avg_sq"], v, out=state["max_exp_avg_sq"])
        sqrt_v_hat = v.sqrt().div_((1 - beta2**t) ** 0.5)
        step_size = group["lr"] / (1 - beta1**t)  # the correction of m, folded into the learning rate
        param.addcdiv_(m, sqrt_v_hat.add_(group["eps"]), value=-step_size)

    def _check_gradients(self) -> None:
        for number, group in enumerate(self.param_groups):
            for position, param in enumerate(group["params"]):
                if param.grad is not None and param.grad.is_sparse:
                    raise RuntimeError(
                        f"param_groups[{number}]['params'][{position}] of shape {tuple(param.shape)} has a sparse "
                        "gradient: Adam expects dense ones (torch.optim.SparseAdam takes sparse ones)"
                    )

    def check_options(self, options: dict[str, Any]) -> None:
        """Refuse a learning rate, beta, ε or weight decay outside its range, and torch's options that mean others.

        Raises:
            TypeError: one of them is not a number.
            ValueError: one of them is out of range, or the options ask for the other kind of weight decay or for a
                differentiable step.
        """
        for name in ("lr", "eps", "weight_decay"):
            if not _number(name, options[name]) >= 0:  # unlike <, this refuses NaN too
                raise ValueError(f"{name} is {options[name]}: expected a number >= 0")
        if not isinstance(options["betas"], (tuple, list)) or len(options["betas"]) != 2:
            raise ValueError(f"betas is {options['betas']}: expected two numbers")
        for i, beta in enumerate(options["betas"]):
            if not 0.0 <= _number(f"betas[{i}]", beta) < 1.0:
                raise ValueError(f"betas[{i}] is {beta}: expected a number in [0, 1)")
        if options.get("differentiable"):
            raise ValueError("differentiable is True: expected False, for gradients do not flow through this step")
        given = options.get("decoupled_weight_decay", self.decouples)
        if given != self.decouples and options["weight_decay"] != 0:
            this, other = ("AdamW", "Adam") if self.decouples else ("Adam", "AdamW")
            raise ValueError(
                f"decoupled_weight_decay is {given}: expected {self.decouples}, for this is {this}, not {other}"
            )

    def check_state(self, where: str, param: Tensor, state: State, group: Group) -> None:
        """Refuse the state of another kind of optimizer or of a parameter of another shape.

        Raises:
            ValueError: an entry is missing, or has another shape than the parameter.
        """
        if not state:  # a parameter that never had a gradient
            return
        moments = _moment_names(group["amsgrad"])
        missing = [name for name in ("step", *moments) if name not in state]
        if missing:
            raise ValueError(f"{where} has no {missing}, only {sorted(state)}: expected the state of an Adam")
        for name in moments:
            if state[name].shape != param.shape:
                shape = tuple(state[name].shape)
                raise ValueError(f"{where}[{name!r}] has shape {shape}: expected the parameter's {tuple(param.shape)}")


class AdamW(Adam):
    """Adam, whose steps are taken from parameters that have shrunk a little: θ_{t-1} (1 - lr λ) in place of θ_{t-1}.

    Weight decay is no part of the gradient, so it passes through no mean, and is not divided by one. On CPU the results
    are bitwise those of torch.optim.AdamW. Source: Loshchilov & Hutter 2019, algorithm 2. Language models are usually
    trained with weight_decay=0.1 of all matrices, and none of biases and norms.

    Args:
        weight_decay: λ.
        params, lr, betas, eps, amsgrad, maximize: as in `Adam`, with its errors.
    """

    decouples = True

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)


def _initial_state(param: Tensor, amsgrad: bool) -> State:
    """Names, dtypes and devices are torch's; the step count is a tensor on the CPU, where it is read."""
    dtype = torch.float64 if torch.get_default_dtype() == torch.float64 else torch.float32
    moments = {name: torch.zeros_like(param) for name in _moment_names(amsgrad)}
    return {"step": torch.tensor(0.0, dtype=dtype, device="cpu"), **moments}


def _moment_names(amsgrad: bool) -> list[str]:
    return ["exp_avg", "exp_avg_sq", "max_exp_avg_sq"] if amsgrad else ["exp_avg", "exp_avg_sq"]


def _number(name: str, value: Any) -> float:
    if isinstance(value, Real) or (isinstance(value, Tensor) and value.dim() == 0):
        return float(value)
    raise TypeError(f"{name} is {value!r}, a {type(value).__name__}: expected a number")
