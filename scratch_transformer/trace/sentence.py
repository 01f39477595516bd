"""What a trained model computes when it translates a sentence."""

from __future__ import annotations

from typing import Any

import torch

from scratch_transformer import masks
from scratch_transformer.trace.result import Trace
from scratch_transformer.translation.checkpoint import Run
from scratch_transformer.translation.decoding import greedy
from scratch_transformer.translation.translator import encode


def trace_sentence(run: Run, text: str) -> Trace:
    """The trace of one pass over a sentence and its whole translation, which was found greedily before.

    Row t of the decoder is what it computed when it chose token t: later tokens are masked.

    trace.about has

        source, translation                 the texts
        source_ids, source_tokens           as the encoder read them, ended by <eos>
        target_ids, target_tokens           as the decoder read them, from <bos> on
        next_ids, next_tokens               what it chose after each of these, to the end: <eos>, unless it was cut
        sizes                               {letter: size}
        special                             {pad, unk, bos, eos: id}

    Raises:
        InputError: the sentence is empty, too long, or of unknown words alone.
    """
    from scratch_transformer.trace.run import trace

    source, target = run.source_tokenizer, run.target_tokenizer
    ids = encode(run, text, "the sentence")
    device = next(run.model.parameters()).device
    src, longest = torch.tensor([ids], device=device), run.model.tgt_pos.seq_len
    (found,) = greedy(run.model, src, source.pad_id, target.bos_id, target.eos_id, longest)
    inputs = [target.bos_id, *found][:longest]
    tgt = torch.tensor([inputs], device=device)
    recorded = trace(run.model, src, tgt, None, masks.causal(len(inputs), device=device))
    chosen = [*found, target.eos_id][:longest]
    about: dict[str, Any] = {
        "source": text, "translation": target.decode(found),
        "source_ids": ids, "source_tokens": source.tokens(ids),
        "target_ids": inputs, "target_tokens": target.tokens(inputs),
        "next_ids": chosen, "next_tokens": target.tokens(chosen),
        "sizes": _sizes(run, len(ids), len(inputs)),
        "special": {"pad": target.pad_id, "unk": target.unk_id, "bos": target.bos_id, "eos": target.eos_id},
    }  # fmt: skip
    return Trace(list(recorded), recorded.aliases, recorded.output, about)


def _sizes(run: Run, S: int, T: int) -> dict[str, int]:
    m = run.config.model
    return {
        "B": 1, "S": S, "T": T, "d_model": m.d_model, "h": m.num_heads, "d_k": m.d_model // m.num_heads, "d_ff": m.d_ff,
        "V": run.target_tokenizer.vocab_size,
    }  # fmt: skip
