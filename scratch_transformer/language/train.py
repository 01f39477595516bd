"""From a configuration to a trained language model, and on from where a training was interrupted."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from scratch_transformer.language import packing, perplexity, texts, vocabulary
from scratch_transformer.language.config import Config
from scratch_transformer.language.run import HELD_OUT, TOKENIZER, build_model, load_run, read_config, read_vocabulary
from scratch_transformer.language.texts import Texts
from scratch_transformer.language.trainer import Trainer
from scratch_transformer.language.vocabulary import Vocabulary
from scratch_transformer.translation import checkpoint
from scratch_transformer.translation.distribution import World
from scratch_transformer.translation.errors import InputError
from scratch_transformer.translation.files import read_bytes, write_bytes
from scratch_transformer.translation.train import Say, Task


def prepare(config: Config, folder: Path, world: World, say: Say) -> Trainer:
    """Text, vocabulary and a model, ready to train."""
    say_once: Say = say if world.is_main else (lambda line: None)
    is_new = not checkpoint.checkpoints(folder)
    start = load_run(config.training.start) if config.training.start and is_new else None
    found = texts.read(config.data)
    say_once(f"reading {found.where} ...")
    words = _vocabulary(config, folder, found, world)
    training, validation = (packing.pack(part, words) for part in (found.training, found.validation))
    if len(training) <= config.data.length + 1:
        raise InputError(
            f"{found.where}: {len(training)} tokens to train on: expected more than data.length, {config.data.length}"
        )
    torch.manual_seed(config.training.seed)
    model = build_model(config, words.vocab_size)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    processes = f", {world.processes} processes" if world.processes > 1 else ""
    say_once(
        f"{len(training):,} tokens to train on, {sum(map(len, found.held_out)):,} characters held out; vocabulary of "
        f"{words.vocab_size} tokens; {parameters:,} parameters{processes}"
    )
    if start:
        checkpoint.load_weights(model, start.weights)
        say_once(f"starting with the weights of {start.weights}")
    trainer = Trainer(config, folder, model, training, validation, words.eos_id, found.fingerprint(), world)
    if world.is_main:  # not before: a run that cannot go on with this text stays as it is
        lines = [json.dumps(document, ensure_ascii=False) + "\n" for document in found.held_out]
        write_bytes(folder / HELD_OUT, "".join(lines).encode())
    return trainer


def _vocabulary(config: Config, folder: Path, found: Texts, world: World) -> Vocabulary:
    """The run's: learned from the training text by the main process, or a ready one, or that of an earlier training."""
    done = checkpoint.checkpoints(folder)  # once weights are saved, no other vocabulary will do
    if not done:
        world.main_first(lambda: _learn(config, folder, found))
    return read_vocabulary(folder, checkpoint.read_checksums(done[-1]) if done else {})


def _learn(config: Config, folder: Path, found: Texts) -> None:
    start = config.training.start
    ready = checkpoint.run_of(Path(start)) / TOKENIZER if start else config.tokens.file
    if ready is None:
        vocabulary.train(config.tokens.vocab_size, found.training).save(folder / TOKENIZER)
    else:
        Vocabulary.load(Path(ready))  # before it is taken
        write_bytes(folder / TOKENIZER, read_bytes(Path(ready)))


def surprise(folder: Path, device: str, say: Say) -> float:
    """The perplexity of the held-out text, for the best checkpoint."""
    run = load_run(folder, device)
    found = perplexity.measure(run, run.held_out())
    say(f"{folder}: held-out text has perplexity {found.perplexity:.2f} a token, {found.bits_per_byte:.3f} bits a byte")
    return found.perplexity


LANGUAGE_MODEL = Task(read_config, {"text": "text", "valid": "valid", "test": "test"}, prepare, surprise)
