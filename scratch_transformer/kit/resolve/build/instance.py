"""What a built module tells about the settings that it was really built with: its attributes, and its shapes."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from scratch_transformer.kit.definitions import is_of_torch, is_own, nodes_of
from scratch_transformer.kit.judge.written import LEAST_BASE, bases
from scratch_transformer.kit.kind import Kind
from scratch_transformer.kit.kinds.inputs import EPS
from scratch_transformer.kit.resolve.build.config import Config
from scratch_transformer.kit.resolve.build.reading import uses_of
from scratch_transformer.kit.resolve.names.roles import role_of
from scratch_transformer.kit.resolve.names.settings import settings_of
from scratch_transformer.kit.resolve.weights.layout import walk

OPTIONAL = ("num_kv_heads", "d_k", "wide_qk_norm")
"""Settings that a kind need not have."""
READ = ("rope_base", "num_heads", "eps", "num_layers", "label_smoothing", "pad", "warmup", "d_k", "max_len")
WRITTEN = ("rope_base",)
"""Of these the ones that a class may write in, whatever the config says that it was told: self.base = 1e6."""
LEAST = {"rope_base": 2}
"""Below it an attribute of such a name is something else: pos_base = 0, where a cache stands."""


def settings_of_instance(made: Any, kind: Kind, wanted: Mapping[str, Any], used: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that something was really built with: asked for, else read from its attributes and shapes."""
    kept = (*kind.defaults, *(name for name in OPTIONAL if name in used))
    settings = {name: value for name, value in wanted.items() if name in kept}
    used = {**_told_of_padding(made), **used}
    if not used.keys() & {"pad", "src_pad", "tgt_pad"}:
        pads = ("src_pad", "tgt_pad", *(("pad",) if "ids" in kind.inputs else ()))
        settings |= {name: 0 for name in pads if name in settings}  # the number that people write out
    elif used.keys() & {"pad", "src_pad", "tgt_pad"} == {"pad"}:  # one for both languages
        settings |= {name: used["pad"] for name in ("src_pad", "tgt_pad") if name in settings}
    if not isinstance(made, nn.Module):
        return settings
    for name in kind.defaults:
        if name in READ and (name not in used or name in WRITTEN):
            value = attribute(made, name)
            value = _written_heads(made) if value is None and name == "num_heads" else value
            value = _written_base(made) if value is None and name == "rope_base" else value
            if value is not None:
                settings[name] = value
    if "num_layers" in settings:
        settings["num_layers"] = _layers_of(made, settings["num_layers"])
    settings |= _from_shapes(kind, settings, _shapes(made), used)
    settings |= _words(made, settings)
    if "max_len" in settings and "max_len" not in used:
        settings["max_len"] = _places(made, settings) or settings["max_len"]
    if "num_layers" in settings and "num_layers" not in used:
        settings["num_layers"] = _layers(made) or settings["num_layers"]
    settings |= _of_heads(made, settings, kind.name.endswith("Attention"))
    return settings | _of_query_norms(made, settings)


def _told_of_padding(made: Any) -> dict[str, Any]:
    """Which id is padding by its config, whom it asks when it is called, and not before: ids.eq(self.config.pad_id)."""
    configs = [value for value in getattr(made, "__dict__", {}).values() if isinstance(value, Config)]
    read = {name for use in uses_of(type(made)).values() for name in use.attributes} if configs else set()
    pads = [getattr(configs[0], name) for name in sorted(read) if settings_of(name)[:1] == ("pad",)]
    return {"pad": pads[0]} if pads else {}


QUERY_NORM = re.compile(r"(^|[._])(q|query|queries)_?(rms|layer)?_?(norm|ln)|(norm|ln)_?(q|query|queries)([._]|$)")


def _of_query_norms(made: nn.Module, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Whether queries are normalized before they are cut into heads: by a norm as wide as all of them."""
    h, E = settings.get("num_heads") or 1, settings.get("d_model") or 0
    width = h * (settings.get("d_k") or E // h)
    named = [values for name, values in made.named_parameters() if QUERY_NORM.search(name.lower())]
    is_wide = h > 1 and any(values.dim() == 1 and len(values) == width for values in named if not _is_lazy(values))
    return {"wide_qk_norm": True} if is_wide else {}


OURS = "scratch_transformer."
MIXED_EPS = "Its norms have different eps, {}: they were compared with {} in all."
OWN_EPS = "Its nn.RMSNorm is told no eps, and takes the smallest step of the precision: it was compared with {:g}."


def with_one_eps(made: Any) -> str:
    """Gives all norms of a module the eps of the first. What is to be said of that; "" if they have one anyway."""
    held: list[tuple[nn.Module, str]] = []
    if not isinstance(made, nn.Module):
        return ""
    for _, part in walk(made):
        fractions = [name for name, value in vars(part).items() if isinstance(value, float)]
        held += [(part, name) for name in fractions if settings_of(name)[:1] == ("eps",)]
    own = [(part, name) for part, name in held if not type(part).__module__.startswith(OURS)]  # not what stands in
    values = list(dict.fromkeys(getattr(part, name) for part, name in own or held))
    for part, name in held:
        setattr(part, name, values[0])
    untold = [part for _, part in walk(made) if isinstance(part, nn.RMSNorm) and part.eps is None]
    for part in untold:
        part.eps = values[0] if values else EPS
    if untold:
        return OWN_EPS.format(untold[0].eps)
    return MIXED_EPS.format(" and ".join(map(str, values)), values[0]) if len(values) > 1 else ""


def _words(made: nn.Module, settings: Mapping[str, Any]) -> dict[str, Any]:
    """How many words the embeddings have, where that is none of the numbers asked for: a few more, for <pad>, <s>."""
    tables = [(path.lower(), part) for path, part in walk(made) if isinstance(part, nn.Embedding)]
    wide = [(path, part.num_embeddings) for path, part in tables if part.embedding_dim == settings.get("d_model")]
    rows = {path: number for path, number in wide if number > 2 and not re.search(r"pos(?!t)|seg|type", path)}
    names = [name for name in VOCABULARIES if name in settings]
    if not rows or any(settings[name] in rows.values() for name in names) or _projects(made, settings):
        return {}
    of_target = [number for path, number in rows.items() if re.search(r"tgt|trg|target|dec", path)]
    first, last = next(iter(rows.values())), of_target[0] if of_target else [*rows.values()][-1]
    return {name: last if name.startswith("tgt") else first for name in names}


def _places(made: nn.Module, settings: Mapping[str, Any]) -> int:
    """The rows of the one table of positions, where that is what it was not told; 0 without one."""
    words = {value for name, value in settings.items() if "vocab" in name}
    tables = [tuple(p.shape) for n, p in made.named_parameters() if POSITIONS.search(n.lower()) and not _is_lazy(p)]
    if not tables and words:  # whatever it is called, what has a vector for more than there are words has places
        tables = [tuple(table.shape) for table in _looked_up(made) if table.shape[0] > max(words)]
    rows = {
        shape[-2]
        for shape in tables
        if len(shape) in (2, 3) and shape[-1] == settings.get("d_model") and set(shape[:-2]) <= {1}
    }
    return rows.pop() if len(rows) == 1 and not rows & words else 0


POSITIONS = re.compile(r"(^|[._])(pos(?!t)|wpe|pe(\.|$))")


def _looked_up(made: nn.Module) -> list[Tensor]:
    """The tables of its embeddings."""
    return [part.weight for _, part in walk(made) if isinstance(part, nn.Embedding)]


def _projects(made: nn.Module, settings: Mapping[str, Any]) -> bool:
    """Whether it gives scores for as many words as it was told of, whatever its embeddings have besides."""
    wanted = (settings.get("tgt_vocab_size", settings.get("vocab_size")), settings.get("d_model"))
    tables = _looked_up(made)
    own = [values for values in made.parameters() if not any(values is table for table in tables)]
    return any(tuple(values.shape) == wanted for values in own if not _is_lazy(values))


VOCABULARIES = ("vocab_size", "src_vocab_size", "tgt_vocab_size")
MATRICES = 3
"""Of a layer, at least: a list of heads is no stack."""


def _layers(made: nn.Module) -> int:
    """The length of the outermost list of layers of one class, without norms, dropouts and what embeds or projects
    before or after them; 0 without one.
    """
    for _, part in walk(made):
        items = [item for item in part if item is not None] if isinstance(part, (nn.ModuleList, nn.Sequential)) else []
        matrices = [sum(values.dim() >= 2 for values in item.parameters()) for item in items]
        layers = [type(item) for item, count in zip(items, matrices, strict=True) if count > MATRICES]
        if len({*layers}) == 1 and all(count > MATRICES or count <= 1 for count in matrices):
            return len(layers)
    return 0


def _layers_of(made: nn.Module, asked: int) -> int:
    """How many layers all its stacks have, where none has as many as were asked for."""
    lists = [part for part in made.modules() if isinstance(part, nn.ModuleList) and len(part) and not _is_small(part)]
    outer = [one for one in lists if not any(one in list(other.modules())[1:] for other in lists)]
    lengths = {len(one) for one in outer if len({type(layer) for layer in one}) == 1}
    return lengths.pop() if len(lengths) == 1 and len(outer) and asked not in lengths else asked


def _is_small(layers: nn.ModuleList) -> bool:
    """A list of matrices, norms, heads or networks, and none of layers: those have four matrices at least."""
    return layers[0] is None or sum(values.dim() == 2 for values in layers[0].parameters()) < 4


def _of_heads(made: nn.Module, settings: Mapping[str, Any], is_attention: bool) -> dict[str, Any]:
    """How many heads share keys and values, and how wide a head is, where projections are not d_model wide.

    is_attention: what is numbered in its paths are heads, and no attentions.
    """
    h, E = settings.get("num_heads"), settings.get("d_model")
    groups: dict[str, dict[str, list[tuple[int, ...]]]] = {}
    for name, values in made.named_parameters():
        role, path = role_of(name), _owner(name, made)
        if role in ("q", "k", "v") and not _is_lazy(values) and values.dim() in (2, 3):
            path = re.sub(r"\.?\d+$" if is_attention else r"\.\d+$", "", path)
            matrices = groups.setdefault(path, {}).setdefault(role, [])
            matrices += _matrices(tuple(values.shape), E)
    whole = [roles for roles in groups.values() if roles.keys() == {"q", "k", "v"} and all(roles.values())]
    if not h or not E or not whole or any(E not in shape for roles in whole for s in roles.values() for shape in s):
        return {}
    of_queries = [_out(shape, E) for shape in whole[0]["q"]]
    if len(of_queries) not in (1, h) and {*of_queries} == {E / len(of_queries)}:
        return {"num_heads": len(of_queries)}  # each a module of its own, whatever number it was told
    is_wide = len(of_queries) > 1 and any((len(of_queries) * E, E) in (s, s[::-1]) for s in _shapes(made))
    if is_wide and len(of_queries) != h and {*of_queries} == {E}:
        return {"num_heads": len(of_queries), "d_k": E}
    is_wide = is_wide and len(of_queries) == h  # d_k = d_model
    several = len(of_queries) if set(of_queries) == {E} and not is_wide else 1  # side by side: W_q_1, W_q_2
    q, k, v = (sum(_out(shape, E) for shape in whole[0][role]) // several for role in "qkv")
    if q % h:  # numbers that it was not asked for: of heads, by an attribute that divides what there is
        parts = [part for _, part in walk(made) if not is_of_torch(type(part))]
        own = [value for part in parts for value in vars(part).values() if type(value) is int]
        h = next((n for n in own if 1 < n < q and q % n == 0 and n not in (E, settings.get("d_ff"))), 0)
        return {"num_heads": h, "d_k": q // h} if h and k == q else {}
    found = {} if q == E else {"d_k": q // h}
    is_told_fewer = settings.get("num_kv_heads", h) != h  # by a config of which another flag says: all have their own
    is_shared = k == v and q % k == 0 and (k * h) % q == 0 and (k < q or (k == q and is_told_fewer))
    return found | ({"num_kv_heads": k * h // q} if is_shared else {})


def _owner(name: str, made: nn.Module) -> str:
    """The path of what has a projection, or the list of every head's: queries.0.weight. Not of those in a sequence."""
    path, _, last = name.removesuffix(".weight").rpartition(".")
    is_one = last.isdigit() and isinstance(made.get_submodule(path), (nn.ModuleList, nn.ParameterList))
    return path.rpartition(".")[0] if is_one and role_of(path) else path


def _written_heads(made: nn.Module) -> int | None:
    """The number of heads that is written into how features are cut: no 3 where one matrix has q, k and v."""
    own = dict.fromkeys(type(part) for _, part in walk(made) if is_own(type(part)))
    calls = [node for cls in own for node in nodes_of(cls, ast.Call)]
    written = (one.value for call in calls for one in _cut(call) if isinstance(one, ast.Constant))
    is_packed = any(len(shape) == 2 and max(shape) == 3 * min(shape) for shape in _shapes(made))
    return next((n for n in written if type(n) is int and n > 1 and not (is_packed and n == 3)), None)


def _written_base(made: nn.Module) -> float | None:
    """The number that is written in as the base of rotary positions, by design: 500000 ** (i / dim)."""
    own = dict.fromkeys(type(part) for _, part in walk(made) if is_own(type(part)))
    return next((base for cls in own for base in bases(cls) if base >= LEAST_BASE), None)


def _cut(call: ast.Call) -> list[ast.expr]:
    """What a call cuts features into: x.view(B, T, 12, -1), x.unflatten(-1, (12, 64)), rearrange(x, "…", h=12).

    Not mask.view(1, 1, 64, 64).
    """
    name = ast.unparse(call.func).rpartition(".")[2]
    if name in ("view", "reshape") and len(call.args) in (4, 5) and not isinstance(call.args[0], ast.Constant):
        is_packed = len(call.args) == 5 and ast.unparse(call.args[2]) == "3"  # queries, keys and values
        return call.args[3 if is_packed else 1 :]
    if name == "unflatten" and call.args and isinstance(call.args[-1], ast.Tuple):
        return call.args[-1].elts
    heads = [word.value for word in call.keywords if word.arg and settings_of(word.arg)[:1] == ("num_heads",)]
    return heads if name == "rearrange" else []


def _matrices(shape: tuple[int, ...], E: int | None) -> list[tuple[int, ...]]:
    """The shape of a matrix, or those of as many as a tensor of three dimensions is: one for each head."""
    if len(shape) == 2 or 1 in shape:
        return [shape] * (len(shape) == 2)
    n, *one = shape if shape[0] != E else (shape[1], shape[0], shape[2])
    return [tuple(one)] * n


def _shapes(made: nn.Module) -> list[tuple[int, ...]]:
    """Of all parameters, those of layers in a Python list among them."""
    own = {id(values): values for _, part in walk(made) for values in part.parameters(recurse=False)}
    return [tuple(values.shape) for values in own.values() if not _is_lazy(values)]


def _out(shape: tuple[int, ...], E: int) -> int:
    """The other side of a matrix than d_model."""
    return shape[0] if shape[1] == E else shape[1]


def _is_lazy(values: Tensor) -> bool:
    return isinstance(values, nn.parameter.UninitializedParameter)


def attribute(made: nn.Module, setting: str) -> Any:
    """A number that an attribute of the module, or of a part, holds under a name for this setting."""
    for _, part in walk(made):
        for name, value in vars(part).items():
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if (
                is_number
                and value >= LEAST.get(setting, value)
                and not name.startswith("_")
                and setting in settings_of(name)[:1]
                and len(name) > (0 if part is made else 1)
            ):
                return value
    return None


def _from_shapes(
    kind: Kind, settings: Mapping[str, Any], sizes: list[tuple[int, ...]], used: Mapping[str, Any]
) -> dict[str, Any]:
    """Sizes by the shapes of the weights, where nobody asked for them."""
    found: dict[str, Any] = {}
    flat = [size for shape in sizes for size in shape if size > 1]
    d_model = settings.get("d_model")
    words = [settings[name] for name in ("src_vocab_size", "tgt_vocab_size") if name in settings]
    there = [size for size in words if size in flat]
    if len(words) == 2 and len(set(words)) == 2 and len(there) == 1:  # one vocabulary for both languages
        found |= dict.fromkeys(("src_vocab_size", "tgt_vocab_size"), there[0])
    heads = settings.get("num_heads") or 1
    wide = [size for size in flat if size % heads == 0]  # heads that do not divide it would be refused
    if d_model is not None and d_model not in flat and wide and "d_model" in kind.defaults:
        taken = next((shape[-1] for shape in sizes if len(shape) == 2), 0)  # by the first matrix
        d_model = max(set(wide), key=lambda size: (wide.count(size), size == taken, -wide.index(size)))
        found["d_model"] = d_model
    if "d_ff" in kind.defaults and settings.get("d_ff") not in flat and d_model:
        pairs = [tuple(s for s in shape if s > 1) for shape in sizes]
        wide = [
            max(pair)
            for pair in pairs
            if len(pair) == 2 and d_model in pair and max(pair) not in (d_model, 3 * d_model)
        ]
        vocabulary = {value for name, value in settings.items() if "vocab" in name or name == "max_len"}
        wide = [size for size in wide if size not in vocabulary]
        # Keys and values in one matrix, (2 d_model, d_model), are no half of anything: a half leads back.
        of_both = {pair for pair in pairs if len(pair) == 2 and {2 * d_model, 4 * d_model} & {*pair}}
        gated = of_both == {(4 * d_model, d_model), (d_model, 2 * d_model)}
        halves = {size for size in wide if gated or size != 2 * d_model}
        wide = [size for size in wide if not (size % 2 == 0 and size // 2 in halves)]  # gate and up in one matrix
        if wide:
            found["d_ff"] = max(set(wide), key=wide.count)
        elif (d_model, d_model) in pairs:  # it widens nothing
            found["d_ff"] = d_model
    is_head = {*kind.defaults} == {"d_model", "vocab_size"} and "vocab_size" not in used
    if is_head and settings.get("vocab_size") not in flat:  # Linear(d_model, 2)
        classes = [shape[0] for shape in sizes if len(shape) == 2 and shape[1] == d_model != shape[0]]
        found["vocab_size"] = classes[-1] if classes else d_model
    return found
