"""What a model returns: an object of a class of its own, or of pydantic's, which would refuse float64."""

import pytest

from reference_tests.kit.learners.checked import check_text, time_to_look
from scratch_transformer.kit.report.finding import FINE

pytestmark = pytest.mark.long

MODEL = """
{output}

class TinyGPT(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        layer = nn.TransformerEncoderLayer(d_model, num_heads, 4 * d_model, 0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, num_layers, norm=nn.LayerNorm(d_model), enable_nested_tensor=False)
        self.head = nn.Linear(d_model, vocab_size, bias=False)

    def forward(self, input_ids):
        T = input_ids.shape[1]
        mask = torch.triu(torch.ones(T, T, device=input_ids.device), {first}).bool()
        x = self.tok(input_ids) + self.pos(torch.arange(T, device=input_ids.device))
        return Output(logits=self.head(self.layers(x, mask=mask)))
"""
PYDANTIC = """
from pydantic import BaseModel, ConfigDict

class Output(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    logits: torch.FloatTensor
    loss: torch.FloatTensor | None = None
"""
PLAIN = """
class Output:
    def __init__(self, logits, loss=None):
        self.loss, self.logits = loss, logits
"""


@pytest.mark.parametrize(("first", "is_right"), [(1, True), (2, False)])
@pytest.mark.parametrize("output", [PYDANTIC, PLAIN], ids=["pydantic", "plain"])
def test_a_model_that_returns_an_object_is_judged(output, first, is_right, tmp_path):
    if output is PYDANTIC:
        pytest.importorskip("pydantic")
    result = check_text(MODEL.format(output=output, first=first), tmp_path)["TinyGPT"]
    assert result.kind == "DecoderOnly"
    assert result.verdict == "matches the builtin" if is_right else "A6" in result.ids


WRITER = """
def longer(ids, word):
    return torch.cat([ids, word], dim=1)

def generate(model, tokenizer, prompt, max_new_tokens=256):
    ids, count = tokenizer(prompt, return_tensors="pt").input_ids, 0
    while count < max_new_tokens:
        GIVEN
        word = torch.argmax(logits[:, -1:], dim=-1)
        if word.item() == tokenizer.eos_token_id:
            break
        ids, count = longer(ids, word), count + 1
    return tokenizer.decode(ids[0], skip_special_tokens=True)
"""


@pytest.mark.parametrize("given", ["logits = model(ids).logits", "answer = model(ids)\n        logits = answer.logits"])
@pytest.mark.parametrize("place, is_right", [("-1:", True), (":1", False)])
def test_the_scores_are_read_of_what_a_librarys_model_gives(given, place, is_right, tmp_path):
    with time_to_look(1):
        result = check_text(WRITER.replace("GIVEN", given).replace("-1:", place), tmp_path)["generate"]
    assert "B26" not in result.ids and (result.verdict in FINE) == is_right, result


def test_what_a_model_of_the_file_does_not_give_is_named(tmp_path):
    text = MODEL.format(output=PLAIN, first=1).replace("Output(logits=self.head(self.layers(x, mask=mask)))", "(\n"
           "            self.head(self.layers(x, mask=mask)))") + WRITER  # fmt: skip
    text = text.replace("GIVEN", "logits = model(ids).logits")
    assert "B26" in check_text(text, tmp_path)["generate"].ids
