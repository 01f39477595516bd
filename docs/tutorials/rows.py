"""The rows of the tables: (in the tutorial, here, the tutorial's beside PyTorch's). The numbers are measured."""

import torch

from docs.tutorials import classes as measure
from docs.tutorials import stacks
from docs.tutorials.classes import D_FF, D_MODEL, SRC_PAD, TGT_PAD, B, H, S, T
from reference_tests.as_taught import tutorial_a, tutorial_b, tutorial_d, tutorial_e
from scratch_transformer import model

NO_CODE = "no code in the text"
NORMALIZATION = "because of the normalization"


def rows_a():
    """Tutorial A."""
    errors = stacks.errors_of_tutorial_a()
    return [
        ("`InputEmbeddings`", "`model.InputEmbeddings`", _embeddings(tutorial_a.InputEmbeddings)),
        ("`PositionalEncoding`", "`model.PositionalEncoding`", _positions(tutorial_a.PositionalEncoding)),
        ("`LayerNormalization`", "`model.LayerNormalization`", _normalization(tutorial_a.LayerNormalization(D_MODEL))),
        ("`FeedForwardBlock`", "`model.FeedForwardBlock`", _feed_forwards(tutorial_a.FeedForwardBlock)),
        ("`MultiHeadAttentionBlock`", "`model.MultiHeadAttentionBlock`", _attentions(tutorial_a, "attention_scores")),
        ("`ResidualConnection`", "`model.ResidualConnection`", _residuals(errors)),
        ("`EncoderBlock`", "`model.EncoderBlock`", _verdict(errors["encoder block"], NORMALIZATION)),
        ("`Encoder`", "`model.Encoder`", _verdict(errors["encoder"], NORMALIZATION)),
        ("`DecoderBlock`", "`model.DecoderBlock`", _verdict(errors["decoder block"], NORMALIZATION)),
        ("`Decoder`", "`model.Decoder`", _verdict(errors["decoder"], NORMALIZATION)),
        (
            "`ProjectionLayer`",
            "`model.ProjectionLayer`",
            _verdict(measure.projection_error(tutorial_a.ProjectionLayer)),
        ),
        ("`Transformer`", "`model.Transformer`", _verdict(errors["transformer"], "in the logits, " + NORMALIZATION)),
        ("`build_transformer`", "`model.build_transformer`", "left to an article"),
    ]


def rows_b():
    """Tutorial B."""
    ids = torch.zeros(B, S, dtype=torch.long)
    called = measure.outcome(tutorial_b.InputEmbeddings(D_MODEL, 50), ids)
    made = measure.outcome(tutorial_b.LayerNormalization)
    repaired = _normalization(tutorial_b.LayerNormalizationRepaired())
    return [
        ("`InputEmbeddings`", "`model.InputEmbeddings`", f"{called} when called: `torch.sqrt` of an `int`"),
        ("`PositionalEncoding`", "`model.PositionalEncoding`", _positions(tutorial_b.PositionalEncoding)),
        (
            "`LayerNormalization`",
            "`model.LayerNormalization`",
            f"{made} when made: `super.__init__()`. Repaired: {repaired}",
        ),
        ("`FeedForward`", "`model.FeedForwardBlock`", _feed_forwards(tutorial_b.FeedForward)),
        ("Multi-Head Attention Block", "`model.MultiHeadAttentionBlock`", "a heading: " + NO_CODE),
    ]


def rows_c():
    """Tutorial C."""
    errors = measure.formula_errors()
    return [
        ("Input Embeddings", "`model.InputEmbeddings`", f"{NO_CODE}; √d_model is not mentioned"),
        ("Positional encoding", "`model.PositionalEncoding`", f"formula: {_verdict(errors['positions'])}"),
        ("Batch Normalization", "`nn.BatchNorm1d`", f"formula: {_verdict(errors['batch norm'])}; no running averages"),
        ("Layer Normalization", "`model.LayerNormalization`", f"formula: {_verdict(errors['layer norm'])}"),
        ("Feed Forward Block", "`model.FeedForwardBlock`", f"formula: {_verdict(errors['feed forward'])}"),
        ("Multi-Head Attention", "`model.MultiHeadAttentionBlock`", "“TODO”: " + NO_CODE),
        ("Residual Connection", "`model.ResidualConnection`", "a heading: " + NO_CODE),
    ]


def rows_d():
    """Tutorial D."""
    errors = stacks.errors_of_tutorial_d()
    loss = _verdict(measure.loss_error_of_log_probabilities())
    wrong, right = measure.padding_in_the_loss(SRC_PAD), measure.padding_in_the_loss(TGT_PAD)
    training = (
        f"the loss leaves out the *source's* padding id: if the target's is another, {wrong} of 8 padded targets count "
        f"(with the target's id: {right}). Adam at a constant rate with β₂ = 0.999; the paper: warm-up and 0.98. "
        "Resuming restores epoch, step and optimizer, but not the model's weights"
    )
    return [
        ("Tokenizer", "`translation.tokenizer`", NO_CODE),
        ("`InputEmbedding`", "`model.InputEmbeddings`", _embeddings(tutorial_d.InputEmbedding)),
        ("`PositionalEncoding`", "`model.PositionalEncoding`", _positions(tutorial_d.PositionalEncoding)),
        ("`MultiHeadAttentionBlock`", "`model.MultiHeadAttentionBlock`", _attentions(tutorial_d, "attention_score")),
        ("`FeedForwardBlock`", "`model.FeedForwardBlock`", _feed_forwards(tutorial_d.FeedForwardBlock)),
        ("`ResidualConnection`", "`model.ResidualConnection`", _residuals(errors)),
        ("`LayerNormalization`", "`model.LayerNormalization`", _normalization(tutorial_d.LayerNormalization())),
        (
            "`ProjectionLayer`",
            "`model.ProjectionLayer`",
            f"log probabilities instead of logits; their cross-entropy: {loss}",
        ),
        ("`EncoderBlock`", "`model.EncoderBlock`", _verdict(errors["encoder block"], NORMALIZATION)),
        ("`Encoder`", "`model.Encoder`", _verdict(errors["encoder"], NORMALIZATION)),
        ("`DecoderBlock`", "`model.DecoderBlock`", _verdict(errors["decoder block"], NORMALIZATION)),
        ("`Decoder`", "`model.Decoder`", _verdict(errors["decoder"], NORMALIZATION)),
        ("`train_model`", "`translation.trainer`, with `optim.Adam` and `optim.WarmupSchedule`", training),
        ("Inference", "`translation.decoding`, and in short `greedy_decode`, below", "a heading: " + NO_CODE),
    ]


def rows_e():
    """Tutorial E."""
    attention = tutorial_e.ScaleDotProductAttention()
    leaks = ", ".join(f"{measure.weight_of_a_blocked_key(attention, s):.2g} at {s}" for s in (-9900, -10000, -10100))
    unchecked = measure.outcome(lambda: tutorial_e.MultiHeadAttention(10, 3)(*[torch.zeros(B, T, 10)] * 3))
    multi_head = tutorial_e.MultiHeadAttention(D_MODEL, H)
    equal = _verdict(measure.attention_error(multi_head, multi_head.w_concat))
    return [
        (
            "`LayerNorm`",
            "`model.LayerNormalization`",
            _normalization(tutorial_e.LayerNorm(D_MODEL)) + "; ε = 1e-12, not 1e-5",
        ),
        ("`PositionwiseFeedForward`", "`model.FeedForwardBlock`", _feed_forwards(tutorial_e.PositionwiseFeedForward)),
        (
            "`ScaleDotProductAttention`",
            "`attention.scaled_dot_product_attention`",
            f"a blocked key's score is set to -10000: its weight beside an open key is {leaks}, the open key's score",
        ),
        (
            "`MultiHeadAttention`",
            "`model.MultiHeadAttentionBlock`",
            f"{equal}; no dropout of the weights; d_model = 10, h = 3 is found out only when called: {unchecked}",
        ),
        ("`TokenEmbedding`", "`model.InputEmbeddings`", NO_CODE),
        ("`PositionalEncoding`", "`model.PositionalEncoding`", NO_CODE),
        ("`TransformerEmbedding`", "`model.InputEmbeddings`, then `model.PositionalEncoding`", NO_CODE),
        ("`EncoderLayer`", "`model.EncoderBlock`", NO_CODE),
        ("`Encoder`", "`model.Encoder`", NO_CODE),
        ("`DecoderLayer`", "`model.DecoderBlock`", NO_CODE),
        ("`Decoder`", "`model.Decoder`", NO_CODE),
        ("`Transformer`", "`model.Transformer`", NO_CODE),
    ]


def rows_ours():
    """Ours: (class, beside PyTorch's)."""
    errors = stacks.errors_of_ours()
    return [
        ("`model.InputEmbeddings`", _embeddings(model.InputEmbeddings)),
        ("`model.PositionalEncoding`", _positions(model.PositionalEncoding)),
        ("`model.LayerNormalization`", _normalization(model.LayerNormalization(D_MODEL))),
        ("`nn.BatchNorm1d`", _verdict(measure.batch_norm_error())),
        ("`model.FeedForwardBlock`", _feed_forwards(model.FeedForwardBlock)),
        ("`attention.scaled_dot_product_attention`", _verdict(measure.core_error())),
        ("`model.MultiHeadAttentionBlock`", _attentions(model, "attention_weights")),
        ("`model.ResidualConnection`, `model.EncoderBlock`, pre-norm", _verdict(errors["encoder block"])),
        ("`model.ResidualConnection`, `model.EncoderBlock`, post-norm", _verdict(stacks.error_of_ours_post_norm())),
        ("`model.Encoder`", _verdict(errors["encoder"])),
        ("`model.DecoderBlock`", _verdict(errors["decoder block"])),
        ("`model.Decoder`", _verdict(errors["decoder"])),
        ("`model.ProjectionLayer`", _verdict(measure.projection_error(model.ProjectionLayer))),
        ("`model.Transformer`", _verdict(errors["transformer"])),
        ("`optim.Adam`, 20 steps", _verdict(measure.adam_error())),
    ]


# ---- One class in words, the tutorial's and ours with the same ones ----


def _verdict(error, why=""):
    """Equal means: up to rounding."""
    return "equal" if error <= 1e-12 else f"{error:.1e} apart" + (f", {why}" if why else "")


def _embeddings(factory):
    return _verdict(measure.embedding_error(factory(D_MODEL, 50)))


def _positions(factory):
    error = measure.positions_error(factory)
    odd = measure.outcome(factory, 7, 5, 0.0)
    long = measure.outcome(factory(D_MODEL, S, 0.0), torch.zeros(B, T, D_MODEL))
    return f"in float32, 5000 positions: up to {error:.1e} off; d_model = 7: {odd}; a sequence that is too long: {long}"


def _normalization(norm):
    ratios = ", ".join(f"{measure.normalization_ratio(norm, s):.5g} at {s:g}" for s in (1, 1e-3, 1e-4))
    parameters = sum(parameter.numel() for parameter in norm.parameters())
    return f"ratio to PyTorch's, by standard deviation: {ratios}; {parameters} parameters"


def _feed_forwards(factory):
    feed_forward = factory(D_MODEL, D_FF, 0.0)
    first, second = (
        module for module in feed_forward.modules() if isinstance(getattr(module, "weight", None), torch.nn.Parameter)
    )
    return _verdict(measure.feed_forward_error(first, second, feed_forward))


def _attentions(module, kept):
    attention = module.MultiHeadAttentionBlock(D_MODEL, H, 0.0)
    bias = "with" if attention.w_o.bias is not None else "without"
    words = f"{_verdict(measure.attention_error(attention, attention.w_o))}, {bias} biases; "
    words += f"a query without any key gets {measure.attends_to_nothing(attention, attention.w_o)}; "
    training = module.MultiHeadAttentionBlock(D_MODEL, H, 0.1)
    training.keep_attention_weights = True  # ours keeps them only then
    low, high, has_graph = measure.row_sums(training, kept)
    graph = "with the graph" if has_graph else "without graph"
    sums = f"{low:.2g}" if high - low < 1e-12 else f"{low:.2g} … {high:.2g}"
    words += f"weights kept in training: {graph}, rows sum to {sums}; "
    return words + f"float16: {measure.in_half_precision(attention)}"


def _residuals(errors):
    return f"pre-norm: {errors['post']:.2g} apart from PyTorch's default layer, which is the paper's post-norm"
