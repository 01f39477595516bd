"""B26: what nothing defines or fits is named as the mistake, and what may be defined elsewhere is none."""

import argparse
import contextlib
import linecache
import sys
import warnings
from types import SimpleNamespace

import pytest
import torch

from reference_tests.kit.learners.checked import IMPORTS, WORDS, check_text, reported
from scratch_transformer.kit.discover import load
from scratch_transformer.kit.discover.target import find
from scratch_transformer.kit.judge.stops import undefined
from scratch_transformer.kit.judge.stops.crashes import crash_finding, first_finding
from scratch_transformer.kit.resolve.build import globals
from scratch_transformer.kit.resolve.call.plan import CannotCall
from scratch_transformer.kit.resolve.call.precision import double

pytestmark = pytest.mark.long

LEARNERS = """
import torch
from torch import nn
from a_package_nobody_has import Base


class Misspelt(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden_dim = 4

    def forward(self, x):
        return x * self.hiddne_dim


class SetFromOutside(nn.Module):
    def forward(self, x):
        return x * self.scale


class SetTogether(nn.Module):
    def keep(self, k, v):
        self.kept_k, self.kept_v = k, v

    def forward(self, x):
        return x * self.kept_v


class OfAnotherBase(Base, nn.Module):
    def forward(self, x):
        return x * self.hparams


class Unknown(nn.Module):
    def forward(self, x):
        return x * mth.pi


class Config:
    pass


class NormOfNothing(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(eps=1e-9)


def scaled(x, factor):
    return x * factor


class Unscaled(nn.Module):
    def forward(self, x):
        return scaled(x)


class Scaled(nn.Module):
    def forward(self, x):
        return scaled(*[x])


class GivenAFunction(nn.Module):
    def forward(self, x, scaled=lambda: 0):
        return scaled(x)


class OfAConfig(nn.Module):
    def forward(self, x):
        return x * Config().scale


def prepare(model):
    model.scale = 2


class TellsItsDropout(nn.Module):
    def __init__(self):
        super().__init__()
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        return self.dropout(x, training=True)


class IsGivenItsPart(nn.Module):
    def __init__(self, part=None):
        super().__init__()
        self.part = part or nn.Dropout(0.1)

    def forward(self, x):
        return self.part(x, training=True)


class ListOfOne(nn.Module):
    def __init__(self, size=4):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(size, size))


class ListInARow(nn.Module):
    def __init__(self, size=4):
        super().__init__()
        self.layers = nn.Sequential([nn.Linear(size, size), nn.ReLU()])


class ModuleOfAList(nn.Module):
    def __init__(self, size=4):
        super().__init__()
        self.layers = nn.Module([nn.Linear(size, size), nn.ReLU()])


class ListOfWhatItIsGiven(nn.Module):
    def __init__(self, layer=nn.ReLU()):
        super().__init__()
        self.layers = nn.ModuleList(layer)


class NormAsABuffer(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("norm", nn.LayerNorm(4))


class SetsItsDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.decoder = nn.ReLU()


class SetByAnotherClass(nn.Module):
    def forward(self, x):
        return self.decoder(x)


class Gated(nn.Module):
    def forward(self, x):
        return self.gate(x)


class GatedByAChild(Gated):
    def __init__(self):
        super().__init__()
        self.gate = nn.ReLU()


class WithoutSelf(nn.Module):
    def later(length):
        return torch.ones(length)

    def forward(self, x):
        return x + self.later(len(x))


class Residual(nn.Module):
    def forward(self, x, sublayer):
        return x + sublayer(x)


class WithoutLambda(nn.Module):
    def __init__(self):
        super().__init__()
        self.residual, self.attention = Residual(), nn.Linear(2, 2)

    def forward(self, x):
        return self.residual(x, self.attention(x))


class GivesWhatItWasGiven(WithoutLambda):
    def forward(self, x):
        return self.residual(x, x)


class CallsAProperty(nn.Module):
    def forward(self, x):
        return x + torch.ones(2).requires_grad(False)


class CallsANumber(nn.Module):
    def forward(self, x):
        return (2 / 3) ** 0.5(x)


class CallsItsProbability(nn.Module):
    def __init__(self, dropout=0.1):
        super().__init__()
        self.dropout = dropout

    def forward(self, x):
        return self.dropout(x)


class CallsWhatItIsGiven(nn.Module):
    def __init__(self, dropout=None):
        super().__init__()
        self.dropout = dropout or 0.5

    def forward(self, x):
        return self.dropout(x)


class Uncalled(nn.Module):
    def forward(self, x):
        return x.view(x.size[0])


class OfNoTorch(nn.Module):
    def forward(self, x):
        return torch.soft_max(x, -1)


class OfNoTensor(nn.Module):
    def forward(self, x):
        return (x * 2).soft_max(-1)


class OfNoScores(nn.Module):
    def forward(self, x):
        scores = torch.outer(x, x) / 2
        scores = scores.masked_full(x > 2, 0.0)
        return scores.softmax(-1)


class OfWhatAModelGives(nn.Module):
    def forward(self, x, model=torch.relu):
        outputs = model(x)
        return outputs.logits


class OfTwoResults(nn.Module):
    def forward(self, x, made=(1, 2)):
        scores = torch.relu(x)
        _, scores = made[0], x
        return scores.logits


class OfItsTable(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("pe", torch.ones(3, 2))

    def forward(self, x):
        return x + self.pe[: len(x)].require_grad_(False)


class OfATableByThirdHands(nn.Module):
    table = torch.ones(3, 2)

    def forward(self, x):
        return x + self.table[: len(x)].angles


class AsksWhatItIsGiven(nn.Module):
    def forward(self, x):
        return x.ids


class WithABias(nn.Module):
    def forward(self, x):
        return x @ torch.rand(2, 2, bias=False)


class KeepsNoDimension(nn.Module):
    def forward(self, x):
        return x - x.mean(dim=-1, keep_dim=True)


class DividesBySamples(nn.Module):
    def forward(self, x):
        return (x - 1).std(-1, keep_dim=True)


def deviation(x):
    return x.std(-1, ddof=1)


class OfAnArray(nn.Module):
    def forward(self, x):
        return deviation(x)


class OfItsOwnMean(nn.Module):
    def mean(self, x):
        return x

    def forward(self, x):
        return self.mean(x, **{"keep_dim": True})


class MakesItTwice(nn.Module):
    def __init__(self, length=4):
        super().__init__()
        self.table = torch.zeros(length)
        self.register_buffer("table", self.table)


class MakesWhatItIsGiven(nn.Module):
    def __init__(self, table=torch.zeros(2)):
        super().__init__()
        if table is not None:
            self.table = table
        self.register_buffer("table", table)


class OfTwoAngles(nn.Module):
    def forward(self, x):
        return torch.sin(x, 2 * x)


class OfConstants(nn.Module):
    def forward(self, x):
        scale = torch.zeros(1, dtype=torch.long, requires_grad=True)
        return x * scale


class OfASize(nn.Module):
    def forward(self, x):
        scale = torch.zeros(len(x) - 3)
        return x * scale


class OfTwoTensors(nn.Module):
    def forward(self, x):
        return x + torch.zeros(x, x, dtype=torch.float)


def table(length, theta=10000.0):
    return torch.outer(torch.arange(length), theta)


class OuterOfABase(nn.Module):
    def forward(self, x):
        return x * table(2)


class SineOfANumber(nn.Module):
    def forward(self, x):
        return x * torch.sin(2 * x.shape[0])


def turned(x, theta=None):
    return torch.sin(theta or 1.0) * x


class SineOfWhatItIsGiven(nn.Module):
    def forward(self, x):
        return turned(x)


def lifted(x, theta=1.0):
    theta = float(x.mean()) if theta is None else theta
    return torch.sin(theta) * x


class SineOfWhatItMakes(nn.Module):
    def forward(self, x):
        return lifted(x)


class DropsIfTold(nn.Module):
    def __init__(self, dropout=None):
        super().__init__()
        if dropout:
            self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.dropout(x) if self.dropout else x


class DropsIfNotTold(nn.Module):
    def __init__(self, dropout=0.1):
        super().__init__()
        if dropout > 0:
            self.drop = nn.Dropout(dropout)
        del self.drop

    def forward(self, x):
        return self.drop(x)


class DropsAnyway(nn.Module):
    def __init__(self, p=None):
        super().__init__()
        if p:
            self.dropped = nn.Dropout(p)
        self.later()

    def later(self):
        if hasattr(self, "p"):
            self.dropped = nn.Identity()

    def forward(self, x):
        return self.dropped(x)


class AddsATuple(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(2, 1)

    def forward(self, x):
        y = torch.ones(3, 2)
        return y + self.attention(y, y, y)


class AddsWhatItIsGiven(AddsATuple):
    def __init__(self, attention=None):
        super().__init__()
        self.attention = attention or nn.MultiheadAttention(2, 1)


class Settings:
    WIDE = 2


class ChangedSettings:
    WIDE = 2


def change(settings):
    settings.SEEN = 3


class ReadsNoSetting(nn.Module):
    def forward(self, x):
        return x * Settings.NARROW


class ReadsASettingOfLater(nn.Module):
    def forward(self, x):
        return x * ChangedSettings.SEEN


class ForgetsItsLength(nn.Module):
    def forward(self, x):
        return x.view(BATCH, -1)


class KnowsItsLength(nn.Module):
    def forward(self, x):
        BATCH = len(x)
        return x.view(BATCH, -1)


def told():
    global WIDTH
    WIDTH = 2


class ToldItsWidth(nn.Module):
    def forward(self, x):
        return x.view(WIDTH, -1)


class OfFivePositions(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(6, 2)

    def forward(self, x):
        y = torch.ones(1, 7, 2)
        return y + self.table(torch.LongTensor([[1, 2, 3, 4, 0]]))


class OfTwoPositions(OfFivePositions):
    def forward(self, x):
        return torch.ones(1, 2, 3) + self.table(torch.LongTensor([[1, 0]]))


class Dropped(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(2, 1)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        attended = self.attention(x[None], x[None], x[None])
        return x + self.dropout(attended)


class AddsATupleToTheWrongMask(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(2, 1)

    def forward(self, x):
        y = torch.ones(3, 2)
        return y + self.attention.forward(y, y, y, attn_mask=torch.ones(7, 7))


class Pair(nn.Module):
    def forward(self, x):
        return x, x.sum()


class Network(nn.Module):
    def forward(self, x):
        return x.relu() - 1


class HandsATupleOn(nn.Module):
    def __init__(self):
        super().__init__()
        self.pair, self.network = Pair(), Network()

    def forward(self, x):
        y = self.pair(x)
        return self.network(y)


class PairedPart(nn.Module):
    def __init__(self):
        super().__init__()
        self.pair = Pair()

    def forward(self, x):
        return self.pair(x).relu()


class PairedIfAsked(nn.Module):
    def forward(self, x):
        return x + self.both(x, True)

    def both(self, x, is_asked):
        if is_asked:
            return x, x
        return x


class PairedByAnother(nn.Module):
    def __init__(self, pair=None):
        super().__init__()
        self.pair = pair or Pair()

    def forward(self, x):
        return x + self.pair(x)


class PairedByALoop(nn.Module):
    def forward(self, x):
        y = ()
        for _ in range(2):
            y = y + Pair()(x)
        return y[0] + len(x.shape[7])


class OfAHalf(nn.Module):
    def __init__(self, width=4, heads=2):
        super().__init__()
        self.d_k = width / heads
        self.linear = nn.Linear(width, heads * self.d_k)


class ViewedByAQuotient(nn.Module):
    def forward(self, x):
        return x.view(2 / 1, 1)


class LayersByAQuotient(nn.Module):
    def forward(self, x):
        layers = 4 / 2
        return [x for _ in range(layers)]


class IsGivenAFloat(nn.Module):
    def __init__(self, width=4.0):
        super().__init__()
        self.linear = nn.Linear(width, 2)


class OfAQuotientOrNot(nn.Module):
    def __init__(self, width=4, d_k=None):
        super().__init__()
        self.d_k = d_k
        if d_k is None:
            self.d_k = width / 2
        self.linear = nn.Linear(width, self.d_k)


class Constructs(nn.Module):
    def __int__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        return self.linear(x)


class MakesWhatConstructs(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Constructs(2)


class Scales(nn.Module):
    def forward(self, x, factor):
        return x * factor


class ScalesInALoop(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Scales() for _ in range(2)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class ScalesByNumber(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList()
        for _ in range(2):
            self.layers.append(Scales())

    def forward(self, x):
        for i in range(2):
            x = self.layers[i](x)
        return x


class ScalesByWhatItIsGiven(nn.Module):
    def __init__(self, layer=Scales()):
        super().__init__()
        self.layers = nn.ModuleList([layer, layer])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class ScalesByThem(ScalesInALoop):
    def forward(self, x, *factors):
        for layer in self.layers:
            x = layer(x, *factors)
        return x


class DropsByAnotherName(nn.Module):
    def __init__(self):
        super().__init__()
        self.dropout = nn.Dropout(dropout=0.1)


class TransposesNoAxes(nn.Module):
    def forward(self, x):
        return x @ x.transpose()


class TransposesTheseAxes(nn.Module):
    def forward(self, x, axes=()):
        return x @ x.transpose(*axes)


class CallsAFunctionOfItsOwn(nn.Module):
    def forward(self, x):
        def scaled(self, factor):
            return x * factor

        return [scaled(factor) for factor in (1, 2)]


class HandsOn(nn.Module):
    def __init__(self):
        super().__init__()
        self.dropout = nn.Dropout(0.1)

    def forward(self, x, **options):
        return self.dropout(x, **{"training": True, **options})
"""


@pytest.fixture(scope="module")
def learners(tmp_path_factory):
    path = tmp_path_factory.mktemp("learners") / "misspelt_names.py"
    path.write_text(LEARNERS, encoding="utf-8")
    (source,) = find(str(path)).sources
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # Python itself says of 0.5(x) that it is odd
        module = load.load(source, SimpleNamespace(on=contextlib.nullcontext), salvage=True).module
    yield module
    sys.modules.pop("misspelt_names")


def finding(cls):
    with pytest.raises(Exception) as raised, double():  # in which the kit calls everything
        cls()(torch.ones(2))
    return crash_finding(raised.value)


@pytest.mark.parametrize("name, said", [
    ("Misspelt", "self.hiddne_dim"), ("Unknown", "mth"), ("NormOfNothing", "nn.LayerNorm"), ("Unscaled", "scaled"),
    ("TellsItsDropout", "self.dropout"), ("ListOfOne", "ModuleList"), ("ListInARow", "list is not"),
    ("ModuleOfAList", "nn.Module"), ("DropsByAnotherName", "nn.Dropout"),
    ("NormAsABuffer", "buffer 'norm'"),
    ("DropsIfTold", "dropout=None"), ("AddsATuple", "self.attention returns a tuple"),
    ("Dropped", "self.dropout(attended)"),
    ("AddsATupleToTheWrongMask", "self.attention.forward returns a tuple"),
    ("ForgetsItsLength", "BATCH"), ("ReadsNoSetting", "Settings.NARROW"),
    ("OfFivePositions", "with any number of tokens but 5"), ("HandsATupleOn", "self.network(y)"),
    ("PairedPart", "self.pair(x).relu"),
    ("SetByAnotherClass", "self.decoder"), ("WithoutSelf", "self.later"), ("WithoutLambda", "for sublayer"),
    ("CallsAProperty", "requires_grad"), ("CallsANumber", "0.5"), ("CallsItsProbability", "self.dropout"),
    ("Uncalled", "x.size"), ("OfNoTorch", "soft_max"), ("OfNoTensor", "soft_max"), ("OfItsTable", "require_grad_"),
    ("WithABias", "torch.rand"), pytest.param("KeepsNoDimension", "argument keep_dim", marks=WORDS),
    ("DividesBySamples", "argument keep_dim"),
    ("MakesItTwice", "'table' already exists"),
    ("OfNoScores", "masked_full"), ("OfConstants", "requires_grad=True"), ("OfTwoAngles", "torch.sin"),
    ("OuterOfABase", "the number theta"), ("SineOfANumber", "the number 2 * x.shape[0]"),
    pytest.param("OfAHalf", "self.d_k = width / heads is a float", marks=WORDS),
    ("ViewedByAQuotient", "2 / 1 is a float"),
    ("LayersByAQuotient", "layers = 4 / 2 is a float"),
    ("Constructs", "Constructs.__int__ would set it"), ("MakesWhatConstructs", "calls Constructs with arguments"),
    pytest.param("TransposesNoAxes", "x.transpose without", marks=WORDS),
    ("CallsAFunctionOfItsOwn", "calls scaled with"),
    ("ScalesInALoop", "calls layer with arguments"), ("ScalesByNumber", "calls self.layers[i] with arguments"),
])  # fmt: skip
def test_what_nothing_defines_is_named(learners, name, said):
    found = finding(getattr(learners, name))
    assert found.mistake.id == "B26" and said in found.evidence


def test_a_module_of_a_list_is_named_whoever_watches_its_constructor(learners, monkeypatch):
    original = torch.nn.Module.__init__
    monkeypatch.setattr(torch.nn.Module, "__init__", lambda self, *parts: original(self, *parts))
    assert finding(learners.ModuleOfAList).mistake.id == "B26"


@pytest.mark.parametrize("name", [
    "SetFromOutside", "SetTogether", "OfAnotherBase", "OfAConfig", "Scaled", "GivenAFunction",
    "IsGivenItsPart", "HandsOn", "ListOfWhatItIsGiven", "Gated", "GivesWhatItWasGiven", "CallsWhatItIsGiven",
    "DropsIfNotTold", "DropsAnyway", "AddsWhatItIsGiven", "PairedIfAsked", "PairedByAnother", "PairedByALoop",
    "ToldItsWidth", "ReadsASettingOfLater",
    "OfItsOwnMean", "OfAnArray", "MakesWhatItIsGiven",
    "OfTwoPositions", "AsksWhatItIsGiven", "OfATableByThirdHands", "OfWhatAModelGives", "OfTwoResults",
    "OfTwoTensors", "OfASize", "SineOfWhatItIsGiven", "SineOfWhatItMakes", "IsGivenAFloat", "OfAQuotientOrNot",
    "ScalesByWhatItIsGiven", "ScalesByThem", "TransposesTheseAxes",
])  # fmt: skip
def test_what_may_be_set_or_given_elsewhere_is_no_mistake(learners, name):
    assert finding(getattr(learners, name)) is None


@pytest.mark.parametrize("more, is_named", [("", True), ("setattr(sys.modules[__name__], 'Other', 1)", False)])
def test_what_another_file_of_the_learners_does_not_define(more, is_named, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "parts_of_it.py").write_text(f"import sys\n\n\nclass SelfAttention: ...\n\n\n{more}")
    (tmp_path / "layer.py").write_text("import parts_of_it\n\n\ndef layer():\n    return parts_of_it.Attention()\n")
    import layer

    with pytest.raises(AttributeError) as raised:
        layer.layer()
    for name in ("layer", "parts_of_it"):
        sys.modules.pop(name)
    found = undefined.finding(raised.value)
    assert (found is not None and "nothing in parts_of_it.py defines" in found.evidence) == is_named


@pytest.mark.parametrize("name, is_named", [("OfNoTorch", True), ("OfNoTensor", False), ("WithoutLambda", False)])
def test_of_one_way_among_many_the_code_alone_must_show_it(learners, name, is_named):
    """Another way to build it may have given it what it calls, or asks for an attribute."""
    with pytest.raises(Exception) as raised, double():
        getattr(learners, name)()(torch.ones(2))
    found = first_finding([CannotCall("as no kind"), raised.value])
    assert (found is not None) is is_named
    assert not is_named or found[1] is raised.value


TABLE = """
def precompute_freqs_cis(head_dim: int, seq_len: int, theta: float = 10000.0):
    assert head_dim % 2 == 0, "the dimension must be even"
    thata = 1.0 / theta ** (torch.arange(0, head_dim, 2).float() / head_dim)
    return torch.polar(torch.ones(seq_len, head_dim // 2), torch.outer(torch.arange(seq_len).float(), theta))
"""

GIVEN = """
class EncoderLayer(nn.Module):
    def __init__(self, size, heads, hidden):
        super().__init__()
        self.attn = nn.MultiheadAttention(size, heads, batch_first=True)
        self.ffn = nn.Sequential(nn.Linear(size, hidden), nn.ReLU(), nn.Linear(hidden, size))
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)

    def forward(self, x, mask=None):
        x = self.norm1(x + self.attn(x, x, x, key_padding_mask=mask)[0])
        return self.norm2(x + self.ffn(x))


class Encoder(nn.Module):
    def __init__(self, layer, N):
        super().__init__()
        self.layers = nn.ModuleList([copy.deepcopy(layer) for _ in range(N)])
        self.norm = nn.LayerNorm(layer.size)

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


def make_model(src_vocab, tgt_vocab, N=6, d_model=512, d_ff=2048, h=8):
    return Encoder(EncoderLayer(d_model, h, d_ff), N)
"""


def test_what_a_layer_that_is_given_never_sets_is_named_and_its_model_has_it_too(tmp_path):
    results = check_text(GIVEN, tmp_path)
    (found,) = results["Encoder"].mistakes
    assert (found.id, "layer.size, which nothing in EncoderLayer" in found.evidence) == ("B26", True)
    assert (results["make_model"].verdict, results["make_model"].inherited) == ("mistake", ["B26"])


@pytest.mark.parametrize(
    "old, new",
    [
        ("        self.norm1,", "        self.size = size\n        self.norm1,"),
        ("class Encoder(", "class Sized(nn.Module):\n    size = 512\n\n\nclass Encoder("),
    ],
)
def test_what_the_file_sets_somewhere_may_be_set_in_what_is_given(old, new, tmp_path):
    assert "B26" not in check_text(GIVEN.replace(old, new, 1), tmp_path)["Encoder"].ids


WRITING = """
class Transformer(nn.Module):
    def __init__(self, encoder, decoder, generator):
        super().__init__()
        self.encoder, self.decoder, self.generator = encoder, decoder, generator

    def encode(self, src, src_mask):
        return self.encoder(src, src_mask)

    def decode(self, memory, src_mask, tgt, tgt_mask):
        return self.decoder(tgt, memory, src_mask, tgt_mask)


def greedy_decode(model, src, src_mask, max_len, start_symbol):
    memory = model.encode(src, src_mask)
    ys = torch.full((1, 1), start_symbol)
    for _ in range(max_len - 1):
        out = model.decode(memory, src_mask, ys, torch.ones(1, ys.size(1), ys.size(1)).tril().bool())
        ys = torch.cat([ys, model.generate(out[:, -1]).argmax(-1, keepdim=True)], dim=1)
    return ys
"""


@pytest.mark.parametrize(
    "old, new, is_named",
    [("", "", True), ("class Transformer(", "class EncoderPart(", False), (", generator):", ", generate):", True),
     ("self.generator =", "self.generate =", False)],
)  # fmt: skip
def test_what_a_writer_of_text_asks_of_a_model_that_does_not_have_it(old, new, is_named, tmp_path):
    result = check_text(WRITING.replace(old, new, 1), tmp_path)["greedy_decode"]
    assert ("B26" in result.ids) == is_named, result


def test_what_a_table_of_angles_stops_with_is_heard(tmp_path):
    (found,) = check_text(TABLE, tmp_path).values()
    assert (found.verdict, [m.id for m in found.mistakes]) == ("mistake", ["B26"])
    assert "the number theta" in found.mistakes[0].evidence
    right = check_text(TABLE.replace("thata", "theta"), tmp_path)["precompute_freqs_cis"]
    assert right.verdict == "matches the builtin"


def test_lines_that_were_left_out_may_have_defined_it(learners, monkeypatch):
    monkeypatch.setitem(vars(learners), load.REPAIRED, ("line 7 is left out",))
    assert finding(learners.Unknown) is None


UNREAD = """
class InputEmbedding(nn.Module):
    def __init__(self, d_model: int, vocab_size: int):
        super().__init__()
        self.d_model = d_model
        self.embedding = nn.Embedding(vocab_size: int, d_model: int)

    def forward(self, x):
        return self.embedding(x) * math.sqrt(self.d_model)


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.down(torch.relu(self.upp(x)))
"""


def test_what_a_line_that_python_cannot_read_would_have_set_is_named(tmp_path):
    path = tmp_path / "unread_lines.py"
    path.write_text(IMPORTS + UNREAD)
    (source,) = find(str(path)).sources
    module = load.load(source, SimpleNamespace(on=contextlib.nullcontext)).module
    with pytest.raises(AttributeError) as raised:
        module.InputEmbedding(4, 5)(torch.ones(2).long())
    found = crash_finding(raised.value)
    assert found.mistake.id == "B26" and "Python cannot read line unread_lines.py:12" in found.evidence
    with pytest.raises(AttributeError) as raised:
        module.FeedForward(4, 5)(torch.ones(4))
    assert crash_finding(raised.value).form == "self.upp"
    for line in ("self.upp, self.down = (self.up, self.down", "for name in names: setattr(self, name, 1"):
        vars(module)[load.LEFT_OUT] = line
        assert crash_finding(raised.value) is None  # some line that was left out may set it


UNREAD_CLASS = """
class Transformer(nn.Module):
    def __init__(self, d_model=512, encoder, decoder):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder


class InputEmbedding(nn.Module):
    def __init__(self, d_model, vocab_size):
        super().__init__()
        self.scale = sqrt(d_model)
        self.embedding = nn.Embedding(vocab_size, d_model)

    def forward(self, x):
        return self.embedding(x) * self.scale


class Encoder(nn.Module):
    def __init__(self, layer, N):
        super().__init__()
        self.layers = nn.ModuleList([copy.deepcopy(layer) for _ in range(N)])

    def forward(self, x):
        for layer in layers:
            x = layer(x)
        return x


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super(self).__init__()
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))
"""


def test_beside_a_class_that_python_cannot_read_the_others_are_judged(tmp_path):
    path = tmp_path / "unread_class.py"
    path.write_text(IMPORTS + UNREAD_CLASS)
    found = {one.name: one.mistakes[0] for one in reported(path).results}
    at = {name: (one.id, path.read_text().splitlines()[one.line - 1].strip()) for name, one in found.items()}
    assert at == {
        "InputEmbedding": ("B26", "self.scale = sqrt(d_model)"),
        "Encoder": ("B26", "for layer in layers:"),
        "FeedForward": ("LN8", "super(self).__init__()"),
    }


def test_a_class_that_nothing_defines_is_no_number_of_heads():
    namespace, names = {}, {"MultiHeadAttention", "N_HEADS"}
    globals.override(namespace, names, {"num_heads": 3}, set())
    assert namespace == {"N_HEADS": 3}


READS_ITSELF = """
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.1):
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        KEPT = dropout
        self.dropout = nn.Dropout(self.dropout)

    def forward(self, x):
        return self.linear2(self.dropout(torch.relu(self.linear1(x))))
"""


@pytest.mark.parametrize("kept, ids", [("self.dropout_p", ["B26"]), ("self.dropout_p = self.dropout", [])])
def test_what_a_line_sets_is_not_there_for_it_to_read(kept, ids, tmp_path):
    (result,) = check_text(READS_ITSELF.replace("KEPT", kept), tmp_path).values()
    assert [named.id for named in result.mistakes] == ids, result
    assert ids or result.verdict == "matches the builtin"


CELLS = """
class Attention:
    def forward(self, x, mask): return x
class Layer:
    def forward(self, x): return self.attention(x, None)
class Attention:
    def forward(self, x): return x
class Block:
    def forward(self, x): return self.attention(x, None)
"""


@pytest.mark.parametrize(
    "line, file, is_so", [(5, "notes.ipynb", True), (9, "notes.ipynb", False), (5, "notes.py", False)]
)
def test_what_a_later_cell_defines_anew_fitted_where_it_was_called(line, file, is_so, monkeypatch):
    monkeypatch.setitem(linecache.cache, file, (len(CELLS), None, CELLS.splitlines(keepends=True), file))
    assert undefined.is_of_later("Attention.forward", line, file) == is_so
    assert not undefined.is_of_later("Layer.forward", line, file)


def test_the_line_that_python_cannot_read_is_the_one_to_look_at(tmp_path):
    path = tmp_path / "unread_lines.py"
    path.write_text(IMPORTS + UNREAD)
    report = reported(f"{path}:InputEmbedding")
    (found,) = next(one for one in report.results if one.name == "InputEmbedding").mistakes
    assert (found.id, found.line) == ("B26", 12) and any("vocab_size: int, d_model" in line for line in found.code)


CUT = """
class MultiheadAttention(nn.Module):
    def __init__(self, d_model, num_heads, block_size, is_causal=False):
        super().__init__()
        assert d_model % num_heads == 0
        self.h, self.d_k, self.is_causal = num_heads, d_model // num_heads, is_causal
        self.q_proj, self.k_proj = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.v_proj, self.out_proj = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.register_buffer("mask", torch.tril(torch.ones(block_size, block_size)).view(1, 1, block_size, block_size))

    def forward(self, query, key, value):
        (B, T, C), S = query.shape, key.shape[1]
        q = self.q_proj(query).view(B, T, self.h, self.d_k).transpose(1, 2)
        k = self.k_proj(key).view(B, S, self.h, self.d_k).transpose(1, 2)
        v = self.v_proj(value).view(B, S, self.h, self.d_k).transpose(1, 2)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_k)
        if self.is_causal:
            scores = scores.masked_fill(self.mask[:, :T, :T] == 0, float("-inf"))
        return self.out_proj((torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(B, T, C))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, block_size):
        super().__init__()
        self.self_attn = MultiheadAttention(d_model, num_heads, block_size, is_causal=True)
        self.cross_attn = MultiheadAttention(d_model, num_heads, block_size)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, x, memory):
        x = self.norm1(x + self.self_attn(x, x, x))
        x = self.norm2(x + self.cross_attn(x, memory, memory))
        return self.norm3(x + self.ffn(x))
"""


@pytest.mark.parametrize("cut, is_named", [("[:, :T, :T]", True), ("[..., :T, :T]", False), ("", False)])
def test_a_table_that_is_cut_where_there_is_one_row_fits_no_shorter_sequence(cut, is_named, tmp_path):
    found = check_text(CUT.replace("[:, :T, :T]", cut), tmp_path)
    result = found["DecoderLayer"]
    if not is_named:  # all of the table is for sequences of one length
        assert {one.verdict for one in found.values()} == {"matches the builtin"}, result
        return
    assert result.ids == ["B26"] and ":T, :T]" in str(result.mistakes[0].code), result
    assert "self.mask[:, :T, :T] of a table of shape (1, 1, " in result.mistakes[0].evidence


@pytest.mark.parametrize("told, notes", [(", is_causal=True", []), ("", [("A25", "note")])])
def test_in_place_of_attention_that_stops_the_future_is_hidden_where_the_layer_asks_for_that(told, notes, tmp_path):
    text = CUT.replace("[:, :T, :T]", "[..., :T, :T]").replace("math.sqrt(self.d_k)", "math.sqrt(self.width)")
    found = check_text(text.replace(", is_causal=True", told), tmp_path)
    assert found["MultiheadAttention"].ids == ["B26"]
    assert [(named.id, named.severity) for named in found["DecoderLayer"].mistakes] == notes, found


def test_what_a_package_asks_for_may_be_otherwise_in_another_release():
    for thing in (torch.nn.LayerNorm, check_text, argparse.ArgumentParser):
        assert undefined._is_as_written(thing)
    assert not undefined._is_as_written(pytest.Item) and not undefined._is_as_written(print)


CAUSAL = """
class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads, max_len):
        super().__init__()
        self.heads, self.qkv, self.out = num_heads, nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(0.1)
        self.register_buffer("tril", torch.tril(torch.ones(max_len, max_len)))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (y.view(B, T, self.heads, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(-2, -1)
        scores = scores / math.sqrt(C // self.heads)
        scores = scores.FILLED(self.tril[:T, :T] == 0, float("-inf"))
        scores = self.dropout(F.softmax(scores, dim=-1))
        return self.out((scores @ v).transpose(1, 2).reshape(B, T, C))
"""


@pytest.mark.parametrize("filled, ids", [("masked_fill", []), ("mask_fill", ["B26"])])
def test_what_a_tensor_does_not_have_is_named_whatever_becomes_of_it_later(filled, ids, tmp_path):
    result = check_text(CAUSAL.replace("FILLED", filled), tmp_path)["CausalSelfAttention"]
    assert result.severe == ids
    assert not ids or "mask_fill" in result.mistakes[0].evidence
