"""The fix of a mistake on the learner's own line, where one line is all that has to change."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from scratch_transformer.kit.mistakes.blocks import MOVED
from scratch_transformer.kit.mistakes.normalization import AT_LEAST, OF_A_SIZE

Rewrite = Callable[[str], str]
MASK = r"(?P<mask>(?:self\.)?\w*mask\w*(?:\[[^\]]*\])?)"
SCORES = r"(?P<scores>\w+)"
LEAST = (
    r"(?<!\*)(?<!\* )(?:-\s*1e4|-\s*10000(?:\.0*)?|-\s*1e\+?0?9|-\s*1e1[0-9]|float\(['\"]-1e\d+['\"]\)|-\s*1e20)"
    r"(?![\d.]| ?\*)"
)
"""Not as a factor: the mask times -∞ is NaN."""
INF = 'float("-inf")'


def fixed(id: str, form: str, lines: Sequence[str]) -> tuple[int, list[str]] | None:
    """The index of the line to change, and what to put in its place; None if no single line is at fault for sure."""
    rewrite = _rewrite(id, form)
    for index, line in enumerate(lines) if rewrite else ():
        code, hash, comment = line.partition("#")
        if code.lstrip().startswith(("def ", "class ", '"', "'", "assert", "raise", "import", "from")) and id != "LN3":
            continue
        new = rewrite(code.rstrip()) if rewrite else code
        if new != code.rstrip():
            return index, (new + ("  " + hash + comment if hash else "")).split("\n")
    return None


def repeated(id: str, form: str, lines: Sequence[str]) -> dict[int, str]:
    """The indices of all lines that are to be changed in the same way, and what to put in the place of each.

    Of what is often written several times: projections without biases, what masks are filled with. {} if it is not.
    """
    found = [(n, new) for n, line in enumerate(lines) if id in REPEATED and (new := fixed(id, form, [line]))]
    return {n: new[1][0] for n, new in found if len(new[1]) == 1} if len(found) <= MOST_OF_A_KIND else {}


REPEATED, MOST_OF_A_KIND = ("A8", "A10", "A14"), 4
"""Of more, some are other things: a network's layers, the model's head."""


def _rewrite(id: str, form: str) -> Rewrite | None:
    if id == "A1":
        return _unscaled if form == "not scaled" else _rescaled if form.startswith(("divided", "multiplied")) else None
    if id == "A16":
        test = "!= 0" if form.startswith("1 = blocked") else "== 0"
        return _by(rf"{SCORES} \+ {MASK}", rf"\g<scores>.masked_fill(\g<mask> {test}, {INF})")
    if id == "A4" and not form:
        return _by(rf"{SCORES} \* {MASK}", rf"\g<scores>.masked_fill(\g<mask> == 0, {INF})")
    if (id, form) == ("A4", "filled with +inf"):
        return _by(r"(?<![-\w.])(?:float\(['\"]inf['\"]\)|(?:math|torch|np)\.inf\b)", INF)
    if id in ("A5", "A6") and form in ("hides the diagonal", "sees one token ahead"):
        return _by(r"(tril\(.*), (?:diagonal=)?-?1\)", r"\1)")
    if id in ("P5", "A30", "B32") and form:
        name, kept = form.rpartition(".")[2], "" if id == "P5" else ", persistent=False"
        return _by(rf"^(\s*)self\.{name} = (\w+|.*[)\]])$", rf'\1self.register_buffer("{name}", \2{kept})')
    if id == "LN3" and form.startswith((AT_LEAST, OF_A_SIZE)):
        return None  # by what its variance is made, or what it is told, not by a default
    if (id, form) == ("B26", "view"):
        return _by(r"\.view\(", ".reshape(")
    if id in WRITTEN:
        return WRITTEN[id]
    if id == "B10":
        moved = (r"(\bParameter\(.*\))\.(?:to|cuda)\((?:[^()]|\([^()]*\))*\)$", r"\1")
        return _by(*moved) if form == MOVED else _by(r"^(\s*self\.\w+ = )(\[.*\])$", r"\1nn.ModuleList(\2)")
    if id in ("A8", "A10"):  # a number for each type, in one line
        return _infinite
    patterns = REWRITES.get(id)
    return _by(*patterns) if patterns else None


SETTING = re.compile(r"[(,] *bias ?= ?(?!True|False|None)([A-Za-z_][\w.]*)|\bif ([\w.]*bias)\b")
"""Whether there is a bias, of a linear layer or a norm, where something else says so."""


MATRIX = re.compile(r"self\.(?!b\w?\b|\w*bias)\w+ *=[^=\n]*\bParameter\([^\n]*,")
"""A parameter of two sizes, which is no bias."""


OF_TORCHS = "dropout_p=self.p if self.training else 0.0, in the call: that function is not told of training otherwise."


def settled_by(id: str, line: str) -> str:
    """The fix of a bias that is left out, as the line has it: by a setting, which is to be changed, or a parameter of
    its own; of embeddings that are rows of one; of positions that are the first rows of a table; of dropout within
    torch's function. "" for anything else.
    """
    if id == "P7" and (cut := re.search(r"([\w.]+)\[(:, *)?: *([\w.]+(?:\(\w*\)|\[\w\])?)(?=[\],])", line)):
        rows = f"{cut[1]}[{cut[2] or ''}offset : offset + {cut[3]}]"
        return f"{rows}, offset being the number of tokens already seen."
    if id == "A14" and MATRIX.search(line):
        return "A vector beside each matrix, nn.Parameter(torch.zeros(d_model)), added to the product, if it is wanted."
    if id == "E2" and (row := re.search(r"(self\.[\w.]+)\[\w+\]", line)):
        return f"{row[0]} * {row[1]}.shape[-1] ** 0.5."
    if id == "A18" and "scaled_dot_product_attention(" in line:
        return OF_TORCHS
    found = SETTING.search(line) if id in ("A14", "LN6") else None
    name = next(filter(None, found.groups())) if found else ""
    return f"{name} = True, where that is set to False, if PyTorch's default is wanted." if name else ""


ANNOTATION = r"(?: ?: ?[\w.]+(?:\[[\w., ]*\])?(?: ?\| ?None)?)? ?"
"""Of a parameter, before its default: float, Optional[float]."""
REWRITES: Mapping[str, tuple[str, str]] = {
    "LN3": (
        rf"(\beps\w*{ANNOTATION}= ?)(?!1e-0?5\b|0\.00001\b|10 ?\*\* ?\(?-5\b)"
        r"(?:10 ?\*\* ?(?:\(-\d+\)|-\d+)|\d(?:[\d.]|e-\d)*)",
        r"\g<1>1e-5",
    ),
    "A2": (r"(softmax\((?:.*, )?(?:dim=|axis=)?)(?:-[23]|[0-3])\)", r"\g<1>-1)"),
    "A4": (r"(?<!-)\b1e-\d+|-\s*1e-\d+", INF),
    "A12": (r"(\w+) (\+|\*)= ", r"\1 = \1 \2 "),
    "A14": (r"(Linear\(.*), bias=False", r"\1"),
    "B9": (r"\[(\w+)\] ?\* ?([\w.]+)", r"[copy.deepcopy(\1) for _ in range(\2)]"),
}
"""Id -> pattern of the code at fault, and its replacement."""


def _by(pattern: str, replacement: str) -> Rewrite:
    return lambda code: re.sub(pattern, replacement, code, count=1)


def _infinite(code: str) -> str:
    """-1e9 if scores.dtype == torch.float32 else -1e4: one for all."""
    return re.sub(rf"{re.escape(INF)} if .+? else {re.escape(INF)}", INF, re.sub(LEAST, INF, code))


def _asked_for(code: str) -> str:
    """if mask:, if not mask:, … if mask else …: whether it is there."""
    turned = re.sub(r"\b(if )not (\w*mask\w*)(?=:$| else )", r"\1\2 is None", code, count=1)
    return re.sub(r"\b(if )(\w*mask\w*)(?: == True| is True)?(?=:$| else )", r"\1\2 is not None", turned, count=1)


def _in_training(code: str) -> str:
    """F.dropout(x, p), and dropout_p=p of scaled_dot_product_attention, which is not told of training otherwise."""
    call = r"(F\.dropout|functional\.dropout)\(((?:(?!training)[^()]|\([^()]*\))*)\)"
    told = re.sub(call, r"\1(\2, training=self.training)", code, count=1)
    return re.sub(r"\bdropout_p ?= ?([\w.]+)(?= ?[,)]|$)", r"dropout_p=\1 if self.training else 0.0", told, count=1)


EPS = r"((?:\w+\.)*\w*eps\w*|1e-\d+)"
CHAIN = r"([\w.]+(?:\((?:[^()]|\([^()]*\))*\)(?:\.\w+)*?)*)"
"""x.pow(2).mean(-1, keepdim=True)."""


def _inside(code: str) -> str:
    """(std + eps); var.sqrt() + eps, torch.sqrt(var) + eps: inside of the root, wherever eps is kept."""
    for old, new in (
        (rf"(?<![\w.])\((\w+) ?\+ ?{EPS}\)", r"(\1**2 + \2) ** 0.5"),
        (rf"= {CHAIN}\.sqrt\(\) ?\+ ?{EPS}$", r"= (\1 + \2).sqrt()"),
        (rf"\b((?:torch|math)\.sqrt)\({CHAIN}\) ?\+ ?{EPS}(?=$|\))", r"\1(\2 + \3)"),
    ):
        if (found := re.sub(old, new, code, count=1)) != code:
            return found
    return code


def _checked(code: str) -> str:
    """d_k = d_model // heads, int(d_model / heads): with a check before it."""
    divided = (
        r"^(\s*)(.*?)([\w.]+) ?// ?([a-zA-Z_][\w.]*)(.*)$",
        r"^(\s*)(.*?\bint\()([\w.]+) ?/ ?([a-zA-Z_][\w.]*)(\).*)$",
    )
    found = next(filter(None, (re.match(pattern, code) for pattern in divided)), None)
    if found is None:
        return code
    return f"{found[1]}assert {found[3]} % {found[4]} == 0, f'{{{found[4]}=}} must divide {{{found[3]}=}}'\n{code}"


def _kept(code: str) -> str:
    """scores.masked_fill(…) that nothing keeps; with -inf, where its number blocks nothing: -1e-9 for -1e9 (A4)."""
    kept = re.sub(r"^(\s*)(\w+)(\.masked_fill\(.*\))$", r"\1\2 = \2\3", code)
    return kept if kept == code else re.sub(r"-\s*1e-\d+", INF, kept, count=1)


def _by_n(code: str) -> str:
    """x.std(-1), and x.std() of all numbers: divided by n."""
    found = re.search(r"\.(?:std|var)\(((?:(?!unbiased|correction|ddof)[^()]|\([^()]*\))*)\)", code)
    return f"{code[: found.end(1)]}{', ' * bool(found[1])}unbiased=False{code[found.end(1) :]}" if found else code


WRITTEN: Mapping[str, Rewrite] = {
    "A19": _checked, "A24": _kept, "A31": _asked_for, "B12": _in_training, "LN1": _by_n, "LN2": _inside,
}  # fmt: skip
"""What takes more than one pattern."""


def _query(code: str) -> str | None:
    """The name of the first operand of q @ kᵀ, torch.matmul(q, kᵀ), torch.bmm(q, kᵀ)."""
    found = re.search(r"(?:matmul|bmm)\((\w+),|(\w+) @ ", code)
    return next(filter(None, found.groups()), None) if found else None


def _unscaled(code: str) -> str:
    """scores = q @ k.transpose(-2, -1): the whole right side is divided, but for a mask that is added."""
    query, product = (
        _query(code),
        re.match(r"^(\s*\w+ = )((?:torch\.)?(?:matmul|bmm)\(.*\)|\w+ @ \w+[\w.()\-, ]*)( \+ [\w.]*mask\w*)?$", code),
    )
    is_scores = re.search(r"transpose|permute|\.mT\b|\.T\b|swapaxes", code)
    if not query or not product or not is_scores:
        return code
    return f"{product[1]}{product[2]} / {query}.size(-1) ** 0.5{product[3] or ''}"


def _rescaled(code: str) -> str:
    """… / math.sqrt(self.d_model), … * math.sqrt(d_k), … / d_k ** -0.5: another divisor."""
    query = _query(code)
    divisor = (
        r" [/*] (?:\(?(?:math|np|torch)\.sqrt\([^()]*(?:\([^()]*\))?\)\)?|\(?[\w.]+ ?\*\* ?\(?-?[\d./ ]+\)?\)?|[\w.]+)$"
    )
    return re.sub(divisor, f" / {query}.size(-1) ** 0.5", code) if query else code
