"""Which line of a learner's code to look at for a mistake: the statement that is usually at fault, else forward."""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import itertools
import re
import textwrap
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from scratch_transformer.kit.arrays.classes import BACKWARD
from scratch_transformer.kit.definitions import is_own, leads_to, lines_of
from scratch_transformer.kit.mistakes.attention import ONE_HEAD, OWN_VALUE, WEIGHTS_APART
from scratch_transformer.kit.mistakes.blocks import IN_BOTH, NOT_DROPPED, UNUSED_NORMS
from scratch_transformer.kit.mistakes.construction import SOURCES_TABLE
from scratch_transformer.kit.mistakes.paths import OF_CROSS
from scratch_transformer.kit.report import handed, numbers, sums
from scratch_transformer.kit.report.fixes import fixed

OF_NORMS = ("B2", "B3", "B13", "B15")
"""Mistakes that a sublayer's norm shows."""
PATTERNS: dict[str, str] = {
    "LN1": r"\.(std|var)(_mean)? ?\(", "LN2": r"eps", "LN3": r"(?<!st)eps",
    "LN4": r"Parameter\(", "LN5": r"\*\*\s*2|pow\(|square",
    "LN6": r"Parameter\(|Norm\(.*bias=False", "LN7": r"mean\(|\.std\(|\.var\(|LayerNorm\(", "LN8": r"super",
    "LN9": r"eps|std|var", "LN10": r"/.*(std|var|sig)|sqrt",
    "LN13": r"Parameter\(", "E1": r"sqrt", "E2": r"\breturn\b|emb", "E5": r"padding_idx",
    "E4": r"\binit\.|uniform_|normal_|\.apply\(",
    "P1": r"\[:, ?1::2\]|1::2|cos", "P2": r"exp\(|pow|10_?000|1e4", "P3": r"cat\(|concat", "P4": r"return|\[:",
    "P6": r"\[:", "P8": r"zeros\(|arange", "P9": r"return|\+", "P10": r"10000|exp\(",
    "P5": r"self\.\w*(pe|pos|enc)\w* *=[^=]|zeros|buffer",
    "P14": r"\[:, ?[01]::2\]|\.sin\(|\.cos\(",
    "P11": r"sqrt|\*\*\s*0?\.5|scale|return",
    "P7": r"^\s*\w*(start|off|past|pos|t0|begin|cur)\w* *=[^=]|arange\(",
    "K1": r"cat\(|\w*(cache|past)\w*(\[.*\])? *=[^=]|\.(update|append)\(",
    "R1": r"::2\]|chunk\(|view_as_complex|unflatten|stack\(|repeat_interleave", "R2": r"\*\*.*/|pow\(|exp\(",
    "R5": r"(?i)=.*\b\w*(rot|rope)\w*\(|arange\(",
    "R3": r"(?i)\b\w?v(alues?)?\b.*=.*(rot|rope)", "R4": r"(?i)=.*(rot|rope)\w*\(", "R6": r"- *\w|cat\(|stack\(",
    "G3": r"repeat|expand|tile\(", "G1": r"silu|gelu|relu|sigmoid|act\w*\(", "G2": r" \+ ",
    "G4": r"\) \* |\w \* \w", "G5": r"silu|gelu|relu|sigmoid|act\w*\(", "G6": r"sigmoid",
    "O1": r"sqrt|addcdiv|\*\* *0?\.5", "O2": r"(?i)(=|_\().*(decay|wd|lambda|lam\b)",
    "O3": r"(?<![\w\"'])eps", "O4": r"(?i)(decay|wd|lambda|lam)\b", "O5": r"mul_\(|lerp|addcmul|\bb(eta)?\w*[12]",
    "O6": r"/ *(\(|(?![\w.]*warm)[a-z])|cos\(",
    "O7": r"cos\(", "O8": r"warm|return", "O9": r"norm|clamp|clip", "O10": r"sqrt|norm|sum\(", "O11": r"decay",
    "S1": r"(?i)temp|tau|/ *t\b", "S2": r"cumsum", "S3": r"masked_fill|where|\] *= *", "S4": r"topk|sort|\[: *\w*k\b",
    "W1": r"min\(|max\(|rank|merge", "W2": r"special", "W3": r"findall|finditer|split\(|encode\(", "W4": r"\.decode\(",
    "A1": r"sqrt|\*\*\s*\(?-?(0?\.5|1 ?/ ?2)|(?<!/)/ ?\(?self|scale", "A2": r"softmax", "A3": r"mask", "A4": r"mask",
    "A37": r"softmax|sigmoid|@|matmul", "A38": r"einsum|sum\(",
    "A39": r"(?i)\w*(att|mha|head)\w*\(.*\w\(\w+\)|self\.\w*q(uer|_|\b)\w*\(",
    "A5": r"tril|triu|mask", "A6": r"tril|triu|mask", "A7": r"mask", "A8": r"masked_fill|1e9|inf",
    "A10": r"masked_fill|10000|1e4|e4", "A11": r"masked_fill|mask", "A12": r"masked_fill_|_\(|\+=|\*=",
    "A13": r"view|reshape", "A14": r"Linear\(", "A15": r"Linear\(", "A16": r"mask", "A17": r"attn|weights|scores",
    "A18": r"dropout", "A19": r"(//|%) *[^\d\s]|Linear\(.*heads", "A21": r"matmul|@|bmm|einsum",
    "A22": r"cross|memory|\benc|\bmem|src_key_padding_mask",
    "A23": r"view|reshape|transpose|permute", "A24": r"mask", "A25": r"tril|triu|mask",
    "A27": r"self_?att\w*\(|mask", "A28": r"Linear\(", "A29": r"masked_fill|mask\w* ?=", "A30": r"mask|tril|triu",
    "A31": r"mask", "A35": r"\.view\(|reshape\(", "A34": r"byte|uint8|ByteTensor|1 *-|mask", "B6": r"dropout|return",
    "B14": r"return", **dict.fromkeys(OF_NORMS, r"norm|\bln\w*\("),
    "B16": r"return", "B17": r"relu|gelu|GELU|ReLU|act", "B19": r"for ", "B20": r"att",
    "A36": r"\b(enc|mem|src|context)\w*\b(?<!mask).*[,)]",
    "B21": r"\b[A-Z]\w*\([^()]*(\([^()]*\)[^()]*)*\)\(",
    "B22": r"empty\(", "B28": r"for |range\(", "B29": r"Linear\(|Embedding\(|//",
    "B4": r"\bTransformer(En|De)coder\(|ModuleList\(|clones?\w*\(|Sequential\(",
    "B27": r"no_grad|inference_mode|detach\(|\.data\b",
    "B23": r"\+", "B24": r"dropout",
    "B7": r"dropout", "B8": r"relu|gelu|GELU|ReLU", "B9": r"\* ?\w+|for ", "B10": r"\[", "B11": r"training",
    "B12": r"dropout", "T1": r"softmax", "T2": r"softmax", "T3": r"fill_|smooth", "T4": r"pad|ignore",
    "T5": r"pad|ignore", "T7": r"min|step", "D1": r"log|score", "D2": r"eos|end", "D3": r"eos|end",
    "D4": r"(?i)eos|\bend(_?tok|_?id|_?sym)?|stop", "D6": r"argmin|largest=False|\.min\(", "D8": r"\[(:, ?)?0(, ?:)?\]",
}  # fmt: skip


OTHERWISE = {
    "LN3": r"/.*\b(std|var|sigma)", "LN10": r"mean|var", "P2": r"\*\*", "G3": r"view\(|reshape\(|permute\(",
    "B27": r"torch\.tensor\(|\bround\(",
}  # fmt: skip
"""For what the usual pattern fits nowhere: a norm that has no eps, or calls it something else; base ** exponent."""
OF_QUERIES = r"mask.*(unsqueeze\((dim=)?(3|-1)\)|, None\])"
"""A mask (B, 1, T, 1): padding's own rows."""
SCALED = ("times d_model", "divided by √d_model", "plus √d_model")
WEIGHED = r"einsum\(.*(att|weight|prob|score|softmax)"
GOES_ROUND = r"lambda (\w+) *:(?!.*\b\1\b).*\)$"
"""What does not use what its norm makes."""
TWO_SUBLAYERS = [*itertools.combinations(("first", "second", "third"), 2)]
NETWORK_CALLED = r"(?i)self\.(\w*(feed|ffn|fnn|mlp|network)|ff|fc|lin)\w*\("
OF_FORMS: dict[tuple[str, str], str] = {
    ("P14", "the position's number in every feature"): r"arange\(",
    ("R5", "the numbers of the features"): r"arange\(",
    ("K1", ""): r"\bis_causal=True *[,)]",
    ("B30", SOURCES_TABLE): r"(?i)\b\w*(emb\w*_?(src|source|enc)|(src|source|enc)\w*emb)\w*\(.*\b(tgt|trg|target|dec)",
    **{("S4", form): r"topk\(.*[kK]\)? ?[-+] ?1|[\w\])] [<>]=? \w" for form in ("one fewer", "one more")},
    **{(id, "it is not used"): r"^\s*[\w.]+\.masked_fill\(" for id in ("S2", "S4")},
    ("A1", "not scaled"): r" @ |matmul\(|bmm\(|einsum\(",
    ("E2", "not scaled"): r"\bself\.(\w+\.)*\w*(emb|tok|wte)\w*\(|\.embedding\(",
    **{("E2", form): r"sqrt|\*\*|\*.*dim|\*.*model" for form in SCALED},
    ("B9", ""): r"[(\[] *(?!(\w+) for \1 )[\w.]+ for \w+ in |\] *\* *\w|for \w+ in range\(.*\):",
    ("A7", "queries instead of keys"): OF_QUERIES,
    ("A7", "queries instead of keys, in the target"): OF_QUERIES,
    ("A7", "queries instead of keys, in the source"): OF_QUERIES,
    ("A38", WEIGHTS_APART): WEIGHED,
    ("A38", OWN_VALUE): rf"{WEIGHED}|(att|weight|prob|score)\w*(\[.*\]|\.\w+\(.*\))? \*",
    ("A23", "features before heads"): r"stack\(.*-1\)",
    ("A17", ""): r"self\.\w*(att|weight|score|prob)\w* *= *(?!nn\.|None)",
    **{("A13", form): r" @ |matmul\(|bmm\(|einsum\(" for form in (ONE_HEAD, f"{ONE_HEAD}, with √d_k of several")},
    ("P2", "the cosine has the next exponent"): r"cos\(.*(10_?000|1e4|pow|exp)|1::2.*cos\(",
    ("A4", ""): r"masked_fill_?\(.*(?i:eps|tiny|1e-\d)|^(?!.*mask\w*[^*=]*\* *\w*mask).*"
    r"(\*=? [\w.]*\(?\w*mask|mask\w*(\.\w+\(.*\))? \*|mul_?\(.*mask)",
    ("R4", "the keys are not, and the values are"): r"(?i)^\s*v\w* *=.*(rot|rope)",
    ("T4", "divided by all positions"): r"batchmean|\.mean\(|['\"]mean['\"]|/ *(\w+\.)*(numel|size|shape|len)\b",
    ("A34", ""): r"\.byte\(|uint8|ByteTensor",
    ("B19", ""): r"for .* in .*\bself\b",
    ("P4", ""): r"\[[^\]]*:[^\]]*(size|shape|len)|arange\(.*(size\(|shape\[)",
    **{("B14", form): GOES_ROUND for form in ("", *(IN_BOTH.format(*two) for two in TWO_SUBLAYERS))},
    ("A36", ""): r"(?i)(att|mha|cross)\w*\(.*\b(enc|mem|src|context)\w*\b(?<!mask)",
    ("B24", ""): r"drop\w*\(.*[^(,] \+|return self\.\w*drop\w*\(|^\s*x = self\.\w*drop\w*\(x\)",
    ("B6", NOT_DROPPED.format("self-attention")): r"(?i)self\.\w*(att|mha|heads)\w*\(",
    ("B6", NOT_DROPPED.format("the feed-forward network")): NETWORK_CALLED,
    ("B12", ""): r"\bdropout\(.*True|(F|functional)\.dropout\((?!.*training)",
    ("LN6", ""): r"\bif \w*bias\b|Norm\(.*\bbias=",
    ("LN13", "the shift"): r"(beta|bias|shift|offset|\bb\w*) *=.*Parameter\(",
    **{
        (
            "B23",
            f"the feed-forward network is given {what}",
        ): NETWORK_CALLED
        for what in ("the block's first input", "the output of the attention, without residual and norm")
    },
    ("B23", "the attention to the encoder is given the block's first input"): r"\b(enc|mem|src|context)\w*\b.*[,)]",
    ("B23", OF_CROSS): r"\b\w+ \+.*(cross|enc|mem|src|context)|(cross|enc|mem|src|context)\w*\)* \+",
    ("A21", "values come from the decoder"): r"(\w+), *(key=|k=)?(enc|mem|src|context)\w*, *(value=|v=)?\1\b",
    **{
        (
            "A21",
            f"{made} are made with the projection of the {other}",
        ): rf"(?i)^\s*\w*{made[0]}\w* *= *self\.\w*{other[0]}\w*\("
        for made, other in itertools.permutations(("queries", "keys", "values"), 2)
    },
}
"""Forms of a mistake that are seen elsewhere than the others: looked for first."""
AROUND = 2
"""Lines shown before and after the one at fault."""


OF_ATTENTION = (
    "A1", "A2", "A4", "A8", "A10", "A11", "A12", "A13", "A14", "A15", "A16", "A17", "A18", "A19", "A21", "A23", "A28",
    "A25", "A29", "A38",
)  # fmt: skip
"""Mistakes that are made where attention is computed: the same words elsewhere mean something else."""
OF_LAYERS = ("A36", "B2", "B3", "B6", "B13", "B14", "B15", "B20", "B23", "B24")
"""Mistakes that are made where sublayers are put together."""
OF_SUMS = ("B24", "B13")
"""What is seen where a residual connection's sum is made something of."""
READ = {"A21": handed.exchanged, "B24": sums.dropped, "B13": sums.thrown_away, "B14": sums.norm_thrown_away,
        "B28": numbers.of_layers}  # fmt: skip
"""What is known by how the code is built, not by its words."""
MERGES = {("A23", "not transposed back")}
"""Heads are split before they are merged, with the same words: the last line is meant."""
LAST = {*MERGES, ("B17", "at the end too")}
"""What comes after something right that has the same words."""
OF_NETWORKS = ("B7", "B16", "B17")
"""Mistakes that are made between two linear layers."""
OF_WEIGHTS = ("LN4", "LN6", "LN13")
"""Mistakes with a norm's scale and shift."""
OF_POSITIONS = ("P1", "P2", "P3", "P4", "P6", "P8", "P9", "P10", "P14")
"""Mistakes that are made where the table of positions is made or read."""
OF_ITSELF = {("A24", "padding is ignored")}
"""Made by what should ask for something and does not: no line of its parts is at fault."""
NUMBER = re.compile(r"[\d.]+(e-?\d+)?")
PRODUCT = re.compile(r" @ |matmul|bmm|einsum|dot\(")
NETWORK = re.compile(r"(?i)feed|ffn|mlp|^pw?ff?")
NORM = re.compile(r"self\.(\w*norm\w*|ln\w*)\(")


class Place(NamedTuple):
    """A line of a file to look at for a mistake, and what to put there: nothing where more has to change."""

    file: str
    line: int
    put: list[str]


def place(
    id: str, form: str, thing: Any, given: Iterable[type] = (), code: str = "", part: str = ""
) -> Place | None:  # fmt: skip
    """Where to look for a mistake of a class or function: in itself, else in what it is made of.

    The line that the fix changes; else the first that fits the mistake; else the head of forward.
    given: the classes of its parts, of which its code need not name all. code: the line itself, where it is known.
    part: in which it is alone, "norm2" being the second sublayer.
    """
    target = thing if isinstance(thing, type) or inspect.isfunction(thing) else type(thing)
    parts = [one for cls in given if is_own(cls) for one in (cls, *leads_to(cls))]
    owner = getattr(target, "owner", None)  # of a method, whose class may help it
    definitions = dict.fromkeys((target, *leads_to(target), *parts, *([owner] if owner else [])))
    rooms, own = [room for definition in definitions for room in _rooms(definition)], _rooms(target)
    said = code.partition("#")[0].strip()
    for room in rooms if said else ():
        for offset, line in enumerate(room.lines):
            if line.partition("#")[0].strip() == said:
                rewritten = fixed(id, form, [line])
                return Place(room.file, room.start + offset, rewritten[1] if rewritten else [])
    for one in definitions if id == "LN3" and NUMBER.fullmatch(form) else ():
        if (number := numbers.of_eps(one, form)) is not None:
            lines, start = lines_of(one)
            rewritten = fixed(id, form, [lines[number].rstrip("\n")])
            return Place(inspect.getsourcefile(one) or "", start + number, rewritten[1] if rewritten else [])
    if id in OF_ATTENTION and (id, form) not in MERGES:
        rooms.sort(key=_is_elsewhere)
    if id in OF_LAYERS:
        rooms.sort(key=_is_no_layer)
    if id in OF_NETWORKS:
        rooms.sort(key=_is_no_network)
    if id in OF_WEIGHTS:
        rooms.sort(key=_is_no_norm)
    if id in OF_POSITIONS:
        rooms.sort(key=_is_no_table)
    if id == "B27":
        rooms.sort(key=_is_a_class)  # a constructor cuts nothing
    for room in rooms:
        texts = _texts(room.lines)
        found = fixed(id, form, ["" if n in texts else line for n, line in enumerate(room.lines) if n])
        if found is not None:
            return Place(room.file, room.start + 1 + found[0], found[1])
    heads: dict[str, Callable[[Any], Place | None]] = {"LN8": _made_without, "B33": _going_back}
    heads["B29"] = functools.partial(_taken_by, parameter=form)
    find = heads.get(id)
    head = find(target) if find is not None else None
    if head is not None:
        return head
    side = re.match(r"\w*(enc|dec)\w* is not listened to", form) if id == "B28" else None
    for one in sums.layers_first(definitions) if id in OF_SUMS else definitions if id in READ and not side else ():
        if (number := READ[id](one)) is not None:
            return Place(inspect.getsourcefile(one) or "", lines_of(one)[1] + number, [])
    named = re.escape(form) if id in ("B26", "B30") or (id == "B29" and form.endswith("()")) else ""
    usual: tuple[str | None, ...] = (rf"{named}\(", named) if named else (PATTERNS.get(id), OTHERWISE.get(id))
    if id == "B30" and form.isidentifier():  # of a factory's own
        usual = (rf"^\s*{named} *=[^=]", *usual)
    if side is not None:
        usual = (rf"self\.\w*{side[1]}\w* *=[^=]", *usual)
    name = form.rpartition(".")[2]
    if id == "E5" and form:
        rooms.sort(key=lambda room: room.name != form)
        usual = (rf"self\.{name}\b.*padding_idx", *usual)
    if id == "B22" and form:  # of a whole with others that are filled
        usual = (rf"self\.{name} *(:[^=]*)?=[^=]|register_parameter\(.{name}\b", *usual)
    if id in OF_NORMS and (norms := sums.made_of(target, sums.NORM)):  # self.n1, which no name tells
        usual = (*usual, rf"({'|'.join(map(re.escape, sorted(norms)))})\(")
    for pattern in filter(None, (OF_FORMS.get((id, form)), *usual)):
        for room in own if (id, form) in OF_ITSELF and isinstance(target, type) else rooms:
            fits = _fits(pattern, room)
            if fits:
                return Place(room.file, room.start + _begin(_meant(fits, room, id, form, part), room), [])
    own = [*own, *rooms]
    return Place(own[0].file, own[0].start + _head(own[0].lines), []) if own else None


def _made_without(definition: Any) -> Place | None:
    """The head of a constructor that does not call the one of nn.Module at all; None if it tries to."""
    make = vars(definition).get("__init__") if isinstance(definition, type) else None
    with contextlib.suppress(OSError, TypeError):
        lines, start = inspect.getsourcelines(make)  # type: ignore[arg-type]
        if not any("super" in line.split("#")[0] for line in lines):
            return Place(inspect.getsourcefile(definition) or "", start, [])
    return None


def _going_back(definition: Any) -> Place | None:
    """The head of the method of a class that is its backward pass."""
    cls = inspect.unwrap(definition)
    for method in (getattr(cls, name) for name in dir(cls) if BACKWARD.match(name)):
        with contextlib.suppress(OSError, TypeError):
            return Place(inspect.getsourcefile(method) or "", lines_of(method)[1], [])
    return None


def _taken_by(definition: Any, parameter: str) -> Place | None:
    """The line in the head of a constructor that has this parameter."""
    make = vars(definition).get("__init__") if isinstance(definition, type) else None
    with contextlib.suppress(OSError, TypeError):
        lines, start = inspect.getsourcelines(make)  # type: ignore[arg-type]
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
    calls = [node for node in ast.walk(_tree(room.lines) or ast.Module([], [])) if isinstance(node, ast.Call)]
    around = [node.lineno - 1 for node in calls if node.lineno - 1 < number < (node.end_lineno or 0)]
    return max(around, default=number)


def _is_a_class(room: _Room) -> bool:
    """Sorts forwards and functions first."""
    return room.lines[0].lstrip().startswith("class ")


def _is_no_table(room: _Room) -> bool:
    """Sorts what is called positions, or has a sine and a cosine, first."""
    code = "\n".join(room.lines)
    return "pos" not in room.name.lower() and not re.search(r"\bsin\((.|\n)*\bcos\(", code)


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
    return not ("softmax" in code and PRODUCT.search(code)), "att" not in room.name.lower()


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
    try:
        return ast.parse(textwrap.dedent("\n".join(lines)))
    except SyntaxError:
        return None


def _texts(lines: list[str]) -> set[int]:
    """The lines of docstrings, which may have equations that look like code."""
    tree = _tree(lines)
    if tree is None:
        return set()
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)]
    return {line for text in texts for line in range(text.lineno - 1, text.end_lineno or text.lineno)}


def excerpt(text: str, line: int) -> tuple[int, list[str]]:
    """The number of the first line shown, and the lines around one of a file."""
    lines = text.splitlines()
    first = max(line - AROUND, 1)
    return first, [shown.rstrip() for shown in lines[first - 1 : line + AROUND]]
