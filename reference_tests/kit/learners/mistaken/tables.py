"""All mistaken versions."""

from reference_tests.kit.learners.mistaken.attention import ATTENTION
from reference_tests.kit.learners.mistaken.blocks import BLOCKS
from reference_tests.kit.learners.mistaken.by_hand import BY_HAND
from reference_tests.kit.learners.mistaken.construction import CONSTRUCTION
from reference_tests.kit.learners.mistaken.embedding import EMBEDDING
from reference_tests.kit.learners.mistaken.normalization import NORMALIZATION
from reference_tests.kit.learners.mistaken.pairs import PAIRS
from reference_tests.kit.learners.mistaken.paths import PATHS
from reference_tests.kit.learners.mistaken.rarer import RARER
from reference_tests.kit.learners.mistaken.sums import SUMS
from reference_tests.kit.learners.mistaken.today import OPTIMIZING, TODAY
from reference_tests.kit.learners.mistaken.training import TRAINING

MISTAKEN = (
    *(*NORMALIZATION, *EMBEDDING, *ATTENTION, *BLOCKS, *TRAINING, *RARER, *PAIRS, *CONSTRUCTION, *PATHS),
    *(*SUMS, *TODAY, *OPTIMIZING, *BY_HAND),
)
