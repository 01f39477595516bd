"""How fast a language model generates and learns, beside transformers and a GPT on torch.nn's layers.

All take turns, round by round. What is printed is how many times as long the others take as ours: the median over the
rounds, and the range of the middle rounds. Above 1, ours is faster. The models are equal: transformers' weights are
read by `from_pretrained`, and the tokens generated are compared.

    generate    greedily, so many tokens behind 16; transformers' `generate`, and our model without a cache
    training    a step of GPT-2's kind: forward, loss, backward, clipping, AdamW; with --grid full, compiled too.
                Ours steps with this package's AdamW, transformers with torch's fused one, as its Trainer does, and
                torch.nn as nanoGPT does on a CPU, where it does not fuse; "torch.nn, fused" as it could
    cache       bytes of the keys and values of 1000 tokens: grouped queries beside as many keys as queries
"""

import functools

import pytest
import torch
import torch.nn.functional as F

from benchmarks import turns
from benchmarks.nano_style import GPT
from scratch_transformer import nn
from scratch_transformer.benchmarking.timing import Prepared, measure, ratio, timer_of
from scratch_transformer.generation import generate
from scratch_transformer.language.objective import Objective
from scratch_transformer.language_model import Config, LanguageModel
from scratch_transformer.optim import AdamW
from scratch_transformer.pretrained import from_pretrained

ROUNDS, PROMPT = 7, 16
VOCABULARY, LENGTH = 4096, 512
# d_model, layers, heads, heads of keys, d_ff
SIZES = {"tiny": (128, 4, 4, 2, 352), "small": (384, 6, 6, 2, 1024)}
GENERATING = [
    ("llama", "tiny", 1, 128), ("llama", "tiny", 8, 128), ("llama", "small", 1, 64),
    ("qwen3", "tiny", 1, 128), ("gpt2", "tiny", 1, 128), ("gpt2", "tiny", 8, 128), ("gpt2", "small", 1, 64),
]  # fmt: skip
TRAINING = [("tiny", 12, 64), ("small", 4, 128)]
FUSED = functools.partial(torch.optim.AdamW, fused=True)
OPTIMIZERS = {"ours": AdamW, "torch.nn": torch.optim.AdamW, "torch.nn, fused": FUSED, "transformers": FUSED}
Timings = dict[str, list[float]]


@pytest.mark.parametrize("family, size, texts, tokens", GENERATING)
@torch.no_grad()
def test_generate(benchmark, family, size, texts, tokens, pytestconfig, device, language_models, capsys, tmp_path):
    if not turns.is_timed(pytestconfig):
        texts, tokens = 2, 3  # only whether it runs
    theirs = model_of_transformers(family, SIZES[size]).to(device).eval()
    theirs.save_pretrained(tmp_path)
    ours = from_pretrained(tmp_path, device=device)
    ids = torch.randint(VOCABULARY, (texts, PROMPT), device=device)
    calls = {
        "ours": functools.partial(generate, ours, ids, tokens),
        "transformers": lambda: generate_theirs(theirs, ids, tokens),
        "whole texts": functools.partial(generate, ours, ids, tokens, cache=False),
    }
    assert calls["ours"]() == calls["transformers"]() == calls["whole texts"]()
    found = race(benchmark, calls, texts * tokens, pytestconfig, device)
    keep(language_models, f"generate: {family}, {size}, {texts}, {tokens}", found, capsys)


@pytest.mark.filterwarnings("ignore")  # torch.compile warns of its own doings
@pytest.mark.parametrize("is_compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("size, texts, length", TRAINING)
def test_training_step(benchmark, size, texts, length, is_compiled, pytestconfig, device, language_models, capsys):
    if is_compiled and turns.extent(pytestconfig) != "full":
        pytest.skip("to compile takes minutes: with --grid full")
    if not turns.is_timed(pytestconfig):
        texts, length = 2, 5
    d_model, layers, heads, _, _ = SIZES[size]
    sizes = {"vocab_size": VOCABULARY, "max_length": LENGTH, "d_model": d_model}
    models = {
        "ours": LanguageModel(Config.gpt2(**sizes, num_layers=layers, num_heads=heads)),
        "torch.nn": GPT(**sizes, num_layers=layers, num_heads=heads),
        "torch.nn, fused": GPT(**sizes, num_layers=layers, num_heads=heads),
        "transformers": model_of_transformers("gpt2", SIZES[size]),
    }
    counts = {name: sum(p.numel() for p in model.parameters()) for name, model in models.items()}
    assert len(set(counts.values())) == 1, counts
    batch = torch.randint(VOCABULARY, (texts, length + 1), device=device)
    prepare = torch.compile if is_compiled else lambda function: function
    calls = {name: training_step(name, model.to(device).train(), batch, prepare) for name, model in models.items()}
    found = race(benchmark, calls, texts * length, pytestconfig, device)
    keep(language_models, f"training: {size}, {texts} × {length}{', compiled' * is_compiled}", found, capsys)


@torch.no_grad()
def test_memory_of_the_cache(benchmark, pytestconfig, capsys):
    tokens = 1000 if turns.is_timed(pytestconfig) else 5
    sizes = {"vocab_size": 50, "max_length": 2048, "d_model": 576, "num_layers": 2, "num_heads": 9, "d_ff": 64}
    bytes_of = {}
    for heads in (9, 3, 1):
        cache = nn.KeyValueCache(num_layers=2, capacity=tokens)
        LanguageModel(Config.llama(**sizes, num_kv_heads=heads)).states(torch.zeros(1, tokens).long(), cache)
        bytes_of[heads] = cache.memory
        assert cache.memory == 2 * 2 * heads * 64 * tokens * 4
    benchmark.pedantic(lambda: None)
    benchmark.extra_info["bytes by heads of keys and values"] = bytes_of
    with capsys.disabled():
        print(f"\ncache of {tokens} tokens, 2 layers, 9 queries, bytes by heads of keys and values: {bytes_of}")


def model_of_transformers(family, size):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    d_model, layers, heads, kv_heads, d_ff = size
    ends = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None, "vocab_size": VOCABULARY}
    if family == "gpt2":
        config = transformers.GPT2Config(
            n_embd=d_model, n_layer=layers, n_head=heads, n_positions=LENGTH, **ends,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        )  # fmt: skip
        return transformers.GPT2LMHeadModel(config)
    name = {"llama": "Llama", "qwen3": "Qwen3"}[family]
    config = getattr(transformers, f"{name}Config")(
        hidden_size=d_model, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv_heads,
        head_dim=d_model // heads, intermediate_size=d_ff, max_position_embeddings=LENGTH, **ends,
    )  # fmt: skip
    return getattr(transformers, f"{name}ForCausalLM")(config)


def generate_theirs(model, ids, tokens):
    options = {"do_sample": False, "max_new_tokens": tokens, "pad_token_id": 0}
    found = model.generate(ids, attention_mask=torch.ones_like(ids), **options)
    return found[:, PROMPT:].tolist()


def training_step(name, model, batch, prepare):
    optimizer = OPTIMIZERS[name](model.parameters(), lr=1e-3, weight_decay=0.1)
    loss_of = prepare(objective(name, model, batch[:, :-1].contiguous(), batch[:, 1:].contiguous()))

    def step():
        loss = loss_of()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    return step


def objective(name, model, ids, targets):
    """The mean loss as each has it in training; ours is what `scratch-transformer train` minimizes."""
    if name == "ours":
        ours = Objective(model)
        return lambda: ours(ids, targets) / targets.numel()
    logits = (lambda: model(ids).logits) if name == "transformers" else (lambda: model(ids))
    return lambda: F.cross_entropy(logits().flatten(0, 1), targets.flatten())


def race(benchmark, calls, tokens, config, device):
    """Tokens per second of ours, and how many times as long the others take; nothing where nothing is timed."""
    durations: Timings = {name: [] for name in calls if name != "ours"}
    timer = timer_of(device)

    def others():
        for name, seconds in durations.items():
            seconds.append(measure(Prepared(calls[name]), timer))

    benchmark.pedantic(calls["ours"], setup=others, rounds=ROUNDS if turns.is_timed(config) else 1, warmup_rounds=1)
    if not turns.is_timed(config):
        return {}
    ours = list(benchmark.stats.stats.data)
    ratios = {name: vars(ratio(seconds[1:], ours)) for name, seconds in durations.items()}  # the first was for warmth
    benchmark.extra_info |= {"tokens per second": tokens / benchmark.stats.stats.median, "ratios": ratios}
    return benchmark.extra_info


def keep(values, name, found, capsys):
    if found:
        values[name] = found
        times = [
            f"{rival} {r['median']:.2f} × ({r['p20']:.2f} to {r['p80']:.2f})" for rival, r in found["ratios"].items()
        ]
        with capsys.disabled():
            print(f"\n{name}: {found['tokens per second']:,.0f} tokens/s; as long: {', '.join(times)}")
