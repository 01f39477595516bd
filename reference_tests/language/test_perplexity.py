import math
from types import SimpleNamespace

import pytest
import torch

from scratch_transformer.language import packing, perplexity, vocabulary
from scratch_transformer.language.config import Config
from scratch_transformer.language_model import Config as ModelConfig
from scratch_transformer.language_model import LanguageModel
from scratch_transformer.translation.errors import InputError

TEXT = "the quick brown fox jumps over the lazy dog\n"


@pytest.fixture(scope="module")
def run():
    words = vocabulary.train(257, [TEXT])
    torch.manual_seed(0)
    sizes = {"vocab_size": 257, "max_length": 16, "d_model": 8, "num_layers": 1, "num_heads": 2, "d_ff": 6}
    model = LanguageModel(ModelConfig.llama(**sizes, num_kv_heads=1)).double().eval()
    for parameter in model.parameters():
        parameter.data.normal_()
    return SimpleNamespace(model=model, tokenizer=words, config=Config().replace(**{"data.length": 16}))


def by_hand(run, stride):
    """Token by token: from the window that it is counted in."""
    ids = torch.from_numpy(packing.pack([TEXT], run.tokenizer)).long()
    total = 0.0
    for t in range(1, len(ids)):
        window = 0 if t <= 16 else math.ceil((t - 16) / stride) * stride  # the first that reaches it
        log_p = run.model(ids[None, window:t])[0, -1].log_softmax(-1)
        total -= log_p[ids[t]].item()
    return total / (len(ids) - 1)


@pytest.mark.parametrize("stride", [1, 5, 8, 16])
@pytest.mark.parametrize("batch_tokens", [16, 64])
def test_every_token_once_with_as_much_before_it_as_was_asked_for(run, stride, batch_tokens):
    found = perplexity.measure(run, [TEXT], stride, batch_tokens)
    assert found.tokens == len(TEXT) + 1
    assert found.context == 16 - stride
    assert found.loss == pytest.approx(by_hand(run, stride), rel=1e-9)


@pytest.mark.parametrize("text", ["a", TEXT[:15], TEXT[:16], TEXT[:17]])
def test_texts_about_as_long_as_a_window(run, text):
    assert perplexity.measure(run, [text], 8).tokens == len(text) + 1


def test_a_model_that_knows_nothing(run):
    blank = SimpleNamespace(**vars(run))
    blank.model = LanguageModel(run.model.config)
    for parameter in blank.model.parameters():
        parameter.data.zero_()
    found = perplexity.measure(blank, [TEXT], 16)
    assert found.perplexity == pytest.approx(257)
    assert found.bits_per_byte == pytest.approx(math.log2(257) * (len(TEXT) + 1) / len(TEXT))


def test_what_cannot_be_measured(run):
    with pytest.raises(InputError, match="stride is 17: expected 1 to data.length, 16"):
        perplexity.measure(run, [TEXT], 17)
    with pytest.raises(InputError, match="there is no text to measure"):
        perplexity.measure(run, ["", ""])
