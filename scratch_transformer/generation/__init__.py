"""From a language model to text, token by token.

loop       prompts in, tokens out: `generate`, or `stream` as they come
decoders   the logits of the next token: with keys and values kept, or from the whole text again
sampling   temperature, top-k, top-p, min-p, repetition penalty
modes      how a model is set meanwhile
"""

from scratch_transformer.generation.loop import generate, stream

__all__ = ["generate", "stream"]
