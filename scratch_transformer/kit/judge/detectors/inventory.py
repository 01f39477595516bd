"""What the list of parameters, buffers and attributes shows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer.kit.definitions import codes_of, file_of, source_of, text_of_file
from scratch_transformer.kit.judge.detectors.construction import INITIALISES, empty_is_nan, text_of
from scratch_transformer.kit.judge.frames import DONE_AT
from scratch_transformer.kit.judge.running import running, watched
from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import ROUNDED, Session, distance
from scratch_transformer.kit.judge.uncomputed import hidden_modules, moved_at_once, trained_in_vain
from scratch_transformer.kit.judge.variants import call
from scratch_transformer.kit.kind import LAYERS, Finding
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.attention import DOES_TURN, TURNED_BETWEEN
from scratch_transformer.kit.mistakes.blocks import UNUSED_NORMS
from scratch_transformer.kit.mistakes.normalization import OF_PLACES, OF_ROWS
from scratch_transformer.kit.mistakes.paths import IN_AND_AROUND

FILLS_NORMS = re.compile(r"isinstance\(\w+, [^)\n]*Norm|\bones_\(|\.fill_\(1")
"""In a file that fills its parts' weights later, that it fills norms too."""


def scalar_norm(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """LN4: after loading, all entries of a norm's scale are the same, and there are parameters of a single number."""
    numbers = sum(len(shape) == 0 or max(shape) == 1 for shape in session.candidate.inventory().values())
    for name, values in session.state.items() if numbers and best is not None else ():
        same = values.dim() == 1 and len(values) > 1 and bool((values == values[0]).all())
        if same and name not in session.candidate.missing and _is_norm(name):
            asked = session.asked[name]
            if not bool((asked == asked[0]).all()):
                said = f"Its parameters include {numbers} of a single number; there should be {len(values)} in each."
                yield Finding(MISTAKES["LN4"], said)
                return


def norm_of_places(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """LN4: a norm of one token after the other whose scale and shift are those of the token's place, (L, d_model).

    L: the length, or the largest, of which the first rows are taken.
    """
    module, probe = session.candidate.module, session.ran[0].probe
    x = probe.inputs.get("x")
    if best is None or module is None or x is None or not {*session.asked} <= {*session.candidate.missing}:
        return
    T, d = x.shape[1:]
    own = {name: p for name, p in module.named_parameters() if p.dim() == 2 and p.shape[0] >= T and p.shape[1] == d}
    kept = {name: values.detach().clone() for name, values in own.items()}
    plain = call(session.candidate, probe.inputs)
    scales = [name for name, values in kept.items() if bool((values == 1).all())]
    shifts = [name for name, values in kept.items() if bool((values == 0).all())]
    if len(scales) != 1 or len(shifts) > 1 or len(own) > 1 + len(shifts):
        return
    try:
        with torch.no_grad():
            for values in own.values():
                values.normal_()
        expected = plain * own[scales[0]][:T] + sum(own[name][:T] for name in shifts)
        is_one = distance(call(session.candidate, probe.inputs), expected, probe) <= ROUNDED
    finally:
        with torch.no_grad():
            for name, values in own.items():
                values.copy_(kept[name])
    if is_one:
        L = len(own[scales[0]])
        ends = "with others it stops" if L == T else "a token is scaled by where it stands, and none may stand behind"
        sizes = f"{(L, d)}, for {L} tokens of {d} features"
        said = f"The numbers of {' and '.join(f'self.{name}' for name in own)} are {sizes}: {ends}."
        does = "" if L == T else OF_ROWS
        yield Finding(MISTAKES["LN4"], said, OF_PLACES, name=f"self.{scales[0]}", does=does)


def one_norm(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B15, of a norm whose weights stand for none of the reference's, or are one number, as those of all are then.

    It is called for each sublayer of a layer.
    """
    module, inputs = session.candidate.module, session.ran[0].probe.inputs
    if best is None or module is None or "B15" in best.ids or not session.kind.name.endswith(LAYERS):
        return
    left = [name.partition(" ")[0].rpartition(".")[0] for name in session.candidate.besides(**inputs)]
    norms = {module.get_submodule(path): path for path in left if path}
    norms |= {part: path for path, part in module.named_modules() if path and _is_of_one_number(part)}
    calls: list[nn.Module] = []
    with watched(module, lambda part, given, output: calls.append(part)):
        call(session.candidate, inputs)
    for norm, path in norms.items():
        if calls.count(norm) > 1 and "norm" in type(norm).__name__.lower():
            yield Finding(MISTAKES["B15"], f"In one call, self.{path} is called {calls.count(norm)} times.")
            return


def _is_of_one_number(part: nn.Module) -> bool:
    """Whether all that a part has of its own is one number each (LN4)."""
    own = [values.numel() for values in part.parameters(recurse=False)]
    return bool(own) and set(own) == {1}


def other_start(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """LN13, of a norm alone: what contains it may set its parameters. One that is stored as scale - 1 starts at 0."""
    text = text_of(session.candidate)
    if best is None or (INITIALISES.search(text) and FILLS_NORMS.search(text)):
        return
    with empty_is_nan():
        again = session.candidate.rebuild()
    scale = 0.0 if best.recipe.norm_scale == "1 + weight" else 1.0
    for name, word, wanted in (("weight", "scale", scale), ("bias", "shift", 0.0)):
        values = again.first(name)
        if values is not None and bool(values.isfinite().all()) and not bool((values == wanted).all()):
            is_one = bool((values == values.flatten()[0]).all())
            start = f"at {values.flatten()[0]:.3g}" if is_one else "at random numbers"
            said = f"Its {word} starts {start}, not at {wanted:.0f}."
            fix = f"nn.Parameter(torch.{'ones' if wanted else 'zeros'}(d_model)) for the {word}."
            yield Finding(MISTAKES["LN13"], said, f"the {word}", fix=fix)
            return


def norm_without_bias(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """LN6, where the norm has a scale."""
    missing = [name for name in session.candidate.missing if name.endswith("bias") and _is_norm(name)]
    present = [name for name in session.state if _is_norm(name) and name not in session.candidate.missing]
    beside = [name for name in missing if name.removesuffix("bias") + "weight" in present]
    if beside:
        yield Finding(MISTAKES["LN6"], f"No parameter plays the part of {', '.join(sorted(beside))}.")


def _is_norm(name: str) -> bool:
    parts = name.split(".")
    return len(parts) == 1 or parts[-2].startswith("norm")


def projection_biases(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """A14, where parameters are missing; the key's bias too, which no output shows."""
    left_out = session.candidate.missing
    biases = [name for name in left_out if name.endswith("bias") and ".w_" in f".{name}"]
    missing = {name.split(".")[-2] for name in biases if name.replace("bias", "weight") not in left_out}
    if not missing or (best is None and any("bias" in name for name in session.candidate.inventory())):
        return  # of what is not understood, they may be there under other names
    named = ", ".join(name for name in ("w_q", "w_k", "w_v", "w_o") if name in missing)
    every = "None of the four projections has a bias" if len(missing) == 4 else f"There is no bias in {named}"
    agrees = best is not None and all(MISTAKES[id].severity != "mistake" for id in best.ids)
    said = f"{every}. Apart from that it agrees with nn.MultiheadAttention." if agrees else f"{every}."
    yield Finding(MISTAKES["A14"], said, "left out")


def python_list(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B10."""
    if session.candidate.module is not None:
        yield from hidden_modules(session.candidate.module)
        yield from trained_in_vain(session.candidate.module)
        yield from moved_at_once(session.candidate.module)


def plain_tensors(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B10: weights that are attributes like any other, self.weight = torch.empty(…)."""
    for name in plain_weights(session, best)[:1]:
        said = f"self.{name} is a tensor, no nn.Parameter: it is not among model.parameters()."
        owner: Any = type(_owner(session.candidate.module, name)) if session.candidate.module is not None else None
        set_there = rf"^ *(self\.{name.rpartition('.')[2]}\b[^=\n]*=[^=\n].*)$"
        made = re.search(set_there, source_of(owner), re.MULTILINE)
        yield Finding(MISTAKES["B10"], f"{said} {DONE_AT}{made[1]}" if made else said)


def plain_weights(session: Session, best: Hypothesis | None) -> list[str]:
    """Names of the attributes that stand for weights of the reference, in a module that has no parameters."""
    module = session.candidate.module
    if module is None or best is None or any(True for _ in module.parameters()):
        return []
    names = session.candidate.unregistered
    return [name for name in names if isinstance(vars(_owner(module, name)).get(name.rpartition(".")[2]), Tensor)]


def _owner(module: Any, name: str) -> Any:
    """The part that an attribute of a module belongs to."""
    return module.get_submodule(name.rpartition(".")[0]) if "." in name else module


def shared_layers(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B9: different weights were asked for in the layers, and all layers have the last ones."""
    if best is None:  # perhaps the weights have not been found
        return
    stacks = {name.split("layers.")[0] + "layers." for name in session.asked if "layers." in name}
    for stack in sorted(stacks):
        rest = [name.removeprefix(f"{stack}0.") for name in session.asked if name.startswith(f"{stack}0.")]
        pairs = [(f"{stack}0.{name}", f"{stack}1.{name}") for name in rest if f"{stack}1.{name}" in session.asked]
        pairs = [pair for pair in pairs if not set(pair) & session.candidate.missing]
        if pairs and all(torch.equal(session.state[a], session.state[b]) for a, b in pairs):
            yield Finding(
                MISTAKES["B9"], f"After one layer of {stack[:-1]} gets new weights, the others have them too."
            )
            return


def never_used(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B30: a matrix, a table or a norm that nothing depends on, though there is a place for it."""
    module = session.candidate.module
    if idle := _idle_table(session):
        said = f"self.{idle} is never called, and vectors are taken: no tokens are looked up in it."
        yield Finding(MISTAKES["B30"], said, f"self.{idle}")
        return
    if best is None:
        yield from _sublayer_left_out(session)
    if best is None or module is None or {"A23", "B14", "B15"} & set(best.ids):
        return
    missing = session.candidate.missing
    places = {tuple(sorted(session.asked[name].shape)) for name in missing if name.endswith("weight")}
    own = session.candidate.inventory()
    for path in session.candidate.idle:
        shapes = [tuple(sorted(shape)) for name, shape in own.items() if name.startswith(f"{path}.")]
        if 0 < len(shapes) <= 2 and set(shapes) & places and not _is_optional(session, module, path):
            said = f"Nothing depends on self.{path}: with other weights, its output is the same."
            yield Finding(MISTAKES["B30"], said, f"self.{path}")
            return
    for path, part in module.named_modules() if session.kind.name == "Transformer" else ():
        if path in session.candidate.idle and isinstance(part, nn.Embedding):  # both languages have another table
            said = f"Nothing depends on self.{path}: no tokens are looked up in it."
            yield Finding(MISTAKES["B30"], said, f"self.{path}")
            return
    is_of_vectors = "x" in session.kind.inputs
    if is_of_vectors or (best.recipe.positions == "none" and {"ids", "src"} & {*session.kind.inputs}):
        for path, part in module.named_children():
            if not POSITIONS.search(path.lower()) or part in _called(session) or is_read(module, path):
                continue
            if is_of_vectors and _is_read_elsewhere(session, path):  # by what embeds for it, and adds them
                continue
            said = f"self.{path} is never called, and no positions are added."
            yield Finding(MISTAKES["B30"], said, f"self.{path}")
            return


def _sublayer_left_out(session: Session) -> Iterator[Finding]:
    """B30, where nothing explains the numbers: a part with matrices of a form that nothing that runs has any of."""
    module = session.candidate.module
    if module is None or not session.ran:
        return
    called = _called(session)
    parts = [(path, part) for path, part in module.named_children() if type(part) is not nn.Module]  # which holds only
    idle = [path for path, part in parts if not called & {*part.modules()}]
    idle = [path for path in idle if not is_read(module, path)]
    forms: dict[bool, set[tuple[int, ...]]] = {True: set(), False: set()}
    for name, shape in session.candidate.inventory().items():
        forms[name.split(".")[0] in idle].add(tuple(sorted(shape)))
    wanted = {tuple(sorted(values.shape)) for values in session.asked.values() if values.dim() == 2}
    for path in idle:
        own = {tuple(sorted(values.shape)) for values in module.get_submodule(path).parameters()}
        if own & wanted - forms[False]:
            yield Finding(MISTAKES["B30"], f"self.{path} is never called, and nothing is in its place.", f"self.{path}")
            return


POSITIONS = re.compile(r"(^|_)(pos(?!t)|pe($|_))|^rope|^rotary")
"""The name of a part that adds positions."""


def _called(session: Session) -> set[nn.Module]:
    """The parts that run in a call."""
    candidate, inputs = session.candidate, session.ran[0].probe.inputs
    return running(candidate.module, lambda: call(candidate, inputs))


def _idle_table(session: Session) -> str:
    """An embedding, of what takes vectors, that nothing runs or reads, in its class or elsewhere; "" without one."""
    module, candidate = session.candidate.module, session.candidate
    if candidate.takes_vectors and module is not None:
        text = text_of_file(file_of(type(getattr(module, "inner", module))))
        return next((name for name in getattr(module, "idle", ()) if not _is_read_in(text, name)), "")
    if module is None or not session.ran or "x" not in session.kind.inputs:
        return ""
    left = [name for name in idle_tables(module) if not _is_read_elsewhere(session, name)]
    called = _called(session) if left else set()
    return next((name for name in left if module.get_submodule(name) not in called), "")


def idle_tables(made: nn.Module) -> list[str]:
    """The paths of a model's own embeddings that nothing but its constructor reads, and that share no weights."""
    own = [name for name, part in made.named_children() if isinstance(part, nn.Embedding)]
    counts = Counter(id(values) for _, values in made.named_parameters(remove_duplicate=False))
    return [name for name in own if counts[id(made.get_submodule(name).weight)] == 1 and not is_read(made, name)]


def is_read(module: nn.Module, path: str) -> bool:
    """Whether any method but the constructor reads a part, those of its bases too."""
    classes = [cls for cls in type(module).__mro__ if issubclass(cls, nn.Module) and cls is not nn.Module]
    methods = [member for cls in classes for name, member in vars(cls).items() if name != "__init__"]
    read = {name for method in methods for code in codes_of(method) for name in code.co_names}
    return path.rpartition(".")[2] in read


def _is_read_elsewhere(session: Session, path: str) -> bool:
    """Whether the file of a class has other code that may read a part: self.encoder.pos_encoding(x)."""
    return _is_read_in(text_of(session.candidate), path)


def _is_read_in(text: str, path: str) -> bool:
    return not text or re.search(rf"(?<!\bself)\.{path}\b|\b(get|has)attr\(", text) is not None


def _is_optional(session: Session, module: nn.Module, path: str) -> bool:
    """Whether a method reads a part without calling it: in other cases it does, or another method needs it."""
    return module.get_submodule(path) not in _called(session) and is_read(module, path)


def shared_attentions(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """A36: different weights were asked for in the two attentions of a decoder's layer, and both have the same."""
    if best is None or best.recipe.order == "no cross":
        return
    of_self = [name for name in session.asked if "self_attn.w_" in name and name.endswith("weight")]
    pairs = [(name, name.replace("self_attn", "cross_attn")) for name in of_self]
    pairs = [pair for pair in pairs if pair[1] in session.asked and not set(pair) & session.candidate.missing]
    if pairs and all(torch.equal(session.state[a], session.state[b]) for a, b in pairs):
        said = "After its self-attention gets new weights, its attention to the encoder has them too."
        yield Finding(MISTAKES["A36"], said)


def projected_twice(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """A39: layers for queries, keys and values beside an attention that has its own; one of them does nothing now.

    What the first give may be turned by its positions before the attention gets it, and projects that again.
    """
    names, is_changed = session.candidate.projected_twice
    if best is None or not names:
        return
    nothing = "the attention's own change" if is_changed else "they change"
    said = f"{names} stand before an attention that projects again. Where {nothing} nothing, it agrees."
    if is_changed and best.recipe.rotary != "none":
        yield Finding(MISTAKES["A39"], said, TURNED_BETWEEN, does=DOES_TURN)
    else:
        yield Finding(MISTAKES["A39"], said)


def added_twice(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B23: residual and norm are inside a part, and around it; the reference's, without, was put in its place."""
    if best is not None and (names := " and ".join(session.candidate.added_twice)):
        said = f"In its {names} x is added, and what comes out gets x once more. With a part that does not, it agrees."
        yield Finding(MISTAKES["B23"], said, IN_AND_AROUND)


def norm_beside(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B15, where attention and network side by side have one norm, as they may, and the layer has another one."""
    if best is None or (best.recipe.norm_order, best.recipe.norms) != ("parallel", "shared") or "B14" in best.ids:
        return
    for name, values in session.state.items():
        is_there = name.endswith("norm2.weight") and name not in session.candidate.missing
        if is_there and not torch.equal(values, session.state[name.replace("norm2", "norm1")]):
            said = "Attention and network are both behind the first norm, side by side; nothing depends on the second."
            yield Finding(MISTAKES["B15"], said, UNUSED_NORMS)
            return


INVENTORY = (
    (("LN4",), scalar_norm),
    (("LN4",), norm_of_places),
    (("B15",), one_norm),
    (("LN13",), other_start),
    (("LN6",), norm_without_bias),
    (("A14",), projection_biases),
    (("B10",), python_list),
    (("B10",), plain_tensors),
    (("B9",), shared_layers),
    (("B30",), never_used),
    (("A36",), shared_attentions),
    (("A39",), projected_twice),
    (("B23",), added_twice),
    (("B15",), norm_beside),
)
