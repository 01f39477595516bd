"""The catalogue of mistakes, by id: what the code does, what is right, how to fix it, and how it is recognised."""

from scratch_transformer.kit.kind import Mistake
from scratch_transformer.kit.mistakes.attention import ATTENTION
from scratch_transformer.kit.mistakes.blocks import BLOCKS
from scratch_transformer.kit.mistakes.decoding import DECODING
from scratch_transformer.kit.mistakes.embedding import EMBEDDING
from scratch_transformer.kit.mistakes.grouped import GROUPED
from scratch_transformer.kit.mistakes.normalization import NORMALIZATION
from scratch_transformer.kit.mistakes.optimizing import OPTIMIZING
from scratch_transformer.kit.mistakes.rotary import ROTARY
from scratch_transformer.kit.mistakes.training import TRAINING

MISTAKES: dict[str, Mistake] = {
    mistake.id: mistake
    for mistake in (*(*NORMALIZATION, *EMBEDDING, *ROTARY, *ATTENTION, *GROUPED, *BLOCKS, *TRAINING, *OPTIMIZING, *DECODING),)
}
