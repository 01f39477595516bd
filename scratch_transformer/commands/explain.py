"""`scratch-transformer explain`."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from scratch_transformer.kit.kind import Mistake

WIDTH = 88
SEVERITIES = {
    "mistake": "a mistake",
    "paper": "as in the paper, not as in PyTorch",
    "harmless": "harmless",
    "note": "worth knowing, not a mistake",
}


@click.command()
@click.argument("mistakes", nargs=-1, metavar="[MISTAKE]...")
def explain(mistakes: tuple[str, ...]) -> None:
    """Explain a mistake by its id, such as LN1, with a demonstration that runs.

    Without MISTAKE, lists all of them.
    """
    from scratch_transformer.kit.mistakes import MISTAKES

    by_name = {id.lower(): mistake for id, mistake in MISTAKES.items()}
    unknown = [name for name in mistakes if name.lower() not in by_name]
    if unknown:
        raise click.UsageError(f"no mistake is called {unknown[0]}: `scratch-transformer explain` lists all of them")
    if not mistakes:
        for mistake in MISTAKES.values():
            click.echo(f"{click.style(mistake.id.ljust(5), bold=True)} {mistake.title}")
    for number, name in enumerate(mistakes):
        click.echo("\n" if number else "", nl=False)
        _explain(by_name[name.lower()])


def _explain(mistake: Mistake) -> None:
    from scratch_transformer.kit.mistakes.demonstrate import demonstrate

    click.echo(click.style(f"{mistake.id}: {mistake.title}", bold=True) + f" ({SEVERITIES[mistake.severity]})\n")
    _paragraph("What the code does", mistake.does)
    _paragraph("What is right", mistake.expected)
    if mistake.mathematics:
        _block("The mathematics", mistake.mathematics)
    forms = [form for form in mistake.changes if form]
    if len(forms) > 1:
        _paragraph("Its forms", "; ".join(forms) + ".")
    _paragraph("The fix", mistake.fix)
    _paragraph("Source", mistake.source)
    if mistake.explain_only:
        _paragraph("Not recognised by `check`", mistake.explain_only)
    _block("A demonstration", mistake.demo)
    _block("prints", demonstrate(mistake))


def _paragraph(title: str, text: str) -> None:
    """The title, and the text indented below it."""
    wrapped = textwrap.wrap(text, WIDTH - 4, break_long_words=False, break_on_hyphens=False)
    _block(title, "\n".join(wrapped))


def _block(title: str, text: str) -> None:
    click.echo(f"{click.style(title, underline=True)}\n{textwrap.indent(text.strip(), '    ')}\n")
