"""What a run says, on a run that is made up: ratios, tables, the page, the plots, and two runs beside each other."""

import copy
import html.parser
import io
import re
import xml.etree.ElementTree as ElementTree

import pytest

from reference_tests.benchmarking import made_up
from scratch_transformer.benchmarking import compare, ratios, report, results
from scratch_transformer.benchmarking.timing import Spread

pytest.importorskip("matplotlib", reason="matplotlib is not installed")
rich_console = pytest.importorskip("rich.console", reason="rich is not installed")
from scratch_transformer.benchmarking import plots  # noqa: E402  (needs matplotlib)


@pytest.fixture(scope="module")
def document():
    return made_up.document()


@pytest.fixture(scope="module")
def figures(document):
    return plots.all_plots(document)


# ---- Ratios ----


def test_a_ratio_is_the_best_builtins_time_over_ours(document):
    for comparison in ratios.comparisons(document["rows"]):
        if comparison.ours["variant"] == "none":
            expected = 2.0 if comparison.ours["dtype"] == "float32" else 0.5
            assert comparison.builtin["backend"] == "torch flash"
            assert vars(comparison.ratio) == pytest.approx(vars(Spread(expected, expected, expected)))


def test_without_a_builtin_there_is_no_ratio(document):
    (alone,) = [c for c in ratios.comparisons(document["rows"]) if c.ours["variant"] == "window"]
    assert (alone.builtin, alone.ratio) == (None, None)
    assert report.cells(alone)[2:5] == ("–", "none can", "–")


def test_means_are_of_families(document):
    means = ratios.means(ratios.comparisons(document["rows"]))
    assert means["attention", "float32", "both", "causal"] == (pytest.approx(2.0), 2)
    assert means["attention", "bfloat16", "forward", "full"] == (pytest.approx(0.5), 2)
    assert not any(name[0] == "variants" for name in means)


def test_only_ours_can_break_a_run(document):
    assert ratios.broken(document) == []
    broken = copy.deepcopy(document)
    broken["rows"][0] |= {"status": "wrong", "reason": "relative error 1"}
    broken["rows"][1] |= {"status": "wrong", "reason": "relative error 1"}
    assert [row["backend"] for row in ratios.broken(broken)] == ["ours auto"]


def test_who_was_not_timed_is_counted(document):
    counts = ratios.left_out(document["rows"])
    assert counts["torch flex", "unsupported", "has no <compiler>"] == 16


@pytest.mark.parametrize(
    "value, text", [(0, "0"), (1234.5, "1234"), (12.345, "12.3"), (0.0012345, "0.00123"), (float("inf"), "inf")]
)
def test_three_digits(value, text):
    assert results.digits(value) == text


@pytest.mark.parametrize(
    "value, text",
    [(None, "–"), (0, "0"), (512, "512 B"), (1536, "1.50 KiB"), (3 * 2**20, "3.00 MiB"), (2**35, "32.0 GiB")],
)
def test_sizes(value, text):
    assert results.size(value) == text


# ---- The table and the page ----


def test_the_table_has_every_case_and_the_means(document):
    console = rich_console.Console(width=220, file=io.StringIO())
    console.print(report.table(document))
    printed = console.file.getvalue()
    assert "attention, float32, forward, full" in printed
    assert "mean 2.00" in printed
    assert "2.00 (2.00–2.00)" in printed
    (line,) = [line for line in printed.splitlines() if "window" in line]
    assert "none can" in line
    assert printed.count("1·2·1024·16") == 8


@pytest.mark.long
def test_a_page_is_whole_and_needs_nothing_else(document, figures):
    page = report.page(document, figures)
    open_tags = []

    class Parser(html.parser.HTMLParser):
        def handle_starttag(self, tag, attrs):
            if tag not in ("meta", "br", "link", "hr", "img"):
                open_tags.append(tag)

        def handle_endtag(self, tag):
            assert open_tags.pop() == tag

    parser = Parser()
    parser.feed(page)
    assert open_tags == []
    assert page.count('<img src="data:image/svg+xml;base64,') == 4
    assert "has no &lt;compiler&gt;" in page
    assert not re.search(r'(src|href)="http', page)


def test_a_page_begins_with_what_is_broken(document, figures):
    broken = copy.deepcopy(document)
    broken["rows"][0] |= {"status": "wrong", "reason": "relative error 1"}
    page = report.page(broken, {})
    assert f'<p class="verdict bad">ours auto wrong in {broken["rows"][0]["case"]}: relative error 1' in page


def test_a_file_is_named_after_date_device_and_machine(document):
    document = {**document, "date": "2026-02-03T04:05", "environment": {"processor": "ACME (R) 7", "threads": 2}}
    assert results.file_name(document) == "2026-02-03-cpu-acme-r-7-2-threads"
    document |= {"device": "cuda", "environment": {"device": "cuda (ACME H9 80GB, CUDA 13)"}}
    assert results.file_name(document) == "2026-02-03-cuda-acme-h9-80gb"


# ---- The plots ----


def test_every_plot_is_drawn_and_is_svg(figures):
    assert list(figures) == ["ratio", "throughput", "memory", "roofline"]
    for figure in figures.values():
        assert ElementTree.fromstring(plots.svg(figure)).tag.endswith("svg")


def test_the_same_run_gives_the_same_picture(document):
    once, again = (plots.svg(plots.all_plots({**document, "rows": []})["memory"]) for _ in range(2))
    assert once == again


def test_throughput_is_drawn_over_length(figures):
    axes = figures["throughput"].axes[0]
    lines = {line.get_label(): line for line in axes.lines}
    assert set(lines) == {"ours auto", "torch flash", "torch math"}
    assert list(lines["ours auto"].get_xdata()) == [256, 1024]
    assert len(figures["throughput"].axes) == 2 * 4


def test_memory_has_a_line_that_grows_with_the_square(figures):
    (axes,) = figures["memory"].axes
    lines = {line.get_label().partition(":")[0]: line for line in axes.lines}
    low, high = lines["O(L²)"].get_ydata()
    assert high / low == (1024 / 256) ** 2
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


def test_the_roof_is_the_measured_rate(figures):
    roofs = [max(axes.lines[0].get_ydata()) for axes in figures["roofline"].axes]
    assert roofs == pytest.approx([0.2, 0.2])  # float32's products are the faster ones in bfloat16 too
    slope = figures["roofline"].axes[0].lines[0]
    x, y = slope.get_xdata()[0], slope.get_ydata()[0]
    assert y == pytest.approx(min(x * 1e10, 2e11) / 1e12)


def test_a_run_without_attention_has_no_plots_of_it(document):
    assert plots.all_plots({**document, "rows": [], "memory": []}) == {}


# ---- Two runs ----


def test_changes_are_of_the_same_rival_in_the_same_case(document):
    after = copy.deepcopy(document)
    for row in after["rows"]:
        if row["status"] == "timed" and row["is_ours"]:
            row["seconds"] = {name: value / 3 for name, value in row["seconds"].items()}
    found = compare.changes(document, after)
    assert len(found) == 16 * 3 + 1
    for change in found:
        assert change.speedup == pytest.approx(3.0 if change.after["is_ours"] else 1.0)
        assert change.is_clear == (change.after["is_ours"])
    assert compare.mean_speedup([change for change in found if change.after["is_ours"]]) == pytest.approx(3.0)
    assert compare.changes(document, {"rows": []}) == []


def test_other_machines_are_pointed_out(document):
    other = copy.deepcopy(document)
    other["environment"] |= {"torch": "9.9", "used by others": 1.9}
    assert compare.differences(document, other) == [f"torch: {document['environment']['torch']} → 9.9"]
