"""Everything that happens in one pass, in order: how it is called on the page, one sentence, and where it is asked for.

A place is a name of the trace, with * for the number of the layer: "encoder.layers.*.self_attention.scores". The
equations are the trace's; so are the sentences, where there is none here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

MODEL, CORE, FUNCTIONS = (f"scratch_transformer.{name}" for name in ("model", "attention.naive", "functional"))
Source = tuple[str, str]


@dataclass(frozen=True)
class Point:
    """One tensor on the way.

    place: its name. title, short: for a headline and for a button.
    axes: what its dimensions are: "source features", "heads target source", ...
    source: the function that computes it, and a piece of the line.
    says: what happens here and why; {d_model} and other settings are filled in. Empty: what the trace says.
    detail: whether stepping through passes it by.
    """

    place: str
    title: str
    short: str
    axes: str
    source: Source
    says: str = ""
    detail: bool = False


def story(norm: str) -> list[Point]:
    """All points of a model with norm "pre" or "post", of each stack those of one layer."""
    points = [*embeddings("src", "source"), *layer("encoder", "source", ENCODER, norm)]
    points += normalization("encoder.norm", "source", LAST) if norm == "pre" else ()
    points += [*embeddings("tgt", "target"), *layer("decoder", "target", DECODER, norm)]
    points += normalization("decoder.norm", "target", LAST) if norm == "pre" else ()
    return [*points, *output()]


def embeddings(side: str, tokens: str) -> Iterator[Point]:
    """Ids to vectors with positions."""
    embed, axes = f"{MODEL}:InputEmbeddings.forward", f"{tokens} features"
    yield Point(
        f"{side}_embed.embedding",
        "Rows of the table",
        "E[id]",
        axes,
        (f"{FUNCTIONS}:embedding", "index_select"),
        detail=True,
    )
    yield Point(
        f"{side}_embed.scaled", "Tokens become vectors", "embedding", axes, (embed, "self.embedding(x)"),
        "Every token picks its row of a learned table: {d_model} numbers, all that the model knows about it alone. "
        "The factor √d_model keeps them from being drowned by the positions that come next.",
    )  # fmt: skip
    yield Point(
        f"{side}_pos.positions", "A code for every position", "positions", axes,
        (f"{FUNCTIONS}:sinusoidal_positions", "angles ="),
        "Attention alone does not know the order of the words. So every place in the sentence gets a pattern of waves, "
        "fast ones at the left, slow ones at the right, that no other place has.",
    )  # fmt: skip
    yield Point(
        f"{side}_pos.sum", "Token and position, added", "sum", axes,
        (f"{MODEL}:PositionalEncoding.forward", "x + self.pe"),
        "What a token means and where it stands become one vector. From here on the model sees nothing but this sum.",
    )  # fmt: skip


BEFORE = (
    "Before each sublayer, every token’s features are brought to mean 0 and variance 1; then a learned scale and shift "
    "say which features the sublayer should hear."
)
AFTER = (
    "After each sublayer, every token’s features are brought to mean 0 and variance 1, and then scaled and shifted as "
    "it was learned."
)
LAST = "Layer after layer has added something; one last normalization brings the sums back to a common size."


def normalization(place: str, tokens: str, why: str) -> Iterator[Point]:
    """(x - μ) / √(σ² + ε), and a learned scale and shift."""
    function, axes = f"{FUNCTIONS}:layer_norm", f"{tokens} features"
    yield Point(f"{place}.mean", "The mean of each token", "μ", f"{tokens} one", (function, "x.mean(dims"), detail=True)
    yield Point(f"{place}.centred", "The mean is taken away", "x − μ", axes, (function, "x.mean(dims"), detail=True)
    yield Point(
        f"{place}.variance", "The variance of each token", "σ²", f"{tokens} one", (function, "variance ="), detail=True
    )
    yield Point(
        f"{place}.normalized", "Divided by the spread", "÷ σ", axes, (function, "centred / torch.sqrt"), detail=True
    )
    call = (f"{MODEL}:LayerNormalization.forward", "functional.layer_norm")
    yield Point(place, "Normalized", "norm", axes, call, why)


def attention(place: str, says: dict[str, str], queries: str, keys: str) -> Iterator[Point]:
    """Multi-head attention, from its projections to what it returns."""
    block, weights = f"{MODEL}:MultiHeadAttentionBlock.forward", f"{CORE}:attention_weights"
    titles = {"query": "Queries: what each token asks", "key": "Keys: what each token can be found by"}
    titles["value"] = "Values: what each token hands over"
    for name, title in titles.items():
        letter, tokens = name[0], queries if name == "query" else keys
        call = (block, f"self.w_{letter}({letter})")
        yield Point(
            f"{place}.w_{letter}", f"All heads’ {name} features", f"W_{letter}", f"{tokens} features", call, detail=True
        )
        yield Point(f"{place}.{name}", title, letter.upper(), f"heads {tokens} width", call, says[name])
    scores = f"heads {queries} {keys}"
    yield Point(
        f"{place}.scores", "Every query meets every key", "QKᵀ", scores, (weights, "query_BHTD * scale"),
        "The dot product of a query and a key says how well they fit. It is divided by √d_k = √{d_k}: large scores "
        "would make the softmax that follows put everything on one key, and learn no more.",
    )  # fmt: skip
    yield Point(
        f"{place}.masked_scores", "What may not be seen is blocked", "mask", scores, (weights, "masks.apply"),
        says["mask"], detail=says["mask"] is NO_PADDING,
    )  # fmt: skip
    softmax = f"{FUNCTIONS}:softmax"
    yield Point(
        f"{place}.maxima",
        "The largest score of each row",
        "max",
        f"heads {queries} one",
        (softmax, "amax"),
        detail=True,
    )
    yield Point(f"{place}.exponentials", "Scores become positive", "exp", scores, (softmax, ".exp()"), detail=True)
    yield Point(
        f"{place}.sums", "What each row adds up to", "Σ", f"heads {queries} one", (softmax, ".sum("), detail=True
    )
    yield Point(
        f"{place}.weights", "Scores become shares", "softmax", scores, (weights, "weights_BHTS ="),
        "The softmax turns every row of scores into shares that add up to 1: how one token divides its attention.",
    )  # fmt: skip
    yield Point(
        f"{place}.heads", "Values, mixed by the shares", "A V", f"heads {queries} width",
        (f"{CORE}:naive_attention", "functional.dropout(weights"),
        "Every query takes the values of all keys, each by its share. Only here do tokens learn from one another; all "
        "else treats every token alone.",
    )  # fmt: skip
    yield Point(
        f"{place}.joined",
        "The heads, side by side",
        "concat",
        f"{queries} features",
        (block, "flatten(2)"),
        detail=True,
    )
    yield Point(
        f"{place}.w_o", "What the heads have found", "W_o", f"{queries} features", (block, "self.w_o("),
        "The {num_heads} heads have looked for {num_heads} different things. One more learned map joins what they "
        "found into one message for every token.",
    )  # fmt: skip


NO_PADDING = (
    "Padding gets −∞ here: no sentence may depend on what fills it up to the length of its neighbours in the batch."
)
ENCODER = {
    "self_attention": {
        "query": "Every token of the source asks a question of the others: its vector times W_q, cut into {num_heads} "
        "heads of {d_k} numbers.",
        "key": "And every token says what it can be found by: its vector times W_k. The queries will be compared with "
        "these.",
        "value": "What a token hands over to those that attend to it: its vector times W_v.",
        "mask": NO_PADDING,
        "sum": "What attention has found is added to what was there. Nothing is lost on this path, and gradients have "
        "a free way back.",
    },
}
DECODER = {
    "self_attention": {
        "query": "Every token that was written so far asks a question of the others: its vector times W_q, cut into "
        "{num_heads} heads.",
        "key": "And every written token says what it can be found by: its vector times W_k.",
        "value": "What a written token hands over to those that attend to it: its vector times W_v.",
        "mask": "A token may look at itself and at what was written before it, so all that comes later gets −∞. In "
        "training the answer stands there, and without this mask it would be copied.",
        "sum": "What was found among the written tokens is added to what was there.",
    },
    "cross_attention": {
        "query": "Now the decoder asks the source. The queries come from what was written so far.",
        "key": "The keys come from the encoder’s output: every token of the source says what it can be found by.",
        "value": "The values come from the encoder’s output too: what each token of the source hands over to the "
        "translation.",
        "mask": NO_PADDING,
        "sum": "What was found in the source is added to what the decoder knows so far.",
    },
}


def feed_forward(place: str, tokens: str) -> Iterator[Point]:
    """Two linear maps with a ReLU between."""
    function, hidden = f"{MODEL}:FeedForwardBlock.forward", f"{tokens} hidden"
    yield Point(
        f"{place}.linear_1", "Each token, alone, widened", "W_1", hidden, (function, "self.linear_1"),
        "Now every token is on its own again. Its {d_model} features become {d_ff}: so many learned patterns are "
        "looked for.",
    )  # fmt: skip
    yield Point(
        f"{place}.hidden", "Negative becomes 0", "ReLU", hidden, (function, "functional.relu"),
        "A pattern that is not there counts 0. Without this bend the two linear maps would be no more than one.",
    )  # fmt: skip
    yield Point(
        f"{place}.linear_2", "And brought back", "W_2", f"{tokens} features", (function, "self.linear_2"),
        "Every pattern that was found adds its own learned vector of {d_model} features.",
    )  # fmt: skip


def layer(stack: str, tokens: str, attentions: dict[str, dict[str, str]], norm: str) -> Iterator[Point]:
    """The points of an encoder or decoder layer, in the order in which they are computed."""
    place = f"{stack}.layers.*"
    sublayers = []
    for name, says in attentions.items():
        keys = "source" if name == "cross_attention" else tokens
        sublayers.append((list(attention(f"{place}.{name}", says, tokens, keys)), says["sum"]))
    done = "What each token has worked out alone is added as well. The layer is complete."
    sublayers.append((list(feed_forward(f"{place}.feed_forward", tokens)), done))
    for number, (sublayer, says_sum) in enumerate(sublayers):
        at, call = f"{place}.residual_connections.{number}", f"{MODEL}:ResidualConnection.forward"
        norms = normalization(f"{at}.norm", tokens, BEFORE if norm == "pre" else AFTER)
        added = Point(
            f"{at}.sum", "Added to what was there", "add", f"{tokens} features", (call, "x + self.dropout"), says_sum
        )
        yield from (*norms, *sublayer, added) if norm == "pre" else (*sublayer, added, *norms)


def output() -> Iterator[Point]:
    """From the decoder's last vectors to the next token."""
    yield Point(
        "projection_layer.proj", "A score for every token there is", "logits", "target vocabulary",
        (f"{MODEL}:ProjectionLayer.forward", "self.proj"),
        "The last vectors become one number for each of the {target_vocabulary} tokens of the target’s vocabulary.",
    )  # fmt: skip
    yield Point(
        "probabilities", "The next token", "next token", "target vocabulary",
        (f"{FUNCTIONS}:softmax", "exponentials /"),
        "The softmax of the last row: how likely each token is to come next. The likeliest is written, and the "
        "decoder starts again with one token more.",
    )  # fmt: skip
