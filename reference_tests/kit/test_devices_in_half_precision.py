"""What is put on a GPU stays on the CPU in every precision: what float16 alone shows is found there, too."""

import pytest
import torch

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.resolve.call.precision import double

CORE = """
DEVICE = "cuda"


def scaled_dot_product_attention(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(MOVED == 0, BLOCKED)
    return scores.softmax(-1) @ v
"""


@pytest.mark.parametrize("moved", ["mask", "mask.to(DEVICE)", "mask.cuda()", "mask.to(device=torch.device(DEVICE))"])
@pytest.mark.parametrize("blocked, ids", [("-1e9", ["A8"]), ("-math.inf", [])])
def test_a_number_beyond_float16_is_found_wherever_the_mask_is_put(moved, blocked, ids, tmp_path):
    text = CORE.replace("MOVED", moved).replace("BLOCKED", blocked)
    found = check_text(text, tmp_path)["scaled_dot_product_attention"]
    assert [one.id for one in found.mistakes if one.severity != "note"] == ids


@pytest.mark.parametrize("is_high", [True, False])
def test_no_tensor_leaves_the_cpu(is_high):
    x = torch.zeros(2, dtype=torch.float16)
    with double(is_high):
        assert {y.device.type for y in (x.to("cuda"), x.cuda(), torch.ones(2, device="mps"), x.to("cpu"))} == {"cpu"}
        assert x.to("cuda").dtype == torch.float16 and x.half().dtype == (torch.float64 if is_high else torch.float16)
