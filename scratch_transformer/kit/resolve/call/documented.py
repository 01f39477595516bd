"""What the text around a learner's code says: of a mask, which value is blocked; of a model, what it is trained for."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

from scratch_transformer.kit.definitions import file_of, namespace_of, source_of, text_of_file, tree_of
from scratch_transformer.kit.resolve.call.masks import Form

IS = r"[`'\"]*\s*(?:=+|:|→|->|means?|is|for|marks?|where|indicates?|if)\s+(?:that\s+)?(?:(?!no)\w+\s+)?"
TOKENS = r"(?:real |valid )?tokens?(?!\s+(?:that|which|to|is|are|we)\b)"
TRUE = rf"\b(?:True|1s?|ones)\b{IS}"
MAY = rf"{TRUE}(?:may|can|to|should|allowed to)?\s*(?:attend(?:ed)?|be attended|keep|kept|visible|allowed|{TOKENS})\b"
BLOCKED = rf"{TRUE}(?:to be\s+)?(?:block(?:ed)?|masked(?: out)?|hid(?:e|den)|ignored?|pad(?:ding|ded)?)\b"
BATCH, LENGTH = r"(?:batch\w*|bsz|bs|B|N)", r"(?:seq\w*|(?:max_?)?len\w*|num_?tokens|tokens|[TLS])"
BATCH_FIRST = re.compile(rf"[\[(]\s*{BATCH}(?: size)?\s*,\s*{LENGTH}\b(?: len(?:gth)?)?\s*,[^\])]*[\])]", re.IGNORECASE)
LENGTH_FIRST = re.compile(rf"[\[(]\s*{LENGTH}(?: len(?:gth)?)?\s*,\s*{BATCH}\b(?: size)?\s*[,\])]", re.IGNORECASE)
"""Of a shape in words: (batch_size, seq_len, d_model); (seq_len, batch)."""
INPUT = re.compile(r"\b(x|inputs?)\b", re.IGNORECASE)
"""In a line of what a class says of itself, which tells what forward takes."""
OF_TORCH = re.compile(r"\bnn\.(?:Transformer(?:(?:En|De)coderLayer)?|MultiheadAttention)\((?:[^()]|\([^()]*\))*\)")
TOLD = re.compile(r"batch_first *= *True")
TURNS = re.compile(r"transpose\(|permute\(|swapaxes\(|swapdims\(|movedim\(|rearrange\(|einsum\(|\.T\b|\.t\(\)")
"""What makes torch's attention, that it is told to go along the second dimension, and what may change their order."""
SIZES = re.compile(r"\(?(?P<names>\w+, \w+(, \w+)*)\)? = \w+\.(shape|size\(\))")
CUT = re.compile(r"\b(?P<name>\w+)\[:, *:-1\][\s\S]{0,400}\b(?P=name)\[:, *1:\]")
WINDOW = re.compile(
    r"\b(?P<name>\w+)\[(?P<i>\w+) *: *(?P=i) *\+ *(?P<length>[\w.]+)\]"
    r"[\s\S]{0,400}\b(?P=name)\[(?P=i) *\+ *1 *: *(?P=i) *\+ *(?:(?P=length) *\+ *1|1 *\+ *(?P=length))\]"
)
"""The same tokens without the last, and without the first."""
TWO_SIDES = re.compile(r"\b(src|source|memory|cross_?att\w*|enc(oder)?_?out\w*|tgt\w*|trg\w*)\b", re.IGNORECASE)


def asks_for_the_next(thing: Any) -> bool:
    """Whether the file of a model of one sequence makes labels of the same tokens, one further on."""
    try:
        text = text_of_file(inspect.getfile(type(thing)))
    except (OSError, TypeError):
        return False
    return not TWO_SIDES.search(text) and any(pattern.search(text) for pattern in (CUT, WINDOW))


def contradiction(thing: Any, masks: Mapping[str, tuple[str, Form]]) -> str:
    """What the documentation says of a mask, if its numbers say the opposite, as "mask: True = may attend"; else ""."""
    for parameter, (_, form) in masks.items():
        said, is_one = meaning(thing, parameter), " = " in form.polarity and not form.shape.startswith("lengths")
        if said and is_one and said not in form.polarity:
            return f"{parameter}: True = {said}"
    return ""


def batch_first(thing: Any, is_alone: bool = False) -> str:
    """What is said in forward of the shape of tokens, (batch, length, d_model); "" if nothing.

    In texts, comments and names: B, T, C = x.shape. Nothing, too, where the other order is said anywhere in the class.
    is_alone: it takes one sentence only; then what the class says of its input is heard, too.
    """
    cls: Any = type(thing)
    whole, forward = source_of(cls), source_of(getattr(cls, "forward", None))
    if not whole or not forward:
        return ""
    comments = "\n".join(line.partition("#")[2] for line in forward.splitlines())
    told = str(cls.__doc__ or "").splitlines() if is_alone else []
    of_input = "\n".join(line for line in told if INPUT.search(line))
    said = BATCH_FIRST.search(f"{inspect.getdoc(cls.forward) or ''}\n{comments}\n{_unpacked(cls.forward)}\n{of_input}")
    return "" if said is None or LENGTH_FIRST.search(f"{whole}\n{_unpacked(cls.forward)}") else said[0]


def batch_first_around(thing: Any) -> str:
    """The class that hands its tokens on to torch's attention along the second dimension, and turns nothing; or "".

    As far as its file tells: all of torch's in it has batch_first=True.
    """
    cls = type(thing)
    torchs = OF_TORCH.findall(text_of_file(file_of(cls)))
    if not torchs or not all(TOLD.search(call) for call in torchs):
        return ""
    own = [one for one in namespace_of(cls).values() if isinstance(one, type) and one.__module__ == cls.__module__]
    users = [one for one in own if one is not cls and re.search(rf"\b{cls.__name__}\(", source_of(one))]
    return users[0].__name__ if users and not any(TURNS.search(source_of(one)) for one in users) else ""


def is_length_first(thing: Any) -> bool:
    """Whether a class says anywhere that its tokens, or their ids, come as (length, batch)."""
    cls: Any = type(thing)
    return LENGTH_FIRST.search(f"{source_of(cls)}\n{_unpacked(getattr(cls, 'forward', None))}") is not None


def _unpacked(forward: Any) -> str:
    """The names of the sizes that the first statement asks an argument for, B, T, C = x.shape, as a tuple."""
    for statement in getattr(tree_of(forward), "body", [])[:2]:  # behind its documentation
        asked = SIZES.fullmatch(ast.unparse(statement)) if isinstance(statement, ast.Assign) else None
        if asked:
            return f"({asked['names']})"
    return ""


def meaning(thing: Any, parameter: str) -> str:
    """ "may attend", "blocked", or "" where its documentation does not say it of this parameter, or says both."""
    sentences = " ".join(passages(thing, parameter))
    found = [word for word, pattern in (("may attend", MAY), ("blocked", BLOCKED)) if re.search(pattern, sentences)]
    return found[0] if len(found) == 1 else ""


def passages(thing: Any, parameter: str) -> Iterator[str]:
    """The lines of documentation that describe a parameter: `mask: True = may attend`, and what is indented below."""
    documented = thing if inspect.isfunction(thing) else type(thing)
    for text in filter(None, map(inspect.getdoc, (documented, getattr(documented, "forward", None)))):
        lines, depth = text.splitlines(), -1
        for line in lines:
            indent = len(line) - len(line.lstrip())
            if re.match(rf"[-*\s`]*{re.escape(parameter)}\b[`\s]*(?:\([^)]*\))?\s*[:=]", line):
                depth = indent
                yield line
            elif depth >= 0 and indent > depth and line.strip():
                yield line
            else:
                depth = -1
