"""What shows where heads are built narrower than the model, or a network wider: a scale, and sizes that do not fit."""

from __future__ import annotations

import dis
import inspect
import math
from collections.abc import Iterator

import torch

from scratch_transformer.kit.definitions import parameters_of
from scratch_transformer.kit.judge.frames import STOPS_AT, in_one_line, learners_line, learners_place
from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import Session
from scratch_transformer.kit.judge.variants import call
from scratch_transformer.kit.kind import Candidate, Finding, Inputs
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.attention import OF_THE_MODEL, OUTSIDE
from scratch_transformer.kit.mistakes.construction import OF_SHAPES

NARROW, NARROW_OF_SEVERAL = 5, 2
"""Features of a head that is narrower than the model, and of several that are narrower in all."""
WIDER = 29
"""A width of a hidden layer that is no token's."""
OF_A_HEAD = 3
"""Its matrices: of queries, keys and values."""
TOKENS = ("x", "query", "key", "value", "memory")
PLAIN = ("MultiheadAttention", "SelfAttention", "CausalSelfAttention", "CrossAttention")
"""Attention that is given nothing of the width of its heads: no table of positions."""


def scale_of_the_width(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """A1: one head as wide as the model cannot tell √d_k from √d_model; a narrower one can.

    A head of d_k features and one of d_model of which the others are zero differ by their scale, if that is of d_k.
    """
    if best is None or session.settings.get("num_heads") != 1 or "A1" in best.ids:
        return
    cls = next(_scaled_alike(session), None)
    if cls is None:
        return
    d_model = session.settings["d_model"]
    if written := _width_outside(cls):
        said = f"It divides by √{written}, a number outside of the class, however wide its heads are made."
        yield Finding(MISTAKES["A1"], said, OUTSIDE)
        return
    said = f"With d_model = {d_model}, it divides the scores of a head of {NARROW} features by √{d_model} too."
    yield Finding(MISTAKES["A1"], said, "divided by √d_model")


def _scaled_alike(session: Session) -> Iterator[type]:
    """The class of a head, for each width that makes its queries, keys and values narrower and not their scale.

    That is called d_k, or else anything, dim_out: another width stops it, or makes nothing of these narrower.
    """
    for name in ("d_k", *(parameter.name for parameter in parameters_of(type(session.candidate.module)))):
        try:
            narrow = session.candidate.rebuild(**{name: NARROW})
            if narrow.module is not None and _gives_the_same(narrow, session, NARROW):
                yield type(narrow.module)
        except Exception:  # nothing is called so, or with another width it stops
            continue


def _gives_the_same(narrow: Candidate, session: Session, width: int, heads: int = 1) -> bool:
    """Whether narrower heads, of a width in all, give what the wider ones do, as the weights only those have are 0."""
    wide, inputs, narrowed = session.candidate, session.ran[0].probe.inputs, 0
    assert narrow.module is not None and wide.module is not None
    own = dict(narrow.module.named_parameters())
    try:
        with torch.no_grad():
            for name, values in wide.module.named_parameters():
                places = [_within(*sizes, width, heads) for sizes in zip(own[name].shape, values.shape, strict=True)]
                values.zero_()[torch.meshgrid(*places, indexing="ij")] = own[name].normal_()
                is_other = own[name].shape != values.shape
                narrowed += is_other * own[name].numel() // (width * session.settings["d_model"])
        output = call(narrow, inputs)
        differ = not torch.allclose(call(wide, inputs)[..., : output.shape[-1]], output, rtol=0, atol=1e-9)
    finally:
        wide.load(session.asked)
    return narrowed >= OF_A_HEAD and not differ  # where values alone are narrower, queries are as wide as before


def _within(narrow: int, wide: int, width: int, heads: int) -> torch.Tensor:
    """The places that a narrower axis has in a wider one: the first of each head's, and of each of q, k, v in one."""
    pieces = heads * (OF_A_HEAD if narrow == OF_A_HEAD * width else 1)
    pieces = pieces if narrow < wide and wide % pieces == 0 else 1
    return torch.arange(wide).view(pieces, -1)[:, : narrow // pieces].flatten()


def width_of_several(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """A1 and B26 of heads that are cut from another width than the model's: Attention(dim, width, heads).

    With both alike, √(dim / heads) and a view of dim features are right; with another width they are not.
    """
    heads, d_model = session.settings.get("num_heads", 1), session.settings.get("d_model", 0)
    if best is None or heads < 2 or session.candidate.replaced or session.kind.name not in PLAIN or d_model % heads:
        return
    if best.recipe.wrapped != "none":  # what is added to x must be as wide as that
        return
    width = heads * NARROW_OF_SEVERAL
    for name, narrow in _built_with(session, width):
        if not _is_narrower(narrow, session, width):
            continue
        stop = _stop(narrow, session.ran[0].probe.inputs)
        if _takes_tokens_of(width, narrow, session, stop):
            continue
        told = f"{name} = {width} beside d_model = {d_model}"
        if stop is not None:
            yield _misfit(stop, name, told)
        elif "A1" not in best.ids and _gives_the_same(narrow, session, width, heads):
            said = f"With {told} it divides the scores of heads of {NARROW_OF_SEVERAL} features by √{d_model // heads}"
            yield Finding(MISTAKES["A1"], f"{said} too.", OF_THE_MODEL)
        return


def width_within(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B26, of a network that fits only where its hidden layer is as wide as its tokens: max(zeros(x.shape), W x)."""
    candidate, d_model = session.candidate, session.settings.get("d_model", 0)
    if best is None or candidate.replaced or session.kind.name != "FeedForward" or session.settings["d_ff"] != d_model:
        return
    for name, other in _built_with(session, WIDER):
        matrices = [shape for shape in other.inventory().values() if len(shape) == 2]
        if matrices == [(WIDER, d_model), (d_model, WIDER)]:
            if (stop := _stop(other, session.ran[0].probe.inputs)) is not None:
                yield _misfit(stop, name, f"{WIDER} beside {d_model}")
            return


def _built_with(session: Session, width: int) -> Iterator[tuple[str, Candidate]]:
    """The parameters of a constructor that may be this number, and what is built with it."""
    for parameter in parameters_of(type(session.candidate.module)):
        try:
            other = session.candidate.rebuild(**{parameter.name: width})
        except Exception:  # it takes no such number, or refuses it
            continue
        yield parameter.name, other


def _stop(other: Candidate, inputs: Inputs) -> RuntimeError | None:
    """Where what was built with another width stops with the tokens; None if it computes."""
    try:
        call(other, inputs)
    except RuntimeError as error:
        return error
    return None


def _misfit(stop: RuntimeError, name: str, told: str) -> Finding:
    """B26, of what was built with another width."""
    said = f"It fits only where {name} is as wide as its tokens; with {told} it stops"
    said = f"{said}: {in_one_line(stop)}. {STOPS_AT}{learners_line(stop)}"
    return Finding(MISTAKES["B26"], said, fix=OF_SHAPES)


def _takes_tokens_of(width: int, narrow: Candidate, session: Session, stop: RuntimeError | None) -> bool:
    """Whether what was told is the width of tokens: with such it computes, or gets further before it stops.

    nn.Parameter(torch.randn(d_in, d_out)), and x @ it.
    """
    inputs = session.ran[0].probe.inputs
    cut = {name: inputs[name][..., :width] for name in session.kind.inputs if name in TOKENS}
    return _line(_stop(narrow, {**inputs, **cut})) > _line(stop)


def _line(stop: RuntimeError | None) -> float:
    """The line at which it stops; behind all lines if it does not."""
    return math.inf if stop is None else learners_place(stop)[1]


def _is_narrower(narrow: Candidate, session: Session, width: int) -> bool:
    """Whether all of queries, keys and values are, of tokens that are as wide as before.

    A matrix for each head, (heads, d_model, d_k), is as wide as it is told: no width is shared among them.
    """
    before, rows = session.candidate.inventory(), 0
    for name, shape in narrow.inventory().items():
        was = before.get(name, ())
        if len(shape) > 2 and shape != was:
            return False
        if len(shape) == len(was) == 2 and shape != was:
            rows += shape[0] if shape[1] == was[1] == session.settings["d_model"] else 0
    return rows == OF_A_HEAD * width


def _width_outside(cls: type) -> str:
    """The global number that a forward takes in place of a constructor's parameter of the same name.

    head_size**-0.5 in forward, of head_size = 16 at the top of the file and def __init__(self, head_size).
    """
    forward, told = getattr(cls, "forward", None), {parameter.name for parameter in parameters_of(cls)}
    if not inspect.isfunction(forward):
        return ""
    taken = [one.argval for one in dis.get_instructions(forward) if one.opname == "LOAD_GLOBAL"]
    return next((n for n in taken if n in told and isinstance(forward.__globals__.get(n), (int, float))), "")


WIDTHS = ((("A1",), scale_of_the_width), (("A1", "B26"), width_of_several), (("B26",), width_within))
