"""What shows in embeddings and tables of positions: padding's row, long sequences, few binary digits."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer.kit.definitions import names_in, nodes_of, parameters_of, source_of
from scratch_transformer.kit.judge.detectors.construction import text_of
from scratch_transformer.kit.judge.detectors.inventory import is_read
from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import ROUNDED, Session, in_precision
from scratch_transformer.kit.judge.variants import call
from scratch_transformer.kit.kind import Candidate, Finding
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.construction import SECOND_TABLE
from scratch_transformer.kit.recipe import RIGHT

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
    asked = nodes_of(getattr(cls, "forward", None), ast.If)
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


def changed_afterwards(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """P2, of a table that nothing explains: of other frequencies, its rows, or all of it, scaled or shifted afterwards.

    That is told of right frequencies, too; and which rows are NaN.
    """
    result = next((r for r in session.ran if r.probe.name == "zeros"), None)
    if best is not None or result is None or result.output is None or result.output.dim() != 3:
        return
    table, limits = result.output[0].double(), session.candidate.limits
    lost = [n for n, row in enumerate(table) if not bool(row.isfinite().all())]
    if lost:
        limits.append(f"Of the positions {', '.join(map(str, lost))} it gives NaN, or infinity.")
    kept = [n for n in range(len(table)) if n not in lost]
    for form, entries in ("", {}), *MISTAKES["P2"].changes.items():
        expected = session.variant(RIGHT.with_(dict(entries)), result.probe)
        said = _changed(table[kept], expected[0].double()[kept]) if expected is not None and len(kept) > 2 else ""
        if said and form:
            yield Finding(MISTAKES["P2"], f"Its table has those frequencies, {said}.", form)
        if said:
            limits.append(f"Its table is not the reference's: it is one of sines and cosines, {said}.")
            return


def _changed(table: Tensor, expected: Tensor) -> str:
    """What was done with a table, if it is each row times a number, or all of it times a number and plus one; or ""."""
    factors = (table * expected).sum(-1, keepdim=True) / expected.square().sum(-1, keepdim=True)
    if bool((table - factors * expected).abs().max() <= ROUNDED * table.abs().max()):
        lengths = table.norm(dim=-1)
        is_one = bool((lengths - lengths[0]).abs().max() <= ROUNDED * lengths[0])
        return f"each row divided to a length of {lengths[0]:.3g}" if is_one else "each row times a number of its own"
    x, y = expected - expected.mean(), table - table.mean()
    factor = (x * y).sum() / x.square().sum()
    if bool((y - factor * x).abs().max() <= ROUNDED * y.abs().max()):
        shift = (table.mean() - factor * expected.mean()).item()
        return f"all of them times {factor.item():.3g} and plus {shift:.3g}"
    return ""


def second_table(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B30: beside the table that is added another one, as wide, which nothing but the constructor reads."""
    module = session.candidate.module
    if best is None or module is None:
        return
    own = {**dict(module.named_buffers(recurse=False)), **dict(module.named_parameters(recurse=False))}
    own |= {name: part.weight for name, part in module.named_children() if isinstance(part, nn.Embedding)}
    tables = {n: t for n, t in own.items() if t.dim() > 1 and t.shape[-1] == session.settings["d_model"]}
    used = [name for name in tables if is_read(module, name)]
    for name in (name for name in tables if used and name not in used):
        said = f"Nothing but the constructor reads self.{name}, of shape {tuple(tables[name].shape)}"
        code = f'register_buffer("{name}"' if name in module._buffers else f"self.{name}"
        yield Finding(MISTAKES["B30"], f"{said}; what is added is self.{used[0]}.", SECOND_TABLE, name=code)
        return


def _with_length(candidate: Candidate, length: int) -> Candidate:
    try:
        return candidate.rebuild(max_len=length)
    except KeyError:
        return candidate


EMBEDDING = (
    (("E4", "E5"), padding_rows),
    (("P6",), too_long),
    (("P8",), few_digits),
    (("P2",), changed_afterwards),
    (("B30",), second_table),
)
