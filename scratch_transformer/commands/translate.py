"""`scratch-transformer translate`: sentences, by a model that `train` made."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from scratch_transformer.options import (
    BEAM,
    Device,
    eight_bits_on,
    is_at_a_terminal,
    one_line_errors,
    refuse_unwritable,
    standard_input,
)

if TYPE_CHECKING:
    from rich.progress import Progress

    from scratch_transformer.translation.checkpoint import Run
    from scratch_transformer.translation.decoding import Hypothesis
    from scratch_transformer.translation.translator import Search

EXTRA = "translation"

POSITIVE, ANY_SEED = click.IntRange(min=1), click.IntRange(0, 2**63 - 1)
MAPS = (".json", ".png", ".svg", ".pdf")


@click.command()
@click.argument("sentences", nargs=-1)
@click.option("--model", "folder", metavar="RUN",
              help="The folder that `train` wrote.  [default: the model that comes with the package]")  # fmt: skip
@click.option("--beam", type=BEAM, help="Beam search with so many prefixes.  [default: 1, greedy]")
@click.option("--length-penalty", "alpha", type=float, default=0.6, show_default=True,
              help="α: a score is log P / ((5 + length) / 6)^α.")  # fmt: skip
@click.option("--sample", is_flag=True, help="Draw the tokens instead of taking the likeliest.")
@click.option("--temperature", type=float, help="With --sample: below 1 safer, above 1 bolder.  [default: 1]")
@click.option("--top-k", type=POSITIVE, help="With --sample: from the likeliest so many tokens.")
@click.option("--top-p", type=float, help="With --sample: from the likeliest tokens that have this probability.")
@click.option("--seed", type=ANY_SEED, help="With --sample: the same seed draws the same.  [default: 0]")
@click.option("--n-best", type=BEAM, help="Print so many translations: sentence number, score, translation.")
@click.option("--max-length", type=POSITIVE, help="Cut at so many tokens.  [default: what the model can write]")
@click.option("--attention", type=click.Path(path_type=Path), metavar="FILE",
              help="Who attends to whom: a picture (.png, .svg, .pdf), or .json for BertViz.")  # fmt: skip
@click.option("--batch-size", type=POSITIVE, default=64, show_default=True,
              help="Lines of standard input that are read and translated together; 1: each at once.")  # fmt: skip
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Write the translations to this file, as they come.")  # fmt: skip
@click.option("--int8", is_flag=True, help="Round large weights to 8 bits: a large model is faster, and a little off.")
@click.option("--device", type=Device(), default="cpu", show_default=True, help="Where to compute, in torch's terms.")
def translate(
    sentences: tuple[str, ...],
    folder: str | None,
    n_best: int | None,
    attention: Path | None,
    batch_size: int,
    out: Path | None,
    int8: bool,
    device: str,
    **options: Any,
) -> None:
    """Translate SENTENCES, with a model that `train` made, or the one that comes with the package: "forty-two".

    Without SENTENCES, reads them from standard input, one per line: a translation a line. For a line that cannot be
    translated there is an empty one, and a warning.
    """
    with one_line_errors():
        search = _search(n_best, eight_bits=eight_bits_on(device, int8), **options)
        _check_attention(attention)
        from scratch_transformer.translation.checkpoint import load_run
        from scratch_transformer.translation.trained import folder_of

        run = load_run(folder_of(folder), device)
        _check_max_length(run, search)
        if not sentences and is_at_a_terminal():
            _converse(run, search, n_best)
            return
        with _output(out) as file:
            if sentences or attention is not None:
                _translate_all(run, sentences, search, n_best, attention, file)
            else:
                _translate_lines(run, search, n_best, batch_size, file)


def _search(
    n_best: int | None, beam: int | None, alpha: float, sample: bool, seed: int | None, max_length: int | None,
    eight_bits: bool, **drawing: Any,
) -> Search:  # fmt: skip
    """The options as one setting, if they go together."""
    given = {"seed": seed, **drawing}
    for name, value in given.items():
        if value is not None and not sample:
            raise click.UsageError(f"--{name.replace('_', '-')} is for --sample, which is not given")
    if sample and beam is not None:
        raise click.UsageError("--beam and --sample: expected one of them")
    if not sample and (n_best or 1) > (beam or 1):
        raise click.UsageError(f"--n-best {n_best}: expected --beam of at least {n_best}, or --sample")
    from scratch_transformer.generation import sampling
    from scratch_transformer.translation.translator import Search

    draws = {"temperature": 1.0, **{name: value for name, value in drawing.items() if value is not None}}
    try:
        sampling.check(draws["temperature"], draws.get("top_k"), draws.get("top_p"))
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    return Search(beam or 1, alpha, n_best or 1, draws if sample else None, seed or 0, max_length, eight_bits)


def _check_attention(path: Path | None) -> None:
    """Refuses a file that cannot be written, before anything is computed."""
    if path is None:
        return
    if path.suffix not in MAPS:
        raise click.UsageError(f"--attention {path}: expected a file that ends in {', '.join(MAPS)}")
    refuse_unwritable(path)
    if path.suffix != ".json":
        import matplotlib  # noqa: F401  (missing: said now, not after the translation)


def _check_max_length(run: Run, search: Search) -> None:
    longest = run.model.tgt_pos.seq_len
    if search.max_length is not None and search.max_length > longest:
        raise click.UsageError(f"--max-length {search.max_length}: the model writes at most {longest} tokens")


@contextmanager
def _output(path: Path | None) -> Iterator[TextIO]:
    """The file to write to: the one that was asked for, or standard output."""
    from scratch_transformer.translation.files import writing

    if path is None:
        yield sys.stdout
        return
    if path.exists() and _is_standard_input(path):
        raise click.UsageError(f"--out {path}: is the file that is read, expected another")
    with writing(path), path.open("w", encoding="utf-8") as file:
        yield file


def _is_standard_input(path: Path) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(sys.stdin.fileno()))
    except (OSError, ValueError):  # there is none
        return False


def _translate_all(
    run: Run, sentences: tuple[str, ...], search: Search, n_best: int | None, attention: Path | None, file: TextIO
) -> None:
    """All or, if one of them cannot be translated, none."""
    from scratch_transformer.translation.streaming import encode_or_warn
    from scratch_transformer.translation.translator import translate as translate_all

    read = lambda: standard_input().read().decode(errors="surrogateescape")  # noqa: E731
    kind, texts = ("sentence", list(sentences)) if sentences else ("line", read().splitlines())
    if attention is not None and len(texts) != 1:
        raise click.UsageError(f"--attention shows one sentence, but there are {len(texts)}")
    sources = [encode_or_warn(run, text, f"{kind} {number}", _warn) for number, text in enumerate(texts, start=1)]
    found = translate_all(run, sources, search)
    if attention is not None:
        _save_attention(run, sources[0], found[0][0], attention)
    for number, hypotheses in enumerate(found, start=1):
        _print(run, hypotheses, number, n_best, file)


def _translate_lines(run: Run, search: Search, n_best: int | None, batch_size: int, file: TextIO) -> None:
    """Standard input, a batch after the other; what is done stays, whatever comes next."""
    from scratch_transformer.translation.streaming import translations

    done = left_out = 0
    with _progress(file) as progress:
        bar = progress.add_task("lines", total=None)
        warn = lambda line: progress.console.print(f"Warning: {line}", markup=False, soft_wrap=True)  # noqa: E731
        try:
            for hypotheses in chain.from_iterable(translations(run, standard_input(), search, batch_size, warn)):
                _print(run, hypotheses, done + 1, n_best, file, warn)
                done, left_out = done + 1, left_out + (not hypotheses)
                progress.update(bar, completed=done)
        except (KeyboardInterrupt, OSError) as error:
            if not isinstance(error, BrokenPipeError):  # of a reader who has had enough
                warn(f"interrupted: the first {done} lines are translated")
            raise
    if not done:
        raise click.UsageError("no sentences: give them as arguments, or one per line on standard input")
    if left_out:
        _warn(f"{left_out} of {done} lines have no translation")


def _progress(file: TextIO) -> Progress:
    """How many lines are done, where somebody watches and sees no translations."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True, highlight=False)
    columns = (SpinnerColumn(), TextColumn("{task.completed:,} {task.description}"), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal or file.isatty())


def _warn(line: str) -> None:
    click.echo(f"Warning: {line}", err=True)


def _converse(run: Run, search: Search, n_best: int | None) -> None:
    """A person's lines, each translated at once; mistakes are said, and the next line is read."""
    from scratch_transformer.translation.errors import InputError
    from scratch_transformer.translation.streaming import encode_or_warn
    from scratch_transformer.translation.translator import translate as translate_all

    click.echo("Sentences, one per line; end with Ctrl-D (Ctrl-Z and Enter on Windows):", err=True)
    for number, line in enumerate(sys.stdin, start=1):
        try:
            ids = encode_or_warn(run, line.strip(), f"line {number}", _warn)
        except InputError as error:
            click.echo(f"Error: {error}", err=True)
            continue
        _print(run, translate_all(run, [ids], search)[0], number, n_best, sys.stdout)


def _save_attention(run: Run, source: list[int], best: Hypothesis, path: Path) -> None:
    from scratch_transformer.translation import attention_maps

    if not attention_maps.save(attention_maps.of_translation(run, source, best.ids), path):
        _warn(f"{path}: the font lacks some characters of these tokens; a .json file has them all")


def _print(
    run: Run, hypotheses: list[Hypothesis], number: int, n_best: int | None, file: TextIO,
    warn: Callable[[str], object] = _warn,
) -> None:  # fmt: skip
    """The translations of a sentence; of one that has none, an empty line, so that lines stay beside their sources."""
    if not hypotheses and n_best is None:
        click.echo(file=file)
    for hypothesis in hypotheses:
        decoded = run.target_tokenizer.decode(hypothesis.ids)
        text = " ".join(decoded.splitlines())  # a model of bytes may write ends of lines
        click.echo(text if n_best is None else f"{number}\t{hypothesis.score:.4f}\t{text}", file=file)
        if not hypothesis.is_finished:
            warn(f"a translation of sentence {number} was cut at its greatest length")
