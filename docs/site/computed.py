"""The directive {computed}: Markdown that a function of docs/site/ returns while the site is built."""

import importlib

from docutils import nodes
from sphinx.util.docutils import SphinxDirective


def setup(app):
    """Register the directive."""
    app.add_directive("computed", Computed)


class Computed(SphinxDirective):
    """```{computed} proof.table``` is what docs.site.proof.table() returns, parsed as part of the page.

    Words after the name are arguments of the function.
    """

    required_arguments = 1
    optional_arguments = 9
    has_content = False

    def run(self) -> list[nodes.Node]:
        name, *arguments = self.arguments
        module, _, function = name.rpartition(".")
        text = getattr(importlib.import_module(f"docs.site.{module}"), function)(*arguments)
        return self.parse_text_to_nodes(text, allow_section_headings=True)
