"""Which line of a learner's code to look at for a mistake: the statement that is usually at fault, else forward."""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

from scratch_transformer.kit.arrays.classes import BACKWARD
from scratch_transformer.kit.definitions import is_own, leads_to, lines_of, source_of
from scratch_transformer.kit.mistakes.attention import UNREAD, UNTOLD
from scratch_transformer.kit.mistakes.blocks import UNUSED_NORMS
from scratch_transformer.kit.mistakes.embedding import ATTENTION_ALONG_IT
from scratch_transformer.kit.mistakes.normalization import LARGE_EPS, ZERO_BY_ZERO
from scratch_transformer.kit.mistakes.optimizing import GONE_THROUGH
from scratch_transformer.kit.mistakes.paths import OF_BOTH, OF_CROSS, OF_NETWORK
from scratch_transformer.kit.report import handed, in_vain, kept, numbers, scales, sums, unpassed
from scratch_transformer.kit.report.fixes import fixed, repeated
from scratch_transformer.kit.report.patterns import AT_LAST, OF_FORMS, OF_NORMS, OTHERWISE, PATTERNS
from scratch_transformer.kit.syntax import nodes_in, tree_from

AROUND = 2
"""Lines shown before and after the one at fault."""


OF_ATTENTION = (
    "A1", "A2", "A4", "A8", "A10", "A11", "A12", "A13", "A14", "A15", "A16", "A17", "A18", "A19", "A21", "A23", "A28",
    "A25", "A29", "A38", "A40",
)  # fmt: skip
"""Mistakes that are made where attention is computed: the same words elsewhere mean something else."""
OF_LAYERS = ("A36", "B2", "B3", "B6", "B13", "B14", "B15", "B20", "B23", "B24", "B31")
"""Mistakes that are made where sublayers are put together."""
OF_SUMS = ("B24", "B13")
"""What is seen where a residual connection's sum is made something of."""
READ = {"A21": handed.exchanged, "B24": sums.dropped_there, "B13": sums.thrown_away, "B14": sums.norm_thrown_away,
        "A18": in_vain.weighed_without, "B19": handed.the_first_input, "B28": numbers.of_layers,
        "B6": numbers.of_dropout}  # fmt: skip
"""What is known by how the code is built, not by its words."""
OF_DROPOUT = (sums.undropped, sums.made_in_vain)
FIXES = {
    "B6": "Tell it how much to drop, as the class itself is told: dropout in place of 0.",
    "A18": "Multiply the values with what dropout gives, and not with what it was given.",
}
"""Where that is so."""
MERGES = {("A23", "not transposed back")}
"""Heads are split before they are merged, with the same words: the last line is meant."""
SCALED_TWICE = ("A1", "divided by d_k")
ONCE = "Once is enough: leave this out, as the products are scaled too, or leave that out."
UNSCALED = {("A1", "not scaled"), ("A1", "divided after the softmax")}
"""Not made by the number that scores are scaled with."""
LAST = {*MERGES, ("B17", "at the end too"), ("B23", OF_NETWORK), ("O10", GONE_THROUGH)}
"""What comes after something right that has the same words."""
OF_SECOND, SUMS = {("B23", OF_CROSS), ("B23", OF_BOTH)}, 3
"""Of a decoder's layer, where no name says which of its sums is that of the attention to the encoder."""
OF_NETWORKS = ("B7", "B16", "B17")
"""Mistakes that are made between two linear layers."""
IN_NORMS = ("LN4", "LN6", "LN13")
"""Mistakes with a norm's scale and shift."""
OF_DEVIATIONS = ("LN2", "LN9", "LN10", "LN14")
"""Mistakes with what a norm divides by: roots that others take are none of it."""
OF_POSITIONS = ("P1", "P2", "P3", "P4", "P6", "P8", "P9", "P10", "P14")
"""Mistakes that are made where the table of positions is made or read."""
OF_ITSELF = {("A24", "padding is ignored")}
"""Made by what should ask for something and does not: no line of its parts is at fault."""
NUMBER = re.compile(r"[\d.]+(e-?\d+)?")
NETWORK = re.compile(r"(?i)feed|ffn|mlp|^pw?ff?")
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

    def found_in(self, rooms: Iterable[_Room]) -> tuple[_Room, int] | None:
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
    definitions = dict.fromkeys((target, *leads_to(target), *parts, *([owner] if owner else [])))
    rooms, own = [room for definition in definitions for room in _rooms(definition)], _rooms(target)
    if (run := said.found_in(rooms)) is not None:
        room, offset = run
        rewritten = fixed(id, form, [room.lines[offset]])
        return Place(room.file, room.start + offset, rewritten[1] if rewritten else [])
    for one in definitions if id == "LN3" and NUMBER.fullmatch(form) else ():
        if (number := numbers.of_eps(one, form)) is not None:
            lines, start = lines_of(one)
            rewritten = fixed(id, form, [lines[number].rstrip("\n")])
            put = rewritten[1] if rewritten else []
            return _of_its_kind(id, form, lines[number], inspect.getsourcefile(one) or "", start + number, put)
    for one in definitions if (id, form) == SCALED_TWICE else ():
        if (number := scales.twice(one)) is not None:
            return Place(inspect.getsourcefile(one) or "", lines_of(one)[1] + number, [], ONCE)
    for one in definitions if (id, form) not in UNSCALED and id == "A1" else ():
        if (scale := scales.made(one)) is not None:
            return Place(inspect.getsourcefile(one) or "", lines_of(one)[1] + scale[0], scale[1])
    for one in definitions if id in kept.FOUND else ():
        if (mended := kept.FOUND[id](one)) is not None:
            return Place(inspect.getsourcefile(one) or "", lines_of(one)[1] + mended.number, mended.put, mended.fix)
    if (id, form) == ("A24", UNREAD) and own:
        return Place(own[0].file, own[0].start + _head(own[0].lines), [])
    if id == "E5" and (told := kept.of_padding([*definitions])) is not None:
        return Place(inspect.getsourcefile(told[0]) or "", lines_of(told[0])[1] + told[1].number, [])
    if id in OF_ATTENTION and (id, form) not in MERGES:
        rooms.sort(key=_is_elsewhere)
    if id == "A14":  # a map to scores has no bias either, and is none of attention's
        rooms = [room for room in rooms if not all(_is_elsewhere(room))] or rooms
    if id in OF_LAYERS:
        rooms.sort(key=_is_no_layer)
    if id in OF_NETWORKS:
        rooms.sort(key=_is_no_network)
    if id in IN_NORMS:
        rooms.sort(key=_is_no_norm)
    if id in OF_DEVIATIONS:
        rooms = [room for room in rooms if not _is_no_norm(room)] or rooms
    if id in OF_POSITIONS and form != ATTENTION_ALONG_IT:
        rooms.sort(key=_is_no_table)
    if id == "E2":
        words = {room.name for room in rooms if _embeds_words(room)}
        rooms.sort(key=lambda room: room.name not in words)  # what holds such a table adds positions, perhaps
    if id == "A19":
        rooms.sort(key=lambda room: not kept.besides_the_width(room.lines))
    if id == "B27":
        rooms.sort(key=_is_a_class)  # a constructor cuts nothing
    for room in rooms:
        texts = _texts(room.lines) | {line - room.start for file, line in idle if file == room.file}
        texts |= kept.besides_the_width(room.lines) if id == "A19" else set()
        found = fixed(id, form, ["" if n in texts else line for n, line in enumerate(room.lines) if n])
        if found is not None:
            at, put = _before_its_statement(1 + found[0], found[1], room)
            if id == "B12" and not any("self" in line for line in room.lines):
                put = []  # a function is told by its caller whether it trains
            lines = ["" if n in texts else line for n, line in enumerate(room.lines)]
            return _with_others(_of_its_kind(id, form, room.name, room.file, room.start + at, put), id, form, at, lines)
    heads: dict[str, Callable[[Any], Place | None]] = {"LN8": _made_without, "B33": _going_back}
    heads["B29"] = functools.partial(_taken_by, parameter=form)
    find = heads.get(id)
    head = find(target) if find is not None else None
    if head is not None:
        return head
    if id == "A25" and (without := unpassed.call(definitions)) is not None:
        file, start = inspect.getsourcefile(without.definition) or "", lines_of(without.definition)[1]
        return Place(file, start + without.line, [], without.fix)
    if (id, form) == ("A24", UNTOLD) and (without := unpassed.call(definitions)) is not None:
        file, start = inspect.getsourcefile(without.definition) or "", lines_of(without.definition)[1]
        return Place(file, start + without.line, [], unpassed.OF_PADDING)
    side = re.match(r"\w*(enc|dec)\w* is not listened to", form) if id == "B28" else None
    for one in sums.layers_first(definitions) if id in OF_SUMS else definitions if id in READ and not side else ():
        if (number := READ[id](one)) is not None:
            return Place(inspect.getsourcefile(one) or "", lines_of(one)[1] + number, [], FIXES.get(id, ""))
    layers = sums.layers_first(definitions) if id == "B6" else ()
    of_one = functools.partial(sums.undropped_of, called=OF_FORMS.get((id, form), "^$"))
    for find_line, one in ((find, one) for find in ((of_one,) if form else OF_DROPOUT) for one in layers):
        if (number := find_line(one)) is not None:
            return Place(inspect.getsourcefile(one) or "", lines_of(one)[1] + number, [])
    named = re.escape(form) if id in ("B26", "B30") or (id == "B29" and form.endswith("()")) else ""
    usual: tuple[str | None, ...] = (
        (rf"{named}\(", named) if named else (PATTERNS.get(id), OTHERWISE.get(id), AT_LAST.get(id))
    )
    if id == "B30" and form.isidentifier():  # of a factory's own
        usual = (rf"^\s*{named} *=[^=]", *usual)
    if side is not None:
        usual = (rf"self\.\w*{side[1]}\w* *=[^=]", *usual)
    name = form.rpartition(".")[2]
    if id == "E5" and form:
        rooms.sort(key=lambda room: room.name != form)
        usual = (rf"self\.{name}\b.*padding_idx", *usual)
    if id == "A15" and form:
        usual = (rf"self\.{name} *=[^=]", *usual)
    if id == "E4" and form:  # nn.init.normal_(self.words.weight), self.words.weight.data.uniform_()
        usual = (rf"(init\.\w+|uniform_|normal_)\(.*\b{name}\b|\b{name}\b.*(uniform_|normal_)\(", *usual)
    if id == "B32" and form.startswith("self."):  # self.cos, self.sin = angles.cos(), angles.sin()
        usual = (rf"self\.{name}\b[^=]*=[^=]", *usual)
    if id == "B22" and form:  # of a whole with others that are filled
        filled = rf"uniform_\({re.escape(form)}\b[^,]*\)|{re.escape(form)}\b.*(\.uniform_\(|= *torch\.rand\()"
        usual = (filled, rf"self\.{name} *(:[^=]*)?=[^=]|register_parameter\(.{name}\b", *usual)
    if id in OF_NORMS and (norms := sums.made_of(target, sums.NORM)):  # self.n1, which no name tells
        usual = (rf"({'|'.join(map(re.escape, sorted(norms)))})\(", *usual)
    first = OF_FORMS.get((id, form))
    if (id, form) == ("E2", "not scaled") and (
        tables := _tables_of_words(definitions)
    ):  # self.lut, which no name tells
        first, usual = rf"({'|'.join(map(re.escape, tables))})\(", (first, *usual)
    looked = own if (id, form) in OF_ITSELF and isinstance(target, type) else rooms
    patterns = [*filter(None, (first, *usual))]
    for unseen, pattern in ((unseen, pattern) for unseen in ((idle, ()) if idle else ((),)) for pattern in patterns):
        for room in looked:
            fits = [number for number in _fits(pattern, room) if (room.file, room.start + number) not in unseen]
            if fits:
                at = _begin(_meant(fits, room, id, form, part), room)
                return _of_its_kind(id, form, room.name, room.file, room.start + at, [])
    for one in definitions if id == "A19" else ():
        if (check := kept.of_told_heads(one)) is not None:
            return Place(inspect.getsourcefile(one) or "", lines_of(one)[1] + check.number, check.put)
    own = [*own, *rooms]
    return Place(own[0].file, own[0].start + _head(own[0].lines), []) if own else None


def _of_its_kind(id: str, form: str, norm: str, file: str, line: int, put: list[str]) -> Place:
    """The same, but for the ε of an RMSNorm: PyTorch's default is no model's. norm: its name, or a line with it."""
    if form == ZERO_BY_ZERO:  # another number would be as unheard
        return Place(file, line, [])
    is_rms = id == "LN3" and form != LARGE_EPS and "rms" in norm.lower()
    return Place(file, line, [], OF_RMS) if is_rms else Place(file, line, put)


def _with_others(one: Place, id: str, form: str, at: int, lines: list[str]) -> Place:
    """With the lines behind it that are to be changed in the same way, and with the numbers of those further away."""
    others = repeated(id, form, lines)
    end = next(n for n in range(at + 1, len(lines) + 1) if n not in others)
    if at not in others or not one.put:
        return one
    apart = tuple(one.line + n - at for n in others if not at <= n < end)
    return one._replace(put=[others[n] for n in range(at, end)], gone=end - at, also=apart)


def _before_its_statement(number: int, put: list[str], room: _Room) -> tuple[int, list[str]]:
    """What is put before a line, as an assert is, is put before the statement that the line is in the midst of."""
    statements = nodes_in(_tree(room.lines), ast.stmt)
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
            head = next(
                (n for n, line in enumerate(lines) if line.lstrip().startswith("def ")), 0
            )  # below @staticmethod
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
            for offset in sorted(_silent(lines))
            if re.search(rf"\b{parameter} *[:,=)]|\b{parameter}$", lines[offset])
        )
        if parameter.isidentifier() and (offset := next(heads, None)) is not None:
            return Place(inspect.getsourcefile(definition) or "", start + offset, [])
    return None


class _Room(NamedTuple):
    """Lines of code to look through, and the name of the class or function that they are of."""

    name: str
    file: str
    start: int
    lines: list[str]


def _rooms(definition: Any) -> list[_Room]:
    """The forward of a class, or what an optimizer or the like has in its place, and all of it; a function."""
    own = vars(definition) if isinstance(definition, type) else {}
    called = next((own[name] for name in ("forward", "step", "__call__", "encode") if name in own), None)
    found = []
    for part in filter(None, (called, definition)):
        with contextlib.suppress(OSError, TypeError):
            lines, start = lines_of(part)
            file = inspect.getsourcefile(inspect.unwrap(part)) or ""
            found.append(_Room(definition.__name__, file, start, [line.rstrip("\n") for line in lines]))
    return found


def _fits(pattern: str, room: _Room) -> list[int]:
    """The numbers of the lines of a room that a pattern fits, and on which something is computed."""
    silent = _silent(room.lines)
    lines = enumerate(room.lines)
    return [offset for offset, line in lines if offset not in silent and re.search(pattern, line.split("#")[0])]


def _meant(fits: list[int], room: _Room, id: str, form: str, part: str) -> int:
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


def _head(lines: list[str]) -> int:
    """The line behind the decorators."""
    return next((n for n, line in enumerate(lines) if line.lstrip().startswith(("def ", "class "))), 0)


def _begin(number: int, room: _Room) -> int:
    """The line on which the innermost call begins, of one that has arguments of it alone."""
    if not ARGUMENTS.fullmatch(room.lines[number].split("#")[0]):
        return number
    calls = nodes_in(_tree(room.lines), ast.Call)
    around = [node.lineno - 1 for node in calls if node.lineno - 1 < number < (node.end_lineno or 0)]
    return max(around, default=number)


def _is_a_class(room: _Room) -> bool:
    """Sorts forwards and functions first."""
    return room.lines[0].lstrip().startswith("class ")


def _is_no_table(room: _Room) -> bool:
    """Sorts what is called positions, or has a sine and a cosine, first."""
    code = "\n".join(room.lines)
    return "pos" not in room.name.lower() and not re.search(r"\bsin\((.|\n)*\bcos\(", code)


def _embeds_words(room: _Room) -> bool:
    """Whether it makes the table of the words itself, or what may be that: none of positions."""
    code = "\n".join(room.lines)
    if "pos" in room.name.lower() and "tok" not in room.name.lower():  # EmbeddingWithPositions has both
        return re.search(r"(?i)\bEmbedding\(\w*vocab", code) is not None
    return re.search(r"\bEmbedding\(|(emb|tok)\w* *= *(nn\.)?Parameter\(", code) is not None


def _tables_of_words(definitions: Iterable[Any]) -> list[str]:
    """The attributes that get an nn.Embedding, but for what is called positions, segments or types."""
    found = set().union(*(sums.made_of(one, r"(^|\.)Embedding$") for one in definitions if isinstance(one, type)))
    return sorted(name for name in found if name.startswith("self.") and not re.search("(?i)pos|seg|type", name))


def _is_no_layer(room: _Room) -> bool:
    """Sorts what has norms, and attention or other sublayers, first."""
    code = "\n".join(room.lines).lower()
    return not ("norm" in code and re.search("att|sublayer|mha", code))


def _is_no_norm(room: _Room) -> bool:
    """Sorts norms first."""
    code = "\n".join(room.lines)
    return "norm" not in room.name.lower() and not re.search(r"rsqrt|\.(var|std)\(|layer_norm\(|rms_norm\(", code)


def _is_no_network(room: _Room) -> tuple[bool, bool]:
    """Sorts what is called a feed-forward network first, then the layers that may have one of their own."""
    code = "\n".join(room.lines)
    return not NETWORK.search(room.name), not (code.count("Linear(") > 1 and "softmax" not in code)


def _is_elsewhere(room: _Room) -> tuple[bool, bool]:
    """Sorts the softmax of a product first, then what is called attention."""
    code = "\n".join(room.lines)
    return not ("softmax" in code and scales.SCORES.search(code)), "att" not in room.name.lower()


def _silent(lines: list[str]) -> set[int]:
    """The lines on which nothing is computed: heads of classes and functions, texts, if mask is not None."""
    tree = _tree(lines)
    if tree is None:
        return {0}
    found = {0}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found |= set(range(node.lineno - 1, node.body[0].lineno - 1))
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Compare) and node.body[0].lineno > node.lineno:
            found |= {node.lineno - 1} if isinstance(node.test.ops[0], (ast.Is, ast.IsNot)) else set()
    return found | _texts(lines)


def _tree(lines: list[str]) -> ast.Module | None:
    """None if they cannot be read by themselves."""
    return tree_from(textwrap.dedent("\n".join(lines)))


def _texts(lines: list[str]) -> set[int]:
    """The lines of docstrings, which may have equations that look like code."""
    texts = [node for node in nodes_in(_tree(lines), ast.Expr) if isinstance(node.value, ast.Constant)]
    return {line for text in texts for line in range(text.lineno - 1, text.end_lineno or text.lineno)}


def excerpt(text: str, line: int, several: int = 1) -> tuple[int, list[str]]:
    """The number of the first line shown, and the lines around one of a file, or around several from that one on."""
    lines = text.splitlines()
    first = max(line - AROUND, 1)
    return first, [shown.rstrip() for shown in lines[first - 1 : line + several - 1 + AROUND]]
