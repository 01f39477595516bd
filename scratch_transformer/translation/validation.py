"""How good a model is on pairs that it is not trained on: loss, exact matches, samples."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from scratch_transformer.translation import batches, distribution, metrics
from scratch_transformer.translation.batches import Encoded, Steps
from scratch_transformer.translation.checkpoint import Run
from scratch_transformer.translation.decoding import greedy
from scratch_transformer.translation.distribution import World
from scratch_transformer.translation.objective import Objective
from scratch_transformer.translation.tokenizer import Tokenizer

SCORES = ("BLEU", "chrF", "exact_match")


@dataclass(frozen=True)
class Result:
    """loss: the mean cross-entropy of a target token in nats; smoothed_loss: the same as it is trained.

    scores: BLEU, chrF and exact_match, the share of sentences translated exactly. samples: (source, expected,
    translated). Both are empty where nothing was decoded.
    """

    loss: float
    smoothed_loss: float
    scores: dict[str, float]
    samples: list[tuple[str, str, str]]

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.loss, 700))


@torch.no_grad()
def losses(objective: torch.nn.Module, encoded: Encoded, batch_tokens: int, world: World) -> tuple[float, float]:
    """The mean cross-entropy of a target token without dropout, over all processes: not smoothed and smoothed."""
    steps = Steps(encoded, batches.plan(encoded, batch_tokens), world.rank, world.processes)
    objective.eval()
    sums = [objective(*steps[i].pieces[0].to(world.device)) for i in range(len(steps))]
    objective.train()
    distribution.reshard(objective)
    total = torch.stack(sums).cpu().double().sum(0)  # on the CPU, for some devices have no float64
    loss, smoothed = (world.sum(total) / int(encoded.targets.lengths.sum())).tolist()
    return loss, smoothed


def matches(objective: Objective, encoded: Encoded, target: Tokenizer, count: int, samples: int) -> Result:
    """Decode the first `count` pairs greedily; the losses are left to `losses`."""
    count = min(count, len(encoded.pairs))
    if count == 0:
        return Result(math.nan, math.nan, {}, [])
    objective.eval()
    translated = translate(objective, [encoded.sources[i].tolist() for i in range(count)], target)
    objective.train()
    pairs = encoded.pairs[:count]
    scores = metrics.text_metrics(translated, [expected for _, expected in pairs])
    shown = [(*pair, text) for pair, text in zip(pairs[:samples], translated, strict=False)]
    return Result(math.nan, math.nan, {name: scores[name] for name in SCORES}, shown)


def translate(objective: Objective, sources: list[list[int]], target: Tokenizer, batch: int = 250) -> list[str]:
    """Greedy translations of sources that end with eos; those of similar length together."""
    model, device = objective.model, next(objective.parameters()).device
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    texts = [""] * len(sources)
    for start in range(0, len(order), batch):
        chosen = order[start : start + batch]
        ids = batches.padded([torch.tensor(sources[i]).numpy() for i in chosen], Tokenizer.pad_id).to(device)
        with torch.autocast(device.type, objective.autocast, enabled=objective.autocast is not None):
            length = model.tgt_pos.seq_len
            decoded = greedy(model, ids, Tokenizer.pad_id, Tokenizer.bos_id, Tokenizer.eos_id, length)
        for i, row in zip(chosen, decoded, strict=True):
            texts[i] = target.decode(row)
    return texts


def exact_match(run: Run) -> float:
    """The share of a run's held-out sentences that its model translates exactly."""
    pairs = run.held_out()
    sources = [[*run.source_tokenizer.encode(source), Tokenizer.eos_id] for source, _ in pairs]
    translated = translate(Objective(run.model, 0.0), sources, run.target_tokenizer)
    return sum(text == expected for text, (_, expected) in zip(translated, pairs, strict=True)) / len(pairs)
