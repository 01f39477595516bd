"""Trains the model that comes with the package anew, and says whether it is the same."""

from __future__ import annotations

import datetime
import tempfile
from pathlib import Path

import click
import torch

from scratch_transformer.translation import averaging, checkpoint, config, metrics, translator
from scratch_transformer.translation.checkpoint import Run
from scratch_transformer.translation.corpus import numbers
from scratch_transformer.translation.errors import InputError
from scratch_transformer.translation.files import digest, tensors_to_bytes, write_bytes
from scratch_transformer.translation.train import train
from scratch_transformer.translation.trained import FOLDER

ROUND = [digits * 10**zeros for zeros in (1, 2, 3, 4) for digits in range(1, 100)]

CARD = """\
# Numbers in words, English to German

"forty-two" becomes "zweiundvierzig": the model of `model.py` with {parameters:,} parameters, {size:,} bytes in float16.
For learning and for tests; it knows the numbers from 0 to 999,999 and nothing else.

Made on {date} with torch {torch}, one thread, seed {seed}:

    python -m scratch_transformer.translation.trained NEW_FOLDER

which is `scratch-transformer train --preset shipped`, and then the weights of its best checkpoint rounded to float16.
On the same kind of machine it makes the same bits again, elsewhere the same scores. The settings are in `config.json`.

| numbers | how many | translated exactly |
| --- | --- | --- |
{rows}

Greedy decoding, computed in float32. The held-out numbers were drawn evenly from all and are in `held_out.jsonl`; they
were not trained on. The numbers below 1000 and many of the round ones were.
"""


@click.command()
@click.argument("out", type=click.Path(path_type=Path, exists=False))
def main(out: Path) -> None:
    """Train the model that comes with the package, and write it to OUT, a new folder. Takes two minutes."""
    torch.set_num_threads(1)  # sums are added up in the same order
    try:
        with tempfile.TemporaryDirectory() as scratch:
            train(config.preset("shipped"), Path(scratch) / "run", say=click.echo)
            export(Path(scratch) / "run", out)
    except InputError as error:
        raise click.ClickException(str(error)) from error
    click.echo((out / "CARD.md").read_text(encoding="utf-8"))
    is_same = digest(out / "model.safetensors") == digest(FOLDER / "model.safetensors")
    click.echo(f"{out}: {'bit by bit' if is_same else 'other bits than'} the model that comes with the package")


def export(trained: Path, out: Path) -> None:
    """Write the best model of a run to the folder `out`, in float16, with its card."""
    best = checkpoint.load_run(trained).model
    halves = {name: parameter.half() for name, parameter in checkpoint.tensors_of(best).items()}
    averaging.write_run(trained, out, tensors_to_bytes(halves))
    write_bytes(out / "CARD.md", card(checkpoint.load_run(out)).encode())


def card(run: Run) -> str:
    """What a reader must know about the model, measured."""
    rows = [f"| {name} | {len(pairs):,} | {exact(run, pairs):.2%} |" for name, pairs in _subjects(run).items()]
    return CARD.format(
        parameters=sum(p.numel() for p in run.model.parameters()),
        size=(run.weights / "model.safetensors").stat().st_size,
        date=datetime.date.today().isoformat(),
        torch=torch.__version__,
        seed=run.config.training.seed,
        rows="\n".join(rows),
    )


def _subjects(run: Run) -> dict[str, list[tuple[str, str]]]:
    def in_words(values: range | list[int]) -> list[tuple[str, str]]:
        return numbers.in_words(values, run.config.data)

    return {
        "held out": run.held_out(),
        "0 to 999": in_words(range(1000)),
        "one or two digits, then one to four zeros": in_words(ROUND),
    }


def exact(run: Run, pairs: list[tuple[str, str]]) -> float:
    """The share of sources that are translated exactly as their targets, greedily."""
    sources = [translator.encode(run, source, source) for source, _ in pairs]
    found = translator.translate(run, sources, translator.Search())
    translations = [run.target_tokenizer.decode(hypotheses[0].ids) for hypotheses in found]
    share: float = metrics.text_metrics(translations, [target for _, target in pairs])["exact_match"]
    return share


if __name__ == "__main__":
    main()
