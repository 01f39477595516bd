"""What draws by one object of settings is told each of them."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.report.finding import FINE

pytestmark = pytest.mark.long

SAMPLER = """
@dataclass
class Choice:
    count: int
    temperature: float = 1.0
    top_k: Optional[int] = None
    top_p: Optional[float] = None


def keep_top_k(scores, choice):
    if choice.top_k:
        least = scores.topk(choice.top_k, dim=-1).values[:, -1:]
        scores = scores.masked_fill(scores < least, -math.inf)
    return scores


def top_p(logits, choice: Choice):
    if not choice.top_p:
        return logits
    values, places = logits.softmax(-1).sort(-1, descending=True)
    beyond = values.cumsum(-1){before} > choice.top_p
    return logits.masked_fill(torch.zeros_like(beyond).scatter(-1, places, beyond), -math.inf)


def sample(logits: torch.Tensor, choice: Choice):
    logits = logits {by} choice.temperature
    logits = top_p(keep_top_k(logits, choice), choice)
    return torch.multinomial(logits.softmax(-1), 1)
"""


@pytest.mark.parametrize("by, before, named", [
    ("/", " - values", {"sample": [], "top_p": []}),
    ("*", " - values", {"sample": ["S1"], "top_p": []}),
    ("/", "", {"sample": ["S2"], "top_p": ["S2"]}),
])  # fmt: skip
def test_a_draw_is_told_what_one_object_has(by, before, named, tmp_path):
    text = SAMPLER.replace("{by}", by).replace("{before}", before)
    found = check_text(f"from dataclasses import dataclass\nfrom typing import Optional\n{text}", tmp_path)
    assert {name: found[name].severe for name in named} == named
    assert all(found[name].verdict in FINE for name, ids in named.items() if not ids)
