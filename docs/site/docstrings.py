"""Docstrings are plain text, to be read in the source. Here they become reStructuredText, with formulas as formulas."""

import re

from docs.site.formulas import NoFormula, latex
from docs.site.sentences import formulas

SECTIONS = ("Args:", "Returns:", "Raises:", "Yields:", "Attributes:", "Example:", "Examples:", "Note:")


def setup(app):
    """Before napoleon, which reads the sections."""
    app.connect("autodoc-process-docstring", process, priority=100)


def process(app, what, name, obj, options, lines):
    """Sphinx's hook: rewrites the lines in place."""
    lines[:] = restructured(lines)
    if what in ("attribute", "data", "property"):
        lines.insert(0, "\\ ")  # napoleon would take the first words before a colon for its type


def restructured(lines):
    """The docstring's lines as reStructuredText."""
    lines = list(with_whole_code(lines))
    made, section, at = [], False, 0
    while at < len(lines):
        if lines[at].strip() and not lines[at].startswith(" "):
            section = lines[at] in SECTIONS
        written, number = block(lines, at, section)
        made += written
        at += number
    return made


def block(lines, at, section):
    """What begins at a line, rewritten, and how many lines it takes. section: whether napoleon will read it."""
    line = lines[at]
    if line.startswith("|"):
        rows = taken(lines, at, lambda text: text.startswith("|"))
        return ["", *table(rows), ""], len(rows)
    if (line.startswith("    ") and not section) or "──" in line or "─ " in line:
        rows = taken(lines, at, lambda text: text.startswith("    ") or "─" in text)
        return ["", *display(rows), ""], len(rows)
    if line.endswith(":") and not section and re.match(r"    \w+:", (*lines, "")[at + 1]):
        rows = taken(lines, at + 1, lambda text: text.startswith("    "))
        return [inline(line), "", *arguments(rows), ""], 1 + len(rows)
    indent = len(line) - len(line.lstrip())
    return [line if line in SECTIONS else " " * indent + inline(line.strip())], 1


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


def arguments(rows):
    """`name: what it is` under a heading that napoleon does not know, as a list."""
    for line in rows:
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
