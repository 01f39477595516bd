"""Drawings as SVG in the page itself: their colours are the theme's, in the light and in the dark."""

from html import escape


def figure(width, height, shapes, caption):
    """A figure with a caption, as MyST."""
    svg = f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img" aria-label="{escape(caption)}">'
    body = "\n".join(shapes)
    return (
        f'```{{raw}} html\n<figure class="drawing">{svg}\n{body}\n</svg>'
        f"<figcaption>{escape(caption)}</figcaption></figure>\n```\n"
    )


def rect(x, y, width, height, kind="box", opacity=1.0):
    """A rectangle from its upper left corner."""
    return (
        f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
        f'fill-opacity="{opacity:.2f}"/>'
    )


def text(x, y, words, anchor="start", kind=""):
    """Words at a place; anchor: which end of them is there."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{escape(words)}</text>'


def line(*points, kind="line", arrow=False):
    """A line through points, with a head at its end if it is an arrow."""
    path = "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    if arrow:
        (x0, y0), (x, y) = points[-2:]
        length = max(((x - x0) ** 2 + (y - y0) ** 2) ** 0.5, 1e-9)
        dx, dy = (x - x0) / length * 6, (y - y0) / length * 6
        left, right = (x - dx - dy / 2, y - dy + dx / 2), (x - dx + dy / 2, y - dy - dx / 2)
        path += " M" + " L".join(f"{a:.1f} {b:.1f}" for a, b in (left, (x, y), right))
    return f'<path class="{kind}" d="{path}"/>'
