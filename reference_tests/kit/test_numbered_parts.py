"""Norms that are counted from 0, heads that are attributes with numbers, and a whole that a function makes."""

import pytest
import torch
from torch import nn

from scratch_transformer.kit import check
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.resolve import guess
from scratch_transformer.kit.resolve.call import calling
from scratch_transformer.kit.resolve.weights.pairing import match
from scratch_transformer.kit.resolve.weights.units import Unit


def norms(*paths):
    return [Unit("norm", path, ["weight", "bias"], (12,)) for path in paths]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
@pytest.mark.parametrize("first", [0, 1])
def test_the_number_of_a_norm_is_its_place_whether_it_is_counted_from_0_or_1(first, order):
    theirs = norms(*(f"layer_norm{number + first}" for number in order))
    pairs = match(norms("norm1", "norm2", "norm3"), theirs)
    assert [pairs[place].path for place in range(3)] == [f"layer_norm{place + first}" for place in range(3)]


class WideHead(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.to_q, self.to_k, self.to_v = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x):
        scores = self.to_q(x) @ self.to_k(x).mT / x.shape[-1] ** 0.5
        return torch.softmax(scores, dim=-1) @ self.to_v(x)


class UnscaledHead(WideHead):
    def forward(self, x):
        return torch.softmax(self.to_q(x) @ self.to_k(x).mT, dim=-1) @ self.to_v(x)


class SelfAttention(nn.Module):
    of_one = WideHead

    def __init__(self, width):
        super().__init__()
        self.head1, self.head2, self.head3, self.head4 = (self.of_one(width) for _ in range(4))
        self.out = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.out(torch.cat([self.head1(x), self.head2(x), self.head3(x), self.head4(x)], dim=-1))


class UnscaledAttention(SelfAttention):
    of_one = UnscaledHead


@pytest.mark.parametrize("cls, ids", [(SelfAttention, []), (UnscaledAttention, ["A1"])])
def test_heads_that_are_attributes_are_counted_by_their_numbers(cls, ids):
    result = check(cls, kind="SelfAttention")
    assert (result.verdict, result.ids) == ("mistake" if ids else "matches the builtin", ids)


class Transformer(nn.Module):
    def __init__(self, encoder, decoder):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def forward(self, src, tgt, src_mask, tgt_mask):
        return self.decoder(tgt, self.encoder(src, src_mask), src_mask, tgt_mask)


def transformer_block(d_model, heads, d_ff, vocab_size, max_len, n):
    encoder = nn.Linear(d_model, d_ff)
    model = Transformer(encoder, nn.Linear(d_ff, vocab_size))
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    return model


def transformer_layer(d_model, heads, d_ff):
    return nn.TransformerEncoderLayer(d_model, heads, d_ff)


def test_a_function_is_what_it_makes_whatever_it_is_called():
    assert guess.kinds_of("transformer_block", transformer_block, KINDS)[0] == "Transformer"
    assert "Transformer" not in guess.kinds_of("transformer_layer", transformer_layer, KINDS)[:1]


def test_the_only_parameter_of_a_language_model_takes_its_ids():
    def forward(self, context): ...

    plans = calling.plans(forward, ("ids",), KINDS["DecoderOnly"].defaults)
    assert next(iter(plans)).arguments == {"context": "ids"}
