"""Parts that a model is handed by short names, and keeps by telling ones: self.encoder = enc."""

import pathlib

import pytest

from reference_tests.kit.learners import correct
from reference_tests.kit.learners.checked import LESS, check_text, time_to_look
from scratch_transformer.kit.report.finding import FINE

TEXT = (pathlib.Path(correct.__path__[0]) / "annotated.py").read_text()
NAMES = ("encoder", "decoder", "src_embed", "tgt_embed", "generator")
SHORT = ("en", "dc", "s_in", "t_in", "gen")


def renamed(names):
    """The model of the parts in that file, with other names of its constructor's parameters."""
    text = TEXT.replace(", ".join(("self", *NAMES)), ", ".join(("self", *names)))
    for name, short in zip(NAMES, names, strict=True):
        text = text.replace(f"self.{name} = {name}\n", f"self.{name} = {short}\n")
    return text


@pytest.mark.long
def test_a_part_is_what_it_is_kept_as(tmp_path):
    whole = check_text(renamed(SHORT), tmp_path, ["EncoderDecoder"])["EncoderDecoder"]
    assert whole.kind == "Transformer" and whole.verdict in FINE, whole


@pytest.mark.long
def test_a_model_that_is_wrong_is_not_called_right_for_its_names(tmp_path):
    text = renamed(SHORT).replace("self.tgt_embed(tgt), memory,", "self.tgt_embed(tgt), memory * 2,")
    with time_to_look(LESS):
        whole = check_text(text, tmp_path, ["EncoderDecoder"])["EncoderDecoder"]
    assert whole.verdict == "unknown mismatch" or whole.unexplained
