"""Greedy and beam search over a model that is given as a function, by recipe.

next_logits(ids (B, T)) -> logits (B, T, V): at every position those of the next token.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from scratch_transformer import functional
from scratch_transformer.kit.canonical.base import OfRecipe

NextLogits = Callable[[Tensor], Tensor]
Hypothesis = tuple[list[int], float, bool]  # ids, score, is finished


def longest_of(next_logits: NextLogits) -> int | None:
    """How many ids it takes at most; None if it does not say so."""
    return getattr(next_logits, "longest", None)


def ending(ids: list[int], bos: int, eos: int, ends: str) -> Tensor:
    """The ids with or without the first bos and the last eos."""
    if "bos" not in ends and ids and ids[0] == bos:
        ids = ids[1:]
    if "eos" not in ends and ids and ids[-1] == eos:
        ids = ids[:-1]
    return torch.tensor(ids, dtype=torch.long)


class Greedy(OfRecipe):
    """The most probable token, again and again, until eos or max_len ids."""

    def forward(self, next_logits: NextLogits, bos: int, eos: int, max_len: int) -> Tensor:
        ids, form = [bos], self.recipe.decoding
        limit = max_len + {"one more": 1, "one less": -1}.get(self.recipe.writes, 0)
        while len(ids) < limit:
            logits = next_logits(torch.tensor([self._cut(ids, next_logits)]))[0]  # (T, V)
            row = 0 if form == "first position" else -1
            scores = logits[row]
            word = int(scores.argmin() if form == "least probable" else scores.argmax())
            ids = [word, *ids] if form == "at the front" else [*ids, word]
            is_unseen = form == "does not stop" or (form == "does not stop at the first word" and len(ids) == 2)
            if word == (bos if form == "stops at bos" else eos) and not is_unseen:
                break
        return ending(ids, bos, eos, self.recipe.ends)

    def _cut(self, ids: list[int], next_logits: NextLogits) -> list[int]:
        """The words that the model is given: to look at those before the last ones, too, changes nothing."""
        longest = longest_of(next_logits)
        if self.recipe.window == "the last word":
            return ids[-1:]
        if self.recipe.window == "counted from the front" and longest is not None:
            return ids[len(ids) - longest :]  # from below 0 on, of a shorter text: its last words alone
        if self.recipe.window == "all but the last" and longest is not None and len(ids) > longest:
            return ids[:-longest]
        return ids[:longest] if self.recipe.window == "the beginning" else ids


class Beam(OfRecipe):
    """The best of `beam_size` hypotheses by the sum of log-probabilities, divided by length ** penalty."""

    def forward(self, next_logits: NextLogits, bos: int, eos: int, max_len: int, beam_size: int) -> Tensor:
        first: list[Hypothesis] = [([bos], 0.0, False)]
        beams = first * beam_size if self.recipe.decoding == "beams begin alike" else first
        limit = max_len + (self.recipe.writes == "one more")
        while not self._are_done(beams, eos) and max(len(ids) for ids, _, _ in beams) < limit:
            grown = [new for beam in beams for new in self._grown(beam, next_logits, eos)]
            if not grown:
                break
            beams = sorted(grown, key=self._rank, reverse=True)[:beam_size]
        return ending(max(beams, key=self._rank)[0], bos, eos, self.recipe.ends)

    def _are_done(self, beams: list[Hypothesis], eos: int) -> bool:
        """Whether nothing is written any more; the best one is the first."""
        if self.recipe.decoding == "finished beams grow until the best ends":
            return beams[0][0][-1] == eos
        return self.recipe.decoding != "finished beams grow on" and all(done for _, _, done in beams)

    def _grown(self, beam: Hypothesis, next_logits: NextLogits, eos: int) -> list[Hypothesis]:
        ids, score, done = beam
        if done and not self.recipe.decoding.startswith("finished beams grow"):
            return [] if self.recipe.decoding == "finished beams are dropped" else [beam]
        logits = next_logits(torch.tensor([ids]))[0, -1].double()
        form = self.recipe.decoding
        gains = logits if form == "sums logits" else functional.log_softmax(logits, -1)
        gains = gains.exp() if form == "sums probabilities" else gains
        return [([*ids, token], score + gain, done or token == eos) for token, gain in enumerate(gains.tolist())]

    def _rank(self, beam: Hypothesis) -> float:
        ids, score, _ = beam
        return score / (len(ids) - 1 or 1) ** self.recipe.length_penalty
