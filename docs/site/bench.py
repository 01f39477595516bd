"""Benchmarks as they were measured: read from the dated results in benchmarks/results."""

import json
from pathlib import Path

import matplotlib

from benchmarks.beside_builtin import BESIDE, SUBJECT, medians
from docs.site.catalogue import plain
from scratch_transformer.benchmarking import measurement, plots, ratios, report
from scratch_transformer.benchmarking.others import BUSY
from scratch_transformer.benchmarking.profile import PRODUCTS
from scratch_transformer.benchmarking.timing import geometric_mean

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def runs():
    """Every committed run, the latest first: where it was, the means by family, and all cases folded."""
    return "\n".join(run(file) for file in sorted(RESULTS.glob("*.json"), reverse=True))


def run(file):
    """One of them."""
    document = json.loads(file.read_text(encoding="utf-8"))
    if document.get("schema") != "scratch_transformer benchmark":
        return ""
    where = document["environment"]
    page = file.with_suffix(".html")
    whole = f" [The whole page](../benchmarks/results/{page.name}) has all plots." if page.exists() else ""
    return "\n".join(
        [
            f"### {where['processor']}, {document['device']}, {document['date'][:10]}\n",
            f"torch {where['torch']}, Python {where['Python']}, {where['threads']} threads; the machine multiplied "
            f"large float32 matrices at {document['limits']['gemm']['float32'] / 1e9:.0f} GFLOP/s and copied "
            f"{document['limits']['bandwidth'] / 1e9:.0f} GB/s.{whole}\n",
            means(document),
            "\n" + picture(document),
            "::::{dropdown} Every case",
            cases(document),
            "::::\n",
        ]
    )


def means(document):
    """The geometric mean of every family."""
    rows = ["| | cases | best builtin's time over ours |", "| --- | ---: | ---: |"]
    for name, (mean, number) in ratios.means(ratios.comparisons(document["rows"])).items():
        rows.append(f"| {', '.join(name)} | {number} | {mean:.2f} |")
    return "\n".join(rows)


def picture(document):
    """The ratio, case by case."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # the site's own style is for pages without a background
        matplotlib.rcParams.update(plots.STYLE)
        address = plots.address(plots.ratio(document))
    return (
        f'```{{raw}} html\n<figure class="plot"><img src="{address}" alt="the best builtin\'s time over ours">'
        f"<figcaption>{report.CAPTIONS['ratio']}</figcaption></figure>\n```\n"
    )


def cases(document):
    """The table of the terminal."""
    rows = ["| " + " | ".join(report.HEADINGS) + " |", "| --- |" + " ---: |" * (len(report.HEADINGS) - 1)]
    for name, mean, found in report.grouped(document["rows"]):
        rows.append(f"| **{name}**: mean {mean} |" + " |" * (len(report.HEADINGS) - 1))
        rows += ["| " + " | ".join(map(plain, report.cells(comparison))) + " |" for comparison in found]
    return "\n".join(rows)


def beside_builtin():
    """Ours beside the builtin alone, whenever it was kept: on free cores and on shared ones."""
    kept = [(subject, document) for subject in BESIDE.values() for document in measurement.every(subject, RESULTS)]
    return "\n\n".join(_beside(subject, document) for subject, document in kept)


def _beside(subject, document):
    """The mean and the lowest of every family."""
    title = subject.removeprefix(SUBJECT).strip() or "on free cores"
    rows = [f"| {title} | cases | mean | lowest |", "| --- | ---: | ---: | ---: |"]
    for group, found in document["values"].items():
        for family, values in medians(found).items():
            mean, lowest = geometric_mean(values), min(values)
            rows.append(f"| {group}, {family} | {len(values)} | {mean:.2f} | {lowest:.2f} |")
    return "\n".join([*rows, "", where(document)])


def profile():
    """Where tiled attention's time goes, in a sentence."""
    document = measured("profile of tiled attention")
    values = document["values"]
    by_share = sorted(values["shares"].items(), key=lambda item: -item[1])
    products = sum(share for name, share in by_share if name in PRODUCTS)
    others = [(name, share) for name, share in by_share if name not in PRODUCTS][:3]
    rest = ", ".join(f"{share:.0%} `{name.removeprefix('aten::')}`" for name, share in others)
    return (
        f"{products:.0%} of the time are the two matrix products, at {values['products'] / 1e9:.0f} of the "
        f"{values['products alone'] / 1e9:.0f} GFLOP/s that the same products reach alone; {rest}. {where(document)}"
    )


def host_overhead():
    """Microseconds before a launch."""
    document = measured("host overhead")
    rows = ["| call | ours | with Triton's binding |", "| --- | ---: | ---: |"]
    for name, times in document["values"].items():
        rows.append(f"| {name} | " + " | ".join(f"{time:.0f}" for time in times.values()) + " |")
    return "\n".join([*rows, "", where(document)])


def decoding():
    """Greedy decoding beside whole prefixes and the tutorial's loop."""
    document = measured("the application")
    rows = [
        "| model, sources, tokens | tokens/s | whole prefixes | tutorial | in eight bits, tokens/s | tutorial |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, found in sorted(document["values"].items(), reverse=True):
        if name != "an epoch":
            ratios, speed = found["ratios"], found["tokens per second"]
            times = " | ".join(spread(ratios[rival]) for rival in ("whole prefixes", "tutorial"))
            share = ratios["eight bits"]["median"]
            in_eight_bits = f"{speed / share:,.0f} | {ratios['tutorial']['median'] / share:.1f}"
            rows.append(f"| {name} | {speed:,.0f} | {times} | {in_eight_bits} |")
    return "\n".join([*rows, "", where(document)])


def training():
    """An epoch beside the tutorial's."""
    rows = [
        "| sentences | tokens on average, most | target tokens/s | tutorial, batches of 8 | batches as large as ours |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    document = measured("the application")
    for name, found in document["values"]["an epoch"].items():
        lengths, ratios = f"{found['mean length']:.0f}, {found['longest']}", found["ratios"]
        times = " | ".join(spread(ratios[rival]) for rival in ("tutorial", "tutorial, wide"))
        rows.append(f"| {name} | {lengths} | {found['tokens per second']:,.0f} | {times} |")
    return "\n".join([*rows, "", where(document)])


def generating():
    """Tokens of language models beside transformers' and beside no cache."""
    return _language_models("generate: ", "family, size, texts, tokens each", ("transformers", "whole texts"))


def learning():
    """Training steps of GPT-2's kind beside torch.nn's and transformers'."""
    return _language_models("training: ", "a step of GPT-2's training", ("torch.nn", "torch.nn, fused", "transformers"))


def _language_models(kind, what, rivals):
    document = measured("language models")
    rows = [f"| {what} | tokens/s | {' | '.join(rivals)} |", "| --- |" + " ---: |" * (1 + len(rivals))]
    for name, found in sorted(document["values"].items(), reverse=True):
        if name.startswith(kind):
            times = " | ".join(spread(found["ratios"][rival], 2) for rival in rivals)
            rows.append(f"| {name.removeprefix(kind)} | {found['tokens per second']:,.0f} | {times} |")
    return "\n".join([*rows, "", where(document)])


def corpus():
    """A corpus on disk: time and memory, in a sentence."""
    document = measured("a corpus on disk")
    values = document["values"]
    new, again = (
        f"{found['seconds'] / 60:.1f} minutes ({found['of a processor'] / 60:.1f} of a processor)"
        for found in (values["new"], values["resumed"])
    )
    memory = values["new"]
    return (
        f"{values['pairs']:,} pairs, {values['text']:,} MB of text, {values['ids']:,} MB of ids. The first step of a "
        f"new run is done after {new}, of the run resumed after {again}. The process then has {memory['then']:,} MB of "
        f"memory, {memory['of its own']:,} of its own and the rest of mapped files; it had {memory['most']:,} at most. "
        f"{where(document)}"
    )


def measured(subject):
    """The newest committed measurement."""
    document = measurement.latest(subject, RESULTS)
    assert document is not None, f"no measurement of {subject} is in {RESULTS}"
    return document


def where(document):
    """Date and machine."""
    at = document["environment"]
    threads = "one thread" if at["threads"] == 1 else f"{at['threads']} threads"
    busy = f"; other processes used {at['used by others']:.1f} processors" if at["used by others"] >= BUSY else ""
    return f"({at['processor']}, {at['instructions']}, {threads}, torch {at['torch']}, {document['date'][:10]}{busy}.)"


def spread(ratio, digits=1):
    """A median and the range of the middle rounds."""
    return f"{ratio['median']:.{digits}f} ({ratio['p20']:.{digits}f} to {ratio['p80']:.{digits}f})"
