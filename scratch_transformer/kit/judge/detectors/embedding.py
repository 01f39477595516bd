"""What shows in embeddings and tables of positions: padding's row, long sequences, few binary digits."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn

from scratch_transformer.kit.definitions import names_in, nodes_of, parameters_of, source_of
from scratch_transformer.kit.judge.detectors.construction import text_of
from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import Session, in_precision
from scratch_transformer.kit.judge.variants import call
from scratch_transformer.kit.kind import Candidate, Finding
from scratch_transformer.kit.mistakes import MISTAKES

Detector = Callable[[Session, Hypothesis | None], Iterator[Finding]]
COUNTED_IN_ITS_TYPE = re.compile(r"arange\([^\n]*(\w\.dtype|type_as|\.to\(\w+\))")
OTHER_PAD = 2
PADDINGS = ("padding_idx", "pad", "src_pad", "tgt_pad")
LENGTH_WORDS = r"length|long|max|exceed|block|positions?\b|context"


def padding_rows(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """E4, of the first freshly built embedding that has it, and E5, of the first with a padding_idx."""
    fresh = session.candidate.rebuild().module
    if fresh is None:
        return
    tables = [(path, part) for path, part in fresh.named_modules() if isinstance(part, nn.Embedding)]
    padded = [(path, part) for path, part in tables if part.padding_idx is not None]
    yield from list(filter(None, (_filled(path, part) for path, part in padded)))[:1]
    for path, part in padded[:1]:
        yield from _fixed(session, fresh, path, part)


def _filled(path: str, part: nn.Embedding) -> Finding | None:
    pad = part.padding_idx
    largest = part.weight[pad].abs().max().item()
    said = f"self.{path} has padding_idx = {pad}, but row {pad} has numbers up to {largest:.2g}."
    return Finding(MISTAKES["E4"], said, name=f"self.{path}") if largest > 0 else None


def _fixed(session: Session, fresh: nn.Module, path: str, part: nn.Embedding) -> Iterator[Finding]:
    pad, given = part.padding_idx, session.candidate.settings
    asked = [given[name] for name in PADDINGS if name in given]
    is_argument = _follows(session, path) or _is_looked_up(session) or is_handed_in(fresh, path)
    if pad not in asked and not is_argument:
        said = f"padding_idx is {pad}" + (
            f", although the padding's id is {asked[0]}." if asked else ", whatever is given."
        )
        yield Finding(MISTAKES["E5"], said, name=f"self.{path}" if type(part) is nn.Embedding else type(part).__name__)


def _follows(session: Session, path: str) -> bool:
    """Whether another padding, where the kind has none, is another padding_idx."""
    try:
        again = session.candidate.rebuild(pad=OTHER_PAD).module
    except Exception:  # it takes none
        return False
    return again is not None and getattr(again.get_submodule(path), "padding_idx", None) == OTHER_PAD


def is_handed_in(whole: nn.Module, path: str) -> bool:
    """Whether the table is in a part that is made elsewhere, by a class that can be told the padding."""
    maker: Any = type(whole)
    owner: Any = type(whole.get_submodule(path.rpartition(".")[0]))
    is_told = any("pad" in parameter.name for parameter in parameters_of(owner))
    return is_told and owner is not maker and owner.__name__ not in names_in(maker)


LOOKED_UP = re.compile(r"""[\[(]\s*["'][^\w"']*pad(ding)?[^\w"']*["']\s*[\])]""", re.IGNORECASE)

PASSED_ON = re.compile(r"\bpadding_idx\s*=\s*([A-Za-z_]\w*)\b(?!\s*[.\[(])")


def _is_looked_up(session: Session) -> bool:
    """Whether padding is asked for by its word, vocab["<pad>"], or is given to the constructor: no fixed number."""
    cls: Any = type(session.candidate.module)
    given = {parameter.name for parameter in parameters_of(cls)}
    return bool(LOOKED_UP.search(source_of(cls)) or given & {*PASSED_ON.findall(source_of(cls))} - {"padding_idx"})


def too_long(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """P6: a sequence longer than max_len."""
    longest = session.candidate.settings.get("max_len")
    if longest is None or _grows(type(session.candidate.module)):
        return
    x = torch.zeros(1, longest + 1, session.settings["d_model"], dtype=torch.float64)
    try:
        call(session.candidate, {"x": x})
    except Exception as error:  # the learner's code may raise anything
        line = next(iter(str(error).splitlines()), "")
        if not isinstance(error, (ValueError, AssertionError)) and not re.search(LENGTH_WORDS, line.lower()):
            said = (
                f"With {longest + 1} tokens, one more than the table has, it stops with {type(error).__name__}: {line}"
            )
            yield Finding(MISTAKES["P6"], said)


def _grows(cls: Any) -> bool:
    """Whether forward makes a longer table where it needs one: if len(x) > self.longest: self.fill(len(x))."""
    asked = [node for node in nodes_of(getattr(cls, "forward", None)) if isinstance(node, ast.If)]
    makes = [ast.unparse(one) for node in asked if isinstance(node.test, ast.Compare) for one in node.body]
    return any(re.match(r"self\.\w+(\(| *=[^=])", line) for line in makes)


def few_digits(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """P8: positions 256 and 257 have one code: always, or in bfloat16 where the input's type is counted in."""
    candidate = _with_length(session.candidate, 300)
    module = candidate.module
    if module is None or (best is not None and best.recipe.positions != "sinusoidal"):
        return
    is_of_input = COUNTED_IN_ITS_TYPE.search(text_of(candidate))
    x = torch.zeros(1, 300, session.settings["d_model"], dtype=torch.float64)
    with in_precision(session, module, torch.bfloat16) if is_of_input else nullcontext():
        code = call(candidate, {"x": x.bfloat16() if is_of_input else x})[0]
    if torch.equal(code[256], code[257]) and not torch.equal(code[255], code[256]):
        said = f"{'In bfloat16, the' if is_of_input else 'The'} codes of positions 256 and 257 are the same."
        yield Finding(MISTAKES["P8"], said, "counted in bfloat16")


def _with_length(candidate: Candidate, length: int) -> Candidate:
    try:
        return candidate.rebuild(max_len=length)
    except KeyError:
        return candidate


EMBEDDING: tuple[tuple[tuple[str, ...], Detector], ...] = (
    (("E4", "E5"), padding_rows),
    (("P6",), too_long),
    (("P8",), few_digits),
)
