"""Classes of NumPy's arrays: which arrays are weights, and how a backward by hand says what it found (B33)."""

import importlib.util

import numpy as np
import pytest
import torch
from torch import nn

from reference_tests.kit.learners.checked import check_text, reported, written
from scratch_transformer.kit.arrays.backward import Pass
from scratch_transformer.kit.arrays.classes import as_module
from scratch_transformer.kit.judge import by_hand
from scratch_transformer.kit.judge.running import running

MATCHES = "matches the builtin"
LINEAR = """
import numpy as np


class Linear:
    def __init__(self, d_in, d_out):
        self.W, self.b = np.random.randn(d_in, d_out), np.zeros(d_out)
        {kept}

    def forward(self, x):
        self.x = x
        return x @ self.W + self.b

    def backward(self, {given}):
        dW, db = np.einsum("bti,bto->io", self.x, grad), grad.sum((0, 1))
        dx = grad @ self.W.T
        {left}
"""
WAYS = {
    "attributes": "self.dW, self.db = dW, db; return dx",
    "of a longer name": "self.grad_W, self.b_grad = dW, db; return dx",
    "in a dictionary": 'self.grads = {"W": dW, "b": db}; return dx',
    "in a list": "self.grads = [dW, db]; return dx",
    "returned": "return dx, dW, db",
    "returned by name": 'return {"dx": dx, "dW": dW, "db": db}',
}


def linear(left, given="grad", kept="pass"):
    return LINEAR.format(left=left, given=given, kept=kept)


def names(result, severity="mistake"):
    return {one.id for one in result.mistakes if one.severity == severity}


@pytest.mark.skipif(importlib.util.find_spec("cupy") is not None, reason="CuPy is installed, and stands for itself")
@pytest.mark.parametrize("wrong", [False, True])
def test_what_is_written_with_cupy_is_numpys_where_that_is_absent(wrong, tmp_path):
    text = linear(f"self.dW, self.db = dW {'* 2' * wrong}, np.asnumpy(db); return dx").replace("numpy as", "cupy as")
    of_a_type = "np.random.standard_normal((d_in, d_out), dtype=np.float32)"  # NumPy's own takes no dtype
    result = check_text(text.replace("np.random.randn(d_in, d_out)", of_a_type), tmp_path)["Linear"]
    assert names(result) == ({"B33"} if wrong else set())
    assert (result.verdict == "matches the builtin") == (not wrong)


@pytest.mark.parametrize("left", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("wrong", [False, True])
def test_gradients_are_found_wherever_they_are_left(left, wrong, tmp_path):
    """Of the input, of the matrix and of the bias. A wrong one in a list has no name: it is not found."""
    result = check_text(linear(f"dW = dW {'* 2 ' if wrong else ''}; {left}"), tmp_path)["Linear"]
    is_named = left != WAYS["in a list"] and left != WAYS["returned"]
    assert names(result) == ({"B33"} if wrong and is_named else set())
    assert wrong or "of x, W, b." in "".join(result.notes)
    assert is_named or not wrong or "No gradient was found of W." in result.notes


@pytest.mark.parametrize("wrong", ["", " * 2"])
def test_what_learns_at_once_is_judged_by_what_it_changes(wrong, tmp_path):
    text = linear(f"self.W -= lr * dW{wrong}; self.b = self.b - lr * db; return dx", "grad, lr=0.1")
    assert names(check_text(text, tmp_path)["Linear"]) == ({"B33"} if wrong else set())


@pytest.mark.parametrize("factor", ["grad.shape[0]", "grad.shape[1]", "len(grad) * grad.shape[1]"])
def test_an_average_over_the_batch_is_a_convention(factor, tmp_path):
    result = check_text(linear(f"self.dW, self.db = dW / ({factor}), db; return dx"), tmp_path)["Linear"]
    assert names(result) == set()
    assert names(result, "note") == {"B33"}


def test_a_gradient_may_have_a_default(tmp_path):
    result = check_text(linear("return dx / len(grad)", "grad=None"), tmp_path)["Linear"]
    assert names(result) == {"B33"}


def test_gradients_may_be_summed_over_calls(tmp_path):
    kept = "self.dW, self.db = np.zeros_like(self.W), np.zeros_like(self.b)"
    result = check_text(linear("self.dW += dW; self.db += db; return dx", kept=kept), tmp_path)["Linear"]
    assert names(result) == set()
    assert "of x, W, b." in "".join(result.notes)


def test_a_gradient_that_is_clipped_is_right(tmp_path):
    result = check_text(linear("self.dW, self.db = np.clip(dW, -1, 1), db; return dx"), tmp_path)["Linear"]
    assert names(result) == set()


def test_what_nobody_can_call_is_said_and_not_judged(tmp_path):
    result = check_text(linear("return dx", "grad, wishes, hopes"), tmp_path)["Linear"]
    assert names(result) == set()
    assert "Its backward was not judged: it stops with CannotGoBack: it takes grad, wishes, hopes." in result.notes


BOXED = """
import numpy as np


class Weight:
    def __init__(self, values):
        self.{kept} = values.astype(np.float32)
        self.grad = {grad}


class Module:
    def weights(self):
        return [one for one in vars(self).values() if isinstance(one, Weight)]

    def step(self, lr):
        for weight in self.weights():
            weight.{kept} -= lr * weight.grad


class Linear(Module):
    def __init__(self, d_in, d_out):
        self.W, self.b = Weight(np.random.randn(d_in, d_out)), Weight(np.zeros(d_out))
        self.parameters = [self.W, self.b]

    def forward(self, x):
        self.x = x
        return x @ self.W.{kept} + self.b.{kept}

    def backward(self, dout):
        self.W.grad = np.einsum("bti,bto->io", self.x, dout){wrong}
        self.b.grad = dout.sum((0, 1))
        return dout @ self.W.{kept}.T


class FeedForward(Module):
    def __init__(self, d_model, d_ff):
        self.up, self.down = Linear(d_model, d_ff), Linear(d_ff, d_model)

    def forward(self, x):
        self.h = np.maximum(0, self.up.forward(x))
        return self.down.forward(self.h)

    def backward(self, dout):
        return self.up.backward(self.down.backward(dout) * (self.h > 0))
"""


@pytest.mark.parametrize("wrong", ["", " * 2"])
@pytest.mark.parametrize("kept, grad", [("data", "np.zeros_like(self.data)"), ("value", "None")])
def test_a_weight_may_be_in_an_object_with_its_gradient_beside_it(kept, grad, wrong, tmp_path):
    results = check_text(BOXED.format(kept=kept, grad=grad, wrong=wrong), tmp_path)
    assert names(results["Linear"]) == ({"B33"} if wrong else set())
    assert results["FeedForward"].verdict == ("mistake" if wrong else "matches the builtin"), results["FeedForward"]
    assert wrong or "of x, W, b." in "".join(results["Linear"].notes)


TABLE = """
import numpy as np


class Embedding:
    def __init__(self, vocab_size, d_model):
        self.rows = np.random.randn(vocab_size, d_model)
        self.grad_rows = None

    def forward(self, ids):
        self.ids = ids
        return self.rows[ids]

    def backward(self, grad):
        self.grad_rows = np.zeros_like(self.rows)
        np.add.at(self.grad_rows, self.ids, grad)


class InputEmbedding:
    def __init__(self, vocab_size, d_model):
        self.embedding, self.d_model = Embedding(vocab_size, d_model), d_model

    def forward(self, ids):
        return self.embedding.forward(ids) * np.sqrt(self.d_model)

    def backward(self, grad):
        self.embedding.backward(grad{factor})
"""


@pytest.mark.parametrize("factor, ids", [(" * np.sqrt(self.d_model)", set()), ("", {"B33"})])
def test_a_part_with_one_weight_and_its_gradient_is_a_part(factor, ids, tmp_path):
    """It computes: it is no box around its weight."""
    result = check_text(TABLE.format(factor=factor), tmp_path)["InputEmbedding"]
    assert names(result) == ids
    assert ids or "of embedding.rows." in "".join(result.notes)


def test_of_a_part_that_the_model_scales_nothing_is_said_nor_of_its_backward(tmp_path):
    report = reported(written(TABLE.format(factor=" * np.sqrt(self.d_model)"), tmp_path))
    assert {one.name: one.verdict for one in report.results} == dict.fromkeys(("Embedding", "InputEmbedding"), MATCHES)
    assert not report.ignored  # it is compared, and trains nothing


class Part:
    def __init__(self):
        self.gamma = np.ones(4, dtype=np.float32)
        self.velocity = np.zeros(4)

    def forward(self, x):
        return x * self.gamma

    def update(self):
        self.gamma -= self.velocity


class Tied:
    def __init__(self):
        self.first, self.second = Part(), Part()
        self.second.gamma = self.first.gamma

    def forward(self, x):
        return self.second.forward(self.first.forward(x))


@pytest.mark.parametrize("second, is_whole", [(2.0, True), (1.5, False)])
def test_the_gradient_of_tied_weights_may_be_kept_in_parts(second, is_whole):
    made = as_module(Tied)()
    made.made.first.dgamma, made.made.second.dgamma = np.full(4, 1.0), np.full(4, second)
    assert len([*made.parameters()]) == 1
    assert by_hand._is_in_parts(["first.gamma", "second.gamma"], np.full(4, 3.0), [Pass(made)], 3.0) == is_whole


class Whole:
    def __init__(self, dropout=0.5, num_layers=2):
        self.rate, self.num_layers, self.dropout = 1e-3, num_layers, dropout
        self.table = np.random.randn(7, 4)
        self.params = {"W": np.random.randn(4, 4).astype(np.float32), "b": np.zeros(4)}
        self.out = [self.params["W"], self.table]
        self.mask = np.tril(np.ones((7, 7)))
        self.layers = [Part() for _ in range(num_layers)]
        self.best = self.layers[0]

    def forward(self, ids):
        x = self.table[ids] @ self.params["W"] + self.params["b"] + 0 * self.mask[0, 0]
        for layer in [*self.layers, self.best]:
            x = layer.forward(x)
        return x @ self.out[1].T


def test_the_arrays_that_the_output_depends_on_are_weights():
    made = as_module(Whole)()
    assert {name for name, _ in made.named_parameters()} == {"table", "W", "b", "layers.0.gamma", "layers.1.gamma"}
    assert [name for name, _ in made.named_buffers()] == ["mask"]
    assert isinstance(made.layers, nn.ModuleList)
    assert type(made.layers[0]).__name__ == "Part"
    assert made.num_layers == 2


class InTurn:
    def __init__(self, d_model, data_type):
        self.first = [np.random.randn(d_model, d_model).astype(data_type) for _ in range(3)]
        self.last = np.random.randn(d_model, d_model)
        self.every = [*self.first, self.last]

    def forward(self, x):
        for W in self.every:
            x = x @ W
        return x @ self.first[0] @ self.last


def test_matrices_in_a_list_stay_in_their_order():
    made = as_module(InTurn)(4, torch.float64)
    assert [n for n, _ in made.named_parameters()] == [*(f"first.{n}.weight" for n in range(3)), "last.weight"]


def test_parts_that_call_each_other_unheard_count_as_called():
    made = as_module(Tied)()
    assert running(made, lambda: None) == {*made.modules()}


def test_what_is_put_into_a_parameter_is_put_into_the_array():
    made, ids = as_module(Whole)(), torch.tensor([[1, 2]])
    with torch.no_grad():
        made.get_parameter("W").copy_(torch.eye(4))
        made.get_parameter("table").fill_(2.0)
        assert made(ids).eq(16.0).all()
    assert made.made.params["W"].dtype == made.made.layers[0].gamma.dtype == np.float64


def test_dropout_takes_place_in_training_alone():
    made = as_module(Whole)()
    assert made.made.dropout == 0.0
    assert made.train().made.dropout == 0.5


def test_a_class_is_read_as_the_learners():
    cls = as_module(Whole)
    assert cls is as_module(Whole) is as_module(cls)
    assert cls.__name__ == "Whole"
    assert cls.forward is Whole.forward


class Base:
    def __call__(self, *inputs):
        return self.forward(*inputs)


class Schedule:
    def __call__(self, step):
        return np.minimum(step, 3)


@pytest.mark.parametrize("cls", [Base, Schedule, nn.Linear, torch.Tensor, ValueError])
def test_other_classes_are_left_alone(cls):
    assert as_module(cls) is cls


BLOCK = """
import numpy as np


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class Norm:
    def __init__(self, d_model):
        self.g, self.b = np.ones(d_model), np.zeros(d_model)

    def __call__(self, x):
        return self.g * (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) + self.b


class SelfAttention:
    def __init__(self, d_model, n_heads):
        self.n_heads = n_heads
        self.qkv, self.out = np.random.randn(d_model, 3 * d_model), np.random.randn(d_model, d_model)

    def __call__(self, x):
        T, C = x.shape
        q, k, v = (y.reshape(T, self.n_heads, -1).transpose(1, 0, 2) for y in np.split(x @ self.qkv, 3, -1))
        scores = q @ k.transpose(0, 2, 1) / {scale}
        weights = softmax(np.where(np.tri(T) == 0, -1e9, scores))
        return (weights @ v).transpose(1, 0, 2).reshape(T, C) @ self.out


class FeedForward:
    def __init__(self, d_model, d_ff, dropout=0.1):
        self.w1, self.b1 = np.random.randn(d_model, d_ff), np.zeros(d_ff)
        self.w2, self.b2 = np.random.randn(d_ff, d_model), np.zeros(d_model)
        self.dropout = dropout

    def __call__(self, x, training=True):
        h = np.maximum(0, x @ self.w1 + self.b1)
        if training and self.dropout:
            h = h * (np.random.rand(*h.shape) > self.dropout) / (1 - self.dropout)
        return h @ self.w2 + self.b2


class Block:
    def __init__(self, attention: SelfAttention, feed_forward: FeedForward, d_model):
        self.attention, self.feed_forward = attention, feed_forward
        self.norm1, self.norm2 = Norm(d_model), Norm(d_model)

    def __call__(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))
"""


@pytest.mark.long
@pytest.mark.parametrize("scale, ids", [("np.sqrt(q.shape[-1])", set()), ("np.sqrt(C)", {"A1"})])
def test_classes_without_a_backward_that_are_called_and_given_parts_one_sentence_at_a_time(scale, ids, tmp_path):
    results = check_text(BLOCK.format(scale=scale), tmp_path)
    assert names(results["Norm"]) == names(results["FeedForward"]) == set()
    assert results["FeedForward"].verdict == "matches the builtin"
    for name in ("SelfAttention", "Block"):
        assert results[name].verdict == ("mistake" if ids else "matches the paper, not the builtin"), results[name]
    assert names(results["SelfAttention"]) == ids
