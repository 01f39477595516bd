"""A language model with its tokenizer: text in, text out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from scratch_transformer import generation
from scratch_transformer.language_model import LanguageModel
from scratch_transformer.pretrained.causal import from_pretrained, stop_ids
from scratch_transformer.pretrained.config import existing, read_json
from scratch_transformer.pretrained.files import bare_tokenizer

INSTALL_READERS = "Install it with: pip install 'scratch-transformer[generate]'"
UNFINISHED = "\N{REPLACEMENT CHARACTER}"
"""What a decoder writes for the first bytes of a character, of which the others are in the next token."""


@dataclass(frozen=True)
class TextModel:
    """encode: text -> ids. decode: ids -> text. stop: ids that end a text. chat_template: in Jinja, if there is one."""

    name: str
    model: LanguageModel
    encode: Callable[[str], list[int]]
    decode: Callable[[list[int]], str]
    stop: tuple[int, ...] = ()
    chat_template: str | None = None

    def generate(self, prompts: Sequence[str], max_new_tokens: int, **options: Any) -> list[str]:
        """What follows each prompt, without the token that ends it. Options and errors: `generation.stream`."""
        options = {"stop": self.stop} | options
        prompt_ids = [self.ids(prompt) for prompt in prompts]
        found = generation.generate(self.model, prompt_ids, max_new_tokens, **options)
        return [self.decode([i for i in ids if i not in options["stop"]]) for ids in found]

    def stream(self, prompt: str, max_new_tokens: int, **options: Any) -> Iterator[str]:
        """What follows the prompt, in pieces as they come: whole characters. Errors come at once."""
        options = {"stop": self.stop} | options
        steps = generation.stream(self.model, [self.ids(prompt)], max_new_tokens, **options)
        return self._pieces(steps, options["stop"])

    def _pieces(self, steps: Iterator[list[int | None]], stop: Collection[int]) -> Iterator[str]:
        ids: list[int] = []
        told = ""
        for [token] in steps:
            if token is None or token in stop:
                break
            ids.append(token)
            text = self.decode(ids)
            if not text.endswith(UNFINISHED):
                yield text[len(told) :]
                told = text
        if rest := self.decode(ids)[len(told) :]:
            yield rest

    def ids(self, prompt: str) -> list[int]:
        """The prompt's ids.

        Raises:
            ValueError: there are none.
        """
        ids = self.encode(prompt)
        if not ids:
            raise ValueError(f"the prompt {prompt!r} has no tokens: expected some text")
        return ids

    def chat(self, message: str) -> str:
        """The prompt that asks for an answer to a message, as the model was trained to be asked.

        Raises:
            ValueError: the model has no chat template.
        """
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        if self.chat_template is None:
            raise ValueError(f"{self.name} has no chat template: it continues texts, and was not trained to answer")
        template = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True).from_string(self.chat_template)
        return template.render(messages=[{"role": "user", "content": message}], add_generation_prompt=True)


def load_folder(
    folder: str | Path, dtype: torch.dtype | None = torch.float32, device: torch.device | str | None = None
) -> TextModel:
    """A Hugging Face folder of GPT-2, Llama or Qwen 3, with its `tokenizer.json`.

    Arguments and errors: `from_pretrained`; ModuleNotFoundError too if tokenizers is not installed, and ValueError if
    the tokenizer is not one, or has more tokens than the model.
    """
    folder = Path(folder)
    model = from_pretrained(folder, dtype, device)
    path = existing(folder / "tokenizer.json")
    tokenizer = bare_tokenizer(path, model.config.vocab_size)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return TextModel(
        str(folder), model, lambda text: tokenizer.encode(text).ids, lambda ids: tokenizer.decode(ids),
        stop_ids(folder), _chat_template(folder),
    )  # fmt: skip


def _chat_template(folder: Path) -> str | None:
    if (folder / "chat_template.jinja").is_file():
        return (folder / "chat_template.jinja").read_text(encoding="utf-8")
    path = folder / "tokenizer_config.json"
    found = (read_json(path) if path.is_file() else {}).get("chat_template")
    return found if isinstance(found, str) else None
