"""What the page is given: weights, vocabularies, the recorded run, and the texts, as one JSON document."""

from __future__ import annotations

import copy
import dataclasses
import json
import re
from typing import Any

import torch
from torch import Tensor

from scratch_transformer import __version__
from scratch_transformer.trace import Trace, kinds, trace
from scratch_transformer.translation.checkpoint import Run, tensors_of
from scratch_transformer.translation.errors import InputError
from scratch_transformer.translation.tokenizer import Tokenizer
from scratch_transformer.translation.translator import Search, encode, translate
from scratch_transformer.view import mistakes, packing, sources, story

MOST_PARAMETERS = 4_000_000
"""More would make a page of more than 20 MB, and a browser would take seconds for each token."""
MOST_WIDE_NUMBERS = 80_000
"""More are recorded in float32, so that the page stays small."""
EXAMPLES = 40
"""Sentences that come with Python's translation."""
UNRECORDED = {"masked_scores": kinds.MASKED_SCORES, "probabilities": kinds.SOFTMAX}
"""What the trace has none of: masks that block nothing, and the last softmax."""


def payload(run: Run, sentence: str) -> dict[str, Any]:
    """The document for a run and the sentence that is recorded.

    Raises:
        InputError: the model is too large for a page, or cannot read the sentence.
    """
    count = sum(p.numel() for p in run.model.parameters())
    if count > MOST_PARAMETERS:
        raise InputError(
            f"{run.folder}: the model has {count:,} parameters: expected at most {MOST_PARAMETERS:,}, for a page"
        )
    m = run.config.model
    if m.decoder_layers not in (None, m.num_layers):
        sizes = f"{m.num_layers} layers in the encoder and {m.decoder_layers} in the decoder"
        raise InputError(f"{run.folder}: the model has {sizes}: expected as many, for a page")
    if run.config.tokens.byte_fallback or run.config.tokens.file:
        raise InputError(f"{run.folder}: the page reads no bytes and no ready vocabularies: expected one without")
    encode(run, sentence, "the sentence")
    recorded = traced(run, sentence)
    return {
        "version": __version__,
        "torch": torch.__version__.partition("+")[0],
        "config": {
            "d_model": m.d_model, "num_heads": m.num_heads, "num_layers": m.num_layers, "d_ff": m.d_ff, "norm": m.norm,
            "longest": [run.model.src_pos.seq_len, run.model.tgt_pos.seq_len], "parameters": count,
            "languages": [run.config.data.source, run.config.data.target],
            "label_smoothing": run.config.training.label_smoothing,
        },
        "weights": weights(run),
        "tokenizers": [tokenizer(run.source_tokenizer), tokenizer(run.target_tokenizer)],
        "recorded": record(recorded),
        "examples": examples(run, sentence),
        "mistakes": mistakes.offered(m),
        **told(run, recorded),
    }  # fmt: skip


def weights(run: Run) -> dict[str, Any]:
    """All parameters under their names in the state_dict; those that are shared, under every name."""
    tensors = tensors_of(run.model)
    packed = packing.pack(tensors, packing.smallest(tensors))
    everywhere = dict(run.model.named_parameters(remove_duplicate=False))
    own = {id(parameter): name for name, parameter in tensors.items()}
    packed["aliases"] = {name: own[id(p)] for name, p in everywhere.items() if name not in tensors}
    return packed


SPLITS = {"Punctuation": "punctuation", "Split": "characters"}


def tokenizer(of: Tokenizer) -> dict[str, Any]:
    """A vocabulary by id, how words are split first, and what byte-pair encoding joins, the first pair first."""
    saved = json.loads(of.library.to_str())
    before, merges = saved["pre_tokenizer"], saved["model"].get("merges")
    steps = before.get("pretokenizers", [before])
    return {
        "vocabulary": of.tokens(range(of.vocab_size)),
        "split": next((SPLITS[step["type"]] for step in steps if step["type"] in SPLITS), ""),
        "merges": merges and [pair if isinstance(pair, list) else pair.split(" ") for pair in merges],
    }


def record(traced: Trace) -> dict[str, Any]:
    """A sentence's whole pass over its whole translation: torch.nn's tensors, and by how many bits ours differ."""
    ours = {point.name: point.tensor[0] for point in traced if point.torch is not None}
    torchs = {point.name: point.torch[0] for point in traced if point.torch is not None}
    for tensors in (ours, torchs):
        tensors["probabilities"] = tensors["projection_layer.proj"].softmax(-1)
    dtype = torch.float64 if sum(map(Tensor.numel, torchs.values())) <= MOST_WIDE_NUMBERS else torch.float32
    return {
        "sentence": traced.about["source"],
        "source": traced.about["source_ids"],
        "prefix": traced.about["target_ids"],
        "torch": packing.pack(torchs, dtype),
        "ours": packing.pack(ours, dtype, beside=torchs),
    }


def traced(run: Run, sentence: str) -> Trace:
    """The run's pass over a sentence, computed in float64."""
    wide = dataclasses.replace(run, model=copy.deepcopy(run.model).double())
    found: Trace = trace(wide, sentence)
    return found


def examples(run: Run, sentence: str) -> list[tuple[str, str]]:
    """Sentences with the translations that Python finds, greedily: the given one, and held-out ones, short and long."""
    held_out = [text for text, _ in run.held_out()] if (run.folder / "held_out.jsonl").is_file() else []
    short = sorted(held_out, key=len)[: 20 * EXAMPLES : 20] if len(held_out) > 20 * EXAMPLES else held_out[:EXAMPLES]
    texts = list(dict.fromkeys([sentence, *short]))
    found = translate(run, [encode(run, text, "a held-out sentence") for text in texts], Search())
    decode = run.target_tokenizer.decode
    return [(text, decode(hypotheses[0].ids)) for text, hypotheses in zip(texts, found, strict=True)]


def told(run: Run, trace: Trace) -> dict[str, Any]:
    """The points of the story, with MathML, and the sources that they point into."""
    from latex2mathml.converter import convert

    listings: dict[str, dict[str, Any]] = {}
    by_place = {re.sub(r"\.layers\.\d+\.", ".layers.*.", point.name): point for point in trace}
    points = []
    for point in story.story(run.config.model.norm):
        path, fragment = point.source
        listing = listings.setdefault(path, sources.listing(path))
        recorded = by_place.get(point.place)
        kind: Any = UNRECORDED[point.place.rpartition(".")[2]] if recorded is None else recorded
        points.append({
            "place": point.place, "title": point.title, "short": point.short, "axes": point.axes.split(),
            "says": filled(point.says or kind.sentence, run), "detail": point.detail,
            "mathml": "".join(convert(line, display="block") for line in kind.latex.split(r",\;")),
            "source": path, "lines": sources.marked(listing, fragment),
        })  # fmt: skip
    return {"points": points, "sources": {k: {n: v for n, v in s.items() if n != "text"} for k, s in listings.items()}}


def filled(says: str, run: Run) -> str:
    """A sentence with the run's settings in the place of {d_model} and others."""
    m = run.config.model
    settings = {name: getattr(m, name) for name in ("d_model", "d_ff", "num_heads")}
    settings |= {"d_k": m.d_model // m.num_heads, "target_vocabulary": run.target_tokenizer.vocab_size}
    for name, value in settings.items():
        says = says.replace("{" + name + "}", str(value))
    return says.replace("'", "’")
