"""LN1 … LN11, LN13, LN14: mistakes in layer normalization (and RMSNorm, where they apply)."""

from scratch_transformer.kit.kind import Mistake

BA = "Ba et al. 2016, equation 3; Vaswani et al. 2017, section 3.1"

OF_PLACES = "some for every place of a sentence"
"""A form of LN4."""
OF_ROWS = (
    "Has as many scales, and shifts, as features for every place of a sentence, and takes the first rows: the same "
    "token is scaled otherwise wherever it stands, and the last places are trained by the longest sentences alone."
)
LARGE_EPS = "more than a hundredth"
"""A form of LN3 that ordinary tokens show."""
MOST_EPS = 0.01
"""Of a norm, beside which the variance of ordinary tokens is large."""
OF_A_SIZE = "the number of features in its place"
"""A form of LN3, of norms that take no such number: LayerNorm(d_model), of LayerNorm(eps=1e-6)."""
NO_EPS = "none: a token whose features are all equal, as padding's zeros are, becomes NaN"
"""A form of LN3."""
ZERO_BY_ZERO = "none: where all that it takes the mean of is 0, it divides 0 by 0, which is NaN"
"""That of an RMSNorm, to which equal features are like others."""
OF_RMS = "of an RMSNorm, which has that of its model"
"""A form of LN3 that is none: Llama has 1e-5, Qwen 1e-6."""

MACHINE = "its number type's, as nn.RMSNorm has where it is told none"
"""A form of LN3; float64's, in which everything is computed here."""
MACHINE_EPS = 2.0**-52

AT_LEAST = "the variance is made at least ε"
"""A form of LN3, which is felt where the variance is less than ε: there it counts as ε."""

IN_DIVISOR = "the shift is added to the divisor"
"""A form of LN14."""
TIMES_EPS = "the standard deviation times ε"
"""A form of LN10."""

HEAD = """\
import torch
x = torch.tensor([[1.0, 2.0, 3.0, 6.0]])
right = torch.nn.functional.layer_norm(x, (4,))
mean = x.mean(-1, keepdim=True)
"""

NORMALIZATION = (
    Mistake(
        id="LN1",
        title="the variance divides by n - 1",
        does="Divides by a standard deviation that was computed with n - 1 in place of n. x.std() and x.var() do that "
        "unless they are told otherwise.",
        expected="Divide the sum of squares by n, the number of features. n - 1 is for estimating from a sample; here "
        "all features are at hand.",
        fix="x.std(-1, keepdim=True, unbiased=False), or x.var(-1, keepdim=True, unbiased=False).",
        source=BA,
        mathematics="right: σ² = Σ (x - μ)² / n      here: s² = Σ (x - μ)² / (n - 1)\n"
        "so every output is √((n - 1)/n) times as large: 0.935414 for n = 8, 0.999023 for n = 512, NaN for n = 1",
        changes={"": {"ddof": 1}},
        demo=HEAD
        + """\
wrong = (x - mean) / (x.var(-1, keepdim=True) + 1e-5).sqrt()
print("PyTorch:", right)
print("x.var():", wrong)
print("ratio:", (wrong / right)[0, 0].item(), "and sqrt(3/4) is", 0.75**0.5)
""",
    ),
    Mistake(
        id="LN2",
        title="eps outside the root",
        does="Divides by σ + ε: the small number ε is added after the square root.",
        expected="Divide by √(σ² + ε): ε is added to the variance, inside the root.",
        fix="torch.sqrt(variance + eps) in place of std + eps.",
        source=BA,
        mathematics="right: (x - μ) / √(σ² + ε)      here: (x - μ) / (σ + ε)\n"
        "the same for a large σ; for σ = 0.001 and ε = 0.00001 the output is √(σ² + ε) / (σ + ε) = 3.28 times as large",
        changes={"": {"eps_inside": False}},
        demo="""\
import torch
x = torch.tensor([[1.0, 2.0, 3.0, 6.0]]) * 0.0005
right = torch.nn.functional.layer_norm(x, (4,), eps=1e-5)
mean, std = x.mean(-1, keepdim=True), x.std(-1, keepdim=True, unbiased=False)
wrong = (x - mean) / (std + 1e-5)
print("PyTorch:", right)
print("std + eps:", wrong)
print("ratio at std =", std.item(), "is", (wrong / right)[0, 0].item())
""",
    ),
    Mistake(
        id="LN3",
        title="another eps",
        severity="harmless",
        does="Uses another ε than nn.LayerNorm's 0.00001, or another than the one it was given.",
        expected="ε = 0.00001 is nn.LayerNorm's default; nn.RMSNorm's is 1.2e-7, what float32 tells apart from 1. The "
        "paper names none. It matters only for tokens whose features are almost equal; to an RMSNorm, for those "
        "that are almost 0.",
        fix="eps=1e-5, if the weights are to be exchanged with PyTorch's.",
        source=BA,
        mathematics="(x - μ) / √(σ² + ε): at σ = 0.001, ε = 1e-12 in place of 1e-5 gives 3.317 times as much; at σ = 1 "
        "the same to 5 digits",
        changes={
            "1e-6": {"eps": 1e-6},
            "1e-12": {"eps": 1e-12},
            "1e-8": {"eps": 1e-8},
            "1e-5": {"eps": 1e-5},
            MACHINE: {"eps": MACHINE_EPS},
            "0": {"eps": 0.0},
            f"{AT_LEAST}, and ε is added to that": {"variance": "at least eps"},
            f"{AT_LEAST}, and none is added": {"variance": "at least eps", "eps_inside": False},
        },
        severities={**dict.fromkeys((LARGE_EPS, OF_A_SIZE, NO_EPS, ZERO_BY_ZERO), "mistake"), OF_RMS: "note"},
        fixes={
            OF_A_SIZE: "Make it without a number, LayerNorm(), or let its constructor take d_model before eps, for as "
            "many scales and shifts.",
            NO_EPS: "(x - mean) / torch.sqrt(var + eps), with eps=1e-5: nothing is divided by 0.",
            ZERO_BY_ZERO: "x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps), with the eps of the model, as 1e-6: "
            "nothing is divided by 0.",
            f"{AT_LEAST}, and ε is added to that": "Leave the clamp out: torch.sqrt(var + eps) is PyTorch's.",
            f"{AT_LEAST}, and none is added": "torch.sqrt(var + eps) is PyTorch's.",
        },
        demo="""\
import torch
x = torch.tensor([[1.0, 2.0, 3.0, 6.0]])
for size in (1.0, 0.01, 0.0005):
    usual = torch.nn.functional.layer_norm(x * size, (4,), eps=1e-5)
    other = torch.nn.functional.layer_norm(x * size, (4,), eps=1e-12)
    std = (x * size).std(unbiased=False).item()
    print(f"standard deviation {std:.4f}: ratio {(other / usual)[0, 0].item():.4f}")
""",
    ),
    Mistake(
        id="LN4",
        title="another number of scales and shifts than of features",
        does="Has a single number for the scale and one for the shift, shared by all features; or as many as features "
        "for every place of a sentence, and works with sentences of one length alone.",
        expected="One scale and one shift for every feature: 2 · d_model learned numbers.",
        fix="nn.Parameter(torch.ones(d_model)) in place of nn.Parameter(torch.ones(1)); zeros likewise.",
        source=BA,
        mathematics="right: y_i = γ_i · x̂_i + β_i      here: y_i = γ · x̂_i + β",
        severities={OF_PLACES: "harmless"},
        fixes={OF_PLACES: "nn.Parameter(torch.ones(d_model)), the same for the token at every place; zeros likewise."},
        demo="""\
import torch
d_model = 512
right = torch.nn.LayerNorm(d_model)
alpha, bias = torch.nn.Parameter(torch.ones(1)), torch.nn.Parameter(torch.zeros(1))
print("PyTorch learns", sum(p.numel() for p in right.parameters()), "numbers")
print("here there are", alpha.numel() + bias.numel())
""",
    ),
    Mistake(
        id="LN5",
        title="the variance as a difference of squares",
        does="Computes the variance as mean(x²) - mean(x)². Where the mean is large, two large and nearly equal "
        "numbers "
        "are subtracted, and few digits are left, or even a negative variance: its root is NaN (not a number).",
        expected="Subtract the mean first: mean((x - mean)²).",
        fix="(x - mean).pow(2).mean(-1, keepdim=True).",
        source=BA,
        mathematics="mean(x²) - mean(x)² = mean((x - mean(x))²) with unlimited digits; float32 has 7",
        changes={"": {"variance": "difference of squares"}},
        demo="""\
import torch
torch.manual_seed(0)
x = torch.randn(1000, 64) + 1e4
difference = (x**2).mean(-1) - x.mean(-1) ** 2
centred = (x - x.mean(-1, keepdim=True)).pow(2).mean(-1)
print("should be near 1:", centred[:4])
print("difference of squares:", difference[:4])
print("negative, so NaN after the root:", (difference < 0).float().mean().item())
""",
    ),
    Mistake(
        id="LN6",
        title="no shift",
        severity="harmless",
        does="Has a scale, but no shift (bias) that is added at the end; or makes a scale and a shift and does not use "
        "them.",
        expected="PyTorch and Ba et al. have both. Some newer models leave the shift out on purpose.",
        fix="self.bias = nn.Parameter(torch.zeros(d_model)), added to the result; or leave it: "
        "nn.LayerNorm(bias=False). A scale that is made: x * self.weight.",
        source=BA,
        mathematics="right: y = γ · x̂ + β      here: y = γ · x̂",
        changes={
            "the shift is made and never added": {"affine": "scale"},
            "the scale is made and never used": {"affine": "shift"},
            "scale and shift are made and never used": {"affine": "neither"},
        },
        demo="""\
import torch
x = torch.tensor([[1.0, 2.0, 3.0, 6.0]])
norm = torch.nn.LayerNorm(4)
torch.nn.init.constant_(norm.bias, 5.0)
print("with a shift that was learned:", norm(x).mean().item())
print("without:", torch.nn.functional.layer_norm(x, (4,)).mean().item())
""",
    ),
    Mistake(
        id="LN7",
        title="normalizes over the wrong axis",
        does="Takes mean and variance over the tokens (or over the whole sample, or the batch), so the output of a "
        "token "
        "depends on the other tokens, on padding and on the future.",
        expected="Take them over the features of each token alone: the last axis.",
        fix="mean(-1, keepdim=True) and var(-1, keepdim=True, unbiased=False).",
        source=BA,
        mathematics="right: μ_bt = Σ_i x_bti / d_model      here: μ_bi = Σ_t x_bti / T",
        changes={
            "over the tokens": {"norm_dims": "tokens"},
            "over tokens and features": {"norm_dims": "tokens and features"},
            "over the batch": {"norm_dims": "batch"},
            "over the batch and the features": {"norm_dims": "batch and features"},
            "over the batch and the tokens": {"norm_dims": "batch and tokens"},
            "over all dimensions at once": {"norm_dims": "all"},
        },
        demo="""\
import torch
torch.manual_seed(0)
x = torch.randn(1, 5, 4)
changed = x.clone()
changed[0, 4] += 10  # only the last token
def wrong(x):
    return (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)
print("first token, over the tokens:", wrong(x)[0, 0, 0].item(), "->", wrong(changed)[0, 0, 0].item())
right = torch.nn.LayerNorm(4)
print("first token, over the features:", right(x)[0, 0, 0].item(), "->", right(changed)[0, 0, 0].item())
""",
    ),
    Mistake(
        id="LN8",
        title="super().__init__() is not called",
        does="Writes super.__init__() or super(self).__init__(), or leaves it out. nn.Module's own constructor must "
        "run before any parameter is set.",
        expected="super().__init__() in the first line of __init__, with both pairs of parentheses.",
        fix="super().__init__()",
        source="documentation of torch.nn.Module",
        demo="""\
import torch
class Norm(torch.nn.Module):
    def __init__(self):
        super.__init__()
        self.alpha = torch.nn.Parameter(torch.ones(4))
try:
    Norm()
except TypeError as error:
    print("TypeError:", error)
""",
    ),
    Mistake(
        id="LN9",
        title="the mean is not subtracted",
        does="Divides without subtracting the mean first. By the root mean square, that is RMSNorm under the name of "
        "layer normalization.",
        expected="Layer normalization subtracts the mean of the features, then divides.",
        fix="(x - x.mean(-1, keepdim=True)) / torch.sqrt(variance + eps).",
        source=BA,
        mathematics="right: (x - μ) / √(σ² + ε)      here: x / √(mean(x²) + ε)",
        changes={
            "": {"norm_kind": "rms"},
            "divided by the standard deviation": {"norm_kind": "divided only"},
        },
        demo=HEAD
        + """\
wrong = x / (x.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()
print("PyTorch:", right, "mean", right.mean().item())
print("without the mean:", wrong, "mean", wrong.mean().item())
""",
    ),
    Mistake(
        id="LN10",
        title="divides by another power of the deviation",
        does="Divides by the variance, or by the root of the standard deviation, instead of the standard deviation "
        "itself; or multiplies by it, or ε by it. torch.var is σ² already and torch.std is σ, of which no root is to "
        "be taken.",
        expected="Divide by √(σ² + ε).",
        fix="torch.sqrt(variance + eps) in the denominator.",
        source=BA,
        mathematics="right: (x - μ) / √(σ² + ε)      here: (x - μ) / (σ² + ε)",
        changes={
            "the variance": {"variance": "no root"},
            "the root of the standard deviation": {"variance": "two roots"},
            "the variance, squared and its root taken": {"variance": "squared"},
            "multiplied by the standard deviation": {"variance": "multiplied"},
            "the mean of |x - μ|": {"variance": "absolute"},
            TIMES_EPS: {"variance": "times eps"},
        },
        fixes={
            TIMES_EPS: "torch.sqrt(variance + eps): ε is added, so that nothing is divided by 0, and not multiplied."
        },
        demo=HEAD
        + """\
wrong = (x - mean) / (x.var(-1, keepdim=True, unbiased=False) + 1e-5)
print("PyTorch:", right, "variance", right.var(unbiased=False).item())
print("without the root:", wrong, "variance", wrong.var(unbiased=False).item())
""",
    ),
    Mistake(
        id="LN13",
        title="scale or shift start at another value",
        does="The scale does not start at 1, or the shift does not start at 0. A scale of 0 lets nothing through and a "
        "shift of 1 moves every feature, until training has undone it; random numbers weigh features at random.",
        expected="nn.Parameter(torch.ones(d_model)) for the scale, nn.Parameter(torch.zeros(d_model)) for the shift: "
        "at first, a norm only normalizes.",
        fix="self.weight = nn.Parameter(torch.ones(d_model)); self.bias = nn.Parameter(torch.zeros(d_model)).",
        source=BA,
        demo="""\
import torch
norm = torch.nn.LayerNorm(4)
x = torch.tensor([[1.0, 2.0, 3.0, 6.0]])
print("as it should start:", norm(x).data)
torch.nn.init.ones_(norm.bias)
print("with a shift of 1:", norm(x).data)
torch.nn.init.zeros_(norm.weight)
print("and a scale of 0:", norm(x).data)
""",
    ),
    Mistake(
        id="LN14",
        title="brackets in the wrong place",
        does="Writes x - mean / σ, which divides the mean alone, as division comes first; or γ * (x̂ + β), which "
        "scales the shift too; or adds the shift to what is divided by.",
        expected="γ * ((x - mean) / σ) + β.",
        fix="self.gamma * (x - mean) / torch.sqrt(variance + self.eps) + self.beta.",
        source=BA,
        mathematics="right: γ (x - μ) / σ + β      here: γ (x - μ / σ) + β, or γ ((x - μ) / σ + β), or "
        "γ (x - μ) / (σ + β)",
        changes={
            "the mean alone is divided": {"norm_kind": "mean divided"},
            "the shift is scaled too": {"affine": "shift, scale"},
            IN_DIVISOR: {"affine": "scale, shift in the divisor"},
        },
        demo=HEAD
        + """\
std = x.std(-1, keepdim=True, unbiased=False)
print("PyTorch:", right)
print("x - mean / std:", x - mean / std)
print("(x - mean) / std:", (x - mean) / std)
""",
    ),
    Mistake(
        id="LN11",
        title="the mean is subtracted in RMSNorm",
        does="Subtracts the mean before dividing: that is layer normalization, under the name of RMSNorm.",
        expected="RMSNorm only divides by the root mean square.",
        fix="x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + eps).",
        source="Zhang & Sennrich 2019, equation 4",
        mathematics="right: x / √(mean(x²) + ε)      here: (x - μ) / √(σ² + ε)",
        changes={"": {"norm_kind": "centred"}},
        demo="""\
import torch
x = torch.tensor([[1.0, 2.0, 3.0, 6.0]])
right = x / (x.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()
wrong = torch.nn.functional.layer_norm(x, (4,))
print("root mean square:", right)
print("with the mean subtracted:", wrong)
""",
    ),
)
