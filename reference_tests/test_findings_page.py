"""docs/findings.md says what the kit finds now. Here for the shorter tutorials; `tox -e kit` looks at all."""

import re

import pytest

from docs import measure_findings
from reference_tests.test_tutorials_page import NUMBER

QUICK = ("b", "e")


@pytest.fixture(scope="module")
def page():
    return measure_findings.PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("tutorial", QUICK)
def test_the_findings_are_as_measured(page, tutorial):
    for name, measured in measure_findings.tables([tutorial]).items():
        if name != "all":
            compare(page, name, measured)


def compare(page, name, measured):
    """In words exactly; numbers may be rounded differently elsewhere."""
    written = re.search(rf"<!-- measured: {name} -->\n(.*?)\n<!-- end -->", page, re.DOTALL)[1]
    assert NUMBER.sub("#", written) == NUMBER.sub("#", measured)
    for old, new in zip(NUMBER.findall(written), NUMBER.findall(measured), strict=True):
        assert float(old.replace(",", "")) == pytest.approx(float(new.replace(",", "")), rel=0.3), (old, new)


def test_every_table_has_its_place(page):
    places = re.findall(r"<!-- measured: ([\w-]+) -->", page)
    assert places == ["all", *(f"{t}{part}" for t in measure_findings.TUTORIALS for part in ("", "-numbers"))]
