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
from scratch_transformer.kit.mistakes.optimizing import OPTIMIZING
from scratch_transformer.kit.mistakes.paths import PATHS
from scratch_transformer.kit.mistakes.rotary import ROTARY
from scratch_transformer.kit.mistakes.tokens import TOKENS
from scratch_transformer.kit.mistakes.training import TRAINING

FAMILIES = ("LN", "E", "P", "R", "A", "K", "G", "B", "T", "O", "D", "S", "W")


def _place(mistake: Mistake) -> tuple[int, int]:
    """B2 before B10, and all of the attention's before the blocks'."""
    family, number = re.fullmatch(r"([A-Z]+)(\d+)", mistake.id).groups()  # type: ignore[union-attr]
    return FAMILIES.index(family), int(number)


MISTAKES: dict[str, Mistake] = {
    mistake.id: mistake
    for mistake in sorted(
        (
            *(*NORMALIZATION, *EMBEDDING, *ROTARY, *ATTENTION, *LOST_MASKS, *CONSTRUCTION, *GROUPED, *BLOCKS, *PATHS),
            *(*TRAINING, *OPTIMIZING, *DECODING, *TOKENS),
        ),
        key=_place,
    )
}
