"""Pairs of sentences, from wherever they come, and their split."""

from scratch_transformer.translation.corpus.source import Pair
from scratch_transformer.translation.corpus.split import Corpus, read

__all__ = ["Corpus", "Pair", "read"]
