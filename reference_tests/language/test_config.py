import dataclasses
import json

import pytest

from scratch_transformer import language_model
from scratch_transformer.language.config import Config
from scratch_transformer.language.run import build_model
from scratch_transformer.translation import config as translation
from scratch_transformer.translation.errors import InputError


def test_it_comes_back_from_json():
    config = Config().replace(**{"training.steps": 7, "data.text": "a.txt", "model.head_dim": 6})
    assert Config.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_the_two_tasks_do_not_take_each_others_configuration():
    for kind, other in ((Config, translation.Config), (translation.Config, Config)):
        with pytest.raises(InputError, match="is no configuration of this program"):
            kind.from_json(other().to_json())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"training.batch_tokens": 100}, "training.batch_tokens is 100: expected at least data.length, 128"),
        ({"model.max_length": 64}, "model.max_length is 64: expected at least data.length, 128"),
        ({"model.d_model": 130}, "model.d_model is 130: expected a multiple of model.num_heads, 4, or model.head_dim"),
        ({"model.num_kv_heads": 3}, "model.num_kv_heads is 3: expected a divisor of model.num_heads, 4"),
        ({"model.head_dim": 7}, "the width of a head is 7: expected an even one"),
        ({"model.family": "bert"}, "model.family is 'bert': expected one of llama, gpt2, qwen3"),
        ({"training.best": "BLEU"}, "there is no setting 'training.best'"),
        ({"tokens.vocab_size": 256}, "tokens.vocab_size is 256: expected a whole number from 257"),
    ],
)
def test_what_makes_no_sense_is_refused(settings, message):
    with pytest.raises(InputError) as caught:
        Config().replace(**settings)
    assert message in str(caught.value)


@pytest.mark.parametrize("family", ["llama", "gpt2", "qwen3"])
def test_the_models_choices_are_the_familys_and_its_sizes_the_configurations(family):
    config = Config().replace(**{"model.family": family, "model.dropout": 0.2, "data.length": 40})
    built = dataclasses.asdict(build_model(config, 300).config)
    theirs = dataclasses.asdict(getattr(language_model.Config, family)())
    for name in ("norm", "positions", "activation", "gated", "bias", "feed_forward_bias", "query_key_norm", "norm_eps"):
        assert built[name] == theirs[name], name
    expected = {"vocab_size": 300, "max_length": 40, "d_model": 128, "num_layers": 4, "num_heads": 4}
    expected |= {"num_kv_heads": 2, "head_dim": 32, "d_ff": 352, "dropout": 0.2, "tie_embeddings": True}
    assert {name: built[name] for name in expected} == expected
