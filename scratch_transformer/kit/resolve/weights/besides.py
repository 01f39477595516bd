"""A network that a model has besides its layers: left out, where nothing explains the whole with it."""

from __future__ import annotations

import re

from torch import nn

OTHERS = re.compile(r"(^|\.)(conv|attn|attention|heads?|decoder|lm_head|logits)(\.|$)|emb|pos|norm")
"""In the name of what is something else."""


def network_of(module: nn.Module) -> str:
    """The name of the one part of a model that is a network from d_model to d_model, and no list; "" if none is."""
    found = [name for name, part in module.named_children() if not OTHERS.search(name.lower()) and _is_network(part)]
    return found[0] if len(found) == 1 else ""


def _is_network(part: nn.Module) -> bool:
    """Whether it has two or three matrices, the last of which leads back to where the first begins, and no lists."""
    shapes = [p.shape for p in part.parameters() if p.dim() == 2]
    has_list = any(isinstance(one, (nn.ModuleList, nn.Embedding, nn.MultiheadAttention)) for one in part.modules())
    own = [one for one in part.modules() if next(one.parameters(recurse=False), None) is not None]
    is_linear = all(isinstance(one, nn.Linear) for one in own)
    leads_back = len(shapes) in (2, 3) and any(shape[0] == shapes[0][1] for shape in shapes[1:])
    return not has_list and is_linear and leads_back


def leave_out(module: nn.Module) -> str:
    """Puts the identity in the place of such a network; returns its name."""
    if name := network_of(module):
        setattr(module, name, nn.Identity())
    return name
