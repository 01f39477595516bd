"""Words of names, whatever their style."""

from __future__ import annotations

import functools
import re


@functools.lru_cache(maxsize=4096)
def plain(name: str) -> str:
    """embedDim, embed_dim, EMBED_DIM -> embeddim."""
    return re.sub(r"[^a-z0-9]", "", name.lower())
