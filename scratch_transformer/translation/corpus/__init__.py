"""Pairs of sentences, from wherever they come, and their split."""

from scratch_transformer.translation.corpus.split import Corpus, Pair, read

__all__ = ["Corpus", "Pair", "read"]
