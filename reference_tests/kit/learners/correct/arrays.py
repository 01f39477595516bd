"""A GPT in NumPy: one sentence at a time, every layer a function of its input and of dictionaries of weights."""

import numpy as np


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def layer_norm(x, g, b, eps=1e-5):
    mean = np.mean(x, axis=-1, keepdims=True)
    var = np.var(x, axis=-1, keepdims=True)
    return g * (x - mean) / np.sqrt(var + eps) + b


def linear(x, w, b):
    return x @ w + b


def mlp(x, fc, proj):
    return linear(gelu(linear(x, **fc)), **proj)


def causal_mask(n, dtype=np.float64):
    "0 where a token may look, -1e10 where it may not: to be added."
    return (1 - np.tri(n, dtype=dtype)) * -1e10


def attention(q, k, v, mask):
    "All of shape (words, features of a head)."
    return softmax(q @ k.T / np.sqrt(q.shape[-1]) + mask) @ v


def multi_head_attention(x, qkv, out, n_head):
    q, k, v = np.split(linear(x, **qkv), 3, axis=-1)
    mask = causal_mask(x.shape[0], x.dtype)
    heads = [attention(*parts, mask) for parts in zip(*(np.split(y, n_head, axis=-1) for y in (q, k, v)))]
    return linear(np.concatenate(heads, axis=-1), **out)


def block(x, ln_1, attn, ln_2, ff, n_head):
    x = x + multi_head_attention(layer_norm(x, **ln_1), **attn, n_head=n_head)
    return x + mlp(layer_norm(x, **ln_2), **ff)


def gpt(ids, wte, wpe, blocks, ln_f, n_head):
    x = wte[ids] + wpe[range(len(ids))]
    for weights in blocks:
        x = block(x, **weights, n_head=n_head)
    return layer_norm(x, **ln_f) @ wte.T


def positional_encoding(max_len, d_model):
    position = np.arange(max_len)[:, np.newaxis]
    even = np.arange(0, d_model, 2)
    table = np.zeros((max_len, d_model))
    table[:, 0::2] = np.sin(position / 10000 ** (even / d_model))
    table[:, 1::2] = np.cos(position / 10000 ** (even[: d_model // 2] / d_model))
    return table


def cross_entropy(logits, targets, pad=0):
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_probs = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    picked = log_probs[np.arange(len(targets)), targets]
    real = targets != pad
    return -(picked * real).sum() / real.sum()


def learning_rate(step, d_model=512, warmup=4000):
    return d_model**-0.5 * np.minimum(step**-0.5, step * warmup**-1.5)


def generate(model, ids, n_new_tokens):
    "model(ids) gives the scores of the next word after every word."
    for _ in range(n_new_tokens):
        ids = np.append(ids, np.argmax(model(ids)[-1]))
    return ids
