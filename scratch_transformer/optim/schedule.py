"""The learning rate of the paper: a linear warm-up, then a decay with the square root of the step."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor


class HasParamGroups(Protocol):
    """Any optimizer: ours or torch's."""

    param_groups: list[dict[str, Any]]


def warmup_lr(step: int, d_model: int, warmup_steps: int = 4000, factor: float = 1.0) -> float:
    """Return the learning rate of one optimizer step.

        lr(step) = factor · d_model^(-1/2) · min(step^(-1/2), step · warmup_steps^(-3/2))

    It rises linearly for `warmup_steps` steps, to its peak factor / √(d_model · warmup_steps), then falls as 1/√step.
    Of d_model = 512 and warmup_steps = 4000: lr(1) = 1.74693e-7, lr(4000) = 6.98771e-4.

    Source: Vaswani et al. 2017, section 5.3, equation 3; `factor` is not in the paper, where it is 1.

    Args:
        step: the number of the step, from 1.
        d_model: the width of the model.
        warmup_steps: the number of steps until the peak, at least 1.
        factor: scales the whole curve.

    Raises:
        ValueError: step, d_model or warmup_steps is less than 1, or factor is negative.
    """
    for name, value in (("step", step), ("d_model", d_model), ("warmup_steps", warmup_steps)):
        if not value >= 1:
            raise ValueError(f"{name} is {value}: expected a number >= 1")
    if not factor >= 0:
        raise ValueError(f"factor is {factor}: expected a number >= 0")
    return factor * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


class WarmupSchedule:
    """Sets the learning rate of an optimizer, this package's or any of torch's, to `warmup_lr(step)`.

    The constructor sets lr(1), replacing the rate that the optimizer was given. So the first `optimizer.step()` uses
    lr(1) and the n-th lr(n), if `step()` is called after each:

        optimizer = Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
        schedule = WarmupSchedule(optimizer, d_model=512)
        for batch in batches:
            optimizer.zero_grad()
            loss(model, batch).backward()
            optimizer.step()
            schedule.step()

    All parameter groups get the same rate. To resume, build both as before and load both state_dicts, in any order.

    Source: Vaswani et al. 2017, section 5.3, equation 3.

    Args:
        optimizer: has `param_groups`, a list of dicts with an entry "lr".
        d_model, warmup_steps, factor: see `warmup_lr`.

    Raises:
        TypeError: the optimizer has no `param_groups`.
        ValueError: as `warmup_lr`.
    """

    def __init__(self, optimizer: HasParamGroups, d_model: int, warmup_steps: int = 4000, factor: float = 1.0) -> None:
        if not hasattr(optimizer, "param_groups"):
            raise TypeError(f"optimizer is a {type(optimizer).__name__}: expected one that has param_groups")
        self.optimizer = optimizer
        self._move_to(1, d_model=d_model, warmup_steps=warmup_steps, factor=factor)

    def step(self) -> None:
        """Set the rate of the next optimizer step. Call it once after each `optimizer.step()`."""
        self._move_to(self._step + 1, **self._curve)

    def get_last_lr(self) -> list[float]:
        """Return the rate of each parameter group, as the next `optimizer.step()` will use it."""
        return [float(group["lr"]) for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Return the curve's numbers and `"step"`, the number of the next optimizer step, from 1."""
        return {"step": self._step, **self._curve}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a `state_dict()`: the curve and the position on it; sets the optimizer's rate at once.

        Raises:
            ValueError: an entry is missing or unknown, or as `warmup_lr`. Nothing has changed then.
        """
        expected = ["d_model", "factor", "step", "warmup_steps"]
        if sorted(state_dict) != expected:
            raise ValueError(f"state_dict has the entries {sorted(state_dict)}: expected {expected}")
        self._move_to(**state_dict)

    def _move_to(self, step: int, **curve: Any) -> None:
        lr = warmup_lr(step, **curve)
        self._step, self._curve = step, curve
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(lr)  # a compiled or captured step reads this very tensor
            else:
                group["lr"] = lr
