"""From a configuration to a trained run, and on from where one was interrupted.

    torchrun --nproc-per-node 2 -m scratch_transformer.translation.train --out RUN

takes the options of `scratch-transformer train`.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from scratch_transformer.translation import checkpoint, distribution, prepared, saving, validation
from scratch_transformer.translation.config import Config
from scratch_transformer.translation.distribution import World
from scratch_transformer.translation.errors import InputError
from scratch_transformer.translation.files import (
    locked,
    new_beside,
    remove_folder,
    remove_parts,
    write_bytes,
    write_json,
)
from scratch_transformer.translation.logs import Log
from scratch_transformer.translation.loop import Loop
from scratch_transformer.translation.prepared import Prepared
from scratch_transformer.translation.settings import Settings
from scratch_transformer.translation.trainer import Trainer

Say = Callable[[str], object]
JOB = "torchrun-job"
"""File in a run's folder: the name of the job that began it."""


@dataclass(frozen=True)
class Task:
    """What is learned: `train` and `resume` are the same for all.

    read_config: the settings of the run in a folder. files: the settings that name files, and their options. prepare:
    data, vocabulary and model, ready to train. finish: how good the trained run is, the main process's last word.
    """

    read_config: Callable[[Path], Any]
    files: Mapping[str, str]
    prepare: Callable[[Any, Path, World, Say], Loop]
    finish: Callable[[Path, str, Say], float]


def train(
    config: Settings, folder: Path, device: str = "cpu", say: Say = print, task: Task | None = None
) -> float | None:
    """Train from the beginning, into a new folder; returns the share of held-out sentences translated exactly.

    say: gets lines for people. In several processes, all call it with the same arguments. task: what to learn; None: to
    translate. Another one returns its own measure.

    Raises:
        InputError: the folder is there already, or the data cannot be used.
        ModuleNotFoundError: a package that the application needs is not installed.
    """
    import safetensors  # noqa: F401  (all that is missing is missed now, and not after the first steps)
    import tensorboard  # noqa: F401

    task, world = task or TRANSLATION, distribution.start(device)
    if world.main_says(lambda: _has_begun(folder, config, task)):
        return resume(folder, device, say, task)
    world.main_first(lambda: _create(folder, config))
    with locked(folder) if world.is_main else nullcontext():
        try:
            trainer = task.prepare(config, folder, world, say)
        except (InputError, ModuleNotFoundError):
            world.wait()
            if world.is_main:
                remove_folder(folder)
            raise
        return _run(trainer, say, task)


def resume(
    folder: Path,
    device: str = "cpu",
    say: Say = print,
    task: Task | None = None,
    *,
    from_last_good: bool = False,
    **changes: object,
) -> float | None:
    """Go on with an interrupted run; it ends as if it had not been interrupted. changes: settings, as `replace` takes.

    from_last_good: set the last checkpoints aside where they are damaged.

    Raises:
        InputError: there is no such run, it is damaged, or its data are others now.
        ModuleNotFoundError: a package that the application needs is not installed.
    """
    task = task or TRANSLATION
    config = task.read_config(folder).replace(**changes)
    if (folder / "model.safetensors").exists():
        raise InputError(f"{folder} has weights without a training, as `average` writes them: resume the run itself")
    has_data = (folder / "data").exists()
    if has_data and (others := [name for name in changes if name.startswith("data.")]):
        raise InputError(f"{folder / 'data'} has the data of this run, and no other are read: expected no {others[0]}")
    config = config if has_data else _with_files(config, folder, task)
    world = distribution.start(device)
    with ExitStack() as lock:
        world.main_first(lambda: lock.enter_context(locked(folder)))
        if from_last_good:
            world.main_first(lambda: _set_aside_damaged(folder, say))
        found = checkpoint.checkpoints(folder)
        done = int(found[-1].name.rpartition("-")[2]) if found else 0
        if (steps := config.training.steps) < done:
            raise InputError(
                f"training.steps is {steps}, but {folder} has done {done} already: expected at least {done}"
            )
        if world.is_main:
            if config.training.steps == done:
                say(f"all {done} steps are done already: --steps with a larger number trains longer")
            remove_parts(folder)
        try:
            trainer = task.prepare(config, folder, world, say)
        except InputError as error:
            if len(found) > 1 and str(found[-1]) in str(error) and not saving.is_whole(found[-1]):
                hint = f"--from-last-good goes on without it, from the checkpoint before, {found[-2].name}"
                raise InputError(f"{error}; {hint}") from None
            raise
        return _run(trainer, say, task)


def _with_files(config: Any, folder: Path, task: Task) -> Any:
    """The configuration with files that are there: a name that was given elsewhere is looked for above the run.

    A run is mostly begun in a folder above it; whether the data are the same is found out later.
    """
    for name, option in task.files.items():
        path = getattr(config.data, name)
        if not path or Path(path).exists():
            continue
        found = next((place / path for place in folder.resolve().parents if (place / path).exists()), None)
        if found is None:
            raise InputError(f"cannot read {path}: there is no such file; if it was moved, --{option} says where to")
        config = config.replace(**{f"data.{name}": str(found)})
    return config


def _set_aside_damaged(folder: Path, say: Say) -> None:
    for path in saving.set_aside_damaged(folder):
        say(f"{path.name} is damaged, and is damaged-{path.name} now")


def _has_begun(folder: Path, config: Settings, task: Task) -> bool:
    """Whether `torchrun` has started this run before, and starts it again: after a failure, or as machines come and go.

    When machines come or go, it counts no restart; the job's name, its --rdzv-id, is the same then.
    """
    is_again = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0
    if not is_again and (folder / JOB).exists():
        is_again = (folder / JOB).read_text(encoding="utf-8") == _job() != ""
    return is_again and (folder / "config.json").exists() and bool(task.read_config(folder) == config)


def _job() -> str:
    """The name that `torchrun` was given for its job; "" without one."""
    name = os.environ.get("TORCHELASTIC_RUN_ID", "")
    return "" if name == "none" else name


def _create(folder: Path, config: Settings) -> None:
    """A folder with the configuration in it appears at once, so that any run that exists can be resumed."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(
            f"{folder} is there already: expected a new folder, or --resume {folder} to go on with that run"
        )
    new = new_beside(folder)
    try:
        new.mkdir(parents=True)
        write_json(new / "config.json", config.to_json())
        if _job():
            write_bytes(new / JOB, _job().encode())
        new.rename(folder)
    except OSError as error:
        raise InputError(f"cannot create {folder}: {error.strerror or error}") from None


def _prepare(config: Config, folder: Path, world: World, say: Say) -> Trainer:
    """Pairs, vocabularies and a model, ready to train."""
    say_once: Say = say if world.is_main else (lambda line: None)
    is_new = not checkpoint.checkpoints(folder)
    start = checkpoint.load_run(config.training.start) if config.training.start and is_new else None
    data = prepared.prepare(config, folder, world, say_once)
    torch.manual_seed(config.training.seed)
    model = checkpoint.build_model(config, data.source.vocab_size, data.target.vocab_size)
    if start:
        checkpoint.load_weights(model, start.weights)
        say_once(f"starting with the weights of {start.weights}")
    say_once(_sizes_in_words(data, model, world))
    trainer = Trainer(config, folder, model, data.training, data.validation, data.target, data.fingerprint, world)
    if config.training.engine == "fsdp" and world.processes > 1 and config.training.exact_match:
        say_once("with FSDP no process has all weights: sentences are translated at the end only")
    if world.is_main:  # not before: a run that cannot go on with these data stays as it is
        prepared.write_pairs(folder / "held_out.jsonl", data.held_out)
        if data.skipped:
            write_bytes(folder / "skipped.txt", "".join(line + "\n" for line in data.skipped).encode())
    return trainer


def _run(trainer: Loop, say: Say, task: Task) -> float | None:
    """Train, then look at the best checkpoint."""
    world, folder, t = trainer.world, trainer.folder, trainer.config.training
    if trainer.state.step and world.is_main:
        say(f"going on after step {trainer.state.step}")
    log = Log(folder, trainer.state.step, t.steps, say) if world.is_main else None
    if world.is_main and task.read_config(folder) != trainer.config:  # not before all is known to go well
        write_json(folder / "config.json", trainer.config.to_json())
    try:
        trainer.run(log)
    finally:
        if log:
            log.close()
    if not world.is_main:
        return None
    return task.finish(folder, str(world.device), say)


def _translated(folder: Path, device: str, say: Say) -> float:
    """The held-out pairs, translated by the best checkpoint."""
    run = checkpoint.load_run(folder, device)
    share = validation.exact_match(run)
    say(f"{folder}: {100 * share:.1f} % of {len(run.held_out())} held-out sentences are translated exactly")
    return share


def _sizes_in_words(data: Prepared, model: torch.nn.Module, world: World) -> str:
    source, target = data.source, data.target
    vocabulary = f"{source.vocab_size}" if source is target else f"{source.vocab_size} + {target.vocab_size}"
    parameters = sum(parameter.numel() for parameter in model.parameters())
    processes = f", {world.processes} processes" if world.processes > 1 else ""
    return (
        f"{len(data.training.sources):,} pairs to train on, {len(data.held_out):,} held out; "
        f"vocabulary of {vocabulary} tokens; {parameters:,} parameters{processes}"
    )


TRANSLATION = Task(
    checkpoint.read_config,
    {"tsv": "data", "source_file": "source-file", "target_file": "target-file", "valid": "valid", "test": "test"},
    _prepare,
    _translated,
)


if __name__ == "__main__":
    sys.argv[1:1] = ["train"]
    runpy.run_module("scratch_transformer", run_name="__main__", alter_sys=True)
