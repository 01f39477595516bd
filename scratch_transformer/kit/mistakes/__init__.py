"""The catalogue of mistakes, by id: what the code does, what is right, how to fix it, and how it is recognised."""

import re

from scratch_transformer.kit.kind import Mistake
from scratch_transformer.kit.mistakes.attention import ATTENTION
from scratch_transformer.kit.mistakes.blocks import BLOCKS
from scratch_transformer.kit.mistakes.construction import CONSTRUCTION
from scratch_transformer.kit.mistakes.decoding import DECODING
from scratch_transformer.kit.mistakes.embedding import EMBEDDING
from scratch_transformer.kit.mistakes.grouped import GROUPED
from scratch_transformer.kit.mistakes.masks import LOST_MASKS
from scratch_transformer.kit.mistakes.normalization import NORMALIZATION
from scratch_transformer.kit.mistakes.paths import PATHS
from scratch_transformer.kit.mistakes.rotary import ROTARY
from scratch_transformer.kit.mistakes.training import TRAINING

FAMILIES = ("LN", "E", "P", "R", "A", "G", "B", "T", "D")


def _place(mistake: Mistake) -> tuple[int, int]:
    """B2 before B10, and all of the attention's before the blocks'."""
    family, number = re.fullmatch(r"([A-Z]+)(\d+)", mistake.id).groups()  # type: ignore[union-attr]
    return FAMILIES.index(family), int(number)


MISTAKES: dict[str, Mistake] = {
    mistake.id: mistake
    for mistake in sorted(
        (
            *(*NORMALIZATION, *EMBEDDING, *ROTARY, *ATTENTION, *GROUPED, *LOST_MASKS, *CONSTRUCTION),
            *(*BLOCKS, *PATHS, *TRAINING, *DECODING),
        ),
        key=_place,
    )
}
