"""What each named tensor is: its letters, its equation, and a sentence that says what happens and why.

Letters: B sentences, Q and K the lengths of the tokens that ask and that are asked (S, the source's, in the encoder; T,
the target's, in the decoder; T and S where the decoder looks at the source), d_model, h heads, d_k = d_model / h, d_ff,
V the vocabulary. * is any number of dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Kind:
    """name: of the tensor, within its module. letters: of its dimensions. latex: `equation`, for typesetting."""

    name: str
    letters: str
    equation: str
    latex: str
    sentence: str


TOKENS = Kind(
    "embedding", "B Q d_model", "E[id]", r"x_t = E_{\mathrm{id}_t}",
    "The id of each token picks a row of the embedding table: a vector that was learned.",
)  # fmt: skip
SCALED = Kind(
    "scaled", "B Q d_model", "E[id] · √d_model", r"x_t = E_{\mathrm{id}_t} \sqrt{d_\mathrm{model}}",
    "The vectors are made √d_model times as long, so that the positions that come next do not drown them.",
)  # fmt: skip
POSITIONS = Kind(
    "positions", "1 Q d_model", "PE[0 … Q - 1]",
    r"PE_{t,2i} = \sin\frac{t}{10000^{2i/d_\mathrm{model}}},\; PE_{t,2i+1} = \cos\frac{t}{10000^{2i/d_\mathrm{model}}}",
    "Every position has a code of sines and cosines: attention alone does not know which token comes first.",
)  # fmt: skip
PLACED = Kind(
    "sum", "B Q d_model", "x + PE", r"x + PE",
    "The code of its position is added to each token: from now on a vector says what, and where.",
)  # fmt: skip

MEAN = Kind(
    "mean", "B Q 1", "μ = mean x", r"\mu = \frac{1}{d} \sum_i x_i",
    "Normalization starts with the mean of the features of each token, for itself.",
)  # fmt: skip
CENTRED = Kind(
    "centred", "B Q d_model", "x - μ", r"x - \mu", "The mean is taken away: the features of each token now average 0."
)  # fmt: skip
VARIANCE = Kind(
    "variance", "B Q 1", "σ² = mean (x - μ)²", r"\sigma^2 = \frac{1}{d} \sum_i (x_i - \mu)^2",
    "How far a token's features spread: the mean of their squares, divided by d and not by d - 1.",
)  # fmt: skip
NORMALIZED = Kind(
    "normalized", "B Q d_model", "(x - μ) / √(σ² + ε)", r"\frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}}",
    "Divided by their spread, all tokens have features of the same size; ε keeps the division safe.",
)  # fmt: skip
NORM = Kind(
    "norm", "B Q d_model", "(x - μ) / √(σ² + ε) · γ + β",
    r"\frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} \odot \gamma + \beta",
    "Each feature gets a learned scale γ and shift β: the model may undo what the normalization took.",
)  # fmt: skip
MEAN_SQUARE = Kind(
    "mean_square", "B Q 1", "mean x²", r"\frac{1}{d} \sum_i x_i^2",
    "How large a token's features are: the mean of their squares. Nothing is centred.",
)  # fmt: skip
RMS_NORMALIZED = Kind(
    "normalized", "B Q d_model", "x / √(mean x² + ε)",
    r"\frac{x}{\sqrt{\frac{1}{d} \sum_i x_i^2 + \varepsilon}}",
    "Divided by their root mean square, all tokens have features of the same size.",
)  # fmt: skip
RMS_NORM = Kind(
    "norm", "B Q d_model", "x / √(mean x² + ε) · γ",
    r"\frac{x}{\sqrt{\frac{1}{d} \sum_i x_i^2 + \varepsilon}} \odot \gamma",
    "Each feature gets a learned scale γ.",
)  # fmt: skip

LINEAR = Kind(
    "linear", "B Q d_model", "x Wᵀ + b", r"x W^\top + b",
    "Every feature of the result is a learned weighted sum of all features, plus a learned constant.",
)  # fmt: skip
QUERY_PROJECTION = Kind(
    "w_q", "B Q d_model", "x W_Q + b_Q", r"x W_Q + b_Q",
    "What each token asks for: a learned projection of its vector, for all heads at once.",
)  # fmt: skip
KEY_PROJECTION = Kind(
    "w_k", "B K d_model", "x W_K + b_K", r"x W_K + b_K",
    "What each token can be found by: another learned projection.",
)  # fmt: skip
VALUE_PROJECTION = Kind(
    "w_v", "B K d_model", "x W_V + b_V", r"x W_V + b_V",
    "What each token has to say once it is found: a third learned projection.",
)  # fmt: skip
QUERY = Kind(
    "query", "B h Q d_k", "Qᵢ", r"Q_i = (x W_Q + b_Q)_{\text{columns of head } i}",
    "The columns are dealt out to the heads, d_k for each: every head asks a question of its own.",
)  # fmt: skip
KEY = Kind(
    "key", "B h K d_k", "Kᵢ", r"K_i = (x W_K + b_K)_{\text{columns of head } i}",
    "The keys are dealt out in the same way: d_k columns for each head.",
)  # fmt: skip
VALUE = Kind(
    "value", "B h K d_k", "Vᵢ", r"V_i = (x W_V + b_V)_{\text{columns of head } i}",
    "And so are the values.",
)  # fmt: skip
SCORES = Kind(
    "scores", "B h Q K", "Q Kᵀ / √d_k", r"\frac{Q_i K_i^\top}{\sqrt{d_k}}",
    "Every query is compared with every key by a dot product; √d_k keeps the numbers small enough for the softmax.",
)  # fmt: skip
MASKED_SCORES = Kind(
    "masked_scores", "B h Q K", "Q Kᵀ / √d_k, -∞ where masked", r"\frac{Q_i K_i^\top}{\sqrt{d_k}} + M",
    "What a token may not see gets -∞, which the softmax turns into a weight of 0: the future, and padding.",
)  # fmt: skip
MAXIMA = Kind(
    "maxima", "B h Q 1", "m = max s", r"m = \max_j s_j",
    "The softmax starts with the largest score of each row: without it, exp could overflow.",
)  # fmt: skip
EXPONENTIALS = Kind(
    "exponentials", "B h Q K", "exp(s - m)", r"e^{s_j - m}",
    "exp makes every score positive, and a difference of scores a ratio of weights. The largest becomes 1.",
)  # fmt: skip
SUMS = Kind(
    "sums", "B h Q 1", "Σ exp(s - m)", r"\sum_j e^{s_j - m}",
    "What each row adds up to: it is divided by this next.",
)  # fmt: skip
SOFTMAX = Kind(
    "softmax", "*", "exp(s - m) / Σ exp(s - m)", r"\frac{e^{s_j - m}}{\sum_k e^{s_k - m}}",
    "Positive numbers that add up to 1.",
)  # fmt: skip
WEIGHTS = Kind(
    "weights", "B h Q K", "A = softmax(Q Kᵀ / √d_k)",
    r"A_i = \operatorname{softmax}\left(\frac{Q_i K_i^\top}{\sqrt{d_k}}\right)",
    "Each row adds up to 1: how much a token (row) takes from every other (column).",
)  # fmt: skip
AVERAGED_WEIGHTS = Kind(
    "averaged_weights", "B Q K", "mean of A over the heads", r"\frac{1}{h} \sum_i A_i",
    "For whoever asked for the weights: the mean of all heads.",
)  # fmt: skip
HEADS = Kind(
    "heads", "B h Q d_k", "A V", r"\mathrm{head}_i = A_i V_i",
    "Every token becomes the weighted mean of the values that it looked at, in each head for itself.",
)  # fmt: skip
JOINED = Kind(
    "joined", "B Q d_model", "Concat(head₁, …, head_h)",
    r"\operatorname{Concat}(\mathrm{head}_1, \dots, \mathrm{head}_h)",
    "The heads are laid side by side again: one vector for each token.",
)  # fmt: skip
OUTPUT_PROJECTION = Kind(
    "w_o", "B Q d_model", "Concat(head₁, …, head_h) W_O + b_O",
    r"\operatorname{Concat}(\mathrm{head}_1, \dots, \mathrm{head}_h) W_O + b_O",
    "A last learned projection mixes what the heads have found.",
)  # fmt: skip

INNER = Kind(
    "linear_1", "B Q d_ff", "x W₁ + b₁", r"x W_1 + b_1",
    "Each token for itself is taken to a wider space of d_ff features, each a pattern that was learned.",
)  # fmt: skip
RELU = Kind(
    "hidden", "B Q d_ff", "max(0, x W₁ + b₁)", r"\max(0, x W_1 + b_1)",
    "Negative features become 0: a pattern is found, or it is not. Without this all layers would be one matrix.",
)  # fmt: skip
GELU = Kind(
    "hidden", "B Q d_ff", "x Φ(x)", r"x \, \Phi(x)",
    "Negative features fade to 0, smoothly. Without this all layers would be one matrix.",
)  # fmt: skip
SILU = Kind(
    "hidden", "B Q d_ff", "x σ(x)", r"x \, \sigma(x)",
    "A gate opens as far as the logistic function says. Where there is no gate, negative features fade to 0.",
)  # fmt: skip
OUTER = Kind(
    "linear_2", "B Q d_model", "max(0, x W₁ + b₁) W₂ + b₂", r"\max(0, x W_1 + b_1) W_2 + b_2",
    "Each pattern that was found adds its learned vector to the result.",
)  # fmt: skip
SUM = Kind(
    "sum", "B Q d_model", "x + f(x)", r"x + f(x)",
    "The residual connection: what the sub-layer found is added to what was there, and nothing is lost on the way.",
)  # fmt: skip
LOGITS = Kind(
    "proj", "B Q V", "x W + b", r"x W + b",
    "A number for every token of the vocabulary: the larger, the likelier it comes next.",
)  # fmt: skip

LOG_PROBABILITIES = Kind(
    "log_probabilities", "*", "log softmax(x)", r"\log \operatorname{softmax}(x)",
    "The logarithm of each class's probability.",
)  # fmt: skip
LOSSES = Kind(
    "losses", "*", "-Σ_c w_c q_c log p_c", r"-\sum_c w_c q_c \log p_c",
    "The loss of each target: how surprised the model is. Targets to be ignored have none.",
)  # fmt: skip
LOSS = Kind("loss", "*", "mean of the losses", r"\ell", "The losses, added up or averaged as was asked for.")
CHANNEL_NORM = replace(
    NORM,
    letters="*",
    sentence="Each channel gets a learned scale γ and shift β. μ and σ² are the running averages of training.",
)
OUTPUT = Kind("output", "*", "", "", "What the module returns.")

BY_MODULE = {
    "w_q": QUERY_PROJECTION, "w_k": KEY_PROJECTION, "w_v": VALUE_PROJECTION,
    "w_o": OUTPUT_PROJECTION, "out_proj": OUTPUT_PROJECTION,
    "linear_1": INNER, "linear1": INNER, "linear_2": OUTER, "linear2": OUTER, "proj": LOGITS,
}  # fmt: skip
"""What a linear layer is for, by its name."""
