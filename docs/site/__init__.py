"""What the site computes while it is built. Sphinx loads this as an extension."""

from docs.site import catalogue, computed, docstrings, font, kit, live, mathml, notebooks


def setup(app):
    """Sphinx's hook."""
    catalogue.setup(app)
    computed.setup(app)
    docstrings.setup(app)
    font.setup(app)
    kit.setup(app)
    live.setup(app)
    mathml.setup(app)
    notebooks.setup(app)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
