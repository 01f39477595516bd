"""Everything that happens in one pass, in order: what it is called, its equation, one sentence, and the code.

A place is a name with * for the number of the layer: "encoder.layers.*.self_attention.scores".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

MODEL, CORE, FUNCTIONS = (f"scratch_transformer.{name}" for name in ("model", "attention.naive", "functional"))
BLOCK = f"{MODEL}:MultiHeadAttentionBlock.forward"


@dataclass(frozen=True)
class Point:
    """One tensor on the way.

    place: its name. title, short: for a headline and for a button.
    axes: what its dimensions are: "queries keys", "tokens features", "heads queries keys", ...
    latex: its equation. says: what happens here and why; {d_model} and other settings are filled in.
    source: the function that computes it, and a piece of the line.
    detail: whether stepping through passes it by.
    """

    place: str
    title: str
    short: str
    axes: str
    latex: str
    says: str
    source: tuple[str, str]
    detail: bool = False


def embeddings(side: str, tokens: str) -> Iterator[Point]:
    yield Point(
        f"{side}_embed.output", "Tokens become vectors", "embedding", f"{tokens} features",
        r"x_t = \sqrt{d_{\mathrm{model}}} \; W_E[\mathrm{id}_t]",
        "Every token is looked up in a table of learned vectors, {d_model} numbers each. The factor √d_model makes them "
        "large beside the positions that are added next.",
        (f"{MODEL}:InputEmbeddings.forward", "self.embedding(x)"),
    )  # fmt: skip
    yield Point(
        f"{side}_pos.pe", "A code for every position", "positions", f"{tokens} features",
        r"\mathrm{PE}(pos, 2i) = \sin \frac{pos}{10000^{2i/d_{\mathrm{model}}}}, \quad"
        r" \mathrm{PE}(pos, 2i+1) = \cos \frac{pos}{10000^{2i/d_{\mathrm{model}}}}",
        "Attention alone does not know the order of the words. So every place in the sentence gets a pattern of waves, "
        "fast ones at the left, slow ones at the right, that no other place has.",
        (f"{FUNCTIONS}:sinusoidal_positions", "angles ="),
    )  # fmt: skip
    yield Point(
        f"{side}_pos.output", "Token and position, added", "sum", f"{tokens} features",
        r"x_t + \mathrm{PE}(t)",
        "What a token means and where it stands become one vector. From here on the model sees nothing but this sum.",
        (f"{MODEL}:PositionalEncoding.forward", "x + self.pe"),
    )  # fmt: skip


def normalization(place: str, tokens: str, why: str) -> Iterator[Point]:
    function = f"{FUNCTIONS}:layer_norm"
    yield Point(
        f"{place}.mean", "The mean of each token", "μ", f"{tokens} one",
        r"\mu_t = \frac{1}{d_{\mathrm{model}}} \sum_i x_{t i}",
        "The average of a token's {d_model} features. It will be subtracted.",
        (function, "x.mean(dims"), detail=True,
    )  # fmt: skip
    yield Point(
        f"{place}.variance", "The variance of each token", "σ²", f"{tokens} one",
        r"\sigma_t^2 = \frac{1}{d_{\mathrm{model}}} \sum_i (x_{t i} - \mu_t)^2",
        "How far a token's features lie from their mean: the average of the squares, over all {d_model} of them.",
        (function, "variance ="), detail=True,
    )  # fmt: skip
    yield Point(
        f"{place}.normalized", "Mean 0, variance 1", "x̂", f"{tokens} features",
        r"\hat{x}_{t i} = \frac{x_{t i} - \mu_t}{\sqrt{\sigma_t^2 + \varepsilon}}",
        "Every token's features are shifted and scaled to mean 0 and variance 1, so that no token is louder than "
        "another.",
        (function, "centred / torch.sqrt"), detail=True,
    )  # fmt: skip
    yield Point(
        f"{place}.output", "Normalized", "norm", f"{tokens} features",
        r"y_{t i} = \alpha_i \, \frac{x_{t i} - \mu_t}{\sqrt{\sigma_t^2 + \varepsilon}} + b_i",
        why, (f"{MODEL}:LayerNormalization.forward", "functional.layer_norm"),
    )  # fmt: skip


BEFORE = (
    "Before each sublayer, every token's features are brought to mean 0 and variance 1; then a learned scale and shift "
    "say which features the sublayer should hear."
)
AFTER = (
    "After each sublayer, every token's features are brought to mean 0 and variance 1, and then scaled and shifted as "
    "it was learned."
)
LAST = "A pre-norm stack adds and adds; one last normalization brings the sums back to a common size."


def attention(place: str, kind: str, queries: str, keys: str) -> Iterator[Point]:
    ask, offer, hand_over, mask = ATTENTION_SAYS[kind]
    yield Point(
        f"{place}.query", "Queries: what each token asks", "Q", f"heads {queries} width",
        r"Q = X W_q + b_q, \quad Q_i = \text{its } i\text{-th } d_k \text{ columns}", ask, (BLOCK, "self.w_q(q)"),
    )  # fmt: skip
    yield Point(
        f"{place}.key", "Keys: what each token offers", "K", f"heads {keys} width",
        r"K = X W_k + b_k, \quad K_i = \text{its } i\text{-th } d_k \text{ columns}", offer, (BLOCK, "self.w_k(k)"),
    )  # fmt: skip
    yield Point(
        f"{place}.value", "Values: what each token hands over", "V", f"heads {keys} width",
        r"V = X W_v + b_v, \quad V_i = \text{its } i\text{-th } d_k \text{ columns}", hand_over,
        (BLOCK, "self.w_v(v)"),
    )  # fmt: skip
    yield Point(
        f"{place}.scores", "Every query meets every key", "QKᵀ", f"heads {queries} {keys}",
        r"s = \frac{Q_i K_i^{\top}}{\sqrt{d_k}}",
        "The dot product of a query and a key says how well they fit. Divided by √d_k = √{d_k}, or the softmax that "
        "follows would put all on one key and stop learning.",
        (f"{CORE}:attention_weights", "query_BHTD * scale"),
    )  # fmt: skip
    yield Point(
        f"{place}.masked_scores", "What may not be seen is blocked", "mask", f"heads {queries} {keys}",
        r"s_{t j} = -\infty \text{ where query } t \text{ may not attend to key } j", mask,
        (f"{CORE}:attention_weights", "masks.apply"), detail=kind != "itself, before",
    )  # fmt: skip
    yield Point(
        f"{place}.weights", "Scores become shares", "softmax", f"heads {queries} {keys}",
        r"A_{t j} = \frac{e^{s_{t j}}}{\sum_k e^{s_{t k}}}",
        "The softmax turns every row of scores into shares that add up to 1: how one token divides its attention.",
        (f"{CORE}:attention_weights", "weights_BHTS ="),
    )  # fmt: skip
    yield Point(
        f"{place}.heads", "Values, mixed by the shares", "A V", f"heads {queries} width",
        r"\mathrm{head}_i = A_i V_i",
        "Every query takes the values of all keys, each by its share. Only here do tokens learn from one another; all "
        "else treats every token alone.",
        (f"{CORE}:naive_attention", "weights_BHTS"),
    )  # fmt: skip
    yield Point(
        f"{place}.concatenated", "The heads, side by side", "concat", f"{queries} features",
        r"\mathrm{Concat}(\mathrm{head}_1, \dots, \mathrm{head}_h)",
        "The {num_heads} heads looked for {num_heads} different things. Their answers stand side by side again: {d_model} features "
        "for every token.",
        (BLOCK, "heads.transpose"), detail=True,
    )  # fmt: skip
    yield Point(
        f"{place}.output", "What the heads have found", "W_o", f"{queries} features",
        r"\mathrm{Concat}(\mathrm{head}_1, \dots, \mathrm{head}_h) \, W_o + b_o",
        "One more learned map joins what the {num_heads} heads have found into one message for every token.",
        (BLOCK, "self.w_o("),
    )  # fmt: skip


NO_PADDING = (
    "Padding would be blocked with -∞ here: no sentence may depend on what fills it up to the length of its neighbours."
)
ATTENTION_SAYS = {
    "itself": (
        "Every token of the source asks a question: its vector times W_q, cut into {num_heads} heads of {d_k} numbers.",
        "And every token says what can be found with it: its vector times W_k. Queries will be compared with these.",
        "What a token hands over to those who attend to it: its vector times W_v.",
        NO_PADDING,
    ),
    "itself, before": (
        "Every token that was written so far asks a question of the others: its vector times W_q, cut into {num_heads} heads.",
        "And every written token says what can be found with it: its vector times W_k.",
        "What a written token hands over to those who attend to it: its vector times W_v.",
        "A token may look at itself and at what was written before, so all that comes later is blocked with -∞. In "
        "training the answer stands there; without this mask it would be copied.",
    ),
    "the source": (
        "Now the decoder asks the source. The queries come from what was written so far, times W_q.",
        "The keys come from the encoder's output: every token of the source says what can be found with it.",
        "The values come from the encoder's output too: what each source token hands over to the translation.",
        NO_PADDING,
    ),
}  # fmt: skip
FOUND = {
    "itself": "What attention has found is added to what was there. Nothing is lost on this path, and gradients have a "
    "free way back.",
    "itself, before": "What was found among the written tokens is added to what was there.",
    "the source": "What was found in the source is added to what the decoder has thought so far.",
}


def residual(place: str, number: int, tokens: str, says: str) -> Point:
    return Point(
        f"{place}.residual_connections.{number}.sum", "Added to what was there", "add", f"{tokens} features",
        r"x + f(\mathrm{norm}(x))", says, (f"{MODEL}:ResidualConnection.forward", "x + self.dropout"),
    )  # fmt: skip


def feed_forward(place: str, tokens: str) -> Iterator[Point]:
    function = f"{MODEL}:FeedForwardBlock.forward"
    yield Point(
        f"{place}.feed_forward.linear_1", "Each token, alone, widened", "W₁", f"{tokens} hidden",
        r"x W_1 + b_1",
        "Now every token is on its own. Its {d_model} features become {d_ff}: as many patterns are looked for.",
        (function, "self.linear_1"),
    )  # fmt: skip
    yield Point(
        f"{place}.feed_forward.activation", "Negative becomes 0", "ReLU", f"{tokens} hidden",
        r"\max(0, \; x W_1 + b_1)",
        "A pattern that is not there counts 0. Without this bend the two linear maps would be no more than one.",
        (function, "functional.relu"),
    )  # fmt: skip
    yield Point(
        f"{place}.feed_forward.output", "And brought back", "W₂", f"{tokens} features",
        r"\max(0, \; x W_1 + b_1) \, W_2 + b_2",
        "What was recognised is written back as {d_model} features.",
        (function, "self.linear_2"),
    )  # fmt: skip


def layer(stack: str, tokens: str, attentions: dict[str, tuple[str, str]], norm: str) -> Iterator[Point]:
    """The points of an encoder or decoder layer, in the order in which they are computed."""
    place = f"{stack}.layers.*"
    parts: list[tuple[list[Point], str]] = []
    for name, (kind, keys) in attentions.items():
        parts.append((list(attention(f"{place}.{name}", kind, tokens, keys)), FOUND[kind]))
    alone = "What each token has worked out alone is added as well. The layer is complete."
    parts.append((list(feed_forward(place, tokens)), alone))
    for number, (sublayer, says) in enumerate(parts):
        norms = list(
            normalization(f"{place}.residual_connections.{number}.norm", tokens, BEFORE if norm == "pre" else AFTER)
        )
        added = residual(place, number, tokens, says)
        if norm == "pre":
            yield from (*norms, *sublayer, added)
        else:
            yield from (*sublayer, replace(added, latex=r"x + f(x)"), *norms)


def story(norm: str) -> list[Point]:
    """All points of a model with norm "pre" or "post", of each stack those of one layer."""
    source, target = "source", "target"
    points = [*embeddings("src", source), *layer("encoder", source, {"self_attention": ("itself", source)}, norm)]
    if norm == "pre":
        points += normalization("encoder.norm", source, LAST)
    both = {"self_attention": ("itself, before", target), "cross_attention": ("the source", source)}
    points += [*embeddings("tgt", target), *layer("decoder", target, both, norm)]
    if norm == "pre":
        points += normalization("decoder.norm", target, LAST)
    points.append(
        Point(
            "logits", "A score for every token there is", "logits", "target vocabulary",
            r"\mathrm{logits} = x W + b",
            "The last vectors become one number for each of the {target_vocabulary} tokens of the target's vocabulary.",
            (f"{MODEL}:ProjectionLayer.forward", "self.proj"),
        )  # fmt: skip
    )
    points.append(
        Point(
            "probabilities", "The next token", "next token", "target vocabulary",
            r"P(v) = \frac{e^{\mathrm{logits}_v}}{\sum_w e^{\mathrm{logits}_w}}",
            "The softmax of the last row: how likely each token is to come next. The likeliest is written, and the "
            "decoder starts again with one token more.",
            (f"{FUNCTIONS}:softmax", "exponentials /"),
        )  # fmt: skip
    )
    return points
