"""The kit on learner-like code: what is right raises no alarm, each mistake is named, and no other.

Here every right style and the quick part of the mistakes. `tox -e kit` runs everything: learners/whole_corpus.py.
"""

import pytest

from reference_tests.kit.learners.corpus import STYLES
from reference_tests.kit.learners.expected import MISSED, OPEN
from reference_tests.kit.learners.judged import judge_correct, judge_mistaken
from reference_tests.kit.learners.mistaken.tables import MISTAKEN

COMPONENTS = ("Norm", "norm", "Embedd", "Positional", "mask", "GELU", "Projection", "rate", "Loss", "FeedForward")
QUICK = [m for m in MISTAKEN if any(word in m.component for word in COMPONENTS) and m.name not in MISSED]
NAMED = [pytest.param(m, id=m.name, marks=[pytest.mark.long] if i % 3 else []) for i, m in enumerate(QUICK)]


@pytest.mark.long
@pytest.mark.parametrize("style", STYLES)
def test_right_code_raises_no_alarm(style):
    assert [complaint for complaint in judge_correct(style) if (style, complaint.split(":")[0]) not in OPEN] == []


@pytest.mark.parametrize("mistaken", NAMED)
def test_a_mistake_is_named_and_no_other(mistaken, tmp_path):
    assert judge_mistaken(mistaken, tmp_path) == []
