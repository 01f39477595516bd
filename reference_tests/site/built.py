"""The site as it was built: every link leads somewhere, nothing comes from the network. `tox -e docs` runs this."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

SITE = Path(__file__).parents[2] / "docs" / "_build" / "html"
PAGES = sorted(path for path in SITE.rglob("*.html") if "_downloads" not in path.parts)
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href", "object": "data"}


class Page(HTMLParser):
    """A page's ids, links and what it loads."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.loaded, self.images = set(), set(), set(), []
        self.text = path.read_text(encoding="utf-8")
        self.feed(self.text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.ids |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and given.get("href"):
            self.links.add(given["href"])
        if given.get(LOADED.get(tag)) and given.get("rel") not in ("canonical", "author"):
            self.loaded.add(given[LOADED[tag]])
        if tag == "img":
            self.images.append(given)


@pytest.fixture(scope="module")
def pages():
    assert len(PAGES) > 100
    return {path: Page(path) for path in PAGES}


def is_local(address):
    return not urlsplit(address).scheme and not address.startswith("//")


def target(path, address):
    """The file and the anchor that an address on a page leads to."""
    parts = urlsplit(address)
    return (path.parent / unquote(parts.path)).resolve() if parts.path else path, unquote(parts.fragment)


def test_every_link_leads_somewhere(pages):
    broken = []
    for path, page in pages.items():
        for address in filter(is_local, page.links | page.loaded):
            file, anchor = target(path, address)
            file = file / "index.html" if file.is_dir() else file
            has_anchor = not anchor or file not in pages or anchor in pages[file].ids
            if not file.exists() or not has_anchor:
                broken.append(f"{path.relative_to(SITE)}: {address}")
    assert not broken


def test_nothing_is_loaded_from_the_network(pages):
    loaded = {
        f"{path.relative_to(SITE)}: {address[:80]}"
        for path, page in pages.items()
        for address in page.loaded
        if not is_local(address) and not address.startswith("data:")
    }
    assert not loaded


def test_no_style_or_script_asks_the_network():
    asking = [
        f"{path.relative_to(SITE)}: {found}"
        for path in [*SITE.rglob("*.css"), *SITE.rglob("*.js"), SITE / "view.html"]
        for found in re.findall(
            r"(?:url\(|@import |import\(|fetch\(|src ?= ?)['\"]?(?:https?:)?//[^'\")\s]+",
            path.read_text(encoding="utf-8"),
        )
    ]
    assert not asking


def test_pages_fit_a_narrow_screen(pages):
    assert all('name="viewport"' in page.text for page in pages.values())


def test_every_picture_is_described(pages):
    missing = [
        str(path.relative_to(SITE)) for path, page in pages.items() for image in page.images if "alt" not in image
    ]
    assert not missing


def test_there_is_a_page_for_every_mistake(pages):
    from scratch_transformer.kit.mistakes import MISTAKES

    assert {path.stem for path in pages if path.parent.name == "mistakes"} == {*MISTAKES, "index"}


def test_every_page_with_cells_is_a_notebook_too(pages):
    linked = {path for path, page in pages.items() if any(link.endswith(".ipynb") for link in page.links)}
    with_cells = {path for path, page in pages.items() if 'class="cell_input' in page.text}
    assert linked >= with_cells > set()
