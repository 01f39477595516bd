"""`scratch-transformer average`: the mean of a run's last checkpoints."""

from __future__ import annotations

from pathlib import Path

import click

from scratch_transformer.options import one_line_errors

EXTRA = "translation"


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--last", type=click.IntRange(min=1), help="How many checkpoints.  [default: all that were kept]")
@click.option("--out", type=click.Path(path_type=Path), help="A new folder.  [default: RUN/averaged]")
def average(run: Path, last: int | None, out: Path | None) -> None:
    """Average the weights of the last checkpoints of RUN into a model of its own.

    The paper's base model is the mean of the last 5 checkpoints, its big model of the last 20.
    """
    with one_line_errors():
        from scratch_transformer.translation import averaging

        folder, chosen = averaging.average(run, last, out)
    click.echo(f"{folder}: the mean of {', '.join(path.name for path in chosen)}")
