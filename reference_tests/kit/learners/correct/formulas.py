"""The transformer as plain functions on tensors: no classes, the weights are arguments."""

import math

import torch


def softmax(x, dim=-1):
    shifted = x - x.max(dim=dim, keepdim=True).values
    exps = torch.exp(shifted)
    return exps / exps.sum(dim=dim, keepdim=True)


def relu(x):
    return torch.maximum(x, torch.zeros_like(x))


def gelu(x):
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def layer_norm(x, gamma, beta, eps=1e-5):
    mu = x.mean(-1, keepdim=True)
    sigma2 = ((x - mu) ** 2).mean(-1, keepdim=True)
    return gamma * (x - mu) / torch.sqrt(sigma2 + eps) + beta


def rms_norm(x, weight, eps=1e-6):
    return weight * x / torch.sqrt((x**2).mean(-1, keepdim=True) + eps)


def linear(x, w, b):
    return x @ w + b


def embed(tokens, table):
    return table[tokens] * math.sqrt(table.shape[1])


def positional_encoding(seq_len, d_model):
    pos = torch.arange(seq_len)[:, None]
    i = torch.arange(d_model)[None, :]
    angles = pos / torch.pow(10000.0, 2 * (i // 2) / d_model)
    return torch.where(i % 2 == 0, torch.sin(angles), torch.cos(angles))


def causal_mask(n):
    return torch.tril(torch.ones(n, n, dtype=torch.bool))


def padding_mask(tokens, pad_id):
    return (tokens != pad_id)[:, None, None, :]


def scaled_dot_product_attention(q, k, v, mask=None):
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = torch.where(mask, scores, torch.tensor(-torch.inf, dtype=scores.dtype))
    weights = softmax(scores, dim=-1)
    return weights @ v, weights


def split_heads(x, num_heads):
    batch, length, depth = x.shape
    return x.reshape(batch, length, num_heads, depth // num_heads).permute(0, 2, 1, 3)


def merge_heads(x):
    batch, heads, length, depth = x.shape
    return x.permute(0, 2, 1, 3).reshape(batch, length, heads * depth)


def multi_head_attention(query, key, value, w_q, b_q, w_k, b_k, w_v, b_v, w_o, b_o, num_heads, mask=None):
    if query.shape[-1] % num_heads:
        raise ValueError(f"{num_heads} heads cannot share {query.shape[-1]} features evenly")
    q = split_heads(linear(query, w_q, b_q), num_heads)
    k = split_heads(linear(key, w_k, b_k), num_heads)
    v = split_heads(linear(value, w_v, b_v), num_heads)
    heads, _ = scaled_dot_product_attention(q, k, v, mask)
    return linear(merge_heads(heads), w_o, b_o)


def feed_forward(x, w1, b1, w2, b2):
    return linear(relu(linear(x, w1, b1)), w2, b2)


def add_and_norm(x, sublayer_output, gamma, beta):
    return layer_norm(x + sublayer_output, gamma, beta)


def cross_entropy(logits, targets, pad_id, smoothing=0.1):
    "Mean over all targets but padding."
    log_probs = logits - torch.logsumexp(logits, dim=-1, keepdim=True)
    nll = -log_probs.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    uniform = -log_probs.mean(-1)
    per_token = (1 - smoothing) * nll + smoothing * uniform
    keep = targets != pad_id
    return per_token[keep].sum() / keep.sum()


def learning_rate(step, d_model=512, warmup_steps=4000):
    return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


def greedy_search(next_logits, start_id, end_id, max_len):
    "next_logits(tokens): list of ids -> scores (vocab,) of the token after them."
    tokens = [start_id]
    while len(tokens) < max_len and tokens[-1] != end_id:
        tokens.append(int(next_logits(tokens).argmax()))
    return tokens


def beam_search(next_logits, start_id, end_id, max_len, beam_size):
    "The hypothesis with the highest sum of log-probabilities."
    beams = [([start_id], 0.0)]
    for _ in range(max_len - 1):
        candidates = []
        for tokens, score in beams:
            if tokens[-1] == end_id:
                candidates.append((tokens, score))
                continue
            log_probs = torch.log(softmax(next_logits(tokens)))
            best, ids = log_probs.topk(beam_size)
            candidates += [(tokens + [i], score + s) for s, i in zip(best.tolist(), ids.tolist())]
        beams = sorted(candidates, key=lambda c: c[1], reverse=True)[:beam_size]
        if all(tokens[-1] == end_id for tokens, _ in beams):
            break
    return beams[0][0]
