"""Weights move between our model and `torch.nn.Transformer`, and from the tutorials' classes to ours."""

import io

import pytest
import torch
from torch import nn

from reference_tests.as_taught import tutorial_b, tutorial_e
from reference_tests.as_taught.assembled import model_of_tutorial_a, model_of_tutorial_d
from reference_tests.model_pair import (
    D_FF,
    D_MODEL,
    SRC_LENGTH,
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
    gradients,
    our_masks,
    randomised,
    small_model,
)
from scratch_transformer import conversion, model
from scratch_transformer.conversion import (
    LayerNormalizationAsTaught,
    from_torch,
    load_tutorial,
    normalize_as_taught,
    to_torch,
)


@pytest.fixture(autouse=True)
def _in_float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def assert_same_state(ours, theirs):
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], values) for name, values in theirs.items())


# ---- torch.nn.Transformer ----


def stacks_of(state):
    return {name: values for name, values in state.items() if name.startswith(("encoder.", "decoder."))}


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_round_trip_from_ours_is_bitwise(norm):
    state = small_model(norm=norm).state_dict()
    assert_same_state(from_torch(to_torch(state)), stacks_of(state))


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize(("encoder_layers", "decoder_layers"), [(2, 2), (1, 3), (11, 1)])
def test_round_trip_from_torch_is_bitwise_and_its_names_are_all_there(encoder_layers, decoder_layers):
    theirs = randomised(nn.Transformer(D_MODEL, H, encoder_layers, decoder_layers, D_FF))
    state = theirs.state_dict()
    assert_same_state(to_torch(from_torch(state)), state)


def test_torchs_weights_load_into_our_model():
    ours, other = small_model(), small_model()
    theirs = TorchModel(other, norm_first=True)
    outside = {name: values for name, values in ours.state_dict().items() if name not in stacks_of(ours.state_dict())}
    ours.load_state_dict(ours.state_dict() | from_torch(theirs.transformer.state_dict()))
    assert_same_state(ours.state_dict(), outside | stacks_of(other.state_dict()))


def test_torchs_default_of_post_norm_with_final_norms():
    ours = small_model(norm="post")
    ours.encoder.norm = randomised(model.LayerNormalization(D_MODEL))
    ours.decoder.norm = randomised(model.LayerNormalization(D_MODEL))
    theirs = TorchModel(ours, norm_first=False, final_norm=True)
    src, tgt = draw_ids()
    our_logits, their_logits = ours(src, tgt, *our_masks(src, tgt)), theirs(src, tgt)
    our_logits.square().sum().backward()
    their_logits.square().sum().backward()
    assert_equal({"logits": our_logits}, {"logits": their_logits})
    assert_equal(gradients(ours), theirs.gradients())
    assert_same_state(from_torch(theirs.transformer.state_dict()), stacks_of(ours.state_dict()))


def test_attention_without_biases_has_biases_of_zero_in_torch():
    ours = small_model(attention_bias=False)
    theirs = TorchModel(ours, norm_first=True)
    src, tgt = draw_ids("left")
    our_logits, their_logits = ours(src, tgt, *our_masks(src, tgt)), theirs(src, tgt)
    our_logits.square().sum().backward()
    their_logits.square().sum().backward()
    assert_equal({"logits": our_logits}, {"logits": their_logits})
    expected = theirs.gradients()
    assert_equal(gradients(ours), {name: expected[name] for name, _ in ours.named_parameters()})
    back = from_torch(theirs.transformer.state_dict(), attention_bias=False)
    assert_same_state(back, stacks_of(ours.state_dict()))


def test_biases_that_are_not_zero_are_not_left_out():
    state = to_torch(small_model(attention_bias=False).state_dict())
    state["decoder.layers.1.multihead_attn.in_proj_bias"][D_MODEL] = 0.1
    with pytest.raises(ValueError, match=r"not zero: decoder\.layers\.1\.cross_attention_block\.w_k\.bias$"):
        from_torch(state, attention_bias=False)


@pytest.mark.parametrize("convert", [to_torch, from_torch])
def test_missing_and_unknown_tensors_are_listed(convert):
    ours = small_model().state_dict()
    state = ours if convert is to_torch else to_torch(ours)
    removed = "encoder.layers.1." + ("feed_forward_block.linear_2.bias" if convert is to_torch else "linear2.bias")
    del state[removed]
    state |= {"decoder.layers.0.extra": torch.zeros(1), "head.weight": torch.zeros(1)}
    with pytest.raises(ValueError, match=rf"missing {removed}; unknown decoder\.layers\.0\.extra, head\.weight$"):
        convert(state)


def test_one_missing_attention_bias_is_not_taken_for_attention_without_biases():
    state = small_model().state_dict()
    del state["encoder.layers.0.self_attention_block.w_q.bias"]
    with pytest.raises(ValueError, match=r"missing encoder\.layers\.0\.self_attention_block\.w_q\.bias; unknown none"):
        to_torch(state)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_a_missing_layer_is_listed_up_to_a_readable_number_of_names():
    state = nn.Transformer(D_MODEL, H, 2, 2, D_FF).state_dict()
    state = {name: values for name, values in state.items() if not name.startswith("decoder.layers.0.")}
    with pytest.raises(ValueError, match=r"missing decoder\.layers\.0\.linear1\.bias, .* and 6 more; unknown none"):
        from_torch(state)


@pytest.mark.parametrize("convert", [to_torch, from_torch])
def test_a_state_without_stacks_is_refused(convert):
    with pytest.raises(ValueError, match="not the tensors of"):
        convert({})


# ---- The tutorials ----

SIZES = (SRC_VOCAB, TGT_VOCAB, SRC_LENGTH, TGT_LENGTH, D_MODEL, N, H, 0.0, D_FF)


def run_as_taught(theirs, src, tgt):
    src_mask, tgt_mask = (mask.int() for mask in our_masks(src, tgt))
    return theirs.project(theirs.decode(theirs.encode(src, src_mask), src_mask, tgt, tgt_mask))


def saved_and_read(module):
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def test_tutorial_a_loads_and_computes_the_same():
    theirs = randomised(model_of_tutorial_a(*SIZES))
    ours = small_model(attention_bias=False)
    normalize_as_taught(ours)
    load_tutorial(ours, saved_and_read(theirs))
    src, tgt = draw_ids()
    our_logits, their_logits = ours(src, tgt, *our_masks(src, tgt)), run_as_taught(theirs, src, tgt)
    our_logits.square().sum().backward()
    their_logits.square().sum().backward()
    assert_equal({"logits": our_logits}, {"logits": their_logits})
    assert_equal(gradients(ours), gradients(theirs))


@pytest.mark.parametrize("scalar", [True, False])
def test_tutorial_d_loads_and_computes_the_same(scalar):
    theirs = randomised(model_of_tutorial_d(*SIZES))
    ours = small_model()
    normalize_as_taught(ours, scalar=scalar)
    load_tutorial(ours, saved_and_read(theirs))
    src, tgt = draw_ids()
    our_logits, their_outputs = ours(src, tgt, *our_masks(src, tgt)), run_as_taught(theirs, src, tgt)
    our_outputs = our_logits - our_logits.exp().sum(-1, keepdim=True).log()
    our_outputs.square().sum().backward()
    their_outputs.square().sum().backward()
    assert_equal({"log probabilities": our_outputs}, {"log probabilities": their_outputs})
    expected = {renamed(name): gradient for name, gradient in gradients(theirs).items()}
    actual = gradients(ours)
    if not scalar:  # the gradient of a shared number is the sum of those of its copies
        actual = {name: g.sum(0, keepdim=True) if "norm" in name else g for name, g in actual.items()}
    assert_equal(actual, expected)


def renamed(name):
    return ".".join(conversion.TUTORIALS.get(part, part) for part in name.split("."))


def test_with_the_corrected_arithmetic_the_same_weights_compute_something_else():
    theirs = randomised(model_of_tutorial_a(*SIZES))
    ours = small_model(attention_bias=False)
    load_tutorial(ours, theirs.state_dict())
    src, tgt = draw_ids()
    logits, expected = ours(src, tgt, *our_masks(src, tgt)), run_as_taught(theirs, src, tgt)
    error = (logits - expected).abs().max() / expected.abs().max()
    assert 1e-3 < error < 1


@pytest.mark.parametrize(
    ("theirs", "ours", "inputs"),
    [
        (
            lambda: tutorial_b.FeedForward(D_MODEL, D_FF, 0.0),
            lambda: model.FeedForwardBlock(D_MODEL, D_FF, 0.0),
            [(B, T, D_MODEL)],
        ),
        (
            lambda: tutorial_b.PositionalEncoding(D_MODEL, TGT_LENGTH, 0.0),
            lambda: model.PositionalEncoding(D_MODEL, TGT_LENGTH, 0.0),
            [(B, T, D_MODEL)],
        ),
        (
            lambda: tutorial_b.LayerNormalizationRepaired(),
            lambda: LayerNormalizationAsTaught(D_MODEL, scalar=True),
            [(B, T, D_MODEL)],
        ),
        (
            lambda: tutorial_b.LayerNormalizationRepaired(epsilon=0.1),
            lambda: LayerNormalizationAsTaught(D_MODEL, eps=0.1),
            [(B, T, D_MODEL)],
        ),
        (
            lambda: tutorial_e.LayerNorm(D_MODEL),
            lambda: model.LayerNormalization(D_MODEL, eps=1e-12),
            [(B, T, D_MODEL)],
        ),
        (
            lambda: tutorial_e.PositionwiseFeedForward(D_MODEL, D_FF, 0.0),
            lambda: model.FeedForwardBlock(D_MODEL, D_FF, 0.0),
            [(B, T, D_MODEL)],
        ),
        (
            lambda: tutorial_e.MultiHeadAttention(D_MODEL, H),
            lambda: model.MultiHeadAttentionBlock(D_MODEL, H, 0.0),
            [(B, T, D_MODEL), (B, S, D_MODEL), (B, S, D_MODEL)],
        ),
    ],
    ids=["b-feed-forward", "b-positions", "b-norm", "b-norm-widened", "e-norm", "e-feed-forward", "e-attention"],
)
def test_single_classes_load_and_compute_the_same(theirs, ours, inputs):
    theirs, ours = randomised(theirs()), ours()
    load_tutorial(ours, saved_and_read(theirs))
    tensors = [torch.randn(shape) * 2 + 1 for shape in inputs]
    assert_equal({"output": ours(*tensors)}, {"output": theirs(*tensors)})


def test_tutorial_bs_embedding_loads_though_it_cannot_run():
    theirs = tutorial_b.InputEmbeddings(D_MODEL, SRC_VOCAB)
    ours = model.InputEmbeddings(D_MODEL, SRC_VOCAB)
    load_tutorial(ours, theirs.state_dict())
    assert torch.equal(ours.embedding.weight, theirs.embed.weight)
    with pytest.raises(TypeError):
        theirs(torch.zeros(B, S, dtype=torch.long))


def test_every_rename_is_needed_by_a_tutorial():
    modules = [
        tutorial_b.InputEmbeddings(D_MODEL, 3),
        tutorial_b.LayerNormalizationRepaired(),
        model_of_tutorial_d(*SIZES),
        tutorial_e.MultiHeadAttention(D_MODEL, H),
    ]
    parts = {part for module in modules for name in module.state_dict() for part in name.split(".")}
    assert conversion.TUTORIALS.keys() <= parts


def test_tutorials_with_missing_or_unknown_tensors_are_refused():
    state = model_of_tutorial_a(*SIZES).state_dict()
    with pytest.raises(ValueError, match=r"not the tensors of this Transformer: missing .*w_k\.bias.*; unknown none"):
        load_tutorial(small_model(), state)
    state["head.weight"] = torch.zeros(1)
    with pytest.raises(ValueError, match=r"missing none; unknown head\.weight$"):
        load_tutorial(small_model(attention_bias=False), state)


def test_a_tutorial_of_another_size_is_refused_and_nothing_is_widened_but_scalars():
    with pytest.raises(RuntimeError, match="size mismatch for linear_2.weight"):
        load_tutorial(model.FeedForwardBlock(D_MODEL, D_FF, 0.0), tutorial_b.FeedForward(D_MODEL, 3, 0.0).state_dict())
    with pytest.raises(RuntimeError, match="size mismatch for alpha"):
        load_tutorial(model.LayerNormalization(D_MODEL), tutorial_e.LayerNorm(2).state_dict())


# ---- The layer normalization as taught ----


def test_as_taught_without_eps_is_a_constant_times_ours():
    x = torch.randn(B, T, D_MODEL)
    ours, taught = model.LayerNormalization(D_MODEL, eps=0.0), LayerNormalizationAsTaught(D_MODEL, eps=0.0)
    assert_equal({"y": taught(x)}, {"y": ours(x) * ((D_MODEL - 1) / D_MODEL) ** 0.5})
    with pytest.warns(UserWarning, match="degrees of freedom"):
        assert LayerNormalizationAsTaught(1)(torch.zeros(B, T, 1)).isnan().all()


def test_normalize_as_taught_replaces_all_keeps_dtype_and_counts_parameters():
    transformer = small_model().float()
    count = sum(isinstance(module, model.LayerNormalization) for module in transformer.modules())
    normalize_as_taught(transformer, eps=0.01, scalar=True)
    norms = [module for module in transformer.modules() if isinstance(module, model.LayerNormalization)]
    assert len(norms) == count == 5 * N + 2
    assert {type(norm) for norm in norms} == {LayerNormalizationAsTaught}
    assert {(norm.eps, norm.alpha.shape, norm.alpha.dtype) for norm in norms} == {(0.01, (1,), torch.float32)}
