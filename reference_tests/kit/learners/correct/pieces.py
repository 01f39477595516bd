"""Settings come from one of several configs, names have their words in another order, tokens from a tokenizer."""

import torch
import torch.nn as nn
from einops import rearrange


class TrainingConfig:
    learning_rate = 3e-4
    batch_size = 64
    n_steps = 1000


class ModelConfig:
    size_of_embedding = 48
    heads_count = 4
    feed_forward_width = 96
    attention_dropout_rate = 0.1
    layer_count = 3


class MultiHeadAttention(nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.heads_count = settings.heads_count
        self.to_q = nn.Linear(settings.size_of_embedding, settings.size_of_embedding)
        self.to_k = nn.Linear(settings.size_of_embedding, settings.size_of_embedding)
        self.to_v = nn.Linear(settings.size_of_embedding, settings.size_of_embedding)
        self.to_out = nn.Linear(settings.size_of_embedding, settings.size_of_embedding)
        self.drop = nn.Dropout(settings.attention_dropout_rate)

    def forward(self, q, k, v, mask=None):
        q, k, v = self.to_q(q), self.to_k(k), self.to_v(v)
        q, k, v = (rearrange(x, "b t (h d) -> b h t d", h=self.heads_count) for x in (q, k, v))
        scores = torch.einsum("bhid,bhjd->bhij", q, k) / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        weights = self.drop(scores.softmax(dim=-1))
        return self.to_out(rearrange(weights @ v, "b h t d -> b t (h d)"))


class FeedForward(nn.Module):
    def __init__(self, embedding_size, feed_forward_width, hidden_dropout=0.0):
        super().__init__()
        self.up = nn.Linear(embedding_size, feed_forward_width)
        self.down = nn.Linear(feed_forward_width, embedding_size)
        self.drop = nn.Dropout(hidden_dropout)

    def forward(self, embeddings):
        return self.down(self.drop(torch.relu(self.up(embeddings))))


class EncoderLayer(nn.Module):
    def __init__(self, parent):
        super().__init__()
        self.attention = MultiHeadAttention(parent)
        self.feed_forward = FeedForward(parent.size_of_embedding, parent.feed_forward_width)
        self.norm_1 = nn.LayerNorm(parent.size_of_embedding)
        self.norm_2 = nn.LayerNorm(parent.size_of_embedding)

    def forward(self, x, mask=None):
        x = self.norm_1(x + self.attention(x, x, x, mask))
        return self.norm_2(x + self.feed_forward(x))


class Encoder(nn.Module):
    def __init__(self, encoder_layers):
        super().__init__()
        self.encoder_layers = encoder_layers

    def forward(self, x, mask=None):
        for layer in self.encoder_layers:
            x = layer(x, mask)
        return x


def greedy_decode(model, source, source_mask, tokenizer_src, tokenizer_tgt, max_len, device):
    first, last = tokenizer_tgt.token_to_id("[SOS]"), tokenizer_tgt.token_to_id("[EOS]")
    memory = model.encode(source, source_mask)
    ids = torch.full((1, 1), first).type_as(source).to(device)
    while ids.size(1) < max_len:
        size = ids.size(1)
        mask = (torch.triu(torch.ones(1, size, size), diagonal=1) == 0).type_as(source_mask)
        word = model.project(model.decode(memory, source_mask, ids, mask)[:, -1]).argmax(dim=1)
        ids = torch.cat([ids, word[None].type_as(ids)], dim=1)
        if word.item() == last:
            break
    return ids.squeeze(0)
