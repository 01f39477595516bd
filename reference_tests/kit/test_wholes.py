"""Wholes are judged although a part is unclear, given, absent, or of a size that is not passed on."""

import pytest
import torch
from torch import nn

from reference_tests.kit.learners.checked import LESS, check_text, reported, time_to_look
from scratch_transformer.kit import clock
from scratch_transformer.kit.checking import Checking
from scratch_transformer.kit.resolve.build import inside
from scratch_transformer.kit.resolve.build.values import Values
from scratch_transformer.kit.resolve.weights.layout import Parameters

pytestmark = pytest.mark.long

ATTENTION = """
class SelfAttention(nn.Module):
    def __init__(self, embed_dim, num_heads=8, head_dim=64):
        super().__init__()
        assert embed_dim % head_dim == 0, "heads do not fit"
        self.heads, self.d = embed_dim // head_dim, head_dim
        self.q, self.k, self.v = (nn.Linear(embed_dim, embed_dim) for _ in "qkv")
        self.out = nn.Linear(embed_dim, embed_dim)

    def forward(self, x):
        B, T, E = x.shape
        q, k, v = (w(x).view(B, T, self.heads, self.d).transpose(1, 2) for w in (self.q, self.k, self.v))
        scores = q @ k.transpose(-1, -2) / self.d**0.5
        return self.out((SCORES @ v).transpose(1, 2).reshape(B, T, E))
"""
BLOCK = """
class Block(nn.Module):
    def __init__(self, embed_dim, expand_dim):
        super().__init__()
        self.attention = SelfAttention(embed_dim)
        self.ff = nn.Sequential(nn.Linear(embed_dim, expand_dim), nn.ReLU(), nn.Linear(expand_dim, embed_dim))
        self.norm1, self.norm2 = nn.LayerNorm(embed_dim), nn.LayerNorm(embed_dim)

    def forward(self, x):
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.ff(x))
"""
GIVEN = """
class DecoderLayer(nn.Module):
    def __init__(self, d_model, d_ff, n_heads, attention_cls, feed_forward, norm_cls=nn.LayerNorm):
        super().__init__()
        self.self_attn, self.cross_attn = attention_cls(d_model, n_heads), attention_cls(d_model, n_heads)
        self.ffn = feed_forward
        self.norm1, self.norm2, self.norm3 = norm_cls(d_model), norm_cls(d_model), norm_cls(d_model)

    def forward(self, x, memory, tgt_mask, src_mask):
        x = self.norm1(x + self.self_attn(x, x, x, tgt_mask))
        x = self.norm2(x + self.cross_attn(x, memory, memory, src_mask))
        return self.norm3(x + self.ffn(x))


class Transformer(nn.Module):
    def __init__(self, encoder, decoder, src_pad_idx, trg_pad_idx):
        super().__init__()
        self.encoder, self.decoder, self.src_pad_idx, self.trg_pad_idx = encoder, decoder, src_pad_idx, trg_pad_idx

    def forward(self, src, trg):
        src_mask = (src != self.src_pad_idx)[:, None, None]
        trg_mask = (trg != self.trg_pad_idx)[:, None, None] & torch.ones(trg.shape[1], trg.shape[1]).tril().bool()
        return self.decoder(trg, self.encoder(src, src_mask), trg_mask, src_mask)
"""
PRETRAINED = """
from a_package_nobody_has import ACT2FN, CausalLMOutputWithPast, GenerationMixin, PretrainedConfig, PreTrainedModel
import torch
from torch import nn


class TinyConfig(PretrainedConfig):
    def __init__(self, hidden_size=64, intermediate_size=96, hidden_act="silu", vocab_size=50, **more):
        super().__init__(**more)
        self.hidden_size, self.intermediate_size = hidden_size, intermediate_size
        self.hidden_act, self.vocab_size = hidden_act, vocab_size


class MLP(nn.Module):
    def __init__(self, config: TinyConfig):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)
        self.act_fn = ACT2FN[config.hidden_act]

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class LMHead(PreTrainedModel, GenerationMixin):
    config_class = TinyConfig

    def __init__(self, config: TinyConfig):
        super().__init__(config)
        self.linear = nn.Linear(config.hidden_size, config.vocab_size)

    def forward(self, x):
        return CausalLMOutputWithPast(loss=None, logits=self.linear(x))
"""


@pytest.mark.long
def test_a_whole_is_judged_with_the_reference_in_place_of_a_part_that_nothing_explains(tmp_path):
    attention = ATTENTION.replace("SCORES", "torch.sin(scores)")
    results = check_text(attention + BLOCK, tmp_path)
    assert results["SelfAttention"].verdict == "unknown mismatch"
    block = results["Block"]
    assert (block.verdict, block.replaced) == ("matches the builtin", ["SelfAttention"]), block
    assert any("Nothing explains its SelfAttention" in limit for limit in block.limits)


def test_heads_of_a_size_that_is_not_passed_on(tmp_path):
    attention = ATTENTION.replace("SCORES", "scores.softmax(-1)")
    block = check_text(attention + BLOCK, tmp_path)["Block"]
    assert (block.verdict, block.replaced) == ("matches the builtin", []), block


def test_defaults_are_as_before_once_it_is_built():
    class Attention:
        def __init__(self, dim, head_dim=64, dropout=0.1):
            pass

    with inside.told([Attention], {"d_model": 12, "num_heads": 3}) as are_any:
        assert are_any and Attention.__init__.__defaults__ == (4, 0.1)
    assert Attention.__init__.__defaults__ == (64, 0.1)


def test_what_must_be_given_and_nobody_has_defined_is_the_references(tmp_path):
    of_layer, of_whole = GIVEN.split("\n\n\n")
    layer = check_text(of_layer, tmp_path)["DecoderLayer"]
    assert layer.verdict in ("matches the builtin", "harmless deviation"), layer
    assert layer.replaced == ["MultiheadAttention", "FeedForward"]
    whole = check_text(of_whole, tmp_path)["Transformer"]
    assert whole.verdict == "matches the paper, not the builtin", whole
    assert any("the reference's TokenDecoder" in limit for limit in (*whole.limits, *whole.notes))


def test_what_everybody_knows_of_an_absent_package(tmp_path):
    path = tmp_path / "pretrained.py"
    path.write_text(PRETRAINED, encoding="utf-8")
    report = reported(path)
    verdicts = {result.name: result.verdict for result in report.results}
    assert verdicts == {"MLP": "matches the builtin", "LMHead": "matches the builtin"}


@pytest.mark.parametrize(
    "names, expected",
    [
        (["embed_dim", "expand_dim"], {"embed_dim": 12, "expand_dim": 17}),
        (["dim", "hidden_dim"], {"dim": 12, "hidden_dim": 17}),
        (["hidden_dim", "pf_dim"], {"hidden_dim": 12, "pf_dim": 17}),
        (["input_dim", "hidden_dim", "expanded_dim"], {"input_dim": 11, "hidden_dim": 12, "expanded_dim": 17}),
        (["vocab_size", "input_dim", "d_ff"], {"vocab_size": 11, "input_dim": 12, "d_ff": 17}),
        (["output_size", "d_model", "d_ff"], {"output_size": 11, "d_model": 12, "d_ff": 17}),
    ],
)
def test_names_mean_what_the_others_leave(names, expected):
    values = Values({"d_model": 12, "d_ff": 17, "num_heads": 3, "vocab_size": 11}, {})
    values.reserve(names)
    assert {name: values(name) for name in names} == expected


@pytest.mark.parametrize("names", [["src_dim", "tgt_dim", "d_model"], ["input_dim", "output_dim", "d_model"]])
def test_what_each_side_is_as_wide_as_is_its_vocabulary_beside_the_width(names):
    values = Values({"d_model": 12, "d_ff": 17, "num_heads": 3, "src_vocab_size": 11, "tgt_vocab_size": 13}, {})
    values.reserve(names)
    assert [values(name) for name in names] == [11, 13, 12]


def test_a_frozen_table_of_sines_is_no_parameter():
    table = torch.arange(20.0)[:, None] / 10000 ** (torch.arange(0, 12, 2) / 12)
    module = nn.ModuleDict(
        {
            "pos": nn.Embedding.from_pretrained(torch.cat((table.sin(), table.cos()), 1), freeze=True),
            "other": nn.Embedding.from_pretrained(torch.randn(20, 12) * 3, freeze=True),
            "tok": nn.Embedding(9, 12),
        }
    )
    assert list(Parameters(module).positions) == ["other.weight", "tok.weight"]


def test_a_file_whose_time_is_long_over_gets_half_of_the_least():
    checking = Checking({}, None, lambda event, **values: None)
    assert checking._least(1.0) == 1.0
    checking.end = clock.now() - 10
    assert (checking._least(1.0), checking._is_over) == (0.5, True)


# ---- One layer in a loop ----

LOOP = """
class Block(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x):
        x = self.norm1(x + self.attention(x, x, x)[0])
        return self.norm2(x + self.ff(x))

class Encoder(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.block, self.num_layers = Block(d_model, num_heads, d_ff), num_layers

    def forward(self, x):
        for _ in range(self.num_layers):
            x = STEP
        return x
"""


@pytest.mark.parametrize("step, ids", [("self.block(x)", ["B9"]), ("x + self.block(x)", [])])
def test_one_layer_that_is_called_again_and_again_is_every_layer(step, ids, tmp_path):
    """What a loop does besides is not explained by that."""
    result = check_text(LOOP.replace("STEP", step), tmp_path)["Encoder"]
    assert (result.verdict, result.ids) == ("mistake" if ids else "unknown mismatch", ids)


UNUSED = """
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.scale, self.shift, self.eps = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model)), eps

    def forward(self, x):
        mean, std = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
        return self.scale * (x - mean) / (std + self.eps) + self.shift

class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model), LayerNorm(d_model)

    def forward(self, x):
        return OUTPUT.sin()
"""


@pytest.mark.parametrize("output, inherited", [("self.norm(self.down(self.up(x).relu()))", ["LN1", "LN2"]),
                                               ("self.norm.forward(self.down(self.up(x).relu()))", ["LN1", "LN2"]),
                                               ("self.down(self.up(x).relu())", [])])  # fmt: skip
def test_what_is_wrong_in_a_part_that_is_never_called_explains_nothing(output, inherited, tmp_path):
    result = check_text(UNUSED.replace("OUTPUT", output), tmp_path)["FeedForward"]
    assert result.inherited == inherited
    assert result.verdict == ("mistake" if inherited else "unknown mismatch")


NORM_AT_THE_END = """
class Encoder(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, num_layers, ends_normed=False):
        super().__init__()
        layer = nn.TransformerEncoderLayer(d_model, num_heads, d_ff, 0.0, batch_first=True)
        layers = [copy.deepcopy(layer) for _ in range(num_layers)]
        self.layers, self.norm, self.ends_normed = nn.ModuleList(layers), nn.LayerNorm(d_model), ends_normed

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        LAST
"""


@pytest.mark.parametrize("last, ids", [("return self.norm(x)", []), ("return x", ["B30"]),
                                       ("self.norm(x); return x", ["B30"]),
                                       ("return self.norm(x) if self.ends_normed else x", [])])  # fmt: skip
def test_a_norm_that_is_made_and_never_used(last, ids, tmp_path):
    """Where it is left out as its settings say, all is well; a result that is thrown away is none."""
    result = check_text(NORM_AT_THE_END.replace("LAST", last), tmp_path)["Encoder"]
    assert (result.verdict, result.ids) == ("mistake" if ids else "matches the builtin", ids)


ONE_LAYER_EACH = """
class EncoderLayer(nn.Module):
    def __init__(self, input_dim, num_heads, feature_dim, **kwargs):
        super().__init__()
        self.self_attention = nn.MultiheadAttention(input_dim, num_heads, batch_first=True)
        self.ffn = nn.Sequential(nn.Linear(input_dim, feature_dim), nn.ReLU(), nn.Linear(feature_dim, input_dim))
        self.norm1, self.norm2 = nn.LayerNorm(input_dim), nn.LayerNorm(input_dim)

    def forward(self, src, src_mask=None):
        src = self.norm1(src + self.self_attention(src, src, src, key_padding_mask=src_mask)[0])
        return self.norm2(src + self.ffn(src))


class SentenceEncoder(nn.Module):
    def __init__(self, vocab_size, input_dim, num_heads, feature_dim, num_layers, max_len):
        super().__init__()
        self.embed, self.pos = nn.Embedding(vocab_size, input_dim), nn.Embedding(max_len, input_dim)
        self.encoder = EncoderLayer(input_dim, num_heads, feature_dim, num_layers=num_layers)

    def forward(self, ids, mask=None):
        return self.encoder(self.embed(ids) + self.pos(torch.arange(ids.shape[1])), SAID)
"""


@pytest.mark.parametrize("said", ["mask", "None"])
def test_what_has_one_layer_is_measured_with_one_however_many_it_is_told_to_make(said, tmp_path):
    result = check_text(ONE_LAYER_EACH.replace("SAID", said), tmp_path)["SentenceEncoder"]
    assert (result.kind, result.divergence) == ("TokenEncoder", "")
    assert any("told to make 2 layers, and has 1" in note for note in result.notes)
    assert ("A24" in result.ids) == (said != "mask")


HIDES = """
class Transformer(nn.Module):
    def __init__(self, src_vocab_size, tgt_vocab_size, d_model, num_heads, num_layers):
        super().__init__()
        self.source, self.target = nn.Embedding(src_vocab_size, d_model), nn.Embedding(tgt_vocab_size, d_model)
        self.transformer = nn.Transformer(d_model, num_heads, num_layers, num_layers, batch_first=True)
        self.out = nn.Linear(d_model, tgt_vocab_size)

    def forward(self, src, tgt):
        src_pad_mask, future = src == 1, torch.ones(tgt.shape[1], tgt.shape[1]).triu(1).bool()
        out = self.transformer(
            self.source(src), self.target(tgt), tgt_mask=future, src_key_padding_mask=src_pad_mask,
            tgt_key_padding_mask=tgt == 2, memory_key_padding_mask=src_pad_mask,
        )
        return self.out(out)
"""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("old, new, ids", [("", "", []), ("tgt_mask=future, ", "", ["A25"])])
def test_the_ids_that_a_model_hides_by_itself_are_found(old, new, ids, tmp_path):
    whole = check_text(HIDES.replace(old, new), tmp_path)["Transformer"]
    assert whole.severe == ids and not whole.limits, whole
    assert "It hides this id as padding, whatever it is told: 1 (src_pad) and 2 (tgt_pad)." in whole.notes


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("made, ids", [("num_decoder_layers", []), ("num_encoder_layers", ["B28"])])
def test_a_decoder_with_as_many_layers_as_the_encoder_whatever_it_is_told(made, ids, tmp_path):
    text = HIDES.replace("num_heads, num_layers):", "num_heads, num_encoder_layers, num_decoder_layers):")
    text = text.replace("num_layers, num_layers, b", f"num_encoder_layers, {made}, b")
    whole = check_text(text, tmp_path)["Transformer"]
    found = [m for m in whole.mistakes if m.severity == "mistake"]
    assert [m.id for m in found] == ids
    assert not ids or found[0].form == "num_decoder_layers is not listened to"


ONE_SIDE = """
class Positions(nn.Module):
    def __init__(self, d_model, max_len=50):
        super().__init__()
        angles = torch.arange(max_len)[:, None] * 10000 ** (-torch.arange(0, d_model, 2) / d_model)
        self.register_buffer("pe", torch.stack((angles.sin(), angles.cos()), -1).flatten(1))

    def forward(self, x):
        return x + self.pe[: x.shape[1]]

""" + HIDES.replace("num_layers, num_layers", "num_layers, num_layers, 17, 0.0").replace(
    "self.out =", "self.positions, self.scale = Positions(d_model), d_model**0.5\n        self.out ="
).replace("self.source(src), self.target(tgt), t", "SOURCE, TARGET, t")
SCALED = "self.positions(self.source(src) * self.scale)"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("source, target, named", [
    (SCALED, "self.positions(self.target(tgt) * self.scale)", []),
    (SCALED, "self.target(tgt) * self.scale", [("P13", "decoder")]),
    (f"self.positions({SCALED})", "self.positions(self.target(tgt) * self.scale)", [("P12", "encoder")]),
])  # fmt: skip
def test_what_is_done_with_the_ids_of_one_language_alone(source, target, named, tmp_path):
    whole = check_text(ONE_SIDE.replace("SOURCE", source).replace("TARGET", target), tmp_path)["Transformer"]
    found = [m for m in whole.mistakes if m.id in ("E2", "P12", "P13")]
    assert [(m.id, m.form.rpartition("in the ")[2].removesuffix(" alone")) for m in found] == named, whole


LANGUAGE_MODEL = """
class Attention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0
        self.h, self.q, self.k = num_heads, nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.v, self.o = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        q, k, v = (f(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if mask is not None:
            KEPT scores.masked_fill(mask == 0, float("-inf"))
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = Attention(d_model, num_heads)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.network = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask):
        x = x + self.attention(self.norm1(x), mask)
        return x + self.network(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, vocab_size, max_len, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.words, self.places = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        self.layers = nn.ModuleList([Layer(d_model, num_heads, d_ff) for _ in range(num_layers)])
        self.norm, self.head = nn.LayerNorm(d_model), nn.Linear(d_model, vocab_size)

    def forward(self, ids):
        T = ids.shape[1]
        x = self.words(ids) + self.places(torch.arange(T, device=ids.device))
        mask = torch.ones(T, T, device=ids.device).tril()
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(self.norm(x))
"""


@pytest.mark.parametrize("kept, said", [("scores =", ([], [])), ("", ([], ["A24"]))])
def test_a_mask_that_is_made_and_ignored_is_not_said_to_be_none(kept, said, tmp_path):
    result = check_text(LANGUAGE_MODEL.replace("KEPT", kept), tmp_path)["GPT"]
    assert (result.severe, result.inherited) == said, result


ONE_NORM = """
class Transformer(nn.Module):
    def __init__(self, src_vocab_size, tgt_vocab_size, d_model, num_heads, num_layers, d_ff, max_len, dropout):
        super().__init__()
        self.scale, of_layers = math.sqrt(d_model), dict(dropout=dropout, batch_first=True, norm_first=True)
        self.source, self.target = nn.Embedding(src_vocab_size, d_model), nn.Embedding(tgt_vocab_size, d_model)
        self.positions = nn.Parameter(torch.zeros(max_len, d_model))
        self.encoders = nn.ModuleList(
            nn.TransformerEncoderLayer(d_model, num_heads, d_ff, **of_layers) for _ in range(num_layers)
        )
        self.decoders = nn.ModuleList(
            nn.TransformerDecoderLayer(d_model, num_heads, d_ff, **of_layers) for _ in range(num_layers)
        )
        self.final_norm, self.out = nn.LayerNorm(d_model), nn.Linear(d_model, tgt_vocab_size)

    def forward(self, src, tgt):
        memory = self.source(src) * self.scale + self.positions[: src.shape[1]]
        for encoder in self.encoders:
            memory = encoder(memory, src_key_padding_mask=src == 0)
        x = self.target(tgt) * self.scale + self.positions[: tgt.shape[1]]
        future = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool, device=tgt.device).triu(1)
        for decoder in self.decoders:
            x = decoder(x, memory, future, tgt_key_padding_mask=tgt == 0, memory_key_padding_mask=src == 0)
        return self.out(self.final_norm(x))
"""


def test_a_single_final_norm_is_the_decoders(tmp_path):
    result = check_text(ONE_NORM, tmp_path)["Transformer"]
    assert (result.verdict, [mistake.id for mistake in result.mistakes]) == ("harmless deviation", ["B4", "B1"])
    assert "encoder: no final norm, decoder: final norm" in result.design
    assert result.mistakes[0].form.endswith("without final norms, in the encoder alone")
    with time_to_look(LESS):
        wrong = check_text(ONE_NORM.replace(".triu(1)", ".triu(2)"), tmp_path)["Transformer"]
    assert wrong.verdict in ("mistake", "unknown mismatch"), wrong
