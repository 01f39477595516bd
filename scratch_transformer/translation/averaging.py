"""The mean of the last checkpoints' weights, which is often better than each. Vaswani et al. 2017, section 6.1."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch

from scratch_transformer.translation import checkpoint
from scratch_transformer.translation.errors import InputError
from scratch_transformer.translation.files import digest, new_beside, tensors_to_bytes, write_bytes, write_json


def average(folder: Path, last: int | None = None, out: Path | None = None) -> tuple[Path, list[Path]]:
    """θ = (θ₁ + … + θ_k) / k over the last k checkpoints of a run, summed in float64, in a folder that can be loaded.

    last: k; None: all that were kept. out: a new folder; None: `averaged` in the run's.

    Returns:
        The new folder, and the checkpoints that were averaged.

    Raises:
        InputError: there is no run, too few checkpoints, or the new folder is there already.
    """
    out = folder / "averaged" if out is None else out
    config = checkpoint.read_config(folder)
    chosen = checkpoint.checkpoints(folder)[-(last or 0) :]
    if not chosen or (last is not None and len(chosen) < last):
        raise InputError(f"{folder} has {len(chosen)} checkpoints: expected at least {last or 1}")
    if out.exists():
        raise InputError(f"{out} is there already: expected a new folder")
    source, target = checkpoint.read_tokenizers(folder, config, checkpoint.read_checksums(chosen[-1]))
    model = checkpoint.build_model(config, source.vocab_size, target.vocab_size)
    sums = {name: torch.zeros_like(p, dtype=torch.float64) for name, p in checkpoint.tensors_of(model).items()}
    for path in chosen:
        checkpoint.read_state(path)  # a checkpoint without one is damaged
        checkpoint.load_weights(model, path)
        for name, parameter in checkpoint.tensors_of(model).items():
            sums[name] += parameter.detach()
    mean = {name: (total / len(chosen)).float() for name, total in sums.items()}
    write_run(folder, out, tensors_to_bytes(mean))
    return out, chosen


def write_run(folder: Path, out: Path, weights: bytes) -> None:
    """A whole folder, or none: beside the weights all that a run has but its checkpoints and logs."""
    new = new_beside(out)
    try:
        new.mkdir(parents=True)
        tokenizers = checkpoint.tokenizer_names(checkpoint.read_config(folder))
        for name in ("config.json", "held_out.jsonl", *tokenizers):
            shutil.copyfile(folder / name, new / name)
        write_bytes(new / "model.safetensors", weights)
        write_json(new / "sha256.json", {name: digest(new / name) for name in ("model.safetensors", *tokenizers)})
        new.rename(out)
    except OSError as error:
        raise InputError(f"cannot create {out}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(new, ignore_errors=True)
