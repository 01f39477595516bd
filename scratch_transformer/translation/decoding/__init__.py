"""From a trained model to translations: greedy, beam search and sampling, over a decoder that keeps keys and values.

    hypothesis   a translation with its score, and the length penalty
    prefixes     the decoder as the model defines it: the whole prefix again at every step
    incremental  the same numbers from one token a step: key/value caches (cached_attention, merged, sublayers)
    small        the same for one source and a small model, in NumPy; `cached` takes the one or the other
    encoding     the encoder in fewer operations
    search       one token after the other: greedy and sampling
    beam         several prefixes of a source at once
    scoring      log-probabilities of given translations

Everything decodes a batch of sources of any lengths, and a source's translation does not depend on its neighbours.
"""

from scratch_transformer.translation.decoding.beam import beam_search
from scratch_transformer.translation.decoding.hypothesis import Hypothesis, length_penalty
from scratch_transformer.translation.decoding.incremental import IncrementalDecoder
from scratch_transformer.translation.decoding.merged import MergedDecoder
from scratch_transformer.translation.decoding.prefixes import PrefixDecoder
from scratch_transformer.translation.decoding.scoring import token_log_probabilities
from scratch_transformer.translation.decoding.search import greedy, greedy_search, sample
from scratch_transformer.translation.decoding.small import SmallDecoder, cached

__all__ = [
    "Hypothesis",
    "IncrementalDecoder",
    "MergedDecoder",
    "PrefixDecoder",
    "SmallDecoder",
    "beam_search",
    "cached",
    "greedy",
    "greedy_search",
    "length_penalty",
    "sample",
    "token_log_probabilities",
]
