"""The catalogue of mistakes, by id: what the code does, what is right, how to fix it, and how it is recognised."""

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

FAMILIES = {
    "LN": "normalization",
    "E": "embeddings",
    "P": "positions",
    "R": "rotary positions",
    "A": "attention and its masks",
    "K": "the cache of keys and values",
    "G": "gates, and heads that share keys",
    "B": "blocks, stacks and models",
    "T": "the loss and training",
    "O": "the optimizer and its schedule",
    "D": "decoding",
    "S": "sampling",
    "W": "tokenizers",
}
"""What the letters of an id stand for, in teaching order."""


def family(id: str) -> str:
    """The letters of an id."""
    return id.rstrip("0123456789")


def _place(mistake: Mistake) -> tuple[int, int]:
    """B2 before B10, and all of the attention's before the blocks'."""
    return list(FAMILIES).index(family(mistake.id)), int(mistake.id.removeprefix(family(mistake.id)))


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
