"""O1 … O12 and S1 … S5: the optimizer, its schedule, clipped gradients, and sampling."""

from scratch_transformer.kit.kind import Mistake

ADAMW = "Loshchilov & Hutter 2019, algorithm 2; Kingma & Ba 2015, algorithm 1"
COSINE = "Loshchilov & Hutter 2017, equation 5"
CLIPPING = "Pascanu et al. 2013, algorithm 1; torch.nn.utils.clip_grad_norm_"
NUCLEUS = "Holtzman et al. 2020, section 3.1"
RISES_AGAIN = "it goes on after its end"
LOGITS = "import torch\nlogits = torch.tensor([2.0, 1.0, 0.0, -1.0])\n"
FOR_TOP_P = "used to find which ids top-p keeps, and not to draw one of them"
ZERO_BY_DEFAULT = "0 where none is given, by which it divides"
"""A form of S1."""
DOES_DIVIDE_BY_ZERO = (
    "Divides by a temperature that is 0 unless it is told another: the logits become infinite or NaN, and no word can "
    "be drawn."
)
NONE_EXCEEDS = "p = 1, which no sum exceeds"
"""A form of S2."""
DOES_LEAVE_ONE = (
    "Looks for the first id with which the sum exceeds p. Where p is 1, as what is to keep all ids is told, there is "
    "none: argmax of nothing but False is 0, and the likeliest id alone is left."
)
GONE_THROUGH = "a generator is gone through twice"
"""A form of O10."""
DOES_GO_THROUGH = (
    "Goes through the weights once for the length and once more to shorten their gradients. model.parameters() is a "
    "generator, which the first loop uses up: the second finds nothing left, and no gradient is ever shortened."
)
ONE_GROUP = "everything shrinks, as there is one weight decay for all weights"

OPTIMIZING = (
    Mistake(
        id="O1",
        title="Adam without the right bias correction",
        does="Uses the moments as they are, though they start at zero, or divides by what another step needs: the "
        "first steps have another size.",
        expected="Divide m by 1 - β₁ᵗ and v by 1 - β₂ᵗ, t counting the steps from 1.",
        fix="t += 1 in every step; m_hat = m / (1 - beta1**t); v_hat = v / (1 - beta2**t).",
        source=ADAMW,
        mathematics="right: m̂ = m / (1 - β₁ᵗ), v̂ = v / (1 - β₂ᵗ)\n"
        "without both, the first step is (1 - β₁) / √(1 - β₂) times as long: 3.2 for 0.9 and 0.999",
        changes={
            "of neither moment": {"adam_correction": "none"},
            "of the first moment only": {"adam_correction": "of the first"},
            "of the second moment only": {"adam_correction": "of the second"},
            "the count of steps stays 1": {"adam_correction": "of step 1"},
            "the first step counts as the second": {"adam_correction": "a step ahead"},
        },
        demo="""\
beta1, beta2, g = 0.9, 0.999, 1.0
m, v = (1 - beta1) * g, (1 - beta2) * g**2
print("corrected:", (m / (1 - beta1)) / (v / (1 - beta2)) ** 0.5)
print("as they are:", m / v**0.5)
""",
    ),
    Mistake(
        id="O2",
        title="weight decay in the gradient: Adam with L2, no AdamW",
        does="Adds weight_decay · w to the gradient. Adam then divides it by √v̂ like the rest, so weights with large "
        "gradients hardly shrink.",
        expected="AdamW shrinks the weight itself: w ← w - lr · weight_decay · w, beside the step.",
        fix="p.mul_(1 - lr * weight_decay), and leave the gradient as it is.",
        source=ADAMW,
        mathematics="right: w ← (1 - lr λ) w - lr m̂ / (√v̂ + ε)      here: g ← g + λ w before the moments",
        changes={"": {"decay": "in the gradient"}, "beside the step too": {"decay": "in both"}},
        demo="""\
import torch
for optimizer in (torch.optim.AdamW, torch.optim.Adam):
    w = torch.nn.Parameter(torch.tensor([1.0]))
    step = optimizer([w], lr=0.1, weight_decay=0.5)
    w.grad = torch.tensor([10.0])
    step.step()
    print(optimizer.__name__, w.item())
""",
    ),
    Mistake(
        id="O3",
        title="eps inside Adam's root",
        severity="harmless",
        does="Divides by √(v̂ + ε). It matters for the smallest gradients only.",
        expected="√v̂ + ε.",
        fix="v_hat.sqrt() + eps.",
        source=ADAMW,
        mathematics="right: m̂ / (√v̂ + ε)      here: m̂ / √(v̂ + ε)",
        changes={"": {"adam_eps": "inside"}},
        demo="""\
v, eps = 1e-12, 1e-8
print("outside:", 1 / (v**0.5 + eps))
print("inside: ", 1 / (v + eps) ** 0.5)
""",
    ),
    Mistake(
        id="O4",
        title="weight decay that is not what AdamW does",
        does="The decay is not multiplied by the learning rate, so weights shrink far too fast; or there is none.",
        expected="w ← w - lr · weight_decay · w.",
        fix="p.data -= lr * weight_decay * p.data.",
        source=f"{ADAMW}; torch.optim.AdamW",
        mathematics="right: lr λ w, 1e-5 w for lr = 0.001 and λ = 0.01      here: λ w, 0.01 w",
        changes={
            "not times the learning rate": {"decay_rate": "alone"},
            "weight_decay is not used": {"decay": "none"},
        },
        demo="""\
w = wrong = 1.0
for step in range(100):
    w, wrong = w - 0.001 * 0.1 * w, wrong - 0.1 * wrong
print("after 100 steps:", w, "and without the learning rate:", wrong)
""",
    ),
    Mistake(
        id="O5",
        title="Adam's moments are not what they should be",
        does="The moments are other averages than those of the gradient and of its square, or no averages over steps.",
        expected="m ← β₁ m + (1 - β₁) g and v ← β₂ v + (1 - β₂) g².",
        fix="m = beta1 * m + (1 - beta1) * g; v = beta2 * v + (1 - beta2) * g**2; both are kept for the next step.",
        source=ADAMW,
        mathematics="m = Σ (1 - β₁) β₁^(t-s) g_s, v = Σ (1 - β₂) β₂^(t-s) g_s²",
        changes={
            "beta1 and beta2 exchanged": {"adam_moments": "betas exchanged"},
            "without (1 - beta)": {"adam_moments": "gradients not weighted"},
            "the gradient is not squared": {"adam_moments": "not squared"},
            "they are not kept for the next step": {"adam_moments": "not kept"},
            "every step is a first one": {"adam_moments": "not kept", "adam_correction": "of step 1"},
        },
        demo="""\
beta1, m, plain = 0.9, 0.0, 0.0
for g in (1.0, 1.0, 1.0):
    m, plain = beta1 * m + (1 - beta1) * g, beta1 * plain + g
print("average:", m, "sum:", plain)
""",
    ),
    Mistake(
        id="O6",
        title="the learning rate ends its fall at the wrong step",
        does="The half wave, or the straight line, does not begin at the end of the warm-up and end at the last step; "
        "or it goes on after its end: a cosine rises again, and a line falls below the least rate.",
        expected="progress = (step - warmup) / (total - warmup), from 0 to 1, and min_lr from then on.",
        fix="if step > total: return min_lr; progress = (step - warmup) / (total - warmup).",
        source=COSINE,
        mathematics="right: min + ½ (1 + cos(π (t - T_w) / (T_c - T_w))) (max - min)",
        changes={
            "counted from step 0": {"cosine": "over all steps"},
            "as long as all steps": {"cosine": "as long as all steps"},
            "as long as all steps, and not cut off": {"cosine": "as long as all steps, not cut"},
            "a step late, with more than the greatest rate": {"cosine": "a step late"},
            RISES_AGAIN: {"cosine": "goes on after the end"},
        },
        severities={RISES_AGAIN: "harmless"},  # where training ends with it
        demo="""\
import math
warmup, total = 10, 50
for step in (10, 50, 70):
    right = 0.5 * (1 + math.cos(math.pi * min((step - warmup) / (total - warmup), 1)))
    print(step, "right:", right, "without an end:", 0.5 * (1 + math.cos(math.pi * (step - warmup) / (total - warmup))))
""",
    ),
    Mistake(
        id="O7",
        title="the learning rate falls along another curve",
        does="The curve between the greatest and the least learning rate is another one.",
        expected="min + ½ (1 + cos(π · progress)) (max - min); in a straight line, min + (1 - progress) (max - min).",
        fix="min_lr + 0.5 * (1 + math.cos(math.pi * progress)) * (max_lr - min_lr); in a straight line, min_lr + "
        "(1 - progress) * (max_lr - min_lr).",
        source=COSINE,
        mathematics="½ (1 + cos(π p)): 1 at p = 0, ½ at p = ½, 0 at p = 1",
        changes={
            "not halved": {"cosine": "not halved"},
            "upside down": {"cosine": "upside down"},
            "a quarter of a wave": {"cosine": "half the angle"},
            "a straight line": {"cosine_falls": "in a straight line"},
            "without the least rate": {"cosine": "without the minimum"},
            "the least rate is not added": {"cosine": "minimum not added"},
            "the least rate is added to all of it": {"cosine_least": "on top"},
        },
        severities={
            "a straight line": "harmless",
            "the least rate is added to all of it": "harmless",  # a tenth of a rate, where it is a tenth
        },
        demo="""\
import math
for p in (0.0, 0.5, 1.0):
    print(p, "half a cosine:", 0.5 * (1 + math.cos(math.pi * p)), "not halved:", 1 + math.cos(math.pi * p))
""",
    ),
    Mistake(
        id="O8",
        title="the warm-up is left out",
        does="Begins with the full learning rate.",
        expected="step / warmup · max_lr while step < warmup.",
        fix="if step < warmup: return max_lr * step / warmup.",
        source="Radford et al. 2018, section 4.1; Vaswani et al. 2017, section 5.3",
        changes={
            "": {"cosine_warmup": "none", "cosine": "over all steps"},
            "the cosine is taken of negative progress": {"cosine_warmup": "none"},
        },
        demo="""\
warmup = 4
print("with:", [step / warmup for step in range(5)])
print("without:", [1.0] * 5)
""",
    ),
    Mistake(
        id="O9",
        title="gradients are clipped one by one",
        does="Shortens every tensor, or every number, by itself. The direction of the whole gradient changes.",
        expected="One factor for all: max_norm / ‖all gradients together‖, where that is below 1.",
        fix="norm = torch.sqrt(sum((p.grad**2).sum() for p in parameters)), then one factor for all of them.",
        source=CLIPPING,
        mathematics="right: g ← g · min(1, c / √(Σ ‖g_i‖²))      here: g_i ← g_i · min(1, c / ‖g_i‖)",
        changes={
            "each tensor alone": {"clipping": "each alone"},
            "each tensor alone, to the same length": {"clipping": "each alone, and short ones stretched"},
            "each number alone": {"clipping": "every number"},
        },
        demo="""\
import torch
a, b = torch.tensor([3.0]), torch.tensor([4.0])
norm = (a.square() + b.square()).sqrt()
print("together:", (a / norm).item(), (b / norm).item(), "one by one:", (a / a.abs()).item(), (b / b.abs()).item())
""",
    ),
    Mistake(
        id="O10",
        title="gradients are clipped by another length",
        does="The length that is compared is not that of all gradients, or short gradients are stretched.",
        expected="√ of the sum of all squares; gradients that are short enough stay as they are.",
        fix="if norm > max_norm: scale by max_norm / (norm + 1e-6).",
        source=CLIPPING,
        mathematics="right: ‖g‖ = √(Σ ‖g_i‖²)",
        changes={
            "without the root": {"clipping": "not rooted"},
            "the sum of lengths": {"clipping": "sum of lengths"},
            "short ones are stretched": {"clipping": "always"},
        },
        fixes={GONE_THROUGH: "parameters = list(parameters), before the first loop."},
        demo="""\
a, b = 3.0, 4.0
print("length:", (a**2 + b**2) ** 0.5, "sum of squares:", a**2 + b**2, "sum of lengths:", a + b)
""",
    ),
    Mistake(
        id="O11",
        title="weight decay on norms or biases",
        does="The groups of the optimizer shrink other weights than the matrices. Scales of norms go to zero, "
        "which belong near one.",
        expected="Matrices shrink, embeddings too or not; norms and biases are in a group with weight_decay = 0.",
        fix="decay = [p for p in model.parameters() if p.dim() >= 2], no_decay = [p … if p.dim() < 2].",
        source="He et al. 2019, section 3.1; Loshchilov & Hutter 2019, algorithm 2",
        changes={
            "everything shrinks": {"decayed": "everything"},
            ONE_GROUP: {"decayed": "everything, in one group"},
            "norms shrink too": {"decayed": "all but biases"},
            "biases shrink too": {"decayed": "all but norms"},
            "matrices do not shrink, and the others do": {"decayed": "all but matrices"},
            "no optimizer has the norms and biases": {"decayed": "matrices alone, and nothing else is learned"},
        },
        severities={ONE_GROUP: "note"},
        demo="""\
import torch
norm = torch.nn.LayerNorm(2)
optimizer = torch.optim.AdamW(norm.parameters(), lr=0.1, weight_decay=0.1)
for _ in range(100):
    norm.weight.grad = torch.zeros(2)
    optimizer.step()
print("a scale of 1 after 100 steps that teach it nothing:", norm.weight[0].item())
""",
    ),
    Mistake(
        id="O12",
        title="weights shrink after the step",
        severity="harmless",
        does="Takes the step, and then shrinks what it has made: the step itself shrinks by the same share, a "
        "thousandth of a percent with lr = 0.001 and weight_decay = 0.01.",
        expected="The weights shrink as they were before the step, as torch.optim.AdamW's do.",
        fix="p.mul_(1 - lr * weight_decay) above the line of the step.",
        source=f"{ADAMW}; torch.optim.AdamW",
        mathematics="right: w ← (1 - lr λ) w - lr m̂ / (√v̂ + ε)      here: w ← (1 - lr λ) (w - lr m̂ / (√v̂ + ε))",
        changes={"": {"decay": "after the step"}},
        demo="""\
for lr, decay in ((0.001, 0.01), (0.1, 0.5)):
    right = here = 1.0
    for step in range(20):  # of Adam, with gradients of one size
        right = (1 - lr * decay) * right - lr
        here = (1 - lr * decay) * (here - lr)
    print(f"lr {lr}, weight decay {decay}, after 20 steps: {right:.7f}, here {here:.7f}")
""",
    ),
    Mistake(
        id="S1",
        title="the temperature does the opposite, or nothing",
        does="Multiplies the logits by the temperature, or does not use it, or only to find which ids top-p keeps: a "
        "low one should make likely ids likelier.",
        expected="softmax(logits / T).",
        fix="logits / temperature.",
        source="Holtzman et al. 2020, section 3.3; Ackley et al. 1985",
        mathematics="right: p_i ∝ exp(z_i / T)      here: p_i ∝ exp(z_i T)",
        changes={
            "multiplied": {"temperature": "multiplies"},
            "not used": {"temperature": "ignored"},
            FOR_TOP_P: {"temperature": "for top-p alone"},
        },
        fixes={
            FOR_TOP_P: "logits = logits / temperature, once: what top-p removes is removed from these, and the id "
            "is drawn from what is left.",
            ZERO_BY_DEFAULT: "temperature=1.0 by default; or logits.argmax(-1) where it is 0, which is what one near 0 "
            "means.",
        },
        demo=LOGITS
        + """\
print("divided by 0.5:   ", torch.softmax(logits / 0.5, -1))
print("multiplied by 0.5:", torch.softmax(logits * 0.5, -1))
""",
    ),
    Mistake(
        id="S2",
        title="top-p keeps other ids",
        does="Keeps other ids than the likeliest ones that together reach p: the one that reaches it is left out, or "
        "the unlikely ones are taken, or what was found for sorted ids is not put back into the order of the ids. Or "
        "keeps all.",
        expected="The fewest of the likeliest whose sum is at least p, the one that reaches it included.",
        fix="remove where cumsum - probability >= p, in descending order.",
        source=NUCLEUS,
        mathematics="the smallest V with Σ_{i in V} p_i ≥ p",
        changes={
            "without the one that reaches p": {"top_p": "without the one that reaches p"},
            "the least likely": {"top_p": "the least likely"},
            "by their places in the sorted order": {"top_p": "in the sorted order"},
            "it is not used": {"top_p": "not used"},
        },
        fixes={NONE_EXCEEDS: "remove where cumsum - probability >= p: of all ids nothing is removed where p is 1."},
        demo=LOGITS
        + """\
p = torch.softmax(logits, -1)
print("probabilities:", p, "sums:", p.cumsum(-1))
print("kept for 0.8, right:", (p.cumsum(-1) - p < 0.8).sum().item(), "wrong:", (p.cumsum(-1) < 0.8).sum().item())
""",
    ),
    Mistake(
        id="S3",
        title="what is left out gets the logit 0",
        does="Sets the logits of ids that may not be drawn to 0, and softmax gives them exp(0) = 1 part.",
        expected="-inf in the logits, or 0 in the probabilities.",
        fix="logits.masked_fill(removed, float('-inf')).",
        source=NUCLEUS,
        mathematics="exp(-inf) = 0, exp(0) = 1",
        changes={
            "": {"removed": "0"},
            **{f"of {name} alone": {"removed": f"0, by {name}"} for name in ("top-k", "top-p")},
        },
        demo=LOGITS
        + """\
removed = torch.tensor([False, False, True, True])
print("-inf:", torch.softmax(logits.masked_fill(removed, float("-inf")), -1))
print("0:   ", torch.softmax(logits.masked_fill(removed, 0.0), -1))
""",
    ),
    Mistake(
        id="S4",
        title="top-k keeps other ids",
        does="Keeps one more or one fewer than k, or the least likely. Or keeps all: masked_fill without _ changes "
        "nothing.",
        expected="The k likeliest.",
        fix="logits < torch.topk(logits, k).values[..., -1:] are removed.",
        source="Fan et al. 2018, section 5.4",
        changes={
            "one fewer": {"top_k": "one fewer"},
            "one more": {"top_k": "one more"},
            "the least likely": {"top_k": "the least likely"},
            "it is not used": {"top_k": "not used"},
        },
        demo=LOGITS
        + """\
threshold = torch.topk(logits, 2).values[-1]
print("kept, right:", (logits >= threshold).sum().item(), "with > in place of >=:", (logits > threshold).sum().item())
""",
    ),
    Mistake(
        id="S5",
        title="the repetition penalty makes likelier what has been said",
        does="Divides all logits of what has been said by the penalty; a negative one comes nearer to zero by that: "
        "it is likelier than before. Or multiplies all, and the positive ones are.",
        expected="A positive logit is divided by the penalty, a negative one multiplied with it.",
        fix="torch.where(said > 0, said / penalty, said * penalty).",
        source="Keskar et al. 2019, section 4.1, for positive logits",
        mathematics="-2 / 1.5 = -1.33 > -2",
        changes={
            "negative logits are divided too": {"penalty": "divides"},
            "positive logits are multiplied too": {"penalty": "multiplies"},
            "the other way round": {"penalty": "upwards"},
        },
        demo=LOGITS
        + """\
logits = logits - logits.mean()
print("before:  ", torch.softmax(logits, -1)[3].item(), "of a logit of", logits[3].item())
logits[3] = logits[3] / 1.5
print("penalty: ", torch.softmax(logits, -1)[3].item())
""",
    ),
)
