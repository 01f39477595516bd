"""A page with code cells as a notebook: nothing of Sphinx is left in it."""

from types import SimpleNamespace

import pytest

pytest.importorskip("sphinx", reason="the site's own packages: tox -e docs")

from docs.site.notebooks import notebook, spread

PAGE = """---
file_format: mystnb
---

# Title

:::{dropdown} Predict: how many?
Two, see {doc}`index`.
:::

```{literalinclude} code.py
:pyobject: f
```

```{code-cell} python3
:tags: [hide-input]
print(1)
```

```{math}
a = b
```
"""


@pytest.fixture
def cells(tmp_path):
    (tmp_path / "code.py").write_text("def f():\n    return 1\n\n\ndef g():\n    return 2\n")
    return notebook(PAGE, tmp_path).cells


def test_the_cells(cells):
    assert [cell.cell_type for cell in cells] == ["markdown", "code", "markdown"]
    assert cells[1].source == "print(1)"
    assert cells[2].source == "$$\na = b\n$$"


def test_the_words(cells):
    words = cells[0].source
    assert "file_format" not in words and "{dropdown}" not in words and "{doc}" not in words
    assert "<details><summary>Predict: how many?</summary>" in words
    assert "```python\ndef f():\n    return 1\n```" in words


def test_pages_that_are_run_are_spread_among_the_others(tmp_path):
    """Sphinx gives neighbours to one process: in the order of their names, it would run every lesson."""
    pages = [f"{folder}/{number}" for folder, count in (("lessons", 4), ("mistakes", 20)) for number in range(count)]
    for page in pages:
        file = tmp_path / f"{page}.md"
        file.parent.mkdir(exist_ok=True)
        file.write_text(PAGE if page.startswith("lessons") else "# Title\n")
    env = SimpleNamespace(found_docs=set(pages), doc2path=lambda page: str(tmp_path / f"{page}.md"))
    order = list(pages)
    spread(SimpleNamespace(env=env), env, order)
    assert sorted(order) == sorted(pages)
    for start in range(0, len(pages), 6):
        assert sum(page.startswith("lessons") for page in order[start : start + 6]) == 1
