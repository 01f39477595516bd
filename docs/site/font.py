"""The font of the formulas: STIX Two Math (SIL Open Font License), reduced to the signs that formulas need.

A browser draws brackets and roots in full height only with a font that has a table of mathematics; not every system has
one. The package ziamath brings this one.
"""

from importlib.resources import as_file, files
from pathlib import Path

from fontTools import subset

FONT = "fonts/STIXTwoMath-Regular.ttf"
SIGNS = [
    *range(0x20, 0x7F),  # ASCII
    *range(0xA0, 0x100),  # Latin
    *range(0x370, 0x400),  # Greek
    *range(0x2010, 0x2035),  # dashes, dots, primes
    *range(0x2190, 0x2195),  # arrows
    *range(0x2200, 0x2270),  # operators
    *range(0x2308, 0x230C),  # floor and ceiling
    *range(0x239B, 0x23B8),  # tall brackets
    *range(0x1D434, 0x1D468),  # italic Latin
    *range(0x1D6E2, 0x1D71C),  # italic Greek
    *(0x302, 0x210E, 0x2113, 0x211D, 0x22A4, 0x22C5, 0x22EF, 0x27E8, 0x27E9),
]


def setup(app):
    """Write the font after the build."""
    app.connect("build-finished", write)


def write(app, exception):
    """_static/math.woff, which site.css names."""
    if exception or app.builder.format != "html":
        return
    options = subset.Options(flavor="woff", layout_features=["*"], name_IDs=["*"])
    with as_file(files("ziamath") / FONT) as path:
        font = subset.load_font(str(path), options)
        reduced = subset.Subsetter(options)
        reduced.populate(unicodes=SIGNS)
        reduced.subset(font)
        subset.save_font(font, str(Path(app.outdir) / "_static" / "math.woff"), options)
