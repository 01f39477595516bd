"""Layers, functions, optimizers and clipping over tensors of the learner's own, which keep arrays and gradients."""

import numpy as np
import pytest

from reference_tests.kit.learners.checked import check_text, reported
from scratch_transformer.kit.arrays.engines import engine_of
from scratch_transformer.kit.report.finding import FINE

pytestmark = pytest.mark.long

ENGINE = """
import numpy as np


def summed_to(grad, shape):
    grad = grad.sum(axis=tuple(range(grad.ndim - len(shape))))
    return grad.sum(axis=tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True)


class Node:
    def __init__(self, value, parents=(), back=None):
        self.value = np.asarray(value, dtype=np.float64)
        self.grad = np.zeros_like(self.value)
        self.parents, self.back = parents, back

    def __add__(self, other):
        other = other if isinstance(other, Node) else Node(other)

        def back(g):
            self.grad += summed_to(g, self.value.shape)
            other.grad += summed_to(g, other.value.shape)

        return Node(self.value + other.value, (self, other), back)

    def __mul__(self, other):
        other = other if isinstance(other, Node) else Node(other)

        def back(g):
            self.grad += summed_to(g * other.value, self.value.shape)
            other.grad += summed_to(g * self.value, other.value.shape)

        return Node(self.value * other.value, (self, other), back)

    def __pow__(self, power):
        def back(g):
            self.grad += g * power * self.value ** (power - 1)

        return Node(self.value**power, (self,), back)

    def __matmul__(self, other):
        def back(g):
            self.grad += summed_to(g @ other.value.swapaxes(-1, -2), self.value.shape)
            other.grad += summed_to(self.value.swapaxes(-1, -2) @ g, other.value.shape)

        return Node(self.value @ other.value, (self, other), back)

    def mean(self):
        def back(g):
            self.grad += g / self.value.shape[-1]

        return Node(self.value.mean(-1, keepdims=True), (self,), back)

    def heads(self, h):
        b, t, d = self.value.shape

        def back(g):
            self.grad += g.transpose(0, 2, 1, 3).reshape(b, t, d)

        return Node(self.value.reshape(b, t, h, d // h).transpose(0, 2, 1, 3), (self,), back)

    def joined(self):
        b, h, t, d = self.value.shape

        def back(g):
            self.grad += g.reshape(b, t, h, d).transpose(0, 2, 1, 3)

        return Node(self.value.transpose(0, 2, 1, 3).reshape(b, t, h * d), (self,), back)

    def turned(self):
        def back(g):
            self.grad += g.swapaxes(-1, -2)

        return Node(self.value.swapaxes(-1, -2), (self,), back)

    def backward(self):
        order, seen = [], set()

        def visit(node):
            if node not in seen:
                seen.add(node)
                for parent in node.parents:
                    visit(parent)
                order.append(node)

        visit(self)
        self.grad = np.ones_like(self.value)
        for node in reversed(order):
            if node.back is not None:
                node.back(node.grad)


def softmax(x: Node) -> Node:
    e = np.exp(x.value - x.value.max(-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)

    def back(g):
        x.grad += p * (g - (g * p).sum(-1, keepdims=True))

    return Node(p, (x,), back)


class Module:
    def forward(self, *inputs):
        raise NotImplementedError

    def __call__(self, *inputs):
        return self.forward(*inputs)


class Several(Module):
    def __init__(self, parts):
        self.parts = list(parts)

    def __iter__(self):
        return iter(self.parts)


class Linear(Module):
    def __init__(self, d_in, d_out, rng):
        self.weight, self.bias = Node(rng.normal(size=(d_in, d_out)) / d_in**0.5), Node(np.zeros(d_out))

    def forward(self, x):
        return x @ self.weight + self.bias


class LayerNorm(Module):
    def __init__(self, d_model, eps=1e-5):
        self.gain, self.shift, self.eps = Node(np.ones(d_model)), Node(np.zeros(d_model)), eps

    def forward(self, x):
        centered = x + x.mean() * -1
        variance = (centered * centered).mean(){variance}
        return centered * (variance + self.eps) ** -0.5 * self.gain + self.shift


class SelfAttention(Module):
    def __init__(self, d_model, num_heads, rng):
        assert d_model % num_heads == 0
        self.h = num_heads
        self.q, self.k, self.v, self.o = (Linear(d_model, d_model, rng) for _ in range(4))

    def forward(self, x):
        q, k, v = (f(x).heads(self.h) for f in (self.q, self.k, self.v))
        scores = q @ k.turned() * (1 / np.sqrt({width})) + np.triu(np.full(2 * (x.value.shape[1],), -np.inf), 1)
        return self.o((softmax(scores) @ v).joined())


class Block(Module):
    def __init__(self, d_model, num_heads, rng):
        self.norm, self.attention = LayerNorm(d_model), SelfAttention(d_model, num_heads, rng)
        self.norm2, self.up, self.down = LayerNorm(d_model), Linear(d_model, 64, rng), Linear(64, d_model, rng)

    def forward(self, x):
        x = x + self.attention(self.norm(x))
        h = self.up(self.norm2(x))
        return x + self.down(h * (h.value > 0))


class Embedding(Module):
    def __init__(self, vocab_size, d_model, rng):
        self.weight = Node(rng.normal(size=(vocab_size, d_model)))

    def forward(self, ids):
        def back(g):
            np.add.at(self.weight.grad, ids, g)

        return Node(self.weight.value[ids], (self.weight,), back)


class GPT(Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len, rng):
        self.tokens, self.places = Embedding(vocab_size, d_model, rng), Embedding(max_len, d_model, rng)
        self.blocks = Several(Block(d_model, num_heads, rng) for _ in range(num_layers))
        self.norm, self.head = LayerNorm(d_model), Linear(d_model, vocab_size, rng)

    def forward(self, ids, targets=None):
        x = self.tokens(ids) + self.places(np.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)), targets
"""
RIGHT = {"variance": "", "width": "q.value.shape[-1]"}


def engine(**changes):
    text = ENGINE
    for name, code in (RIGHT | changes).items():
        text = text.replace("{" + name + "}", code)
    return text


def ids(result):
    return [mistake.id for mistake in result.mistakes if mistake.severity == "mistake"]


def test_what_computes_with_tensors_of_its_own_is_judged(tmp_path):
    found = check_text(engine(), tmp_path)
    assert {name: result.verdict in FINE for name, result in found.items()} == dict.fromkeys(
        ["softmax", "Linear", "LayerNorm", "SelfAttention", "Block", "Embedding", "GPT"], True
    )


@pytest.mark.parametrize("changes, name, mistake", [
    ({"variance": " * (x.value.shape[-1] / (x.value.shape[-1] - 1))"}, "LayerNorm", "LN1"),
    ({"width": "x.value.shape[-1]"}, "SelfAttention", "A1"),
])  # fmt: skip
def test_its_mistakes_are_named(changes, name, mistake, tmp_path):
    assert ids(check_text(engine(**changes), tmp_path)[name]) == [mistake]


STEPS = """
import numpy as np


class AdamW:
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        self.params, self.lr, self.betas, self.eps, self.weight_decay = list(params), lr, betas, eps, weight_decay
        self.moments = [(np.zeros_like(p.data), np.zeros_like(p.data)) for p in self.params]
        self.count = 0

    def step(self):
        self.count += 1
        (b1, b2), t = self.betas, self.count
        for p, (m, v) in zip(self.params, self.moments):
            m[...] = b1 * m + (1 - b1) * p.grad
            v[...] = b2 * v + (1 - b2) * p.grad**2
            p.data *= 1 - self.lr * self.weight_decay
            p.data -= self.lr * m / (1 - b1**t) / (np.sqrt(v / {correction}) + self.eps)


def clip_grad_norm(params, max_norm):
    total = np.sqrt(sum(float((p.grad * p.grad).sum()) for p in params))
    if total > max_norm:
        for p in params:
            p.grad *= max_norm / total


def train(model):
    clip_grad_norm(model.parameters(), 1.0)
"""


@pytest.mark.parametrize("correction, expected", [("(1 - b2**t)", []), ("1", ["O1"])])
def test_what_takes_steps_with_arrays_is_judged(correction, expected, tmp_path):
    found = check_text(STEPS.replace("{correction}", correction), tmp_path)
    assert ids(found["AdamW"]) == expected
    assert found["clip_grad_norm"].verdict in FINE


OF_NUMBERS = """
import math


class Value:
    def __init__(self, data):
        self.data, self.grad = float(data), 0.0

    def __add__(self, other):
        return Value(self.data + other.data)

    def backward(self):
        self.grad = 1.0


class Linear:
    def __init__(self, d_in, d_out):
        self.weight = [[Value(0.0) for _ in range(d_in)] for _ in range(d_out)]

    def forward(self, x):
        return [sum((w + v for w, v in zip(row, x)), Value(0.0)) for row in self.weight]
"""


def test_tensors_of_single_numbers_are_none(tmp_path):
    path = tmp_path / "engine.py"
    path.write_text(OF_NUMBERS, encoding="utf-8")
    said = "of a tensor class of its own, in place of PyTorch's tensors or NumPy's arrays"
    assert reported(path).ignored == ["Value (a tensor class of its own)", f"Linear ({said})"]
    assert engine_of(np.ndarray) is None


WRITER = """
import numpy as np


def generate(model, ids, max_new_tokens, temperature=1.0, top_k=None):
    SEED
    for _ in range(max_new_tokens):
        logits, _ = model.forward(ids[:, -model.config.block_size :])
        scores = logits.data[:, PLACE] / temperature
        if top_k is not None:
            least = np.sort(scores, axis=-1)[:, -top_k][:, None]
            scores = np.where(scores < least, -np.inf, scores)
        e = np.exp(scores - scores.max(axis=-1, keepdims=True))
        rows = e / e.sum(axis=-1, keepdims=True)
        drawn = np.array([DRAW(rows.shape[-1], p=row) for row in rows])[:, None]
        ids = np.concatenate([ids, drawn], axis=1)
    return ids
"""
DRAWS = [("pass", "np.random.choice"), ("draws = np.random.default_rng(0)", "draws.choice")]


@pytest.mark.parametrize("place, expected", [("-1", []), ("0", ["D8"])])
@pytest.mark.parametrize("seed, draw", DRAWS, ids=["of the module", "of a generator"])
def test_what_writes_with_such_tensors_and_draws_with_numpy_is_judged(seed, draw, place, expected, tmp_path):
    text = WRITER.replace("SEED", seed).replace("DRAW", draw).replace("PLACE", place)
    result = check_text(text, tmp_path)["generate"]
    assert result.severe == expected and (expected or result.verdict in FINE)
