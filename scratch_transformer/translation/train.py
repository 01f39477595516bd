"""From a configuration to a trained run, and on from where one was interrupted.

    torchrun --nproc-per-node 2 -m scratch_transformer.translation.train --out RUN

takes the options of `scratch-transformer train`.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from pathlib import Path

import torch

from scratch_transformer.translation import checkpoint, corpus, distribution, saving, tokenizer, validation
from scratch_transformer.translation.batches import Encoded, encode
from scratch_transformer.translation.config import Config, to_json
from scratch_transformer.translation.corpus import Corpus
from scratch_transformer.translation.distribution import World
from scratch_transformer.translation.errors import InputError
from scratch_transformer.translation.files import (
    locked,
    new_beside,
    read_bytes,
    remove_folder,
    remove_parts,
    write_bytes,
    write_json,
)
from scratch_transformer.translation.logs import Log
from scratch_transformer.translation.tokenizer import Tokenizer
from scratch_transformer.translation.trainer import Trainer

Say = Callable[[str], object]

UNKNOWN = 0.02
"""Share of unknown tokens above which a vocabulary is too small to learn from."""


def train(config: Config, folder: Path, device: str = "cpu", say: Say = print) -> float | None:
    """Train from the beginning, into a new folder; returns the share of held-out sentences translated exactly.

    say: gets lines for people. In several processes, all call it with the same arguments.

    Raises:
        InputError: the folder is there already, or the data cannot be used.
        ModuleNotFoundError: a package that the application needs is not installed.
    """
    import safetensors  # noqa: F401  (all that is missing is missed now, and not after the first steps)
    import tensorboard  # noqa: F401

    world = distribution.start(device)
    restarts = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))  # of `torchrun --max-restarts`
    if restarts and (folder / "config.json").exists() and checkpoint.read_config(folder) == config:
        return resume(folder, device, say)
    world.main_first(lambda: _create(folder, config))
    with locked(folder) if world.is_main else nullcontext():
        try:
            trainer = _prepare(config, folder, world, say)
        except (InputError, ModuleNotFoundError):
            world.wait()
            if world.is_main:
                remove_folder(folder)
            raise
        return _run(trainer, say)


def resume(
    folder: Path, device: str = "cpu", say: Say = print, *, from_last_good: bool = False, **changes: object
) -> float | None:
    """Go on with an interrupted run; it ends as if it had not been interrupted. changes: settings, as `replace` takes.

    from_last_good: set the last checkpoints aside where they are damaged.

    Raises:
        InputError: there is no such run, it is damaged, or its data are others now.
        ModuleNotFoundError: a package that the application needs is not installed.
    """
    config = checkpoint.read_config(folder).replace(**changes)
    if (folder / "model.safetensors").exists():
        raise InputError(f"{folder} has weights without a training, as `average` writes them: resume the run itself")
    for name in ("tsv", "source_file", "target_file", "valid", "test"):
        if (path := getattr(config.data, name)) and not Path(path).exists():
            option = "data" if name == "tsv" else name.replace("_", "-")
            raise InputError(f"cannot read {path}: there is no such file; if it was moved, --{option} says where to")
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
            trainer = _prepare(config, folder, world, say)
        except InputError as error:
            if len(found) > 1 and str(found[-1]) in str(error):
                hint = f"--from-last-good goes on without it, from the checkpoint before, {found[-2].name}"
                raise InputError(f"{error}; {hint}") from None
            raise
        return _run(trainer, say)


def _set_aside_damaged(folder: Path, say: Say) -> None:
    for path in saving.set_aside_damaged(folder):
        say(f"{path.name} is damaged, and is damaged-{path.name} now")


def _create(folder: Path, config: Config) -> None:
    """A folder with the configuration in it appears at once, so that any run that exists can be resumed."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(
            f"{folder} is there already: expected a new folder, or --resume {folder} to go on with that run"
        )
    new = new_beside(folder)
    try:
        new.mkdir(parents=True)
        write_json(new / "config.json", to_json(config))
        new.rename(folder)
    except OSError as error:
        raise InputError(f"cannot create {folder}: {error.strerror or error}") from None


def _prepare(config: Config, folder: Path, world: World, say: Say) -> Trainer:
    """Pairs, vocabularies and a model, ready to train."""
    say_once: Say = say if world.is_main else (lambda line: None)
    say_once(f"reading {_data_in_words(config)} ...")
    pairs = corpus.read(config.data)
    _say_skipped(pairs.skipped, folder, say_once)
    source, target = _tokenizers(config, folder, pairs, world)
    data = config.data
    training = encode(pairs.training, (source, target), data.max_length, data.overlong)
    kept = [encode(part, (source, target), data.max_length) for part in (pairs.validation, pairs.held_out)]
    overlong = training.overlong + sum(part.overlong for part in kept)
    if overlong:
        became = "dropped" if data.overlong == "drop" else "truncated (held-out and validation pairs: dropped)"
        say_once(f"{overlong} pairs have more than data.max_length = {data.max_length} tokens: {became}")
    if not all(len(part.sources) for part in (training, *kept)):
        raise InputError(f"data.max_length is {data.max_length}: too short, no pair is left to train on or to validate")
    for name, side, known in (("source", training.sources, source), ("target", training.targets, target)):
        unknown = float((side.ids == known.unk_id).mean())
        if unknown > UNKNOWN:
            say_once(f"Warning: {unknown:.0%} of the {name} tokens are unknown: expected a larger --vocab-size")
    if (ready := config.tokens.target_file or config.tokens.file) and (lost := _lost(kept[0], target)) > UNKNOWN:
        say_once(f"Warning: {lost:.0%} of the target sentences do not come back from {ready} as they were")
    torch.manual_seed(config.training.seed)
    model = checkpoint.build_model(config, source.vocab_size, target.vocab_size)
    if config.training.start and not checkpoint.checkpoints(folder):
        start = checkpoint.load_run(config.training.start)
        checkpoint.load_weights(model, start.weights)
        say_once(f"starting with the weights of {start.weights}")
    say_once(_sizes_in_words(training, kept[1], source, target, model, world))
    trainer = Trainer(config, folder, model, training, kept[0], target, pairs.fingerprint(), world)
    if config.training.engine == "fsdp" and world.processes > 1 and config.training.exact_match:
        say_once("with FSDP no process has all weights: sentences are translated at the end only")
    if world.is_main:  # not before: a run that cannot go on with these data stays as it is
        _write_held_out(kept[1].pairs, pairs.skipped, folder)
    return trainer


def _lost(encoded: Encoded, target: Tokenizer) -> float:
    """The share of target sentences that are not what their ids decode to: small letters, say, in place of capitals."""
    decoded = [target.decode(encoded.targets[i]) for i in range(len(encoded.pairs))]
    return sum(text != pair[1] for text, pair in zip(decoded, encoded.pairs, strict=True)) / len(decoded)


def _tokenizers(config: Config, folder: Path, pairs: Corpus, world: World) -> tuple[Tokenizer, Tokenizer]:
    """The run's vocabularies: learned from the training pairs by the main process, or those of an earlier training."""
    found = checkpoint.checkpoints(folder)  # once weights are saved, no other vocabulary will do
    for side, name in enumerate(checkpoint.tokenizer_names(config) if world.is_main and not found else []):
        if config.training.start:
            write_bytes(folder / name, read_bytes(checkpoint.run_of(Path(config.training.start)) / name))
            continue
        t = config.tokens
        if ready := t.target_file if side else t.file:
            Tokenizer.load(Path(ready))  # before it is taken
            write_bytes(folder / name, read_bytes(Path(ready)))
            continue
        texts = (pair[i] for i in ((0, 1) if t.shared else (side,)) for pair in pairs.training)
        size = t.target_vocab_size if side and t.target_vocab_size else t.vocab_size
        tokenizer.train(t.kind, size, texts, t.byte_fallback).save(folder / name)
    world.wait()
    return checkpoint.read_tokenizers(folder, config, checkpoint.read_checksums(found[-1]) if found else None)


def _run(trainer: Trainer, say: Say) -> float | None:
    """Train, then translate the held-out pairs with the best checkpoint."""
    world, folder, t = trainer.world, trainer.folder, trainer.config.training
    if trainer.state.step and world.is_main:
        say(f"going on after step {trainer.state.step}")
    log = Log(folder, trainer.state.step, t.steps, say) if world.is_main else None
    if world.is_main and checkpoint.read_config(folder) != trainer.config:  # not before all is known to go well
        write_json(folder / "config.json", to_json(trainer.config))
    try:
        trainer.run(log)
    finally:
        if log:
            log.close()
    if not world.is_main:
        return None
    run = checkpoint.load_run(folder, str(world.device))
    share = validation.exact_match(run)
    say(f"{folder}: {100 * share:.1f} % of {len(run.held_out())} held-out sentences are translated exactly")
    return share


def _say_skipped(skipped: list[str], folder: Path, say: Say) -> None:
    """The first few lines that made no pair."""
    for line in skipped[:5]:
        say(f"skipped: {line}")
    if len(skipped) > 5:
        say(f"skipped: {len(skipped)} lines in all, listed in {folder / 'skipped.txt'}")


def _write_held_out(held_out: list[corpus.Pair], skipped: list[str], folder: Path) -> None:
    """The pairs that are not trained on, and, if there are any, the lines that made no pair."""
    lines = [json.dumps(pair, ensure_ascii=False) + "\n" for pair in held_out]
    write_bytes(folder / "held_out.jsonl", "".join(lines).encode())
    if skipped:
        write_bytes(folder / "skipped.txt", "".join(line + "\n" for line in skipped).encode())


def _data_in_words(config: Config) -> str:
    data = config.data
    if data.tsv or data.hub:
        return str(data.tsv or data.hub)
    if data.source_file:
        return f"{data.source_file} and {data.target_file}"
    return f"numbers below {data.below:,} in words, {data.source} to {data.target}"


def _sizes_in_words(
    training: Encoded, held_out: Encoded, source: Tokenizer, target: Tokenizer, model: torch.nn.Module, world: World
) -> str:
    vocabulary = (
        f"{source.vocab_size} tokens" if source is target else f"{source.vocab_size} + {target.vocab_size} tokens"
    )
    parameters = sum(parameter.numel() for parameter in model.parameters())
    processes = f", {world.processes} processes" if world.processes > 1 else ""
    return (
        f"{len(training.pairs):,} pairs to train on, {len(held_out.pairs):,} held out; vocabulary of {vocabulary}; "
        f"{parameters:,} parameters{processes}"
    )


if __name__ == "__main__":
    sys.argv[1:1] = ["train"]
    runpy.run_module("scratch_transformer", run_name="__main__", alter_sys=True)
