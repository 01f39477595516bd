"""Formulas as MathML, made when the site is built: a browser shows it without scripts, fonts or a network."""

import re
from html import escape

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)


def setup(app):
    """Register the renderer `mathml`."""
    app.add_html_math_renderer("mathml", inline_renderers=(visit_math, None), block_renderers=(visit_block, None))


def visit_math(translator, node):
    """$…$ in a sentence."""
    translator.body.append(checked(node))
    raise nodes.SkipNode


def visit_block(translator, node):
    """$$…$$ on lines of its own, which scrolls by itself where it is too wide."""
    anchor = f' id="{node["ids"][0]}"' if node["ids"] else ""
    translator.body.append(f'<div class="equation"{anchor}>{checked(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def checked(node, as_block=False):
    """The node's formula; one that cannot be set is a warning that says where it is."""
    try:
        return mathml(node.astext(), as_block)
    except MathError as error:
        logger.warning("%s: %s", error, node.astext(), location=node)
        return f"<code>{escape(node.astext())}</code>"


# What docutils does not know, and the same in what it knows.
SYNONYMS = {r"\\dots(?![a-z])": r"\\ldots", r"\\[bB]igg?[lr]?(?![a-z])": "", r"\\(?:text|display)style(?![a-z])": ""}
HAT = re.compile(r"<munderover>\s*(<mi>\w</mi>)(.*?)(<mo [^>]*>ˆ</mo>)\s*</munderover>", re.S)


def mathml(tex, as_block=False):
    """Of LaTeX. The index of a letter with a hat belongs beside it, where docutils puts it below."""
    for other, known in SYNONYMS.items():
        tex = re.sub(other, known, tex)
    return HAT.sub(r"<msub><mover>\1\3</mover>\2</msub>", tex2mathml(tex, as_block=as_block))
