"""The mean of the last checkpoints' weights, which is often better than each. Vaswani et al. 2017, section 6.1."""

from __future__ import annotations

import shutil
from pathlib import Path

from torch import Tensor

from scratch_transformer.translation import checkpoint
from scratch_transformer.translation.errors import InputError
from scratch_transformer.translation.files import (
    check_digest,
    digest,
    new_beside,
    read_tensors,
    tensors_to_bytes,
    write_bytes,
    write_json,
)


def average(folder: Path, last: int | None = None, out: Path | None = None) -> tuple[Path, list[Path]]:
    """θ = (θ₁ + … + θ_k) / k over the last k checkpoints of a run, summed in float64, in a folder that can be loaded.

    last: k; None: all that were kept. out: a new folder; None: `averaged` in the run's.

    Returns:
        The new folder, and the checkpoints that were averaged.

    Raises:
        InputError: there is no run, too few checkpoints, or the new folder is there already.
    """
    out = folder / "averaged" if out is None else out
    checkpoint.check_is_run(folder)
    chosen = checkpoint.checkpoints(folder)[-(last or 0) :]
    if not chosen or (last is not None and len(chosen) < last):
        raise InputError(f"{folder} has {len(chosen)} checkpoints: expected at least {last or 1}")
    if out.exists():
        raise InputError(f"{out} is there already: expected a new folder")
    for name, checksum in checkpoint.read_checksums(chosen[-1]).items():
        if name.endswith("tokenizer.json"):
            check_digest(folder / name, checksum)
    mean = _mean(chosen)
    write_run(folder, out, tensors_to_bytes(mean))
    return out, chosen


def _mean(chosen: list[Path]) -> dict[str, Tensor]:
    """Of every tensor, whatever the model is."""
    sums: dict[str, Tensor] = {}
    for path in chosen:
        file = path / "model.safetensors"
        checksum = checkpoint.read_state(path)["sha256"].get(file.name)  # a checkpoint without a state is damaged
        saved = read_tensors(file, checksum)
        shapes = {name: tensor.shape for name, tensor in saved.items()}
        if sums and shapes != {name: total.shape for name, total in sums.items()}:
            raise InputError(f"{file}: holds another model than {chosen[0]}")
        for name, tensor in saved.items():
            if not tensor.isfinite().all():
                raise InputError(f"{file}: {name} has values that are no finite numbers: the model is of no use")
            sums[name] = tensor.double() + sums.get(name, 0.0)
    return {name: (total / len(chosen)).float() for name, total in sums.items()}


def write_run(folder: Path, out: Path, weights: bytes) -> None:
    """A whole folder, or none: beside the weights all that a run has but its checkpoints and logs."""
    new = new_beside(out)
    try:
        new.mkdir(parents=True)
        tokenizers = sorted(file.name for file in folder.glob("*tokenizer.json"))
        for name in ("config.json", "held_out.jsonl", *tokenizers):
            shutil.copyfile(folder / name, new / name)
        write_bytes(new / "model.safetensors", weights)
        write_json(new / "sha256.json", {name: digest(new / name) for name in ("model.safetensors", *tokenizers)})
        new.rename(out)
    except OSError as error:
        raise InputError(f"cannot create {out}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(new, ignore_errors=True)
