"""The documentation site: `tox -e docs`. What its pages compute is in docs/site/."""

import logging
import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from scratch_transformer import __version__  # noqa: E402

project = "scratch_transformer"
author = "scratch_transformer contributors"
copyright = f"{author}, MIT license"
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_click",
    "sphinx_copybutton",
    "sphinx_design",
    "docs.site",
]
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]
root_doc = "index"
nitpicky = True
nitpick_ignore_regex = [
    # Other projects' names would be looked up in the network.
    (r"py:.*", r"(torch|numpy|np|click|rich|matplotlib|collections|typing|pathlib|safetensors|tokenizers)\b.*"),
    # Types that only occur in signatures, and errors without a page.
    (r"py:class", r"(.*\.)?(Array|\w+Cache|\w+Gradients|HasParamGroups|Precision|Equality|Source)"),
    (r"py:exc", r"BuiltinUnsupported|InputError"),
]
suppress_warnings = ["config.cache"]

# ---- Pages are Markdown; a page with code cells is run when the site is built ----

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath", "fieldlist", "smartquotes"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_timeout = 120  # a cell takes seconds, but the machine may be busy
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True
nb_ipywidgets_js = {}  # they would come from the network
os.environ["PYTHONPATH"] = str(ROOT)
os.environ["MATPLOTLIBRC"] = str(ROOT / "docs" / "matplotlibrc")
os.environ["PYTHONWARNINGS"] = "ignore::DeprecationWarning"

for talkative in ("fontTools", "traitlets"):
    logging.getLogger(talkative).setLevel(logging.WARNING)

# ---- The API, from docstrings ----

autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False  # what stands before a colon need not be a type

# ---- How it looks ----

html_theme = "furo"
html_title = "scratch_transformer"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_show_search_summary = False  # it would be fetched, which a browser forbids to pages on the disk
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
