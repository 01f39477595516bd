"""What shows in a class's defaults and documentation, and when it is built with other settings: an odd width."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from torch import nn

from scratch_transformer.kit.definitions import file_of, names_in, parameters_of, text_of_file
from scratch_transformer.kit.judge.frames import frames_of, in_one_line, is_learners, nodes_at
from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import Session
from scratch_transformer.kit.judge.variants import call
from scratch_transformer.kit.judge.written import LEAST_BASE
from scratch_transformer.kit.kind import Candidate, Finding
from scratch_transformer.kit.kinds.inputs import EPS
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.attention import OUTPUT_ALONE
from scratch_transformer.kit.mistakes.embedding import ATTENDS, ATTENTION_ALONG_IT, BATCH_FIRST
from scratch_transformer.kit.mistakes.normalization import LARGE_EPS, MOST_EPS, OF_RMS
from scratch_transformer.kit.mistakes.rotary import SMALL_BASE

OWN_BIAS = re.compile(r"qkv_?bias|bias_?qkv", re.IGNORECASE)
INPUTS = re.compile(r"(?i)^(w_?|to_?|in_?)?(q|k|v|qk|kv|qkv|kqv)(_?proj\w*)?$|quer|key|val|attn|in_proj")
"""What makes queries, keys or values is called."""
TOLD = re.compile(r"self\.(\w+) *= *[^\n=]*\(.*\w\.bias\b")
"""What is made with the field of a config: self.key = nn.Linear(…, bias=config.bias)."""
DIVIDED = (24, 36)
"""Widths that 3 divides, into even numbers of features."""
UNDIVIDED = 14
"""A width that 3 does not divide, and 14 // 3 is even, too: rotary positions turn pairs."""


def bias_flag(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """A15: bias=False leaves a bias in a projection of attention; beside a qkv_bias it is of the output alone."""
    if best is None:  # a part may have been built as something else
        return
    try:
        candidate = session.candidate.rebuild(bias=False)
    except KeyError:
        return
    cls: Any = type(candidate.module)
    shapes = candidate.inventory()
    left = [name for name in shapes if name.endswith("bias") and _is_projections(name, shapes, session.kind.name)]
    if any(map(_has_a_flag_of_its_own, (cls, *_holders(candidate.module, left)))):
        return
    if left:
        first = left[0].removesuffix(".bias")
        name = next(one for one in reversed(first.split(".")) if not one.isdigit())
        form = OUTPUT_ALONE if _is_of_inputs(cls) and _is_output(left) else ""
        said = f"Built with bias=False, it still has {', '.join(left)}."
        yield Finding(MISTAKES["A15"], said, form, name=f"self.{name}")


def _holders(module: Any, biases: Iterable[str]) -> set[type]:
    """The classes of a module's parts that have the layers of these biases, by the names of those."""
    if not isinstance(module, nn.Module):
        return set()
    parts = dict(module.named_modules())
    paths = {bias.rpartition(".")[0].rpartition(".")[0] for bias in biases}
    return {type(parts[path]) for path in paths if path in parts}


def _has_a_flag_of_its_own(cls: Any) -> bool:
    """Whether the biases of queries, keys and values go by another flag: qkv_bias."""
    return any("qkv" in name for name in inspect.signature(cls).parameters) or any(map(OWN_BIAS.search, names_in(cls)))


def _is_of_inputs(cls: Any) -> bool:
    """Whether the field of a config, and no parameter, says whether there are biases, and only those of q, k and v.

    Where it says that of norms or networks, too, it is of all that there is.
    """
    told = [name for name in TOLD.findall(text_of_file(file_of(cls))) if not INPUTS.search(name)]
    return not told and not any("bias" in parameter.name for parameter in parameters_of(cls))


def _is_output(left: Sequence[str]) -> bool:
    """Whether biases are those of one layer, once for each block, that makes no queries, keys or values."""
    names = {re.sub(r"\.?\d+(?=\.)", "", bias.removesuffix(".bias")) for bias in left}
    return len(names) == 1 and not any(INPUTS.search(name.rpartition(".")[2]) for name in names)


def _is_projections(bias: str, shapes: Mapping[str, tuple[int, ...]], kind: str) -> bool:
    """Whether a bias belongs to a matrix; in a layer, to a matrix of its attention."""
    matrix = shapes.get(f"{bias.removesuffix('bias')}weight", ())
    return len(matrix) == 2 and (kind.endswith("Attention") or "att" in bias.lower())


def heads_that_do_not_divide(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """A19: d_model = 14 with 3 heads is not refused by the constructor, or in words, and fails later.

    Another width that 3 divides does not fail: what heads are cut from is as wide as it is told.
    """
    sizes = {"d_model": UNDIVIDED, "num_heads": 3}
    try:
        candidate = session.candidate.rebuild(**sizes)
    except (KeyError, AssertionError, ValueError, RuntimeError, TypeError):
        return
    is_given_parts = isinstance(candidate.module, nn.Module) and "num_heads" not in candidate.told
    if is_given_parts or _has_width_of_heads(session, sizes):  # which have heads, or refuse them
        return
    error = _stops(session, candidate, sizes)
    other = {**sizes, "d_model": next(width for width in DIVIDED if width != session.settings.get("d_model"))}
    if error is None or _is_in_words(error) or _stops(session, session.candidate.rebuild(**other), other) is not None:
        return
    late = f"its forward stops with {type(error).__name__}"
    said = f"d_model = {UNDIVIDED} and 3 heads are accepted, though 3 does not divide {UNDIVIDED}; {late}."
    yield Finding(MISTAKES["A19"], said)


def _stops(session: Session, candidate: Candidate, sizes: Mapping[str, int]) -> Exception | None:
    """What a candidate of these sizes raises when it is called."""
    probes = session.kind.probes({**session.settings, **sizes}, 0)
    probe = next((probe for probe in probes if session.candidate.accepts(probe.inputs)), None)
    try:
        if probe is not None:
            call(candidate, probe.inputs)
    except Exception as error:  # the learner's code may raise anything
        return error
    return None


def _is_in_words(error: Exception) -> bool:
    """Whether a check of the learner's own raised it."""
    frame = frames_of(error)[-1]
    return is_learners(frame) and any(nodes_at(error, frame, (ast.Assert, ast.Raise)))


def _has_width_of_heads(session: Session, sizes: Mapping[str, int]) -> bool:
    """Whether it is told how wide a head is: then no number of heads need divide anything."""
    try:
        session.candidate.rebuild(**sizes, d_k=4)
    except KeyError:
        return False
    except Exception:  # the learner's code may raise anything
        return True
    return True


def odd_width(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """P1."""
    try:
        session.candidate.rebuild(d_model=7)
    except KeyError:
        return
    except Exception as error:  # the learner's code may raise anything
        if not isinstance(error, (AssertionError, ValueError)):
            line = next(iter(str(error).splitlines()), "")
            yield Finding(MISTAKES["P1"], f"With d_model = 7 it stops with {type(error).__name__}: {line}")


def other_default(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """LN3: the ε of a norm that is told none, as most layers make theirs."""
    default, usual = session.candidate.defaults.get("eps"), EPS
    if session.kind.name in ("LayerNorm", "RMSNorm") and isinstance(default, float) and default != usual:
        said = f"Its eps is {default:g} unless told otherwise; PyTorch's is {usual:g}."
        form = form_of_eps(default, "rms" if session.kind.name == "RMSNorm" else "norm", f"{default:g}")
        yield Finding(MISTAKES["LN3"], said, form, {"eps": default})


def small_base(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """R2: the base of rotary positions of what is told none."""
    base = session.candidate.defaults.get("rope_base")
    if session.kind.name == "RotaryEmbedding" and isinstance(base, (int, float)) and 1 < base < LEAST_BASE:
        yield Finding(MISTAKES["R2"], f"Its base is {base:g} unless told otherwise.", SMALL_BASE.format(base))


def form_of_eps(eps: float, norm_kind: str, form: str) -> str:
    """LN3's form for an ε, of a norm alone and of what contains it: a mistake, none at all, or what else it is called.

    norm_kind: the recipe's.
    """
    return LARGE_EPS if eps > MOST_EPS else OF_RMS if norm_kind == "rms" else form


def other_than_documented(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """A32."""
    if said := session.candidate.documented_otherwise():
        yield Finding(MISTAKES["A32"], f"Its documentation says “{said}”. It computes the opposite.")


def rows_of_samples(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """P4: right for tokens that come length first, which are said to come batch first, or do where it is used."""
    if best is None or "P4" in best.ids or session.kind.name != "PositionalEncoding":
        return
    shape, user = _said_of_samples(session), session.candidate.batch_first_around()
    if shape or user:
        where = f"Of its input it says {shape}" if shape else f"In {user}, whose layers have batch_first=True"
        said = f"It takes the rows by the first dimension. {where}: that is the number of samples."
        yield Finding(MISTAKES["P4"], said, entries={"position_axis": "batch"})


def _said_of_samples(session: Session) -> str:
    """The shape with a batch first that is said of its input; "" where it stops with a batch, whatever is said."""
    shape = session.candidate.documented_batch_first()
    stops = shape and isinstance(session.in_a_batch, Exception)
    return "" if stops else shape


def attends_along_the_batch(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """P4: the same of what attends; and of what stops as it does, and runs with batch_first=True."""
    if (error := session.candidate.stops_along) is not None:
        said = f"It stops with {type(error).__name__}: {in_one_line(error)}. With batch_first=True it runs."
        yield Finding(MISTAKES["P4"], said, ATTENTION_ALONG_IT, does=ATTENDS, fix=BATCH_FIRST)
        return
    if best is None or ("x" not in session.kind.inputs and "query" not in session.kind.inputs):
        return
    if session.kind.name != "PositionalEncoding" and (shape := _said_of_samples(session)):
        said = f"Tokens attend along the first dimension. Of its input it says {shape}: that is the number of samples."
        yield Finding(MISTAKES["P4"], said, ATTENTION_ALONG_IT, does=ATTENDS, fix=BATCH_FIRST)


def masks_that_are_exchanged(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """A27: called as the names of its masks say, it stops, and the other way round it is right."""
    names = session.candidate.exchanged_masks()
    if best is not None and names:
        said = f"Its {' and its '.join(names)} are handed on the other way round: it works with them exchanged."
        yield Finding(MISTAKES["A27"], said)


SETTINGS = (
    (("A15",), bias_flag),
    (("A19",), heads_that_do_not_divide),
    (("P1",), odd_width),
    (("LN3",), other_default),
    (("R2",), small_base),
    (("P4",), rows_of_samples),
    (("P4",), attends_along_the_batch),
    (("A32",), other_than_documented),
    (("A27",), masks_that_are_exchanged),
)
