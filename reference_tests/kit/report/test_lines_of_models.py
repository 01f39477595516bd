"""The line to look at in models whose layers are torch's, or whose tables are called tok."""

import linecache

import pytest
import torch
from torch import nn

from scratch_transformer.kit.report.lines import place


class AroundTorch(nn.Module):
    def encode(self, src, padding):
        return self.transformer.encoder(self.words(src), src_key_padding_mask=padding)

    def forward(self, src, tgt, padding):
        return self.transformer(
            self.words(src),
            self.words(tgt),
            src_key_padding_mask=padding,
        )


class OfTokens(nn.Module):
    def forward(self, ids, returns_more=False):
        x = self.positions(self.tok(ids))
        if returns_more:
            return x, None
        return x


class Unscaled(nn.Module):
    def forward(self, query, key, value):
        scores = torch.matmul(
            query,
            key.transpose(-2, -1),
        )
        return torch.softmax(scores, dim=-1) @ value


@pytest.mark.parametrize("id, form, cls, text", [
    ("A1", "not scaled", Unscaled, "scores = torch.matmul("),
    ("A22", "", AroundTorch, "src_key_padding_mask=padding,"),
    ("E2", "not scaled", OfTokens, "x = self.positions(self.tok(ids))"),
])  # fmt: skip
def test_the_line_is_of_forward_and_does_what_is_meant(id, form, cls, text):
    found = place(id, form, cls)
    assert linecache.getline(found.file, found.line).strip() == text
