"""A run as pictures: throughput and memory over length, the ratio to the best builtin, and the roofline.

Drawn without a display; each function returns a figure, or None where the run has nothing to show in it.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from scratch_transformer.benchmarking import ratios, results
from scratch_transformer.benchmarking.ratios import Row
from scratch_transformer.benchmarking.timing import Spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {
    "ours auto": "#c8102e",
    "ours naive": "#e8998d",
    "ours tiled": "#f28c28",
    "ours triton": "#b5651d",
    "ours hopper": "#8b0051",
    "ours decode": "#d65db1",
    "torch flash": "#1f5fa8",
    "torch efficient": "#2a9d8f",
    "torch cudnn": "#6a4c93",
    "torch math": "#8d99ae",
    "torch flex": "#3a7d44",
}
"""Ours are warm, PyTorch's are cold."""

STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.grid": True,
    "grid.color": "#e3e3e8",
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "svg.hashsalt": "scratch_transformer",  # the same run gives the same file
    "figure.constrained_layout.use": True,
}


def all_plots(document: dict[str, Any]) -> dict[str, Figure]:
    """Every picture that this run has something for, by its name."""
    import matplotlib

    with matplotlib.rc_context(STYLE):
        drawn = {plot.__name__: plot(document) for plot in (ratio, throughput, memory, roofline)}
    return {name: figure for name, figure in drawn.items() if figure is not None}


def svg(figure: Figure) -> bytes:
    """The figure as a file of vector graphics."""
    import matplotlib

    file = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(file, format="svg", metadata={"Date": None}, bbox_inches="tight")
    return file.getvalue()


def address(figure: Figure) -> str:
    """The figure as an address that holds all of it: in one page, the names inside two drawings would clash."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg(figure)).decode()


def _panels(rows: int, columns: int, height: float = 2.6) -> tuple[Figure, list[list[Axes]]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(max(4.6 * columns, 6), height * rows + 0.4))
    return figure, figure.subplots(rows, columns, squeeze=False).tolist()


def _timed(document: dict[str, Any]) -> list[Row]:
    return [row for row in document["rows"] if row["status"] == "timed" and row["subject"] == "attention"]


def _legend(figure: Figure) -> None:
    """One for all panels, without doubles."""
    found: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(name, handle)
    figure.legend(list(found.values()), list(found), loc="outside lower center", ncols=min(len(found), 5))


def _log2_axis(axes: Axes, values: Sequence[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(sorted(set(values)), [_thousands(value) for value in sorted(set(values))])
    axes.minorticks_off()


def _thousands(value: int) -> str:
    return f"{value // 1024}k" if value >= 1024 and value % 1024 == 0 else str(value)


# ---- Throughput over length ----


def throughput(document: dict[str, Any]) -> Figure | None:
    """A panel for every dtype and direction, full and causal beside each other, of the commonest width."""
    rows = [row for row in _timed(document) if not ratios.is_variant(row)]
    if not rows:
        return None
    widths = [row["shape"]["D"] for row in rows]
    width = max(sorted(set(widths)), key=widths.count)
    rows = [row for row in rows if row["shape"]["D"] == width]
    kinds = list(dict.fromkeys((row["dtype"], row["direction"]) for row in rows))
    figure, panels = _panels(len(kinds), 2)
    for (dtype, direction), beside in zip(kinds, panels, strict=True):
        for axes, is_causal in zip(beside, (False, True), strict=True):
            chosen = [
                row
                for row in rows
                if (row["dtype"], row["direction"], row["is_causal"]) == (dtype, direction, is_causal)
            ]
            _throughput_panel(axes, chosen)
            axes.set_title(
                f"{dtype}, {direction if direction != 'both' else 'forward + backward'}{', causal' * is_causal}"
            )
        beside[0].set_ylabel("TFLOP/s")
    for axes in panels[-1]:
        axes.set_xlabel(f"length (heads of width {width})")
    _legend(figure)
    return figure


def _throughput_panel(axes: Axes, rows: Sequence[Row]) -> None:
    for backend in dict.fromkeys(row["backend"] for row in rows):
        points = sorted((row["shape"]["T"], row) for row in rows if row["backend"] == backend)
        flops = [row["flops"] / 1e12 for _, row in points]
        axes.plot([length for length, _ in points], [row["TFLOP/s"] for _, row in points], **_line(backend))
        low = [count / row["seconds"]["p80"] for count, (_, row) in zip(flops, points, strict=True)]
        high = [count / row["seconds"]["p20"] for count, (_, row) in zip(flops, points, strict=True)]
        axes.fill_between([length for length, _ in points], low, high, color=_colour(backend), alpha=0.12, linewidth=0)
    _log2_axis(axes, [row["shape"]["T"] for row in rows])
    axes.set_ylim(bottom=0)


def _line(backend: str) -> dict[str, Any]:
    ours = backend == "ours auto"
    width, marker = (2.4, "o") if ours else (1.3, "s" if backend.startswith("ours") else "^")
    style = "--" if backend.startswith("ours") and not ours else "-"
    order = 3 if ours else 2
    return {
        "label": backend, "color": _colour(backend), "linewidth": width, "marker": marker, "markersize": 4,
        "linestyle": style, "zorder": order,
    }  # fmt: skip


def _colour(backend: str) -> str:
    return COLOURS.get(backend, "#555555")


# ---- Memory over length ----


def memory(document: dict[str, Any]) -> Figure | None:
    """Peak memory of one call, on two logarithmic axes, with the line that grows with the square of the length."""
    rows = [row for row in document["memory"] if row["status"] == "timed" and row["peak_memory"]]
    if not rows:
        return None
    directions = list(dict.fromkeys(row["direction"] for row in rows))
    figure, (panels,) = _panels(1, len(directions), 3.6)
    for axes, direction in zip(panels, directions, strict=True):
        chosen = [row for row in rows if row["direction"] == direction]
        for backend in dict.fromkeys(row["backend"] for row in chosen):
            points = sorted(
                (row["shape"]["T"], row["peak_memory"] / 2**20) for row in chosen if row["backend"] == backend
            )
            axes.plot([x for x, _ in points], [y for _, y in points], **_line(backend))
        _growth_lines(axes, chosen)
        axes.set_yscale("log", base=2)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_title("forward" if direction == "forward" else "forward + backward")
        axes.set_xlabel("length")
    panels[0].set_ylabel("MiB above inputs and outputs")
    _legend(figure)
    return figure


def _growth_lines(axes: Axes, rows: Sequence[Row]) -> None:
    """One float32 number for every pair of positions, which is what the weights alone take; and an output's size."""
    lengths = sorted({row["shape"]["T"] for row in rows})
    heads, width = rows[0]["shape"]["B"] * rows[0]["shape"]["H"], rows[0]["shape"]["D"]
    pairs = [4 * heads * length**2 / 2**20 for length in lengths]
    outputs = [4 * heads * length * width / 2**20 for length in lengths]
    axes.plot(lengths, pairs, color="#222222", linestyle=":", linewidth=1, label="O(L²): B H L² float32")
    axes.plot(lengths, outputs, color="#222222", linestyle=(0, (1, 4)), linewidth=1, label="O(L): B H L D float32")
    _log2_axis(axes, lengths)


# ---- Ratio to the best builtin ----


def ratio(document: dict[str, Any]) -> Figure | None:
    """A dot for every case, with its spread; right of the line at 1, ours is faster."""
    found = [comparison for comparison in ratios.comparisons(document["rows"]) if comparison.ratio is not None]
    if not found:
        return None
    families = list(dict.fromkeys(ratios.family(comparison.ours) for comparison in found))
    columns = min(len(families), 2)
    groups = [families[i::columns] for i in range(columns)]
    tallest = max(sum(2 + sum(ratios.family(c.ours) == name for c in found) for name in group) for group in groups)
    figure, (panels,) = _panels(1, columns, 0.17 * tallest + 0.6)
    for axes, group in zip(panels, groups, strict=True):
        _ratio_panel(axes, [(name, [c for c in found if ratios.family(c.ours) == name]) for name in group], tallest)
    _ratio_axis(panels, [comparison.ratio for comparison in found if comparison.ratio is not None])
    where = document["environment"]
    title = f"Right of 1, in red: faster than the best of PyTorch's ({where['processor']}, torch {where['torch']})"
    figure.suptitle("\n".join(filter(None, (title, results.disturbance(document)))), fontsize=10)
    return figure


def _ratio_panel(axes: Axes, families: Sequence[tuple[tuple[str, ...], list[ratios.Comparison]]], rows: int) -> None:
    place, labels = 0, []
    for name, found in families:
        mean, _ = ratios.means(found)[name]
        labels.append((place, f"{', '.join(name)}: mean {mean:.2f}"))
        axes.plot([mean, mean], [place + 0.6, place + len(found) + 0.4], color="#222222", linewidth=1)
        for offset, comparison in enumerate(found, start=1):
            seen = comparison.ratio
            assert seen is not None
            colour = "#c8102e" if seen.median >= 1 else "#1f5fa8"
            axes.plot([seen.p20, seen.p80], [place + offset] * 2, color=colour, linewidth=2, alpha=0.45)
            axes.plot([seen.median], [place + offset], "o", color=colour, markersize=4)
            labels.append((place + offset, ratios.label(comparison.ours)))
        place += len(found) + 2
    axes.axvline(1, color="#777777", linewidth=1)
    axes.set_yticks([y for y, _ in labels], [text for _, text in labels], fontsize=7.5)
    for tick, (_, text) in zip(axes.get_yticklabels(), labels, strict=True):
        tick.set_fontweight("bold" if ": mean" in text else "normal")
    axes.set_ylim(rows, -1)
    axes.set_xscale("log")
    axes.set_xlabel("← PyTorch faster      time of the best builtin / ours      ours faster →")


def _ratio_axis(panels: Sequence[Axes], found: Sequence[Spread]) -> None:
    """The same for all panels: from a half to two at least."""
    low, high = min(0.5, *(seen.p20 for seen in found)) / 1.1, max(2, *(seen.p80 for seen in found)) * 1.1
    ticks = [tick for tick in (0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 30) if low <= tick <= high]
    for axes in panels:
        axes.set_xlim(low, high)
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()


# ---- Roofline ----


def roofline(document: dict[str, Any]) -> Figure | None:
    """What each case reaches, under what this machine could do: its memory's slope, and the roofs of its products."""
    rows = [row for row in _timed(document) if row["backend"] == "ours auto" or not row["is_ours"]]
    if not rows:
        return None
    dtypes = list(dict.fromkeys(row["dtype"] for row in rows))
    figure, (panels,) = _panels(1, len(dtypes), 3.4)
    for axes, dtype in zip(panels, dtypes, strict=True):
        chosen = [row for row in rows if row["dtype"] == dtype]
        _roof(axes, document["limits"], dtype, [row["flops"] / row["bytes"] for row in chosen])
        for backend in reversed(list(dict.fromkeys(row["backend"] for row in chosen))):
            points = [(row["flops"] / row["bytes"], row["TFLOP/s"]) for row in chosen if row["backend"] == backend]
            style = {"color": _colour(backend), "label": backend, "markersize": 4, "linestyle": "none", "alpha": 0.8}
            axes.plot([x for x, _ in points], [y for _, y in points], "o" if backend == "ours auto" else "^", **style)
        axes.set_title(dtype)
        axes.set_xlabel("operations per byte of inputs and outputs")
    panels[0].set_ylabel("TFLOP/s")
    _legend(figure)
    return figure


def _roof(axes: Axes, limits: dict[str, Any], dtype: str, intensities: Sequence[float]) -> None:
    """The slope of the memory, and the roof; a second roof where float32's products are faster."""
    low, high = min(intensities) / 2, max(intensities) * 2
    top = max(limits["gemm"][dtype], limits["gemm"]["float32"] if dtype != "float64" else 0)
    xs = sorted({low, max(low, min(high, top / limits["bandwidth"])), high})
    axes.loglog(xs, [min(x * limits["bandwidth"], top) / 1e12 for x in xs], color="#222222", linewidth=1.4)
    name = "float32" if top != limits["gemm"][dtype] else dtype
    axes.annotate(f"{name} products", (high, top / 1e12), ha="right", va="bottom", fontsize=8)
    if name != dtype:
        own = limits["gemm"][dtype] / 1e12
        axes.axhline(own, color="#222222", linewidth=1, linestyle=":")
        axes.annotate(f"{dtype} products", (high, own), ha="right", va="bottom", fontsize=8)
