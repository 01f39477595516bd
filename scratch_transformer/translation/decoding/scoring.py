"""Log-probabilities of translations that are given: one pass of the whole model, every token at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from scratch_transformer import functional, masks
from scratch_transformer.model import Transformer
from scratch_transformer.translation.decoding.modes import deciding


def token_log_probabilities(
    model: Transformer, source_ids: Tensor, source_pad_id: int, targets: Sequence[Sequence[int]], bos_id: int
) -> tuple[list[list[float]], list[list[int]]]:
    """log P(target_t | source, target_<t) for every token of every target, and the token that is likeliest there.

    Args:
        source_ids: (B, S), padded with source_pad_id.
        targets: B sequences of ids without bos, with eos if its probability counts.
    """
    if not targets or not any(targets):
        return [[] for _ in targets], [[] for _ in targets]
    with deciding(model):
        width, device = max(map(len, targets)), source_ids.device
        # what fills the shorter rows is never looked at: the mask is causal
        padded = torch.tensor([[*t, *[bos_id] * (width - len(t))] for t in targets], device=device)
        inputs = torch.cat([padded.new_full((len(targets), 1), bos_id), padded[:, :-1]], dim=1)
        source_mask = masks.padding(source_ids, source_pad_id)
        logits = model(source_ids, inputs, source_mask, masks.causal(width, device=device))
        log_p = functional.log_softmax(logits, dim=-1)
        of_targets = log_p.gather(-1, padded.unsqueeze(-1)).squeeze(-1).tolist()
        likeliest = log_p.argmax(-1).tolist()
    return (
        [row[: len(t)] for row, t in zip(of_targets, targets, strict=True)],
        [row[: len(t)] for row, t in zip(likeliest, targets, strict=True)],
    )
