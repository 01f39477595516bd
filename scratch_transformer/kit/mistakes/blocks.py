"""B1 … B20, B31: mistakes in feed-forward networks, residual connections, layers and stacks."""

from scratch_transformer.kit.kind import Mistake

BLOCK = "Vaswani et al. 2017, section 3.1"
FEED_FORWARD = "Vaswani et al. 2017, section 3.3, equation 2"
DROPOUT = "Vaswani et al. 2017, section 5.4"
IN_BOTH = "in the {} and the {} sublayer"
"""A form of what two of three sublayers have."""
UNUSED_NORMS = "others are made, and never used"
"""A form of B15 that nobody means."""
BEFORE_AND_AFTER = "a sublayer's own, before it and after its sum: norm(x + f(norm(x)))"
"""A form of B15 that is neither pre- nor post-norm."""
KEPT = "the output of {} is not dropped out"
NOT_DROPPED = f"{KEPT}, others are"
"""Forms of B6. The first: as far as can be told, where the reference stands in for the other sublayers."""
MADE_FIRST = (
    "self.norm1 = nn.LayerNorm(d_model) in the constructor, one for each sublayer, and x = self.norm1(x + ...), or "
    "x + f(self.norm1(x))."
)
"""Fix of B14, where no norm is made that could be called."""
MIXED_NORMS = "another order than in the rest of its layer"
"""A form of B1 in a layer that has both."""

MOVED = "a parameter is moved where it is made"
DOES_MOVE = (
    "Moves a parameter at once: nn.Parameter(…).to(device). If that is a GPU, what it gives is a tensor, which PyTorch "
    "does not see among the weights: it is neither trained nor saved."
)
MOVES = "nn.Parameter(…) alone: the model moves all of its parameters, model.to(device)."
"""A form of B10."""
AS_IN_OLMO = "as in OLMo 2, with RMSNorm: a design"
"""A form of B3: what is added is of one length in every layer, which keeps training steady."""

SUBLAYER = """\
import torch
norm = torch.nn.LayerNorm(4)
x = torch.tensor([[1.0, 2.0, 3.0, 6.0]])
def f(x):
    return 10 * torch.tanh(x)
"""

BLOCKS = (
    Mistake(
        id="B1",
        title="pre-norm, where the paper has post-norm: both are right",
        severity="note",
        does="Normalizes before each sublayer: x + f(norm(x)), called pre-norm, as most models since GPT-2 do.",
        expected="Either is right. The paper normalizes after it: norm(x + f(x)), called post-norm. torch.nn has both "
        "(norm_first); pre-norm is easier to train, and needs a last norm at the end of the stack.",
        fix="return self.norm(x + self.dropout(sublayer(x))) for the paper's.",
        source=BLOCK,
        mathematics="post-norm: norm(x + f(x))      pre-norm: x + f(norm(x))",
        changes={"": {"norm_order": "pre"}},
        severities={MIXED_NORMS: "harmless"},
        demo=SUBLAYER
        + """\
print("post-norm:", norm(x + f(x)).data)
print("pre-norm:", (x + f(norm(x))).data)
print("without the sublayer, post-norm is norm(x), pre-norm is x:", norm(x).data, x)
""",
    ),
    Mistake(
        id="B2",
        title="residual taken after the norm",
        does="x = norm(x), and then x + f(x): the norm is on the residual path too, so nothing passes through a layer "
        "unchanged.",
        expected="x + f(norm(x)): only the sublayer sees the normalized x.",
        fix="return x + self.dropout(sublayer(self.norm(x))), without assigning norm(x) to x.",
        source=BLOCK,
        mathematics="right: x + f(norm(x))      here: norm(x) + f(norm(x))",
        changes={
            "norm(x) + f(norm(x))": {"norm_order": "residual after norm"},
            "norm(x) + f(x)": {"norm_order": "residual of the norm"},
        },
        demo=SUBLAYER
        + """\
print("right:", (x + f(norm(x))).data)
y = norm(x)
print("residual after the norm:", (y + f(y)).data)
""",
    ),
    Mistake(
        id="B3",
        title="norm on the sublayer's output",
        does="Normalizes what the sublayer returns, and adds it to x afterwards.",
        expected="norm(x + f(x)), as in the paper, or x + f(norm(x)).",
        fix="self.norm(x + self.dropout(sublayer(x))): the parenthesis includes x.",
        source=BLOCK,
        mathematics="right: norm(x + f(x))      here: x + norm(f(x))",
        changes={
            "": {"norm_order": "norm on the output"},
            AS_IN_OLMO: {"norm_order": "norm on the output", "norm_kind": "rms"},
        },
        severities={AS_IN_OLMO: "note"},
        demo=SUBLAYER
        + """\
print("right:", norm(x + f(x)).data)
print("norm on the output:", (x + norm(f(x))).data)
""",
    ),
    Mistake(
        id="B4",
        title="final norm of the stacks",
        severity="note",
        does="The stack of layers ends with, or without, a normalization of its own.",
        expected="The paper (post-norm) has none. torch.nn.Transformer has one after both stacks in any case. A "
        "pre-norm "
        "stack needs one, because its last sum is not normalized.",
        fix="self.norm = nn.LayerNorm(d_model), applied after the last layer of a pre-norm stack.",
        source=BLOCK,
        changes={
            "post-norm without final norms": {"norm_order": "post", "final_norm": False},
            "pre-norm without final norms": {"norm_order": "pre", "final_norm": False},
            "final norms after post-norm": {"norm_order": "post", "final_norm": True},
        },
        severities={
            "post-norm without final norms": "paper",
            "pre-norm without final norms": "harmless",
            "final norms after post-norm": "note",
        },
        fixes={
            "post-norm without final norms": "None is needed: the last layer's norm is the last one. "
            "nn.LayerNorm(d_model) after the stack, if the weights are to be exchanged with nn.Transformer's.",
        },
        demo="""\
import torch
layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True, dropout=0.0)
bare = torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
torch.manual_seed(0)
x = torch.randn(1, 5, 8)
print("standard deviation after 6 pre-norm layers:", bare(x).std().item())
print("with a final norm:", torch.nn.functional.layer_norm(bare(x), (8,)).std().item())
print("torch.nn.Transformer's final norm:", torch.nn.Transformer(8, 2, 1, 1).encoder.norm)
""",
    ),
    Mistake(
        id="B31",
        title="the encoder's output is normalized in every layer of the decoder",
        severity="harmless",
        does="Normalizes the encoder's output again before the attention to it, in every layer.",
        expected="The encoder's last layer, or its final norm, has normalized it already; torch.nn and the paper use "
        "it as it is.",
        fix="self.cross_attn(self.norm2(x), memory, memory), or leave it: weights of other models do not fit, that is "
        "all.",
        source=BLOCK,
        mathematics="right: x + attention(norm(x), memory)      here: x + attention(norm(x), norm(memory))",
        changes={
            "by a norm of its own": {"memory_norm": "own"},
            "by the norm of the queries": {"memory_norm": "queries'"},
        },
        demo="""\
import torch
norm = torch.nn.LayerNorm(4)
memory = norm(torch.tensor([[1.0, 2.0, 3.0, 6.0]]))
print("normalized once:", memory.data)
print("and again:", norm(memory).data)
""",
    ),
    Mistake(
        id="B6",
        title="no dropout on the sublayers' outputs",
        does="In training mode, the output of a sublayer is added to x without dropout.",
        expected="Dropout on every sublayer's output before it is added: the paper's residual dropout, P = 0.1.",
        fix="x + self.dropout(sublayer(...)).",
        source=DROPOUT,
        demo="""\
import torch
torch.manual_seed(0)
dropout, x, sublayer = torch.nn.Dropout(0.5).train(), torch.zeros(6), torch.ones(6)
print("right, different in every call:", x + dropout(sublayer))
print("without:", x + sublayer)
""",
    ),
    Mistake(
        id="B34",
        title="dropout twice in a row",
        severity="harmless",
        does="In training mode, what one dropout gives goes straight into another: that of a part at its end, and "
        "that of what calls it.",
        expected="One dropout of each sublayer's output, and one of the embeddings with their positions: the paper's "
        "P = 0.1.",
        fix="Keep one of the two, mostly the outer one: x + self.dropout(sublayer(x)).",
        source=DROPOUT,
        mathematics="right: a share p is dropped      here: 1 - (1 - p)², 0.19 for p = 0.1",
        demo="""\
import torch
torch.manual_seed(0)
dropout, x = torch.nn.Dropout(0.1).train(), torch.ones(10_000)
print("dropped once:", (dropout(x) == 0).double().mean().item())
print("dropped twice:", (dropout(dropout(x)) == 0).double().mean().item())
""",
    ),
    Mistake(
        id="B7",
        title="no dropout inside the feed-forward network",
        severity="harmless",
        does="In training mode, nothing is dropped between the two linear maps.",
        expected="PyTorch has dropout there; the paper has not. In evaluation both are the same.",
        fix="self.linear_2(self.dropout(torch.relu(self.linear_1(x)))).",
        source=DROPOUT,
        demo="""\
import torch
layer = torch.nn.TransformerEncoderLayer(8, 2, 16)
print("PyTorch's dropouts:", [name for name, part in layer.named_modules() if isinstance(part, torch.nn.Dropout)])
print("'dropout' is the one inside, dropout1 and dropout2 are the paper's")
""",
    ),
    Mistake(
        id="B8",
        title="another activation",
        does="The activation is not the one that is claimed: ReLU, GELU with the exact erf, and GELU by the "
        "approximation with tanh are three functions.",
        expected="The paper has ReLU: max(0, x). GPT-2 and BERT have GELU. Weights trained with one do not fit "
        "another.",
        fix="torch.relu(x), torch.nn.functional.gelu(x), or gelu(x, approximate='tanh').",
        source=FEED_FORWARD,
        mathematics="ReLU: max(0, x)      GELU: x · Φ(x)      tanh: x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³)))\n"
        "exact GELU and the tanh form are at most 0.000473 apart, at |x| = 2.70",
        changes={
            "GELU": {"activation": "gelu"},
            "ReLU in place of GELU": {"activation": "relu"},
            "tanh in place of erf": {"activation": "gelu tanh"},
            "sigmoid in place of erf": {"activation": "quick gelu"},
            "0.44715 in place of 0.044715": {"activation": "gelu with 0.44715"},
            "SiLU": {"activation": "silu"},
            "tanh": {"activation": "tanh"},
            "leaky ReLU": {"activation": "leaky relu"},
        },
        severities={
            "GELU": "note",
            "tanh in place of erf": "note",
            "sigmoid in place of erf": "harmless",
            "SiLU": "note",
            "leaky ReLU": "harmless",
        },
        demo="""\
import torch
x = torch.tensor([-2.7, -1.0, 0.5, 2.7], dtype=torch.float64)
gelu = torch.nn.functional.gelu
print("ReLU:", torch.relu(x))
print("GELU, exact:", gelu(x))
print("GELU, tanh:", gelu(x, approximate="tanh"))
print("apart by:", (gelu(x) - gelu(x, approximate="tanh")).abs().max().item())
""",
    ),
    Mistake(
        id="B9",
        title="all layers are one layer",
        does="The list of layers contains the same object several times. All layers share one set of weights.",
        expected="Every layer has its own weights.",
        fix="nn.ModuleList([copy.deepcopy(layer) for _ in range(N)]), or construct a new layer in the loop.",
        source=BLOCK,
        changes={"": {"layers": "shared"}},
        demo="""\
import copy, torch
layer = torch.nn.Linear(4, 4)
same = torch.nn.ModuleList([layer] * 6)
own = torch.nn.ModuleList([copy.deepcopy(layer) for _ in range(6)])
print("parameters, the same six times:", sum(p.numel() for p in same.parameters()))
print("six of its own:", sum(p.numel() for p in own.parameters()))
""",
    ),
    Mistake(
        id="B10",
        title="layers in a Python list, or weights that are no parameters",
        does="Layers are kept in a plain list (or dict), or by a class that is no nn.Module, or weights are plain "
        "tensors. PyTorch does not see them: they are not trained, not moved to the GPU and not saved.",
        expected="nn.ModuleList (or nn.ModuleDict), nn.Parameter.",
        fix="self.layers = nn.ModuleList([...]); self.weight = nn.Parameter(...).",
        source="documentation of torch.nn.ModuleList",
        demo="""\
import torch
class Model(torch.nn.Module):
    def __init__(self, container):
        super().__init__()
        self.layers = container([torch.nn.Linear(4, 4) for _ in range(6)])
for container in (list, torch.nn.ModuleList):
    print(container.__name__, "- parameters:", sum(p.numel() for p in Model(container).parameters()))
""",
    ),
    Mistake(
        id="B11",
        title="training and evaluation compute different things",
        does="Apart from dropout, it computes something else in training mode than in evaluation mode; often the "
        "causal "
        "mask is applied in training only, so that in evaluation tokens see the future.",
        expected="Only dropout depends on the mode.",
        fix="Apply the mask always; no `if self.training` around it.",
        source="Vaswani et al. 2017, section 3.2.3",
        demo="""\
import torch
torch.manual_seed(0)
x = torch.randn(1, 3, 4)
def attend(x, training):
    return torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=training)
print("training:", attend(x, True)[0, 0])
print("evaluation, the same input:", attend(x, False)[0, 0])
""",
    ),
    Mistake(
        id="B12",
        title="dropout in evaluation",
        does="Drops out in evaluation mode too: two calls with one input give two outputs.",
        expected="model.eval() turns dropout off.",
        fix="nn.Dropout(p) as a module of its own, or F.dropout(x, p, training=self.training): its default is True.",
        source=DROPOUT,
        demo="""\
import torch
torch.manual_seed(0)
x = torch.ones(6)
print("F.dropout(x, 0.5), always on:", torch.nn.functional.dropout(x, 0.5))
print("F.dropout(x, 0.5, training=False):", torch.nn.functional.dropout(x, 0.5, training=False))
print("nn.Dropout(0.5).eval():", torch.nn.Dropout(0.5).eval()(x))
""",
    ),
    Mistake(
        id="B13",
        title="no residual connection",
        does="The input of a sublayer is not added to its output.",
        expected="norm(x + f(x)): x passes around the sublayer.",
        fix="x + self.dropout(sublayer(...)).",
        source=BLOCK,
        mathematics="right: norm(x + f(x))      here: norm(f(x))",
        changes={
            "norm(f(x))": {"norm_order": "no residual, post"},
            "f(norm(x))": {"norm_order": "no residual, pre"},
            "f(x), without a norm either": {"norm_order": "neither"},
        },
        demo=SUBLAYER
        + """\
print("right:", norm(x + f(x)).data)
print("without the residual:", norm(f(x)).data)
""",
    ),
    Mistake(
        id="B14",
        title="no norm",
        does="The sum x + f(x) is not normalized anywhere in the layer.",
        expected="norm(x + f(x)), or x + f(norm(x)).",
        fix="Call the norm that was constructed, and keep what it gives: x = self.norm(x + ...).",
        source=BLOCK,
        mathematics="right: norm(x + f(x))      here: x + f(x)",
        changes={"": {"norm_order": "no norm"}},
        demo=SUBLAYER
        + """\
print("right:", norm(x + f(x)).data)
print("without the norm:", x + f(x))
""",
    ),
    Mistake(
        id="B15",
        title="one norm for several sublayers",
        severity="harmless",
        does="One normalization, with one set of weights, is used for several sublayers of a layer, or for all.",
        expected="Every sublayer has a norm of its own.",
        fix="self.norm1 = nn.LayerNorm(d_model); self.norm2 = nn.LayerNorm(d_model).",
        source=BLOCK,
        changes={
            "": {"norms": "shared"},
            BEFORE_AND_AFTER: {"norm_order": "before and after"},
            "the first sublayer's for the second too": {"norms": "1 1 3"},
            "the second sublayer's for the third too": {"norms": "1 2 2"},
            "the first sublayer's for the third too": {"norms": "1 2 1"},
        },
        severities={UNUSED_NORMS: "mistake", BEFORE_AND_AFTER: "mistake"},
        fixes={BEFORE_AND_AFTER: "x + f(norm(x)), pre-norm, or norm(x + f(x)), post-norm: one of the two."},
        demo="""\
import torch
right = torch.nn.TransformerEncoderLayer(8, 2, 16)
print("norms in PyTorch's layer:", [name for name, _ in right.named_modules() if name.startswith("norm")])
""",
    ),
    Mistake(
        id="B16",
        title="no activation in the feed-forward network",
        does="The two linear maps follow each other without an activation between, so they are one linear map.",
        expected="max(0, x W_1 + b_1) W_2 + b_2.",
        fix="self.linear_2(torch.relu(self.linear_1(x))).",
        source=FEED_FORWARD,
        changes={"": {"activation": "none"}},
        demo="""\
import torch
torch.manual_seed(0)
first, second = torch.nn.Linear(4, 8, bias=False), torch.nn.Linear(8, 4, bias=False)
x = torch.randn(4)
print("two maps:", second(first(x)).data)
print("one map:", ((second.weight @ first.weight) @ x).data)
print("with ReLU between:", second(torch.relu(first(x))).data)
""",
    ),
    Mistake(
        id="B17",
        title="activation in the wrong place",
        does="The activation comes after the second linear map, so the network cannot return negative numbers; or "
        "before the first, so that two linear maps are left in a row, which are one.",
        expected="The activation is between the two maps, and nowhere else.",
        fix="self.linear_2(torch.relu(self.linear_1(x))).",
        source=FEED_FORWARD,
        changes={
            "at the end instead": {"activation_place": "at the end"},
            "at the end too": {"activation_place": "twice"},
            "before the first map instead": {"activation_place": "before"},
        },
        demo="""\
import torch
torch.manual_seed(0)
first, second = torch.nn.Linear(4, 8), torch.nn.Linear(8, 4)
x = torch.randn(4)
print("right:", second(torch.relu(first(x))).data)
print("at the end:", torch.relu(second(first(x))).data)
""",
    ),
    Mistake(
        id="B18",
        title="softmax over the wrong axis of the output",
        does="The softmax at the end goes over the tokens, not over the vocabulary.",
        expected="Over the last axis, the vocabulary: which word comes next. (Or none: the loss has its own.)",
        fix="logits.softmax(dim=-1), or return the logits.",
        source="Vaswani et al. 2017, section 3.4",
        changes={
            "": {"output": "probabilities over the tokens"},
            "log_softmax": {"output": "log-probabilities over the tokens"},
        },
        demo="""\
import torch
logits = torch.tensor([[[1.0, 2.0, 3.0], [3.0, 1.0, 1.0]]])  # (batch, tokens, vocabulary)
print("dim=-1, every token's words sum to", logits.softmax(-1).sum(-1))
print("dim=1, they sum to", logits.softmax(1).sum(-1))
""",
    ),
    Mistake(
        id="B19",
        title="every layer gets the first input",
        does="In the loop over the layers, each is called with the stack's input, so only the last one counts, or none "
        "where even its output is not used.",
        expected="Each layer gets the previous one's output.",
        fix="for layer in self.layers: x = layer(x, mask) - the same name on both sides.",
        source=BLOCK,
        changes={"": {"feeding": "first input"}, "and none of their outputs is used": {"feeding": "nothing"}},
        demo="""\
x, layers = 1, [lambda x: x + 1, lambda x: x * 10]
right = x
for layer in layers:
    right = layer(right)
for layer in layers:
    wrong = layer(x)
print("right: (1 + 1) * 10 =", right)
print("only the last counts: 1 * 10 =", wrong)
""",
    ),
    Mistake(
        id="B20",
        title="another order of the decoder's sublayers",
        does="The decoder's layer attends to the encoder before it attends to itself, or not at all.",
        expected="Self-attention, then attention to the encoder's output, then the feed-forward network.",
        fix="Call the sublayers in this order.",
        source=BLOCK,
        changes={"encoder first": {"order": "cross, self"}, "the encoder is not used": {"order": "no cross"}},
        demo="""\
import torch
layer = torch.nn.TransformerDecoderLayer(8, 2, 16)
print([name for name, _ in layer.named_children() if "attn" in name or "linear" in name])
""",
    ),
)
