"""Formulas in sentences: which part of a line of a docstring is mathematics, and which is words."""

import re

from docs.site.formulas import ABOVE, BELOW, FUNCTIONS, RELATIONS, TOKEN, parts

# Words between formulas; other words may be operands: q = (1 - ε) target + ε / C.
WORDS = """
True False None a A I above aligned all along an and any are as at away be before below between but by called can
computed does each either else equals every exact for from given had has have how if in instead into is it its just
less like may more neither no nor not of on only or outside over per same so stands such than that the their then
there these they this those times to twice under unless up was were what when where which while who with without
"""
PROSE = set(WORDS.split())
STRONG = set(RELATIONS) - {","} | set("√Σ∂·×⊙") | set(ABOVE + BELOW)


def formulas(text):
    """(start, end) of what may be formulas: tokens between words of prose and full stops."""
    for sequence in sequences(text):
        sequence = trimmed(sequence, text)
        if sequence and is_formula(sequence, text):
            for equation in equations(sequence, text):
                yield equation[0][1], equation[-1][2]


def equations(sequence, text):
    """a = b, c = d are two, which may stand on two lines; a, b = c, d is one."""
    split, depth = [[]], 0
    for kind, start, stop in sequence:
        depth += {"open": 1, "close": -1}.get(kind, 0)
        if depth == 0 and text[start:stop] == ",":
            split.append([])
        else:
            split[-1].append((kind, start, stop))
    has_relation = [any(kind == "relation" and text[start:stop] != "," for kind, start, stop in part) for part in split]
    return split if all(has_relation) else [sequence]


def sequences(text):
    """Runs of (kind, start, end) without prose."""
    sequence = []
    found = list(lexed(text))
    for n, token in enumerate(found):
        kind, start, stop = token
        if kind and not is_prose(found, n, text):
            sequence.append(token)
            continue
        if not kind or text[start:stop] in PROSE:  # cut off by another word, it may be half of something
            yield sequence
        sequence = []
    yield sequence


def lexed(text):
    """All tokens; what is none has the kind ""."""
    end = 0
    while end < len(text):
        match = TOKEN.match(text, end)
        if match is None:
            end += 1 + len(text[end:]) - len(text[end:].lstrip())
            yield "", end - 1, end
            continue
        start = match.start(match.lastgroup)
        for kind, word in parts(match.lastgroup, match[match.lastgroup]):
            yield kind, start, start + len(word)
            start += len(word)
        end = match.end()


def is_prose(found, n, text):
    """Whether a name is a word of the sentence and no operand."""
    kind, start, stop = found[n]
    word = text[start:stop]
    before, after = (found[m][0] if 0 <= m < len(found) else "" for m in (n - 1, n + 1))
    has_scripts = after in ("subscript", "superscript", "open") and text[stop : stop + 1].strip()  # head_h, Concat(
    if kind != "name" or has_scripts:
        return False
    if word in PROSE:
        return True
    if len(word) == 1 or word in FUNCTIONS or "\u0302" in word or re.fullmatch("d[a-z]", word):
        return False
    comma = text[stop:].lstrip().startswith(",") and before != "open"
    if before == "close" or comma:
        return comma or after not in ("sign", "over", "close")
    return not (
        before in ("sign", "relation", "over", "open", "") and after in ("sign", "relation", "over", "close", "")
    )


def trimmed(sequence, text):
    """Without commas and operators at the ends, and with as many brackets opened as closed."""
    if sequence and text[sequence[0][1] : sequence[0][2]] == "…":
        return []
    if sequence and sequence[0][0] in ("relation", "over", "close", "subscript", "superscript"):
        return []
    depth, whole = 0, 0
    for n, (kind, _, _) in enumerate(sequence):
        depth += {"open": 1, "close": -1}.get(kind, 0)
        if depth < 0:
            break
        whole = n + 1 if depth == 0 else whole
    sequence = sequence[:whole]
    if sequence and text[sequence[-1][1] : sequence[-1][2]] == ",":
        sequence = sequence[:-1]
    if len(sequence) > 2 and text[sequence[-2][1] : sequence[-2][2]] == ",":
        _, start, stop = sequence[-1]  # gelu(x) = x Φ(x), Φ the …; relu(x) = max(0, x), elementwise
        if text[stop:].lstrip()[:1].isalpha() or stop - start > 3:
            return sequence[:-2]
    return sequence if sequence and sequence[-1][0] not in ("relation", "over", "sign", "big", "root") else []


def is_formula(sequence, text):
    """Whether it says more than a list of names: an operator, and something of mathematics on both sides of each =."""
    words = [text[start:stop] for _, start, stop in sequence]
    kinds = [kind for kind, _, _ in sequence]
    binary = any(
        kind in ("sign", "over")
        and 0 < n < len(words) - 1
        and kinds[n - 1] not in ("relation", "open")
        and not re.match(r"\w{2}.\w{2}", text[start - 2 : stop + 2])  # norm_type-norm
        for n, (kind, start, stop) in enumerate(sequence)
    )
    if not binary and not any(set(word) & STRONG for word in words):
        return False
    if any(
        text[start - 1 : start].strip() or text[stop : stop + 1].strip()
        for kind, start, stop in sequence
        if text[start:stop] == "="
    ):
        return False  # eps=1e-5 is code
    sides, side = [], []
    for kind, word in zip(kinds, words, strict=True):
        if word in RELATIONS and word != ",":
            sides.append(side)
            side = []
        else:
            side.append((kind, word))
    sides.append(side)
    return (
        all(sides)
        and all(any(is_mathematical(kind, word) for kind, word in side) for side in sides)
        and sides[0][0][0] != "number"
    )


def is_mathematical(kind, word):
    """A variable, a function, a root, a script: not a plain word."""
    return (
        kind in ("identifier", "root", "big", "superscript", "number")
        or (kind == "name" and (len(word) <= 2 or word in FUNCTIONS or "\u0302" in word))
        or kind == "subscript"
    )
