"""A decoder that is given one state: memory, the lengths of the memory, what every layer has kept."""

import math

import torch
import torch.nn as nn


def masked_softmax(scores, valid_lens):
    if valid_lens is None:
        return scores.softmax(-1)
    lens = valid_lens[:, None, None] if valid_lens.dim() == 1 else valid_lens[:, :, None]
    blocked = torch.arange(scores.shape[-1])[None, None] >= lens
    return scores.masked_fill(blocked[:, None], -1e6).softmax(-1)


class MultiHeadAttention(nn.Module):
    def __init__(self, num_hiddens, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(num_hiddens, num_hiddens) for _ in range(4))

    def split(self, x):
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def forward(self, queries, keys, values, valid_lens):
        q, k, v = self.split(self.W_q(queries)), self.split(self.W_k(keys)), self.split(self.W_v(values))
        weights = masked_softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), valid_lens)
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


class DecoderBlock(nn.Module):
    """The i-th layer; it hides the future in training, and is given word by word later."""

    def __init__(self, num_hiddens, ffn_num_hiddens, num_heads, i):
        super().__init__()
        self.i = i
        self.attention1, self.attention2 = (MultiHeadAttention(num_hiddens, num_heads) for _ in range(2))
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(num_hiddens) for _ in range(3))
        self.ffn = nn.Sequential(
            nn.Linear(num_hiddens, ffn_num_hiddens), nn.ReLU(), nn.Linear(ffn_num_hiddens, num_hiddens)
        )

    def forward(self, X, state):
        enc_outputs, enc_valid_lens = state[0], state[1]
        kept = X if state[2][self.i] is None else torch.cat((state[2][self.i], X), dim=1)
        state[2][self.i] = kept
        lens = None
        if self.training:
            batch, steps, _ = X.shape
            lens = torch.arange(1, steps + 1).repeat(batch, 1)
        Y = self.norm1(X + self.attention1(X, kept, kept, lens))
        Z = self.norm2(Y + self.attention2(Y, enc_outputs, enc_outputs, enc_valid_lens))
        return self.norm3(Z + self.ffn(Z)), state
