"""Functions that write a translation, greedily or with a beam, and make the batch of a source of a list themselves."""

import pytest

from reference_tests.kit.learners.checked import check_text, time_to_look
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.resolve import guess

pytestmark = pytest.mark.long

GREEDY = """
def say_in_target(model, source_ids, start_id, end_id, max_len=40):
    batch = torch.tensor(MADE, dtype=torch.long)
    memory, src_mask = model.encode(batch)
    said = torch.tensor([[start_id]])
    while said.size(1) <= max_len:
        scores = model.decode(said, memory, src_mask)
        word = scores[:, -1].CHOICE(dim=-1, keepdim=True)
        said = torch.cat((said, word), 1)
        if word.item() == end_id:
            break
    return said[0].tolist()
"""
BEAM = """
def beam_translate(model, source_ids, start_id, end_id, beam_size=4, max_len=40):
    memory = model.encode(torch.tensor([source_ids]))
    beams = [(0.0, [start_id], False)]
    for _ in range(max_len):
        longer = [beam for beam in beams if beam[2]]
        for score, said, is_done in beams:
            if not is_done:
                gains = LOGS(model.decode(torch.tensor([said]), memory)[0, -1])
                best = gains.topk(beam_size)
                longer += [(score + gain, [*said, word], word == end_id)
                           for gain, word in zip(best.values.tolist(), best.indices.tolist())]
        beams = sorted(longer, key=lambda beam: -beam[0])[:beam_size]
    return beams[0][1]
"""


@pytest.mark.parametrize(("choice", "ids"), [("argmax", []), ("argmin", ["D6"])])
@pytest.mark.parametrize("made", ["[source_ids]", "[[start_id] + source_ids + [end_id]]", "[[start_id, *source_ids]]"])
def test_a_source_may_be_a_list(made, choice, ids, tmp_path):
    with time_to_look(1):
        result = check_text(GREEDY.replace("MADE", made).replace("CHOICE", choice), tmp_path)["say_in_target"]
    assert result.severe == ids and result.verdict == ("mistake" if ids else "matches the builtin")


@pytest.mark.parametrize(("logs", "ids"), [("F.log_softmax", []), ("torch.clone", ["D1"])])
def test_so_it_may_for_a_beam(logs, ids, tmp_path):
    text = BEAM.replace("LOGS(", f"{logs}(").replace("F.log_softmax(model", "F.log_softmax(dim=-1, input=model")
    with time_to_look(1):
        result = check_text(text, tmp_path)["beam_translate"]
    assert result.ids == ids and result.verdict != "unknown mismatch"


@pytest.mark.parametrize("name", ["beam_translate", "translate_beam", "beam_search_generate"])
def test_what_has_a_beam_is_not_greedy(name):
    def function(model, src_ids, sos_idx, eos_idx, beam_size=5, max_len=100):
        raise NotImplementedError

    function.__name__ = name
    assert guess.kinds_of(name, function, KINDS) == ("BeamSearch",)
