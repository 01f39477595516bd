"""All mutants by id."""

from reference_tests.mutants.attention import CORE
from reference_tests.mutants.blocks import BLOCKS
from reference_tests.mutants.embedding import EMBEDDING
from reference_tests.mutants.language import LANGUAGE
from reference_tests.mutants.loss import LOSS
from reference_tests.mutants.multihead import MULTIHEAD
from reference_tests.mutants.mutant import Mutant
from reference_tests.mutants.normalization import NORMALIZATION

MUTANTS: dict[str, Mutant] = {
    mutant.id: mutant for mutant in (*NORMALIZATION, *EMBEDDING, *CORE, *MULTIHEAD, *BLOCKS, *LOSS, *LANGUAGE)
}
