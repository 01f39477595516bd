"""How fast translations are decoded: with key/value caches, from whole prefixes, and as tutorials do it.

    pytest benchmarks/bench_decoding.py --benchmark-columns=median,rounds
    pytest benchmarks/bench_decoding.py -k "32_sources and 128_tokens"
    pytest benchmarks/bench_decoding.py -k tiny --device cuda
    pytest benchmarks/bench_decoding.py benchmarks/bench_training.py --keep benchmarks/results

All decode the same sources greedily into the same number of tokens, and take turns, round by round. What is printed is
how many times as long the others take as the caches: the median over the rounds, and the range of the middle rounds.

    caches          `greedy`: all sources at once, one token a step; the weights are merged before, once for a model
    eight bits      the same with most weights in eight bits, on a CPU: not the same numbers
    whole prefixes  `greedy` with PrefixDecoder: all sources at once, the same tokens (that is checked)
    tutorial        Tutorial A's model as it is taught, on torch.nn's layers, and the loop around it as it is taught:
                    one source after the other, whole prefixes, a mask for each
"""

import functools

import pytest
import torch

from benchmarks import turns
from reference_tests.as_taught.assembled import model_of_tutorial_a
from scratch_transformer.benchmarking.timing import Prepared, measure, ratio, timer_of
from scratch_transformer.model import build_transformer
from scratch_transformer.translation.decoding import MergedDecoder, PrefixDecoder, cached, greedy

SIZES = {"tiny": (128, 2, 4, 256), "base": (512, 6, 8, 2048)}  # d_model, layers, heads, d_ff
VOCABULARY, SOURCE_LENGTH, ROUNDS = 1000, 20, 3
PAD, BOS, NEVER = 0, 1, -1  # no end: every rival decodes the same number of tokens
CASES = [
    ("tiny", 1, 64), ("tiny", 1, 128), ("tiny", 32, 64), ("tiny", 16, 128), ("base", 1, 64), ("base", 1, 128),
    ("base", 4, 64),
]  # fmt: skip


@pytest.mark.parametrize("size, sources, tokens", CASES, ids=[f"{size}-{B}_sources-{T}_tokens" for size, B, T in CASES])
@torch.no_grad()
def test_greedy(benchmark, size, sources, tokens, pytestconfig, device, application, capsys):
    if not turns.is_timed(pytestconfig):
        size, sources, tokens = "tiny", 2, 3  # only whether it runs
    calls = rivals(SIZES[size], sources, tokens, device)
    assert calls["caches"]() == calls["whole prefixes"]()
    durations = {name: [] for name in calls if name != "caches"}
    timer = timer_of(device)

    def others():
        for name, seconds in durations.items():
            seconds.append(measure(Prepared(calls[name]), timer))

    benchmark.group = f"greedy decoding, {size} model"
    rounds = ROUNDS if turns.is_timed(pytestconfig) else 1
    benchmark.pedantic(calls["caches"], setup=others, rounds=rounds, warmup_rounds=1)
    if turns.is_timed(pytestconfig):
        ours = list(benchmark.stats.stats.data)
        report(benchmark, size, sources, tokens, ours, durations, capsys)
        application[f"{size}, {sources}, {tokens}"] = benchmark.extra_info


def report(benchmark, size, sources, tokens, ours, durations, capsys):
    """The first of the others' durations was for warmth."""
    ratios = {name: ratio(seconds[1:], ours) for name, seconds in durations.items()}
    speed = sources * tokens / benchmark.stats.stats.median
    benchmark.extra_info |= {"tokens per second": speed, "ratios": {name: vars(r) for name, r in ratios.items()}}
    times = ", ".join(f"{name} {r.median:.1f} × ({r.p20:.1f} to {r.p80:.1f})" for name, r in ratios.items())
    with capsys.disabled():
        print(f"\n{size}, {sources} sources, {tokens} tokens: caches {speed:,.0f} tokens/s; as long: {times}")


def rivals(size, sources, tokens, device):
    """name -> a call that decodes."""
    lengths = (VOCABULARY, VOCABULARY, SOURCE_LENGTH, tokens + 1)
    d_model, N, h, d_ff = size
    ours = build_transformer(*lengths, d_model, N, h, 0.0, d_ff).to(device).eval()
    taught = model_of_tutorial_a(*lengths, d_model, N, h, 0.0, d_ff).to(device).eval()
    ids = torch.randint(1, VOCABULARY, (sources, SOURCE_LENGTH), device=device)
    decode = functools.partial(greedy, ours, ids, PAD, BOS, NEVER, tokens)
    caches = {"caches": False, "eight bits": True} if torch.device(device).type == "cpu" else {"caches": False}
    merged = {name: MergedDecoder(ours, eight_bits) for name, eight_bits in caches.items()}
    return {
        **{name: functools.partial(decode, decoder=functools.partial(cached, merged=each))
           for name, each in merged.items()},
        "whole prefixes": functools.partial(decode, decoder=PrefixDecoder),
        "tutorial": lambda: [decode_as_taught(taught, source, tokens) for source in ids.split(1)],
    }  # fmt: skip


def decode_as_taught(model, source, tokens):
    """The loop of validation and inference in tutorials."""
    source_mask = torch.ones(1, 1, 1, source.shape[1], dtype=torch.int, device=source.device)
    encoder_output = model.encode(source, source_mask)
    decoder_input = torch.full((1, 1), BOS, device=source.device)
    while decoder_input.shape[1] <= tokens:
        T = decoder_input.shape[1]
        causal_mask = torch.triu(torch.ones(1, T, T, dtype=torch.int, device=source.device), diagonal=1) == 0
        output = model.decode(encoder_output, source_mask, decoder_input, causal_mask)
        next_word = model.project(output[:, -1]).argmax(-1).item()
        decoder_input = torch.cat([decoder_input, torch.full((1, 1), next_word, device=source.device)], dim=1)
    return decoder_input
