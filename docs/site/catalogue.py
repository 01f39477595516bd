"""A page for every mistake of the kit's catalogue, written before the site is built, with its demonstration run."""

import re
from pathlib import Path

from docs.site.docstrings import inline
from scratch_transformer.commands.explain import SEVERITIES
from scratch_transformer.kit.mistakes import FAMILIES, MISTAKES, family
from scratch_transformer.kit.mistakes.demonstrate import demonstrate

FOLDER = "mistakes"


def setup(app):
    """Write the pages before Sphinx looks for files."""
    app.connect("builder-inited", write)


def write(app):
    """mistakes/LN1.md and so on; what is as before keeps its date, so that Sphinx does not read it again."""
    folder = Path(app.srcdir) / FOLDER
    for stale in {path.stem for path in folder.glob("*.md")} - {*MISTAKES, "index"}:
        (folder / f"{stale}.md").unlink()
    for mistake in MISTAKES.values():
        place, text = folder / f"{mistake.id}.md", page(mistake)
        if not place.exists() or place.read_text(encoding="utf-8") != text:
            place.write_text(text, encoding="utf-8")


def page(mistake):
    """All that is known of one mistake."""
    forms = [form for form in mistake.changes if form]
    parts = {
        "What the code does": mistake.does,
        "What is right": mistake.expected,
        "The mathematics": mistake.mathematics and mathematics(mistake.mathematics),
        "Its forms": "\n".join(f"- {form}" for form in forms) if len(forms) > 1 else "",
        "A demonstration": demonstration(mistake),
        "The fix": mistake.fix,
        "Source": mistake.source,
        "Not recognised by `check`": mistake.explain_only,
    }
    head = f"# {mistake.id}: {plain(mistake.title)}\n\n*{SEVERITIES[mistake.severity].capitalize()}.* In the terminal:"
    made = ("The mathematics", "A demonstration", "Its forms")
    sections = [f"## {title}\n\n{text if title in made else plain(text)}\n" for title, text in parts.items() if text]
    return f"{head} `scratch-transformer explain {mistake.id}`.\n\n" + "\n".join(sections)


def plain(text):
    """Sentences as Markdown in which nothing is markup."""
    return re.sub(r"([\\`*_<>$\[\]])", r"\\\1", text)


def mathematics(text):
    """Its lines, with formulas where there are any."""
    parts = [part for line in text.splitlines() for part in re.split(r"\s{3,}", line.strip())]
    return "```{eval-rst}\n" + "\n".join(f"| {inline(part)}" for part in parts) + "\n```"


def demonstration(mistake):
    """The code, and what it has printed just now."""
    return f"```python\n{mistake.demo.strip()}\n```\n\nprints\n\n```text\n{demonstrate(mistake).strip()}\n```"


def table():
    """For the index: every mistake in the catalogue's order, a table for each part of the model."""
    made = []
    for part, found in by_part().items():
        rows = [f"| [{m.id}]({m.id}.md) | [{plain(m.title)}]({m.id}.md) | {SEVERITIES[m.severity]} |" for m in found]
        made += [f"## {part}", "", "| | | |", "| --- | --- | --- |", *rows, ""]
    return "\n".join(made)


def by_part():
    """The mistakes in the catalogue's order, by the part of the model that the letters of their ids stand for."""
    found = {}
    for mistake in MISTAKES.values():
        found.setdefault(FAMILIES[family(mistake.id)], []).append(mistake)
    return {f"{part[0].upper()}{part[1:]}": some for part, some in found.items()}


def toctree():
    """The pages, hidden from the page itself."""
    return "\n".join(["```{toctree}", ":hidden:", ":maxdepth: 1", "", *MISTAKES, "```"])
