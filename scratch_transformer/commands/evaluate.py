"""`scratch-transformer evaluate`: how well a model translates pairs, or knows a text, that it has never seen."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from scratch_transformer.options import BEAM, Device, eight_bits_on, one_line_errors, refuse_unwritable

if TYPE_CHECKING:
    from rich.progress import Progress

    from scratch_transformer.translation.checkpoint import Run
    from scratch_transformer.translation.corpus import Pair
    from scratch_transformer.translation.corpus.files import Found
    from scratch_transformer.translation.translator import Search

EXTRA = "translation"


@click.command()
@click.option("--model", "folder", metavar="RUN",
              help="The folder that `train` wrote.  [default: the model that comes with the package]")  # fmt: skip
@click.option("--data", type=click.Path(), metavar="TSV",
              help="Pairs of your own: source, tab, reference.  [default: the run's held-out pairs]")  # fmt: skip
@click.option("--source-file", type=click.Path(), help="Sources of your own, one a line, with --target-file.")
@click.option("--target-file", type=click.Path(), help="Their references, line by line.")
@click.option("--beam", type=BEAM, default=1, show_default=True, help="Beam search; 1 is greedy.")
@click.option("--length-penalty", "alpha", type=float, default=0.6, show_default=True,
              help="α: a score is log P / ((5 + length) / 6)^α.")  # fmt: skip
@click.option("--text", type=click.Path(), metavar="FILE",
              help="A text of your own for a language model.  [default: the run's held-out text]")  # fmt: skip
@click.option("--stride", type=int, help="Tokens by which a language model's window moves on.  [default: half of it]")
@click.option("--json", "json_file", type=click.Path(), help="Write all numbers and translations to this file.")
@click.option("--int8", is_flag=True, help="Round large weights to 8 bits: a large model is faster, and a little off.")
@click.option("--device", type=Device(), default="cpu", show_default=True, help="Where to compute, in torch's terms.")
def evaluate(
    folder: str | None, beam: int, alpha: float, text: str | None, stride: int | None, json_file: str | None,
    int8: bool, device: str, **files_: str | None,
) -> None:  # fmt: skip
    """Translate a run's held-out pairs, or your own, and compare with what is expected.

    BLEU, chrF, CER, WER and exact matches of the translations; accuracy and perplexity of the expected tokens. Of a
    language model: the perplexity of a token, and bits a byte of the text, which compare models of any vocabulary.
    """
    with one_line_errors():
        refuse_unwritable(json_file)
        own = _own(**files_)
        from scratch_transformer.language.run import is_run

        if folder is not None and is_run(folder):
            if own is not None:
                raise click.UsageError(f"{folder} is a language model: expected --text in place of pairs")
            _surprise(folder, text, stride, json_file, device)
            return
        if text is not None or stride is not None:
            name = "stride" if text is None else "text"
            raise click.UsageError(f"--{name} is for a language model, which --model says where to find")
        import jiwer  # noqa: F401  (missing: said now, not after the translation)
        import sacrebleu  # noqa: F401

        from scratch_transformer.translation.checkpoint import load_run
        from scratch_transformer.translation.trained import folder_of
        from scratch_transformer.translation.translator import Search

        search = Search(beam, alpha, eight_bits=eight_bits_on(device, int8))
        run = load_run(folder_of(folder), device)
        document = _evaluate(run, search, own)
        if json_file:
            from scratch_transformer import files

            files.write(json_file, json.dumps(document, ensure_ascii=False, indent=2) + "\n")
        _print(document)


def _surprise(folder: str, text: str | None, stride: int | None, json_file: str | None, device: str) -> None:
    """Measure a language model."""
    from scratch_transformer.language import perplexity, texts
    from scratch_transformer.language.run import load_run

    run = load_run(folder, device)
    documents = run.held_out() if text is None else texts.documents(text)
    with _progress() as progress:
        bar = progress.add_task("reading", total=None)
        found = perplexity.measure(run, documents, stride, progress=lambda done: progress.update(bar, completed=done))
    numbers = {"perplexity": found.perplexity, "bits_per_byte": found.bits_per_byte, "loss": found.loss}
    document = {
        "model": str(run.weights), "text": text or "held-out text", "tokens": found.tokens, "bytes": found.byte_count,
        "context": found.context, "scores": numbers, "definitions": perplexity.MEANINGS,
    }  # fmt: skip
    if json_file:
        from scratch_transformer import files

        files.write(json_file, json.dumps(document, ensure_ascii=False, indent=2) + "\n")
    for name, meaning in perplexity.MEANINGS.items():
        click.echo(f"{name:15} {numbers[name]:9.4f}  {meaning}")
    click.echo(
        f"\n{found.tokens:,} tokens, {found.byte_count:,} bytes of {document['text']}, each token from at least "
        f"{found.context} before it, {run.weights}"
    )


def _own(data: str | None, source_file: str | None, target_file: str | None) -> list[Found] | None:
    """The pairs of the user's own files, or what is wrong with a line; None: there are no such files."""
    from scratch_transformer.translation.corpus import files

    if (source_file is None) != (target_file is None):
        raise click.UsageError("--source-file and --target-file: expected both, for they belong together line by line")
    if source_file is None or target_file is None:
        return None if data is None else list(files.read_tsv(data))
    if data is not None:
        raise click.UsageError("--data and --source-file: expected one of them")
    return list(files.read_aligned(source_file, target_file))


def _evaluate(run: Run, search: Search, own: list[Found] | None) -> dict[str, Any]:
    """All scores, and every translation beside its source and reference."""
    from scratch_transformer.translation import metrics, translator

    kind = "held-out pair" if own is None else "pair"
    pairs, sources, left_out = _usable(run, run.held_out() if own is None else own, kind)
    with _progress() as progress:
        bar = progress.add_task("translating", total=len(pairs))
        found = translator.translate(run, sources, search, progress=lambda done: progress.advance(bar, done))
    translations = [run.target_tokenizer.decode(hypotheses[0].ids) for hypotheses in found]
    references = [target for _, target in pairs]
    scores = {**metrics.text_metrics(translations, references), **metrics.token_metrics(run, sources, references)}
    examples = [
        {"source": source, "reference": reference, "translation": translation, "score": hypotheses[0].score}
        for (source, reference), translation, hypotheses in zip(pairs, translations, found, strict=True)
    ]
    return {
        "model": str(run.weights), "beam": search.beam, "length_penalty": search.alpha,
        "pairs": len(pairs), "kind": kind, "left_out": left_out, "scores": scores,
        "definitions": metrics.MEANINGS, "translations": examples,
    }  # fmt: skip


def _usable(run: Run, found: Sequence[Found], kind: str) -> tuple[list[Pair], list[list[int]], list[str]]:
    """The pairs that the model has room for, their sources as ids, and why the others are left out."""
    from scratch_transformer.translation.errors import InputError
    from scratch_transformer.translation.tokenizer import normalized
    from scratch_transformer.translation.translator import encode

    pairs, sources, left_out = [], [], []
    longest = run.model.tgt_pos.seq_len
    for number, pair in enumerate(found, start=1):
        try:
            if isinstance(pair, str):
                raise InputError(pair)
            source, reference = map(normalized, pair)
            ids, length = encode(run, source, f"{kind} {number}"), len(run.target_tokenizer.encode(reference))
            if not 0 < length < longest:
                raise InputError(f"{kind} {number}: the reference has {length} tokens: expected 1 to {longest - 1}")
            pairs.append((source, reference))
            sources.append(ids)
        except InputError as error:
            left_out.append(str(error))
    if not pairs:
        where = f"{run.folder} has no held-out pairs" if kind == "held-out pair" else "there are no pairs"
        raise InputError(f"{where} to compare with" + "".join(f"; {e}" for e in left_out[:1]))
    return pairs, sources, left_out


def _progress() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def _print(document: dict[str, Any]) -> None:
    """A line for every score, then the signatures that make BLEU and chrF comparable."""
    scores = document["scores"]
    for name, meaning in document["definitions"].items():
        digits = 2 if name in ("BLEU", "chrF") else 4
        click.echo(f"{name:15} {scores[name]:9.{digits}f}  {meaning}")
    how = "greedy" if document["beam"] == 1 else f"beam {document['beam']}, α = {document['length_penalty']}"
    for reason in document["left_out"]:
        click.echo(f"Warning: left out: {reason}", err=True)
    click.echo(f"\n{document['pairs']} {document['kind']}s, {how}, {document['model']}")
    for name in ("BLEU", "chrF"):
        click.echo(f"{name} {scores[f'{name} signature']}")
