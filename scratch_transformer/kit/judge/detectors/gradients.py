"""What a backward pass shows: where gradients stop, and which parameters nothing uses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer.kit.arrays.module import roots_of
from scratch_transformer.kit.definitions import source_of
from scratch_transformer.kit.judge.by_hand import is_applied
from scratch_transformer.kit.judge.detectors.construction import text_of
from scratch_transformer.kit.judge.evidence import share
from scratch_transformer.kit.judge.frames import DONE_AT
from scratch_transformer.kit.judge.running import running
from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import EXACT, Session, distance
from scratch_transformer.kit.judge.variants import call, copies, with_gradients
from scratch_transformer.kit.kind import Candidate, Finding, Probe
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.construction import DOES_KEEP, OF_WRITERS, SECOND_STEP, UNTRAINED

LEAST = 1e-4
"""Relative errors of gradients that are more than float32's rounding."""
ROUNDING = 1e-7
"""The share of the largest gradient that float32's rounding may leave of one that is zero."""
OVER = r"@(?:torch\.)?(?:no_grad|inference_mode)\b.*"
DECORATOR = re.compile(rf"\A\s*({OVER})|^\s*({OVER})(?:\n\s*@.*)*\n\s*def (?:forward|__call__)\b", re.MULTILINE)
"""Over a function, or the forward of a class."""
TRAINS = re.compile(r"\.backward\(|cross_?entropy(?!\([\s\S]{0,300}?reduction *= *['\"]none['\"])", re.IGNORECASE)
"""In the file of a model that is not only there to write text: more than the log-probabilities of its words."""
OURS = "scratch_transformer.kit."
"""What is made around a function, whose weights are given, and which may be NumPy's."""


def stopped(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B27: an input or a parameter changes the output, and the output has no gradient there, or another one.

    Without a mask, and with one: what hides may cut.
    """
    module = session.candidate.module
    is_by_hand = is_applied(session.candidate) or (module is not None and any(True for _ in roots_of(module)))
    if best is None or session.is_random or is_by_hand:
        return  # by_hand.py compares what is written by hand
    probes = [result.probe for result in session.ran]
    masked = [probe for probe in probes if probe.has_mask]
    for probe in (*probes[:1], *(one for one in masked[:1] if one is not probes[0])):
        if (finding := next(_stopped_at(session, best, probe), None)) is not None:
            yield finding
            return


def _stopped_at(session: Session, best: Hypothesis, probe: Probe) -> Iterator[Finding]:
    module = session.candidate.module
    is_function = module is None or type(module).__module__.startswith(OURS)
    inputs, given = with_gradients(probe.inputs)
    named = () if module is None or is_function else module.named_parameters()
    own = {name: p for name, p in named if p.requires_grad}
    found = _gradients(session.candidate, inputs, probe.valid, [*given.values(), *own.values()])
    left = [name for name, gradient in zip((*given, *own), found, strict=True) if gradient is None]
    if len(left) == len(found) and (is_function or {"ids", "src"} & set(session.kind.inputs)):
        decorator = DECORATOR.search(session.candidate.text)
        if decorator is None:
            return  # NumPy's, or a model that is only there to write text
        form = "" if is_function or TRAINS.search(text_of(session.candidate)) else OF_WRITERS
        said = f"Its output has no gradient at all. {DONE_AT}{next(filter(None, decorator.groups()))}"
        yield Finding(MISTAKES["B27"], said, form)
        return
    lost = [name for name in left if name in given and _matters(session, inputs, given[name], probe)]
    lost += [f"self.{name}" for name in left if name in own and _matters(session, inputs, own[name], probe)]
    if lost:
        yield Finding(MISTAKES["B27"], f"The output depends on {', '.join(lost[:4])}, but has no gradient there.")
        return
    right = _gradients(session.module(best.recipe), inputs, probe.valid, list(given.values()))
    largest = max((one.abs().max().item() for one in right if one is not None and one.numel()), default=0.0)
    ours, theirs = (dict(zip(given, gradients, strict=False)) for gradients in (found, right))
    for names in _by_tensor(probe.inputs, given):
        name, gradient, other = " and ".join(names), _sum(ours, names), _sum(theirs, names)
        if _is_noise(gradient, largest) and _is_noise(other, largest):
            continue
        off = distance(gradient, other, Probe(name, {}))
        if LEAST < off < float("inf"):
            said = f"The output's gradient with respect to {name} is off by {share(off)}, though the output is right."
            yield Finding(MISTAKES["B27"], said)
            return


def _by_tensor(inputs: dict[str, Any], names: Iterable[str]) -> list[list[str]]:
    """The names of each tensor: where keys are values too, what reads one of them twice is as right."""
    groups: dict[int, list[str]] = {}
    for name in names:
        groups.setdefault(id(inputs[name]), []).append(name)
    return [*groups.values()]


def _sum(gradients: dict[str, Tensor | None], names: list[str]) -> Tensor | None:
    """Of one tensor, whichever of its names it was read by; None if by none."""
    own = [one for name in names if (one := gradients[name]) is not None]
    return torch.stack(own).sum(0) if own else None


def _is_noise(gradient: Tensor | None, largest: float) -> bool:
    """Whether it is zero up to rounding beside the other gradients, as where all queries get the same."""
    return gradient is not None and bool((gradient.abs() <= ROUNDING * largest).all())


def _gradients(module: Any, inputs: dict[str, Any], valid: Tensor | None, leaves: list[Tensor]) -> list[Tensor | None]:
    """Of one number made of the output where that counts, with respect to leaves; None where there is none."""
    if isinstance(module, Candidate):
        module.differentiates = True
    try:
        with torch.enable_grad():
            output = module(**copies(inputs))
            if not output.requires_grad:
                return [None] * len(leaves)
            weights = torch.linspace(1, 2, output.numel(), dtype=output.dtype).view(output.shape).cos()
            output = output if valid is None else output.masked_fill(~valid, 0.0)
            return list(torch.autograd.grad((output * weights).sum(), leaves, allow_unused=True))
    finally:
        if isinstance(module, Candidate):
            module.differentiates = False


def _matters(session: Session, inputs: dict[str, Any], leaf: Tensor, probe: Probe) -> bool:
    """Whether another value gives another output."""
    before, kept = call(session.candidate, inputs), leaf.detach().clone()
    with torch.no_grad():
        leaf.mul_(2).add_(torch.linspace(-1, 1, leaf.numel(), dtype=leaf.dtype).view(leaf.shape))
    try:
        return distance(call(session.candidate, inputs), before, probe) > EXACT
    finally:
        with torch.no_grad():
            leaf.copy_(kept)


def second_step(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B27: what a call keeps hangs on its graph, through which the next step of training would go again, and stops."""
    candidate, module = session.candidate, session.candidate.module
    if best is None or module is None or session.is_random or any(True for _ in roots_of(module)):
        return
    inputs, own = session.ran[0].probe.inputs, [p for p in module.parameters() if p.requires_grad]
    _let_go(module)
    module.train()
    candidate.differentiates, steps = True, 0
    try:
        with torch.enable_grad():
            while steps < 2:
                output = candidate(**copies(inputs))
                torch.autograd.grad(output.double().nan_to_num().sum(), own, allow_unused=True)
                steps += 1
    except RuntimeError as error:
        if steps == 1 and AGAIN in str(error):
            yield _kept_on_its_graph(session, module)
    finally:
        candidate.differentiates = False
        module.eval()
        _let_go(module)


AGAIN = "backward through the graph a second time"
"""In what PyTorch says then."""


def _kept_on_its_graph(session: Session, module: nn.Module) -> Finding:
    """B27, with what is kept, and the line that keeps it."""
    path, part, name = next(iter(_on_graphs(module)), ("", module, ""))
    kept = ".".join(filter(None, ("self", path, name)))
    said = f"Two steps of training, one after the other: the second stops, {AGAIN}, as {kept} is kept of the first."
    cls: Any = type(part)
    lines = source_of(cls).splitlines()
    for pattern in (rf"self\.{name}\b *\[.*\] *=[^=]", rf"self\.{name}\b.*copy_\(", rf"self\.{name} *=[^=]"):
        if name and (at := [line.strip() for line in lines if re.search(pattern, line)]):
            said = f"{said} {DONE_AT}{at[-1]}"
            break
    form = SECOND_STEP if TRAINS.search(text_of(session.candidate)) else UNTRAINED
    return Finding(MISTAKES["B27"], said, form, does=DOES_KEEP)


def _on_graphs(module: nn.Module) -> Iterator[tuple[str, nn.Module, str]]:
    """Buffers, and tensors that are attributes, which have been computed from what has gradients."""
    for path, part in module.named_modules():
        for name, value in (*part._buffers.items(), *vars(part).items()):
            if isinstance(value, Tensor) and value.grad_fn is not None:
                yield path, part, name


def _let_go(module: nn.Module) -> None:
    for _, part, name in [*_on_graphs(module)]:
        kept: dict[str, Any] = part._buffers if name in part._buffers else vars(part)
        kept[name] = kept[name].detach()


def has_unused_norms(session: Session) -> bool:
    """Whether a call leaves out some of the norms that are made."""
    module = session.candidate.module
    if module is None or type(module).__module__.startswith(OURS):
        return False
    norms = {part for part in module.modules() if "norm" in type(part).__name__.lower()}
    called = norms & running(module, lambda: call(session.candidate, session.ran[0].probe.inputs))
    return bool(called) and called < norms


GRADIENTS = ((("B27",), second_step), (("B27",), stopped))
