"""A whole's own mistake, where all of its norms have another ε: it is found in time, among many designs."""

import pytest

from reference_tests.kit.learners.checked import check_here, time_to_look
from reference_tests.kit.learners.corpus import STYLES

pytestmark = pytest.mark.long
CHANGES = {
    "eps=1e-5": "eps=1e-12",
    'float("-inf")': "-10000.0",
    "super().forward(x) * math.sqrt(self.d_model)": "super().forward(x)",
}
OF_TARGET = "(trg != self.trg_pad_idx).unsqueeze(1).unsqueeze({})"


@pytest.mark.parametrize("axis, ids", [(3, ["A7"]), (2, [])])
def test_a_mask_of_padding_on_the_target_s_queries_is_named(axis, ids, tmp_path):
    text = STYLES["ffn_hidden"].read_text(encoding="utf-8")
    for old, new in {**CHANGES, OF_TARGET.format(2): OF_TARGET.format(axis)}.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (tmp_path / "learner.py").write_text(text)
    with time_to_look(1):
        result = check_here(tmp_path / "learner.py", {"Transformer"})["Transformer"]
    assert result.severe == ids and not result.unexplained, result
