"""`scratch-transformer train`: a model that translates, from pairs of sentences, or that continues a text."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

# GNU's OpenMP lets a thread that waits compute for milliseconds, which starves the others where cores are shared: so
# many turns and no more (`python -m benchmarks.threads_under_load`). It is read when torch is imported.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")

from scratch_transformer.options import Device, one_line_errors

EXTRA = "translation"

TRANSLATION, LANGUAGE_MODEL = "translation", "language-model"
COMMON = {
    "vocab_size": "tokens.vocab_size", "steps": "training.steps", "seed": "training.seed",
    "precision": "training.precision", "compile_": "training.compile", "fsdp": "training.engine",
    "workers": "training.workers", "valid": "data.valid", "test": "data.test",
}  # fmt: skip
SETTINGS = {
    "source": "data.source", "target": "data.target", "data": "data.tsv", "source_file": "data.source_file",
    "target_file": "data.target_file", "hub": "data.hub", "tokenizer": "tokens.kind",
    "shared_vocab": "tokens.shared", "norm": "model.norm", "best": "training.best",
    "byte_fallback": "tokens.byte_fallback", "on_disk": "data.on_disk", **COMMON,
}  # fmt: skip
"""Which setting an option stands for, of a model that translates."""
OF_A_TEXT = {
    "text": "data.text",
    "tokenizer": "tokens.file",
    "length": "data.length",
    "family": "model.family",
    **COMMON,
}
"""The same of a language model."""

ON_RESUME = ("steps", "precision", "compile_", "fsdp", "workers")
MOVED = ("text", "data", "source_file", "target_file", "hub", "valid", "test")
"""Where the data are: these may change when a run goes on, if there are the same pairs."""


@click.command(epilog="All settings and their defaults: config.py of translation/ or language/, or RUN/config.json.")
@click.option("--task", type=click.Choice([TRANSLATION, LANGUAGE_MODEL]),
              help="What to learn.  [default: translation, or language-model where there is a --text]")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), help="The run's folder, a new one.  [default: run, run-2, ...]")
@click.option("--resume", type=click.Path(path_type=Path), metavar="RUN", help="Go on with this interrupted run.")
@click.option("--from-last-good", is_flag=True, help="With --resume: leave damaged last checkpoints aside.")
@click.option(
    "--preset",
    default="tiny",
    show_default=True,
    help="tiny, shipped (the model that comes with the package), or the paper's base or big; of language models tiny, "
    "small or gpt2.",
)
@click.option(
    "--config", "file", type=click.Path(path_type=Path), metavar="FILE", help="Settings: .toml, or a config.json."
)
@click.option("--from", "start", type=click.Path(path_type=Path), metavar="RUN",
              help="Start with this run's weights, vocabularies and settings, on other data.")  # fmt: skip
@click.option("--text", type=click.Path(), metavar="FILE",
              help="A text, or a folder of texts, to learn to continue.  [default: Python's help]")  # fmt: skip
@click.option("--length", type=int, help="Tokens of a sequence of --text.  [default: 128]")
@click.option("--family", help="llama, gpt2 or qwen3: whose language model.  [default: llama]")
@click.option("--source", help="Language of the sources.  [default: en]")
@click.option("--target", help="Language of the targets.  [default: de]")
@click.option("--data", type=click.Path(), metavar="TSV", help="Pairs, one a line: source, tab, target.")
@click.option("--source-file", type=click.Path(), help="Sources, one a line, with --target-file.")
@click.option("--target-file", type=click.Path(), help="Their translations, line by line.")
@click.option("--valid", type=click.Path(), metavar="TSV", help="Pairs, or a text, that choose the best checkpoint.")
@click.option(
    "--test", type=click.Path(), metavar="TSV", help="Pairs, or a text, to hold out, for the end and for `evaluate`."
)
@click.option("--best", help="By loss, BLEU, chrF or exact_match of validation.  [default: loss]")
@click.option("--on-disk", flag_value=True, default=None, help="Keep the pairs in files of the run, not in memory.")
@click.option("--hub", metavar="NAME", help="A data set of Hugging Face's hub, or a folder of its format: opus_books.")
@click.option("--pair", metavar="A-B", help="The languages of --hub: en-it.")
@click.option("--tokenizer", help="bpe, word or char; or a ready tokenizer.json, of both languages.  [default: bpe]")
@click.option("--byte-fallback", flag_value=True, default=None, help="Bytes for what bpe has no token for.")
@click.option("--vocab-size", type=int, help="At most so many tokens.")
@click.option("--shared-vocab/--separate-vocab", default=None, help="One vocabulary of both languages, or two.")
@click.option("--norm", help="pre, or post as in the paper.")
@click.option("--steps", type=int, help="Steps of the optimizer; with --resume, to train longer.")
@click.option("--seed", type=int, help="Of the weights, the batches and the dropout.  [default: 0]")
@click.option("--precision", help="float32 or bfloat16 (autocast).  [default: float32]")
@click.option("--compile", "compile_", flag_value=True, default=None, help="Use torch.compile.")
@click.option(
    "--fsdp/--ddp", default=None, help="Shard the model over torchrun's processes, or copy it.  [default: ddp]"
)
@click.option("--workers", type=int, help="Processes that prepare batches.  [default: 0]")
@click.option("--threads", type=click.IntRange(1, 1024), help="Of each process, on a CPU.  [default: torch's choice]")
@click.option("--device", type=Device(), default="cpu", show_default=True, help="Where to train, in torch's terms.")
@click.option("--set", "others", multiple=True, metavar="NAME=VALUE", help="Any setting: --set model.dropout=0.2")
def train(
    task: str | None, out: Path | None, resume: Path | None, from_last_good: bool, file: Path | None,
    start: Path | None, preset: str,
    pair: str | None, threads: int | None, device: str, others: tuple[str, ...],
    **options: Any,
) -> None:  # fmt: skip
    """Train a model to translate, or to continue a text, and save it in a folder.

    Without data it translates numbers in words, from English to German, and takes two minutes on two cores; with --task
    language-model it learns from the chapters of Python's help.

    In several processes, with the same options:
    torchrun --nproc-per-node 2 -m scratch_transformer.translation.train

    Exit status: 0 when trained, 2 if it could not be tried.
    """
    given = {name: value for name, value in options.items() if value is not None}
    with one_line_errors():
        if threads is not None:
            import torch

            torch.set_num_threads(threads)
        task = _task(task, resume, start, given)
        known = SETTINGS if task == TRANSLATION else OF_A_TEXT
        for name in given.keys() - known.keys():
            raise click.UsageError(f"--{name.replace('_', '-')} is no setting of --task {task}")
        changes = _of_file(file, task) | dict(_parsed(other, task) for other in others)
        if task == LANGUAGE_MODEL and given.get("tokenizer") == "bpe":  # there is no other that is learned
            del given["tokenizer"]
        changes |= {known[name]: value for name, value in given.items()}
        if "fsdp" in given:
            changes["training.engine"] = "fsdp" if given["fsdp"] else "ddp"
        if task == TRANSLATION and str(given.get("tokenizer", "")).endswith(".json"):
            changes = {"tokens.shared": "tokens.target_file" not in changes, **changes}
            changes["tokens.file"] = changes.pop("tokens.kind")
        _refuse_beside_a_vocabulary(changes.get("tokens.file"), given)
        if pair is not None:
            changes |= _languages(pair, options)
        if resume is None:
            if from_last_good:
                raise click.UsageError("--from-last-good is for --resume, which is not given")
            begin = _of_run(start, preset, changes, task) if start else _settings(task).preset(preset)
            config = begin.replace(**changes)
            _train(config, out or _free_folder(), device, task)
        else:
            _refuse_on_resume(
                {"out": out, "config": file, "from": start, "pair": pair, "set": others or None}, preset, given
            )
            _resume(resume, device, from_last_good, changes, task)


def _task(task: str | None, resume: Path | None, start: Path | None, given: dict[str, Any]) -> str:
    """What was asked for; of a run that goes on, or that is started with, what it began with."""
    asked = task or (LANGUAGE_MODEL if "text" in given else TRANSLATION)
    before = resume or start
    if before is None:
        return asked
    from scratch_transformer.language.run import is_run

    found = LANGUAGE_MODEL if is_run(before) else TRANSLATION
    if task not in (None, found):
        option = "resume" if resume else "from"
        raise click.UsageError(f"--task cannot be changed with --{option}: {before} is of {found}")
    return found


def _settings(task: str) -> Any:
    """The module of the settings' classes."""
    if task == TRANSLATION:
        from scratch_transformer.translation import config as of_pairs

        return of_pairs
    from scratch_transformer.language import config as of_a_text

    return of_a_text


def _learned(task: str) -> Any:
    """What `train` of the application takes for a task."""
    if task == TRANSLATION:
        return None
    from scratch_transformer.language.train import LANGUAGE_MODEL

    return LANGUAGE_MODEL


def _train(config: Any, out: Path, device: str, task: str) -> None:
    from scratch_transformer.translation.train import train as train_run

    with _interruptible(out, device):
        train_run(config, out, device, say=click.echo, task=_learned(task))


def _resume(folder: Path, device: str, from_last_good: bool, changes: dict[str, Any], task: str) -> None:
    from scratch_transformer.translation.train import resume as resume_run

    with _interruptible(folder, device):
        resume_run(folder, device, say=click.echo, task=_learned(task), from_last_good=from_last_good, **changes)


@contextmanager
def _interruptible(folder: Path, device: str) -> Iterator[None]:
    """Ctrl-C, a full disk and a limit of open files say how to go on."""
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    torchrun = f"torchrun --nproc-per-node {processes} -m scratch_transformer.translation.train"
    again = f"{'scratch-transformer train' if processes == 1 else torchrun} --resume {folder}"
    again += "" if device == "cpu" else f" --device {device}"
    from scratch_transformer.translation.errors import CannotWrite

    try:
        yield
    except KeyboardInterrupt:
        if os.environ.get("RANK", "0") == "0":
            click.echo(f"Interrupted. To go on: {again}", err=True)
        raise
    except (ValueError, OSError, RuntimeError) as error:  # RuntimeError: of processes that prepare batches
        there_is_one = (folder / "config.json").exists()
        if (reason := os.strerror(errno.EMFILE)) in str(error):
            what = str(error) if isinstance(error, ValueError) else reason
            hint = f"; to go on with a larger `ulimit -n`, or fewer --workers: {again}" if there_is_one else ""
        elif isinstance(error, CannotWrite):
            what, hint = str(error), f"; to go on when there is room: {again}" if there_is_one else ""
        else:
            raise
        raise CannotWrite(what + hint) from None


def _of_file(path: Path | None, task: str) -> dict[str, Any]:
    from scratch_transformer.translation import settings_file

    return {} if path is None else settings_file.read(path, _settings(task).Config.format)


def _of_run(start: Path, preset: str, changes: dict[str, Any], task: str) -> Any:
    """The settings of a run to start with, less where its data were."""
    from dataclasses import replace

    from scratch_transformer.language import run
    from scratch_transformer.translation import checkpoint

    its = [name for name in changes if name.partition(".")[0] in ("model", "tokens") and name != "model.dropout"]
    if its or preset != "tiny":
        raise click.UsageError(
            f"{its[0] if its else '--preset'} cannot be changed with --from: the model is that of {start}"
        )
    folder, Data = checkpoint.run_of(start), _settings(task).Data
    if task == TRANSLATION:
        settings: Any = checkpoint.read_config(folder)
        data = Data(max_length=settings.data.max_length)
    else:
        settings = run.read_config(folder)
        data = Data(length=settings.data.length, apart=settings.data.apart)
        length = settings.model.max_length or settings.data.length
        settings = replace(settings, model=replace(settings.model, max_length=length))
    return replace(settings, data=data, training=replace(settings.training, start=str(start.resolve())))


def _parsed(other: str, task: str) -> tuple[str, Any]:
    name, equals, value = other.partition("=")
    if not equals:
        raise click.UsageError(f"--set {other}: expected NAME=VALUE, such as model.dropout=0.2")
    return name, _settings(task).Config.parse(name, value)


def _languages(pair: str, options: dict[str, Any]) -> dict[str, str]:
    source, _, target = pair.partition("-")
    if options["hub"] is None:
        raise click.UsageError("--pair says which languages of --hub, but there is no --hub")
    if not source or not target:
        raise click.UsageError(f"--pair {pair}: expected two languages, such as en-it")
    return {"data.source": source, "data.target": target}


def _free_folder() -> Path:
    """The first of run, run-2, run-3, ... that is not there."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:  # each process would look at another moment
        raise click.UsageError("--out is missing: expected a new folder, where several processes train together")
    number = 1
    while (folder := Path("run" if number == 1 else f"run-{number}")).exists():
        number += 1
    return folder


def _refuse_beside_a_vocabulary(ready: str | None, given: dict[str, Any]) -> None:
    """Options that say how a vocabulary is learned, where there is a ready one."""
    for name in ("vocab_size", "byte_fallback"):
        if ready and name in given:
            option = name.replace("_", "-")
            raise click.UsageError(
                f"--{option} is for a vocabulary that is learned, and {ready} is a ready one: expected one"
            )


def _refuse_on_resume(others: dict[str, Any], preset: str, given: dict[str, Any]) -> None:
    """A run goes on as it began; what may change is where and how fast."""
    refused = [name for name in given if name not in ON_RESUME + MOVED]
    refused += [name for name, value in others.items() if value is not None]
    refused += ["preset"] if preset != "tiny" else []
    if refused:
        raise click.UsageError(
            f"--{refused[0].replace('_', '-')} cannot be changed with --resume: a run goes on as it began"
        )
