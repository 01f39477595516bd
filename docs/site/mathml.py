"""Formulas as MathML, made when the site is built: a browser shows it without scripts, fonts or a network."""

from docutils.utils.math.latex2mathml import tex2mathml


def setup(app):
    """Register the renderer `mathml`."""
    app.add_html_math_renderer("mathml", inline_renderers=(visit_math, None), block_renderers=(visit_block, None))


def visit_math(translator, node):
    """$…$ in a sentence."""
    from docutils import nodes

    translator.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def visit_block(translator, node):
    """$$…$$ on lines of its own, which scrolls by itself where it is too wide."""
    from docutils import nodes

    anchor = f' id="{node["ids"][0]}"' if node["ids"] else ""
    translator.body.append(f'<div class="equation"{anchor}>{tex2mathml(node.astext(), as_block=True)}</div>\n')
    raise nodes.SkipNode
