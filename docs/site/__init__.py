"""What the site computes while it is built. Sphinx loads this as an extension."""

from docs.site import computed, mathml, notebooks


def setup(app):
    """Sphinx's hook."""
    computed.setup(app)
    mathml.setup(app)
    notebooks.setup(app)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
