"""Every style and every mistaken version: minutes, so `tox -e kit` runs it and `pytest` alone does not."""

import pytest

from docs import measure_findings
from reference_tests.kit import test_wild
from reference_tests.kit.learners.checked import check_here
from reference_tests.kit.learners.corpus import STYLES
from reference_tests.kit.learners.expected import MISSED, OPEN
from reference_tests.kit.learners.judged import judge_correct, judge_mistaken
from reference_tests.kit.learners.misbehaving import MISBEHAVING, judge_misbehaving
from reference_tests.kit.learners.mistaken.tables import MISTAKEN
from reference_tests.kit.learners.wrong import WRONG
from reference_tests.test_findings_page import compare
from scratch_transformer.kit.report.finding import FINE


@pytest.mark.parametrize("style", STYLES)
def test_right_code_raises_no_alarm(style):
    """Also: what OPEN lists is still open."""
    complained = {complaint.split(":")[0]: complaint for complaint in judge_correct(style)}
    known = {name for of, name in OPEN if of == style}
    assert {name: words for name, words in complained.items() if name not in known} == {}
    assert known <= complained.keys()


@pytest.mark.parametrize("mistaken", MISTAKEN, ids=lambda mistaken: mistaken.name)
def test_a_mistake_is_named_and_no_other(mistaken, tmp_path):
    """Also: what MISSED lists is still missed."""
    assert bool(judge_mistaken(mistaken, tmp_path)) == (mistaken.name in MISSED)


@pytest.mark.parametrize("name", MISBEHAVING)
def test_a_misbehaving_file_does_not_take_the_tool_down(name, tmp_path):
    assert judge_misbehaving(name, tmp_path) == []


def test_the_page_of_findings_is_as_measured():
    page = measure_findings.PAGE.read_text(encoding="utf-8")
    for name, measured in measure_findings.tables().items():
        compare(page, name, measured)


@pytest.mark.parametrize("row", WRONG, ids=lambda row: f"{row.style}-{row.component}")
def test_what_is_wrong_is_never_called_right(row, tmp_path):
    """Unless it is said that a part, which is wrong, was left out of it."""
    result = check_here(row.write(tmp_path))[row.component]
    assert result.verdict not in FINE or result.replaced, result


@pytest.mark.parametrize("style, component, old, new, ids", test_wild.MISTAKEN)
def test_a_mistake_in_what_strangers_write_is_never_called_right(style, component, old, new, ids, tmp_path):
    test_wild.judge(style, component, old, new, ids, tmp_path)
