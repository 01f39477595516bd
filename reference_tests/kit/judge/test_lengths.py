"""What agrees on the short sequences of the probes, and not on longer ones, is not called right."""

import pytest
import torch

from reference_tests.kit.made import found
from scratch_transformer.kit.canonical import attention, embedding, stacks
from scratch_transformer.kit.recipe import RIGHT

SIZES = {"d_model": 12, "num_heads": 3}
MODEL = {**SIZES, "d_ff": 17, "num_layers": 1, "max_len": 20, "vocab_size": 11}


class Windowed(attention.CausalSelfAttention):
    """Every token sees those of a window only; or stops where there are more."""

    window = 16
    stops = False

    def __init__(self, **settings):
        super().__init__(settings, RIGHT)

    def forward(self, x):
        length = x.shape[1]
        if self.stops and length > self.window:
            raise ValueError(f"at most {self.window} tokens")
        seen = torch.ones(length, length).tril().triu(1 - self.window).bool()
        return attention.Attention.forward(self, x, x, x, seen)


class Positions(embedding.Positions):
    again = 32

    def __init__(self, **settings):
        super().__init__(settings["d_model"], settings["max_len"], RIGHT)

    def forward(self, x):
        first = super().forward(torch.zeros_like(x[:, : self.again]))
        return x + first.repeat(1, x.shape[1] // self.again + 1, 1)[:, : x.shape[1]]


class Model(stacks.DecoderOnly):
    again = 8

    def __init__(self, **settings):
        super().__init__(settings, RIGHT.with_({"positions": "learned"}))

    def embedded(self, ids):
        x = self.embed(ids)
        return x + self.pos(torch.zeros_like(x[:, : self.again])).repeat(1, 3, 1)[:, : x.shape[1]]


@pytest.mark.parametrize(
    "kind, cls, settings, changes",
    [
        ("CausalSelfAttention", Windowed, SIZES, {"window": 64}),
        ("CausalSelfAttention", Windowed, SIZES, {"stops": True}),
        ("PositionalEncoding", Positions, {"d_model": 12, "max_len": 40}, {"again": 40}),
        ("DecoderOnly", Model, MODEL, {"again": 20}),
    ],
)
def test_a_window_is_longer_than_the_probes(kind, cls, settings, changes):
    wrong = found(kind, cls, **settings)
    assert wrong.verdict == "unknown mismatch"
    assert "tokens it gives other numbers, though with few it does not" in wrong.limits[0]
    right = found(kind, type("Right", (cls,), changes), **settings)
    assert right.verdict != "unknown mismatch" and not any("with few" in limit for limit in right.limits)


class HidesPadding(stacks.TokenEncoder):
    """Its mask is made of the ids, whatever it is given."""

    def __init__(self, **settings):
        super().__init__(settings, RIGHT.with_({"positions": "learned"}))

    def forward(self, ids, mask=None):
        return super().forward(ids, (ids != 0)[:, None, None, :])


def test_padding_that_it_sees_itself_is_no_matter_of_length():
    diagnosis = found("TokenEncoder", HidesPadding, **MODEL, pad=0)
    assert not any("with few" in limit for limit in diagnosis.limits), diagnosis
