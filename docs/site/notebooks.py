"""Every page with code cells can be taken along as a notebook: plain Markdown, plain code, nothing of Sphinx."""

import re
import shutil
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import nbformat
from sphinx.directives.code import LiteralIncludeReader

HEAD = re.compile(r"\A---\n.*?\n---\n", re.S)
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```[ \t]*$", re.M | re.S)
FENCE = re.compile(
    r"^(?P<ticks>`{3,}|:{3,})\{(?P<name>[\w:-]+)\}(?P<title>[^\n]*)\n(?P<body>.*?)^(?P=ticks)[ \t]*$", re.M | re.S
)
OPTION = re.compile(r"^:([\w-]+):[ \t]*(.*)\n", re.M)
ROLE = re.compile(r"\{[\w:-]+\}`([^`<]*?)(?:\s*<[^`>]*>)?`")
FOLDED = ("dropdown", "toggle")


def setup(app):
    """Write the notebooks after the build, and let pages know that they have one; have all processes run some."""
    app.connect("env-before-read-docs", spread)
    app.connect("html-page-context", link)
    app.connect("build-finished", write)


def is_notebook(app, page):
    """Whether the page's head says that it has code cells."""
    if page not in app.env.found_docs:
        return False
    head = HEAD.match(Path(app.env.doc2path(page)).read_text(encoding="utf-8"))
    return bool(head) and "mystnb" in head[0]


def spread(app, env, docnames):
    """Pages that are run, which take seconds each, evenly among the others: neighbours are read by one process."""
    run = [page for page in docnames if is_notebook(app, page)]
    rest = [page for page in docnames if page not in run]
    place = {page: (number + 0.5) / len(pages) for pages in (run, rest) for number, page in enumerate(pages)}
    docnames.sort(key=place.get)


def link(app, pagename, templatename, context, doctree):
    """The address of the page's notebook, for the template."""
    if is_notebook(app, pagename):
        context["notebook"] = context["pathto"](f"_notebooks/{pagename}.ipynb", 1)


def write(app, exception):
    """All notebooks, without outputs: they are there to be run."""
    if exception or app.builder.format != "html":
        return
    target = Path(app.outdir) / "_notebooks"
    shutil.rmtree(target, ignore_errors=True)
    for page in filter(partial(is_notebook, app), app.env.found_docs):
        place = target / f"{page}.ipynb"
        place.parent.mkdir(parents=True, exist_ok=True)
        source = Path(app.env.doc2path(page))
        nbformat.write(notebook(source.read_text(encoding="utf-8"), source.parent), place)


def notebook(text, folder):
    """A page's source as a notebook. folder: where it lies, for the files that it includes."""
    text = HEAD.sub("", text)
    cells, end = [], 0
    for fence in CELL.finditer(text):
        cells.append(nbformat.v4.new_markdown_cell(plain(text[end : fence.start()], folder).strip()))
        cells.append(nbformat.v4.new_code_cell(OPTION.sub("", fence[1]).strip()))
        end = fence.end()
    cells.append(nbformat.v4.new_markdown_cell(plain(text[end:], folder).strip()))
    made = nbformat.v4.new_notebook(cells=[cell for cell in cells if cell.source])
    for number, cell in enumerate(made.cells):
        cell.id = f"cell-{number}"
    made.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return made


def plain(text, folder):
    """Markdown that Jupyter shows: directives by what they hold, roles by their text."""
    return ROLE.sub(r"`\1`", FENCE.sub(lambda fence: directive(fence, folder), text))


def directive(fence, folder):
    """A directive's content, under its title."""
    name, title, body = fence["name"], fence["title"].strip(), fence["body"]
    options = dict(OPTION.findall(re.match(r"(?::[\w-]+:[^\n]*\n)*", body)[0]))
    content = plain(re.sub(r"\A(?::[\w-]+:[^\n]*\n)*", "", body), folder).strip()
    if name == "literalinclude":
        return f"```python\n{included(folder / title, options)}\n```"
    if name == "math":
        return f"$$\n{content}\n$$"
    if name in ("figure", "image", "toctree", "computed"):
        return ""
    if name in FOLDED or "dropdown" in options.get("class", ""):
        return f"<details><summary>{title}</summary>\n\n{content}\n\n</details>"
    heading = title or name.capitalize()
    return f"**{heading}**\n\n{content}" if title or name in ("note", "tip", "warning", "hint") else content


def included(file, options):
    """The part of a file that the directive's options ask for."""
    config = SimpleNamespace(source_encoding="utf-8")
    options = {name: int(value) if name == "dedent" else value for name, value in options.items()}
    return LiteralIncludeReader(str(file), options, config).read()[0].rstrip("\n")
