"""How fast a model is trained: an epoch over the same pairs, as `scratch-transformer train` and as tutorials do it.

    pytest benchmarks/bench_training.py --benchmark-columns=median,rounds
    pytest benchmarks/bench_training.py --device cuda

The pairs are numbers in words: one each, as `scratch-transformer train` learns by default, all of like length; or
several, so that lengths differ as those of sentences in texts do. The model is the preset `tiny`; both are trained with
Adam, dropout and label smoothing, and take turns, round by round. What is printed is how many times as long the
tutorial's epoch takes: as many times as many tokens a second are ours. The median over the rounds, and the range of the
middle rounds.

    ours              `trainer.Trainer`: pairs of like length together, padded to the longest of a batch
    tutorial          Tutorial A's model and D's loop as they are taught, on torch.nn's layers: batches of 8 at random,
                      all padded to one length, a mask for every pair. That length is the corpus's longest sentence;
                      tutorials take 350, whatever the corpus
    tutorial, wide    the same with as many pairs in a batch as ours have on average
"""

import functools
import random

import pytest
import torch

from benchmarks import turns
from reference_tests.as_taught.assembled import model_of_tutorial_a
from scratch_transformer.benchmarking.timing import Prepared, measure, ratio, timer_of
from scratch_transformer.translation import batches, checkpoint, config, corpus, distribution, tokenizer
from scratch_transformer.translation.trainer import Trainer

PAD, ROUNDS = 0, 5


def one_number(pairs, count, rng):
    return rng.sample(pairs, count)


def several_numbers(pairs, count, rng):
    """Lengths have about a gamma distribution of shape 2, as sentences do: the longest of hundreds is four means."""
    numbers = (rng.sample(pairs, 1 + int(rng.gammavariate(2, 1))) for _ in range(count))
    return [tuple(map(", ".join, zip(*chosen, strict=True))) for chosen in numbers]


CORPORA = {"one number": (one_number, 400), "several numbers": (several_numbers, 250)}
"""How pairs are drawn, and how many."""


@pytest.mark.parametrize("sentences", CORPORA)
def test_an_epoch(benchmark, pytestconfig, device, application, capsys, tmp_path, sentences):
    is_timed = turns.is_timed(pytestconfig)
    draw, count = CORPORA[sentences]
    calls, facts = rivals(draw, count if is_timed else 10, device, tmp_path)
    durations = {name: [] for name in calls if name != "ours"}
    timer = timer_of(device)

    def others():
        for name, seconds in durations.items():
            seconds.append(measure(Prepared(calls[name]), timer))

    benchmark.group = "an epoch of training, tiny model"
    benchmark.pedantic(calls["ours"], setup=others, rounds=ROUNDS if is_timed else 1, warmup_rounds=1)
    if not is_timed:
        return
    ratios = {name: ratio(seconds[1:], list(benchmark.stats.stats.data)) for name, seconds in durations.items()}
    speed = facts["tokens"] / benchmark.stats.stats.median
    ratios_as_kept = {name: vars(r) for name, r in ratios.items()}
    benchmark.extra_info |= {"tokens per second": speed, "ratios": ratios_as_kept, **facts}
    application.setdefault("an epoch", {})[sentences] = benchmark.extra_info
    times = ", ".join(f"{name} {r.median:.1f} × ({r.p20:.1f} to {r.p80:.1f})" for name, r in ratios.items())
    with capsys.disabled():
        print(f"\n{sentences}: ours {speed:,.0f} target tokens/s; as long: {times}")


@functools.cache
def all_pairs():
    """All numbers in words, which take seconds."""
    return list(corpus.read(config.Config().data).training)


def rivals(draw, count, device, folder):
    """name -> a call that trains an epoch; and an epoch's target tokens, a sentence's mean length and the longest."""
    settings = config.Config().replace(**{"model.dropout": 0.1})
    words = draw(all_pairs(), count, random.Random(0))
    source, target = (tokenizer.train("bpe", settings.tokens.vocab_size, [pair[i] for pair in words]) for i in (0, 1))
    encoded = batches.encode(words, (source, target), settings.data.max_length)
    model = checkpoint.build_model(settings, source.vocab_size, target.vocab_size)
    trainer = Trainer(settings, folder, model, encoded, encoded, target, "", distribution.World(torch.device(device)))
    size = len(encoded.pairs) // len(batches.plan(encoded, settings.training.batch_tokens))
    lengths = encoded.sources.lengths, encoded.targets.lengths
    m, longest = settings.model, int(max(map(max, lengths)))
    taught = model_of_tutorial_a(
        source.vocab_size, target.vocab_size, longest, longest, m.d_model, m.num_layers, m.num_heads, m.dropout, m.d_ff
    ).to(device)
    epoch_as_taught = functools.partial(train_as_taught, taught, encoded, longest, device)
    return {
        "ours": lambda: [trainer._step(step) for step in trainer._rest_of_the_epoch()],
        "tutorial": functools.partial(epoch_as_taught, 8),
        "tutorial, wide": functools.partial(epoch_as_taught, size),
    }, {
        "tokens": int(lengths[1].sum()),
        "mean length": float(sum(map(sum, lengths)) / 2 / len(words)),
        "longest": longest,
    }


def train_as_taught(model, encoded, length, device, batch_size):
    """An epoch of tutorials' `train_model`, without its writing of logs."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, eps=1e-9)
    loss_fn = torch.nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1)
    dataset = [item_as_taught(encoded.sources[i], encoded.targets[i], length) for i in range(len(encoded.pairs))]
    for batch in torch.utils.data.DataLoader(dataset, batch_size=batch_size, shuffle=True):
        encoder_input, decoder_input, encoder_mask, decoder_mask, label = (tensor.to(device) for tensor in batch)
        encoder_output = model.encode(encoder_input, encoder_mask)
        logits = model.project(model.decode(encoder_output, encoder_mask, decoder_input, decoder_mask))
        loss = loss_fn(logits.flatten(0, 1), label.flatten())
        loss.item()  # for the progress bar
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def item_as_taught(source, target, length):
    """An item of tutorials' `BilingualDataset`: all sequences padded to `length`, and their masks."""
    encoder_input, label, decoder_input = (torch.full((length,), PAD) for _ in range(3))
    encoder_input[: len(source)] = torch.tensor(source)
    label[: len(target)] = torch.tensor(target)
    decoder_input[0] = tokenizer.Tokenizer.bos_id
    decoder_input[1 : len(target)] = torch.tensor(target[:-1])
    causal = torch.triu(torch.ones(1, length, length), diagonal=1).type(torch.int) == 0
    encoder_mask = (encoder_input != PAD)[None, None].int()
    decoder_mask = (decoder_input != PAD)[None].int() & causal
    return encoder_input, decoder_input, encoder_mask, decoder_mask, label


@pytest.fixture
def device(pytestconfig):
    return pytestconfig.getoption("--device")
