"""Small models with random parameters and all sizes distinct, and sources of mixed lengths."""

import itertools
import math

import pytest
import torch

from scratch_transformer.model import build_transformer
from scratch_transformer.translation.decoding import beam_search, length_penalty, token_log_probabilities

SRC_PAD, BOS, EOS = 0, 1, 2
SRC_VOCAB, TGT_VOCAB, S, LONGEST = 13, 11, 7, 90
OPTIONS = [
    {},
    {"norm": "post"},
    {"positions": "learned", "share_embeddings": "target", "decoder_N": 3},
    {"norm": "post", "attention_bias": False, "share_embeddings": "all", "tgt_vocab_size": SRC_VOCAB},
]
every_model = pytest.mark.parametrize(
    "options", OPTIONS, ids=lambda options: "-".join(map(str, options.values())) or "default"
)


def random_model(dtype=torch.float64, tgt_vocab_size=TGT_VOCAB, dropout=0.1, spread=0.5, ending=0.0, **options):
    sizes = {"d_model": 12, "N": 2, "h": 3, "d_ff": 17, "dropout": dropout}
    model = build_transformer(SRC_VOCAB, tgt_vocab_size, S, LONGEST, **{**sizes, **options})
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * spread)
        model.projection_layer.proj.bias[EOS] += ending  # how gladly it ends
    return model.to(dtype)


def random_sources(B=5, padding="right"):
    """(B, S): sources of 1 to S tokens, ended by eos."""
    source = torch.full((B, S), SRC_PAD)
    for row, length in zip(source, itertools.cycle((S, 3, 1, 5)), strict=False):
        ids = torch.randint(3, SRC_VOCAB, (length,))
        ids[-1] = EOS
        row[slice(length) if padding == "right" else slice(S - length, None)] = ids
    return source


def relative_error(actual, expected):
    return ((actual - expected).abs().max() / expected.abs().max()).item()


def all_translations(model, source, max_length, alpha):
    """Every translation with at most max_length tokens, eos included, as (score, ids): the best first."""
    vocabulary = [i for i in range(model.projection_layer.proj.out_features) if i != EOS]
    all_ids = [ids for n in range(max_length) for ids in itertools.product(vocabulary, repeat=n)]
    sources = source.unsqueeze(0).expand(len(all_ids), -1)
    log_p, _ = token_log_probabilities(model, sources, SRC_PAD, [[*ids, EOS] for ids in all_ids], BOS)
    scored = [(math.fsum(row) / length_penalty(len(row), alpha), list(ids)) for row, ids in zip(log_p, all_ids)]  # noqa: B905
    return sorted(scored, reverse=True)


def beam_search_differs(model, sources, max_length, alpha, decoder=None):
    """What a beam as wide as the whole tree misses or adds, of all translations; "" if nothing."""
    options = {} if decoder is None else {"decoder": decoder}
    everything = model.projection_layer.proj.out_features**max_length
    found = beam_search(model, sources, SRC_PAD, BOS, EOS, max_length, beam=everything, alpha=alpha, **options)
    for source, hypotheses in zip(sources, found, strict=True):
        expected = all_translations(model, source, max_length, alpha)
        finished = [h for h in hypotheses if h.is_finished]
        if [h.ids for h in finished] != [ids for _, ids in expected]:
            return f"found {len(finished)} of {len(expected)} translations, or ranked them otherwise"
        if any(abs(h.score - score) > 1e-12 for h, (score, _) in zip(finished, expected, strict=True)):
            return "scores differ"
    return ""
