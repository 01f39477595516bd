"""Files that do something else when they are imported: said in a sentence, and what can be checked is checked.

Here a few; `tox -e kit` runs them all: learners/whole_corpus.py.
"""

import pytest

from reference_tests.kit.learners.misbehaving import judge_misbehaving

QUICK = ("crash at import", "sys.exit", "training", "writes files")


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.long
def test_it_does_not_take_the_tool_down(name, tmp_path):
    assert judge_misbehaving(name, tmp_path) == []
