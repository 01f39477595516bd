"""A decoder in NumPy: weights in dictionaries, in float32; forward returns a cache, which backward is given."""

import numpy as np


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


class Layer:
    def __init__(self):
        self.params, self.grads = {}, {}

    def __call__(self, *inputs):
        return self.forward(*inputs)

    def step(self, lr=1e-3):
        for name in self.params:
            self.params[name] -= lr * self.grads[name]


class LayerNormalization(Layer):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.params["gamma"] = np.ones(d_model, dtype=np.float32)
        self.params["beta"] = np.zeros(d_model, dtype=np.float32)

    def forward(self, x):
        centered = x - np.mean(x, axis=-1, keepdims=True)
        inv_std = 1.0 / np.sqrt(np.mean(centered**2, axis=-1, keepdims=True) + self.eps)
        normed = centered * inv_std
        return self.params["gamma"] * normed + self.params["beta"], (normed, inv_std)

    def backward(self, dout, cache):
        normed, inv_std = cache
        n = dout.shape[-1]
        self.grads["gamma"] = np.sum(dout * normed, axis=(0, 1))
        self.grads["beta"] = np.sum(dout, axis=(0, 1))
        dnormed = dout * self.params["gamma"]
        shared = np.sum(dnormed, axis=-1, keepdims=True) + normed * np.sum(dnormed * normed, axis=-1, keepdims=True)
        return inv_std * (dnormed - shared / n)


class PositionwiseFeedForward(Layer):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.params = {
            "W1": (np.random.randn(d_model, d_ff) * 0.02).astype(np.float32),
            "b1": np.zeros(d_ff, dtype=np.float32),
            "W2": (np.random.randn(d_ff, d_model) * 0.02).astype(np.float32),
            "b2": np.zeros(d_model, dtype=np.float32),
        }

    def forward(self, x):
        hidden = np.maximum(0, x @ self.params["W1"] + self.params["b1"])
        return hidden @ self.params["W2"] + self.params["b2"], (x, hidden)

    def backward(self, dout, cache):
        x, hidden = cache
        dhidden = (dout @ self.params["W2"].T) * (hidden > 0)
        self.grads["W2"] = np.einsum("btf,btd->fd", hidden, dout)
        self.grads["b2"] = dout.sum((0, 1))
        self.grads["W1"] = np.einsum("btd,btf->df", x, dhidden)
        self.grads["b1"] = dhidden.sum((0, 1))
        return dhidden @ self.params["W1"].T


class MultiHeadAttention(Layer):
    def __init__(self, d_model, num_heads):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide {d_model}")
        self.num_heads = num_heads
        for name in ("Wq", "Wk", "Wv", "Wo"):
            self.params[name] = (np.random.randn(d_model, d_model) * 0.02).astype(np.float32)

    def split_heads(self, x):
        b, t, d = x.shape
        return x.reshape(b, t, self.num_heads, d // self.num_heads).transpose(0, 2, 1, 3)

    def merge_heads(self, x):
        b, h, t, d = x.shape
        return x.transpose(0, 2, 1, 3).reshape(b, t, h * d)

    def forward(self, query, key, value, mask=None):
        q = self.split_heads(query @ self.params["Wq"])
        k = self.split_heads(key @ self.params["Wk"])
        v = self.split_heads(value @ self.params["Wv"])
        scores = np.matmul(q, k.swapaxes(-1, -2)) / np.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores + (1.0 - mask) * -1e9
        weights = softmax(scores)
        context = self.merge_heads(np.matmul(weights, v))
        return context @ self.params["Wo"], (query, key, value, q, k, v, weights, context)

    def backward(self, dout, cache):
        query, key, value, q, k, v, weights, context = cache
        self.grads["Wo"] = np.einsum("bti,bto->io", context, dout)
        dcontext = self.split_heads(dout @ self.params["Wo"].T)
        dweights = np.matmul(dcontext, v.swapaxes(-1, -2))
        dscores = weights * (dweights - np.sum(dweights * weights, axis=-1, keepdims=True))
        dscores = dscores / np.sqrt(q.shape[-1])
        dq = self.merge_heads(np.matmul(dscores, k))
        dk = self.merge_heads(np.matmul(dscores.swapaxes(-1, -2), q))
        dv = self.merge_heads(np.matmul(weights.swapaxes(-1, -2), dcontext))
        self.grads["Wq"] = np.einsum("bti,bto->io", query, dq)
        self.grads["Wk"] = np.einsum("bti,bto->io", key, dk)
        self.grads["Wv"] = np.einsum("bti,bto->io", value, dv)
        return dq @ self.params["Wq"].T, dk @ self.params["Wk"].T, dv @ self.params["Wv"].T


class DecoderLayer(Layer):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = PositionwiseFeedForward(d_model, d_ff)
        self.norm1, self.norm2, self.norm3 = (LayerNormalization(d_model) for _ in range(3))

    def forward(self, x, enc_output, src_mask=None, tgt_mask=None):
        attended, self.cache1 = self.self_attention(x, x, x, tgt_mask)
        x, self.cache2 = self.norm1(x + attended)
        attended, self.cache3 = self.cross_attention(x, enc_output, enc_output, src_mask)
        x, self.cache4 = self.norm2(x + attended)
        widened, self.cache5 = self.feed_forward(x)
        x, self.cache6 = self.norm3(x + widened)
        return x

    def backward(self, dout):
        dout = self.norm3.backward(dout, self.cache6)
        dout = dout + self.feed_forward.backward(dout, self.cache5)
        dout = self.norm2.backward(dout, self.cache4)
        dq, dk, dv = self.cross_attention.backward(dout, self.cache3)
        denc = dk + dv
        dout = self.norm1.backward(dout + dq, self.cache2)
        return dout + sum(self.self_attention.backward(dout, self.cache1)), denc
