"""Whether a class listens to the sizes that it is told: built again with others, it must be another one."""

from __future__ import annotations

import dis
import inspect
import re
import types
from collections.abc import Iterator, Mapping
from typing import Any

from torch import nn

from scratch_transformer.kit.definitions import codes_of, lines_of, namespace_of, parameters_of
from scratch_transformer.kit.judge.frames import DONE_AT, in_one_line
from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import ROUNDED, Session, distance
from scratch_transformer.kit.judge.variants import call
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES

WIDE = 1031
"""A width of the feed-forward network, and a number of words, that rounding makes no other's."""
NUMBERS = re.compile("layers|blocks|stacks|depth|(num|n)_(enc|dec)")
CONFIG = re.compile("config|cfg|args|params|hp", re.I)
OF_WORDS = {"vocab_size": "ids", "src_vocab_size": "src", "tgt_vocab_size": "tgt"}
"""Numbers of words, and the ids of what."""
WORDS = tuple(OF_WORDS)


def other_number_of_layers(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B28: told to make more layers, it has as many weights as before, and its outputs are the same."""
    has = session.settings.get("num_layers")
    if best is None or has is None:
        return
    if _is_deaf(session, "num_layers", has + 2):
        form = "the first alone" if has == 1 else f"{has} in any case"
        entries = {"depth": "first layer"} if has == 1 else {}
        yield Finding(MISTAKES["B28"], f"Told to make {has + 2} layers, it makes {has}.", form, entries)
        return
    of_sides = [p.name for p in parameters_of(type(session.candidate.module)) if _is_of_a_side(p.name)]
    for name in of_sides if len(of_sides) == 2 and session.kind.name == "Transformer" else ():
        if _is_deaf(session, name, has + 2):
            other = next(one for one in of_sides if one != name)
            said = f"Told {name} = {has + 2}, it is what it was with {has}: both stacks have {other} layers."
            yield Finding(MISTAKES["B28"], said, f"{name} is not listened to")


def _is_of_a_side(name: str) -> bool:
    """Whether a parameter is the number of layers of the encoder, or of the decoder, alone."""
    return re.search("enc|dec", name.lower()) is not None and NUMBERS.search(name.lower()) is not None


def other_sizes(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B29: the number of heads or of words, the width of the feed-forward network."""
    if best is None or session.candidate.replaced or {"A38", "B30"} & {*best.ids}:
        return  # what is lent, or thrown away, may listen; heads without weights are all alike
    others = {"d_ff": WIDE, **dict.fromkeys(WORDS, WIDE)}
    d_model, heads = session.settings.get("d_model", 0), session.settings.get("num_heads", 0)
    if number := next((n for n in range(2, d_model) if d_model % n == 0 and n != heads), 0):
        others |= {"num_heads": number} if heads and _shows_attention(session) else {}
    if any(CONFIG.search(p.name) for p in parameters_of(type(session.candidate.module))):
        others.pop("d_ff")  # which a config may compute from d_model
    for setting in sorted(others.keys() & session.settings.keys()):
        if _is_deaf(session, setting, others[setting]) and not _is_one_vocabulary(session, setting, others):
            said = f"Told {setting} = {others[setting]}, it is what it was with {session.settings[setting]}."
            yield Finding(MISTAKES["B29"], said, setting)
            return
    for setting in WORDS:
        if setting in session.settings and (rows := _rows_of_another(session, setting)):
            said = f"Told {setting} = {WIDE}, it stops with the last of these words: its embeddings have {rows} rows."
            yield Finding(MISTAKES["B29"], said, setting)
            return


def _shows_attention(session: Session) -> bool:
    """Whether its output is another one with other queries: else it has attention whose heads nothing can show."""
    probe, candidate = session.ran[0].probe, session.candidate
    other = {name: values.flip(0) if ".w_q." in f".{name}" else values for name, values in session.asked.items()}
    candidate.load(other)
    turned = call(candidate, probe.inputs)
    candidate.load(session.asked)
    return distance(turned, call(candidate, probe.inputs), probe) > ROUNDED


def _rows_of_another(session: Session, setting: str) -> str:
    """How many rows all tables have, where none has those that it is told of, and the last word stops it; else ""."""
    side = OF_WORDS[setting]
    try:
        candidate, probe = session.candidate.rebuild(**{setting: WIDE}), session.ran[0].probe
        module, ids = candidate.module, probe.inputs[side].clone()
    except Exception:  # it takes no such setting, or no such ids
        return ""
    tables = _tables(module)
    rows = sorted({part.num_embeddings for part in tables})
    if setting not in candidate.told or not rows or rows[-1] >= WIDE or _are_shared(tables):
        return ""
    ids[..., -1] = WIDE - 1
    try:
        call(candidate, {**probe.inputs, side: ids})
    except IndexError:
        return " and ".join(map(str, rows))
    except Exception:  # for another reason
        return ""
    return ""


def _tables(module: nn.Module | None) -> list[nn.Embedding]:
    """In every place that has one: self.decoder.embedding = self.encoder.embedding is two."""
    parts = module.named_modules(remove_duplicate=False) if module is not None else ()
    return [part for _, part in parts if isinstance(part, nn.Embedding)]


def _are_shared(tables: list[nn.Embedding]) -> bool:
    return len({id(table.weight) for table in tables}) < len(tables)


def _is_one_vocabulary(session: Session, setting: str, others: Mapping[str, int]) -> bool:
    """Whether source and target have one table of words, as the paper shares it: one number of words, that is heard."""
    words = [name for name in WORDS if name in session.settings]
    return (
        _are_shared(_tables(session.candidate.module))
        and setting in words
        and not all(_is_deaf(session, name, others[name]) for name in words)
    )


def _is_deaf(session: Session, setting: str, value: int) -> bool:
    """Whether the constructor takes a setting, and makes the same of any value: in weights, and in numbers."""
    try:
        candidate = session.candidate.rebuild(**{setting: value})
    except Exception:  # it takes no such setting, or refuses the value
        return False
    if (
        setting in session.settings and setting not in candidate.told
    ) or candidate.inventory() != session.candidate.inventory():
        return False
    probe = session.ran[0].probe
    for one in (candidate, session.candidate):
        one.load(session.asked)
    error = distance(call(candidate, probe.inputs), call(session.candidate, probe.inputs), probe)
    return not session.is_random and error <= ROUNDED


def size_of_the_file(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B29: a method reads a number of the file that is called like what the constructor is told, and not that."""
    module = session.candidate.module
    if module is None or not session.ran:
        return
    cls = type(module)
    file = namespace_of(cls)
    told = {p.name for p in parameters_of(cls) if type(file.get(p.name)) is int}
    methods = [method for name, method in vars(cls).items() if inspect.isfunction(method) and name != "__init__"]
    for method, name in ((one, name) for one in methods for name in sorted(told & _globals_in(one))):
        said = _with_another(session, file, name)
        if said:
            lines, _ = lines_of(method)
            line = next((line.strip() for line in lines if re.search(rf"(?<![.\w]){name}\b", line)), "")
            where = f"Its {method.__name__} reads {name} of the file, and not what the constructor is told"
            yield Finding(
                MISTAKES["B29"], f"{where}: with {name} = {file[name] + 1} there, {said}. {DONE_AT}{line}", name
            )
            return


def _globals_in(function: types.FunctionType) -> set[str]:
    """The names that a function, and what is written inside of it, reads from its file."""
    steps = (step for code in codes_of(function) for step in dis.get_instructions(code))
    return {str(step.argval) for step in steps if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}


def _with_another(session: Session, file: dict[str, Any], name: str) -> str:
    """What becomes of it with one more of a number of the file; "" if nothing."""
    candidate, inputs, before = session.candidate, session.ran[0].probe.inputs, file[name]
    expected = call(candidate, inputs)
    file[name] = before + 1
    try:
        other = call(candidate, inputs)
    except Exception as error:  # the shapes do not fit any more
        return f"it stops ({in_one_line(error)})"
    finally:
        file[name] = before
    is_same = other.shape == expected.shape and distance(other, expected, session.ran[0].probe) <= ROUNDED
    return "" if is_same else "it gives something else"


TOLD = (
    (("B28",), other_number_of_layers),
    (("B29",), size_of_the_file),
    (("B29",), other_sizes),
)
