"""What the names of weights say about their part in attention. A new name for a projection goes in here."""

from __future__ import annotations

import re

FILLERS = {
    "w", "weight", "weights", "bias", "b", "proj", "projection", "projections", "linear", "linears", "layer", "layers",
    "lin", "dense", "fc", "matrix", "mat", "to", "head", "heads", "net", "transform", "map", "c", "all", "mh", "mha",
    "multihead", "attn", "attention", "self", "embedding", "embeddings", "embed", "kernel", "mapping", "param", "fn",
    "ff", "mlp", "vectors", "vector", "inner", "block", "module", "model", "a", "for", "the", "of", "s", "params",
    "msa",
}  # fmt: skip
ROLES = {
    "q": {"q", "query", "queries", "qs", "wq", "querys", "qw", "qb", "bq", "toqueries", "toquery", "toq"},
    "k": {"k", "key", "keys", "ks", "wk", "kw", "kb", "bk", "tokeys", "tokey", "tok"},
    "v": {"v", "value", "values", "vs", "wv", "val", "vals", "vw", "vb", "bv", "tovalues", "tovalue", "tov"},
    "o": {
        "o", "out", "output", "outputs", "os", "wo", "concat", "concatenate", "combine", "unify", "unifyheads", "final",
        "merge", "mix", "outputproj", "bo", "ow", "resid", "collapse", "cat", "last", "post",
    },
    "qkv": {"qkv", "in", "kqv", "wqkv", "qvk", "vkq", "input", "packed", "inproj", "fused"},
    "kv": {"kv", "wkv"},
    "qk": {"qk", "wqk"},
}  # fmt: skip

MADE_BY = "l|lin|linear|fc|dense|m|mat|mlp|net|p|proj|vec|emb|layer"
SHORT = re.compile(rf"([qkv])(?:{MADE_BY})|(?:{MADE_BY})([qkv])")
"""ql, qlin, linq, projq, fcq: a letter, and what makes it."""


def role_of(path: str) -> str | None:
    """The role of a weight of attention by its path: "q", "k", "v", "o", "qkv", "kv", "qk"; None if it says nothing.

    attn.heads.0.query.weight -> "q"; c_attn.weight -> "qkv"; proj_key_values.weight -> "kv"; fc.weight -> "o".
    """
    parts = [part for part in path.split(".") if not part.isdigit() and part.lower() not in ("weight", "bias")]
    roles = [role for part in reversed(parts) if (role := _role_of_part(part)) is not None]
    if roles[:1] == ["qkv"]:  # of a class that makes any of them: q_layer.qkv_linear
        return next((role for role in roles if role in SINGLE), "qkv")
    return roles[0] if roles else None


SINGLE = ("q", "k", "v", "kv", "qk")


def _role_of_part(part: str) -> str | None:
    """What one name in a path says."""
    words = [word.lower() for word in re.split(r"_|(?<=[a-z])(?=[A-Z])|\d+", part) if word]
    if "".join(words) in ("cattn", "attnproj", "qkvproj"):
        return "qkv" if "".join(words) != "attnproj" else "o"
    telling = [word for word in words if word not in FILLERS]
    joined = "".join(role for role in "qkv" if ROLES[role] & {*telling})
    if len(joined) > 1 and joined in ROLES:
        return joined  # proj_key_values
    for role, names in ROLES.items():
        if telling and (telling[0] in names or "".join(telling) in names):
            return role
    if len(telling) == 1 and (short := SHORT.fullmatch(telling[0])):
        return short[1] or short[2]
    meant = {role for role in ROLES for word in telling if word in ROLES[role]}
    if len(meant) == 1:
        return meant.pop()
    is_output = not telling and set(words) & {"proj", "projection", "fc", "dense", "linear", "lin", "ff"}
    return "o" if is_output else None
