"""T13 by reading, whatever a script calls its model and its batches, and however both are handed over."""

import pytest

from scratch_transformer.kit.judge.scripts import read

MODEL = """
import torch
import torch.nn as nn
import torch.nn.functional as F


class Pair(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.body, self.fc = nn.Transformer(batch_first=True), nn.Linear(512, words)
        self.here, self.there = nn.Embedding(words, 512), nn.Embedding(words, 512)

    def forward(self, a, b):
        future = nn.Transformer.generate_square_subsequent_mask(b.size(1))
        return self.fc(self.body(self.here(a), self.there(b), tgt_mask=future))

"""
OF_A_LOOP = """
def train(m, loader):
    for a, b in loader:
        out = CALL
        LOSS.backward()


train(Pair(100), loader)
"""
OF_A_STEP = """
def step(net, a, b):
    out = CALL
    return LOSS
"""
SAME = "F.cross_entropy(out.transpose(1, 2), b)"
NAMED = "F.cross_entropy(target=b, input=out.transpose(1, 2))"
NEXT = "F.cross_entropy(out.transpose(1, 2), b[:, 1:])"
OF_THE_SOURCE = "F.cross_entropy(out.transpose(1, 2), a)"


def script(style, call, loss):
    return MODEL + style.replace("CALL", call).replace("LOSS", loss)


@pytest.mark.parametrize("loss", [SAME, NAMED])
@pytest.mark.parametrize("style, call", [
    (OF_A_LOOP, "m(a, b)"), (OF_A_LOOP, "m(a=a, b=b)"), (OF_A_LOOP, "m(b=b, a=a)"), (OF_A_STEP, "net(a, b)"),
])  # fmt: skip
def test_a_decoder_that_is_given_what_the_loss_asks_for(style, call, loss):
    (found,) = read(script(style, call, loss))
    assert found.id == "T13" and call in found.evidence


@pytest.mark.parametrize("style, call, loss", [
    (OF_A_LOOP, "m(a, b[:, :-1])", NEXT), (OF_A_LOOP, "m(b=b[:, :-1], a=a)", NEXT),
    (OF_A_STEP, "net(a, b[:, :-1])", NEXT),
    (OF_A_LOOP, "m(a, b)", OF_THE_SOURCE), (OF_A_LOOP, "other(a, b)", SAME),
])  # fmt: skip
def test_what_is_shifted_or_not_known_is_none(style, call, loss):
    assert [*read(script(style, call, loss))] == []


def test_of_two_models_none_is_meant():
    text = script(OF_A_STEP, "net(a, b)", SAME)
    other = MODEL.replace("class Pair", "class Other").partition("\n\n\n")[2]
    assert [*read(f"{text}\n{other}")] == []
