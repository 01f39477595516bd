"""What to type for a module that is not installed. No torch here: the process that watches a check reads it too."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

PACKAGES = {
    "cv2": "opencv-python",
    "PIL": "pillow",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
"""Modules that pip knows by another name."""


OWN = re.compile(
    r"(?!(transformers|tokenizers|datasets)$)(my|src|common|core|lib|model|models|data|dataset|dataloader|util|helper|config"
    r"|param|hyperparameter|token|tokenizer|vocab|train|trainer|test|layer|module|block|attention|transformer|encoder"
    r"|decoder|embedding|position|norm|loss|optimizer|mask|beam|inference|preprocess|preprocessing)s?(\d+|_\w+)?"
)
"""What learners call files of their own. There are packages of such names, by strangers."""
OF_TWO_CASES = re.compile(r"\w*[a-z][A-Z]\w*")
PUBLISHED = {"tensorboardX", "MeCab", "SimpleITK", "OpenSSL", "PyPDF2", "PyQt5", "PyQt6", "pyLDAvis"}
"""Names that hardly any package has, addNorm and encoderLayer, and packages that do."""


def is_there(module: str) -> bool:
    """Whether a module is loaded, as one that the kit has made of a folder is, or can be."""
    return module in sys.modules or importlib.util.find_spec(module) is not None


def how_to_install(module: str) -> str:
    """The command that brings a module, sklearn.metrics too; of what is called like a learner's own file, none."""
    package = module.partition(".")[0]
    if OWN.fullmatch(package) or (OF_TWO_CASES.fullmatch(package) and package not in PUBLISHED):
        return "perhaps a file of your own, which is neither beside this one nor in a folder above"
    return f"pip install {PACKAGES.get(package, package)}"


def lacking(module: str | None) -> str:
    """What a package lacks that is there: a folder of the learner's, or another version. "" of what is not there."""
    package, _, name = (module or "").rpartition(".")
    found = sys.modules.get(package)
    if found is None:
        return ""
    folders = [Path(folder) for folder in getattr(found, "__path__", ())]
    if any("site-packages" in folder.parts for folder in folders):
        return f"there is no {name} in the {package} that is installed"
    if package.partition(".")[0] in sys.stdlib_module_names:
        return f"there is no {name} in this Python's {package}"
    return f"there is no {name} in {package.replace('.', '/')}{'/' if folders else '.py'}"
