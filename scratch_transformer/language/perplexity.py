"""How surprised a model is by a text: the perplexity of a token, and bits a byte, which no vocabulary changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from scratch_transformer.language import packing
from scratch_transformer.language.objective import documents as of_documents
from scratch_transformer.language.run import Run
from scratch_transformer.translation.errors import InputError

MEANINGS = {
    "perplexity": "exp of the loss: among how many equally likely tokens the model would be as unsure",
    "bits_per_byte": "the text's length if the model compressed it, in bits for each of its bytes",
    "loss": "the mean of -log P(token | those before it), in nats",
}
"""The scores of a language model, in words."""


@dataclass(frozen=True)
class Surprise:
    """loss: the mean of -log P(token | tokens before it) in nats. tokens: of which, the ends of documents included.

    byte_count: of the documents in UTF-8. context: the fewest tokens that a token was predicted from, but at the
    beginning. perplexity, bits_per_byte: as `MEANINGS` says.
    """

    loss: float
    tokens: int
    byte_count: int
    context: int

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.loss, 700))

    @property
    def bits_per_byte(self) -> float:
        return self.loss / math.log(2) * self.tokens / max(1, self.byte_count)


@torch.inference_mode()
def measure(
    run: Run,
    documents: Sequence[str],
    stride: int | None = None,
    batch_tokens: int = 2048,
    progress: Callable[[int], object] = lambda done: None,
) -> Surprise:
    """Every token once, from at least length - stride tokens before it, where there are so many.

    A window of data.length tokens moves on by `stride`, half of it unless given; only its last `stride` tokens count,
    in the first window all. progress: gets the number of tokens that are done.

    Raises:
        InputError: stride is no number from 1 to data.length, or there is no text.
    """
    length = run.config.data.length
    stride = max(1, length // 2) if stride is None else stride
    if not 1 <= stride <= length:
        raise InputError(f"stride is {stride}: expected 1 to data.length, {length}")
    if not any(documents):
        raise InputError("there is no text to measure: expected at least a character")
    ids = torch.from_numpy(packing.pack(documents, run.tokenizer)).long()
    starts = list(range(0, max(1, len(ids) - 1 - length + stride), stride))
    windows = [_window(ids, start, length, 0 if start == 0 else length - stride) for start in starts]
    total, done, per_batch = 0.0, 0, max(1, batch_tokens // length)
    for first in range(0, len(windows), per_batch):
        losses = _losses(run, *map(torch.stack, zip(*windows[first : first + per_batch], strict=True)))
        total, done = total + losses.double().sum().item(), done + len(losses)
        progress(done)
    return Surprise(total / done, done, sum(len(document.encode()) for document in documents), length - stride)


def _losses(run: Run, inputs: Tensor, targets: Tensor) -> Tensor:
    """-log P of every target that counts: (count,). inputs, targets: (B, L)."""
    device = next(run.model.parameters()).device
    inputs, targets = inputs.to(device), targets.to(device)
    mask, positions = of_documents(inputs, run.tokenizer.eos_id) if run.config.data.apart else (None, None)
    logits = run.model(inputs, mask=mask, positions=positions)
    log_p = logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))
    picked = log_p.gather(-1, targets.clamp_min(0).unsqueeze(-1)).squeeze(-1)
    return -picked[targets != packing.IGNORED]


def _window(ids: Tensor, start: int, length: int, context: int) -> tuple[Tensor, Tensor]:
    """Ids and targets from `start` on; the targets of the first `context`, and behind the end, do not count."""
    row = ids[start : start + length + 1]
    row = torch.cat([row, row.new_full((length + 1 - len(row),), packing.IGNORED)])
    targets = row[1:].clone()
    targets[:context] = packing.IGNORED
    return row[:-1].clamp_min(0), targets
