"""A29 … A34: masks that do not arrive, or mean the opposite: overwritten, on another device, refused, inverted, old."""

from scratch_transformer.kit.kind import Mistake

MASKS = "Vaswani et al. 2017, section 3.2.3"
TOLD_DEVICE = "it is put on the device that the constructor is told of, and stays there"
"""A form of P5 and A30: where the module is on that device too, all is well."""

ASKED_FOR = (
    "if mask is not None:, and if mask is None: in place of if not mask: a mask has many numbers, and is neither true "
    "nor false."
)
"""The fix of A31 where it is asked whether a mask is true."""

BESIDE_FLAG = "is_causal beside a mask"
"""A29 where a flag hides the future, as far as its line goes."""
LOST_MASKS = (
    Mistake(
        id="A29",
        title="one mask overwrites the other",
        does="Applies the padding mask and the causal mask one after the other, and the second starts again from the "
        "scores (or the mask) without the first. Where both are needed, one of them is lost.",
        expected="A key is blocked if either mask blocks it.",
        fix="mask = padding & causal, and one masked_fill; or apply the second to what the first returned.",
        source=MASKS,
        mathematics="right: softmax(s + log m_1 + log m_2)      here: softmax(s + log m_2)",
        changes={
            "the padding is lost": {"padding": "lost beside causal"},
            "the causal mask is lost": {"causal": "lost beside padding"},
        },
        demo="""\
import torch
scores, causal = torch.zeros(3, 3), torch.tril(torch.ones(3, 3)).bool()
padding = torch.tensor([[False, True, True]])  # the first key is padding
blocked = scores.masked_fill(~padding, float("-inf"))
wrong = scores.masked_fill(~causal, float("-inf"))  # of scores, not of blocked
right = blocked.masked_fill(~causal, float("-inf"))
print("the last query, overwritten:", wrong.softmax(-1)[2])
print("right:", right.softmax(-1)[2])
""",
    ),
    Mistake(
        id="A30",
        title="the mask is a plain attribute",
        does="A mask is kept as self.mask = torch.tril(...). model.to('cuda') does not move it, so the model stops "
        "with an error about two devices.",
        expected="A buffer moves with the module. persistent=False keeps it out of the checkpoint.",
        fix="self.register_buffer('mask', torch.tril(torch.ones(T, T)), persistent=False).",
        source="documentation of torch.nn.Module.register_buffer",
        severities={TOLD_DEVICE: "harmless"},
        demo="""\
import torch
module = torch.nn.Module()
module.attribute = torch.tril(torch.ones(3, 3))
module.register_buffer("mask", torch.tril(torch.ones(3, 3)), persistent=False)
module.to("meta")  # stands for a GPU
print("attribute:", module.attribute.device, "- buffer:", module.mask.device)
""",
    ),
    Mistake(
        id="A31",
        title="stops with a mask",
        does="Takes a mask, and stops with an error when it is given one, in whatever form: boolean or numbers, for "
        "every query or for the keys alone. Without a mask it computes.",
        expected="A mask that broadcasts to (batch, heads, queries, keys) blocks keys.",
        fix="Call it with a mask of the shape that your model makes, and mend what the error names.",
        source=MASKS,
        demo="""\
import torch
scores, mask = torch.zeros(2, 4, 3, 3), torch.ones(2, 3).bool()  # 2 samples, 4 heads; the mask of the keys
try:
    scores.masked_fill(mask == 0, float("-inf"))
except RuntimeError as error:
    print("it stops with:", error)
print("with axes for heads and queries:", scores.masked_fill(mask[:, None, None, :] == 0, float("-inf")).shape)
""",
    ),
    Mistake(
        id="A32",
        title="the mask means the opposite of what is documented",
        does="Its documentation says which value of the mask may attend, and the code blocks that value. Whoever calls "
        "it as documented lets every token attend to padding and to the future alone.",
        expected="The code does what its documentation says. True = may attend in scaled_dot_product_attention and in "
        "the tutorials; True = blocked in nn.MultiheadAttention.",
        fix="scores.masked_fill(~mask, float('-inf')) where True = may attend; or document that True = blocked.",
        source=MASKS,
        demo="""\
import torch
scores, may_attend = torch.zeros(3), torch.tensor([True, True, False])  # the last key is padding
print("blocks what may not attend:", scores.masked_fill(~may_attend, float("-inf")).softmax(-1))
print("blocks what may attend:", scores.masked_fill(may_attend, float("-inf")).softmax(-1))
""",
    ),
    Mistake(
        id="A34",
        title="a mask that PyTorch refuses today",
        does="Uses numbers of type torch.uint8 as a mask, mask.byte(), or takes a boolean mask from 1, as code from "
        "before PyTorch 1.2 did, when there were no boolean tensors. Today it stops there with an error, whatever it "
        "is given.",
        expected="Masks are boolean: comparisons give such, ~mask inverts them, & and | join them.",
        fix="Leave out .byte(), or write .bool() in its place; ~mask in place of 1 - mask.",
        source="release notes of PyTorch 1.2: torch.bool",
        demo="""\
import torch
scores, old = torch.zeros(3), torch.tensor([0, 0, 1], dtype=torch.uint8)
try:
    scores.masked_fill(old, float("-inf"))
except RuntimeError as error:
    print("it stops with:", error)
print("boolean:", scores.masked_fill(old.bool(), float("-inf")))
""",
    ),
)
