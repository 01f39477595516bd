"""Where a class that takes a probability of dropout drops out, and where not."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from scratch_transformer.kit.definitions import is_own, line_at, nodes_of, parameters_of
from scratch_transformer.kit.judge.detectors.dropped import dropped_scores
from scratch_transformer.kit.judge.frames import DONE_AT, line_of_argument, line_outside_constructors
from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import NOISE, Session, distance, says_nothing
from scratch_transformer.kit.judge.training import told, with_dropout
from scratch_transformer.kit.judge.variants import call
from scratch_transformer.kit.kind import Candidate, Finding, Probe, State
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.paths import ON_RESIDUAL
from scratch_transformer.kit.report import sums
from scratch_transformer.kit.syntax import Function, nodes_in

LAST = ("w_o", "linear2")
"""What computes a sublayer's output."""
AFTER_EVAL = "After model.eval(), two calls with the same input give different outputs."
TOLD_TO_DROP = "After model.eval(), scaled_dot_product_attention is told a probability of dropout all the same."
OF_ATTENTION = (
    "dropout_p=self.dropout if self.training else 0.0: scaled_dot_product_attention is a function, and drops out "
    "whenever it is told a dropout_p."
)
"""The fix of B12 there."""
OF_ITS_OWN = "It makes an nn.Dropout in every call, which is in training mode as every new module: eval() reaches none."
OF_A_MODULE = "self.dropout = nn.Dropout(p) in the constructor, self.dropout(x) in forward: there, eval() reaches it."
SETS_ITSELF = "A method of it sets self.training, which undoes eval()."
OF_TRAINING = "Without that line: model.train() and model.eval() set self.training, and that of every part."
OF_FUNCTION = "F.dropout(weights, p, training=training), training being an argument that gets self.training."
BUILT = "Built with dropout = 0.5, two calls in training mode"


def is_random(candidate: Candidate, probe: Probe, training: bool) -> bool:
    """Whether two calls differ."""
    if candidate.module is not None:
        candidate.module.train(training)
    candidate.drops = True
    try:
        first, second = (call(candidate, probe.inputs) for _ in range(2))
    finally:
        candidate.drops = False
    return distance(first, second, probe) > NOISE and not says_nothing(first)


class _OfAttention(TorchFunctionMode):
    """Whether scaled_dot_product_attention is told to drop out, and where: it does so in evaluation, too."""

    line = ""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.nn.functional.scaled_dot_product_attention:
            given = dict(zip(("query", "key", "value", "attn_mask", "dropout_p"), args, strict=False)) | (kwargs or {})
            self.line = self.line or (line_of_argument("dropout_p") if given.get("dropout_p") else "")
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def _dropouts_made() -> Iterator[list[tuple[nn.Dropout, str]]]:
    """Every nn.Dropout that is made inside, and at which line of a learner's."""
    made: list[tuple[nn.Dropout, str]] = []
    as_ever = nn.Dropout.__init__

    def init(self: nn.Dropout, *args: Any, **kwargs: Any) -> None:
        as_ever(self, *args, **kwargs)
        made.append((self, line_outside_constructors()))

    with mock.patch.object(nn.Dropout, "__init__", init):
        yield made


TOLD = re.compile(r"\s*(@.*\s+)*def \w+\([^)]*(drop|train)")


def random_in_evaluation(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B12: dropout, or anything random, after eval(). What a function is told to drop is its caller's."""
    if session.candidate.module is None and TOLD.match(session.candidate.text):
        if line := _made_inside(session.candidate):
            yield Finding(MISTAKES["B12"], f"{OF_ITS_OWN} {DONE_AT}{line}", fix=OF_FUNCTION)
        return
    for candidate in filter(None, (session.candidate, with_dropout(session))):
        with _OfAttention() as told_to_drop, _dropouts_made() as made:
            try:
                said = AFTER_EVAL * is_random(candidate, session.ran[0].probe, training=False)
            except Exception:  # the learner's code may raise anything
                said = TOLD_TO_DROP * bool(told_to_drop.line)
        if said and (line := _sets_training(session.candidate.module)):
            yield Finding(MISTAKES["B12"], f"{said} {SETS_ITSELF} {DONE_AT}{line}", fix=OF_TRAINING)
        elif said and told_to_drop.line:
            yield Finding(MISTAKES["B12"], f"{said} {DONE_AT}{told_to_drop.line}", fix=OF_ATTENTION)
        elif said and (lines := [line for one, line in made if one.training]):
            yield Finding(MISTAKES["B12"], f"{said} {OF_ITS_OWN} {DONE_AT}{lines[0]}", fix=OF_A_MODULE)
        elif said:
            yield Finding(MISTAKES["B12"], said)
        if said:
            return


def _own_classes(module: nn.Module | None) -> list[Any]:
    """The learner's classes of a module and of its parts."""
    parts = module.modules() if module is not None else ()
    return [cls for cls in dict.fromkeys(type(part) for part in parts) if is_own(cls)]


def _sets_training(module: nn.Module | None) -> str:
    """The line on which a method, other than train and eval, sets self.training; "" if none does."""
    for cls in _own_classes(module):
        methods = [n for n in nodes_of(cls) if isinstance(n, Function) and n.name not in ("train", "eval", "__init__")]
        for node in nodes_in(methods, ast.Assign):
            if any(ast.unparse(target) == "self.training" for target in node.targets):
                return line_at(cls, node)
    return ""


def _made_inside(candidate: Candidate) -> str:
    """The line on which a function that is told how much to drop makes an nn.Dropout, which nobody can switch off.

    "" where it does not, drops nothing by default, or says what mode that is in.
    """
    nodes = nodes_of(candidate.definition)
    calls = [n for n in nodes if isinstance(n, ast.Call) and ast.unparse(n.func).endswith("nn.Dropout")]
    told = [p.default for p in parameters_of(candidate.definition) if "drop" in p.name]
    drops = [p for p in told if isinstance(p, float) and p > 0]
    if not calls or not drops or re.search(r"train|\.eval\(", candidate.text):
        return ""
    return candidate.text.splitlines()[calls[0].lineno - 1].partition("#")[0].strip()


def attention_dropout(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """A18, and A17: what is kept after a call in training mode."""
    candidate = with_dropout(session) if session.kind.name.endswith("Attention") else None
    if candidate is None or candidate.module is None:
        return
    probe = session.ran[0].probe
    if not is_random(candidate, probe, training=True):
        yield Finding(MISTAKES["A18"], f"{BUILT} give the same output.")
        return
    candidate.load(_as_joined(session))
    if not drops_weights(candidate, probe):
        if any(dropped_scores(session, best)):
            return  # told of by itself
        said = "With the same values for all keys, its output in training mode is that of evaluation, or dropped"
        yield Finding(MISTAKES["A18"], f"{said}: the weights still sum to 1.")
        return
    for name, value in vars(candidate.module).items():
        if _is_weights(value, probe) and ((value.sum(-1) - 1).abs() > 1e-3).any():
            sums = value.sum(-1).flatten()[:3].tolist()
            said = f"Rows of self.{name} sum to {', '.join(f'{s:.2f}' for s in sums)} in training mode."
            yield Finding(MISTAKES["A17"], said)
            return


def _as_joined(session: Session) -> State:
    """The weights with an output projection that changes nothing: what the heads give is seen as it is joined."""
    weight = session.asked.get("w_o.weight")
    if weight is None or weight.shape[0] != weight.shape[1] or "w_o.weight" in session.candidate.missing:
        return session.asked
    zero = {"w_o.bias": torch.zeros_like(session.asked["w_o.bias"])} if "w_o.bias" in session.asked else {}
    return {**session.asked, "w_o.weight": torch.eye(len(weight), dtype=weight.dtype), **zero}


def drops_weights(candidate: Candidate, probe: Probe) -> bool:
    """Where all keys have one value, only the sum of the weights matters: it varies if some of them are dropped.

    An output that is dropped is zero; what is left of it is scaled by one number. So are the joined heads.
    """
    assert candidate.module is not None
    inputs = dict(probe.inputs)
    for name in ("x", "value", "memory"):
        if isinstance(inputs.get(name), Tensor):
            inputs[name] = inputs[name][:, :1].expand_as(inputs[name])
    candidate.module.eval()
    still = call(candidate, inputs)
    candidate.module.train()
    ratios = (call(candidate, inputs) / still).flatten()
    kept = ratios[ratios.abs() > 1e-6]
    return bool(kept.numel() == 0 or (kept.max() - kept.min()) > 1e-6)


def _is_weights(value: Any, probe: Probe) -> bool:
    query = probe.inputs.get("query", probe.inputs.get("x"))
    return (
        isinstance(value, Tensor)
        and value.dim() in (3, 4)
        and value.is_floating_point()
        and isinstance(query, Tensor)
        and value.shape[-2] == query.shape[-2]
        and bool((value >= 0).all())
        and not bool(((value == 0) | (value == 1)).all())  # a mask
    )


def to_evaluation(candidate: Candidate) -> None:
    """Out of training mode, if it has one."""
    if candidate.module is not None:
        candidate.module.eval()


def without(state: State, *parts: str) -> State:
    """The state in which sublayers' last matrices, or their biases too, are zero."""
    last = of_last(state, *parts)
    return {name: torch.zeros_like(value) if name in last else value for name, value in state.items()}


def of_last(state: State, *parts: str) -> set[str]:
    """The names of sublayers' last matrices, or of their biases."""
    ends = tuple(f"{name}.{part}" for name in LAST for part in parts)
    return {name for name in state if name.endswith(ends)}


class Half(TorchFunctionMode):
    """Every dropout has p = 0.5: what it was built with, or is written into the code, is less."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.nn.functional.dropout:
            return func(**{**told(args, kwargs), "p": 0.5})
        return func(*args, **(kwargs or {}))


OF_SUM = ("Layer", "Block", "ResidualConnection")


def dropout_after_the_sum(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B24: in training, features of the output are exactly zero, or were before the norm: neither a sum gives.

    Or what passes around sublayers that return zero differs between calls, wherever it is dropped. Where x is added
    twice, x + dropout(x + f(x)), one of the two passes undisturbed.
    """
    if best is None or best.recipe.norm_order not in ("post", "pre"):
        return
    candidate = with_dropout(session) or session.candidate
    is_layer = session.kind.name.endswith(OF_SUM)
    if candidate.module is None or not (is_layer or _drops_in_a_loop(candidate.module)):
        return
    probe = session.ran[0].probe
    candidate.load(session.asked)
    still = call(candidate, probe.inputs)
    candidate.module.train()
    try:
        with Half():
            output = call(candidate, probe.inputs)
    finally:
        candidate.module.eval()
    if not bool(output.isfinite().all()):
        return  # NaN in training, which has a reason of its own
    zeros = (output == 0).double().mean().item()
    if zeros > 0.2 and not (still == 0).any():
        yield Finding(MISTAKES["B24"], f"With dropout = 0.5, in training {zeros:.0%} of its output is 0.")
    elif not is_layer:
        return
    elif best.recipe.norm_order == "post" and (same := _alike(session, output) - _alike(session, still)) > 0.2:
        said = f"With dropout = 0.5, in training {same:.0%} of each token's features are alike before the norm's scale"
        yield Finding(MISTAKES["B24"], f"{said} and shift: they were 0 in the sum.")
    elif best.recipe.residual != "twice" and _drops_around(session, candidate):
        said = "With sublayers that return 0, x alone is left, and some of it is dropped: two calls in training differ."
        form = ON_RESIDUAL if sums.residual_dropped(type(candidate.module)) is not None else ""
        yield Finding(MISTAKES["B24"], said, form)


def _drops_in_a_loop(module: nn.Module) -> bool:
    """Whether a stack that has its layers written out drops something of each."""
    calls = [node.func for loop in nodes_of(type(module), ast.For) for node in nodes_in(loop, ast.Call)]
    return any(isinstance(call, ast.Attribute) and "drop" in call.attr for call in calls)


def _drops_around(session: Session, candidate: Candidate) -> bool:
    """Whether dropout is found where no sublayer gives anything."""
    weights = of_last(session.asked, "weight")
    if candidate.module is None or not weights or weights & (session.candidate.missing | candidate.missing):
        return False
    candidate.load(without(session.asked, "weight", "bias"))
    try:
        with Half():
            return is_random(candidate, session.ran[0].probe, training=True)
    finally:
        candidate.load(session.asked)
        candidate.module.eval()


def _alike(session: Session, output: Tensor) -> float:
    """The share of features that have the next larger one's number, without scale and shift of the last norm."""
    last = max((name for name in session.state if "norm" in name and name.endswith("weight")), default="")
    if not last or last in session.candidate.missing:
        return 0.0
    scale, shift = session.state[last], session.state.get(last.replace("weight", "bias"), torch.zeros(1))
    ordered = ((output - shift) / scale).sort(-1).values
    return float((ordered.diff(dim=-1) < 1e-9).double().mean())


def inner_dropout(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B7."""
    is_plain = session.kind.name == "FeedForward" and not (best is not None and best.recipe.gated)
    candidate = with_dropout(session) if is_plain else None
    if candidate is None or _is_told_of_attention(candidate.module):
        return
    if not is_random(candidate, session.ran[0].probe, training=True):
        yield Finding(MISTAKES["B7"], f"{BUILT} give the same output.")


def _is_told_of_attention(module: nn.Module | None) -> bool:
    """Whether all that its config says of dropout is that of attention: attention_dropout says nothing of a network."""
    configs = [kept for kept in vars(module).values() if hasattr(kept, "__dict__")] if module is not None else []
    fields = [name.lower() for config in configs for name in vars(config) if "drop" in name.lower()]
    return bool(fields) and all("att" in name for name in fields)


DROPOUT = (
    (("B12",), random_in_evaluation),
    (("A18", "A17"), attention_dropout),
    (("B24",), dropout_after_the_sum),
    (("B7",), inner_dropout),
)
