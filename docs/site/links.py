"""The id of a mistake, such as LN1, is a link to its page, wherever a page mentions it."""

import re

from docutils import nodes

from docs.site.catalogue import FOLDER
from scratch_transformer.kit.mistakes import MISTAKES

ID = re.compile(rf"\b({'|'.join(sorted(MISTAKES, key=len, reverse=True))})\b")
NOT_IN = (nodes.title, nodes.reference, nodes.literal, nodes.literal_block, nodes.FixedTextElement, nodes.math)


def setup(app):
    """When the pages are known and are about to be written."""
    app.connect("doctree-resolved", link)


def link(app, doctree, docname):
    """Replace every mention; a mistake's own page mentions others only."""
    for text in list(doctree.findall(nodes.Text)):
        if ID.search(text) and not is_within(text):
            text.parent.replace(text, list(pieces(text.astext(), app.builder, docname)))


def is_within(node):
    """Whether the node is part of a title, a link, or code."""
    while node.parent is not None:
        node = node.parent
        if isinstance(node, NOT_IN):
            return True
    return False


def pieces(text, builder, docname):
    """The text cut at the ids."""
    for number, piece in enumerate(ID.split(text)):
        page = f"{FOLDER}/{piece}"
        if number % 2 and page != docname:
            address = builder.get_relative_uri(docname, page)
            yield nodes.reference("", piece, internal=True, refuri=address, reftitle=MISTAKES[piece].title)
        elif piece:
            yield nodes.Text(piece)
