"""What constructors are given that asks for more than a number: vocabularies, bundles of parts, one width alone."""

import inspect
import itertools
import sys
import types

import pytest
import torch
from torch import nn

from reference_tests.kit.learners.checked import LESS, check_text, reported, time_to_look
from scratch_transformer.kit.definitions import parameters_of
from scratch_transformer.kit.report.finding import FINE
from scratch_transformer.kit.resolve.build import asked, construct
from scratch_transformer.kit.resolve.build.construct import annotated
from scratch_transformer.kit.resolve.build.limits import limited
from scratch_transformer.kit.resolve.build.tokenizer import Tokenizer
from scratch_transformer.kit.resolve.sorts import HANDS_ON

pytestmark = pytest.mark.long

SOURCE = """
import math
from typing import NamedTuple

import torch
from einops import rearrange
from omegaconf import OmegaConf
from torch import nn


class WordEmbedding(nn.Module):
    def __init__(self, vocab, width):
        super().__init__()
        self.table = nn.Embedding(len(vocab.itos), width, padding_idx=vocab.stoi["<pad>"])
        self.width = width

    def forward(self, x):
        return self.table(x) * math.sqrt(self.width)


class SelfAttentionHeads(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.h = n_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, y=None):
        y = x if y is None else y
        q, k, v = (
            rearrange(f(z), "b t (h d) -> b h t d", h=self.h) for f, z in ((self.q, x), (self.k, y), (self.v, y))
        )
        out = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).softmax(-1) @ v
        return self.o(rearrange(out, "b h t d -> b t (h d)"))


class Inner(nn.Module):
    def __init__(self, width, between):
        super().__init__()
        self.first, self.second = nn.Linear(width, between), nn.Linear(between, width)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


class Blocks(NamedTuple):
    attention: nn.Module
    feed_forward: nn.Module


class EncoderBlock(nn.Module):
    def __init__(self, building_blocks: Blocks, d_model):
        super().__init__()
        self.attention, self.feed_forward = building_blocks.attention, building_blocks.feed_forward
        self.norm1, self.norm2 = nn.LayerNorm(512), nn.LayerNorm(512)

    def forward(self, x):
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.feed_forward(x))


class PositionwiseFFN(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        assert d_model % 16 == 0
        self.first, self.second = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


class GatedMLP(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        width = OmegaConf.load("sizes.yaml").width
        self.first, self.second = nn.Linear(width, d_ff), nn.Linear(d_ff, width)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


def load_model(path):
    while True:
        pass


class TextField(nn.Sequential):
    def forward(self, *inputs):
        for layer in self:
            inputs = layer(*inputs)
        return inputs


class SequentialEncoder(TextField):
    def forward(self, *inputs):
        return super().forward(*inputs)
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("constructors")
    (folder / "layers.py").write_text(SOURCE, encoding="utf-8")
    return reported(folder / "layers.py")


def result(report, name):
    return next(result for result in report.results if result.name == name)


@pytest.mark.parametrize("name", ["WordEmbedding", "SelfAttentionHeads", "Inner", "EncoderBlock", "PositionwiseFFN"])
def test_is_built_and_judged(report, name):
    assert result(report, name).verdict in ("matches the builtin", "harmless deviation"), result(report, name)


def test_what_has_no_telling_name_is_known_by_what_it_is_made_of(report):
    assert result(report, "Inner").kind == "FeedForward"


def test_a_width_that_is_written_in_is_said(report):
    assert any("The size 512 is written in" in limit for limit in result(report, "EncoderBlock").limits)


def test_a_file_that_is_not_there_is_said_by_its_name(report):
    assert "GatedMLP (it needs a file or a vocabulary that is not there: sizes.yaml)" in report.ignored


def test_what_loads_a_model_and_what_only_hands_on_are_no_components(report):
    said = ("load_model (it saves or loads)", *(f"{name} ({HANDS_ON})" for name in ("TextField", "SequentialEncoder")))
    assert {*said} <= set(report.ignored)


def test_a_vocabulary_answers_as_usual():
    vocabulary = Tokenizer(1, 2, size=11)
    assert len(vocabulary) == len(vocabulary.itos) == vocabulary.vocab_size == vocabulary.get_vocab_size() == 11
    assert vocabulary.stoi["<eos>"] == vocabulary.word2idx["</s>"] == vocabulary["<eos>"] == 2
    assert vocabulary.pad_token_id == vocabulary.token_to_id("<pad>") == 0 and vocabulary[7] == 7
    assert dict(vocabulary.items())["7"] == 7 and list(vocabulary) == list(vocabulary.keys())


class Norm(nn.Module):
    def __init__(self, d_model):
        super().__init__()


def test_an_annotation_that_is_left_as_text_is_the_class_of_that_name():
    def __init__(self, size: "int", norm: "Norm", mask: "Absent", other: "nn.Module", *more, plain=None):  # noqa: F821
        nn.Module.__init__(self)

    layer = type("Layer", (nn.Module,), {"__init__": __init__, "__module__": __name__})
    found = {p.name: p.annotation for p in parameters_of(layer)}
    assert list(found.values()) == [int, Norm, "Absent", "nn.Module", inspect.Parameter.empty]
    assert annotated(layer) == [Norm]


def test_what_divides_the_width_is_no_sign_of_one_head():
    class Heads(nn.Module):
        def __init__(self, head_size, d_model):
            super().__init__()
            self.depth = d_model // head_size

    class Head(nn.Module):
        def __init__(self, head_size, d_model):
            super().__init__()
            self.key = nn.Linear(d_model, head_size)

    assert (asked.is_one_head(Heads), asked.has_heads(Heads)) == (False, True)
    assert (asked.is_one_head(Head), asked.has_heads(Head)) == (True, False)


OPEN = """
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff, scaled_layers=None, {more}):
        super().__init__()
        {first}
        self.scaled = frozenset(int(number) for number in (scaled_layers or ()))
        self.first, self.second = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.second(torch.relu(self.first(x))) * (-1) ** len(self.scaled)
"""


@pytest.mark.parametrize(
    "more, first",
    [
        ("verbose=False", "pass"),
        ("max_len=None", "assert max_len is None, 'there is no longest one'"),
    ],
    ids=["a list of layers", "a number is refused"],
)
def test_what_is_none_by_default_is_left_so_where_a_number_stops_it(more, first, tmp_path):  # fmt: skip
    (result,) = check_text(OPEN.format(more=more, first=first), tmp_path).values()
    assert result.verdict == "matches the builtin"
    text = OPEN.format(more=more, first=first).replace("len(self.scaled)", "len('a')")
    (result,) = check_text(text, tmp_path).values()
    assert result.verdict not in ("matches the builtin", "harmless deviation")


def test_a_type_by_default_was_to_be_an_annotation(tmp_path):
    text = OPEN.format(more="verbose=False", first="pass").replace("d_model, d_ff", "d_model=int, d_ff=int", 1)
    (result,) = check_text(text, tmp_path).values()
    assert result.verdict == "matches the builtin"


OWN_SIZES = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model=512, n_head=8):
        super().__init__()
        self.n_head, self.d_k = n_head, d_model // n_head
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, q, k, v, mask=None):
        q, k, v = self.w_q(q), self.w_k(k), self.w_v(v)
        q, k, v = (one.unflatten(-1, (-1, self.d_k)).transpose(1, 2) for one in (q, k, v))
        scores = q @ k.mT / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return self.w_o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, d_model=512, d_ff=2048):
        super().__init__()
        self.first, self.second = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


class EncoderLayer(nn.Module):
    def __init__(self, d_model=512):
        super().__init__()
        self.attention, self.network = MultiHeadAttention(), FeedForward()
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        x = self.norm1(x + self.attention(x, x, x, mask))
        return self.norm2(x + self.network(x))
"""


@pytest.mark.parametrize("last, is_right", [("self.network(x)", True), ("self.network(x) * 2", False)])
def test_parts_that_are_told_no_sizes_have_their_own_heads_and_ours_for_their_width(last, is_right, tmp_path):
    with time_to_look(1 if is_right else LESS):
        result = check_text(OWN_SIZES.replace("self.network(x)", last), tmp_path)["EncoderLayer"]
    assert (result.verdict in ("matches the builtin", "harmless deviation")) == is_right, result
    assert not is_right or any("The size 512 is written in" in limit for limit in result.limits)


def test_what_is_passed_on_to_a_base_is_asked_for_but_for_what_it_sets_itself(tmp_path):
    namespace: dict = {"nn": nn}
    path = tmp_path / "passed_on.py"
    path.write_text(
        "class Whole(nn.Module):\n    def __init__(self, d_model, num_layers, dropout=0.1):\n"
        "        super().__init__()\n"
        "class Fewer(Whole):\n    def __init__(self, *args, **options):\n        options['num_layers'] = 1\n"
        "        super().__init__(*args, **options)\n"
        "class Other(Whole):\n    def __init__(self, width, **options):\n        nn.Module.__init__(self)\n"
    )
    module = types.ModuleType("passed_on")
    module.__file__, module.nn = str(path), nn
    sys.modules["passed_on"] = module
    try:
        exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
        namespace |= vars(module)
        names = {one: [p.name for p in parameters_of(namespace[one])] for one in ("Whole", "Fewer", "Other")}
    finally:
        del sys.modules["passed_on"]
    assert names == {"Whole": ["d_model", "num_layers", "dropout"], "Fewer": ["d_model", "dropout"], "Other": ["width"]}


UNMADE = """
class AttentionHead(nn.Module):
    def __init__(self, d_model, d_k):
        {}
        self.q, self.k, self.v = (torch.randn(d_model, d_k) for _ in range(3))

    def forward(self, x):
        q, k, v = (x @ w for w in (self.q, self.k, self.v))
        return torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), -1) @ v


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        {}
        self.heads = [AttentionHead(d_model, d_model // num_heads) for _ in range(num_heads)]
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x):
        return self.proj(torch.cat([head(x) for head in self.heads], -1))
"""


def test_a_module_that_is_not_made_one_is_named_where_its_constructor_begins(tmp_path):
    """Also one whose constructor runs, as it has no parameters: it stops as soon as it is moved or called."""
    text = UNMADE.format("self.d_k = d_k", "self.h = num_heads")
    results = check_text(text, tmp_path)
    lines = (tmp_path / "learner.py").read_text().splitlines()
    assert {name: [m.id for m in result.mistakes] for name, result in results.items()} == {
        "AttentionHead": ["LN8", "B10", "A14"], "MultiHeadAttention": ["LN8", "A19"],
    }  # fmt: skip
    for result in results.values():
        assert "def __init__(self" in lines[result.mistakes[0].line - 1]
    assert "(self, d_model, num_heads)" in lines[results["MultiHeadAttention"].mistakes[0].line - 1]


SIZES_BY_NAME = """
def sizes(name):
    return {"gpt2-xl": (50000, 100000)}[name]


class GPT(nn.Module):
    def __init__(self, model_type="gpt2-xl"):
        super().__init__()
        width, words = sizes(model_type)
        self.small = nn.Linear(10, 10)
        self.embedding = nn.Parameter(torch.empty(words, width, device="meta"))
        print("never made")
"""


def test_what_is_too_large_stops_where_it_becomes_so(tmp_path, capsys):
    result = check_text(SIZES_BY_NAME, tmp_path)["GPT"]
    assert (result.verdict, capsys.readouterr().out) == ("could not be built", "")
    assert "OverflowError: more than 30 million parameters are too many to be checked" in result.problem


def test_shared_parameters_count_once_and_the_limit_ends_with_its_context():
    with limited(102):
        first, second = nn.Linear(9, 9), nn.Linear(3, 3)
        second.weight = first.weight
    with limited(101), pytest.raises(OverflowError, match="too many"):
        nn.Sequential(nn.Linear(9, 9), nn.Linear(3, 3))
    assert nn.Linear(20, 20).weight.numel() == 400


FEWER = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h = num_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, mask=None):
        q, k, v = (w(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for w in (self.q, self.k, self.v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = (scores if mask is None else scores.masked_fill(mask == 0, -math.inf)).softmax(-1)
        return self.o((weights @ v).transpose(1, 2).flatten(2))


class FewerHeadsAttention(MultiHeadAttention):
    def __init__(self, *args, **kwargs):
        kwargs["num_heads"] = 4
        super().__init__(*args, **kwargs)
        {}
"""


@pytest.mark.parametrize("then, is_right", [("", True), ("self.k = self.q", False)])
def test_what_a_subclass_sets_itself_is_not_asked_for(then, is_right, tmp_path):
    with time_to_look(1 if is_right else LESS):
        result = check_text(FEWER.format(then), tmp_path)["FewerHeadsAttention"]
    assert (result.verdict in FINE) == is_right


class OfADictionary(nn.Module):
    def __init__(self, word_to_idx, width):
        super().__init__()
        self.nothing = word_to_idx["<NULL>"]
        self.embedding = nn.Embedding(len(word_to_idx), width)


def test_a_dictionary_of_words_is_asked_for_words_of_its_own():
    settings = {"vocab_size": 11, "d_model": 12}
    first = next(construct.attempts(OfADictionary, settings, {}, lambda name: [], {}))
    assert (first.build().nothing, first.build().embedding.num_embeddings) == (0, 11)


class OfAShape(nn.Module):
    def __init__(self, parameter_shape):
        super().__init__()
        self.scale, self.axes = nn.Parameter(torch.ones(parameter_shape)), len(parameter_shape)


def test_a_shape_is_no_vocabulary_though_its_length_is_taken():
    attempts = construct.attempts(OfAShape, {"d_model": 12}, {}, lambda name: [], {})
    assert [attempt.args["parameter_shape"] for attempt in attempts] == [12, [12]]


class OfWidths(nn.Module):
    def __init__(self, dim_feedforward=[512, 2048, 512]):  # noqa: B006
        super().__init__()
        ends = itertools.pairwise(dim_feedforward)
        self.network = nn.Sequential(*(nn.Linear(*two) for two in ends), *[nn.ReLU()] * (len(dim_feedforward) - 2))


def test_widths_that_are_a_list_are_those_of_the_tokens_and_one_between():
    first = next(construct.attempts(OfWidths, {"d_model": 12, "d_ff": 17}, {}, lambda name: [], {}))
    assert first.args == {"dim_feedforward": [12, 17, 12]}


class OfNoMoreLayers(nn.Module):
    def __init__(self, d_model, head_layers: list[int] = []):  # noqa: B006
        super().__init__()
        ends = itertools.pairwise([d_model, *head_layers, 5])
        self.head = nn.Sequential(*(nn.Linear(*two) for two in ends))


def test_a_list_that_is_empty_by_default_is_no_number():
    first = next(construct.attempts(OfNoMoreLayers, {"d_model": 12, "num_layers": 2}, {}, lambda name: [], {}))
    assert first.args == {"d_model": 12}


class GoesThroughWhatItIsGiven(nn.Module):
    def __init__(self, width, layers=nn.ModuleList):
        super().__init__()
        self.layers = layers

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def test_a_list_of_modules_by_default_was_to_be_an_annotation():
    made = nn.ModuleList([nn.Linear(12, 12)])
    parts = {"layers": [lambda: made]}
    ways = construct.attempts(GoesThroughWhatItIsGiven, {"d_model": 12}, {}, lambda name: parts.get(name, []), {})
    assert next(ways).args["layers"] is made


class OfOneStyle(nn.Module):
    def __init__(self, width, ffn_style, act_style):
        super().__init__()
        if ffn_style.strip().lower() not in ("plain", "gated"):
            raise ValueError(ffn_style)
        self.style, self.activation = ffn_style, {"none": nn.Identity(), "relu": nn.ReLU()}[act_style.lower()]


class HandsItsStyleOn(nn.Module):
    def __init__(self, width, ffn_style, act_style):
        super().__init__()
        self.network = OfOneStyle(width, ffn_style, act_style)


@pytest.mark.parametrize("cls", [OfOneStyle, HandsItsStyleOn])
def test_a_word_in_another_spelling_is_a_word_and_no_part(cls):
    parts = {"ffn_style": [lambda: nn.Linear(12, 12)]}
    first = next(construct.attempts(cls, {"d_model": 12}, {}, lambda name: parts.get(name, []), {}))
    assert (first.args["ffn_style"], first.args["act_style"]) == ("plain", "none")
    first.build()


BY_NAME = """
def activation_by_name(name):
    return {"relu": nn.ReLU, "gelu": nn.GELU}[name.lower()]()


class FeedForward(nn.Module):
    def __init__(self, width, activation):
        super().__init__()
        self.first, self.second = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.activation = activation_by_name(activation)

    def forward(self, x):
        return self.second(self.activation(self.first(x)))


class DecoderBlock(nn.Module):
    def __init__(self, embed_dim, num_heads, activation):
        super().__init__()
        self.heads = num_heads
        self.qkv, self.proj = nn.Linear(embed_dim, 3 * embed_dim), nn.Linear(embed_dim, embed_dim)
        self.norm1, self.norm2 = nn.LayerNorm(embed_dim), nn.LayerNorm(embed_dim)
        self.network = FeedForward(embed_dim, activation)

    def attend(self, x):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        return self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + LAST
"""


@pytest.mark.parametrize("last, ids", [("self.network(self.norm2(x))", []), ("self.norm2(self.network(x))", ["B3"])])
def test_an_activation_that_is_handed_on_is_no_part(last, ids, tmp_path):
    result = check_text(BY_NAME.replace("LAST", last), tmp_path)["DecoderBlock"]
    assert result.severe == ids
    assert (result.verdict in FINE) == (not ids)


SECTIONS = """
from dataclasses import dataclass, field


@dataclass(frozen=True)
class AttentionConfig:
    d_model: int = 32
    n_heads: int = 4
    bias: bool = True


@dataclass
class ModelConfig:
    max_len: int SIZE
    attention: AttentionConfig DEFAULT
    d_ff: int = 64


class CausalSelfAttention(nn.Module):
    def __init__(self, config: AttentionConfig):
        super().__init__()
        assert config.d_model % config.n_heads == 0, "d_model must be a multiple of n_heads"
        self.h = config.n_heads
        self.qkv = nn.Linear(config.d_model, 3 * config.d_model, bias=config.bias)
        self.out = nn.Linear(config.d_model, config.d_model, bias=BIAS)

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (self.h, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, config: ModelConfig):
        super().__init__()
        width = config.attention.d_model
        self.attention, self.norm1, self.norm2 = CausalSelfAttention(config.attention), *map(nn.LayerNorm, 2 * [width])
        self.ffn = nn.Sequential(nn.Linear(width, config.d_ff), nn.GELU(), nn.Linear(config.d_ff, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.ffn(self.norm2(x))
"""


@pytest.mark.parametrize("bias, ids", [("config.bias", []), ("True", ["A15"])])
@pytest.mark.parametrize("size, default", [
    ("= 64", "= field(default_factory=AttentionConfig)"), ("= 64", "= AttentionConfig()"), ("", ""),
])  # fmt: skip
def test_what_is_told_of_a_config_is_told_of_the_configs_in_it(size, default, bias, ids, tmp_path):
    text = SECTIONS.replace("SIZE", size).replace("DEFAULT", default).replace("BIAS", bias)
    results = check_text(text, tmp_path)
    assert [found.id for found in results["CausalSelfAttention"].mistakes if found.id in ("A15", "A19")] == ids
    assert [*results["Block"].ids, *results["Block"].inherited] == ids, results["Block"]


TWO_FLAGS = """
class GPTConfig:
    def __init__(self, n_embd, n_head, bias, qkv_bias):
        self.n_embd, self.n_head, self.bias, self.qkv_bias = n_embd, n_head, bias, qkv_bias


class MultiHeadAttention(nn.Module):
    def __init__(self, config: GPTConfig):
        super().__init__()
        assert config.n_embd % config.n_head == 0
        self.h = config.n_head
        self.q, self.k, self.v = (nn.Linear(config.n_embd, config.n_embd, bias=FLAG) for _ in range(3))
        self.out = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, config: GPTConfig):
        super().__init__()
        self.attention, self.norm1, self.norm2 = MultiHeadAttention(config), *(nn.LayerNorm(config.n_embd),) * 2
        self.ffn = nn.Sequential(
            nn.Linear(config.n_embd, 48, bias=config.bias), nn.GELU(), nn.Linear(48, config.n_embd, bias=config.bias)
        )

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.ffn(self.norm2(x))


class Model(nn.Module):
    def __init__(self, config: GPTConfig):
        super().__init__()
        self.block = Block(config)
        self.head = nn.Linear(config.n_embd, 40, bias=False)
"""


@pytest.mark.parametrize("flag, ids", [("config.qkv_bias", set()), ("True", {"A15"})])
def test_a_part_may_have_a_flag_of_its_own_for_the_biases_of_its_queries(flag, ids, tmp_path):
    with time_to_look(1):
        results = check_text(TWO_FLAGS.replace("FLAG", flag), tmp_path, ["MultiHeadAttention", "Block"])
    assert {"A15"} & {*results["Block"].ids, *results["Block"].inherited} == ids, results["Block"]


def test_what_a_layer_of_torchs_is_told_is_no_value_of_a_config(tmp_path):
    with time_to_look(1):
        results = check_text(TWO_FLAGS.replace("FLAG", "config.qkv_bias"), tmp_path, ["MultiHeadAttention"])
    assert not results["MultiHeadAttention"].ids, results["MultiHeadAttention"]


REPORTS = """
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff, logger, optimizer):
        super().__init__()
        self.w1, self.w2, self.optimizer = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model), optimizer
        logger.info("made %d", d_ff)

    def forward(self, x):
        return self.w2(self.w1(x).relu())
"""


def test_what_reports_or_trains_may_do_nothing(tmp_path):
    assert check_text(REPORTS, tmp_path)["FeedForward"].verdict == "matches the builtin"


WIDTH_OF_LETTERS = """
class FeedForward(nn.Module):
    def __init__(self, d_model: str, d_ff: str, activation: str = "relu"):
        super().__init__()
        self.up, self.down, self.activation = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model), getattr(F, activation)

    def forward(self, x):
        return self.down(self.activation(self.up(x)))
"""


def test_a_size_is_a_number_whatever_its_annotation_says(tmp_path):
    assert check_text(WIDTH_OF_LETTERS, tmp_path)["FeedForward"].verdict == "matches the builtin"
