"""What to type for a module that is not installed. No torch here: the process that watches a check reads it too."""

from __future__ import annotations

PACKAGES = {
    "cv2": "opencv-python",
    "PIL": "pillow",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
"""Modules that pip knows by another name."""


def how_to_install(module: str) -> str:
    """The command that brings a module, sklearn.metrics too."""
    package = module.partition(".")[0]
    return f"pip install {PACKAGES.get(package, package)}"
