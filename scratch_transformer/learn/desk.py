"""What the pages of the lessons use: a comparison, a mistake put in, pictures of matrices, the exercise at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from scratch_transformer.conformance.measures import relative_error
from scratch_transformer.learn.lessons import Lesson, find

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LIMIT = 1e-12


def compare(ours: Tensor, theirs: Tensor, what: str = "output") -> None:
    """Print how far apart two float64 tensors are, as a share of the largest number in the second.

    Raises:
        AssertionError: it is more than 1e-12, which is far more than rounding.
    """
    error = relative_error(ours.detach(), theirs.detach())
    if not error <= LIMIT:
        raise AssertionError(f"{what}: not equal, the relative error is {error:.1e}")
    print(f"{what}: {'equal, to the last bit' if error == 0 else f'equal, relative error {error:.0e}'}")


def with_mistake(kind: str, mistake: str, form: str = "", **settings: Any) -> tuple[nn.Module, nn.Module]:
    """The kit's reference of a kind, and the same with a mistake of the catalogue put in; in float64, of equal weights.

    Args:
        kind: "LayerNorm"; `scratch-transformer check --list` has all of them.
        mistake: "LN1".
        form: where the mistake has several: "not scaled".
        settings: d_model=8; the kit's own for those that are not given.

    Raises:
        ValueError: there is no such kind, mistake, form or setting.
    """
    from scratch_transformer.kit.kinds import KINDS
    from scratch_transformer.kit.mistakes import MISTAKES
    from scratch_transformer.kit.recipe import RIGHT

    checked = _known("kind", kind, KINDS)
    forms = _known("mistake", mistake, MISTAKES).changes
    changes = _known(f"form of {mistake}", form or next(iter(forms), ""), forms)
    for name in settings:
        _known(f"setting of {kind}", name, checked.defaults)
    return checked.reference(settings), checked.reference(settings, RIGHT.with_(changes))


def _known(what: str, name: str, among: Mapping[str, Any]) -> Any:
    if name not in among:
        raise ValueError(f"with_mistake: there is no {what} {name!r}, only {', '.join(map(repr, among)) or 'none'}")
    return among[name]


def heatmaps(
    matrices: Mapping[str, Tensor], rows: Sequence[str] | str = "query", columns: Sequence[str] | str = "key",
    limits: tuple[float, float] | None = None, colours: str = "viridis",
) -> Figure:  # fmt: skip
    """Matrices side by side, by their titles, in the same colours.

    rows, columns: a name for the axis, or one for every row or column.
    limits: the numbers at the two ends of the colours.
    """
    import matplotlib.pyplot as plt

    arrays = [torch.as_tensor(matrix).detach().double().numpy() for matrix in matrices.values()]
    low, high = limits or (min(a.min() for a in arrays), max(a.max() for a in arrays))
    size = (2.5 * len(arrays) + 0.5, 2.5)
    figure, axes = plt.subplots(1, len(arrays), figsize=size, squeeze=False, layout="constrained")
    for axis, title, array in zip(axes[0], matrices, arrays, strict=True):
        image = axis.imshow(array, vmin=low, vmax=high, cmap=colours, aspect="auto", interpolation="nearest")
        axis.set_title(title)
        _label(axis.set_xlabel, axis.set_xticks, columns, array.shape[1])
        _label(axis.set_ylabel, axis.set_yticks, rows, array.shape[0])
    figure.colorbar(image, ax=axes[0].tolist(), shrink=0.9)
    return figure


def _label(set_label: Any, set_ticks: Any, names: Sequence[str] | str, count: int) -> None:
    if isinstance(names, str):
        set_label(names)
        set_ticks(range(0, count, max(1, count // 6)))
    else:
        set_ticks(range(count), names)


class Exercise:
    """An exercise as a notebook shows it: the file, how to check it, and hints that are folded."""

    def __init__(self, lesson: Lesson) -> None:
        self.lesson = lesson

    def __repr__(self) -> str:
        return f"{self.lesson.begin}\n{self.lesson.check}"

    def _repr_markdown_(self) -> str:
        lesson = self.lesson
        hints = [
            f"<details><summary>Hint {number} of {len(lesson.hints)}</summary>\n\n{hint}\n\n</details>"
            for number, hint in enumerate(lesson.hints, 1)
        ]
        commands = f"```sh\n{lesson.begin}    # writes {lesson.file}\n{lesson.check}\n```"
        return "\n\n".join([commands, f"```python\n{lesson.skeleton.strip()}\n```", *hints])


def exercise(name: str) -> Exercise:
    """The exercise of a lesson, to be shown at its end."""
    return Exercise(find(name))
