"""The certificate, the page and the table, on results that are made up."""

import datetime
import html.parser
import io
import json

import pytest

from reference_tests.conformance.checks import INF, definition, other, precision, skipped
from scratch_transformer.conformance import COMPONENTS, report
from scratch_transformer.conformance.certificate import SCHEMA_VERSION, certificate, to_json
from scratch_transformer.conformance.environment import environment
from scratch_transformer.conformance.legend import LEGEND

rich_console = pytest.importorskip("rich.console", reason="rich is not installed")

GOOD = [
    definition(),
    definition(0.0, 0.0, index=1),
    definition(4e-13, 5e-14, kind="oracle"),
    skipped(index=1, reason="the <oracle> can't"),
    *[precision([1.25], [1.5], dtype=dtype) for dtype in ("float32", "bfloat16", "float16")],
    other("error"),
    other("invariant"),
    definition(component="GELU"),
]
BAD = [definition(INF, 1.0), precision([INF], [float("nan")]), other("error", passed=False, note="says <nothing>")]


# ---- The certificate ----


def test_a_certificate_says_what_where_and_how():
    document = certificate(GOOD)
    assert document["schema_version"] == SCHEMA_VERSION
    date = datetime.datetime.fromisoformat(document["date"])
    assert date.utcoffset() == datetime.timedelta(0)
    assert document["environment"] == environment("cpu")
    assert {"torch", "Python", "NumPy", "platform", "processor", "device"} <= set(document["environment"])
    assert all(document["environment"].values())
    assert document["dtypes"] == ["float64", "float32", "bfloat16", "float16"]
    assert document["definitions"] == LEGEND
    assert document["tolerances"]["float64"] == 1e-12
    assert document["verdict"]["passed"]
    assert document["skipped"] == {"the <oracle> can't": 1}


def test_a_certificate_has_the_numbers_of_every_case():
    linear, gelu = certificate(GOOD)["components"]
    assert (linear["name"], gelu["name"]) == ("Linear", "GELU")
    assert linear["ours"] == "scratch_transformer.nn.linear.Linear"
    assert linear["builtin"] == "torch.nn.modules.linear.Linear"
    assert linear["source"] == COMPONENTS["Linear"].source
    first, second = linear["cases"]
    assert first["description"] == COMPONENTS["Linear"].cases[0].description
    assert first["definition"] == {
        "status": "passed",
        "output_error": 1e-16,
        "gradient_error": 2e-16,
        "is_bitwise": False,
    }
    assert first["float16"]["output_ratios"] == [1.25]
    assert first["float16"]["gradient_ratio"] == 1.5
    assert second["oracle"] == {"status": "skipped", "note": "the <oracle> can't"}
    assert [error["status"] for error in linear["errors"]] == ["passed"]
    assert [invariant["violation"] for invariant in linear["invariants"]] == [0.0]
    assert linear["summary"]["cases"] == 2


def test_a_failure_says_how_to_repeat_it():
    document = certificate(BAD)
    assert not document["verdict"]["passed"]
    (case,) = document["components"][0]["cases"]
    assert case["definition"]["status"] == "failed"
    assert "Task(component='Linear', kind='definition', index=0" in case["definition"]["reproduction"]


@pytest.mark.parametrize("checks", [GOOD, BAD, []], ids=["good", "bad", "empty"])
def test_a_certificate_is_valid_json(checks):
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    document = certificate(checks)
    assert json.loads(to_json(document), parse_constant=refuse) == document


def test_infinities_are_words():
    (case,) = certificate(BAD)["components"][0]["cases"]
    assert case["definition"]["output_error"] == "inf"
    assert case["float16"]["gradient_ratios"] == ["nan"]


# ---- The page ----


class Structure(html.parser.HTMLParser):
    """Checks that every element is closed, and collects what is loaded from elsewhere."""

    VOID = {"meta", "br", "link", "img"}

    def __init__(self):
        super().__init__()
        self.open, self.loaded, self.tables = [], [], []

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)
        self.loaded += [value for name, value in attrs if name in ("src", "href") and not value.startswith("#")]
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append(0)
        if tag in ("td", "th"):
            self.tables[-1][-1] += int(dict(attrs).get("colspan", 1))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, self.getpos()


@pytest.mark.parametrize("checks", [GOOD, BAD, GOOD[:1], []], ids=["good", "bad", "one", "empty"])
def test_a_page_is_well_formed_and_self_contained(checks):
    page = report.page(certificate(checks))
    structure = Structure()
    structure.feed(page)
    assert structure.open == []
    assert structure.loaded == []
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


def test_every_row_of_a_table_is_as_wide_as_its_last_heading():
    """A cell too few would shift all numbers into the wrong column."""
    structure = Structure()
    structure.feed(report.page(certificate(GOOD)))
    with_two_headings = [rows for rows in structure.tables if len(rows) > 2 and rows[0] != rows[1]]
    assert len(with_two_headings) == 3  # the result, and a table for each of two components
    for rows in with_two_headings:
        assert len({rows[0], *rows[2:]}) == 1


def test_a_page_has_components_sources_equations_legend_and_worst_cases():
    page = report.page(certificate(GOOD))
    for name in ("Linear", "GELU"):
        assert f'<h3 id="{name}">' in page
    assert "y = x Wᵀ + b." in page
    assert "Vaswani et al. 2017, section 3.3" in page
    assert "Hendrycks &amp; Gimpel 2016" in page
    assert all(f"<dt>{name}</dt>" in page for name in LEGEND)
    assert "precision, float16" in page
    assert "the &lt;oracle&gt; can&#39;t" in page
    assert "<oracle>" not in page


def test_a_page_shows_failures_first_and_how_to_repeat_them():
    page = report.page(certificate(BAD))
    assert '<p class="verdict failed">FAIL: ' in page
    assert "index=0" in page
    assert "says &lt;nothing&gt;" in page


def test_the_worst_cases_are_the_worst():
    checks = [precision([1.0], [1 + i / 10], index=i) for i in range(7)]
    (rows,) = report._worst(certificate(checks)).values()
    assert [row["values"][1] for row in rows] == [1.6, 1.5, 1.4, 1.3, 1.2]


# ---- The table ----


def printed(checks):
    console = rich_console.Console(width=200, file=io.StringIO())
    console.print(report.table(checks))
    return console.file.getvalue().splitlines()


def test_a_row_for_every_component_and_one_for_all():
    rows = [line.split() for line in printed(GOOD) if line.strip()]
    names = [row[0] for row in rows]
    assert names[names.index("Linear") :] == ["Linear", "GELU", "all"]
    linear = rows[names.index("Linear")]
    assert linear[1:10] == ["2", "1", "1e-16", "2e-16", "1", "4e-13", "5e-14", "1.25", "1.50"]
    assert linear[11:] == ["1", "1", "pass"]


def test_one_component_needs_no_total():
    assert not any(line.split()[:1] == ["all"] for line in printed(GOOD[:1]))


def test_what_was_not_compared_is_a_dash():
    (row,) = [line.split() for line in printed([definition()]) if "Linear" in line]
    assert row == ["Linear", "1", "0", "1e-16", "2e-16", *"–" * 6, "0", "–", "pass"]


def test_failures_and_infinities_are_printed():
    (row,) = [line.split() for line in printed(BAD) if "Linear" in line]
    assert row[3] == "inf"
    assert row[-1] == "FAIL"


@pytest.mark.parametrize(
    "value, text", [(None, "–"), (0.0, "0"), (1.26e-16, "1e-16"), (INF, "inf"), ("inf", "inf"), ("nan", "nan")]
)
def test_errors_in_words(value, text):
    assert report.error(value) == text


@pytest.mark.parametrize("value, text", [(None, "–"), (0.988, "0.99"), (1, "1.00"), ("inf", "inf")])
def test_ratios_in_words(value, text):
    assert report.ratio(value) == text


def test_every_number_of_the_table_has_a_definition():
    headings = " ".join(report._HEADINGS)
    for name in LEGEND:
        assert all(word in headings for word in name.split()), name
