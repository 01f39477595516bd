"""Objects for what a model returns, class Output(BaseModel): logits: torch.FloatTensor, that take float64 too."""

from __future__ import annotations

import re
from typing import Any

OF_FLOAT32 = re.compile(r"\b(Float|Half|BFloat16)Tensor\b")


def loosened(thing: Any) -> Any:
    """A class of pydantic's whose fields ask for float32, without its validation; anything else as it is.

    The check computes in float64, so that each would refuse its own model's output.
    """
    fields = getattr(thing, "__pydantic_fields__", None) if isinstance(thing, type) else None
    if not fields or not any(OF_FLOAT32.search(str(field.annotation)) for field in fields.values()):
        return thing

    def init(self: Any, **values: Any) -> None:
        made = thing.model_construct(**values)
        for name in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__"):
            object.__setattr__(self, name, getattr(made, name))

    thing.__init__ = init
    return thing
