"""What the site computes while it is built. Sphinx loads this as an extension."""

import importlib

EXTENSIONS = ("catalogue", "computed", "docstrings", "font", "kit", "links", "live", "mathml", "notebooks")


def setup(app):
    """Sphinx's hook."""
    for name in EXTENSIONS:
        importlib.import_module(f"{__name__}.{name}").setup(app)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
