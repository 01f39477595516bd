"""R1 … R9: mistakes in rotary positions."""

from scratch_transformer.kit.canonical.rotary import TIMES
from scratch_transformer.kit.kind import Mistake

SU = "Su et al. 2021, section 3.2.2, equation 15"

HEAD = """\
import torch
d, base = 4, 10000.0
x, angle = torch.tensor([1.0, 2.0, 3.0, 4.0]), 1.0 * base ** (-torch.arange(0, d, 2) / d)  # position 1: [1, 0.01]
def halves(x, cos, sin):
    return x * cos + torch.cat((-x[2:], x[:2])) * sin
wide = torch.cat((angle, angle))
right = halves(x, wide.cos(), wide.sin())
"""

FIRST_ROWS = "every sample gets the positions of the first one"
"""A form of R9, of what is given positions (B, T)."""
SMALL_BASE = "its base is {:g}, not 10,000"
"""A form of R2."""

ROTARY = (
    Mistake(
        id="R1",
        title="two pairings mixed up",
        does="Pairs neighbours (0, 1), (2, 3), … but has the table of angles for the pairs (0, d/2), (1, d/2 + 1), …, "
        "or the other way round. The two features of a pair get different angles, so nothing is rotated: lengths "
        "change, and scores do not depend on distances alone.",
        expected="One pairing throughout. Neighbours: angles repeated as θ₀ θ₀ θ₁ θ₁. Halves: θ₀ θ₁ θ₀ θ₁.",
        fix="torch.cat((angles, angles), dim=-1) goes with rotate_half; angles.repeat_interleave(2, dim=-1) with pairs "
        "x[..., 0::2], x[..., 1::2].",
        source=SU,
        mathematics="right: (a cos θ - b sin θ, a sin θ + b cos θ)      here: (a cos θ - b sin θ, a sin φ + b cos φ)",
        changes={"": {"rotary_table": "other"}},
        demo=HEAD
        + """\
mixed = angle.repeat_interleave(2)
wrong = halves(x, mixed.cos(), mixed.sin())
print("right:", right, "length", right.norm().item())
print("mixed:", wrong, "length", wrong.norm().item(), "and x has", x.norm().item())
""",
    ),
    Mistake(
        id="R2",
        title="other frequencies",
        does="The angles are not position · base^(-2i/d), with d the features of one head and i = 0 … d/2 - 1.",
        expected="Angles of position · base^(-2i/d): arange(0, d, 2) / d is 2i/d already.",
        fix="inv_freq = base ** (-torch.arange(0, head_dim, 2) / head_dim).",
        source=SU,
        mathematics="right: θᵢ = 10000^(-2i/d): 1, 0.01 for d = 4\n"
        "exponent doubled: 1, 0.0001; halved: 1, 0.1; inverted: 1, 100",
        changes={
            "the exponent is doubled": {"rotary_angles": f"{TIMES}2.0"},
            "the exponent is halved": {"rotary_angles": f"{TIMES}0.5"},
            "multiplied instead of divided": {"rotary_angles": "inverted"},
            "counted from 1": {"rotary_angles": "from 1"},
            "counted from -1": {"rotary_angles": "from -1"},
            "2i + 1 in the exponent in place of 2i": {"rotary_angles": "one more"},
            "2i - 1 in the exponent in place of 2i": {"rotary_angles": "one less"},
            "of d_model instead of one head's features": {"rotary_angles": "of d_model"},
            "the later half of the pairs is not turned": {"rotary_angles": "half"},
        },
        severities={
            "the later half of the pairs is not turned": "harmless",
            "counted from 1": "harmless",
            "counted from -1": "harmless",
            "2i + 1 in the exponent in place of 2i": "harmless",
            "2i - 1 in the exponent in place of 2i": "harmless",
            "of d_model instead of one head's features": "harmless",
        },
        demo="""\
import torch
d = 8
i = torch.arange(0, d, 2)
print("right:  ", 10000.0 ** (-i / d))
print("doubled:", 10000.0 ** (-2 * i / d), "is what 2 * i gives, where i counts in twos already")
""",
    ),
    Mistake(
        id="R3",
        title="values are rotated too",
        does="Turns the values as well. What is summed is then turned by each key's position, which nothing undoes.",
        expected="Queries and keys only: positions are for the scores.",
        fix="q, k = rotate(q), rotate(k); leave v as it is.",
        source=SU,
        mathematics="right: Σ softmax(R_m q · R_n k) v_n      here: Σ softmax(R_m q · R_n k) R_n v_n",
        changes={"": {"rotates": "q k v"}},
        demo="""\
import torch
def rotate(x):  # pairs (0, 1), one frequency
    t = torch.arange(x.shape[0]).unsqueeze(1)
    return torch.cat((x[:, :1] * t.cos() - x[:, 1:] * t.sin(), x[:, :1] * t.sin() + x[:, 1:] * t.cos()), 1)
same = torch.tensor([[1.0, 0.0]]).repeat(3, 1)  # three tokens with one value
weights = torch.full((3, 3), 1 / 3)
print("values as they are:", (weights @ same)[0], "the mean of equals is that value")
print("values rotated:    ", (weights @ rotate(same))[0])
""",
    ),
    Mistake(
        id="R4",
        title="only one of queries and keys is rotated",
        does="Turns the queries and not the keys, or the keys and not the queries. The scores then depend on one "
        "absolute position, not on the distance.",
        expected="Both, each by its own position: R_m q · R_n k depends on m - n alone.",
        fix="q, k = rotate(q), rotate(k).",
        source=SU,
        mathematics="right: (R_m q)ᵀ (R_n k) = qᵀ R_{n-m} k      here: (R_m q)ᵀ k = qᵀ R_{-m} k",
        changes={
            "the keys are not": {"rotates": "q"},
            "the queries are not": {"rotates": "k"},
            "the keys are not, and the values are": {"rotates": "q v"},
        },
        demo="""\
import torch
def rotate(x, t):
    c, s = torch.cos(torch.tensor(t)), torch.sin(torch.tensor(t))
    return torch.stack((x[0] * c - x[1] * s, x[0] * s + x[1] * c))
q, k = torch.tensor([1.0, 2.0]), torch.tensor([0.5, -1.0])
print("both:   ", rotate(q, 3.0) @ rotate(k, 1.0), rotate(q, 7.0) @ rotate(k, 5.0), "distance 2 each")
print("q alone:", rotate(q, 3.0) @ k, rotate(q, 7.0) @ k)
""",
    ),
    Mistake(
        id="R5",
        title="positions along the heads, or the features",
        does="Counts positions along the wrong axis, so that all tokens get the same angle: one for each head, where "
        "x is (batch, heads, length, d_k) and x.shape[1] is taken for the length; or one for each pair of features, "
        "where their numbers, which belong into the exponent, are taken for positions too.",
        expected="Position 0, 1, 2, … along the tokens, whatever the order of the axes.",
        fix="torch.arange(x.shape[-2]) for (batch, heads, length, d_k) and for (batch, length, d); or rotate before "
        "the transposition, where length is axis 1.",
        source=SU,
        mathematics="right: x[b, h, t] is turned by t θ      here: by h θ, so scores do not depend on t at all",
        changes={"": {"rotary_axis": "heads"}, "the numbers of the features": {"rotary_axis": "features"}},
        demo="""\
import torch
x = torch.zeros(2, 3, 5, 4).transpose(1, 2).transpose(1, 2)  # (batch, heads, length, d_k)
print("positions, right:", torch.arange(x.shape[-2]))
print("positions, wrong:", torch.arange(x.shape[1]), "one for each head")
""",
    ),
    Mistake(
        id="R6",
        title="no rotation: a sign is wrong, or the pair is not crossed",
        does="The two features of a pair are combined in a way that is no rotation: a minus is missing or there twice, "
        "or a feature is combined with itself and not with its partner.",
        expected="(a, b) becomes (a cos θ - b sin θ, a sin θ + b cos θ).",
        fix="rotate_half(x) is (-second half, first half); x * cos + rotate_half(x) * sin.",
        source=SU,
        mathematics="right: [cos θ, -sin θ; sin θ, cos θ] (a, b), which keeps √(a² + b²)\n"
        "without minus: [cos θ, sin θ; sin θ, cos θ] (a, b), which does not",
        changes={
            "without the minus": {"rotary_turn": "without minus"},
            "a minus on both": {"rotary_turn": "minus on both"},
            "cosine and sine exchanged in the second feature": {"rotary_turn": "not crossed"},
            "a feature is its own partner": {"rotary_turn": "own sine"},
        },
        demo=HEAD
        + """\
wrong = x * wide.cos() + torch.cat((x[2:], x[:2])) * wide.sin()
print("right:        ", right, "length", right.norm().item())
print("without minus:", wrong, "length", wrong.norm().item(), "and x has", x.norm().item())
""",
    ),
    Mistake(
        id="R7",
        title="turned the other way round",
        severity="harmless",
        does="Turns by -θ instead of θ. Scores depend on distances as they should, and training gives as good a model; "
        "weights of others, trained with θ, do not fit.",
        expected="(a cos θ - b sin θ, a sin θ + b cos θ).",
        fix="Exchange the signs of the two sines, if weights are to be exchanged.",
        source=SU,
        mathematics="here: (a cos θ + b sin θ, b cos θ - a sin θ), the rotation by -θ",
        changes={"": {"rotary_turn": "backward"}},
        demo=HEAD
        + """\
other = halves(x, wide.cos(), -wide.sin())
print("forward: ", right, "length", right.norm().item())
print("backward:", other, "length", other.norm().item())
""",
    ),
    Mistake(
        id="R8",
        title="rotated before the heads are split",
        severity="harmless",
        does="Turns all d_model features at once, before they are split into heads. Every head then has frequencies of "
        "its own: the first the fast ones, the last the slow ones. With neighbours as pairs the scores still depend on "
        "distances; weights of others do not fit.",
        expected="Split first; every head is turned by the same frequencies.",
        fix="q.view(B, T, heads, head_dim).transpose(1, 2) first, then rotate, with head_dim in the exponent.",
        source=f"{SU}, with d the features of one head",
        mathematics="right: θᵢ = 10000^(-2i/d_k) in each head      here: 10000^(-2i/d_model), i over all heads",
        changes={"": {"rotary_place": "all features"}},
        demo="""\
import torch
d_model, heads = 8, 2
right = 10000.0 ** (-torch.arange(0, d_model // heads, 2) / (d_model // heads))
print("each head:     ", right)
whole = 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)
print("of all at once:", whole[:2], "in the first head,", whole[2:], "in the second")
""",
    ),
    Mistake(
        id="R9",
        title="rotary positions that are not the given ones",
        severity="harmless",
        does="Counts from 1, or ignores the positions that it is given. Attention does not see it, as long as queries "
        "and keys count alike: only distances matter. With stored keys and values, or padding on the left, it does.",
        expected="Position 0 is not turned; the n-th token by n θ, or by the position that is passed.",
        fix="cos[token_positions], with positions from 0.",
        source=SU,
        mathematics="(R_{m+1} q)ᵀ (R_{n+1} k) = (R_m q)ᵀ (R_n k)",
        changes={
            "counted from 1": {"rotary_first": 1},
            "given positions are ignored": {"rotary_axis": "given positions ignored"},
        },
        severities={"given positions are ignored": "mistake", FIRST_ROWS: "mistake"},
        demo="""\
import torch
def rotate(x, t):
    c, s = torch.cos(torch.tensor(t)), torch.sin(torch.tensor(t))
    return torch.stack((x[0] * c - x[1] * s, x[0] * s + x[1] * c))
q, k = torch.tensor([1.0, 2.0]), torch.tensor([0.5, -1.0])
print("counted from 0:", rotate(q, 2.0) @ rotate(k, 0.0))
print("counted from 1:", rotate(q, 3.0) @ rotate(k, 1.0))
print("one of them new, counted from 0 again:", rotate(q, 0.0) @ rotate(k, 1.0))
""",
    ),
    Mistake(
        id="R10",
        title="the features come out in another order",
        severity="harmless",
        does="Takes neighbours as pairs and puts the results into two halves, or the other way round. Queries and keys "
        "are reordered alike, so their products are the same.",
        expected="Every feature where it was.",
        fix="torch.stack((first, second), dim=-1).flatten(-2) for neighbours, torch.cat((first, second), dim=-1) for "
        "halves.",
        source=SU,
        mathematics="(P q)ᵀ (P k) = qᵀ k for any reordering P",
        changes={"": {"rotary_out": "other"}},
        demo="""\
import torch
x = torch.arange(6)
first, second = x[0::2], x[1::2]
print("put back:", torch.stack((first, second), -1).flatten())
print("in halves:", torch.cat((first, second)))
""",
    ),
)
