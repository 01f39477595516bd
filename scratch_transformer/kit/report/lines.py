"""Which line of a learner's code to look at for a mistake: the statement that is usually at fault, else forward."""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import itertools
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from scratch_transformer.kit.arrays.classes import BACKWARD
from scratch_transformer.kit.definitions import is_own, leads_to, lines_of, source_of
from scratch_transformer.kit.mistakes.attention import UNREAD, UNTOLD
from scratch_transformer.kit.mistakes.blocks import UNUSED_NORMS
from scratch_transformer.kit.mistakes.normalization import LARGE_EPS, ZERO_BY_ZERO
from scratch_transformer.kit.mistakes.optimizing import GONE_THROUGH
from scratch_transformer.kit.mistakes.paths import OF_BOTH, OF_CROSS, OF_NETWORK
from scratch_transformer.kit.report import handed, kept, numbers, scales, sums, unpassed
from scratch_transformer.kit.report.fixes import fixed, repeated
from scratch_transformer.kit.report.patterns import AT_LAST, OF_FORMS, OF_NORMS, OTHERWISE, PATTERNS
from scratch_transformer.kit.report.rooms import (
    MERGES,
    Room,
    has_sublayers,
    head_of,
    in_order,
    rooms_of,
    silent,
    texts,
    tree_of_lines,
)
from scratch_transformer.kit.syntax import nodes_in

AROUND = 2
"""Lines shown before and after the one at fault."""


OF_SUMS = ("B24", "B13")
"""What is seen where a residual connection's sum is made something of."""
READ = {"A21": handed.exchanged, "B24": sums.dropped_there, "B13": sums.thrown_away, "B14": sums.norm_thrown_away,
        "A18": handed.weighed_without, "B19": handed.the_first_input, "B28": numbers.of_layers,
        "B6": numbers.of_dropout}  # fmt: skip
"""What is known by how the code is built, not by its words."""
OF_DROPOUT = (sums.undropped, sums.made_in_vain)
FIXES = {
    "B6": "Tell it how much to drop, as the class itself is told: dropout in place of 0.",
    "A18": "Multiply the values with what dropout gives, and not with what it was given.",
}
"""Where that is so."""
SCALED_TWICE = ("A1", "divided by d_k")
ONCE = "Once is enough: leave this out, as the products are scaled too, or leave that out."
UNSCALED = {("A1", "not scaled"), ("A1", "divided after the softmax")}
"""Not made by the number that scores are scaled with."""
LAST = {*MERGES, ("B17", "at the end too"), ("B23", OF_NETWORK), ("O10", GONE_THROUGH)}
"""What comes after something right that has the same words."""
OF_SECOND, SUMS = {("B23", OF_CROSS), ("B23", OF_BOTH)}, 3
"""Of a decoder's layer, where no name says which of its sums is that of the attention to the encoder."""
OF_ITSELF = {("A24", "padding is ignored")}
"""Made by what should ask for something and does not: no line of its parts is at fault."""
NUMBER = re.compile(r"[\d.]+(e-?\d+)?")
OF_RMS = (
    "None is needed: it is to be the one that the weights were trained with, 1e-5 in Llama, 1e-6 in Qwen, and "
    "nn.RMSNorm(d_model, eps=…) takes any."
)
OF_TORCHS_DECODER = (
    "memory_key_padding_mask=src_key_padding_mask, in torch's decoder and nn.Transformer: what the encoder is told of "
    "padding."
)
NORM = re.compile(r"self\.(\w*norm\w*|ln\w*)\(")


def is_made_in(id: str, definition: Any) -> bool:
    """Whether a class makes a mistake with sums itself, whatever its parts do."""
    return id in OF_SUMS and READ[id](definition) is not None


class Place(NamedTuple):
    """A line of a file to look at for a mistake, and what to put there: nothing where more has to change.

    fix: in place of the mistake's own, which does not fit there. gone: how many lines that is put in the place of.
    also: other lines that are to be changed in the same way.
    """

    file: str
    line: int
    put: list[str]
    fix: str = ""
    gone: int = 1
    also: tuple[int, ...] = ()


class Said(NamedTuple):
    """A line that the evidence of a mistake names, and where it was run, if that is known: others may read the same."""

    code: str = ""
    file: str = ""
    number: int = 0

    def found_in(self, rooms: Iterable[Room]) -> tuple[Room, int] | None:
        """The room, and which of its lines it is."""
        code = self.code.partition("#")[0].strip()
        alike = [
            (room, offset)
            for room in rooms
            for offset, line in enumerate(room.lines)
            if code and line.partition("#")[0].strip() == code
        ]
        run = (one for one in alike if (one[0].file, one[0].start + one[1]) == (self.file, self.number))
        return next(run, next(iter(alike), None))


def place(
    id: str, form: str, thing: Any, given: Iterable[type] = (), said: Said | None = None, part: str = "",
    idle: Collection[tuple[str, int]] = (),
) -> Place | None:  # fmt: skip
    """Where to look for a mistake of a class or function: in itself, else in what it is made of.

    The line that the fix changes; else the first that fits the mistake; else the head of forward.
    given: the classes of its parts, of which its code need not name all. said: the line itself, where it is known.
    part: in which it is alone, "norm2" being the second sublayer. idle: files and lines that are never run.
    """
    found = _found(id, form, thing, given, said or Said(), part, idle)
    is_of_torch = id == "A22" and re.search(r"\bTransformer(Decoder(Layer)?)?\(", source_of(_defined(thing)))
    return found._replace(fix=OF_TORCHS_DECODER) if found is not None and not found.fix and is_of_torch else found


def _defined(thing: Any) -> Any:
    return thing if isinstance(thing, type) or inspect.isfunction(thing) else type(thing)


def _found(
    id: str, form: str, thing: Any, given: Iterable[type], said: Said, part: str, idle: Collection[tuple[str, int]]
) -> Place | None:
    target = _defined(thing)
    parts = [one for cls in given if is_own(cls) for one in (cls, *leads_to(cls))]
    owner = getattr(target, "owner", None)  # of a method, whose class may help it
    definitions = [*dict.fromkeys((target, *leads_to(target), *parts, *([owner] if owner else [])))]
    rooms, own = [room for definition in definitions for room in rooms_of(definition)], rooms_of(target)
    if (found := _run(id, form, said, rooms) or _read(id, form, definitions)) is not None:
        return found
    if (id, form) == ("A24", UNREAD) and own:
        return _at_head(own[0])
    if id == "E5" and (told := kept.of_padding(definitions)) is not None:
        return _at(told[0], told[1].number)
    rooms = in_order(id, form, rooms)
    found = _fixed(id, form, rooms, idle) or _headed(id, form, target) or _built(id, form, definitions)
    if found is not None:
        return found
    if id == "E5" and form:
        rooms.sort(key=lambda room: room.name != form)
    looked = own if (id, form) in OF_ITSELF and isinstance(target, type) else rooms
    found = _fitting(_patterns(id, form, target, definitions), looked, id, form, part, idle)
    for one in definitions if id == "A19" and found is None else ():
        if (check := kept.of_told_heads(one)) is not None:
            return _at(one, check.number, check.put)
    return found or next(map(_at_head, [*own, *rooms]), None)


def _at(definition: Any, number: int, put: Sequence[str] = (), fix: str = "") -> Place:
    """The line of a definition with this number, from 0."""
    return Place(inspect.getsourcefile(definition) or "", lines_of(definition)[1] + number, [*put], fix)


def _at_head(room: Room) -> Place:
    return Place(room.file, room.start + head_of(room.lines), [])


def _run(id: str, form: str, said: Said, rooms: list[Room]) -> Place | None:
    """The line that the evidence names."""
    if (run := said.found_in(rooms)) is None:
        return None
    room, offset = run
    rewritten = fixed(id, form, [room.lines[offset]])
    return Place(room.file, room.start + offset, rewritten[1] if rewritten else [])


def _read(id: str, form: str, definitions: Iterable[Any]) -> Place | None:
    """What is known by what the code does with a number, a size or a mask: ahead of the words of any line."""
    for one in definitions if (id, form) == SCALED_TWICE else ():
        if (number := scales.twice(one)) is not None:
            return _at(one, number, fix=ONCE)
    for one in definitions:
        if id == "LN3" and NUMBER.fullmatch(form) and (number := numbers.of_eps(one, form)) is not None:
            line = lines_of(one)[0][number]
            rewritten = fixed(id, form, [line.rstrip("\n")])
            return _of_its_kind(id, form, line, _at(one, number, rewritten[1] if rewritten else ()))
        if id == "A1" and (id, form) not in UNSCALED and (scale := scales.made(one)) is not None:
            return _at(one, *scale)
        if id in kept.FOUND and (mended := kept.FOUND[id](one)) is not None:
            return _at(one, *mended)
    return None


def _fixed(id: str, form: str, rooms: Iterable[Room], idle: Collection[tuple[str, int]]) -> Place | None:
    """The first lines that a fix rewrites, and what to."""
    for room in rooms:
        unread = texts(room.lines) | {line - room.start for file, line in idle if file == room.file}
        unread |= kept.besides_the_width(room.lines) if id == "A19" else set()
        lines = ["" if n in unread else line for n, line in enumerate(room.lines)]
        found = fixed(id, form, lines[1:])
        if found is not None:
            at, put = _before_its_statement(1 + found[0], found[1], room)
            if id == "B12" and not any("self" in line for line in room.lines):
                put = []  # a function is told by its caller whether it trains
            one = _of_its_kind(id, form, room.name, Place(room.file, room.start + at, put))
            return _with_others(one, id, form, at, lines)
    return None


def _headed(id: str, form: str, target: Any) -> Place | None:
    """The head of the method that is at fault."""
    if id == "B29":
        return _taken_by(target, form)
    return _made_without(target) if id == "LN8" else _going_back(target) if id == "B33" else None


def _built(id: str, form: str, definitions: Collection[Any]) -> Place | None:
    """What is known by how the code is built, not by its words."""
    is_untold = (id, form) == ("A24", UNTOLD)
    if (id == "A25" or is_untold) and (without := unpassed.call(definitions)) is not None:
        return _at(without.definition, without.line, fix=unpassed.OF_PADDING if is_untold else without.fix)
    is_read = id in READ and not _side(id, form)
    for one in sums.layers_first(definitions) if id in OF_SUMS else definitions if is_read else ():
        if (number := READ[id](one)) is not None:
            return _at(one, number, fix=FIXES.get(id, ""))
    layers = sums.layers_first(definitions) if id == "B6" else ()
    of_one = functools.partial(sums.undropped_of, called=OF_FORMS.get((id, form), "^$"))
    for find_line, one in ((find, one) for find in ((of_one,) if form else OF_DROPOUT) for one in layers):
        if (number := find_line(one)) is not None:
            return _at(one, number)
    return None


def _side(id: str, form: str) -> str:
    """Of which side of a translation the number of layers is not listened to: enc, dec; "" of any other mistake."""
    side = re.match(r"\w*(enc|dec)\w* is not listened to", form) if id == "B28" else None
    return side[1] if side is not None else ""


OF_NAMES = {
    "A15": (r"self\.{name} *=[^=]",),
    "B22": (
        # of a whole with others that are filled
        r"uniform_\({form}\b[^,]*\)|{form}\b.*(\.uniform_\(|= *torch\.rand\()",
        r"self\.{name} *(:[^=]*)?=[^=]|register_parameter\(.{name}\b",
    ),
    "B28": (r"self\.\w*{side}\w* *=[^=]",),
    "B30": (r"^\s*{form} *=[^=]",),  # of a factory's own
    "B32": (r"self\.{name}\b[^=]*=[^=]",),  # self.cos, self.sin = angles.cos(), angles.sin()
    # nn.init.normal_(self.words.weight), self.words.weight.data.uniform_()
    "E4": (r"(init\.\w+|uniform_|normal_)\(.*\b{name}\b|\b{name}\b.*(uniform_|normal_)\(",),
    "E5": (r"self\.{name}\b.*padding_idx", r"self\.{name}\b.*Embedding\([^,()]+,[^,()]+,"),  # by its place
}
"""How the line looks in a mistake that has the name of what it is about, self.name or a name that a line gives."""


def _patterns(id: str, form: str, target: Any, definitions: Iterable[Any]) -> list[str]:
    """How the lines look that are at fault, the likeliest first."""
    named = re.escape(form) if id in ("B26", "B30") or (id == "B29" and form.endswith("()")) else ""
    usual = (rf"{named}\(", named) if named else (PATTERNS.get(id), OTHERWISE.get(id), AT_LAST.get(id))
    side = _side(id, form)
    is_named = {"B28": bool(side), "B30": form.isidentifier(), "B32": form.startswith("self.")}.get(id, bool(form))
    if is_named:
        words = {"name": form.rpartition(".")[2], "form": re.escape(form), "side": side}
        usual = (*(pattern.format(**words) for pattern in OF_NAMES.get(id, ())), *usual)
    if id in OF_NORMS and has_sublayers(target) and (norms := _attributes_made_of(target, sums.NORM)):
        usual = (rf"({'|'.join(map(re.escape, norms))})(\.forward)?\(", *usual)  # self.n1, which no name tells
    tables = _tables_of_words(definitions) if (id, form) == ("E2", "not scaled") else []
    first = (rf"({'|'.join(map(re.escape, tables))})\(",) if tables else ()  # self.lut, which no name tells
    return [*filter(None, (*first, OF_FORMS.get((id, form)), *usual))]


def _fitting(
    patterns: Iterable[str], rooms: Iterable[Room], id: str, form: str, part: str, idle: Collection[tuple[str, int]]
) -> Place | None:
    """The line that the first pattern fits which fits any; one that is never run only where none else fits."""
    for unseen, pattern in itertools.product((idle, ()) if idle else ((),), patterns):
        for room in rooms:
            fits = [number for number in _fits(pattern, room) if (room.file, room.start + number) not in unseen]
            if fits:
                at = _begin(_meant(fits, room, id, form, part), room)
                return _of_its_kind(id, form, room.name, Place(room.file, room.start + at, []))
    return None


def _of_its_kind(id: str, form: str, norm: str, one: Place) -> Place:
    """The same, but for the ε of an RMSNorm: PyTorch's default is no model's. norm: its name, or a line with it."""
    if form == ZERO_BY_ZERO:  # another number would be as unheard
        return one._replace(put=[])
    is_rms = id == "LN3" and form != LARGE_EPS and "rms" in norm.lower()
    return one._replace(put=[], fix=OF_RMS) if is_rms else one


def _with_others(one: Place, id: str, form: str, at: int, lines: list[str]) -> Place:
    """With the lines behind it that are to be changed in the same way, and with the numbers of those further away."""
    others = repeated(id, form, lines)
    end = next(n for n in range(at + 1, len(lines) + 1) if n not in others)
    if at not in others or not one.put:
        return one
    apart = tuple(one.line + n - at for n in others if not at <= n < end)
    return one._replace(put=[others[n] for n in range(at, end)], gone=end - at, also=apart)


def _before_its_statement(number: int, put: list[str], room: Room) -> tuple[int, list[str]]:
    """What is put before a line, as an assert is, is put before the statement that the line is in the midst of."""
    statements = nodes_in(tree_of_lines(room.lines), ast.stmt)
    inside = [node.lineno - 1 for node in statements if node.lineno - 1 <= number < (node.end_lineno or 0)]
    first = max(inside, default=number)
    if len(put) < 2 or first == number:
        return number, put
    head = room.lines[first]
    indent = head[: len(head) - len(head.lstrip())]
    return first, [*(indent + line.lstrip() for line in put[:-1]), head]


def _made_without(definition: Any) -> Place | None:
    """The head of a constructor that does not call the one of nn.Module at all; None if it tries to."""
    make = vars(definition).get("__init__") if isinstance(definition, type) else None
    with contextlib.suppress(OSError, TypeError):
        lines, start = lines_of(make)
        if not any("super" in line.split("#")[0] for line in lines):
            return Place(inspect.getsourcefile(definition) or "", start, [])
    return None


def _going_back(definition: Any) -> Place | None:
    """The head of the method of a class that is its backward pass."""
    cls = getattr(definition, "of", None) or inspect.unwrap(definition)  # a torch.autograd.Function, or the arrays'
    for method in (getattr(cls, name) for name in dir(cls) if BACKWARD.match(name)):
        with contextlib.suppress(OSError, TypeError):
            lines, start = lines_of(method)
            # below @staticmethod
            head = next((n for n, line in enumerate(lines) if line.lstrip().startswith("def ")), 0)
            return Place(inspect.getsourcefile(method) or "", start + head, [])
    return None


def _taken_by(definition: Any, parameter: str) -> Place | None:
    """The line in the head of a constructor that has this parameter."""
    make = vars(definition).get("__init__") if isinstance(definition, type) else None
    with contextlib.suppress(OSError, TypeError):
        read, start = lines_of(make)
        lines = [line.rstrip("\n") for line in read]
        heads = (
            offset
            for offset in sorted(silent(lines))
            if re.search(rf"\b{parameter} *[:,=)]|\b{parameter}$", lines[offset])
        )
        if parameter.isidentifier() and (offset := next(heads, None)) is not None:
            return Place(inspect.getsourcefile(definition) or "", start + offset, [])
    return None


def _fits(pattern: str, room: Room) -> list[int]:
    """The numbers of the lines of a room that a pattern fits, and on which something is computed."""
    unread, lines = silent(room.lines), enumerate(room.lines)
    return [offset for offset, line in lines if offset not in unread and re.search(pattern, line.split("#")[0])]


def _meant(fits: list[int], room: Room, id: str, form: str, part: str) -> int:
    """Of the lines that fit: the first; the last; that which uses what one before it does, another being meant.

    Of those with norms the one with the norm of the sublayer that is meant.
    """
    used = [(number, name) for number in fits for name in NORM.findall(room.lines[number])]
    if sublayer := re.search(r"norm(\d)$", part):
        names = [*dict.fromkeys(name for _, name in used)]
        return next((n for n, name in used if names.index(name) == int(sublayer[1]) - 1), fits[0])
    if (id, form) == ("B15", UNUSED_NORMS):
        again = [number for at, (number, name) in enumerate(used) if name in [one for _, one in used[:at]]]
        return (again or fits)[0]
    if (id, form) in OF_SECOND and len(fits) == SUMS:
        return fits[1]
    return fits[-1 if (id, form) in LAST else 0]


ARGUMENTS = re.compile(r"\s*[\w.]+(, *[\w.]+)*,?\s*")
"""What is handed on, and nothing else: dropout, d_model, layer_norm_eps."""


def _begin(number: int, room: Room) -> int:
    """The line on which the innermost call begins, of one that has arguments of it alone."""
    if not ARGUMENTS.fullmatch(room.lines[number].split("#")[0]):
        return number
    calls = nodes_in(tree_of_lines(room.lines), ast.Call)
    around = [node.lineno - 1 for node in calls if node.lineno - 1 < number < (node.end_lineno or 0)]
    return max(around, default=number)


def _tables_of_words(definitions: Iterable[Any]) -> list[str]:
    """The attributes that get an nn.Embedding, but for what is called positions, segments or types."""
    found = {name for one in definitions for name in _attributes_made_of(one, r"(^|\.)Embedding$")}
    return sorted(name for name in found if not re.search("(?i)pos|seg|type", name))


def _attributes_made_of(definition: Any, called: str) -> list[str]:
    """self.n1, of a class that makes it of what is called so; not the variables that get what it gives."""
    found = sums.made_of(definition, called) if isinstance(definition, type) else set()
    return sorted(name for name in found if name.startswith("self."))


def excerpt(text: str, line: int, several: int = 1) -> tuple[int, list[str]]:
    """The number of the first line shown, and the lines around one of a file, or around several from that one on."""
    lines = text.splitlines()
    first = max(line - AROUND, 1)
    return first, [shown.rstrip() for shown in lines[first - 1 : line + several - 1 + AROUND]]
