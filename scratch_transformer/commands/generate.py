"""`scratch-transformer generate`: text, by a language model."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scratch_transformer.options import Device, is_at_a_terminal, standard_input
from scratch_transformer.translation.errors import InputError

if TYPE_CHECKING:
    import torch

    from scratch_transformer.pretrained.text_model import TextModel

POSITIVE, ANY_SEED = click.IntRange(min=1), click.IntRange(0, 2**63 - 1)
DTYPES = ("float32", "float64", "bfloat16", "float16")


@click.command()
@click.argument("prompts", nargs=-1)
@click.option("--model", "place", metavar="PLACE",
              help="A folder in Hugging Face's layout with a GPT-2, Llama or Qwen 3, a GGUF file with a Llama, or a "
              "run of `train --task language-model`.  [default: the installed SmolLM2-135M-Instruct]")  # fmt: skip
@click.option("--chat", is_flag=True, help="Each prompt is a message, to be answered, not to be continued.")
@click.option("--max-new-tokens", type=POSITIVE, metavar="N",
              help="Cut after so many tokens.  [default: 100, or as many as the model has positions for]")  # fmt: skip
@click.option("--temperature", type=float, default=0.8, show_default=True,
              help="0: always the likeliest token; below 1 safer, above 1 bolder.")  # fmt: skip
@click.option("--top-k", type=POSITIVE, help="From the likeliest so many tokens.")
@click.option("--top-p", type=float, help="From the likeliest tokens that have this probability.")
@click.option("--min-p", type=float, help="From tokens that have at least this share of the likeliest's probability.")
@click.option("--repetition-penalty", type=float, default=1.0, show_default=True,
              help="Above 1: tokens that are there already become less likely.")  # fmt: skip
@click.option("--seed", type=ANY_SEED, default=0, show_default=True, help="The same seed draws the same.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object a prompt, one a line.")
@click.option("--dtype", type=click.Choice(DTYPES), default="float32", show_default=True, help="To compute in.")
@click.option("--device", type=Device(), default="cpu", show_default=True, help="Where to compute, in torch's terms.")
def generate(
    prompts: tuple[str, ...],
    place: str | None,
    chat: bool,
    max_new_tokens: int | None,
    as_json: bool,
    dtype: str,
    device: str,
    **options: Any,
) -> None:
    """Continue PROMPTS, or answer them, with a language model. A single one is written as it comes.

    Without PROMPTS, reads them from standard input, one a line.
    """
    try:
        text_model = _load(place, dtype, device)
        if not prompts and is_at_a_terminal():
            _converse(text_model, chat, max_new_tokens, options)
            return
        lines = (line.decode(errors="surrogateescape").rstrip("\r\n") for line in standard_input())
        texts = list(prompts) or [line for line in lines if line.strip()]
        if not texts:
            raise click.UsageError("no prompts: give them as arguments, or one a line on standard input")
        if len(texts) == 1 and not as_json:
            _write(text_model, texts[0], chat, max_new_tokens, options)
        else:
            _write_all(text_model, texts, chat, max_new_tokens, options, as_json)
    except BrokenPipeError:  # nobody reads on, as in `| head -1`: click ends quietly
        raise
    except (InputError, OSError, ValueError, ModuleNotFoundError) as error:
        raise click.ClickException(" ".join(str(error).split())) from error


def _load(place: str | None, dtype: str, device: str) -> TextModel:
    """Whatever kind of model is there."""
    import torch

    from scratch_transformer.language.run import is_run
    from scratch_transformer.pretrained import gguf, text_model

    kind: torch.dtype = getattr(torch, dtype)
    if place is not None and is_run(place):
        return _trained(place, kind, device)
    if place is None or Path(place).is_file():
        return gguf.load_gguf(gguf.installed_weights() if place is None else place, kind, device)
    return text_model.load_folder(place, kind, device)


def _trained(place: str, dtype: torch.dtype, device: str) -> TextModel:
    """A run of `train`. Each of its documents began behind the token that ends one: so do the prompts."""
    from scratch_transformer.language.run import load_run
    from scratch_transformer.pretrained.text_model import TextModel

    run = load_run(place, device)
    words = run.tokenizer
    return TextModel(
        place, run.model.to(dtype), lambda text: [words.bos_id, *words.encode(text)], words.decode, (words.eos_id,)
    )


def _options(options: dict[str, Any]) -> dict[str, Any]:
    """As `generation.stream` has them: a generator for the seed."""
    import torch

    seed = options["seed"]
    rest = {name: value for name, value in options.items() if name != "seed"}
    return rest | {"generator": torch.Generator().manual_seed(seed)}


def _count(text_model: TextModel, prompts: list[str], asked: int | None) -> int:
    """How many tokens may follow the longest of the prompts."""
    room = text_model.model.config.max_length - max(len(text_model.ids(prompt)) for prompt in prompts)
    return asked if asked is not None else max(1, min(100, room))


def _write(text_model: TextModel, text: str, chat: bool, asked: int | None, options: dict[str, Any]) -> None:
    """One text, piece by piece: the prompt and what follows it, or the answer alone."""
    prompt = text_model.chat(text) if chat else text
    pieces = text_model.stream(prompt, _count(text_model, [prompt], asked), **_options(options))
    if not chat:
        click.echo(text, nl=False)
    for piece in pieces:
        click.echo(piece, nl=False)
        sys.stdout.flush()
    click.echo()


def _write_all(
    text_model: TextModel, texts: list[str], chat: bool, asked: int | None, options: dict[str, Any], as_json: bool
) -> None:
    """Several texts at once, each below the other."""
    prompts = [text_model.chat(text) if chat else text for text in texts]
    found = text_model.generate(prompts, _count(text_model, prompts, asked), **_options(options))
    for text, rest in zip(texts, found, strict=True):
        if as_json:
            click.echo(json.dumps({"prompt": text, "text": rest}, ensure_ascii=False))
        else:
            click.echo(rest if chat else text + rest)
            click.echo()


def _converse(text_model: TextModel, chat: bool, asked: int | None, options: dict[str, Any]) -> None:
    """A person's lines, each answered at once; mistakes are said, and the next line is read."""
    click.echo("Prompts, one a line; end with Ctrl-D (Ctrl-Z and Enter on Windows):", err=True)
    for line in sys.stdin:
        if line.strip():
            try:
                _write(text_model, line.rstrip("\n"), chat, asked, options)
            except ValueError as error:
                click.echo(f"Error: {error}", err=True)
