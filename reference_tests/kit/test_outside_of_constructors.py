"""Hyperparameters that a model takes from somewhere else than its constructor's parameters are set all the same."""

import argparse

import pytest
import torch
from torch import nn

from reference_tests.kit.learners.checked import check_text, reported
from scratch_transformer.kit.canonical.normalization import Norm
from scratch_transformer.kit.discover import arguments
from scratch_transformer.kit.recipe import RIGHT
from scratch_transformer.kit.report.finding import FINE
from scratch_transformer.kit.resolve.build import globals as outside
from scratch_transformer.kit.resolve.build import instance

pytestmark = pytest.mark.long

LAYER = """
import torch
from torch import nn
{imports}


class FeedForward(nn.Module):
    def __init__(self{parameters}):
        super().__init__()
        width, inner = {width}, {inner}
        self.first, self.second = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))
"""
OPTIONS = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--d_model", type=int, required=True)
parser.add_argument("--d_ff", type=int, default="2048")
args = parser.parse_args()
"""
OBJECT = "class Config:\n    D_MODEL: int = 512\n    D_FF: int = 2048\ncfg = Config()"
SOURCES = {
    "module": ("import sizes", "", "sizes.D_MODEL", "sizes.D_FF"),
    "dictionary": ('CONFIG = {"model": {"d_model": 512, "d_ff": 2048}}', "", *(
        f'CONFIG["model"]["{name}"]' for name in ("d_model", "d_ff")
    )),
    "object": (OBJECT, "", "cfg.D_MODEL", "cfg.D_FF"),
    "class": (OBJECT, "", "Config.D_MODEL", "Config.D_FF"),
    "options": (OPTIONS, "", "args.d_model", "args.d_ff"),
    "file": ("import json\nfrom pathlib import Path", "", *(
        f'json.loads(Path(__file__).with_name("sizes.json").read_text())["{name}"]' for name in ("wide", "inner")
    )),
    "unread": ("from unread import D_MODEL, D_FF", "", "D_MODEL", "D_FF"),
    "lost": ("from a_file_that_nobody_sent import cfg", "", "cfg.d_model", "cfg.d_ff"),
    "named": ("", ", **kwargs", 'kwargs["d_model"]', 'kwargs.get("d_ff", 2048)'),
}  # fmt: skip


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outside")
    (folder / "sizes.py").write_text("D_MODEL = 512\nD_FF = 2048\n", encoding="utf-8")
    (folder / "unread.py").write_text('D_MODEL = len(open("no_such_text.txt").read())\nD_FF = 2 * D_MODEL\n')
    (folder / "sizes.json").write_text('{"wide": 48, "inner": 96}', encoding="utf-8")
    for name, (imports, parameters, width, inner) in SOURCES.items():
        text = LAYER.format(imports=imports, parameters=parameters, width=width, inner=inner)
        (folder / f"of_{name}.py").write_text(text, encoding="utf-8")
    return reported(folder)


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.long
def test_the_component_has_our_sizes(reports, name):
    (found,) = [result for result in reports.results if result.where.startswith(f"of_{name}.py")]
    assert found.verdict == "matches the builtin", found


def test_only_numbers_of_settings_are_set_and_only_in_holders():
    class Config:
        d_model, dropout, name, use_bias, log_every = 512, 0.1, "small", True, 100

    table = {"d_model": 512}
    namespace = {"config": Config, "words": table, "d_model": 512}
    changed = outside.override(namespace, {"config", "words", "d_model"}, {"d_model": 12, "num_heads": 3}, set())
    assert (Config.d_model, Config.dropout) == (12, 0.0) and changed["d_model"] == namespace["d_model"] == 12
    assert (Config.name, Config.use_bias, Config.log_every) == ("small", True, 100) and table == {"d_model": 512}


def test_a_command_line_has_its_defaults():
    parser = argparse.ArgumentParser()
    parser.add_argument("path")
    parser.add_argument("--heads", type=int, default="3")
    parser.set_defaults(run=len)
    with arguments.defaults():
        made, rest = parser.parse_known_args(["--nothing", "1"])
        assert (made.path, made.heads, made.run, rest) == (None, 3, len, [])
    with pytest.raises(SystemExit):
        parser.parse_args([])


OF_THE_FILE = """
EPS = 1e-6


class Norm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = eps
        self.scale, self.shift = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        variance, mean = torch.var_mean(x, dim=-1, keepdim=True, correction=0)
        return self.scale * (x - mean) / torch.sqrt(variance + self.eps) + self.shift


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.network = nn.Sequential(nn.Linear(d_model, 24), nn.ReLU(), nn.Linear(24, d_model))
        self.norm1, self.norm2 = Norm(d_model, 1e-6), Norm(d_model, EPS)

    def forward(self, x):
        x = self.norm1(x + self.attention(x, x, x)[0])
        return self.norm2(x + self.network(x))
"""


def test_an_eps_of_the_file_is_left_as_it_is(tmp_path):
    layer = check_text(OF_THE_FILE, tmp_path)["EncoderLayer"]
    assert (layer.verdict, layer.ids) == ("harmless deviation", ["LN3"])
    assert not any("different eps" in said for said in (*layer.notes, *layer.limits))
    (named,) = layer.mistakes
    assert named.shown.strip().startswith("self.norm1, self.norm2 = Norm(d_model, 1e-6)")


class Heads(nn.Module):
    """Each head is a module of its own; width: of all of them."""

    def __init__(self, heads, width=12):
        super().__init__()
        self.heads = nn.ModuleList(
            nn.ModuleDict({name: nn.Linear(12, width // heads) for name in ("query", "key", "value")})
            for _ in range(heads)
        )
        self.proj = nn.Linear(width, 12)


@pytest.mark.parametrize("heads, width, found", [(3, 12, {}), (4, 12, {"num_heads": 4}), (3, 24, {"d_k": 8})])
def test_heads_that_are_modules_are_counted_whatever_number_was_asked_for(heads, width, found):
    """Block(n_embd, n_head=4) in a model, beside n_head = 6 at the top of the file."""
    assert instance._of_heads(Heads(heads, width), {"d_model": 12, "num_heads": 3}, is_attention=True) == found


class OneHead(nn.Module):
    """Its queries are a tensor of one matrix for each head, of which there is one."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Parameter(torch.ones(*heads, 12, 4)) for heads in ((1,), (), ()))


def test_a_tensor_of_one_head_says_nothing_of_their_number():
    assert instance._of_heads(nn.ModuleDict({"attention": OneHead()}), {"d_model": 12, "num_heads": 3}, False) == {}


@pytest.mark.parametrize("told, size", [("vocab_size", 12), ("length", 11)])
def test_beside_a_vocabulary_that_a_constructor_is_told_a_number_of_embeddings_is_a_width(told, size):
    namespace = {"NUM_EMBEDDINGS": 384}
    exec(f"class Model:\n    def __init__(self, {told}): ...", namespace)
    outside.override(namespace, {"NUM_EMBEDDINGS"}, {"d_model": 12, "num_heads": 3, "vocab_size": 11}, set())
    assert namespace["NUM_EMBEDDINGS"] == size


SIZES = """
SIZES_OF = {
    "small": dict(name="small", n_layer=12, n_embd=768, d_ff=3072),
    "large": dict(name="large", n_layer=36, n_embd=1280, d_ff=5120),
}


class FeedForward(nn.Module):
    def __init__(self, model_type):
        super().__init__()
        sizes = SIZES_OF[model_type]
        self.first, self.second = (
            nn.Linear(sizes["n_embd"], sizes["d_ff"]),
            nn.Linear(sizes["d_ff"], sizes["n_embd"]),
        )

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))
"""


def test_the_sizes_of_models_by_their_names_are_hyperparameters_whatever_they_are_called(tmp_path):
    namespace = {"SIZES_OF": {"small": {"n_layer": 12, "n_embd": 768}}, "words": {"the": {"n": 1}, "a": {"n": 2}}}
    outside.override(namespace, {"SIZES_OF", "words"}, {"d_model": 12, "num_layers": 2}, set())
    assert namespace == {"SIZES_OF": {"small": {"n_layer": 2, "n_embd": 12}}, "words": {"the": {"n": 1}, "a": {"n": 2}}}
    assert check_text(SIZES, tmp_path)["FeedForward"].verdict == "matches the builtin"


class Whole(nn.Module):
    """A learner's norm, and one that stands in for another."""

    def __init__(self, eps):
        super().__init__()
        self.given, self.own = Norm(12, 1e-5, RIGHT), nn.ModuleList()
        self.own.append(Own(eps))


class Own(nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.eps = eps


def test_a_norm_that_stands_in_has_the_learners_eps_and_no_other_is_spoken_of():
    whole = Whole(1e-6)
    assert instance.with_one_eps(whole) == ""
    assert whole.own[0].eps == 1e-6
    whole.own.append(Own(1e-7))
    assert "1e-06 and 1e-07" in instance.with_one_eps(whole)


TRANSLATOR = """
SRC_PAD, TGT_PAD, PAD = 0, 0, 0
SRC_VOCAB_SIZE, TGT_VOCAB_SIZE, D_MODEL, NUM_HEADS, NUM_LAYERS, D_FF = 9000, 9000, 512, 8, 6, 2048


class MyTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.source, self.target = nn.Embedding(SRC_VOCAB_SIZE, D_MODEL), nn.Embedding(TGT_VOCAB_SIZE, D_MODEL)
        self.transformer = nn.Transformer(D_MODEL, NUM_HEADS, NUM_LAYERS, NUM_LAYERS, D_FF, batch_first=True)
        self.head = nn.Linear(D_MODEL, TGT_VOCAB_SIZE)
        self.src_pad, self.tgt_pad = {source}, {target}

    def forward(self, src, tgt):
        future = torch.ones(tgt.shape[1], tgt.shape[1], device=tgt.device).triu(1).bool()
        source, target = src == self.src_pad, tgt == self.tgt_pad
        hidden = self.transformer(self.source(src), self.target(tgt), None, future, None, source, target, source)
        return self.head(hidden)
"""


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize(("source", "target"), [("SRC_PAD", "TGT_PAD"), ("PAD", "PAD"), ("SRC_PAD", "SRC_PAD")])
def test_two_globals_may_say_which_ids_are_padding_or_one_of_both_languages(source, target, tmp_path):
    result = check_text(TRANSLATOR.format(source=source, target=target), tmp_path)["MyTransformer"]
    assert result.kind == "Transformer" and result.verdict in FINE, result
