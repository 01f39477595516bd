"""Benchmarks as they were measured: read from the dated results in benchmarks/results."""

import json
from pathlib import Path

import matplotlib

from docs.site.catalogue import plain
from scratch_transformer.benchmarking import plots, ratios, report

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
