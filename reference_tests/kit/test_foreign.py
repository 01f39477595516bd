"""What has the name of a part of a Transformer and is none is said to be so, in one line."""

import ast
import itertools
import linecache

import pytest
import torch
from torch import nn

from reference_tests.kit.learners.checked import reported
from scratch_transformer.kit.resolve import foreign

SOURCE = """
import abc
import a_package_nobody_has
import torch
from flax import linen
from torch import nn


class TransformerEncoderLayer(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.norm = nn.LayerNorm(d_model)


from torch.nn import TransformerEncoderLayer


class Encoder(nn.Module):
    def __init__(self, input_dim, emb_dim, hid_dim):
        super().__init__()
        self.embedding = nn.Embedding(input_dim, emb_dim)
        self.rnn = nn.LSTM(emb_dim, hid_dim)

    def forward(self, src):
        return self.rnn(self.embedding(src))[0]


class Seq2Seq(nn.Module):
    def __init__(self, encoder, decoder):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def forward(self, src, trg):
        return self.decoder(trg, self.encoder(src))


class Seq2SeqTransformer(nn.Module):
    def __init__(self, reader: Encoder, d_model):
        super().__init__()
        self.reader, self.out = reader, nn.Linear(d_model, d_model)

    def forward(self, src, tgt):
        return self.out(self.reader(src) + tgt)


class TransformerModel(nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.reader, self.out = Encoder.of(vocab_size, d_model), nn.Linear(d_model, vocab_size)

    def forward(self, src, tgt):
        return self.out(self.reader(src) + tgt)


class Decoder(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.conv = nn.Conv1d(d_model, d_model, 3)

    def forward(self, x, memory):
        return self.conv(x)


class Transformer(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.d_model = d_model


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.w = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        raise NotImplementedError("your code")


def transformer(self, x):
    return x


def attention(query, key, value):
    print(query.shape)


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.w_1 = nn.Conv1d(d_model, d_ff, kernel_size=1)
        self.w_2 = nn.Conv1d(d_ff, d_model, kernel_size=1)

    def forward(self, x):
        return self.w_2(torch.relu(self.w_1(x.transpose(1, 2)))).transpose(1, 2)


class RewardMLP(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.w_1, self.w_2, self.w_3 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.w_3(torch.tanh(self.w_2(torch.tanh(self.w_1(x)))))


class SimpleMLP(nn.Module):
    def __init__(self, hidden_dim):
        super().__init__()
        self.one, self.two = nn.Linear(28 * 28, hidden_dim), nn.Linear(hidden_dim, 10)

    def forward(self, x):
        return self.two(torch.relu(self.one(x)))


class BigramLanguageModel(nn.Module):
    def __init__(self, vocab_size):
        super().__init__()
        self.table = nn.Embedding(vocab_size, vocab_size)

    def forward(self, idx):
        return self.table(idx)

    def generate(self, idx, count):
        for _ in range(count):
            idx = torch.cat((idx, torch.multinomial(torch.softmax(self(idx)[:, -1], -1), 1)), 1)
        return idx


class SentenceEmbedding(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.table = torch.load("sentences.pt")

    def forward(self, ids):
        return self.table[ids]


class InputEmbedding(nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.table = a_package_nobody_has.Table(vocab_size, d_model)

    def forward(self, ids):
        return self.table(ids)


class LayerNorm(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x):
        mean, std = x[..., :].mean(-1), ...
        x = ...  # the rest is left to the reader
        return x * self.weight


class DummyBlock(nn.Module):
    def __init__(self, config):
        super().__init__()

    def forward(self, x):
        return x


class DummyGPT(nn.Module):
    def __init__(self, vocab_size, d_model, n_layers):
        super().__init__()
        self.embedding, self.head = nn.Embedding(vocab_size, d_model), nn.Linear(d_model, vocab_size)
        self.blocks = nn.Sequential(*(DummyBlock(None) for _ in range(n_layers)))

    def forward(self, ids):
        return self.head(self.blocks(self.embedding(ids)))


class Neuron:
    def __init__(self, inputs):
        self.weights = [0.5 for _ in range(inputs)]

    def __call__(self, x):
        return sum(w * value for w, value in zip(self.weights, x))


class Layer:
    def __init__(self, inputs, outputs):
        self.neurons = [Neuron(inputs) for _ in range(outputs)]

    def __call__(self, x):
        return [neuron(x) for neuron in self.neurons]


class NeuralMLP:
    def __init__(self, vocab_size, emb_dim, hidden):
        self.C, self.W = torch.randn(vocab_size, emb_dim), torch.randn(3 * emb_dim, hidden)

    def __call__(self, X):
        return torch.tanh(self.C[X].flatten(1) @ self.W)


class TransformerBlock(linen.Module):
    width: int

    def __call__(self, x):
        return linen.Dense(self.width)(linen.relu(linen.Dense(4 * self.width)(x)))


class MLP(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.w_1, self.w_2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        initialized = (nn.Linear, Decoder)
        assert all(isinstance(part, initialized) and not isinstance(part, Decoder) for part in self.children())

    def forward(self, x):
        return self.w_2(torch.relu(self.w_1(x)))


class PositionEmbedding(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.row_embed, self.col_embed = nn.Embedding(50, width), nn.Embedding(50, width)

    def forward(self, x):
        h, w = x.shape[-2:]
        rows, columns = self.row_embed(torch.arange(h)), self.col_embed(torch.arange(w))
        return torch.cat([columns[None].expand(h, -1, -1), rows[:, None].expand(-1, w, -1)], -1).permute(2, 0, 1)[None]
"""


OF_TEXTS = """
class Classifier(nn.Module):
    def __init__(self, vocab_size, d_model, length, classes):
        super().__init__()
        self.words = nn.Embedding(vocab_size, d_model)
        self.attention = nn.MultiheadAttention(d_model, 2, batch_first=True)
        self.end = nn.Sequential(nn.Flatten(), nn.Linear(length * d_model, classes))

    def forward(self, ids):
        x = self.words(ids)
        return self.end(self.attention(x, x, x)[0])
"""


@pytest.mark.long
def test_what_embeds_words_and_flattens_is_not_of_images(tmp_path):
    path = tmp_path / "classifier.py"
    path.write_text("from torch import nn\n" + OF_TEXTS, encoding="utf-8")
    report = reported(path)
    assert not any("images" in said for said in report.ignored), report.ignored


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    path = tmp_path_factory.mktemp("foreign") / "models.py"
    path.write_text(SOURCE, encoding="utf-8")
    return reported(path)


@pytest.mark.parametrize(
    "said",
    [
        "Encoder (recurrent: nn.LSTM)",
        "Seq2Seq (made of Encoder, which is recurrent)",
        "Seq2SeqTransformer (made of Encoder, which is recurrent)",
        "TransformerModel (made of Encoder, which is recurrent)",
        "Decoder (convolutional: Conv1d)",
        "Transformer (abstract: it has no forward)",
        "MultiHeadAttention (not written yet)",
        "LayerNorm (not written yet)",
        "DummyBlock (not written yet)",
        "DummyGPT (not written yet: DummyBlock)",
        "transformer (a method, outside its class)",
        "attention (it returns nothing)",
        "SimpleMLP (of images: 28 * 28 pixels)",
        "Layer (made of single neurons)",
        "TransformerEncoderLayer (an import of the same name has taken its place)",
        "NeuralMLP (it embeds words: a language model of another sort)",
        "BigramLanguageModel (it attends to nothing)",
        "SentenceEmbedding (it needs a file or a vocabulary that is not there: sentences.pt)",
        "InputEmbedding (it needs a_package_nobody_has, which is not installed)",
        "TransformerBlock (it needs flax, which is not installed)",
        f"PositionEmbedding (of images: {ast.unparse(ast.parse('h, w = x.shape[-2:]'))})",  # as this Python writes it
    ],
)
def test_it_is_said_why_something_is_no_component(report, said):
    assert said in report.ignored


def test_a_network_of_another_form_is_none_of_its_parts(report):
    assert any(name.startswith("RewardMLP (") for name in report.ignored), report.ignored


def test_what_is_one_is_still_checked(report):
    assert [(result.name, result.verdict) for result in report.results] == [
        ("FeedForward", "matches the builtin"),
        ("MLP", "matches the builtin"),  # it makes no Decoder, it only asks whether something is one
        ("BigramLanguageModel.generate", "matches the builtin"),  # the model is none, what it writes may be judged
    ]


def test_a_test_and_a_function_of_nothing_are_no_components():
    namespace: dict = {}
    functions = (
        "test_encoder(x):\n    return x", "attention():\n    return None", "softmax(x):\n    return x.exp()",
        "non_pad_mask(ids):\n    return ids.ne(0).float().unsqueeze(-1)", "get_nonpad_mask(ids):\n    return ids.ne(0)",
    )  # fmt: skip
    text = "".join(f"def {function}\n\n\n" for function in functions)
    path = "functions_of_nothing.py"
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    exec(compile(text, path, "exec"), namespace)
    names = ("test_encoder", "attention", "softmax", "get_nonpad_mask")
    assert [foreign.why_not(namespace[name]) for name in names] == ["a test", "it takes nothing", "", ""]
    assert "no scores" in foreign.why_not(namespace["non_pad_mask"])


def benchmark_model(model, steps=5):
    return [model([[1, 2]]) for _ in range(steps)]


def test_what_measures_a_model_is_none():
    assert foreign.why_not(benchmark_model) == "a test"


def build_gpt(model_class, seed=0, **sizes):
    model = model_class(**sizes)
    model.reset(seed)
    return model


def attend(attention, q, k, v, **options):
    out = attention(q, k, v, **options)
    return out


def test_what_makes_anything_of_a_class_that_it_is_given_is_none():
    assert foreign.why_not(build_gpt) == "it makes what it is given the class of"
    assert foreign.why_not(attend) == ""


OWN_TENSORS = """
import numpy as np


class Value:
    def __init__(self, data):
        self.data = np.asarray(data)

    def __add__(self, other):
        return Value(self.data + other.data)

    def backward(self):
        self.grad = np.ones_like(self.data)


class Linear:
    def __init__(self, d_in, d_out):
        self.W = Value(np.random.randn(d_in, d_out))

    def forward(self, x):
        return Value(x.data @ self.W.data)


def cross_entropy(logits: Value, target: Value) -> Value:
    rows = np.log(np.exp(logits.data).sum(-1)) - logits.data[np.arange(len(target.data)), target.data]
    return Value(rows.mean())


def log_back(passed, x):
    return passed / x


def softmax(scores):
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)
"""


@pytest.mark.long
def test_what_computes_with_tensors_of_its_own_is_not_judged(tmp_path):
    path = tmp_path / "own_tensors.py"
    path.write_text(OWN_TENSORS, encoding="utf-8")
    report = reported(path)
    said = "of a tensor class of its own, in place of PyTorch's tensors or NumPy's arrays"
    assert report.ignored == [
        "Value (a tensor class of its own)",
        *(f"{one} ({said})" for one in ("Linear", "cross_entropy")),
        "log_back (neither its name nor its code is a known part's)",
    ]
    assert [(one.name, one.verdict) for one in report.results] == [("softmax", "matches the builtin")]


def generate(length=100, temperature=1.0):
    return [temperature] * length


def sample(model, num_tokens=100):
    return [model] * num_tokens


def test_what_is_only_told_how_much_to_write_is_given_nothing_to_write_with():
    assert foreign.writes_alone(generate, "GreedyDecoding") == "it is given no model and no words"
    assert foreign.writes_alone(sample, "GreedyDecoding") == foreign.writes_alone(generate, "CausalMask") == ""


class MyModel:
    from_pretrained = staticmethod(list)


def answer(name, prompt, max_new_tokens=20):
    from elsewhere import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(name).generate(prompt, max_new_tokens=max_new_tokens)


def answer_by_ones_own(name, prompt, max_new_tokens=20):
    return MyModel.from_pretrained(name).generate(prompt, max_new_tokens=max_new_tokens)


def test_what_loads_the_model_of_another_library_writes_with_that():
    said = foreign.loads_its_model(answer, "GreedyDecoding")
    assert said == "it writes with another library's model: AutoModelForCausalLM"
    assert (
        foreign.loads_its_model(answer_by_ones_own, "GreedyDecoding") == foreign.loads_its_model(answer, "Loss") == ""
    )


class OfPointwiseConvolutions(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.wide, self.narrow = (nn.Parameter(torch.randn(n, m)) for n, m in ((d_ff, d_model), (d_model, d_ff)))

    def forward(self, x):
        inner = torch.nn.functional.conv1d(x.mT, self.wide.unsqueeze(-1)).relu()
        return torch.nn.functional.conv1d(inner, self.narrow[..., None]).mT


class OfConvolutions(OfPointwiseConvolutions):
    def forward(self, x):
        return torch.nn.functional.conv1d(x.mT, self.wide.unflatten(0, (-1, 3)).mT, padding=1).mT


def test_a_matrix_with_one_more_axis_is_no_kernel_of_several_places():
    assert foreign.why_not(OfPointwiseConvolutions) == ""
    assert foreign.why_not(OfConvolutions) == "convolutional: conv1d"


class StandInDecoder(nn.Module):
    def forward(self, tgt, memory, tgt_mask=None):
        """The memory, as it came."""
        return memory


class MLP(nn.Module):
    def __init__(self, *sizes):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(*two) for two in itertools.pairwise(sizes))

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        return self.layers[-1](x)


def count_bytes(path, size: torch.LongTensor):
    return torch.load(path)[size]


def test_what_gives_something_back_and_what_has_any_number_of_layers_is_none():
    assert foreign.why_not(StandInDecoder) == "it gives back its memory as it is"
    assert foreign.why_not(MLP) == "a network of any number of layers"


def test_a_tensor_type_of_torch_is_no_tensor_of_the_learners():
    assert foreign.of_own_tensors(count_bytes) == ""


def norm(config):
    return nn.RMSNorm(config["width"]) if config["without_mean"] else nn.LayerNorm(config["width"])


def make_norm(config):
    if config["without_mean"]:
        made = nn.RMSNorm(config["width"])
    else:
        return nn.LayerNorm(config["width"])
    return made


def layer_norm(config):
    return nn.LayerNorm(config["width"]) if config["is_last"] else nn.LayerNorm(config["width"], bias=False)


def test_what_makes_a_module_of_one_of_several_classes_is_none_of_them():
    assert foreign.why_not(norm) == "it chooses between RMSNorm and LayerNorm"
    assert sorted(foreign.why_not(make_norm).split()[-3::2]) == ["LayerNorm", "RMSNorm"]
    assert foreign.why_not(layer_norm) == ""
