"""Docstrings are plain text, to be read in the source. Here they become reStructuredText, with formulas as formulas."""

import re

from docs.site.formulas import ABOVE, BELOW, FUNCTIONS, RELATIONS, TOKEN, NoFormula, latex, parts

SECTIONS = ("Args:", "Returns:", "Raises:", "Yields:", "Attributes:", "Example:", "Examples:", "Note:")
# Words between formulas; other words may be operands: q = (1 - ε) target + ε / C.
PROSE = {
    *(
        "True",
        "False",
        "None",
        "a",
        "A",
        "I",
        "above",
        "aligned",
        "all",
        "along",
        "an",
        "and",
        "any",
        "are",
        "as",
        "at",
    ),
    *("away", "be", "before", "below", "between", "but", "by", "called", "can", "computed", "does", "each", "either"),
    *("else", "equals", "every", "exact", "for", "from", "given", "had", "has", "have", "how", "if", "in", "instead"),
    *("into", "is", "it", "its", "just", "less", "like", "may", "more", "neither", "no", "nor", "not", "of", "on"),
    *(
        "only",
        "or",
        "outside",
        "over",
        "per",
        "same",
        "so",
        "stands",
        "such",
        "than",
        "that",
        "the",
        "their",
        "then",
        "times",
    ),
    *("there", "these", "they", "this", "those", "to", "twice", "under", "unless", "up", "was", "were", "what", "when"),
    *("where", "which", "while", "who", "with", "without"),
}
STRONG = set(RELATIONS) - {","} | set("√Σ∂·×⊙") | set(ABOVE + BELOW)


def setup(app):
    """Before napoleon, which reads the sections."""
    app.connect("autodoc-process-docstring", process, priority=100)


def process(app, what, name, obj, options, lines):
    """Sphinx's hook: rewrites the lines in place."""
    lines[:] = restructured(lines)
    if what == "attribute":
        lines.insert(0, "\\ ")  # napoleon would take the first words before a colon for its type


def restructured(lines):
    """The docstring's lines as reStructuredText."""
    lines = list(with_whole_code(lines))
    made, section, at = [], False, 0
    while at < len(lines):
        line = lines[at]
        indent = len(line) - len(line.lstrip())
        if line.startswith("|"):
            rows = taken(lines, at, lambda text: text.startswith("|"))
            made += ["", *table(rows), ""]
            at += len(rows)
        elif (line.strip() and not section and indent >= 4) or "──" in line or "─ " in line:
            block = taken(lines, at, lambda text: text.startswith("    ") or "─" in text)
            made += ["", *display(block), ""]
            at += len(block)
        elif (
            indent == 0 and line.endswith(":") and line not in SECTIONS and re.match(r"    \w+:", (*lines, "")[at + 1])
        ):
            block = taken(lines, at + 1, lambda text: text.startswith("    "))
            made += [inline(line), "", *arguments(block), ""]
            at += 1 + len(block)
        else:
            if indent == 0 and line.strip():
                section = line.strip() in SECTIONS
            made.append(" " * indent + inline(line.strip()) if line.strip() not in SECTIONS else line)
            at += 1
    return made


def with_whole_code(lines):
    """Code in backticks that is broken over two lines stands on one."""
    open_line = ""
    for line in lines:
        line = f"{open_line} {line.strip()}" if open_line else line
        open_line = line if line.count("`") % 2 else ""
        if not open_line:
            yield line
    if open_line:
        yield open_line


def taken(lines, at, belongs):
    """The lines from `at` on that belong together; empty ones between them too."""
    end = at
    while end < len(lines) and (
        belongs(lines[end]) or (not lines[end].strip() and any(map(belongs, lines[end + 1 : end + 2])))
    ):
        end += 1
    return lines[at:end]


def arguments(block):
    """`name: what it is` under a heading that napoleon does not know, as a list."""
    for line in block:
        name = re.match(r"    (\w+): (.*)", line)
        yield f"* **{name[1]}**: {inline(name[2])}" if name else f"  {inline(line.strip())}"


def table(rows):
    """A table with bars as a list-table."""
    made = [".. list-table::", "   :header-rows: 1", ""]
    for row in rows:
        cells = [cell.strip() for cell in row.strip("| ").split("|")]
        if not set("".join(cells)) <= set("-: "):
            made += [f"   {'* -' if not n else '  -'} {inline(cell)}" for n, cell in enumerate(cells)]
    return made


def display(block):
    """Equations one below the other if there is one in every line; otherwise the text as it stands."""
    lines = ["  ".join(inline(part) for part in re.split(r"\s{2,}", line.strip())) for line in block if line.strip()]
    if not all(":math:" in line for line in lines):
        indent = min(len(line) - len(line.lstrip()) for line in block if line.strip())
        return ["::", "", *(f"   {line[indent:]}" for line in block)]
    return [f"| {line}" for line in lines]


def inline(text):
    """A line: code in backticks, formulas, and escaped text."""
    pieces = re.split(r"(`[^`]+`|\*\*[^*]+\*\*|\*[A-Za-z][A-Za-z ]*\*)", text)
    for n, piece in enumerate(pieces):
        if n % 2 and piece.startswith("`"):
            pieces[n] = markup(f"`{piece}`", pieces[n - 1], pieces[n + 1])
        elif piece[:1] != "*" or piece[-1:] != "*":
            pieces[n] = with_formulas(piece)
    return "".join(pieces)


def markup(text, before, after):
    """What is marked up, set off from letters around it in the way of reStructuredText."""
    left = "\\ " if before and before[-1] not in " '\"([{<-/:" else ""
    right = "\\ " if after and after[0] not in " '\")]}>-/\\:.,;!?" else ""
    return left + text + right


def with_formulas(text):
    """The text with :math: where there is a formula."""
    made, end = "", 0
    for start, stop in formulas(text):
        try:
            formula = latex(text[start:stop])
        except NoFormula:
            continue
        made += escaped(text[end:start]) + markup(f":math:`{formula}`", text[:start], text[stop:])
        end = stop
    return made + escaped(text[end:])


def escaped(text):
    """Nothing in it is markup."""
    return re.sub(r"([*_|`\\])", r"\\\1", text)


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
