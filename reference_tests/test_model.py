"""The tutorials' model is `torch.nn.Transformer` between embedding and projection, in its outputs and all gradients."""

import copy
import inspect
import math
import pickle

import pytest
import torch
from torch import nn

from reference_tests.model_pair import (
    D_FF,
    D_MODEL,
    SRC_LENGTH,
    SRC_PAD,
    SRC_VOCAB,
    TGT_LENGTH,
    TGT_VOCAB,
    B,
    H,
    N,
    S,
    T,
    TorchModel,
    assert_equal,
    draw_ids,
    formula_of_the_paper,
    gradients,
    our_masks,
    randomised,
    small_model,
)
from scratch_transformer import masks, model
from scratch_transformer.model import (
    FeedForwardBlock,
    InputEmbeddings,
    LayerNormalization,
    MultiHeadAttentionBlock,
    PositionalEncoding,
    build_transformer,
)


@pytest.fixture(autouse=True)
def _in_float64(device):
    torch.set_default_dtype(torch.float64)
    if device.type != "cpu":
        torch.set_default_device(device)
    yield
    torch.set_default_device(None)
    torch.set_default_dtype(torch.float32)


# ---- Equality with torch ----


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("padding", ["right", "left", "none"])
def test_logits_and_gradients_are_torchs(norm, padding):
    ours = small_model(norm=norm)
    theirs = TorchModel(ours, norm_first=norm == "pre")
    src, tgt = draw_ids(padding)
    our_logits, their_logits = ours(src, tgt, *our_masks(src, tgt)), theirs(src, tgt)
    upstream = torch.randn_like(their_logits)
    our_logits.backward(upstream)
    their_logits.backward(upstream)
    assert our_logits.shape == (B, T, TGT_VOCAB)
    assert_equal({"logits": our_logits}, {"logits": their_logits})
    assert_equal(gradients(ours), theirs.gradients())


@pytest.mark.parametrize("depth", [1, 3])
def test_another_number_of_decoder_layers(depth):
    ours = small_model(decoder_N=depth)
    assert (len(ours.encoder.layers), len(ours.decoder.layers)) == (N, depth)
    theirs, (src, tgt) = TorchModel(ours, norm_first=True), draw_ids()
    our_logits, their_logits = ours(src, tgt, *our_masks(src, tgt)), theirs(src, tgt)
    assert_equal({"logits": our_logits}, {"logits": their_logits})
    our_logits.square().sum().backward()
    their_logits.square().sum().backward()
    assert_equal(gradients(ours), theirs.gradients())


class ContiguousDropout(nn.Dropout):
    """Torch draws a dropout's numbers in the order of the memory. Its attention returns a (B, T, E) that lies in memory
    as (T, B, E), ours does not: the same numbers would fall on other elements.
    """

    def forward(self, input):
        return super().forward(input.contiguous())


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_training_with_dropout_is_torchs(norm, device):
    if device.type != "cpu":
        pytest.skip("only on CPU do both sides draw the same random numbers")
    ours = small_model(dropout=0.3, norm=norm)
    theirs = TorchModel(ours, norm_first=norm == "pre", dropout=0.3)
    for layer in [*theirs.transformer.encoder.layers, *theirs.transformer.decoder.layers]:
        for name in ("dropout1", "dropout2", "dropout3"):
            if hasattr(layer, name):
                setattr(layer, name, ContiguousDropout(0.3))
    src, tgt = draw_ids()
    torch.manual_seed(7)
    our_logits = ours(src, tgt, *our_masks(src, tgt))
    torch.manual_seed(7)
    their_logits = theirs(src, tgt)
    our_logits.square().sum().backward()
    their_logits.square().sum().backward()
    assert_equal({"logits": our_logits}, {"logits": their_logits})
    assert_equal(gradients(ours), theirs.gradients())
    assert not torch.allclose(our_logits, ours.eval()(src, tgt, *our_masks(src, tgt)), rtol=0.1)


def test_in_evaluation_there_is_no_dropout():
    transformer, without = small_model(dropout=0.5).eval(), small_model(dropout=0.0)
    without.load_state_dict(transformer.state_dict())
    src, tgt = draw_ids()
    arguments = (src, tgt, *our_masks(src, tgt))
    assert torch.equal(transformer(*arguments), without(*arguments))


def test_multi_head_attention_and_its_weights_are_torchs():
    ours = randomised(MultiHeadAttentionBlock(D_MODEL, H, 0.0))
    theirs = nn.MultiheadAttention(D_MODEL, H, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.w_q.weight, ours.w_k.weight, ours.w_v.weight]))
        theirs.in_proj_bias.copy_(torch.cat([ours.w_q.bias, ours.w_k.bias, ours.w_v.bias]))
        theirs.out_proj.load_state_dict(ours.w_o.state_dict())
    q, k, v = torch.randn(B, T, D_MODEL), torch.randn(B, S, D_MODEL), torch.randn(B, S, D_MODEL)
    keep = torch.rand(B, 1, T, S) < 0.6
    keep[..., 0] = True  # torch's weights are NaN where nothing may be attended to
    ours.keep_attention_weights = True
    output = ours(q, k, v, keep)
    blocked = ~keep.expand(B, H, T, S).flatten(0, 1)
    expected, expected_weights = theirs(q, k, v, attn_mask=blocked, average_attn_weights=False)
    assert_equal({"output": output}, {"output": expected})
    assert_equal({"weights": ours.attention_weights}, {"weights": expected_weights})


@pytest.mark.parametrize("eps", [1e-5, 1e-3])
def test_layer_normalization_is_torchs_also_where_eps_counts(eps):
    ours, theirs = randomised(LayerNormalization(D_MODEL, eps)), nn.LayerNorm(D_MODEL, eps)
    theirs.load_state_dict({"weight": ours.alpha, "bias": ours.bias})
    x = torch.randn(B, T, D_MODEL) * torch.logspace(-4, 1, T).unsqueeze(1) + 3
    assert_equal({"y": ours(x)}, {"y": theirs(x)})


def test_embedding_is_torchs_times_the_root_of_d_model():
    ours = randomised(InputEmbeddings(D_MODEL, SRC_VOCAB))
    ids = torch.randint(SRC_VOCAB, (B, S))
    expected = nn.functional.embedding(ids, ours.embedding.weight) * math.sqrt(D_MODEL)
    assert_equal({"vectors": ours(ids)}, {"vectors": expected})


def test_feed_forward_is_the_papers_equation():
    ours = randomised(FeedForwardBlock(D_MODEL, D_FF, 0.0))
    x = torch.randn(B, T, D_MODEL)
    W_1, b_1, W_2, b_2 = ours.linear_1.weight.T, ours.linear_1.bias, ours.linear_2.weight.T, ours.linear_2.bias
    assert_equal({"y": ours(x)}, {"y": (x @ W_1 + b_1).clamp(min=0) @ W_2 + b_2})


# ---- Positions ----


@pytest.mark.parametrize("d_model", [1, 2, 7, 12])
def test_positions_are_the_papers_also_for_odd_d_model(d_model):
    encoding = PositionalEncoding(d_model, 50, dropout=0.0)
    x = torch.randn(B, T, d_model)
    assert encoding.pe.shape == (1, 50, d_model)
    assert_equal({"pe": encoding.pe[0].cpu()}, {"pe": formula_of_the_paper(50, d_model)})
    assert_equal({"sum": encoding(x)}, {"sum": x + encoding.pe[0, :T]})


def test_positions_are_state_but_not_trained_unless_learned():
    fixed, learned = PositionalEncoding(D_MODEL, S, 0.0), PositionalEncoding(D_MODEL, S, 0.0, learned=True)
    assert list(fixed.state_dict()) == list(learned.state_dict()) == ["pe"]
    assert not list(fixed.parameters())
    assert [name for name, _ in learned.named_parameters()] == ["pe"]
    learned(torch.zeros(B, 3, D_MODEL)).sum().backward()
    assert_equal({"gradient": learned.pe.grad[:, 0]}, {"gradient": torch.tensor([B, B, B, 0.0, 0.0])})


def test_learned_positions_are_drawn_like_every_matrix():
    transformer = build_transformer(4, 4, 100, 200, d_model=30, N=1, h=2, positions="learned")
    for pe, length in ((transformer.src_pos.pe, 100), (transformer.tgt_pos.pe, 200)):
        bound = math.sqrt(6 / (length + 30))
        assert pe.shape == (length, 30)
        assert 0.95 * bound < pe.abs().max() <= bound


def test_an_odd_d_model_goes_through_the_whole_model():
    transformer = build_transformer(SRC_VOCAB, TGT_VOCAB, SRC_LENGTH, TGT_LENGTH, d_model=9, N=1, h=3, d_ff=D_FF)
    src, tgt = draw_ids()
    assert transformer(src, tgt, *our_masks(src, tgt)).isfinite().all()


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_a_sequence_may_be_as_long_as_seq_len_and_not_longer(positions):
    transformer = small_model(positions=positions)
    full = torch.zeros(B, SRC_LENGTH, dtype=torch.long)
    assert transformer.encode(full).shape == (B, SRC_LENGTH, D_MODEL)
    with pytest.raises(ValueError, match=r"a sequence of 12 tokens is longer than seq_len=11"):
        transformer.encode(torch.zeros(B, SRC_LENGTH + 1, dtype=torch.long))
    with pytest.raises(ValueError, match=r"a sequence of 20 tokens is longer than seq_len=13"):
        transformer(full, torch.zeros(B, 20, dtype=torch.long))


# ---- Masks and attention weights ----


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.int32, torch.float32, torch.float64], ids=str)
def test_the_tutorials_masks_of_any_dtype_are_the_boolean_ones(dtype):
    transformer = small_model()
    src, tgt = draw_ids("left")
    src_mask, tgt_mask = our_masks(src, tgt)
    expected = transformer(src, tgt, src_mask, tgt_mask)
    assert torch.equal(transformer(src, tgt, src_mask.to(dtype), tgt_mask.to(dtype)), expected)
    assert not torch.allclose(transformer(src, tgt), expected)


def test_a_mask_may_be_broadcast_from_two_dimensions():
    transformer = small_model()
    src, tgt = draw_ids("none")
    four, two = masks.causal(T).expand(B, 1, T, T), masks.causal(T)
    assert torch.equal(transformer(src, tgt, None, four), transformer(src, tgt, None, two))


def test_later_and_padded_tokens_have_no_influence():
    transformer = small_model()
    src, tgt = draw_ids("right")
    masks_of = our_masks(src, tgt)
    logits = transformer(src, tgt, *masks_of)
    src[1, -2:], tgt[0, 4:] = 5, 6  # padding of the source, the future of the target
    changed = transformer(src, tgt, *masks_of)
    assert torch.equal(changed[0, :4], logits[0, :4])
    assert torch.equal(changed[1], logits[1])
    assert not torch.allclose(changed[0, 4:], logits[0, 4:])


def test_a_query_without_any_key_yields_the_bias_of_the_output_projection():
    attention = randomised(MultiHeadAttentionBlock(D_MODEL, H, 0.0))
    x = torch.randn(B, T, D_MODEL)
    assert torch.equal(attention(x, x, x, torch.zeros(T, T)), attention.w_o.bias.expand(B, T, D_MODEL))


def test_attention_weights_are_kept_only_when_asked_and_without_graph_or_dropout():
    attention = randomised(MultiHeadAttentionBlock(D_MODEL, H, dropout=0.5)).train()
    x = torch.randn(B, T, D_MODEL, requires_grad=True)
    mask = masks.causal(T)
    attention(x, x, x, mask)
    assert attention.attention_weights is None
    assert attention.keep_attention_weights is False
    attention.keep_attention_weights = True
    attention(x, x, x, mask)
    weights = attention.attention_weights
    assert weights.shape == (B, H, T, T)
    assert not weights.requires_grad
    assert weights.grad_fn is None
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, H, T))
    assert not weights[..., ~mask].any()
    assert "attention_weights" not in attention.state_dict()


def test_keeping_the_weights_changes_no_output():
    attention = randomised(MultiHeadAttentionBlock(D_MODEL, H, dropout=0.5)).train()
    x = torch.randn(B, T, D_MODEL)
    outputs = []
    for keep in (False, True):
        attention.keep_attention_weights = keep
        torch.manual_seed(3)
        outputs.append(attention(x, x, x))
    assert torch.equal(*outputs)


# ---- Options ----


def test_the_parameters_have_the_tutorials_names():
    names = set(build_transformer(3, 4, 5, 6, d_model=8, N=1, h=2, d_ff=9, attention_bias=False).state_dict())
    attention = ["w_q.weight", "w_k.weight", "w_v.weight", "w_o.weight"]
    feed_forward = ["linear_1.weight", "linear_1.bias", "linear_2.weight", "linear_2.bias"]
    expected = {"src_pos.pe", "tgt_pos.pe", "src_embed.embedding.weight", "tgt_embed.embedding.weight"}
    expected |= {"projection_layer.proj.weight", "projection_layer.proj.bias"}
    for stack, blocks in (
        ("encoder", ["self_attention_block"]),
        ("decoder", ["self_attention_block", "cross_attention_block"]),
    ):
        layer = f"{stack}.layers.0"
        expected |= {f"{layer}.{block}.{name}" for block in blocks for name in attention}
        expected |= {f"{layer}.feed_forward_block.{name}" for name in feed_forward}
        norms = [f"{layer}.residual_connections.{i}.norm" for i in range(len(blocks) + 1)] + [f"{stack}.norm"]
        expected |= {f"{norm}.{name}" for norm in norms for name in ("alpha", "bias")}
    assert names == expected


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("InputEmbeddings", ["d_model", "vocab_size"]),
        ("PositionalEncoding", ["d_model", "seq_len", "dropout"]),
        ("LayerNormalization", ["features", "eps"]),
        ("FeedForwardBlock", ["d_model", "d_ff", "dropout"]),
        ("MultiHeadAttentionBlock", ["d_model", "h", "dropout"]),
        ("ResidualConnection", ["features", "dropout"]),
        ("EncoderBlock", ["features", "self_attention_block", "feed_forward_block", "dropout"]),
        ("Encoder", ["features", "layers"]),
        (
            "DecoderBlock",
            ["features", "self_attention_block", "cross_attention_block", "feed_forward_block", "dropout"],
        ),
        ("Decoder", ["features", "layers"]),
        ("ProjectionLayer", ["d_model", "vocab_size"]),
        ("Transformer", ["encoder", "decoder", "src_embed", "tgt_embed", "src_pos", "tgt_pos", "projection_layer"]),
        (
            "build_transformer",
            ["src_vocab_size", "tgt_vocab_size", "src_seq_len", "tgt_seq_len", "d_model", "N", "h", "dropout", "d_ff"],
        ),
    ],
)
def test_the_tutorials_arguments_come_first_and_the_rest_has_defaults(name, arguments):
    parameters = list(inspect.signature(getattr(model, name)).parameters.values())
    assert [parameter.name for parameter in parameters[: len(arguments)]] == arguments
    assert all(parameter.default is not inspect.Parameter.empty for parameter in parameters[len(arguments) :])


def test_the_blocks_are_pre_norm_unless_told_otherwise():
    attention, feed_forward = model.MultiHeadAttentionBlock(4, 2, 0.1), model.FeedForwardBlock(4, 6, 0.1)
    blocks = [
        model.EncoderBlock(4, attention, feed_forward, 0.1),
        model.DecoderBlock(4, attention, attention, feed_forward, 0.1),
    ]
    for connection in [model.ResidualConnection(4, 0.1), *(c for b in blocks for c in b.residual_connections)]:
        assert connection.norm_first is True
    for stack in (model.Encoder, model.Decoder):
        assert isinstance(stack(4, nn.ModuleList()).norm, model.LayerNormalization)


def test_build_transformer_has_the_papers_base_model_as_default():
    defaults = {name: p.default for name, p in inspect.signature(build_transformer).parameters.items()}
    assert [defaults[name] for name in ("d_model", "N", "h", "dropout", "d_ff")] == [512, 6, 8, 0.1, 2048]
    with torch.device("meta"):  # takes no memory
        base = build_transformer(5, 7, 3, 4)
    assert (len(base.encoder.layers), len(base.decoder.layers)) == (6, 6)
    block = base.decoder.layers[5]
    assert (block.self_attention_block.h, block.self_attention_block.dropout.p) == (8, 0.1)
    assert block.feed_forward_block.linear_1.weight.shape == (2048, 512)


def test_one_head_is_enough():
    x, block = torch.randn(2, 3, 4), model.MultiHeadAttentionBlock(4, 1, 0.0)
    weights = torch.softmax(block.w_q(x) @ block.w_k(x).transpose(1, 2) / 2, dim=-1)
    torch.testing.assert_close(block(x, x, x), block.w_o(weights @ block.w_v(x)))


def test_matrices_are_drawn_by_glorots_rule_and_normalizations_start_as_identity():
    transformer = build_transformer(300, 400, 5, 5, d_model=60, N=1, h=5, d_ff=200)
    for name, parameter in transformer.named_parameters():
        if parameter.dim() == 2:
            bound = math.sqrt(6 / sum(parameter.shape))
            assert 0.98 * bound < parameter.abs().max() <= bound, name
            assert abs(parameter.mean()) < 0.05 * bound, name
        elif name.endswith("alpha"):
            assert (parameter == 1).all(), name
        elif "norm" in name:
            assert not parameter.any(), name


def test_layers_share_no_parameters():
    transformer = small_model()
    addresses = [parameter.data_ptr() for parameter in transformer.parameters()]
    assert len(set(addresses)) == len(addresses)


@pytest.mark.parametrize(("share", "matrices"), [("none", 3), ("target", 2), ("all", 1)])
def test_shared_embeddings_are_one_parameter(share, matrices):
    vocabularies = (TGT_VOCAB, TGT_VOCAB) if share == "all" else (SRC_VOCAB, TGT_VOCAB)
    transformer = build_transformer(*vocabularies, S, T, D_MODEL, N=1, h=H, d_ff=D_FF, share_embeddings=share)
    for candidate in (transformer, copy.deepcopy(transformer), pickle.loads(pickle.dumps(transformer))):
        source, target = candidate.src_embed.embedding.weight, candidate.tgt_embed.embedding.weight
        projection = candidate.projection_layer.proj.weight
        assert len({id(source), id(target), id(projection)}) == matrices
        assert (target is projection) == (share != "none")


def test_a_shared_matrix_gets_the_sum_of_the_gradients():
    shared = randomised(build_transformer(TGT_VOCAB, TGT_VOCAB, S, T, D_MODEL, N, H, 0.0, D_FF, share_embeddings="all"))
    apart = build_transformer(TGT_VOCAB, TGT_VOCAB, S, T, D_MODEL, N, H, 0.0, D_FF)
    apart.load_state_dict(shared.state_dict())
    src, tgt = draw_ids("none")
    for transformer in (shared, apart):
        transformer(src, tgt, *our_masks(src, tgt)).square().sum().backward()
    parts = [apart.src_embed.embedding, apart.tgt_embed.embedding, apart.projection_layer.proj]
    expected = sum(part.weight.grad for part in parts)
    assert_equal({"gradient": shared.projection_layer.proj.weight.grad}, {"gradient": expected})


def test_post_norm_has_no_final_normalization():
    assert [getattr(small_model(norm="post"), stack).norm for stack in ("encoder", "decoder")] == [None, None]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"norm": "Pre"}, ValueError, "norm must be one of pre, post, but is 'Pre'"),
        ({"positions": "none"}, ValueError, "positions must be one of sinusoidal, learned, but is 'none'"),
        ({"share_embeddings": True}, ValueError, "share_embeddings must be one of none, target, all, but is True"),
        ({"share_embeddings": "all"}, ValueError, "needs one vocabulary, but src_vocab_size=19 and tgt_vocab_size=23"),
        ({"h": 5}, AssertionError, "h must divide d_model, but d_model=12 and h=5"),
        ({"h": 0}, AssertionError, "h must divide d_model, but d_model=12 and h=0"),
        ({"dropout": 1.5}, ValueError, "between 0 and 1, but got 1.5"),
    ],
    ids=str,
)
def test_options_that_do_not_fit_are_refused(options, error, message):
    arguments = {"d_model": D_MODEL, "h": H, "N": N} | options
    with pytest.raises(error, match=message):
        build_transformer(SRC_VOCAB, TGT_VOCAB, S, T, **arguments)


# ---- Compiling and exporting ----


@pytest.mark.long
def test_compiles_into_one_graph():
    transformer = small_model()
    src, tgt = draw_ids()
    arguments = (src, tgt, *our_masks(src, tgt))
    compiled = torch.compile(transformer, fullgraph=True, backend="aot_eager")
    assert_equal({"logits": compiled(*arguments)}, {"logits": transformer(*arguments)})


def test_exports():
    transformer = small_model().eval()
    src, tgt = draw_ids()
    arguments = (src, tgt, *our_masks(src, tgt))
    exported = torch.export.export(transformer, arguments).module()
    other_src, other_tgt = draw_ids("left")
    others = (other_src, other_tgt, *our_masks(other_src, other_tgt))
    assert_equal({"logits": exported(*others)}, {"logits": transformer(*others)})
    assert SRC_PAD in other_src
