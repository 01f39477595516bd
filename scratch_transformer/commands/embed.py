"""`scratch-transformer embed`: how similar sentences are, by a pretrained encoder on our layers."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING

import click

from scratch_transformer.options import Device, is_at_a_terminal, standard_input

if TYPE_CHECKING:
    from torch import Tensor


@click.command()
@click.argument("sentences", nargs=-1)
@click.option(
    "--model",
    type=click.Path(exists=True, file_okay=False),
    help="Folder with config.json, model.safetensors and tokenizer.json of a BERT sentence encoder in Hugging Face's "
    "layout.  [default: the installed all-MiniLM-L6-v2]",
)
@click.option(
    "--device", type=Device(), default="cpu", show_default=True, help="Where the encoder runs, in torch's terms."
)
@click.option("--json", "as_json", is_flag=True, help="Print sentences, similarities and embeddings as JSON.")
def embed(sentences: tuple[str, ...], model: str | None, device: str, as_json: bool) -> None:
    """Embed SENTENCES and print their cosine similarities.

    Without SENTENCES, reads them from standard input, one per line.
    """
    texts = list(sentences) or _from_standard_input()
    if not texts:
        raise click.UsageError("no sentences: give them as arguments, or one per line on standard input")
    for number, text in enumerate(texts, start=1):
        if any("\ud800" <= character <= "\udfff" for character in text):  # so Python shows bytes that are not UTF-8
            raise click.UsageError(f"sentence {number} is not text in UTF-8: {text!r}")
    embeddings, similarity, name = _similarities(texts, model, device)
    if as_json:
        numbers = {"similarity": similarity.tolist(), "embeddings": embeddings.tolist()}
        click.echo(json.dumps({"model": name, "sentences": texts, **numbers}, ensure_ascii=False))
    else:
        _print_table(texts, similarity)


def _from_standard_input() -> list[str]:
    """The lines of standard input that are not blank."""
    if is_at_a_terminal():
        click.echo("Sentences, one per line; end with Ctrl-D (Ctrl-Z and Enter on Windows):", err=True)
    lines = (line.decode(errors="surrogateescape").strip() for line in standard_input())
    return [line for line in lines if line]


def _similarities(texts: list[str], model: str | None, device: str) -> tuple[Tensor, Tensor, str]:
    """Embeddings, their cosines and the model's name; every expected failure becomes one line for the user."""
    from scratch_transformer import pretrained

    try:
        loaded = pretrained.load(model, device=device)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", pretrained.TruncationWarning)
            embeddings = pretrained.embed(texts, loaded).cpu()
    except (ModuleNotFoundError, OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    for warning in caught:
        click.echo(f"Warning: {warning.message}", err=True)
    return embeddings, pretrained.cosine(embeddings), loaded.name


def _print_table(texts: list[str], similarity: Tensor) -> None:
    """A numbered row and column for every sentence; without colour and lines where no terminal reads it."""
    from rich import box
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    texts = [" ".join(text.split()) for text in texts]
    console = Console()
    room = 30 if console.is_terminal else max(map(cell_len, texts))  # in a pipe every row stays one line
    console.width = max(console.width, 7 * (len(texts) + 1) + room)  # rather run over the edge than cut numbers
    table = Table(box=box.SIMPLE_HEAD if console.is_terminal else None)
    table.add_column(justify="right")
    for number in range(1, len(texts) + 1):
        table.add_column(str(number), justify="right", no_wrap=True)
    table.add_column("sentence")
    for number, (text, row) in enumerate(zip(texts, similarity.tolist(), strict=True), start=1):
        cells = [Text(f"{value:.2f}", style=_style(value)) for value in row]
        table.add_row(str(number), *cells, Text(text))  # Text: brackets in a sentence are no markup
    console.print(table)


def _style(value: float) -> str:
    """The closer two sentences, the more their similarity stands out."""
    return "bold green" if value >= 0.6 else "green" if value >= 0.3 else "dim"
