"""Trains the model that comes with the package anew, and says whether it is the same."""

from __future__ import annotations

import datetime
import tempfile
from collections.abc import Iterable
from pathlib import Path

import click
import torch

from scratch_transformer.by_hand import equations_alone
from scratch_transformer.translation import averaging, checkpoint, config, translator
from scratch_transformer.translation.checkpoint import Run
from scratch_transformer.translation.corpus import Pair, numbers
from scratch_transformer.translation.errors import InputError
from scratch_transformer.translation.files import digest, tensors_to_bytes, write_bytes
from scratch_transformer.translation.train import train
from scratch_transformer.translation.trained import FOLDER

AVERAGED = 4
ROUND = [digits * 10**zeros for zeros in (1, 2, 3, 4) for digits in range(1, 100)]
FEW = [thousands * 1000 + rest for thousands in range(7, 1000, 7) for rest in range(1, 100, 7)]

CARD = """\
# Numbers in words, English to German

"forty-two" becomes "zweiundvierzig": the model of `model.py` with {parameters:,} parameters, {size:,} bytes in float16.
For learning and for tests; it knows the numbers from 0 to 999,999 and nothing else.

Made on {date} with torch {torch}, one thread, seed {seed}:

    python -m scratch_transformer.translation.trained NEW_FOLDER

which is `scratch-transformer train --preset shipped`, the mean of its last {averaged} checkpoints, rounded to float16.
On the same kind of machine it makes the same bits again, elsewhere equal scores. The settings are in `config.json`.

| numbers | how many | translated exactly |
| --- | --- | --- |
{rows}

Greedy decoding, computed in float32. The held-out numbers were drawn evenly from all and are in `held_out.jsonl`; they
were not trained on. Those below 1000 were, and some of the others.
"""


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
def main(out: Path) -> None:
    """Train the model that comes with the package, and write it to OUT, a new folder. Takes two minutes.

    Exit status: 0 if it is bit by bit the one that comes with the package, or as good in all that the card counts.
    """
    torch.set_num_threads(1)  # sums are added up in the same order
    try:
        with tempfile.TemporaryDirectory() as scratch:
            with equations_alone():  # so that faster passes by hand change no bit of it
                train(config.preset("shipped"), Path(scratch) / "run", say=click.echo)
            export(Path(scratch) / "run", out)
    except InputError as error:
        raise click.ClickException(str(error)) from error
    click.echo((out / "CARD.md").read_text(encoding="utf-8"))
    if digest(out / "model.safetensors") == digest(FOLDER / "model.safetensors"):
        click.echo(f"{out} is bit by bit the model that comes with the package")
        return
    made, shipped = (scores(checkpoint.load_run(folder)) for folder in (out, FOLDER))
    if worse := [name for name, (_, share) in made.items() if share < shipped[name][1]]:
        raise click.ClickException(f"{out} is worse than the model that comes with the package: {', '.join(worse)}")
    click.echo(f"{out} has other bits than the model that comes with the package, and is as good")


def export(trained: Path, out: Path, last: int = AVERAGED) -> None:
    """Write the mean of a run's last checkpoints to the folder `out`, in float16, with its card."""
    mean, _ = averaging.average(trained, last)
    tensors = checkpoint.tensors_of(checkpoint.load_run(mean).model)
    averaging.write_run(trained, out, tensors_to_bytes({name: tensor.half() for name, tensor in tensors.items()}))
    write_bytes(out / "CARD.md", card(checkpoint.load_run(out), last).encode())


def card(run: Run, averaged: int = AVERAGED) -> str:
    """What a reader must know about the model, measured."""
    return CARD.format(
        parameters=sum(p.numel() for p in run.model.parameters()),
        size=(run.weights / "model.safetensors").stat().st_size,
        date=datetime.date.today().isoformat(),
        torch=torch.__version__,
        seed=run.config.training.seed,
        averaged=averaged,
        rows=rows(scores(run)),
    )


def rows(found: dict[str, tuple[int, float]]) -> str:
    """Scores as lines of a table."""
    return "\n".join(f"| {name} | {count:,} | {share:.2%} |" for name, (count, share) in found.items())


def scores(run: Run) -> dict[str, tuple[int, float]]:
    """How many of which numbers are translated exactly, greedily: their count and share."""

    def in_words(values: Iterable[int]) -> list[Pair]:
        return numbers.in_words([value for value in values if value < run.config.data.below], run.config.data)

    subjects = {
        "held out": run.held_out(),
        "0 to 999": in_words(range(1000)),
        "one or two digits, then one to four zeros": in_words(ROUND),
        "every seventh of thousands with one or two digits more": in_words(FEW),
    }
    return {name: (len(pairs), exact(run, pairs)) for name, pairs in subjects.items() if pairs}


def exact(run: Run, pairs: list[Pair], search: translator.Search | None = None) -> float:
    """The share of sources that are translated exactly as their targets; search: None: greedily."""
    sources = [translator.encode(run, source, source) for source, _ in pairs]
    found = translator.translate(run, sources, search or translator.Search())
    right = sum(
        run.target_tokenizer.decode(best.ids) == target for [best], (_, target) in zip(found, pairs, strict=True)
    )
    return right / len(pairs)


if __name__ == "__main__":
    main()
