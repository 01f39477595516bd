"""`scratch-transformer trace`: every named tensor of a translation, with torch's beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scratch_transformer.options import one_line_errors, refuse_unwritable

if TYPE_CHECKING:
    from scratch_transformer.trace import Trace

EXTRA = "translation"


@click.command()
@click.argument("sentence", required=False)
@click.option("--model", "folder", metavar="RUN",
              help="The folder that `train` wrote.  [default: the model that comes with the package]")  # fmt: skip
@click.option("--only", metavar="PATTERN", help='Only the tensors whose names match: "decoder.*.weights".')
@click.option("--values", is_flag=True, help="Print the numbers too.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write the tensors to a safetensors file.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), metavar="FILE",
              help="Write everything, tensors included, as JSON.")  # fmt: skip
def trace(
    sentence: str | None, folder: str | None, only: str | None, values: bool, out: Path | None, json_file: Path | None
) -> None:
    """Show what a model computes while it translates SENTENCE: every tensor that has a name.

    A line each: name, shape, the letters of the dimensions, equation, the source line that computed it, and the largest
    difference from the same run on torch.nn.
    """
    with one_line_errors():
        refuse_unwritable(out, json_file)
        if sentence is None:
            raise click.UsageError('no sentence: scratch-transformer trace "forty-two"')
        found = _selected(_traced(sentence, folder), only)
        if out is not None:
            found.save(out)
        if json_file is not None:
            _write_json(found, json_file)
    _print(found, values)


def _traced(sentence: str, folder: str | None) -> Trace:
    from scratch_transformer.trace import trace as trace_run
    from scratch_transformer.translation.checkpoint import load_run
    from scratch_transformer.translation.trained import folder_of
    from scratch_transformer.translation.translator import unknown_words

    run = load_run(folder_of(folder))
    found = trace_run(run, sentence)
    if words := unknown_words(run, sentence):
        click.echo(f"Warning: the model does not know all of {', '.join(map(repr, words))}", err=True)
    return found


def _selected(found: Trace, only: str | None) -> Trace:
    if only is None:
        return found
    selected = found.select(only)
    if not len(selected):
        raise click.UsageError(f"--only {only}: no name matches; names are like {found.names[len(found) // 2]}")
    return selected


def _write_json(found: Trace, path: Path) -> None:
    from scratch_transformer import files
    from scratch_transformer.trace import to_document

    files.write(str(path), json.dumps(to_document(found), ensure_ascii=False) + "\n")


def _print(found: Trace, values: bool) -> None:
    """The sentence and its tokens, the table, and how far torch is."""
    about = found.about
    click.echo(f"{about['source']} → {about['translation']}")
    click.echo(f"source  {' '.join(about['source_tokens'])}\ntarget  {' '.join(about['target_tokens'])}\n")
    click.echo(found.table())
    if values:
        for point in found:
            click.echo(f"\n{point.name}  {point.equation}\n{point.tensor}")
    click.echo(f"\n{len(found)} tensors; torch.nn's are at most {found.difference:.1e} away")
