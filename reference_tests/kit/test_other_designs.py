"""What is of a design that the kit has no reference for is said in one line, not called an unknown mismatch."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from reference_tests.kit.learners.checked import LESS, check_text, reported, time_to_look
from scratch_transformer.kit import another_sort
from scratch_transformer.kit.another_sort import decoder_within, only_attends
from scratch_transformer.kit.discover.placeholders import Missing, NotInstalled
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.resolve import foreign, guess, not_there
from scratch_transformer.kit.resolve.library.library import Library
from scratch_transformer.kit.resolve.other_designs import design_of, of_parts
from scratch_transformer.kit.resolve.trials.outcome import Outcome

pytestmark = pytest.mark.long

ACTIVATION = """
class ClampedGLU(nn.Module):
    def forward(self, x):
        gate, up = x[..., ::2].clamp(max=7), x[..., 1::2].clamp(-7, 7)
        return gate * torch.sigmoid(1.702 * gate) * (up + 1)
"""
CLASSIFIER = """
class TransformerClassifier(nn.Module):
    def __init__(self, n_features=12, d_model=16, n_heads=4):
        super().__init__()
        self.embed, self.head = nn.Linear(n_features, d_model), nn.Linear(d_model, 1)
        self.block = nn.TransformerEncoderLayer(d_model, n_heads, batch_first=True)

    def forward(self, x):
        return self.head(self.block(self.embed(x))[:, 0])
"""


BARE = """
class SwiGLUFast(nn.Module):
    def __init__(self, dim_in, dim_out):
        super().__init__()
        self.both = nn.Linear(dim_in, 2 * dim_out)

    def forward(self, x):
        gate, up = self.both(x).chunk(2, -1)
        return F.silu(gate) * up
"""


def test_a_gate_alone_is_no_network(tmp_path):
    (result,) = check_text(BARE, tmp_path).values()
    assert "a gated linear unit without a projection after it" in result.verdict


def test_an_activation_without_weights_is_no_network(tmp_path):
    (result,) = check_text(ACTIVATION, tmp_path).values()
    assert result.verdict == foreign.WEIGHTLESS and foreign.WEIGHTLESS.startswith(foreign.NOTHING)


def test_a_classifier_of_vectors_is_no_layer(tmp_path):
    (result,) = check_text(CLASSIFIER, tmp_path).values()
    assert result.verdict == foreign.POOLED


OF_LISTS = """
class Encoder(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads):
        super().__init__()
        self.words = nn.Embedding(vocab_size, d_model)
        self.attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)

    def forward(self, texts: {annotation}):
        x = [self.words(text)[None] for text in texts]
        return [self.attention(one, one, one)[0].squeeze(0) for one in x]
"""


@pytest.mark.parametrize("annotation", ["list[torch.Tensor]", "'list[torch.Tensor]'", "typing.List[torch.Tensor]"])
def test_of_what_takes_a_list_of_sentences_that_is_said(annotation, tmp_path):
    result = check_text("import typing\n" + OF_LISTS.format(annotation=annotation), tmp_path)["Encoder"]
    assert result.verdict == "it takes lists of tensors: texts"


@pytest.mark.parametrize("embed", ["nn.Linear", "nn.Embedding"])
def test_of_ids_that_go_through_a_linear_layer_that_is_said(embed, tmp_path):
    text = f"""
class GPT(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads):
        super().__init__()
        self.words, self.head = {embed}(vocab_size, d_model), nn.Linear(d_model, vocab_size)
        self.attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)

    def forward(self, idx):
        x = self.words(idx)
        hidden = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
        return self.head(x + self.attention(x, x, x, attn_mask=hidden)[0])
"""
    result = check_text(text, tmp_path)["GPT"]
    assert ("It was given ids, and hands them to a linear layer" in result.problem) == (embed == "nn.Linear"), result


SCORES = """
def raw_pattern(x, num_heads, project_query, project_key):
    q, k = (w(x).unflatten(-1, (num_heads, -1)) for w in (project_query, project_key))
    return torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])


class AttentionPattern(nn.Module):
    def __init__(self, hidden_size, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.project_query = nn.Linear(hidden_size, hidden_size)
        self.project_key = nn.Linear(hidden_size, hidden_size)
        {}

    def forward(self, x):
        return raw_pattern(x, self.num_heads, self.project_query, self.project_key)


def self_attention(x, num_heads, pattern, project_value, project_out):
    v = project_value(x).unflatten(-1, (num_heads, -1))
    return project_out(torch.einsum("bhqk,bkhd->bqhd", pattern.softmax(-1), v).flatten(2))
"""


def test_the_scores_alone_and_a_function_that_is_given_its_parts(tmp_path):
    """What has a projection of values, and does not use it, is none of these."""
    results = check_text(SCORES.format(""), tmp_path)
    assert results["AttentionPattern"].verdict == foreign.NO_VALUES and foreign.NO_VALUES.startswith(foreign.NOTHING)
    assert results["self_attention"].verdict == foreign.GIVEN_PARTS.format("project_value, project_out")
    forgets = SCORES.format("self.project_value = nn.Linear(hidden_size, hidden_size)")
    assert check_text(forgets, tmp_path)["AttentionPattern"].verdict in ("unknown mismatch", "mistake")


class ToTwo(nn.Module):
    def __init__(self, d_model=12, num_heads=3):
        super().__init__()
        own = (nn.MultiheadAttention(d_model, num_heads, batch_first=True) for _ in range(3))
        self.self_attn, self.to_image, self.to_text = own

    def forward(self, x, image, text):
        return self.to_text(self.to_image(self.self_attn(x, x, x)[0], image, image)[0], text, text)[0]


class ToOneTwice(ToTwo):
    def forward(self, x, memory, mask):
        return super().forward(x, memory, memory)


class ToKeysAndValues(ToTwo):
    def forward(self, x, key, value):
        return super().forward(x, key, value)


@pytest.mark.parametrize("cls, of_two", [(ToTwo, True), (ToOneTwice, False), (ToKeysAndValues, False)])
@pytest.mark.parametrize("kind", ["DecoderLayer", "EncoderLayer"])
def test_a_layer_that_attends_to_two_other_sequences_is_of_another_design(kind, cls, of_two):
    """One that attends to the same twice, or is given keys and values apart, may be a decoder's with a mistake."""
    outcome = Outcome(KINDS[kind], candidate=SimpleNamespace(module=cls(), replaced=[], missing=()), form="wrong")
    said = another_sort.name_of(cls, outcome, "crashed", Library(KINDS))
    assert said == ("of a design that is not known here: a layer that attends to two other sequences" if of_two else "")


class SparseMoEBlock(nn.Module):
    def __init__(self, d_model, d_ff, n_experts=4, top_k=2):
        super().__init__()
        self.router, self.top_k = nn.Linear(d_model, n_experts), top_k
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model)) for _ in range(n_experts)
        )

    def forward(self, x):
        values, chosen = self.router(x).topk(self.top_k, -1)
        weights = torch.zeros_like(self.router(x)).scatter(-1, chosen, values.softmax(-1))
        return sum(weights[..., [i]] * expert(x) for i, expert in enumerate(self.experts))


class Alibi(nn.Module):
    def __init__(self, num_heads):
        super().__init__()
        self.register_buffer("slopes", 2.0 ** -(8 / num_heads))

    def forward(self, x):
        return self.alibi_bias(x) + self.slopes

    def alibi_bias(self, x):
        return x


class Windowed(nn.Module):
    def __init__(self, window_size, expertise):
        super().__init__()
        self.window_size, self.relu, self.relative = window_size, nn.ReLU(), expertise


class WindowAttention(Windowed):
    pass


class Prepare(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.linear, self.heads = nn.Linear(d_model, d_model), num_heads

    def forward(self, x):
        return self.linear(x).unflatten(-1, (self.heads, -1))


class Weighs(Prepare):
    def forward(self, x):
        return (x @ x.mT).softmax(-1) @ self.linear(x)


class ChannelMixing(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.Wk, self.Wv = nn.Linear(size, size), nn.Linear(size, size)


class AdditiveAttention(nn.Module):
    def forward(self, queries, keys, values):
        return self.w_v(torch.tanh(queries.unsqueeze(2) + keys.unsqueeze(1))).squeeze(-1).softmax(-1) @ values


class ByDistance(nn.Module):
    def forward(self, q, k, v):
        pos_logits = q @ self.arranged(len(k)).mT
        return (q @ k.mT + pos_logits).softmax(-1) @ v


class PositionalEncoding2D(nn.Module):
    def forward(self, x):
        return x + self.rows + self.columns


class BitLinear(nn.Linear):
    def forward(self, x):
        scale = self.weight.abs().mean()
        return x @ ((self.weight / scale).round().clamp(-1, 1) * scale).T


class OfBits(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.up, self.down = BitLinear(d_model, d_ff), BitLinear(d_ff, d_model)

    def forward(self, x):
        return self.down(self.up(x).relu())


class Positions2Details(nn.Module):
    def forward(self, x):
        return x


class LoRALayer(nn.Module):
    def __init__(self, in_features, out_features, rank=4, alpha=8.0):
        super().__init__()
        self.scaling, self.base = alpha / rank, nn.Linear(in_features, out_features)
        self.lora_a, self.lora_b = nn.Linear(in_features, rank), nn.Linear(rank, out_features)

    def forward(self, x):
        return self.base(x) + self.lora_b(self.lora_a(x)) * self.scaling


class LoRALinear(nn.Module):
    def __init__(self, base_linear, rank=4, alpha=1.0):
        super().__init__()
        self.base_linear, self.scaling = base_linear, alpha / rank
        self.lora_a = nn.Parameter(torch.randn(rank, base_linear.in_features))
        self.lora_b = nn.Parameter(torch.zeros(base_linear.out_features, rank))

    def forward(self, x):
        return self.base_linear(x) + x @ self.lora_a.T @ self.lora_b.T * self.scaling


class Adapted(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.query = LoRALayer(d_model, d_model)


class LowRankLinear(nn.Module):
    def __init__(self, in_features, out_features, rank):
        super().__init__()
        self.down, self.up = nn.Linear(in_features, rank, bias=False), nn.Linear(rank, out_features, bias=False)

    def forward(self, x):
        return self.up(self.down(x))


def test_a_linear_layer_of_low_rank_is_no_network_without_an_activation():
    assert guess.kinds_of("LowRankLinear", LowRankLinear, KINDS) == ()
    assert of_parts(LowRankLinear).endswith("linear layers of low rank, two narrow matrices for one")


@pytest.mark.parametrize("cls", [LoRALayer, LoRALinear])
def test_a_linear_layer_with_narrow_ones_beside_it_is_no_network_and_no_linear_layer_alone(cls):
    assert guess.kinds_of(cls.__name__, cls, KINDS) == ()
    assert of_parts(cls).endswith("(LoRA)")


class Sandwich(nn.Module):
    """Four norms, as in Gemma 2."""

    def __init__(self, d_model):
        super().__init__()
        self.pre_feedforward_layernorm, self.post_feedforward_layernorm = nn.LayerNorm(d_model), nn.LayerNorm(d_model)


class WithAddedMasks(nn.Module):
    """A mask that is added to the scores of attention is no attention by a sum."""

    def forward(self, x, additive_attention_mask):
        per_head_additive_attn_mask = additive_attention_mask.repeat_interleave(2, 0)
        return (x @ x.mT + per_head_additive_attn_mask).softmax(-1) @ x


class AttentionPool(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.query = nn.Parameter(torch.randn(d_model))

    def forward(self, x):
        return ((x @ self.query).softmax(1)[..., None] * x).sum(1)


class FocalLoss(nn.Module):
    def forward(self, logits, target):
        surprise = nn.functional.cross_entropy(logits, target, reduction="none")
        return ((1 - (-surprise).exp()) ** 2 * surprise).mean()


class SmoothLoss(nn.Module):
    """Has the name of a loss that is another in one of its own, and is none of it."""

    def forward(self, logits, target, focal_loss_weight=0.0):
        return nn.functional.cross_entropy(logits, target, label_smoothing=0.1)


class Modulated(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.norm, self.adaLN = nn.LayerNorm(d_model), nn.Linear(d_model, 2 * d_model)

    def forward(self, x, condition):
        scale, shift = self.adaLN(condition)[:, None].chunk(2, -1)
        return self.norm(x) * (1 + scale) + shift


class TimeEmbedding(nn.Module):
    def forward(self, t):
        frequencies = 10000.0 ** -(torch.arange(8) / 8)
        return torch.cat([(t[:, None] * frequencies).sin(), (t[:, None] * frequencies).cos()], -1)


class Capped(nn.Module):
    def __init__(self, d_model, logit_softcap=15.0):
        super().__init__()
        self.head, self.softcap = nn.Linear(d_model, 50), logit_softcap

    def forward(self, x):
        return self.softcap * torch.tanh(self.head(x) / self.softcap)


class Uncapped(Capped):
    def __init__(self, d_model, logit_softcap=None):
        super().__init__(d_model, logit_softcap)
        self.caps = logit_softcap is not None

    def forward(self, x):
        return super().forward(x) if self.caps else self.head(x)


class Weighed(nn.Module):
    def __init__(self, num_layers):
        super().__init__()
        self.resid_lambdas = nn.Parameter(torch.ones(num_layers))

    def forward(self, x, layers):
        for weight, layer in zip(self.resid_lambdas, layers, strict=True):
            x = layer(weight * x)
        return x


@pytest.mark.parametrize(
    "thing, words",
    [
        (Modulated, "(adaLN)"),
        (TimeEmbedding, "a diffusion"),
        (Capped, "(soft-capping)"),
        (Uncapped, ""),
        (Weighed, "numbers weigh"),
        (FocalLoss, "than cross-entropy"),
        (SmoothLoss, ""),
        (AttentionPool, "(pooling)"),
        (Adapted, "(LoRA)"),
        (PositionalEncoding2D, "rows and columns"),
        (OfBits, "few bits"),
        (Positions2Details, ""),
        (ChannelMixing, "place of attention"),
        (AdditiveAttention, "additive attention"),
        (WithAddedMasks, ""),
        (ByDistance, "relative positions"),
        (SparseMoEBlock, "experts"),
        (Alibi, "(ALiBi)"),
        (Sandwich, "after every sublayer"),
        (Windowed, ""),
        (WindowAttention, "sliding window"),
        (Prepare, ""),
        (nn.TransformerEncoderLayer, ""),
    ],
)
def test_designs_by_the_words_of_their_code(thing, words):
    assert design_of(thing).startswith(foreign.NOTHING) == bool(words)
    assert design_of(thing).rstrip(")").endswith(words.rstrip(")")) and bool(design_of(thing)) == bool(words)


def test_what_only_projects_for_attention_attends_to_nothing():
    assert foreign.attends_to_nothing(Prepare, "CausalSelfAttention") == "it attends to nothing"
    assert foreign.attends_to_nothing(Weighs, "CausalSelfAttention") == ""


class OfThree(nn.Module):
    def __init__(self, size, num_heads):
        super().__init__()
        self.num_heads, self.qkv_linear = num_heads, nn.Linear(size, 3 * size)

    def forward(self, x):
        parts = self.qkv_linear(x).chunk(3, dim=-1)
        return [part.view(*x.shape[:2], self.num_heads, -1).transpose(1, 2) for part in parts]


def test_nor_is_it_a_layer():
    assert foreign.attends_to_nothing(OfThree, "DecoderOnlyLayer") == "it attends to nothing"
    assert foreign.attends_to_nothing(Weighs, "DecoderOnlyLayer") == ""


class OfModes(nn.Module):
    """A network whose output is shares of several guesses."""

    def __init__(self, agent_dim: int, num_modes: int, hidden_dim: int = 64):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(agent_dim, hidden_dim), nn.ReLU(), nn.Linear(hidden_dim, num_modes + 1))

    def forward(self, features):
        y = self.mlp(features)
        return {"values": y[..., :-1], "shares": torch.softmax(y, dim=-1)}


class OfWeights(OfModes):
    def forward(self, features):
        return torch.softmax(self.mlp(features), dim=1).transpose(1, 2) @ features


def test_a_softmax_of_the_output_alone_weighs_nothing():
    assert foreign.attends_to_nothing(OfModes, "Encoder") == "it attends to nothing"
    assert foreign.attends_to_nothing(OfWeights, "Encoder") == ""


class OfOneHead(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads):
        super().__init__()
        self.embed, self.head = nn.Embedding(vocab_size, d_model), nn.Linear(d_model, vocab_size)
        self.blocks = nn.TransformerEncoder(nn.TransformerEncoderLayer(d_model, num_heads, batch_first=True), 2)

    def forward(self, ids):
        return self.head(self.blocks(self.embed(ids)))


class OfPatches(OfOneHead):
    def forward(self, x):
        patches = x.unfold(-2, 4, 4).unfold(-1, 4, 4).flatten(1, 2)
        return self.head(self.blocks(patches.flatten(2)))


def test_a_model_of_pytorchs_layers_attends_though_it_has_one_linear_layer():
    assert foreign.attends_to_nothing(OfOneHead, "DecoderOnly") == "" == foreign.why_not(OfOneHead)
    assert foreign.why_not(OfPatches) == "of images: patches"


class OfConfig(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed = nn.Embedding(config.vocab_size, config.n_embd)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size)

    def forward(self, ids):
        return self.lm_head(self.embed(ids))


def test_what_is_given_a_config_alone_is_given_no_part():
    assert foreign.attends_to_nothing(OfConfig, "DecoderOnly") == "it attends to nothing"


def beam_search(model, src, beam_size=4, max_len=20):
    return model(src, beam_size, max_len)


def translate(model, tokenizer, text):
    return tokenizer.decode(beam_search(model, torch.tensor([tokenizer.encode(text)]), beam_size=3))


def answer(text, writer, words):
    ids = torch.tensor(words.encode(text))
    return words.decode(list(writer.predict_ids(ids)))


def write_by_itself(ids, writer, most):
    for _ in range(most):
        ids = torch.cat((ids, writer.predict_next(ids)), dim=1)
    return ids


def test_what_hands_on_to_a_search_is_no_greedy_decoding():
    assert [*map(decoder_within, (answer, write_by_itself))] == ["writer.predict_ids", ""]
    assert decoder_within(translate) == "beam_search"
    assert decoder_within(beam_search) == ""
    for kind, said in (("Transformer", "it leaves the decoding to beam_search"), ("BeamSearch", "")):
        thing = translate if said else beam_search
        assert another_sort.name_of(thing, Outcome(KINDS[kind]), "crashed", Library(KINDS)) == said


@pytest.mark.parametrize("error, verdict, said", [
    (NotInstalled("fast_attention"), "unknown mismatch", "it needs fast_attention, which is not installed"),
    (NotInstalled("fast_attention"), "matches the builtin", ""), (KeyError("fast_attention"), "unknown mismatch", ""),
])  # fmt: skip
def test_what_is_not_understood_beside_an_absent_package_is_said_to_need_it(error, verdict, said):
    library = Library(KINDS)
    library.hear(error)
    assert another_sort.name_of(torch.nn.Linear, Outcome(KINDS["EncoderLayer"]), verdict, library) == said


OF_NETWORKS = """
class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query, self.key, self.value = (self.projection(d_model) for _ in range(3))
        self.out = nn.Linear(d_model, d_model)

    def projection(self, d_model):
        return {made}

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for f in (self.query, self.key, self.value))
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        future = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
        return {factor}self.out((scores.masked_fill(future, float("-inf")).softmax(-1) @ v).transpose(1, 2).flatten(2))
"""


@pytest.mark.parametrize("made, factor, is_other", [
    ("nn.Sequential(nn.Linear(d_model, 9), nn.GELU(), nn.Linear(9, d_model))", "", True),
    ("nn.Linear(d_model, d_model)", "", False), ("nn.Linear(d_model, d_model)", "1.7 ** x * ", False),
])  # fmt: skip
def test_queries_of_a_network_are_another_design(made, factor, is_other, tmp_path):
    (result,) = check_text(OF_NETWORKS.format(made=made, factor=factor), tmp_path).values()
    assert ("made by networks" in result.verdict) == is_other
    assert (result.verdict == "unknown mismatch") == bool(factor)


def test_a_function_that_calls_an_absent_package_needs_it():
    names = {"ops": Missing("other_tensors"), "own": Missing("parts", "there is no own in parts.py")}
    exec("def translate(text): return ops.expand(text)\ndef write(text): return own.words(text)", names)
    assert not_there.asks_for_absent(names["translate"]) == "it needs other_tensors, which is not installed"
    assert not_there.asks_for_absent(names["write"]) == ""


def test_what_is_to_be_given_an_instance_of_an_absent_package_needs_it():
    Turning, own = Missing("fast_rotations"), Missing("parts", "there is no Turning in parts.py")

    def given(turning: Turning = None, other: nn.Module = None): ...

    def given_one_of_a_file(turning: own | None = None): ...

    assert not_there.asks_for_absent(given) == "it needs fast_rotations, which is not installed"
    assert not_there.asks_for_absent(given_one_of_a_file) == ""
    for verdict, said in (("crashed", "it needs fast_rotations, which is not installed"), ("mistake", "")):
        assert another_sort.name_of(given, Outcome(KINDS["EncoderLayer"]), verdict, Library(KINDS)) == said


ACTIVATED = """
class LinearBlock(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear, self.act = nn.Linear(in_features, out_features), nn.GELU()

    def forward(self, x):
        return {output}
"""


@pytest.mark.parametrize("output, verdict", [
    ("self.act(self.linear(x))", foreign.ACTIVATED), ("self.linear(x)", "matches the builtin"),
])  # fmt: skip
def test_a_linear_layer_with_an_activation_is_no_linear_layer(output, verdict, tmp_path):
    (result,) = check_text(ACTIVATED.format(output=output), tmp_path).values()
    assert result.verdict == verdict


class OneAttention(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(size, size) for _ in range(3))


def test_a_model_that_attends_and_has_no_network_is_another_design():
    library = Library(KINDS)
    library.add(OneAttention, ("SelfAttention",))
    alone = nn.Sequential(nn.Embedding(5, 4), OneAttention(4), nn.Linear(4, 5))
    assert only_attends(alone, library)
    for more in (nn.Linear(4, 4), nn.LayerNorm(4)):
        assert not only_attends(nn.Sequential(more, alone), library)
    assert not only_attends(nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 5)), library)


GATE = """
class Linear(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.w = nn.Parameter(torch.randn(d_out, d_in))

    def forward(self, x):
        return x @ self.w.T


class Glu(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.w1, self.w2 = Linear(in_features, out_features), Linear(in_features, out_features)

    def forward(self, x):
        return torch.sigmoid(self.w1(x)) * self.w2(x)
"""
NETWORK = """
class SwiGlu(nn.Module):
    def __init__(self, d_in, d_hidden, d_out):
        super().__init__()
        self.w1, self.w3, self.w2 = nn.Linear(d_in, d_hidden), nn.Linear(d_in, d_hidden), nn.Linear(d_hidden, d_out)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) @ self.w3(x).mT @ self.w3(x))
"""


def test_a_gate_alone_is_no_network_and_a_network_with_a_gate_is_one(tmp_path):
    assert check_text(GATE, tmp_path)["Glu"].verdict.startswith(foreign.SAID.partition("{")[0])
    with time_to_look(LESS):
        assert check_text(NETWORK, tmp_path)["SwiGlu"].verdict in ("unknown mismatch", "mistake")


SINKS = """
class SelfAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0
        self.h, self.d_k = num_heads, d_model // num_heads
        self.NAME = nn.Parameter(torch.empty(num_heads))
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, mask=None):
        q, k, v = (w(x).unflatten(-1, (self.h, self.d_k)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        more = self.NAME.view(1, -1, 1, 1).expand(len(x), -1, x.shape[1], 1)
        weights = torch.cat([scores, more], dim=-1).softmax(-1)[..., :-1]
        return self.w_o((weights @ v).transpose(1, 2).flatten(2))
"""


@pytest.mark.parametrize("name", ["sinks", "others"])
def test_what_is_named_of_another_design_does_not_say_that_its_numbers_are_wrong(tmp_path, name):
    with time_to_look(LESS):
        (result,) = check_text(SINKS.replace("NAME", name), tmp_path).values()
    assert "B22" in result.ids and result.unexplained is (name != "sinks")
    assert any("attention with sinks" in limit for limit in result.limits) is (name == "sinks")


class ScoresByANetwork(nn.Module):
    def __init__(self, hidden, out=2):
        super().__init__()
        self.energy = nn.Linear(2 * hidden, 1)

    def forward(self, context, state):
        joined = torch.cat([context, state.expand_as(context)], -1)
        return (torch.softmax(self.energy(joined), 1) * context).sum(1)


class ScoresInSteps(ScoresByANetwork):
    def __init__(self, hidden):
        super().__init__(hidden)
        self.v = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.Tanh(), nn.Linear(hidden, 1, bias=False))

    def forward(self, context, state):
        energy = self.v(torch.cat([context, state.expand_as(context)], -1))
        scores = energy.squeeze(-1)
        return torch.bmm(scores.softmax(-1).unsqueeze(1), context)


class WeighsInOne(ScoresByANetwork):
    def __init__(self, hidden):
        super().__init__(hidden)
        self.weigh = nn.Sequential(nn.Linear(hidden, 1), nn.Softmax(dim=1))

    def forward(self, context):
        return (self.weigh(context) * context).sum(1)


class ScoresByProducts(ScoresByANetwork):
    def __init__(self, hidden, out=2):
        super().__init__(hidden)
        self.last = nn.Linear(hidden, out)

    def forward(self, context, state):
        return torch.softmax(context @ state.mT, -1) @ context


class AnswersWithOne(ScoresByANetwork):
    def __init__(self, hidden):
        super().__init__(hidden)
        self.last = nn.Linear(hidden, 1)

    def forward(self, context, state):
        weights = torch.softmax(context @ state.mT, -1)
        return self.last(weights @ context)


@pytest.mark.parametrize(
    "cls, is_one",
    [
        (ScoresByANetwork, True),
        (ScoresInSteps, True),
        (WeighsInOne, True),
        (ScoresByProducts, False),
        (AnswersWithOne, False),
    ],
)
def test_a_score_by_one_linear_layer_is_additive_attention(cls, is_one):
    outcome = Outcome(KINDS["ScaledDotProductAttention"])
    found = another_sort.name_of(cls, outcome, "crashed", Library(KINDS))
    assert found.endswith("additive attention") == is_one


class GatedAttention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate = nn.Linear(width, 1)

    def forward(self, x):
        opened = torch.sigmoid(self.gate(x))
        scores = torch.matmul(x, x.transpose(-2, -1)) * opened
        return torch.matmul(torch.softmax(scores, -1), x)


class PlainAttention(GatedAttention):
    def forward(self, x):
        return torch.matmul(torch.softmax(torch.matmul(x, x.transpose(-2, -1)), -1), x)


class AroundAttention(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.attention, self.norm = attention, nn.LayerNorm(4)

    def forward(self, x):
        return self.norm(x + self.attention(x))


@pytest.mark.parametrize("cls, is_one", [(GatedAttention, True), (PlainAttention, False)])
def test_a_layer_is_of_the_design_of_its_attention(cls, is_one):
    said = "of a design that is not known here: attention whose scores go through a linear layer, too" * is_one
    core = Outcome(KINDS["ScaledDotProductAttention"])
    layer = Outcome(KINDS["EncoderLayer"], SimpleNamespace(module=AroundAttention(cls(4)), replaced=True))
    named = [(cls, core, "unknown mismatch"), (AroundAttention, layer, "unknown mismatch")]
    assert [another_sort.name_of(*one, Library(KINDS)) for one in named] == [said, said]


def test_a_design_that_is_an_option_is_not_what_it_is_of():
    class Classifier(nn.Module):
        def __init__(self, d_model, alibi=False):
            super().__init__()
            self.slopes = nn.Parameter(torch.ones(d_model)) if alibi else None

        def forward(self, x, alibi_bias=None):
            return x

    class Biased(Classifier):
        def __init__(self, d_model, alibi=True):
            super().__init__(d_model, alibi=alibi)

        def forward(self, x, alibi_bias=None):
            return x + self.slopes

    class Routed(nn.Module):
        def __init__(self, d_model, n_experts=None):
            super().__init__()
            self.router = None if n_experts is None else nn.Linear(d_model, n_experts)

        def forward(self, x):
            return x

    class Always(Routed):
        def __init__(self, d_model, n_experts=None):
            super().__init__(d_model, n_experts or 4)

    assert (design_of(Classifier), "ALiBi" in design_of(Biased)) == ("", True)
    assert (design_of(Routed), "experts" in design_of(Always)) == ("", True)


NORMS = """
class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm1, self.norm2, self.norm3, self.norm4 = (nn.LayerNorm(d_model) for _ in range(4))

    def forward(self, x, key_padding_mask=None):
        y = self.norm1(x)
        y = self.attention(y, y, y, key_padding_mask=key_padding_mask)[0]
        FIRST
        y = self.down(torch.relu(self.up(self.norm2(x))))
        LAST
"""
AFTER_SUMS = {"FIRST": "x = self.norm3(x + y)", "LAST": "return self.norm4(x + y)"}
SANDWICHES = {"FIRST": "x = x + self.norm3(y)", "LAST": "return x + self.norm4(y)"}
AT_THE_END = {"FIRST": "x = x + y", "LAST": "return self.norm3(x + y)"}
AS_EVER = {"FIRST": "x = x + y", "LAST": "return x + y * y"}
TWICE = "a norm before and one after every sublayer"


@pytest.mark.parametrize(
    "lines, said",
    [(AFTER_SUMS, TWICE), (SANDWICHES, TWICE), (AT_THE_END, "a layer of 3 norms, for 2 sublayers"), (AS_EVER, "")],
    ids=["after sums", "of outputs", "at the end", "not one of them"],
)
def test_a_layer_that_runs_more_norms_than_it_has_sublayers_is_said_to(lines, said, tmp_path):
    """That it is no stack of one layer, with mistakes, is known by its name: class EncoderLayer makes no list."""
    text = NORMS
    for name, line in lines.items():
        text = text.replace(name, line)
    result = check_text(text, tmp_path)["EncoderLayer"]
    assert result.verdict == (another_sort.SAID.format(said) if said else "unknown mismatch")


STACK = """
class Encoder(nn.Module):
    def __init__(self, layers: nn.ModuleList):
        super().__init__()
        self.layers = layers

    def forward(self, x, key_padding_mask=None):
        for layer in self.layers:
            x = layer(x, key_padding_mask)
        return x
"""
UNEVEN = """
class LayerNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return self.scale * (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + 1e-5).sqrt() + self.shift
"""


@pytest.mark.parametrize("norm", ["", UNEVEN], ids=["right", "with a mistake"])
def test_what_is_made_of_layers_of_such_a_design_is_of_that_too(norm, tmp_path):
    layer = NORMS.replace("nn.LayerNorm", "LayerNorm") if norm else NORMS
    for name, line in AT_THE_END.items():
        layer = layer.replace(name, line)
    found = check_text(norm + layer + STACK, tmp_path)
    said = another_sort.SAID.format("a layer of 3 norms, for 2 sublayers")
    for result in (found["EncoderLayer"], found["Encoder"]):
        if not norm:
            assert result.verdict == said
        else:
            assert "LN1" in result.inherited and any(said in limit for limit in result.limits), result
            assert not any("was not found" in limit for limit in result.limits)


class Mixed(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.time_mix, self.decay = nn.Parameter(torch.rand(width)), nn.Parameter(torch.rand(width))

    def forward(self, x, before):
        return self.decay * before + self.time_mix * x


def test_a_recurrence_is_said_to_be_one_whatever_it_is_called():
    assert of_parts(Mixed) == "of a design that is not known here: a recurrence in place of attention"


def test_a_mixture_of_parts_is_said_to_be_one_whatever_it_is_called():
    class Chooser(nn.Module):
        def __init__(self, d_model, num_experts, top_k):
            super().__init__()
            self.gate, self.top_k = nn.Linear(d_model, num_experts), top_k

        def forward(self, x):
            return self.gate(x).topk(self.top_k, -1)

    assert of_parts(Chooser) == "of a design that is not known here: a mixture of experts"
    assert of_parts(nn.Linear) == of_parts(lambda num_experts, topk: num_experts) == ""


RELATIVE = """
class NAME(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.h = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x, table):
        q, k, v = (f(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        places = torch.arange(x.shape[1])
        r = table(places[:, None] - places + len(places) - 1)
        scores = q @ k.transpose(-2, -1) + torch.einsum("bhtd,tsd->bhts", q, r)
        return self.o(((scores / math.sqrt(q.shape[-1])).softmax(-1) @ v).transpose(1, 2).flatten(2))
"""


@pytest.mark.parametrize("name, is_one", [
    ("SelfAttentionRelative", True), ("AttentionRelativeToPlaces", True), ("RelativeSelfAttention", True),
    ("SelfAttention", False),
])  # fmt: skip
def test_attention_that_is_called_relative_is_given_a_table_to_call(name, is_one, tmp_path):
    path = tmp_path / "learner.py"
    path.write_text(f"import math\nimport torch\nfrom torch import nn\n{RELATIVE.replace('NAME', name)}")
    report = reported(path)
    said = any("attention by relative positions" in one for one in report.ignored)
    assert said == is_one, (report.ignored, report.results)
