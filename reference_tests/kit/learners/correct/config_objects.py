"""Every module takes one configuration object; masks are added to the scores, 0 to attend and very low to block."""

import math

import torch
from torch import nn


class TransformerConfig:
    def __init__(
        self,
        vocab_size=30522,
        hidden_size=768,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=3072,
        hidden_act="gelu",
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
        max_position_embeddings=512,
        layer_norm_eps=1e-5,
        pad_token_id=0,
    ):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.intermediate_size = intermediate_size
        self.hidden_act = hidden_act
        self.hidden_dropout_prob = hidden_dropout_prob
        self.attention_probs_dropout_prob = attention_probs_dropout_prob
        self.max_position_embeddings = max_position_embeddings
        self.layer_norm_eps = layer_norm_eps
        self.pad_token_id = pad_token_id


ACTIVATIONS = {"relu": torch.relu, "gelu": nn.functional.gelu}


def extend_attention_mask(attention_mask, dtype=torch.float32):
    """(batch, keys) of ones and zeros -> (batch, 1, 1, keys) to be added to the scores."""
    extended = attention_mask[:, None, None, :].to(dtype)
    return (1.0 - extended) * torch.finfo(dtype).min


def make_causal_mask(length, dtype=torch.float32):
    return torch.full((length, length), torch.finfo(dtype).min, dtype=dtype).triu(1)[None, None]


class Embeddings(nn.Module):
    """Words and learned positions, then normalized."""

    def __init__(self, config):
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.register_buffer("position_ids", torch.arange(config.max_position_embeddings).unsqueeze(0))

    def forward(self, input_ids):
        length = input_ids.size(1)
        if length > self.position_ids.size(1):
            raise ValueError(f"max_position_embeddings is {self.position_ids.size(1)}, got {length} tokens")
        positions = self.position_embeddings(self.position_ids[:, :length])
        return self.dropout(self.LayerNorm(self.word_embeddings(input_ids) + positions))


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        if config.hidden_size % config.num_attention_heads != 0:
            raise ValueError(
                f"hidden_size ({config.hidden_size}) is not a multiple of the heads ({config.num_attention_heads})"
            )
        self.num_attention_heads = config.num_attention_heads
        self.attention_head_size = config.hidden_size // config.num_attention_heads
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)

    def transpose_for_scores(self, x):
        new_shape = (*x.size()[:-1], self.num_attention_heads, self.attention_head_size)
        return x.view(new_shape).permute(0, 2, 1, 3)

    def forward(self, hidden_states, attention_mask=None, encoder_hidden_states=None, output_attentions=False):
        source = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        query_layer = self.transpose_for_scores(self.query(hidden_states))
        key_layer = self.transpose_for_scores(self.key(source))
        value_layer = self.transpose_for_scores(self.value(source))
        attention_scores = torch.matmul(query_layer, key_layer.transpose(-1, -2))
        attention_scores = attention_scores / math.sqrt(self.attention_head_size)
        if attention_mask is not None:
            attention_scores = attention_scores + attention_mask
        attention_probs = nn.functional.softmax(attention_scores, dim=-1)
        context_layer = torch.matmul(self.dropout(attention_probs), value_layer)
        context_layer = context_layer.permute(0, 2, 1, 3).contiguous()
        context_layer = context_layer.view(*context_layer.size()[:-2], -1)
        output = self.dense(context_layer)
        return (output, attention_probs) if output_attentions else (output,)


class FeedForward(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.intermediate = nn.Linear(config.hidden_size, config.intermediate_size)
        self.output = nn.Linear(config.intermediate_size, config.hidden_size)
        self.act = ACTIVATIONS[config.hidden_act]
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden_states):
        return self.output(self.dropout(self.act(self.intermediate(hidden_states))))


class EncoderLayer(nn.Module):
    """Post-norm, as in the paper."""

    def __init__(self, config):
        super().__init__()
        self.attention = Attention(config)
        self.attention_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.feed_forward = FeedForward(config)
        self.output_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden_states, attention_mask=None):
        attention_output = self.attention(hidden_states, attention_mask)[0]
        hidden_states = self.attention_norm(hidden_states + self.dropout(attention_output))
        return self.output_norm(hidden_states + self.dropout(self.feed_forward(hidden_states)))


class DecoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.self_attention = Attention(config)
        self.self_attention_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.cross_attention = Attention(config)
        self.cross_attention_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.feed_forward = FeedForward(config)
        self.output_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden_states, encoder_hidden_states, attention_mask=None, encoder_attention_mask=None):
        out = self.self_attention(hidden_states, attention_mask)[0]
        hidden_states = self.self_attention_norm(hidden_states + self.dropout(out))
        out = self.cross_attention(hidden_states, encoder_attention_mask, encoder_hidden_states)[0]
        hidden_states = self.cross_attention_norm(hidden_states + self.dropout(out))
        out = self.feed_forward(hidden_states)
        return self.output_norm(hidden_states + self.dropout(out))


class Encoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.layer = nn.ModuleList([EncoderLayer(config) for _ in range(config.num_hidden_layers)])

    def forward(self, hidden_states, attention_mask=None):
        for layer_module in self.layer:
            hidden_states = layer_module(hidden_states, attention_mask)
        return hidden_states


class Decoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.layer = nn.ModuleList([DecoderLayer(config) for _ in range(config.num_hidden_layers)])

    def forward(self, hidden_states, encoder_hidden_states, attention_mask=None, encoder_attention_mask=None):
        for layer_module in self.layer:
            hidden_states = layer_module(hidden_states, encoder_hidden_states, attention_mask, encoder_attention_mask)
        return hidden_states


class LMHead(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size)

    def forward(self, hidden_states):
        return self.decoder(hidden_states)


class EncoderModel(nn.Module):
    """Token ids and a mask of ones and zeros -> hidden states."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.encoder = Encoder(config)

    def forward(self, input_ids, attention_mask=None):
        hidden_states = self.embeddings(input_ids)
        if attention_mask is not None:
            attention_mask = extend_attention_mask(attention_mask, hidden_states.dtype)
        return self.encoder(hidden_states, attention_mask)


def shift_tokens_right(input_ids, decoder_start_token_id):
    shifted = torch.roll(input_ids, 1, dims=-1)
    shifted[:, 0] = decoder_start_token_id
    return shifted


def label_smoothed_nll_loss(lm_logits, labels, epsilon=0.1, ignore_index=-100):
    """Mean over the labels that are not ignored."""
    log_probs = nn.functional.log_softmax(lm_logits, dim=-1)
    ignored = labels == ignore_index
    nll_loss = -log_probs.gather(-1, labels.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    smoothed_loss = -log_probs.mean(dim=-1)
    nll_loss = nll_loss.masked_fill(ignored, 0.0).sum()
    smoothed_loss = smoothed_loss.masked_fill(ignored, 0.0).sum()
    count = (~ignored).sum()
    return ((1.0 - epsilon) * nll_loss + epsilon * smoothed_loss) / count
