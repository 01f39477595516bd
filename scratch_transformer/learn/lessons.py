"""The lessons in teaching order, with the hints of their exercises."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True)
class Lesson:
    """One lesson and its exercise.

    asks: the classes and functions that the exercise's file must have.
    hints: sentences, each of which gives away more than the one before.
    """

    number: int
    name: str
    title: str
    asks: tuple[str, ...]
    hints: tuple[str, ...]

    @property
    def file(self) -> str:
        """The name of the exercise's file."""
        return f"lesson{self.number:02}.py"

    @property
    def page(self) -> str:
        """The name of the lesson in the documentation."""
        return f"{self.number:02}_{self.name}"

    @property
    def begin(self) -> str:
        """The command that hands the exercise out."""
        return f"scratch-transformer learn {self.name}"

    @property
    def check(self) -> str:
        """The command that judges it."""
        return f"scratch-transformer check {self.file}"

    @property
    def skeleton(self) -> str:
        """The exercise's file as it is handed out."""
        folder = files("scratch_transformer.learn.skeletons")
        return folder.joinpath(self.file).read_text(encoding="utf-8")


LESSONS = (
    Lesson(
        1, "embeddings", "Embeddings: from ids to vectors", ("InputEmbeddings",),
        (
            "What is learned is one matrix with a row for every id. "
            "`nn.Parameter(torch.randn(vocab_size, d_model))` makes PyTorch train it.",
            "Looking up is indexing: `self.weight[ids]` has the shape of `ids`, and d_model behind it.",
            "The factor √d_model is easily forgotten: `math.sqrt(self.d_model)`. Keep d_model in `__init__`.",
        ),
    ),
    Lesson(
        2, "positions", "Positions: the order of the words", ("PositionalEncoding",),
        (
            "Make the table once, in `__init__`. Positions as a column, `torch.arange(max_len).unsqueeze(1)`, divided "
            "by a row of numbers, give a whole matrix of angles.",
            "The row: `10000 ** (torch.arange(0, d_model, 2) / d_model)`. The arange is 2i already: do not double it.",
            "Sines go into the columns 0, 2, 4, …: `table[:, 0::2]`, cosines into `table[:, 1::2]`. An odd d_model has "
            "one sine more than cosines.",
            "`self.register_buffer('table', table)` keeps what is not learned. Add `self.table[:x.shape[1]]` to x.",
        ),
    ),
    Lesson(
        3, "softmax", "Softmax: scores become weights", ("softmax",),
        (
            "`x.exp()`, divided by its sum along `dim`. `keepdim=True` keeps that dimension, so that shapes fit.",
            "exp(1000) is infinity. Subtracting one number from all scores changes no weight: why?",
            "Subtract the largest score first: `x - x.amax(dim, keepdim=True)`.",
        ),
    ),
    Lesson(
        4, "attention", "Attention: a soft look-up", ("attention",),
        (
            "Three lines: scores, weights, output. A score is the dot product of a query and a key; `@` makes all of "
            "them at once if the last two axes of the keys are exchanged: `key.transpose(-2, -1)`.",
            "Divide the scores by `math.sqrt(d_k)`; d_k is `query.shape[-1]`.",
            "Where the mask is False, the score must be -∞ before the softmax: "
            "`scores.masked_fill(~mask, float('-inf'))`.",
            "The weights of one query sum to 1 over the keys, the last axis: `torch.softmax(scores, dim=-1)`. The "
            "output is `weights @ value`.",
        ),
    ),
    Lesson(
        5, "masks", "Masks: who may look at whom", ("causal_mask", "padding_mask", "target_mask"),
        (
            "`torch.ones(length, length).tril()` keeps the lower triangle, with the diagonal. `.bool()` makes it a "
            "mask.",
            "Padding is a property of keys, the columns, so the last axis is that of `ids`. Axes of length 1 for heads "
            "and queries: `[:, None, None, :]`.",
            "Both must allow it: `&`. Shapes (B, 1, 1, T) and (T, T) are broadcast to (B, 1, T, T).",
        ),
    ),
    Lesson(
        6, "heads", "Several heads", ("MultiHeadAttention",),
        (
            "Four layers `nn.Linear(d_model, d_model)`: for queries, keys, values, and the output. Refuse a number of "
            "heads that does not divide d_model: `assert d_model % num_heads == 0`.",
            "Splitting: `x.view(B, length, num_heads, d_k)` cuts every token's features into heads; "
            "`.transpose(1, 2)` brings the heads before the tokens.",
            "Then attention as in lesson 4, on (B, h, T, d_k). Queries and keys may differ in number: take the length "
            "from each tensor.",
            "Merging is splitting backwards: `.transpose(1, 2)`, then `.reshape(B, T, d_model)`, then the last layer.",
        ),
    ),
    Lesson(
        7, "norms", "Norms: over the features or over the batch", ("LayerNorm",),
        (
            "Parameters: `nn.Parameter(torch.ones(d_model))` and `nn.Parameter(torch.zeros(d_model))`.",
            "`x.mean(-1, keepdim=True)` is the mean of every token over its features.",
            "The variance divides by d_model: `(x - mean).square().mean(-1, keepdim=True)`. x.var() and x.std() divide "
            "by d_model - 1 unless told otherwise.",
            "ε stands inside the root: `torch.sqrt(variance + self.eps)`.",
        ),
    ),
    Lesson(
        8, "feed_forward", "The feed-forward network", ("FeedForward",),
        (
            "`nn.Linear(d_model, d_ff)` and `nn.Linear(d_ff, d_model)`; both have their bias already.",
            "max(0, x) is `torch.relu(x)`, or `x.clamp(min=0)`. It stands between the two, and nowhere else.",
        ),
    ),
    Lesson(
        9, "residuals", "Residuals, and where the norm goes", ("ResidualConnection",),
        (
            "`self.norm = nn.LayerNorm(d_model)` in `__init__`.",
            "Pre-norm is one line: what is added is the sublayer of the normalized x; what it is added to is x itself.",
            "`return x + sublayer(self.norm(x))`.",
        ),
    ),
    Lesson(
        10, "encoder", "The encoder", ("EncoderLayer", "Encoder"),
        (
            "A layer has four parts: an attention, a feed-forward network, and a norm for each of the two.",
            "Self-attention: the same tensor is query, key and value. Normalize it once: `y = self.norm1(x)`, then "
            "`x = x + self.attention(y, y, y, mask)`.",
            "`nn.ModuleList([EncoderLayer(d_model, num_heads, d_ff) for _ in range(num_layers)])`: the call is inside "
            "the brackets' loop, so every layer has its own weights. A plain list would hide them from PyTorch.",
            "Each layer gets what the one before returned: `x = layer(x, mask)`. The last norm comes after the loop.",
        ),
    ),
    Lesson(
        11, "decoder", "The decoder", ("DecoderLayer",),
        (
            "Two attentions, a feed-forward network, three norms.",
            "In cross-attention the queries come from the target, keys and values from memory, which is not normalized "
            "again: `self.cross_attention(self.norm2(x), memory, memory, memory_mask)`.",
            "Mind the masks: the target's for self-attention, the source's for cross-attention.",
        ),
    ),
    Lesson(
        12, "loss", "The loss and label smoothing", ("cross_entropy",),
        (
            "log p is `logits - logits.exp().sum(-1, keepdim=True).log()`, and as in lesson 3 the largest logit is to "
            "be subtracted first.",
            "The target's own: `log_p.gather(-1, target.unsqueeze(-1)).squeeze(-1)`, one number for every token.",
            "With smoothing, (1 - ε) times that, and ε times the mean of all log p of a token. Mind the sign.",
            "Leave out padding before you average: `losses[target != pad].mean()`.",
        ),
    ),
    Lesson(
        13, "adam", "Adam and the warm-up", ("learning_rate",),
        (
            "Powers: `d_model**-0.5` is 1/√d_model.",
            "Before the peak the second of the two is smaller, after it the first; `min` takes the smaller one.",
        ),
    ),
    Lesson(
        14, "training", "Training", ("Transformer",),
        (
            "Two embeddings, as source and target have vocabularies of their own. One PositionalEncoding does for "
            "both.",
            "The last layer is `nn.Linear(d_model, tgt_vocab_size)`. No softmax: the loss contains it.",
            "`Encoder` takes (x, mask), `Decoder` takes (x, memory, src_mask, tgt_mask), in this order.",
        ),
    ),
    Lesson(
        15, "decoding", "Decoding and the cache", ("greedy_decode",),
        (
            "Keep a Python list that begins as `[bos]`; give the model `torch.tensor([ids])`, a batch of one.",
            "Only the last place's logits say what comes next: `logits[0, -1]`.",
            "`int(logits[0, -1].argmax())`. Append it, and stop if it is eos; else as long as there are fewer than "
            "max_len ids.",
        ),
    ),
    Lesson(
        16, "flash", "Flash attention: a tile at a time", ("flash_attention",),
        (
            "Begin with `highest` = -∞ of shape (B, h, T, 1), `total` = 0 of the same shape, and `out` = 0 of shape "
            "(B, h, T, d_v). Loop over `range(0, S, tile)`.",
            "A tile: `keys = slice(start, start + tile)`, `key[..., keys, :]`. Of the mask, `mask.expand(B, h, T, S)` "
            "has all axes, so `[..., keys]` cuts its columns.",
            "Shrink what is summed already *before* you add the new tile: `(highest - new).exp()`.",
            "A query that has seen nothing yet has new = -∞, and -∞ - (-∞) is NaN: subtract 0 there instead. In the "
            "end divide by 1 where total is 0.",
        ),
    ),
    Lesson(
        17, "kernel", "Reading a kernel", ("split_attention",),
        (
            "A part's keys: `slice(i, None, splits)` takes every splits-th key from the i-th, and never one twice.",
            "Write a function of its own for one part that returns its top, total and out, each with the query's axes.",
            "Before parts are added they must be relative to the same number: multiply each by exp(top_p - top).",
            "A part without a key, or with nothing but blocked keys, has top = -∞ and counts for nothing: "
            "exp(-∞ - top) is 0, unless top is -∞ too. Subtract 0 there instead.",
        ),
    ),
)  # fmt: skip
"""All of them."""


def find(given: str) -> Lesson:
    """The lesson of a name or a number.

    Raises:
        ValueError: there is none.
    """
    wanted = given.strip().lower().replace("-", "_")
    for lesson in LESSONS:
        if wanted in (lesson.name, str(lesson.number), f"{lesson.number:02}", lesson.page, lesson.file):
            return lesson
    raise ValueError(f"there is no lesson {given!r}; the lessons are {', '.join(lesson.name for lesson in LESSONS)}")
