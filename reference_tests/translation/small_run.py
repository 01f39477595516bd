"""A run's folder with a small model that has learned a few pairs by heart."""

import functools
import json
import tempfile
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence

from scratch_transformer import masks
from scratch_transformer.optim import Adam
from scratch_transformer.translation import checkpoint, config, tokenizer

LONGEST = 20
PAIRS = [
    ("one", "eins"),
    ("two", "zwei"),
    ("three", "drei"),
    ("seven", "sieben"),
    ("twenty-one", "einundzwanzig"),
    ("twenty-three", "dreiundzwanzig"),
    ("seventy-two", "zweiundsiebzig"),
    ("one hundred and two", "einhundertzwei"),
]


@functools.cache
def folder() -> Path:
    """The same folder for all tests of a process, to read from."""
    path = Path(tempfile.mkdtemp(prefix="run-"))
    write_run(path)
    return path


def write_run(path: Path, steps: int = 120) -> None:
    settings = config.Config().replace(
        **{"data.max_length": LONGEST, "model.d_model": 32, "model.num_layers": 2, "model.d_ff": 48, "data.held_out": 8}
    )
    (path / "config.json").write_text(json.dumps(settings.to_json()))
    source, target = (tokenizer.train("bpe", 40, [pair[side] for pair in PAIRS]) for side in (0, 1))
    source.save(path / "source_tokenizer.json")
    target.save(path / "target_tokenizer.json")
    (path / "held_out.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in PAIRS))
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = checkpoint.build_model(settings, source.vocab_size, target.vocab_size)
    learn_by_heart(model, source, target, steps)
    from safetensors.torch import save_file

    save_file({name: tensor.detach().clone() for name, tensor in model.named_parameters()}, path / "model.safetensors")


def learn_by_heart(model, source, target, steps):
    src = padded([[*source.encode(text), source.eos_id] for text, _ in PAIRS])
    tgt = padded([[target.bos_id, *target.encode(text), target.eos_id] for _, text in PAIRS])
    src_mask, tgt_mask = masks.padding(src, 0), masks.causal(tgt.shape[1] - 1)
    adam = Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        adam.zero_grad()
        logits = model(src, tgt[:, :-1], src_mask, tgt_mask)
        cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten(), ignore_index=0).backward()
        adam.step()


def padded(rows):
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
