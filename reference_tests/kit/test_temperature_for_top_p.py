"""A temperature that finds which ids top-p keeps, and is forgotten where one of them is drawn: S1."""

import pytest

from reference_tests.kit.learners.checked import check_text, time_to_look
from scratch_transformer.kit.mistakes.optimizing import FOR_TOP_P

WRITES = """
@torch.no_grad()
def decode(model, input_ids, eos_token_id: int, temperature=1.0, max_generated_tokens=None, threshold=None):
    output_ids = []
    while max_generated_tokens is None or len(output_ids) < max_generated_tokens:
        logits = model(input_ids)[0, -1]
        probs = torch.softmax(logits / temperature, dim=-1)
        if threshold is not None:
            ordered, places = torch.sort(probs, descending=True, dim=-1)
            is_left_out = torch.cumsum(ordered, dim=-1) - ordered > threshold
            logits[places[is_left_out]] = -math.inf
            probs = torch.softmax(AGAIN, dim=-1)
        word = torch.multinomial(probs, num_samples=1).item()
        output_ids.append(word)
        if word == eos_token_id:
            break
        input_ids = torch.cat((input_ids, torch.tensor([[word]])), dim=-1)
    return output_ids
"""


@pytest.mark.parametrize("again, forms", [("logits / temperature", []), ("logits", [("S1", FOR_TOP_P)])])
def test_a_temperature_that_is_lost_behind_top_p_is_named(again, forms, tmp_path):
    """Also of what must be told the id that ends the text."""
    with time_to_look(1):
        result = check_text(WRITES.replace("AGAIN", again), tmp_path)["decode.sampling"]
    assert [(one.id, one.form) for one in result.mistakes] == forms, result
