"""How many parameters a constructor may make: what is called a thousand times has to be small."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator
from typing import Any

from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.nn.parameter import is_lazy


@contextlib.contextmanager
def limited(most: int) -> Iterator[None]:
    """Within this context modules may have so many parameters together; the first that has more stops.

    What has its sizes by a name, model_type="gpt2-xl", need not be made whole to be too large.
    Raises OverflowError, in the constructor.
    """
    made: dict[int, nn.Parameter] = {}  # kept, so that no other one has its id
    total = 0

    def count(module: nn.Module, name: str, parameter: Any) -> None:
        nonlocal total
        if isinstance(parameter, nn.Parameter) and not is_lazy(parameter) and id(parameter) not in made:
            made[id(parameter)] = parameter
            total += parameter.numel()
        if total > most:
            raise OverflowError(f"more than {most // 10**6} million parameters are too many to be checked")

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    except OverflowError as error:
        traceback.clear_frames(error.__traceback__)  # what was made until then takes memory
        raise
    finally:
        made.clear()
        hook.remove()
