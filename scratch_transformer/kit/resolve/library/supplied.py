"""The reference in place of a part that is missing or broken, so that the whole can be judged all the same."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer.kit.definitions import names_in, nodes_of
from scratch_transformer.kit.judge.frames import CalledOtherwise, frames_of
from scratch_transformer.kit.kind import NETWORKS, Kind
from scratch_transformer.kit.kinds.inputs import causal
from scratch_transformer.kit.resolve import fitness
from scratch_transformer.kit.resolve.build.construct import parameters_of
from scratch_transformer.kit.resolve.call.beside import Turn
from scratch_transformer.kit.resolve.call.plan import MASKS
from scratch_transformer.kit.resolve.names.inputs import input_of, is_mask
from scratch_transformer.kit.resolve.names.settings import settings_of
from scratch_transformer.kit.resolve.names.words import plain
from scratch_transformer.kit.syntax import sums_in

HIDING = (
    "causal", "iscausal", "usecausal", "causalmask", "usecausalmask", "autoregressive", "masked", "ismasked",
    "lookahead",
)  # fmt: skip
"""Flags of a constructor, which say that the future is hidden."""


class Supplied(nn.Module):
    """The reference of a kind, called as its place in a learner's code calls it. pair: it returns two things.

    Its parameters have the canonical names.
    """

    kind_name = ""
    why = "One of its parts cannot be used; the reference's {} was put in its place."
    takes_mask = True
    """Whether what it stands in for does: a decoder's layer that takes none hides the future by itself."""
    stands_for: Any = None
    """The learner's class in whose place it is: what does not fit that one's forward stops here, too."""
    alone = False
    """Whether what it stands in for gives the code of the positions, to which whoever calls it adds x."""

    def __init__(self, kind: Kind, settings: Mapping[str, Any], pair: bool = False) -> None:
        nn.Module.__init__(self)
        own = {name: value for name, value in settings.items() if name in kind.defaults}
        reference = kind.reference(own)  # its numbers are no chance, whether or not they are found and set
        self.__dict__.update(kind=kind, reference=reference, settings=own, pair=pair, hides_future=False)
        self._modules.update(reference._modules)
        self._parameters.update(reference._parameters)
        self._buffers.update(reference._buffers)

    def forward(self, *args: Any, **named: Any) -> Any:
        if said := misfit(self.stands_for, args, named):
            raise CalledOtherwise(said)
        given = _vectors_for(args, self.__dict__["settings"]) if self.alone else {}
        given = given or _inputs(self.__dict__["kind"], args, named)
        if not self.takes_mask and "memory" in given and given["mask"] is None:
            given["mask"] = causal(given["x"].shape[1])
        if self.__dict__["hides_future"]:
            length = given[self.__dict__["kind"].inputs[0]].shape[1]
            is_own = given.get("key") is None or given["key"].shape[1] == length
            if is_own:
                given["mask"] = causal(length) if given["mask"] is None else causal(length) & given["mask"]
        output = self.__dict__["reference"](**given)
        output = output - given["x"] if self.alone else output
        return (output, None) if self.__dict__["pair"] else output

    def __getattr__(self, name: str) -> Any:
        """Its size too, under the name that a learner's code asks for: layers[0].size."""
        own = self.__dict__.get("settings", {})
        meant = next((setting for setting in settings_of(name) if setting in own), None)
        return super().__getattr__(name) if meant is None else own[meant]

    def __deepcopy__(self, memo: Any) -> Supplied:
        """Another one: layers of a stack have weights of their own."""
        copied = type(self).__new__(type(self))
        Supplied.__init__(copied, self.__dict__["kind"], self.__dict__["settings"], self.__dict__["pair"])
        copied.__dict__["hides_future"] = self.__dict__["hides_future"]
        return copied


REFUSED = (
    (re.compile(r"missing a required (?:keyword-only )?argument: (.*)"), r"missing 1 required positional argument: \1"),
    (re.compile(r"too many positional arguments"), "takes fewer positional arguments than were given"),
)
"""What inspect says of a call, and how Python says it."""


def misfit(part: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> str:
    """What Python says of a call of an object of a class, whose forward takes other arguments; "" if it fits."""
    forward = vars(part).get("forward") if isinstance(part, type) else None
    if not inspect.isfunction(forward):
        return ""
    try:
        inspect.signature(forward).bind(None, *args, **named)
    except TypeError as error:
        said = str(error)
        for pattern, words in REFUSED:
            said = pattern.sub(words, said)
        return f"{part.__qualname__}.forward() {said}"
    return ""


class Embedding(nn.Embedding):
    """PyTorch's, for a composite that must be given one: whoever wrote it may have given it another."""

    is_lent = True

    def get_output_dim(self) -> int:
        """The width, as AllenNLP's embedders are asked for it."""
        return self.embedding_dim


def instance_of(kind: Kind) -> nn.Module:
    """The reference of a kind as a part, of a class that tells its kind."""
    made: nn.Module = type.__call__(class_of(kind, kind.defaults))
    return made


def lent(kind: Kind, settings: Mapping[str, Any], pair: bool = False) -> nn.Module:
    """The reference of a kind, for a composite that must be given a part that is not there."""
    made: nn.Module = type.__call__(class_of(kind, settings, pair, Turn.why))
    return made


def class_of(
    kind: Kind, settings: Mapping[str, Any], pair: bool = False, why: str = Supplied.why, part: Any = None,
    alone: bool = False,
) -> type[Supplied]:  # fmt: skip
    """A class that makes the reference, whatever its constructor is given.

    why: it is there, for a note. part: in whose place it is. alone: it gives the positions, and adds them to nothing.
    """

    def make(self: Supplied, *args: Any, **named: Any) -> None:
        given = _given(part, args, named)
        numbers = [value for value in (*args, *named.values()) if type(value) is int]
        times = [value for name, value in given.items() if "d_ff/d_model" in settings_of(name) and value in numbers]
        wide = [settings["d_model"] * value for value in times if "d_model" in settings]
        wide += [value for value in numbers if value not in settings.values()]
        sizes = {"d_ff": wide[0]} if wide and "d_ff" in kind.defaults else {}
        Supplied.__init__(self, kind, {**settings, **sizes}, pair)
        self.__dict__["hides_future"] = kind.name.endswith("Attention") and _is_told_to_hide(given)

    takes_mask = part is None or fitness.takes_mask(part)
    own = {"__init__": make, "kind_name": kind.name, "why": why, "takes_mask": takes_mask, "stands_for": part}
    return type(kind.name, (Supplied,), {**own, "alone": alone})


def _given(part: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
    """What the constructor of a part is told in a call, by name, with what it is by default."""
    told = parameters_of(part) if isinstance(part, type) else []
    return {p.name: p.default for p in told} | dict(zip([p.name for p in told], args, strict=False)) | {**named}


def _is_told_to_hide(given: Mapping[str, Any]) -> bool:
    """Whether a constructor is given a flag to hide the future: MultiHeadAttention(512, 8, causal=True)."""
    return any(value is True and plain(name) in HIDING for name, value in given.items())


def notes(made: Any) -> list[str]:
    """A sentence for every part of a module that is the reference's."""
    return list(dict.fromkeys(cls.why.format(cls.kind_name) for cls in _supplied(made)))


def names(made: Any) -> list[str]:
    """The kinds of a module's parts that are the reference's."""
    return list(dict.fromkeys(cls.kind_name for cls in _supplied(made)))


def _supplied(made: Any) -> list[type[Supplied | Turn]]:
    parts = [type(part) for part in made.modules()] if isinstance(made, nn.Module) else []
    return [cls for cls in parts if issubclass(cls, (Supplied, Turn))]


def _inputs(kind: Kind, args: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
    """What a call gives, by canonical names: by the words that it says, then in order."""
    tensors = [name for name in kind.inputs if name not in MASKS]
    masks = [name for name in kind.inputs if name in MASKS]
    found: dict[str, Any] = {}
    loose = list(args)
    for word, value in named.items():
        meant = input_of(word, tuple(tensors)) if not is_mask(word) else None
        if meant and meant not in found:
            found[meant] = value
        else:
            loose.append(value)
    flows = [v for v in loose if isinstance(v, Tensor) and _flows(v, kind)]
    for name, value in zip([name for name in tensors if name not in found], flows, strict=False):
        found[name] = value
    if any(not any(value is other for other in found.values()) for value in flows):
        raise TypeError(f"the reference's {kind.name} takes no other sequence than {', '.join(tensors)}")
    for name in tensors:  # attention that is given x alone, or queries and one other sequence
        found.setdefault(name, found.get("key", found.get("query", flows[-1] if flows else None)))
    given = [v for v in loose if isinstance(v, Tensor) and not any(v is other for other in found.values())]
    own = found[tensors[0]]
    given.sort(key=lambda mask: not _is_causal(mask, own.shape[1]))
    keeps = [_keep(mask, own.shape) for mask in given]
    return {**found, **{name: (keeps[i] if i < len(keeps) else None) for i, name in enumerate(masks)}}


def _vectors_for(args: tuple[Any, ...], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Zeros, for the ids that what looks positions up is given; nothing where it is given vectors."""
    ids = next((v for v in args if isinstance(v, Tensor) and v.dim() == 2 and not v.is_floating_point()), None)
    return {} if ids is None else {"x": torch.zeros(1, ids.shape[1], settings["d_model"], dtype=torch.float64)}


def _flows(value: Tensor, kind: Kind) -> bool:
    """Tokens, or ids; no mask."""
    if value.dim() == 2 and not value.is_floating_point() and value.dtype != torch.bool:
        return bool({"ids", "src", "tgt"} & set(kind.inputs))
    return value.dim() == 3 and value.is_floating_point() and value.shape[-1] == kind.defaults.get("d_model")


def _is_causal(mask: Tensor, length: int) -> bool:
    """Whether rows differ: then it is the decoder's own, which comes first."""
    return mask.shape[-1] == length and mask.dim() > 1 and not bool((mask == mask[..., :1, :]).all())


def _keep(mask: Tensor, shape: torch.Size) -> Tensor:
    """Any usual mask as True = may attend, (B, h, T, S)."""
    negative = mask.is_floating_point() and bool((mask < 0).any())
    keep = mask >= 0 if negative else mask.bool()
    if keep.dim() == 2:
        return keep[:, None, None] if keep.shape[0] == shape[0] != shape[1] else keep[None, None]
    return keep[:, None] if keep.dim() == 3 else keep


# ---- Which part is at fault ----


def culprit(error: BaseException | None, thing: Any, classes: Mapping[Any, Any]) -> Any:
    """The learner's class, of these, in whose constructor or forward an error happened, not `thing`; or None."""
    codes = {
        member.__code__: cls
        for cls in classes
        if isinstance(cls, type) and cls is not thing
        for member in vars(cls).values()
        if inspect.isfunction(member)
    }
    return next((codes[frame.f_code] for frame in frames_of(error) if frame.f_code in codes), None)


def returns_two(cls: type) -> bool:
    """Whether a class's forward returns its output and something else."""
    returned = [node.value for node in _forward_of(cls) if isinstance(node, ast.Return)]
    return any(isinstance(value, ast.Tuple) and len(value.elts) == 2 for value in returned)


def is_whole_sublayer(part: Any, kind: str) -> bool:
    """Whether attention or a network normalizes and adds its input too: norm(residual + output), as no reference does.

    With that in its place, the layer would lack what the part has.
    """
    if not kind.endswith("Attention") and kind not in NETWORKS:
        return False
    nodes = _forward_of(part) if isinstance(part, type) else []
    given = {node.arg for node in nodes if isinstance(node, ast.arg) and not is_mask(node.arg)} - {"self"}
    for node in (node for node in nodes if isinstance(node, ast.Assign)):  # residual = query
        value = node.value
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "clone":
            value = value.func.value
        if isinstance(value, ast.Name) and value.id in given:
            given |= {one.id for one in node.targets if isinstance(one, ast.Name)}
    adds = any(isinstance(one, ast.Name) and one.id in given for pair in sums_in(nodes) for one in pair)
    return adds and any(NORMALIZES.search(name) for name in names_in(part))


NORMALIZES = re.compile(r"norm|^ln", re.IGNORECASE)


def _forward_of(cls: type) -> list[ast.AST]:
    """The nodes of a class's forward; none if it cannot be read."""
    return nodes_of(getattr(cls, "forward", None))


@contextmanager
def in_place(namespaces: Iterable[dict[str, Any]], old: Any, new: Any) -> Iterator[None]:
    """Every global that is `old` is `new` in the block."""
    places = [(names, name) for names in namespaces for name, value in list(names.items()) if value is old]
    for names, name in places:
        names[name] = new
    try:
        yield
    finally:
        for names, name in places:
            names[name] = old
