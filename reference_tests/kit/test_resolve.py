"""From a learner's class to a candidate: settings, masks, weights and ways to call, found by name and by trial."""

import pytest
import torch
from torch import nn

import scratch_transformer.nn
from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit import assert_equivalent, check
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.resolve.build import asked, instance
from scratch_transformer.kit.resolve.build.construct import attempts
from scratch_transformer.kit.resolve.call import masks
from scratch_transformer.kit.resolve.names.inputs import SOURCE_MASK, input_of, is_mask
from scratch_transformer.kit.resolve.names.roles import role_of
from scratch_transformer.kit.resolve.names.settings import settings_of
from scratch_transformer.kit.resolve.names.words import plain
from scratch_transformer.kit.resolve.weights import attention

# ---- Names ----


@pytest.mark.parametrize(
    "name, setting",
    [
        ("d_model", "d_model"), ("embedDim", "d_model"), ("n_embd", "d_model"), ("encoder_embed_dim", "d_model"),
        ("h", "num_heads"), ("nhead", "num_heads"), ("num_attention_heads", "num_heads"), ("dim_head", "d_k"),
        ("ffn_num_hiddens", "d_ff"), ("dim_feedforward", "d_ff"), ("forward_expansion", "d_ff/d_model"),
        ("p_drop", "dropout"), ("block_size", "max_len"), ("trg_vocab_size", "tgt_vocab_size"),
        ("n_layer", "num_layers"), ("L", "num_layers"), ("heads_count", "num_heads"), ("size_of_embedding", "d_model"),
        ("dim_keys", "d_k"),
        ("attention_dropout_rate", "dropout"), ("count_of_layers", "num_layers"), ("kv_heads_num", "num_kv_heads"),
        ("feed_forward_width", "d_ff"), ("ffwhiddendim", "d_ff"), ("maximum_sequence_length", "max_len"),
        ("vocabulary_len", "vocab_size"), ("N_encoder", "num_layers"), ("n_dec", "num_layers"),
        ("hidden_multiplier", "d_ff/d_model"), ("batch_size", "batch"), ("q_input_dim", "d_model"),
        ("vocab_padding", "pad"), ("i_vocab_pad", "pad"), ("pad_vocab_size_multiple", "vocab_size"),
        ("kv_input_dim", "d_model"), ("N_KV_HEAD_REP", "num_heads/num_kv_heads"),
    ],
)  # fmt: skip
def test_settings_by_synonym(name, setting):
    assert settings_of(name)[0] == setting


def test_an_unknown_name_means_nothing():
    assert settings_of("zebra") == ()


def test_a_network_by_its_name_is_no_width():
    assert settings_of("position_ff") == settings_of("positionwise_ffn") == ()
    assert settings_of("hidden_ff") == settings_of("encoder_ff") == ("d_ff",)


@pytest.mark.parametrize(
    "path, role",
    [
        ("W_q.weight", "q"), ("key_proj.bias", "k"), ("to_v.weight", "v"), ("fc_out.weight", "o"),
        ("heads.1.query.weight", "q"),
        ("c_attn.weight", "qkv"), ("c_proj.weight", "o"), ("in_proj_weight", "qkv"), ("to_kv.weight", "kv"),
        ("linears.2.weight", None), ("wo.weight", "o"), ("unifyheads.weight", "o"),
    ],
)  # fmt: skip
def test_roles_of_weights(path, role):
    assert role_of(path) == role


def test_inputs_and_masks_by_synonym():
    assert input_of("encoder_outputs", ("x", "memory")) == "memory"
    assert [input_of(name, ("src", "tgt")) for name in ("source_input", "target_input")] == ["src", "tgt"]
    assert [input_of(name, ("src", "tgt")) for name in ("src_ids_in", "tgt_ids_in", "trg_in")] == ["src", "tgt", "tgt"]
    assert [input_of(name, ("src", "tgt")) for name in ("encoder_out", "tgt_lengths")] == [None, None]
    assert is_mask("src_key_padding_mask") and is_mask("valid_lens") and not is_mask("pad_idx")
    assert is_mask("src_msk") and SOURCE_MASK.search(plain("src_msk")) and SOURCE_MASK.search(plain("e_mask"))
    assert not SOURCE_MASK.search(plain("extended_attention_mask"))


# ---- Construction ----


def test_positional_arguments_config_objects_and_what_is_given():
    class Attention(nn.Module):
        def __init__(self, config, h, bias=False, name="attention"):
            super().__init__()
            self.seen = (config.n_embd, config["emb_dim"], config.get("zebra", 3), h, bias, name)

    settings = {"d_model": 12, "num_heads": 3}
    first = next(attempts(Attention, settings, {}, lambda *_: [], {"h": 6}))
    assert first.build().seen == (12, 12, 3, 6, True, "attention")


class Trained:
    learning_rate = 0.1
    n_heads = 5


class Modelled:
    width, n_heads, ratio = 64, 4, 0.5


class Other(nn.Module):
    def __init__(self, hyper, count, rate, mode, depth=0.5):
        super().__init__()
        self.width, self.ratio = hyper.width, hyper.ratio
        self.drop = nn.Dropout(rate)
        self.many = [nn.Linear(hyper.width, hyper.width) for _ in range(count)]
        self.mode, self.depth = ("sum" if mode == "sum" else 1 / 0), depth


def test_use_tells_what_names_do_not():
    """An object of settings, a dropout, a number of layers, a text; a fraction is never given a whole number."""
    made = next(
        attempts(
            Other,
            {"d_model": 12, "num_layers": 2},
            {"TrainingConfig": Trained, "ModelConfig": Modelled},
            lambda *_: [],
            {},
        )
    )
    made = made.build()
    assert (made.width, made.drop.p, len(made.many), made.mode, made.depth) == (12, 0.0, 2, "sum", 0.5)


def test_an_error_says_what_to_give_instead():
    class Sized(nn.Module):
        def __init__(self, vocab, d_model):
            super().__init__()
            self.table = nn.Embedding(len(vocab), d_model)

    tried = []
    for attempt in attempts(Sized, {"d_model": 12, "vocab_size": 7}, {}, lambda *_: [], {}):
        try:
            tried.append(attempt.build().table.num_embeddings)
            break
        except TypeError:
            tried.append(0)
    assert tried == [0, 7]


# ---- Masks ----


def test_a_mask_is_given_in_any_form():
    keep = torch.tensor([[True, True, False], [True, False, False]])[:, None, None]
    given = masks.Form("1 = blocked", "(B, S)").give(keep, 2, 4, 5, 3)
    assert given.tolist() == [[0, 0, 1], [0, 1, 1]]
    assert masks.Form("True = may attend", "lengths").give(keep, 2, 4, 5, 3).tolist() == [2, 1]
    assert masks.Form("0 or -inf, added", "(B*h, T, S)").give(keep, 2, 4, 5, 3).shape == (8, 5, 3)
    with pytest.raises(masks.Inexpressible):
        masks.Form("True = may attend", "(T, S)").give(keep, 2, 4, 5, 3)


# ---- Weights ----


def named(**shapes):
    start, found = 0, {}
    for name, shape in shapes.items():
        size = torch.Size(shape).numel()
        found[name.replace("__", ".")] = torch.arange(start, start + size).reshape(shape)
        start += size
    return found


def test_four_projections_are_found_by_name():
    weights = named(W_o__weight=(6, 6), W_q__weight=(6, 6), W_k__weight=(6, 6), W_v__weight=(6, 6))
    note, layout = next(attention.layouts(weights, attention.Sizes(6, 2, 2, 3), lambda path: False))
    assert note == "" and torch.equal(layout["w_q.weight"], weights["W_q.weight"])
    assert (layout["w_q.bias"] == -1).all()


def test_packed_by_head_is_among_the_layouts():
    weights = named(qkv__weight=(18, 6), out__weight=(6, 6))
    wanted = weights["qkv.weight"].reshape(2, 3, 3, 6)[:, 1].reshape(6, 6)
    found = [
        layout["w_k.weight"]
        for _, layout in attention.layouts(weights, attention.Sizes(6, 2, 2, 3), lambda path: False)
    ]
    assert torch.equal(found[0], weights["qkv.weight"][6:12])
    assert any(torch.equal(layout, wanted) for layout in found)


# ---- Whole components, in styles that no tutorial of the corpus has ----


class RawHeads(nn.Module):
    """Tensors of three dimensions and einsum; keys blocked where the mask is True; returns a tuple."""

    def __init__(self, model_dim, heads):
        super().__init__()
        d = model_dim // heads
        self.wq, self.wk, self.wv = (nn.Parameter(torch.randn(heads, model_dim, d)) for _ in range(3))
        self.wo = nn.Parameter(torch.randn(heads, d, model_dim))

    def forward(self, queries, keys, values, blocked_mask=None):
        pairs = ((queries, self.wq), (keys, self.wk), (values, self.wv))
        q, k, v = (torch.einsum("bte,hed->bhtd", x, w) for x, w in pairs)
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        if blocked_mask is not None:
            scores = scores.masked_fill(blocked_mask, -torch.inf)
        return scores.softmax(-1), torch.einsum("bhtd,hde->bte", scores.softmax(-1) @ v, self.wo)


class SequenceFirst(nn.Module):
    """Packed, head by head; (length, batch, features); no way to give a mask."""

    def __init__(self, emb, n_head):
        super().__init__()
        self.h = n_head
        self.qkv = nn.Linear(emb, 3 * emb)
        self.proj = nn.Linear(emb, emb)

    def forward(self, x):
        T, B, E = x.shape
        q, k, v = self.qkv(x).view(T, B, self.h, 3, E // self.h).permute(3, 1, 2, 0, 4)
        y = torch.softmax(q @ k.transpose(2, 3) / (E // self.h) ** 0.5, -1) @ v
        return self.proj(y.permute(2, 0, 1, 3).reshape(T, B, E))


class NoScale(SequenceFirst):
    def forward(self, x):
        T, B, E = x.shape
        q, k, v = self.qkv(x).view(T, B, self.h, 3, E // self.h).permute(3, 1, 2, 0, 4)
        y = torch.softmax(q @ k.transpose(2, 3), -1) @ v
        return self.proj(y.permute(2, 0, 1, 3).reshape(T, B, E))


class Linear(nn.Module):
    """A learner's own, W as torch's: (out, in)."""

    def __init__(self, d_in, d_out):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(d_out, d_in))
        self.bias = nn.Parameter(torch.zeros(d_out))

    def forward(self, x):
        return x @ self.weight.T + self.bias


class TheOtherWayRound(nn.Module):
    """W as in the paper, (in, out)."""

    def __init__(self, d_in, d_out):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(d_in, d_out))
        self.bias = nn.Parameter(torch.zeros(d_out))

    def forward(self, x):
        return x @ self.weight + self.bias


TheOtherWayRound.__name__ = "Linear"


def attention_of(linear):
    """An attention whose four projections are of a class."""

    class OwnProjections(nn.Module):
        def __init__(self, d_model, num_heads):
            super().__init__()
            assert d_model % num_heads == 0
            self.h = num_heads
            self.w_q, self.w_k, self.w_v, self.w_o = (linear(d_model, d_model) for _ in range(4))

        def forward(self, query, key, value, mask=None):
            q, k, v = self.w_q(query), self.w_k(key), self.w_v(value)
            q, k, v = (x.unflatten(-1, (self.h, -1)).transpose(1, 2) for x in (q, k, v))
            scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
            scores = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
            return self.w_o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

    return OwnProjections


@pytest.mark.parametrize("linear", [Linear, TheOtherWayRound, scratch_transformer.nn.Linear])
def test_square_projections_of_a_linear_layer_that_is_not_torchs(linear):
    result = check(attention_of(linear), "MultiheadAttention")
    assert result.verdict == "matches the builtin", result


def test_raw_tensors_and_a_blocking_mask():
    result = check(RawHeads, "MultiheadAttention")
    assert result.verdict == "matches the paper, not the builtin" and result.ids == ["A14"], result
    assert any("True = blocked" in note for note in result.notes)


def test_sequence_first_and_packed_by_head():
    result = check(SequenceFirst, "SelfAttention")
    assert result.verdict == "harmless deviation" and result.ids == ["A19"], result
    assert any("sequence first" in note for note in result.notes)


def test_a_mistake_is_named_whatever_the_style():
    assert check(NoScale, "SelfAttention").ids == ["A1", "A19"]


def test_an_instance_keeps_its_weights():
    norm = nn.LayerNorm(6)
    before = {name: values.clone() for name, values in norm.state_dict().items()}
    assert_equivalent(norm, "LayerNorm")
    assert all(torch.equal(values, before[name]) for name, values in norm.state_dict().items())


def test_the_assertion_has_the_diagnosis():
    with pytest.raises(AssertionError, match="A1"):
        assert_equivalent(NoScale(8, 2), "SelfAttention")


def test_a_kind_that_is_not_known_is_refused():
    with pytest.raises(ValueError, match="no kind of component is called 'Zebra'"):
        check(nn.LayerNorm(6), "Zebra")


def test_what_has_no_place_for_the_weights_of_a_kind_is_not_of_that_kind():
    """A norm undoes what matrices of ones would do: with them in place of the weights, its numbers would agree."""

    class LayerNorm(nn.Module):
        def __init__(self, ndim, bias):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(ndim))
            self.bias = nn.Parameter(torch.zeros(ndim)) if bias else None

        def forward(self, input):
            return torch.nn.functional.layer_norm(input, self.weight.shape, self.weight, self.bias, 1e-5)

    assert check(LayerNorm).verdict == "matches the builtin"
    assert check(LayerNorm, "FeedForward").verdict == "unknown mismatch"


class OneHead(nn.Module):
    def __init__(self, d_in, d_out, context_length, bias=True):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(d_in, d_out, bias) for _ in range(3))
        self.register_buffer("seen", torch.ones(context_length, context_length).tril())

    def forward(self, x):
        T = x.shape[1]
        scores = self.q(x) @ self.k(x).mT / self.k.out_features**0.5
        return scores.masked_fill(self.seen[:T, :T] == 0, float("-inf")).softmax(-1) @ self.v(x)


class JoinedHeads(nn.Module):
    def __init__(self, d_in, d_out, context_length, num_heads):
        super().__init__()
        self.heads = nn.ModuleList(OneHead(d_in, d_out, context_length) for _ in range(num_heads))

    def forward(self, x):
        return torch.cat([head(x) for head in self.heads], dim=-1)


@pytest.mark.parametrize("cls", [OneHead, JoinedHeads])
def test_one_head_and_heads_of_a_width_of_their_own(cls):
    result = check(cls, "CausalSelfAttention")
    assert result.verdict == "matches the builtin", result


def test_one_head_is_asked_for_first_where_nothing_speaks_of_heads():
    assert asked.is_one_head(OneHead) and not asked.is_one_head(JoinedHeads)
    assert not asked.is_one_head(nn.MultiheadAttention)


def test_a_config_that_may_name_a_preset_names_none():
    class Norm(nn.Module):
        def __init__(self, config):
            super().__init__()
            if config.model_type is not None:
                raise KeyError(config.model_type)
            self.norm = nn.LayerNorm(config.n_embd)

        def forward(self, x):
            return self.norm(x)

    assert check(Norm, "LayerNorm").verdict == "matches the builtin"


PRESET = """
import types
import torch.nn as nn

class Norm(nn.Module):
    @staticmethod
    def get_default_config():
        return types.SimpleNamespace(model_type="gpt", n_embd=None)

    def __init__(self, config):
        super().__init__()
        assert (config.model_type is not None) ^ (config.n_embd is not None)
        self.norm = nn.LayerNorm(config.n_embd)

    def forward(self, x):
        return self.norm(x)

config = Norm.get_default_config()
"""


def test_a_preset_of_the_file_s_own_config_gives_way_to_sizes(tmp_path):
    assert check_text(PRESET, tmp_path)["Norm"].verdict == "matches the builtin"


class AddNorm(nn.Module):
    def __init__(self, d_model, dropout=0.1):
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, sublayer):
        return x + self.dropout(sublayer(x))


class Add(AddNorm):
    def __init__(self, d_model, dropout=0.1):
        super().__init__(d_model, dropout)
        del self.norm


def test_a_sum_without_a_norm_is_a_mistake_only_where_a_norm_was_made():
    assert check(AddNorm, "ResidualConnection").ids == ["B14"]
    assert check(Add, "ResidualConnection").ids == []


class Looked(nn.Module):
    def __init__(self, d_model, d_ff, kind="ReLu"):
        super().__init__()
        table = {"GELU": nn.GELU(), "ReLU": nn.ReLU()}
        self.act = table.get(kind)
        if self.act is None:
            raise KeyError("unknown activation")
        self.one, self.two = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.two(self.act(self.one(x)))


def test_a_text_that_a_class_does_not_know_is_replaced_by_one_that_it_does():
    tried = attempts(Looked, {"d_model": 12, "d_ff": 17}, {}, lambda name: [], {})
    built = [attempt.args for attempt in tried if _builds(attempt)]
    assert built[0]["kind"] == "ReLU"


def _builds(attempt):
    try:
        return attempt.build() is not None
    except KeyError:
        return False


class EightHeads(nn.Module):
    """How many heads there are is written into it; twelve features have no eight."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, 8, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x):
        x = self.norm1(x + self.attention(x, x, x, need_weights=False)[0])
        return self.norm2(x + self.ff(x))


class HeadSize(nn.Module):
    """head_size is the number of heads."""

    def __init__(self, hidden_size, head_size=8):
        super().__init__()
        self.head_size, self.width = head_size, hidden_size // head_size
        self.q, self.k, self.v, self.out = (nn.Linear(hidden_size, hidden_size) for _ in range(4))

    def forward(self, q, k, v):
        q, k, v = (
            project(x).unflatten(-1, (self.head_size, self.width)).transpose(1, 2)
            for project, x in ((self.q, q), (self.k, k), (self.v, v))
        )
        weights = torch.softmax(q @ k.mT * self.width**-0.5, dim=-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


def test_sizes_that_are_written_into_a_class_are_built_for():
    assert check(EightHeads, "EncoderLayer").verdict == "matches the builtin"
    assert check(HeadSize, "MultiheadAttention").verdict == "matches the builtin"


class NarrowHead(nn.Module):
    """hidden_size may be the width of a feed-forward, which three heads do not divide."""

    def __init__(self, hidden_size, head_dim):
        super().__init__()
        self.query, self.key = nn.Linear(hidden_size, head_dim), nn.Linear(hidden_size, head_dim)


def test_no_width_is_read_from_shapes_that_its_heads_do_not_divide():
    kind = KINDS["MultiheadAttention"]
    made = NarrowHead(17, 4)
    assert instance.settings_of_instance(made, kind, {"d_model": 12, "num_heads": 3}, {})["d_model"] == 12


@pytest.mark.parametrize("rows, words", [(14, 14), (1, 11), (2, 11)])
def test_a_table_of_one_or_two_rows_is_none_of_words(rows, words):
    made = nn.ModuleDict({"words": nn.Embedding(rows, 12)})
    found = instance.settings_of_instance(made, KINDS["TokenEncoder"], {"d_model": 12, "vocab_size": 11}, {})
    assert found["vocab_size"] == words


class Worded(nn.Module):
    """Is given one vocabulary itself and the size of another, and a config inside the config."""

    def __init__(self, config, src_vocab, tgt_vocab_size):
        super().__init__()
        self.embedding = nn.Embedding(len(src_vocab), config.block_params.d_model)
        self.other = nn.Embedding(tgt_vocab_size, config.block_params.d_model)


def test_a_vocabulary_is_given_where_its_length_is_taken_and_a_section_of_a_config():
    tried = attempts(Worded, {"d_model": 12, "num_heads": 3}, {}, lambda name: [], {})
    built = next(attempt for attempt in tried if _made(attempt))
    made = built.build()
    assert tuple(made.embedding.weight.shape) == (11, 12)
    assert tuple(made.other.weight.shape) == (13, 12)


def _made(attempt):
    try:
        return attempt.build() is not None
    except (TypeError, AttributeError):
        return False


class OfSections(nn.Module):
    def __init__(self, conf):
        super().__init__()
        self.embedding = nn.Embedding(conf.tokenizer.vocabulary_size, conf.net.hidden_dim)


def test_what_a_config_is_read_through_is_a_section():
    tried = attempts(OfSections, {"d_model": 12, "num_heads": 3, "vocab_size": 11}, {}, lambda name: [], {})
    built = next(attempt for attempt in tried if _made(attempt)).build()
    assert tuple(built.embedding.weight.shape) == (11, 12)


def test_a_list_of_nothing_counts_no_layers():
    """What copies a layer that it was not given: nn.ModuleList([copy.deepcopy(None) for _ in range(n)])."""
    made = nn.Module()
    made.layers = nn.ModuleList([None, None])
    assert instance._layers_of(made, 3) == 3 and instance._layers(made) == 0
