"""A1 … A25, A37 … A40: mistakes in attention, its heads and its masks."""

from scratch_transformer.kit.kind import Mistake

CORE = "Vaswani et al. 2017, section 3.2.1, equation 1"
HEADS = "Vaswani et al. 2017, section 3.2.2"
MASKS = "Vaswani et al. 2017, section 3.2.3"
TARGET_ONLY = "the target's padding is not masked, which shows only where words come after it"
UNTOLD = "it has no mask, and nothing in it speaks of padding: all of its tokens are attended to"
UNREAD = "forward takes it, and nothing reads it"
UNREAD_OF_QUERIES = "of the queries, of which nothing reads it: they need none"
POOLED = "what it makes of its layers' output for a sentence counts padding in"
WEIGHTS_APART = "weights and values are summed each on its own"
OWN_VALUE = "every token gets its own value alone, times the sum of its weights"
ZERO_TIMES_INFINITY = "the mask times -inf"
CUT_OFF = "exp(x) is cut off at a largest number, above which all x count alike"
AMONG_HEADS = "heads stay behind the tokens: those of one token attend to each other, and tokens never do"
"""A form of A13, of scores (batch, length, heads, heads)."""
ONE_HEAD = "one head of all features"
ONE_TURNED = "one head of all features, merged as if there were several"
SPLIT_ALONE = {f"the {which} alone": f"view of {which}" for which in ("queries", "keys", "values")}
"""Forms of A13: how the recipe splits heads then."""
NEAR_ZERO = "filled with a number near 0, which is far from -∞"
OUTPUT_ALONE = "of the output projection alone, where a config says so"
OF_THE_MODEL = "divided by √(d_model / h), whatever width the heads are cut from"
OUTSIDE = "divided by the root of a number outside of the class"
BEHIND_THE_PRESENT = "queries instead of keys, beside a mask that hides the future"
"""A form of A7."""
DOES_BEHIND_THE_PRESENT = (
    "Uses the padding mask for rows (queries) instead of columns (keys). Where padding stands behind the sentence, as "
    "is usual, it is future, which no word sees: it costs nothing. Padding in front would be seen."
)
WRITTEN_IN = "a number that is written in, and right for heads of one width"
AS_IN_T5 = "not scaled, as in T5: its initial weights are smaller instead"
STOPS_UNEVEN = "it stops where their lengths differ"
CAUSAL_ENCODER = "the encoder is given a causal mask too, and no word of the source sees a later one"
OF_EXCHANGED = "Hand each mask on by its name, mask=tgt_mask; or in the order in which forward takes them."
"""A form of A27, and its fix where a whole exchanges two masks."""
LENT = "the part that the reference stands in for may make the mask, or read it the other way round"
ROWS_TOO = "the rows of padding are blocked too: only what stands for it there has nothing to attend to"
IN_BOOLEANS = "-∞ is written into a boolean mask, where it is True, and 1 where that is added"
"""A form of A16, of what makes masks."""
SPREADS = "the rows of padding are blocked too, with -∞: the next layer spreads their NaN to all words"
"""Forms of A11."""
BESIDE_A_MASK = "is_causal=True alone hides nothing; as in torch.nn, it may only be said beside a mask"
"""A form of A25."""
TURNED_BETWEEN = "turned by their positions in between"
"""A form of A39."""
DOES_TURN = (
    "Turns what its own layers give by its position, and hands that to an attention that projects it once more. A "
    "matrix behind the rotation undoes what it is for: scores depend on both places, and not on their distance alone."
)
OF_KEYS = (
    "A mask of (batch, keys) is one row for all tokens, and cannot hide the later ones. Make it (batch, 1, length, "
    "length), (ids != pad)[:, None, None] & torch.tril(torch.ones(T, T)).bool(), and give it no more dimensions in "
    "attention."
)
"""The fix of A25 where a mask can only be of padding."""
NOT_ASKED = "nobody asks for one: it takes a mask, or its name does not say that it is a decoder"

QKV = """\
import torch
torch.manual_seed(0)
q, k, v = torch.randn(3, 1, 5, 64).unbind(0)
"""
SCORES = """\
import torch
torch.manual_seed(0)
scores = torch.randn(3, 3)
keep = torch.tensor([True, True, False])  # the third key is padding
right = scores.masked_fill(~keep, float("-inf")).softmax(-1)
"""

ATTENTION = (
    Mistake(
        id="A1",
        title="wrong scale of the scores",
        does="Does not divide the scores by √d_k, the root of the width of one head, but by something else, or by "
        "nothing. The softmax becomes too sharp or too flat.",
        expected="Divide the scores Q Kᵀ by √d_k, d_k = d_model / heads, before the softmax.",
        fix="scores = q @ k.transpose(-2, -1) / math.sqrt(d_k), with d_k = q.size(-1).",
        source=CORE,
        mathematics="right: softmax(Q Kᵀ / √d_k) V. Of random q and k the products have variance d_k; the root brings "
        "it back to 1.",
        changes={
            "not scaled": {"scale": "none"},
            "divided by d_k": {"scale": "1/d_k"},
            "divided by √d_model": {"scale": "1/sqrt(d_model)"},
            "divided by d_model": {"scale": "1/d_model"},
            "divided by √heads": {"scale": "1/sqrt(h)"},
            "divided by √length": {"scale": "1/sqrt(S)"},
            "divided by the root of the number of samples": {"scale": "1/sqrt(B)"},
            "multiplied by √d_k": {"scale": "sqrt(d_k)"},
            "multiplied by √d_model": {"scale": "sqrt(d_model)"},
            "divided after the softmax": {"scale_place": "after softmax"},
            "divided by √d_model after the softmax": {"scale_place": "after softmax", "scale": "1/sqrt(d_model)"},
        },
        severities={AS_IN_T5: "note", WRITTEN_IN: "harmless"},
        demo=QKV
        + """\
right = (q @ k.transpose(-2, -1) / 64**0.5).softmax(-1)
wrong = (q @ k.transpose(-2, -1)).softmax(-1)
print("with 1/sqrt(d_k):", right[0, 0])
print("without:", wrong[0, 0])
print("largest weights:", right.amax(-1).mean().item(), "and", wrong.amax(-1).mean().item())
""",
    ),
    Mistake(
        id="A2",
        title="softmax over the wrong axis",
        does="The softmax goes over another axis than that of the keys, so the weights of one query do not sum to 1.",
        expected="Softmax over the last axis, the keys: how one query shares its attention among all keys.",
        fix="scores.softmax(dim=-1).",
        source=CORE,
        mathematics="right: Σ_j a_ij = 1 for every query i      here: the sum over another axis is 1",
        changes={
            "over the queries": {"softmax_over": "queries"},
            "over the heads": {"softmax_over": "heads"},
            "over the batch": {"softmax_over": "batch"},
        },
        demo="""\
import torch
torch.manual_seed(0)
scores = torch.randn(1, 3, 4)  # (batch, queries, keys)
print("dim=-1, sums over the keys:", scores.softmax(-1).sum(-1))
print("dim=1, sums over the keys:", scores.softmax(1).sum(-1))
""",
    ),
    Mistake(
        id="A37",
        title="no softmax, or not one",
        does="Multiplies the values by the scores themselves, or by something else that is made of them, so that the "
        "weights of one query are no shares of a whole.",
        expected="One softmax over the keys: weights between 0 and 1 that sum to 1.",
        fix="weights = scores.softmax(dim=-1), once.",
        source=CORE,
        mathematics="right: softmax(s) V      here: s V, sigmoid(s) V, log_softmax(s) V, or softmax(softmax(s)) V",
        changes={
            "the scores themselves": {"weighing": "nothing"},
            "sigmoid": {"weighing": "sigmoid"},
            "log_softmax": {"weighing": "log_softmax"},
            "softmax twice": {"weighing": "softmax twice"},
        },
        demo="""\
import torch
scores = torch.tensor([2.0, 1.0, -1.0])
print("softmax:", scores.softmax(-1), "sum", scores.softmax(-1).sum().item())
print("none:", scores, "sum", scores.sum().item())
print("twice, nearly all the same:", scores.softmax(-1).softmax(-1))
""",
    ),
    Mistake(
        id="A38",
        title="one axis that has two letters, or two that have one",
        does="Queries and keys, or weights and values, have two letters for the axis that they share. einsum sums each "
        "over its own letter before it multiplies: which query fits which key is lost, or what is weighed by what. Or "
        "the values share the letter of the queries, as where weights (B, T, S, 1) are multiplied by values "
        "(B, T, 1, d): each token's weights are summed, to 1, and nothing comes from the others.",
        expected="One letter for what is multiplied pair by pair and summed: the features of q and k, then the keys.",
        fix='torch.einsum("bqhd,bkhd->bhqk", q, k), then torch.einsum("bhqk,bkhd->bqhd", weights, v): k is in both.',
        source=CORE,
        mathematics="right: Σ_k a_qk v_k      here: (Σ_k a_qk) (Σ_l v_l) = Σ_l v_l, the same for every query",
        changes={
            WEIGHTS_APART: {"summed": "keys apart"},
            OWN_VALUE: {"summed": "own value"},
            "queries and keys are summed each on its own": {"summed": "features apart"},
        },
        demo="""\
import torch
torch.manual_seed(0)
weights, values = torch.randn(2, 3).softmax(-1), torch.randn(3, 2)
print("right:", torch.einsum("qk,kd->qd", weights, values))
print("two letters, every query gets the same:", torch.einsum("qk,vd->qd", weights, values))
print("the sum of all values:", values.sum(0))
""",
    ),
    Mistake(
        id="A39",
        title="projected twice in a row",
        severity="harmless",
        does="Projects queries, keys and values with layers of its own, and hands them to an attention that projects "
        "them again. Two linear layers in a row can do no more than one: it has twice the weights, and learns "
        "otherwise.",
        expected="Attention is given x itself, for queries, keys and values, and projects it.",
        fix="Leave out the layers that stand before it: self.attention(x, x, x).",
        source=HEADS,
        mathematics="(x W₁ᵀ + b₁) W₂ᵀ + b₂ = x (W₂ W₁)ᵀ + (W₂ b₁ + b₂): one matrix and one bias",
        severities={TURNED_BETWEEN: "mistake"},
        fixes={
            TURNED_BETWEEN: "F.scaled_dot_product_attention(rotate(q), rotate(k), v) of the heads, in place of "
            "nn.MultiheadAttention: nothing is to stand between the rotation and the scores."
        },
        demo="""\
import torch
torch.manual_seed(0)
first, second, one, x = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4), torch.nn.Linear(4, 4), torch.randn(3, 4)
one.weight.data, one.bias.data = second.weight @ first.weight, second.weight @ first.bias + second.bias
print("two layers are one:", torch.allclose(second(first(x)), one(x), atol=1e-6))
""",
    ),
    Mistake(
        id="A3",
        title="mask after the softmax",
        does="Sets blocked weights to zero after the softmax, so the remaining weights sum to less than 1.",
        expected="Set blocked scores to -∞ before the softmax; the others then share all of the weight.",
        fix="scores.masked_fill(mask == 0, float('-inf')).softmax(-1).",
        source=MASKS,
        mathematics="right: softmax(s + log m)      here: softmax(s) · m, with m = 1 (keep) or 0 (blocked)",
        changes={"": {"masking": "after softmax"}},
        demo=SCORES
        + """\
wrong = scores.softmax(-1) * keep
print("right:", right[0], "sum", right[0].sum().item())
print("masked afterwards:", wrong[0], "sum", wrong[0].sum().item())
""",
    ),
    Mistake(
        id="A4",
        title="scores times mask",
        does="Multiplies the scores by the mask. A blocked score becomes 0, not -∞, and the softmax gives it a weight "
        "proportional to e⁰ = 1. So it does with 1e-9 for -1e9; with 1e9, what is blocked gets all of the weight, and "
        "with +∞ it becomes NaN. And so does every score to which (mask == 0) * -inf is added, as 0 · ∞ is NaN.",
        expected="Set blocked scores to -∞ before the softmax.",
        fix="scores.masked_fill(mask == 0, float('-inf')).",
        source=MASKS,
        mathematics="right: exp(-∞) = 0      here: exp(0 · s) = 1",
        changes={
            "": {"masking": "times"},
            "filled with 1e-9": {"fill": "1e-9"},
            "filled with -1e-9": {"fill": "-1e-9"},
            "filled with 1e9": {"fill": "1e9"},
            "filled with +inf": {"fill": "inf"},
        },
        demo=SCORES
        + """\
wrong = (scores * keep).softmax(-1)
print("right:", right[0])
print("scores * mask:", wrong[0], "- the blocked key has", wrong[0, 2].item())
""",
    ),
    Mistake(
        id="A5",
        title="inverted causal mask",
        does="Lets every token attend to what comes after it, and hides what comes before: the mask is upside down.",
        expected="A token attends to itself and to the tokens before it: the lower triangle.",
        fix="torch.tril(torch.ones(T, T)) is 1 where attending is allowed; block where it is 0.",
        source=MASKS,
        mathematics="right: query i sees key j if j ≤ i      here: if j > i",
        changes={
            "sees the future only": {"causal": "future"},
            "sees itself and the future": {"causal": "future and present"},
        },
        severities={LENT: "note"},
        demo="""\
import torch
right = torch.tril(torch.ones(4, 4))
wrong = torch.triu(torch.ones(4, 4), diagonal=1)
print("1 = may attend, right:", right, sep="\\n")
print("inverted; the last token has nothing left:", wrong, sep="\\n")
""",
    ),
    Mistake(
        id="A6",
        title="the causal mask is off by one",
        does="The diagonal of the causal mask is shifted: a token cannot attend to itself, or sees one token of the "
        "future.",
        expected="A token attends to itself and to the tokens before it, and to nothing after.",
        fix="torch.tril(torch.ones(T, T)), without a diagonal argument; or block torch.triu(..., diagonal=1).",
        source=MASKS,
        mathematics="right: query i sees key j if j ≤ i      here: if j < i, or if j ≤ i + 1",
        changes={"hides the diagonal": {"causal": "past"}, "sees one token ahead": {"causal": "one ahead"}},
        demo="""\
import torch
blocked = torch.triu(torch.ones(4, 4), diagonal=1).bool()
too_much = torch.triu(torch.ones(4, 4)).bool()
print("right, blocked:", blocked, sep="\\n")
print("diagonal blocked too:", too_much, sep="\\n")
print("the first token's weights:", torch.zeros(4, 4).masked_fill(too_much, float("-inf")).softmax(-1)[0])
""",
    ),
    Mistake(
        id="A7",
        title="padding mask on the queries",
        does="Uses the padding mask for rows (queries) instead of columns (keys): real tokens still attend to padding.",
        expected="The padding mask blocks columns: no query may attend to a padded key.",
        fix="mask[:, None, None, :] for a mask (batch, keys), so that its last axis is the keys'.",
        source=MASKS,
        mathematics="right: a_ij = 0 for padded keys j      here: for padded queries i",
        changes={
            "queries instead of keys": {"padding": "queries"},
            "queries instead of keys, in the target": {"padding": "queries of the target"},
            "queries instead of keys, in the source": {"padding": "queries of the source"},
        },
        severities={BEHIND_THE_PRESENT: "harmless"},
        demo="""\
import torch
keep = torch.tensor([[True, True, False]])  # (batch, length), the last token is padding
scores = torch.zeros(1, 3, 3)
right = scores.masked_fill(~keep[:, None, :], float("-inf")).softmax(-1)
wrong = scores.masked_fill(~keep[:, :, None], -1e9).softmax(-1)
print("columns blocked; the first query:", right[0, 0])
print("rows blocked; the first query:", wrong[0, 0])
""",
    ),
    Mistake(
        id="A8",
        title="-1e9 in float16",
        severity="harmless",
        does="Blocks with -1e9, or another number beyond -65504, where float16 (half precision) ends: the code stops "
        "with an error there.",
        expected="-inf exists in every precision.",
        fix="scores.masked_fill(mask == 0, float('-inf')).",
        source=MASKS,
        mathematics="the largest float16 is 65504; -1e9 is beyond it",
        demo="""\
import torch
scores, blocked = torch.zeros(2, 2), torch.eye(2).bool()
print("float32:", scores.masked_fill(blocked, -1e9).softmax(-1)[0])
try:
    scores.half().masked_fill(blocked, -1e9)
except RuntimeError as error:
    print("float16:", error)
print("with -inf:", scores.half().masked_fill(blocked, float("-inf")).softmax(-1)[0])
""",
    ),
    Mistake(
        id="A10",
        title="blocks with a number that is too small",
        severity="harmless",
        does="Sets blocked scores to a finite number such as -10000. Its exponential is 0 in every precision, so "
        "blocked keys get no weight, unless scores differ by that much.",
        expected="-∞ is below every score, however large scores become.",
        fix="float('-inf'), or torch.finfo(scores.dtype).min.",
        source=MASKS,
        mathematics="softmax(s_1, -10000) gives the blocked key all the weight where s_1 < -10000",
        changes={"-10000": {"fill": "-1e4"}},
        demo="""\
import torch
scores = torch.tensor([-20000.0, 3.0])
blocked = torch.tensor([False, True])
print("-10000:", scores.masked_fill(blocked, -10000.0).softmax(-1))
print("-inf:", scores.masked_fill(blocked, float("-inf")).softmax(-1))
""",
    ),
    Mistake(
        id="A11",
        title="a query that may attend to nothing",
        severity="note",
        does="If all keys of a query are blocked (a sentence of padding only), its output is the mean over all values, "
        "padding included, or NaN (not a number), which spreads through the whole model.",
        expected="There is nothing to attend to, so zero is the sensible answer. PyTorch is not of one mind: "
        "scaled_dot_product_attention gives 0, nn.MultiheadAttention NaN.",
        fix="Make sure that every query has a key; or set such rows to zero after the softmax.",
        source=MASKS,
        mathematics="softmax(-∞, …, -∞) = 0/0 = NaN; softmax(-1e9, …, -1e9) = 1/S each",
        changes={"the mean over all values": {"fill": "-1e9"}, "NaN": {"fill": "-inf"}},
        severities={ROWS_TOO: "harmless", SPREADS: "mistake"},
        fixes={
            SPREADS: "Block columns alone, (ids != pad)[:, None, None, :]: padding may attend to words. Or fill with "
            "torch.finfo(scores.dtype).min.",
        },
        demo="""\
import torch
scores, blocked = torch.zeros(1, 4), torch.ones(1, 4).bool()
print("-inf:", scores.masked_fill(blocked, float("-inf")).softmax(-1))
print("-1e9:", scores.masked_fill(blocked, -1e9).softmax(-1))
q, k = torch.zeros(1, 2), torch.zeros(4, 2)
print("torch:", torch.nn.functional.scaled_dot_product_attention(q, k, torch.ones(4, 2), attn_mask=~blocked))
""",
    ),
    Mistake(
        id="A12",
        title="changes its caller's tensors",
        does="Changes a tensor that it was given, in place. The next layer, or the next call, gets another input.",
        expected="Leave inputs as they are, and return new tensors.",
        fix="Operations without a trailing underscore: masked_fill in place of masked_fill_, x = x + y for x += y.",
        source=CORE,
        mathematics="f(x) twice must be the same twice",
        demo="""\
import torch
def attend(mask):
    mask.logical_not_()  # the underscore: in place
    return mask
mask = torch.tensor([True, True, False])
print("before:", mask)
attend(mask)
print("after one call:", mask)
""",
    ),
    Mistake(
        id="A13",
        title="heads split by view alone",
        does="Cuts (batch, length, d_model) into (batch, heads, length, d_k) by view or reshape alone. That mixes "
        "positions: each head gets a part of the sentence instead of a part of the features. Or heads are not split, "
        "and one attends for all; or not moved before the tokens, and no token sees another. Heads of every h-th "
        "feature are heads all the same: only weights of other code do not fit.",
        expected="view(batch, length, heads, d_k), then transpose(1, 2).",
        fix="x.view(B, T, heads, d_k).transpose(1, 2).",
        source=HEADS,
        mathematics="right: head h of token t has the features h·d_k … (h+1)·d_k - 1 of token t",
        changes={
            "": {"split": "view"},
            **{form: {"split": split} for form, split in SPLIT_ALONE.items()},
            "every h-th feature": {"split": "interleaved"},
            AMONG_HEADS: {"split": "behind the tokens", "merge": "as they are"},
            ONE_HEAD: {"split": "not at all"},
            ONE_TURNED: {"split": "not at all", "merge": "features first"},
            "one head of all features, with √d_k of several": {"split": "not at all", "scale": "1/sqrt(d_k/h)"},
        },
        severities={"every h-th feature": "harmless"},  # as with the projections' rows in another order
        demo="""\
import torch
x = torch.arange(8).view(1, 2, 4)  # 1 sample, 2 tokens, 4 features
right = x.view(1, 2, 2, 2).transpose(1, 2)
wrong = x.view(1, 2, 2, 2)
print("tokens:", x, sep="\\n")
print("head 0, right (the first half of each token):", right[0, 0], sep="\\n")
print("head 0 by view alone (the whole first token):", wrong[0, 0], sep="\\n")
""",
    ),
    Mistake(
        id="A14",
        title="projections without biases",
        severity="paper",
        does="Some or all of the four projections of attention have no bias.",
        expected="The paper writes them without; PyTorch's nn.MultiheadAttention has them unless bias=False.",
        fix="nn.Linear(d_model, d_model) without bias=False, if PyTorch's default is wanted.",
        source=HEADS,
        mathematics="paper: Q W_q      PyTorch: Q W_q + b_q",
        changes={
            "b_q is there, but not added": {"unused_biases": "w_q"},
            "b_v is there, but not added": {"unused_biases": "w_v"},
            "b_o is there, but not added": {"unused_biases": "w_o"},
        },
        severities={f"b_{x} is there, but not added": "mistake" for x in "qvo"},
        demo="""\
import torch
with_bias = torch.nn.MultiheadAttention(512, 8)
without = torch.nn.MultiheadAttention(512, 8, bias=False)
print("parameters with biases:", sum(p.numel() for p in with_bias.parameters()))
print("without, as in the paper:", sum(p.numel() for p in without.parameters()))
""",
    ),
    Mistake(
        id="A15",
        title="bias=False is ignored",
        does="Takes an argument for the biases, but one or more projections have a bias regardless.",
        expected="bias=False leaves out all biases of the projections.",
        fix="Pass bias=bias to all four nn.Linear.",
        source=HEADS,
        severities={OUTPUT_ALONE: "harmless"},
        demo="""\
import torch
def projections(bias):
    query = torch.nn.Linear(4, 4, bias=bias)
    output = torch.nn.Linear(4, 4)  # forgotten
    return query, output
print("bias=False, and yet:", [layer.bias is not None for layer in projections(bias=False)])
""",
    ),
    Mistake(
        id="A16",
        title="a mask of numbers is added to the scores",
        does="Adds the mask of zeros and ones to the scores. A blocked key loses 1 from its score, and keeps a good "
        "part of its weight. It happens when a float mask with 1 = keep is given to PyTorch's attention.",
        expected="A boolean mask, or one with 0 = keep and -∞ = block, which may be added.",
        fix="mask.bool() before it is given to PyTorch; mind that nn.MultiheadAttention wants True = blocked.",
        source=MASKS,
        mathematics="right: softmax(s + {0, -∞})      here: softmax(s + {1, 0})",
        changes={"1 = keep is added": {"masking": "added keep"}, "1 = blocked is added": {"masking": "added block"}},
        severities={IN_BOOLEANS: "note"},
        fixes={
            IN_BOOLEANS: "torch.zeros(T, T).masked_fill(mask, float('-inf')) may be added; a boolean one may not.",
        },
        demo="""\
import torch
attend = torch.nn.functional.scaled_dot_product_attention
q, k, v = torch.zeros(1, 2), torch.zeros(3, 2), torch.eye(3)
keep = torch.tensor([[1.0, 1.0, 0.0]])
print("weights, float mask:", attend(q, k, v, attn_mask=keep))
print("weights, boolean mask:", attend(q, k, v, attn_mask=keep.bool()))
""",
    ),
    Mistake(
        id="A17",
        title="keeps the attention weights after dropout",
        severity="note",
        does="The attention weights that it keeps or returns are those after dropout, so in training mode their rows "
        "do not sum to 1.",
        expected="PyTorch does the same; it matters only for plots and for numbers taken in training mode.",
        fix="Keep the weights before dropout, or look at them after model.eval().",
        source=CORE,
        demo="""\
import torch
torch.manual_seed(0)
weights = torch.rand(2, 4).softmax(-1)
print("rows sum to", weights.sum(-1))
print("after dropout to", torch.nn.functional.dropout(weights, 0.5).sum(-1))
""",
    ),
    Mistake(
        id="A18",
        title="no dropout of the attention weights",
        severity="harmless",
        does="In training mode, the attention weights are not dropped out.",
        expected="PyTorch drops out attention weights. The paper does not mention it: it drops out the sublayers' "
        "outputs.",
        fix="self.dropout(weights) between the softmax and the product with the values.",
        source="Vaswani et al. 2017, section 5.4",
        demo="""\
import torch
torch.manual_seed(0)
attention = torch.nn.MultiheadAttention(4, 2, dropout=0.5, batch_first=True).train()
x = torch.randn(1, 3, 4)
print("two calls in training mode differ:", not torch.equal(attention(x, x, x)[0], attention(x, x, x)[0]))
attention.dropout = 0.0
print("without dropout they don't:", torch.equal(attention(x, x, x)[0], attention(x, x, x)[0]))
""",
    ),
    Mistake(
        id="A40",
        title="dropout before the softmax",
        does="Drops out scores, not weights. In training a dropped score becomes 0, which is no weight of 0: the key "
        "gets a share in proportion to e⁰ = 1, a blocked one too, if it was filled with -1e9. From -∞ dropout makes "
        "NaN, as 0 · ∞ is NaN. The scores that are left are made larger, and the weights sharper.",
        expected="Dropout of the weights, after the softmax: a dropped key has no weight then.",
        fix="weights = self.dropout(scores.softmax(-1)): the softmax first.",
        source="Vaswani et al. 2017, section 5.4",
        mathematics="right: dropout(softmax(s)) V      here: softmax(dropout(s)) V",
        demo="""\
import torch
torch.manual_seed(1)
scores = torch.tensor([3.0, -4.0, 2.0, float("-inf")])
drop = torch.nn.Dropout(0.5)
print("right:", drop(scores.softmax(-1)))
dropped = drop(scores[:3])
print("dropped scores:", dropped, "their weights:", dropped.softmax(-1))
print("of a blocked one, dropped:", torch.tensor(0.0) * scores[3])
""",
    ),
    Mistake(
        id="A19",
        title="heads need not divide d_model",
        severity="harmless",
        does="Accepts a number of heads that does not divide d_model, and fails later, with an error about shapes.",
        expected="Refuse it in the constructor, in words.",
        fix="assert d_model % heads == 0, f'{heads=} must divide {d_model=}'",
        source=HEADS,
        mathematics="d_k = d_model / h must be a whole number",
        demo="""\
import torch
x = torch.randn(2, 5, 10)
try:
    x.view(2, 5, 3, 10 // 3)
except RuntimeError as error:
    print("late:", error)
try:
    torch.nn.MultiheadAttention(10, 3)
except AssertionError as error:
    print("PyTorch, at once:", error)
""",
    ),
    Mistake(
        id="A21",
        title="projections mixed up",
        does="Queries, keys and values are exchanged somewhere, such as q @ v.T for q @ k.T, one of them is made with "
        "another's projection, or a weight matrix is used without transposing it. In self-attention some of these "
        "cannot be seen; in cross-attention they can.",
        expected="Q = query W_q, K = key W_k, V = value W_v. In the decoder's cross-attention the queries come from "
        "the "
        "decoder, keys and values from the encoder.",
        fix="Check the order of the arguments at the call, and which input goes into which projection.",
        source=MASKS,
        mathematics="right: softmax((X_q W_q)(X_k W_k)ᵀ / √d_k) (X_v W_v)",
        changes={
            "query and key are swapped": {"swapped": "query and key"},
            "key and value are swapped": {"swapped": "key and value"},
            "x W in place of x Wᵀ": {"transposed": False},
            "keys and values come from the decoder": {"memory": "decoder"},
            "keys, values and their mask come from the decoder": {"memory": "decoder, its mask"},
            "values come from the decoder": {"memory": "its keys"},
            "queries are made with the projection of the keys": {"uses": "k k v"},
            "queries are made with the projection of the values": {"uses": "v k v"},
            "keys are made with the projection of the queries": {"uses": "q q v"},
            "keys are made with the projection of the values": {"uses": "q v v"},
            "values are made with the projection of the queries": {"uses": "q k q"},
            "values are made with the projection of the keys": {"uses": "q k k"},
            "the scores are products of queries and values": {"scored": "values"},
            "the weights are multiplied with the keys": {"weighed": "keys"},
            "keys and values are swapped after they were projected": {"scored": "values", "weighed": "keys"},
        },
        demo="""\
import torch
torch.manual_seed(0)
attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
decoder, encoder = torch.randn(1, 3, 8), torch.randn(1, 5, 8)
print("right, one output for every token of the decoder:", attention(decoder, encoder, encoder)[0].shape)
print("swapped, one for every token of the encoder:", attention(encoder, decoder, decoder)[0].shape)
""",
    ),
    Mistake(
        id="A22",
        title="cross-attention ignores the source's padding",
        does="The decoder attends to padded source tokens: its output depends on how long the padding is.",
        expected="Give the source's padding mask to the cross-attention too.",
        fix="self.cross_attention(x, memory, memory, src_mask).",
        source=MASKS,
        mathematics="right: a_ij = 0 for padded source tokens j",
        changes={"": {"memory_mask": "none"}},
        demo="""\
import torch
torch.manual_seed(0)
attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
x, memory = torch.randn(1, 1, 8), torch.randn(1, 4, 8)
padded = torch.cat([memory, torch.randn(1, 3, 8)], 1)
blocked = torch.tensor([[False] * 4 + [True] * 3])
print("without padding:", attention(x, memory, memory)[0][0, 0, 0].item())
print("padded, no mask:", attention(x, padded, padded)[0][0, 0, 0].item())
print("padded, masked:", attention(x, padded, padded, key_padding_mask=blocked)[0][0, 0, 0].item())
""",
    ),
    Mistake(
        id="A23",
        title="heads merged in the wrong order",
        does="Joins the heads without transposing back first, or in another order of the features: the outputs of "
        "different tokens or features are mixed up before the last projection. Features before heads cost nothing: "
        "only weights of other code do not fit.",
        expected="transpose(1, 2) to (batch, length, heads, d_k), then view as (batch, length, d_model).",
        fix="heads.transpose(1, 2).contiguous().view(B, T, d_model).",
        source=HEADS,
        mathematics="right: Concat(head_1, …, head_h) W_o for every token",
        changes={
            "not transposed back": {"merge": "view"},
            "features before heads": {"merge": "interleaved"},
            "without the last projection": {"merge": "no projection"},
            "features before tokens": {"merge": "features first"},
        },
        severities={"features before heads": "harmless"},  # as with the last projection's columns in another order
        demo="""\
import torch
heads = torch.arange(8).view(1, 2, 2, 2)  # (batch, heads, tokens, d_k)
right = heads.transpose(1, 2).reshape(1, 2, 4)
wrong = heads.reshape(1, 2, 4)
print("right, token 0 has both heads:", right[0, 0])
print("by view alone, token 0 has head 0 of both tokens:", wrong[0, 0])
""",
    ),
    Mistake(
        id="A24",
        title="the mask is ignored",
        does="Computes the same with a mask as without, or makes none of the padding: padding and later tokens are "
        "attended to.",
        expected="Blocked keys get no weight.",
        fix="scores = scores.masked_fill(mask == 0, float('-inf')), and mind that masked_fill returns a new tensor; "
        "mask = (ids != pad)[:, None, None, :] hides padding.",
        source=MASKS,
        mathematics="right: softmax(s + {0, -∞})      here: softmax(s)",
        changes={"": {"masking": "ignored"}, "padding is ignored": {"padding": "ignored"}},
        severities={TARGET_ONLY: "harmless", UNTOLD: "harmless", LENT: "note", UNREAD_OF_QUERIES: "note"},
        fixes={
            TARGET_ONLY: "tgt_mask = (tgt != pad)[:, None, None, :] & causal: padding and future in one mask.",
            UNREAD: "Hand it on to each part that attends, and there scores = scores.masked_fill(mask == 0, "
            "float('-inf')); or take none.",
        },
        demo="""\
import torch
scores, blocked = torch.zeros(1, 3), torch.tensor([[False, False, True]])
scores.masked_fill(blocked, float("-inf"))  # the result is thrown away
print("ignored:", scores.softmax(-1))
scores = scores.masked_fill(blocked, float("-inf"))
print("right:", scores.softmax(-1))
""",
    ),
    Mistake(
        id="A25",
        title="no causal mask",
        does="Every token of the decoder sees the tokens after it. In training it copies the answer; in use there is "
        "none to copy.",
        expected="A token attends to itself and to the tokens before it.",
        fix="Combine the padding mask with torch.tril(torch.ones(T, T)).bool().",
        source=MASKS,
        mathematics="right: query i sees key j if j ≤ i      here: for all j",
        changes={"": {"causal": "ignored"}, "nor one for the padding": {"self_mask": "none"}},
        severities={NOT_ASKED: "note", LENT: "note", BESIDE_A_MASK: "note"},
        demo="""\
import torch
torch.manual_seed(0)
x = torch.randn(1, 3, 4)
changed = x.clone()
changed[0, 2] += 1  # only the last token
attend = torch.nn.functional.scaled_dot_product_attention
for causal in (True, False):
    first = attend(x, x, x, is_causal=causal)[0, 0], attend(changed, changed, changed, is_causal=causal)[0, 0]
    print("causal" if causal else "not causal", "- the first token is the same:", torch.equal(*first))
""",
    ),
    Mistake(
        id="A26",
        title="softmax overflows",
        does="Computes exp(x) directly. For x above 88 (in float32) it is infinite, and the result NaN (not a number).",
        expected="Subtract the largest x first: it changes nothing, and keeps exp from overflowing.",
        fix="e = torch.exp(x - x.max(dim=-1, keepdim=True).values); e / e.sum(dim=-1, keepdim=True).",
        source=CORE,
        mathematics="exp(x_i) / Σ exp(x_j) = exp(x_i - m) / Σ exp(x_j - m) for every m",
        changes={"": {"masking": "overflows"}},
        demo="""\
import torch
x = torch.tensor([100.0, 99.0])
print("directly:", x.exp() / x.exp().sum())
shifted = x - x.max()
print("shifted:", shifted.exp() / shifted.exp().sum())
""",
    ),
    Mistake(
        id="A27",
        title="masks of source and target are mixed up",
        does="The decoder's attention to itself is masked by the source's padding, and sees the future; or the encoder "
        "is given a mask that hides the future from it.",
        expected="The target's mask (padding and future) for the decoder's self-attention, the source's, of padding "
        "alone, for the encoder and the cross-attention.",
        fix="self.self_attention(x, x, x, tgt_mask), then self.cross_attention(x, memory, memory, src_mask).",
        source=MASKS,
        changes={
            "": {"self_mask": "source"},
            STOPS_UNEVEN: {"self_mask": "source, of its length"},
            CAUSAL_ENCODER: {"source_mask": "causal too"},
        },
        fixes={CAUSAL_ENCODER: "The encoder's mask is of padding alone: src_mask = (src != pad)[:, None, None, :]."},
        demo="""\
import torch
future = torch.tril(torch.ones(3, 3)).bool()  # the target's mask: may attend
padding = torch.tensor([[True, True, False]])  # the source's
print("right:", future, sep="\\n")
print("the source's instead, the future is open:", padding.expand(3, 3), sep="\\n")
""",
    ),
)
