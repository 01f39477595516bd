"""B23 … B25: a tensor that takes another way through the blocks than it should."""

from scratch_transformer.kit.kind import Mistake

BLOCK = "Vaswani et al. 2017, section 3.1"
SUBTRACTED = "the sublayer's output is subtracted"
"""A form of B23 that training makes up for: its last matrix gets the other sign."""

IN_AND_AROUND = "a part adds its input inside, and normalizes, and the layer does so around it again"
"""A form of B23."""
ON_RESIDUAL = "x, which passes around the sublayer, is dropped, and not the sublayer's output"
"""A form of B24: norm(dropout(x) + f(x))."""
OF_LAYERS = "in its layers: the encoder's output is in the place of the target"
OF_LENT_LAYERS = (
    "its layers are given the encoder's output first; the reference's, in their place, takes the target first"
)
"""Forms of B25, the second of what may be right with its own layers."""
OF_CROSS = "the output of the attention to the encoder is added to the block's first input"
OF_NETWORK = "the feed-forward network's output is added to the block's first input"
OF_BOTH = "what the attention to the encoder gives, and the network, is added to the block's first input"
"""Forms of B23."""

PATHS = (
    Mistake(
        id="B23",
        title="the residual adds another tensor",
        does="What is added to a sublayer's output is not that sublayer's input, or not once: the value or the "
        "encoder's output in place of the query, the block's first input in place of what the attention made of it, "
        "the sublayer's own output, or the input twice. Or the sum is right, and the sublayer is given another tensor.",
        expected="norm(x + f(x)): the same x on both sides; in attention to the encoder, x is the decoder's.",
        fix="x = self.norm(x + self.dropout(sublayer(x))), step by step with one name.",
        source=BLOCK,
        mathematics="right: y = norm(x + attention(x)), norm(y + f(y))      here, for example: norm(x + f(y))",
        changes={
            OF_NETWORK: {"residual": "block's input"},
            "the feed-forward network's output is added to the input of the sublayer before": {
                "residual": "earlier input"
            },
            "attention's output is added to the encoder's": {"residual": "memory"},
            OF_CROSS: {"residual": "block's input, in cross-attention"},
            OF_BOTH: {"residual": "block's input, in both"},
            "attention's output is added to the values": {"residual": "value"},
            "attention's output is added to the keys": {"residual": "key"},
            "the attention to the encoder is given the block's first input": {"cross_input": "block's input"},
            "the sublayer's output is added to itself": {"residual": "own output"},
            "the input is added twice": {"residual": "twice"},
            "the input is added again after the norm": {"residual": "after the norm too"},
            "the block's first input is added too": {"residual": "block's input too"},
            "the output of the sublayer before is added, without its residual and norm": {"residual": "earlier output"},
            "the feed-forward network is given the block's first input": {"network_input": "block's input"},
            "the feed-forward network is given the output of the attention, without residual and norm": {
                "network_input": "earlier output"
            },
            SUBTRACTED: {"summand": "negative"},
            "the input is subtracted": {"residual": "negative"},
        },
        severities={SUBTRACTED: "harmless"},
        demo="""\
import torch
norm, x = torch.nn.LayerNorm(4), torch.tensor([1.0, 2.0, 3.0, 6.0])
def attention(x):
    return x.flip(-1)
def feed_forward(x):
    return torch.relu(x)
y = norm(x + attention(x))
print("right:", norm(y + feed_forward(y)).data)
print("the block's first input:", norm(x + feed_forward(y)).data)
""",
    ),
    Mistake(
        id="B24",
        title="dropout after the sum",
        does="In training mode, dropout comes after the residual sum, or even after its norm, so it zeroes features of "
        "the sum itself: nothing passes around a sublayer undisturbed.",
        expected="Dropout on the sublayer's output alone, before x is added and before the norm.",
        fix="x = self.norm(x + self.dropout(sublayer(x))).",
        source="Vaswani et al. 2017, section 5.4",
        mathematics="right: norm(x + dropout(f(x)))      here: dropout(norm(x + f(x)))",
        demo="""\
import torch
torch.manual_seed(0)
norm, dropout = torch.nn.LayerNorm(6), torch.nn.Dropout(0.5).train()
x, f = torch.arange(6.0), torch.ones(6)
print("right:", norm(x + dropout(f)).data)
print("after the norm, features are gone:", dropout(norm(x + f)).data)
""",
    ),
    Mistake(
        id="B25",
        title="encoder and decoder get each other's input",
        does="The encoder reads the target, and the decoder the source. Or a decoder hands its layers the encoder's "
        "output where the target belongs: they attend within it, and from it to the target.",
        expected="The encoder reads the source; the decoder reads the target, shifted by one, and attends to the "
        "encoder's output.",
        fix="memory = self.encode(src, src_mask); self.decode(tgt, memory, tgt_mask, src_mask).",
        source=BLOCK,
        changes={
            "": {"roles": "swapped"},
            "and looks for each other's padding": {"roles": "swapped before masks are made"},
            OF_LAYERS: {"roles": "exchanged in every layer"},
        },
        severities={OF_LENT_LAYERS: "note"},
        fixes={OF_LAYERS: "x = layer(x, memory, tgt_mask, memory_mask): what the layer works on comes first."},
        demo="""\
import torch
model = torch.nn.Transformer(8, 2, 1, 1, 16, batch_first=True)
source, target = torch.randn(1, 7, 8), torch.randn(1, 5, 8)
print("right, one output for each target token:", model(source, target).shape)
print("swapped, one for each source token:", model(target, source).shape)
""",
    ),
)
