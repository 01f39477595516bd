"""An encoder in NumPy: classes that keep what their backward needs, and leave gradients as attributes."""

import numpy as np


class Softmax:
    def forward(self, x):
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        self.p = e / e.sum(axis=-1, keepdims=True)
        return self.p

    def backward(self, grad):
        return self.p * (grad - (grad * self.p).sum(axis=-1, keepdims=True))


class LayerNorm:
    def __init__(self, d_model, eps=1e-5):
        self.gamma, self.beta, self.eps = np.ones(d_model), np.zeros(d_model), eps

    def forward(self, x):
        self.mean = x.mean(axis=-1, keepdims=True)
        self.std = np.sqrt(x.var(axis=-1, keepdims=True) + self.eps)
        self.x_hat = (x - self.mean) / self.std
        return self.gamma * self.x_hat + self.beta

    def backward(self, grad):
        self.dgamma = (grad * self.x_hat).sum(axis=(0, 1))
        self.dbeta = grad.sum(axis=(0, 1))
        g = grad * self.gamma
        mean_g = g.mean(axis=-1, keepdims=True)
        mean_gx = (g * self.x_hat).mean(axis=-1, keepdims=True)
        return (g - mean_g - self.x_hat * mean_gx) / self.std


class Linear:
    def __init__(self, d_in, d_out):
        self.W = np.random.randn(d_in, d_out) / np.sqrt(d_in)
        self.b = np.zeros(d_out)
        self.dW, self.db = np.zeros_like(self.W), np.zeros_like(self.b)

    def forward(self, x):
        self.x = x
        return x @ self.W + self.b

    def backward(self, grad):
        self.dW = np.tensordot(self.x, grad, axes=((0, 1), (0, 1)))
        self.db = grad.sum(axis=(0, 1))
        return grad @ self.W.T

    def update(self, lr):
        self.W -= lr * self.dW
        self.b -= lr * self.db


class ReLU:
    def forward(self, x):
        self.keep = x > 0
        return x * self.keep

    def backward(self, grad):
        return grad * self.keep


class FeedForward:
    def __init__(self, d_model, d_ff):
        self.layers = [Linear(d_model, d_ff), ReLU(), Linear(d_ff, d_model)]

    def forward(self, x):
        for layer in self.layers:
            x = layer.forward(x)
        return x

    def backward(self, grad):
        for layer in reversed(self.layers):
            grad = layer.backward(grad)
        return grad


class MultiHeadAttention:
    def __init__(self, d_model, num_heads):
        assert d_model % num_heads == 0
        self.num_heads, self.d_k = num_heads, d_model // num_heads
        self.w_q, self.w_k = Linear(d_model, d_model), Linear(d_model, d_model)
        self.w_v, self.w_o = Linear(d_model, d_model), Linear(d_model, d_model)
        self.softmax = Softmax()

    def split(self, x):
        batch, length, _ = x.shape
        return x.reshape(batch, length, self.num_heads, self.d_k).transpose(0, 2, 1, 3)

    def merge(self, x):
        batch, _, length, _ = x.shape
        return x.transpose(0, 2, 1, 3).reshape(batch, length, self.num_heads * self.d_k)

    def forward(self, x, mask=None):
        self.q = self.split(self.w_q.forward(x))
        self.k = self.split(self.w_k.forward(x))
        self.v = self.split(self.w_v.forward(x))
        scores = self.q @ self.k.transpose(0, 1, 3, 2) / np.sqrt(self.d_k)
        if mask is not None:
            scores = np.where(mask == 0, -1e9, scores)
        self.p = self.softmax.forward(scores)
        return self.w_o.forward(self.merge(self.p @ self.v))

    def backward(self, grad):
        grad = self.split(self.w_o.backward(grad))
        dv = self.p.transpose(0, 1, 3, 2) @ grad
        ds = self.softmax.backward(grad @ self.v.transpose(0, 1, 3, 2)) / np.sqrt(self.d_k)
        dq, dk = ds @ self.k, ds.transpose(0, 1, 3, 2) @ self.q
        dx = self.w_q.backward(self.merge(dq))
        dx = dx + self.w_k.backward(self.merge(dk))
        return dx + self.w_v.backward(self.merge(dv))


class PositionalEncoding:
    def __init__(self, d_model, max_len=50):
        position, even = np.arange(max_len)[:, None], np.arange(0, d_model, 2)
        angles = position / 10000 ** (even / d_model)
        self.pe = np.zeros((max_len, d_model))
        self.pe[:, 0::2], self.pe[:, 1::2] = np.sin(angles), np.cos(angles)

    def forward(self, x):
        return x + self.pe[: x.shape[1]]

    def backward(self, grad):
        return grad


class EncoderLayer:
    def __init__(self, d_model, num_heads, d_ff):
        self.attention, self.ffn = MultiHeadAttention(d_model, num_heads), FeedForward(d_model, d_ff)
        self.norm1, self.norm2 = LayerNorm(d_model), LayerNorm(d_model)

    def forward(self, x, mask=None):
        x = self.norm1.forward(x + self.attention.forward(x, mask))
        return self.norm2.forward(x + self.ffn.forward(x))

    def backward(self, grad):
        grad = self.norm2.backward(grad)
        grad = self.norm1.backward(grad + self.ffn.backward(grad))
        return grad + self.attention.backward(grad)


class Encoder:
    def __init__(self, d_model, num_heads, d_ff, num_layers):
        self.layers = [EncoderLayer(d_model, num_heads, d_ff) for _ in range(num_layers)]

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer.forward(x, mask)
        return x

    def backward(self, grad):
        for layer in reversed(self.layers):
            grad = layer.backward(grad)
        return grad
