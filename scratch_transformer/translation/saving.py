"""Checkpoints written so that a kill at any moment leaves the last one whole, and a training continued from one.

A checkpoint has the weights, Adam's moments, and how far the training is; everything random is drawn anew from the seed
and the number of the step. It is written under another name and renamed at the end.
"""

from __future__ import annotations

import dataclasses
import math
import shutil
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import Module

from scratch_transformer.optim import Adam
from scratch_transformer.translation import checkpoint, config, distribution
from scratch_transformer.translation.distribution import World
from scratch_transformer.translation.errors import InputError
from scratch_transformer.translation.files import (
    check_digest,
    digest,
    read_tensors,
    remove_folder,
    sync_folder,
    write_json,
    writing,
)

MOMENTS = ("exp_avg", "exp_avg_sq")
FILES = ("model.safetensors", "optimizer.safetensors")


@dataclass
class State:
    """How far a training is: steps done, the epoch and the steps before it, the best validation, and how many have come
    since that were not better.
    """

    step: int = 0
    epoch: int = 0
    epoch_start: int = 0
    best_step: int = 0
    best_score: float = -math.inf
    waited: int = 0

    def validated(self, score: float) -> None:
        """Take note of a validation; a higher score is better."""
        if score > self.best_score:
            self.best_step, self.best_score, self.waited = self.step, score, 0
        else:
            self.waited += 1


def save(folder: Path, state: State, data: str, model: Module, optimizer: Adam, world: World) -> None:
    """Write a checkpoint of the run in `folder`; every process must call it. data: the corpus's fingerprint."""
    name = checkpoint.step_name(state.step)
    new = folder / "checkpoints" / f".new-{name}"
    if world.is_main:
        shutil.rmtree(new, ignore_errors=True)
        with writing(new):
            new.mkdir(parents=True)
    world.wait()
    distribution.write_tensors(new / "model.safetensors", checkpoint.tensors_of(model), world)
    distribution.write_tensors(new / "optimizer.safetensors", _moments(model, optimizer), world)
    if world.is_main:
        checksums = {file: digest(new / file) for file in FILES}
        checksums |= {file.name: digest(file) for file in folder.glob("*tokenizer.json")}
        document = {"format": config.FORMAT, **dataclasses.asdict(state), "data": data, "sha256": checksums}
        write_json(new / "state.json", document)
        new.rename(folder / "checkpoints" / name)
        sync_folder(folder / "checkpoints")


def prune(folder: Path, keep: int) -> None:
    """Remove all checkpoints but the last `keep` and the best, and what a killed process left half-done."""
    found = checkpoint.checkpoints(folder)
    if found:
        best = checkpoint.best(folder)
        for old in found[:-keep]:
            if old != best:
                remove_folder(old)
    for half in (folder / "checkpoints").glob(".*-step-*"):
        shutil.rmtree(half, ignore_errors=True)


def set_aside_damaged(folder: Path) -> list[Path]:
    """Rename the checkpoints that are damaged, so that a run goes on from the last one that is whole; what they were.

    Raises:
        InputError: none is whole.
    """
    found = checkpoint.checkpoints(folder)
    damaged = [path for path in reversed(found) if not is_whole(path)]
    if damaged and len(damaged) == len(found):
        raise InputError(f"{folder}: none of its {len(damaged)} checkpoints is whole")
    for path in damaged:
        aside = path.with_name(f"damaged-{path.name}")
        shutil.rmtree(aside, ignore_errors=True)
        path.rename(aside)
    return damaged


def is_whole(path: Path) -> bool:
    """Whether a checkpoint has all its files as they were saved, with numbers for weights."""
    try:
        sha256 = checkpoint.read_state(path)["sha256"]
        check_digest(path / FILES[1], sha256.get(FILES[1]))
        checkpoint.read_weights(path)
    except InputError:
        return False
    return True


def restore(folder: Path, data: str, model: Module, optimizer: Adam) -> State:
    """Continue from the last checkpoint of the run in `folder`, if there is one.

    Raises:
        InputError: it is damaged, or belongs to another model or other data.
    """
    found = checkpoint.checkpoints(folder)
    if not found:
        return State()
    last = found[-1]
    saved = checkpoint.read_state(last)
    if saved["data"] != data:
        raise InputError(f"the data are not the ones that {folder} was trained on so far: a run goes on with the same")
    names = checkpoint.tensors_of(model)
    moments = {f"{kind}.{name}": torch.zeros_like(p) for name, p in names.items() for kind in MOMENTS}
    if distribution.is_sharded(names):
        for file, tensors in zip(FILES, (names, moments), strict=True):
            check_digest(last / file, saved["sha256"].get(file))
            distribution.read_sharded(last / file, tensors)
    else:
        checkpoint.load_weights(model, last)
        _fill(moments, last / "optimizer.safetensors", saved["sha256"].get("optimizer.safetensors"))
    for name, parameter in names.items():
        of_this = {kind: moments[f"{kind}.{name}"] for kind in MOMENTS}
        optimizer.state[parameter] = {"step": torch.tensor(float(saved["step"])), **of_this}
    state = State(**{field.name: saved[field.name] for field in dataclasses.fields(State)})
    if not (folder / "checkpoints" / checkpoint.step_name(state.best_step)).exists():
        state.best_step, state.best_score = state.step, -math.inf  # it was removed for a better one, which is damaged
    return state


def _moments(model: Module, optimizer: Adam) -> dict[str, Tensor]:
    """Adam's moments, named after their parameters; its count of steps is the training's."""
    return {f"{kind}.{name}": optimizer.state[p][kind] for name, p in model.named_parameters() for kind in MOMENTS}


def _fill(tensors: dict[str, Tensor], path: Path, checksum: str | None) -> None:
    saved = read_tensors(path, checksum)
    shapes = {name: tensor.shape for name, tensor in saved.items()}
    if shapes != {name: tensor.shape for name, tensor in tensors.items()}:
        raise InputError(f"{path}: does not hold the moments of this model's parameters")
    for name, tensor in tensors.items():
        tensor.copy_(saved[name])
