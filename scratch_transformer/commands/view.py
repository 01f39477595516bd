"""`scratch-transformer view`: a page in which a trained model runs."""

from __future__ import annotations

from pathlib import Path

import click

from scratch_transformer.options import one_line_errors, refuse_unwritable


@click.command()
@click.argument("sentence", required=False)
@click.option("--model", "folder", metavar="RUN",
              help="The folder that `train` wrote.  [default: the model that comes with the package]")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), default=Path("view.html"), show_default=True,
              help="The page's file.")  # fmt: skip
@click.option("--open", "is_opened", is_flag=True, help="Show it in the browser.")
def view(sentence: str | None, folder: str | None, out: Path, is_opened: bool) -> None:
    """Look inside: write a page in which a trained model translates, every number of it to be seen.

    The page is one file and needs no network. It computes the whole Transformer itself, for any sentence; of SENTENCE
    it has torch.nn's numbers too.
    """
    import latex2mathml  # noqa: F401  (missing: said before anything is computed)
    import pygments  # noqa: F401

    with one_line_errors():
        from scratch_transformer.files import write
        from scratch_transformer.translation.checkpoint import load_run
        from scratch_transformer.translation.trained import folder_of
        from scratch_transformer.translation.translator import unknown_words
        from scratch_transformer.view import page

        refuse_unwritable(out)
        run = load_run(folder_of(folder))
        html = page(run, sentence)
        if sentence and (words := unknown_words(run, sentence)):
            click.echo(f"Warning: the model does not know all of {', '.join(map(repr, words))}", err=True)
        write(out, html)
    click.echo(f"{out}: {len(html.encode()) / 1e6:.1f} MB")
    if is_opened:
        click.launch(str(out))
