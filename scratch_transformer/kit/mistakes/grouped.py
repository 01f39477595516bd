"""G1 … G6, K1 and LN12: gated feed-forward networks, shared and stored keys and values, RMSNorm."""

from scratch_transformer.kit.kind import Mistake

SEVERAL = "right one by one; several new tokens at once do not see what they should"
FROM_THE_END = (
    "Hide the future whatever is stored: query t of T new ones, with S keys, sees those up to S - T + t: "
    "torch.ones(T, S).tril(S - T). is_causal=True hides it from the first key on, and None hides nothing."
)

SHAZEER = "Shazeer 2020, section 2"
ALONE = ("keys alone", "values alone")

GROUPED = (
    Mistake(
        id="G1",
        title="gate and up exchanged",
        severity="harmless",
        does="The activation is on the other of the two projections than its name, or the usual order, says. A model "
        "that is trained this way is as good; weights of others do not fit.",
        expected="W_2 (SiLU(W_1 x) ⊙ W_3 x): W_1 is the gate, and goes through the activation.",
        fix="self.w2(F.silu(self.w1(x)) * self.w3(x)), or self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x)).",
        source=f"{SHAZEER}, equation 6; Touvron et al. 2023, section 2.2",
        mathematics="right: SiLU(W_1 x) ⊙ W_3 x      here: W_1 x ⊙ SiLU(W_3 x)",
        changes={"": {"gate": "the other"}},
        demo="""\
import torch
silu = torch.nn.functional.silu
gate, up = torch.tensor([1.0, -1.0]), torch.tensor([2.0, 2.0])
print("silu(gate) * up:", silu(gate) * up)
print("gate * silu(up):", gate * silu(up))
""",
    ),
    Mistake(
        id="G2",
        title="gate and up are added, not multiplied",
        does="Adds the two projections. A sum of two is nothing that one projection and its activation could not do.",
        expected="The product, feature by feature: the gate lets through, or not.",
        fix="F.silu(self.w1(x)) * self.w3(x).",
        source=SHAZEER,
        mathematics="right: SiLU(W_1 x) ⊙ W_3 x      here: SiLU(W_1 x) + W_3 x",
        changes={"": {"gating": "sum"}},
        demo="""\
import torch
silu = torch.nn.functional.silu
gate, up = torch.tensor([1.0, -8.0]), torch.tensor([2.0, 2.0])
print("product:", silu(gate) * up, "the second feature is shut")
print("sum:    ", silu(gate) + up)
""",
    ),
    Mistake(
        id="G3",
        title="shared keys and values repeated in another order",
        severity="harmless",
        does="Repeats all shared heads one after the other: query heads 0 1 2 3 get the heads 0 1 0 1 of the keys. A "
        "model that is trained this way is as good; weights of Llama, Mistral or Qwen do not fit.",
        expected="Each head repeated: 0 0 1 1, so that neighbouring query heads form a group.",
        fix="k.repeat_interleave(groups, dim=1), or k[:, :, None].expand(B, kv, groups, T, d).reshape(B, heads, T, d); "
        "not k.repeat(1, groups, 1, 1).",
        source="Ainslie et al. 2023, section 2.2; torch.nn.functional.scaled_dot_product_attention, enable_gqa",
        mathematics="right: query head i uses head ⌊i / groups⌋      here: head i mod kv",
        changes={
            "": {"kv_order": "all repeated"},
            **{
                f"{which}: queries get the keys of one head and the values of another": {"kv_order": which}
                for which in ALONE
            },
        },
        severities={
            f"{which}: queries get the keys of one head and the values of another": "mistake" for which in ALONE
        },
        demo="""\
import torch
heads = torch.arange(2).view(1, 2, 1, 1)
print("repeat_interleave:", heads.repeat_interleave(2, dim=1).flatten().tolist())
print("repeat:           ", heads.repeat(1, 2, 1, 1).flatten().tolist())
""",
    ),
    Mistake(
        id="G4",
        title="the gate has no activation",
        does="Multiplies the two projections as they are: the activation of the gate is forgotten.",
        expected="SiLU on the gate (SwiGLU), or GELU (GEGLU), ReLU (ReGLU), the sigmoid (GLU).",
        fix="F.silu(self.w1(x)) * self.w3(x), not self.w1(x) * self.w3(x).",
        source=SHAZEER,
        mathematics="right: SiLU(W_1 x) ⊙ W_3 x      here: W_1 x ⊙ W_3 x",
        changes={"": {"activation": "none", "gated": True}},
        demo="""\
import torch
gate, up = torch.tensor([1.0, -8.0]), torch.tensor([2.0, 2.0])
print("silu(gate) * up:", torch.nn.functional.silu(gate) * up, "the second feature is shut")
print("gate * up:      ", gate * up)
""",
    ),
    Mistake(
        id="G5",
        title="the activation of a gated network in the wrong place",
        does="The activation is on the product, or on both projections, and not on the gate alone.",
        expected="SiLU(W_1 x) ⊙ W_3 x: only the gate goes through the activation.",
        fix="F.silu(self.w1(x)) * self.w3(x).",
        source=SHAZEER,
        mathematics="right: SiLU(W_1 x) ⊙ W_3 x      here: SiLU(W_1 x ⊙ W_3 x), or SiLU(W_1 x) ⊙ SiLU(W_3 x)",
        changes={
            "on the product": {"activation_place": "after the product", "gated": True},
            "on both": {"activation_place": "on both", "gated": True},
        },
        demo="""\
import torch
silu = torch.nn.functional.silu
gate, up = torch.tensor([1.0, -1.0]), torch.tensor([2.0, -2.0])
print("on the gate:   ", silu(gate) * up)
print("on the product:", silu(gate * up))
print("on both:       ", silu(gate) * silu(up))
""",
    ),
    Mistake(
        id="G6",
        title="sigmoid in place of SiLU",
        does="SiLU(x) is x · σ(x); here it is σ(x) alone.",
        expected="x · σ(x), also known as swish.",
        fix="x * torch.sigmoid(x).",
        source="Hendrycks & Gimpel 2016; Elfwing et al. 2017; Ramachandran et al. 2017",
        mathematics="right: x / (1 + exp(-x))      here: 1 / (1 + exp(-x))",
        changes={"": {"activation": "sigmoid"}},
        demo="""\
import torch
x = torch.tensor([-2.0, 0.0, 2.0])
print("SiLU:   ", x * torch.sigmoid(x))
print("sigmoid:", torch.sigmoid(x))
""",
    ),
    Mistake(
        id="K1",
        title="a cache that gives other outputs",
        does="Token by token, with stored keys and values, its outputs are not those of one call for all tokens.",
        expected="The same outputs: a cache saves work and changes nothing.",
        fix="Store keys and values after the rotation, append along the axis of the tokens, and let new queries see "
        "all that is stored.",
        source="Pope et al. 2023, section 2.1",
        severities={SEVERAL: "note"},
        fixes={SEVERAL: FROM_THE_END},
        mathematics="softmax(q_t [k_1 … k_t]ᵀ / √d_k) [v_1 … v_t], whether k_1 … k_{t-1} are stored or computed again",
        demo="""\
import torch
k, v, q = torch.randn(3, 4, 2, generator=torch.Generator().manual_seed(0))
full = torch.softmax(q @ k.T + torch.full((4, 4), float("-inf")).triu(1), -1) @ v
cached = torch.stack([torch.softmax(q[t] @ k[: t + 1].T, -1) @ v[: t + 1] for t in range(4)])
print("largest difference:", (full - cached).abs().max().item())
""",
    ),
    Mistake(
        id="LN12",
        title="the sum of squares, not their mean",
        does="Divides by the root of the sum of squares: every token gets length 1, and features of size 1/√n.",
        expected="The root of the mean of squares, so that features are about 1.",
        fix="x.pow(2).mean(-1, keepdim=True), not .sum; x.norm(dim=-1, keepdim=True) / math.sqrt(n).",
        source="Ba et al. 2016, equation 3; Zhang & Sennrich 2019, equation 4",
        mathematics="right: x / √(Σ x² / n + ε)      here: x / √(Σ x² + ε), smaller by √n",
        changes={"the sum": {"variance": "sum"}},
        demo="""\
import torch
x = torch.tensor([[1.0, 2.0, 3.0, 6.0]])
print("mean:", x / x.pow(2).mean(-1, keepdim=True).sqrt())
print("sum: ", x / x.pow(2).sum(-1, keepdim=True).sqrt())
""",
    ),
)
