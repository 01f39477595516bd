"""B21, B22, B26 … B30, B33, A28, A35, A36: weights that are made at the wrong time, not at all, or too few of them."""

from scratch_transformer.kit.kind import Mistake

OF_SEVERAL = (
    "As many names as there are values, y = part(x) for one, y, weights, cache = part(x) for three; or return what is "
    "asked for."
)
OF_CALLS = "Give it what its def asks for, and no more: mypy finds such calls before they run."
OF_MODULES = "super().__init__(): nn.Module is told nothing; what a module is told, its own constructor keeps."
OF_SHAPES = (
    "Write the shape beside each line, or print(x.shape) before this one: sizes come from what forward is given and "
    "what the constructor is told."
)
OF_VIEWS = (
    ".reshape(…) in place of .view(…), or .contiguous() before it: what is transposed lies otherwise in memory, and "
    "view does not copy."
)
OF_QUOTIENTS = "// in place of /: d_model // num_heads is an integer, where num_heads divides d_model."
OF_BOOLEANS = "mask == 0 in place of ~mask; or .bool() where the mask is made."
OF_BOTH_MASKS = (
    "scaled_dot_product_attention takes attn_mask or is_causal=True, not both: "
    "attn_mask = attn_mask & torch.ones(T, T, dtype=torch.bool, device=x.device).tril(), without is_causal."
)
OF_SELF = "def forward(self, x): the first argument of every method is self, the module itself."
OF_FORWARD = "def forward(self, ...) in the class itself, which ends with return."
"""Fixes of B26, by what stops it."""
OF_NAMES = "Give each a name of its own, and hand both on."
"""Fix of B30, where one takes the other's name."""
WIDTH_OF_HEADS = "the width of a head, which follows from d_model and the number of heads"
WIDTH_OF_MEMORY = "the width of the encoder's output, which is taken to be the decoder's"
DROPS_ANYWAY = "dropout: what it makes drops as much whatever it is told"
PART_DROPS_ANYWAY = "dropout: a part drops as much whatever the whole is told"
UNHEARD_FLAG = "a flag that changes nothing"
OTHER_THAN_ASKED = "a flag that asks for something else than is done"
"""Forms of B29 that no size of the whole is."""
DOES_UNHEARD_FLAG = "Takes a flag, and is the same whether it is True or False."
AVERAGED = "averaged over the batch, in place of the sum"
NOT_SUMMED = "not summed over the batch"
STOPS = "it stops where forward goes through"
NO_DROPOUT = "dropout=None, its default, is given to nn.Dropout"
ALWAYS_MASKED = "every call of it gives a mask"
ASKED_IN_VAIN = "_init_weights asks for a flag that nothing sets"
"""A form of B26."""
DOES_ASK_IN_VAIN = (
    "Asks each part, as it fills its weights, for a flag that none has: what is to be done with such parts is done "
    "with none."
)
NEEDS_MASK = "Takes a mask that need not be given, and stops where it is left out."
OF_NO_MASK = (
    "Keep all that reads the mask within if mask is not None:, or leave the default out: forward(self, x, mask) says "
    "that it must be given."
)
"""A form of B26, of a mask that is None by default, with which it stops; what it does, and the fix."""
ALWAYS_GIVEN = "every call of it gives what is None by default"
NEEDS_NUMBER = "Takes a number that need not be given, and stops where it is left out."
OF_NO_NUMBER = (
    "Keep all that reads it within if {0} is not None:, or leave the default out: then the call itself says that {0} "
    "must be given."
)
"""The same of a number by which a word is drawn: top_k=None."""
ONE_COUNT = (
    "Counts the queries and the keys as one number, in a view of the weights, the mask or the output. Where there are "
    "more or fewer keys than queries it stops with an error; where there are as many, all is right."
)
OF_COUNTS = (
    "A view has the sizes of what is viewed: query.size(-2) of the output, (…, query.size(-2), key.size(-2)) of the "
    "mask; where nothing is split, leave it out."
)
"""What A35 does where nothing is split into heads, and the fix."""
OWN_SHARE = "each head has a small matrix, which sees the head's own share of the features alone"
ONE_FOR_ALL = "all heads are one and the same, with one set of weights"
SHARED_KEYS = "heads share the projection of the keys, and not that of the values"
SHARED_VALUES = "heads share the projection of the values, and not that of the keys"
OF_WRITERS = "of a whole model, in a file that trains nothing: it can write text, and cannot be trained"
SECOND_STEP = "the second step of training stops"
UNTRAINED = f"{SECOND_STEP}, and its file trains nothing"
"""Forms of B27, of what keeps keys and values."""
DOES_KEEP = (
    "Writes what it computes into a tensor that stays, with all that it was computed from: the next step's gradients "
    "would go back through the step before, whose graph is gone."
)
NOWHERE_ELSE = "nothing in its file or beside it speaks of another device"
LOADED = "a file loads them, and none beside it trains: it matters once it is trained from the beginning"
ALL_POSITIVE = "all of them positive: torch.rand, or uniform_ without limits"
POSITIVE_TABLE = f"{ALL_POSITIVE}, in a table"
"""Forms of B22: training moves the rows of a table away from there; a matrix of such adds up all that it is given."""
DOES_ALL_POSITIVE = (
    "Starts with numbers between 0 and 1, 1/2 on average. All columns of such a matrix are nearly alike, and what it "
    "gives is √d_model times too large: a softmax behind it looks at one key alone, and hardly learns."
)
SHARED_BOTH = "heads share those of keys and values: multi-query attention, a design"
SECOND_TABLE = "a second table of positions"
"""A form of B30."""
SOURCES_TABLE = "the target's tokens are looked up in the source's embedding, and the target's is unused"

CONSTRUCTION = (
    Mistake(
        id="A28",
        title="one projection for all heads",
        does="Cuts the features into heads first, and then projects each with a small matrix (d_k × d_k), one for all "
        "heads or one for each: none sees more than its own share of the features. Or all heads are one and the "
        "same, or there are fewer heads of keys, or of values, than of queries.",
        expected="Each head has its own projection of all d_model features; nn.Linear(d_model, d_model) is all of them "
        "side by side. Multi-query attention is a design in which query heads share keys and values, both of them, so "
        "that there is less to store.",
        fix="self.queries = nn.Linear(d_model, d_model), applied before the features are cut into heads.",
        source="Vaswani et al. 2017, section 3.2.2; Shazeer 2019, section 3: multi-query attention",
        mathematics="right: head_i = Attention(Q W_i, …), W_i of shape (d_model, d_k)\n"
        "here: W_q is block-diagonal, h times the same block of shape (d_k, d_k)",
        severities={SHARED_BOTH: "note"},
        demo="""\
import torch
d_model, heads = 512, 8
right, wrong = torch.nn.Linear(d_model, d_model), torch.nn.Linear(d_model // heads, d_model // heads)
print("weights of all heads:", right.weight.numel())
print("one small matrix for all of them:", wrong.weight.numel())
""",
    ),
    Mistake(
        id="A36",
        title="one attention for both of a decoder's layer",
        does="The attention to itself and the attention to the encoder's output are one module, with one set of "
        "weights (and perhaps another one is made and never used).",
        expected="Each has its own weights: what a word looks for in its own sentence is not what it looks for in the "
        "other language's.",
        fix="self.cross_attn = MultiHeadAttention(d_model, num_heads), and self.cross_attn(x, memory, memory) in "
        "forward.",
        source="Vaswani et al. 2017, section 3.1",
        demo="""\
import torch
attention = torch.nn.MultiheadAttention(8, 2)
wrong = torch.nn.ModuleDict({"self_attn": attention, "cross_attn": attention})
right = torch.nn.TransformerDecoderLayer(8, 2)
print("one for both:", sum(values.numel() for values in wrong.parameters()))
print("each its own:", sum(values.numel() for n, values in right.named_parameters() if "attn" in n))
""",
    ),
    Mistake(
        id="B21",
        title="weights that are made anew in every call",
        does="Layers (or random weights) are made inside forward. They are new at every call, are not among the "
        "model's parameters, and are never trained.",
        expected="Layers are made once, in __init__, and used in forward.",
        fix="self.linear = nn.Linear(...) in __init__; self.linear(x) in forward.",
        source="documentation of torch.nn.Module",
        demo="""\
import torch
class Wrong(torch.nn.Module):
    def forward(self, x):
        return torch.nn.Linear(4, 1)(x)
model, x = Wrong(), torch.ones(4)
print("the same input twice:", model(x).item(), model(x).item())
print("parameters to train:", sum(p.numel() for p in model.parameters()))
""",
    ),
    Mistake(
        id="B22",
        title="parameters without initial values, or with such as nothing learns from",
        does="Parameters are made with torch.empty (or torch.Tensor(n, m)) and never filled: they hold whatever the "
        "memory held before, huge numbers or NaN included.",
        expected="Every parameter is initialised: torch.zeros, torch.ones, or nn.init; a matrix around 0, with numbers "
        "of about 1/√d_model.",
        fix="nn.init.xavier_uniform_(self.weight) after nn.Parameter(torch.empty(...)); torch.ones for a norm's scale.",
        source="documentation of torch.empty",
        severities={LOADED: "note", POSITIVE_TABLE: "harmless"},
        fixes=dict.fromkeys(
            (ALL_POSITIVE, POSITIVE_TABLE),
            "nn.init.xavier_uniform_(self.weight), or torch.randn(…) * 0.02: around 0, and small.",
        ),
        demo="""\
import torch
torch.use_deterministic_algorithms(True)  # makes torch.empty say what it is
print("torch.empty:", torch.empty(3))
torch.use_deterministic_algorithms(False)
print("torch.ones:", torch.ones(3))
""",
    ),
    Mistake(
        id="B26",
        title="reads what nothing defines, or calls with arguments that do not fit",
        does="Reads an attribute that nothing sets or a name that nothing defines, calls something without what it "
        "must be given, or puts tensors together whose shapes do not fit: a typo, or a line that was forgotten. When "
        "the line runs it stops there, whatever it is given, or with any number of tokens or samples but one, or as "
        "soon as what need not be given is left out. A forward without return gives None, with which whatever calls it "
        "stops.",
        expected="Every self.name that forward reads is set in __init__, every name is defined or imported, every call "
        "gives what is asked for, shapes fit with any batch, and forward returns its output.",
        fix="Write the name as it is set, or set it: what forward reads, in __init__. A linter finds such lines before "
        "they run: ruff check --select F821 for names, mypy for attributes.",
        source="The Python Tutorial, section 9.3: attributes are made by assignment",
        severities={NO_DROPOUT: "harmless", ALWAYS_MASKED: "note", ALWAYS_GIVEN: "note", ASKED_IN_VAIN: "harmless"},
        fixes={ASKED_IN_VAIN: "Set it on the parts that are meant, self.out.flag = True; or leave the question out."},
        demo="""\
class Network:
    def __init__(self, hidden_dim):
        self.hidden_dim = hidden_dim
    def width(self):
        return self.hiddne_dim
try:
    Network(512).width()
except AttributeError as error:
    print(error)
""",
    ),
    Mistake(
        id="B32",
        title="a tensor that stays on the CPU",
        does="Makes a tensor in forward without saying where, as torch.arange(T) and torch.ones(T, T) do, or keeps one "
        "as a plain attribute. It is on the CPU wherever the module is: on a GPU the model stops with an error about "
        "two devices.",
        expected="What forward makes is made where its input is. What is kept is a buffer: it moves with the module.",
        fix="torch.arange(T, device=x.device); self.register_buffer('scale', scale) for what is kept.",
        source="documentation of torch.Tensor.device and torch.nn.Module.register_buffer",
        severities={NOWHERE_ELSE: "note"},
        demo="""\
import torch
x = torch.randn(2, 3, 4, device="meta")  # stands for a GPU
print("torch.arange(3):", torch.arange(3).device)
print("torch.arange(3, device=x.device):", torch.arange(3, device=x.device).device)
""",
    ),
    Mistake(
        id="B27",
        title="gradients do not get through",
        does="Cuts the path back: with torch.no_grad() around a part of forward or @torch.no_grad() over all of it, "
        "x.detach(), x.data, a rounding, or a new tensor made of the numbers of an old one. What comes before the cut "
        "is never trained.",
        expected="Only tensor operations lie between the parameters and the loss; a constant table is a buffer.",
        fix="Leave out torch.no_grad(), detach(), round() and torch.tensor(x) in forward; register_buffer keeps what "
        "is fixed.",
        source="documentation of torch.autograd: locally disabling gradient computation",
        severities={OF_WRITERS: "note", UNTRAINED: "note"},
        fixes=dict.fromkeys((SECOND_STEP, UNTRAINED), "Keep k.detach(), or keep nothing while self.training."),
        demo="""\
import torch
embedding, table = torch.nn.Embedding(5, 4), torch.ones(1, 4)
with torch.no_grad():
    wrong = embedding(torch.tensor([3])) + table
right = embedding(torch.tensor([3])) + table
print("trains the embedding:", right.requires_grad, "; within no_grad:", wrong.requires_grad)
""",
    ),
    Mistake(
        id="B33",
        title="a backward pass by hand that gives other gradients",
        does="The backward that is written is not the derivative of forward: a mean that depends on the input is taken "
        "for a constant, softmax for a function of each number by itself, or the batch is not summed over. Training "
        "with it goes in another direction, and often learns something all the same.",
        expected="What PyTorch's autograd gives for the same forward: for y = W x, dx = Wᵀ dy and dW = Σ dy xᵀ over "
        "all words of all samples.",
        fix="Derive it from forward line by line, last line first; a value that is used twice gets the sum of both "
        "gradients. Compare with (f(x + h) - f(x - h)) / 2h, in float64.",
        source="Rumelhart et al. 1986; documentation of torch.autograd.gradcheck",
        severities={AVERAGED: "note"},
        demo="""\
import torch
x, dy = torch.tensor([1.0, 2.0, 4.0], requires_grad=True), torch.tensor([1.0, 0.0, 0.0])
p = torch.softmax(x, -1)
p.backward(dy)
p = p.detach()
print("as if each number were by itself:", p * (1 - p) * dy)
print("with what all share:", p * (dy - (p * dy).sum()))
print("PyTorch's:", x.grad)
""",
    ),
    Mistake(
        id="B28",
        title="fewer layers than were asked for, or more",
        does="The stack does not compute with as many layers as it is told: `return` stands inside the loop that makes "
        "or calls them, so the first layer is the only one; or the constructor makes a fixed number, whatever it is "
        "given.",
        expected="num_layers layers, each called once.",
        fix="Move `return` out of the loop, to the left by one level; range(num_layers) in place of a number.",
        source="Vaswani et al. 2017, section 3.1: stacks of N = 6 layers",
        changes={"the first alone": {"depth": "first layer"}},
        demo="""\
def through(x, layers):
    for layer in layers:
        x = layer(x)
        return x
print("three layers that add one, to zero:", through(0, [lambda x: x + 1] * 3))
""",
    ),
    Mistake(
        id="B29",
        title="a size, or a flag, that is not listened to",
        does="The constructor takes a number of heads or of words, or the width of the feed-forward network, and makes "
        "the same of any: another number is written into it, or it is not handed on to the part that needs it. Or "
        "forward reads a number of the file that is called the same, and fits as long as both are equal.",
        expected="What the constructor takes decides what it makes.",
        fix="Hand it on, FeedForward(d_model, d_ff); keep it, self.d_model = d_model, for forward; or leave it out of "
        "the constructor.",
        source="Vaswani et al. 2017, table 3: N, d_model, d_ff and h are chosen",
        severities={WIDTH_OF_HEADS: "harmless", UNHEARD_FLAG: "harmless", PART_DROPS_ANYWAY: "harmless"},
        fixes={
            UNHEARD_FLAG: "Do what it says, if self.flag: … else: …; or leave it out of the constructor.",
            OTHER_THAN_ASKED: "Do what it says, if self.norm_first: x = x + f(norm(x)) else: x = norm(x + f(x)); or "
            "leave it out of the constructor.",
            DROPS_ANYWAY: "Hand it on: nn.TransformerEncoderLayer(d_model, nhead, d_ff, dropout=dropout).",
            PART_DROPS_ANYWAY: "Hand it on: FeedForward(d_model, d_ff, dropout).",
            WIDTH_OF_MEMORY: "Hand it on to what makes keys and values of the encoder's output, or to kdim "
            "and vdim of nn.MultiheadAttention; or leave it out of the constructor.",
        },
        demo="""\
import torch
class FeedForward(torch.nn.Sequential):
    def __init__(self, d_model, d_ff):
        super().__init__(torch.nn.Linear(d_model, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, d_model))
print("told 64, it has", FeedForward(16, 64)[0].out_features)
""",
    ),
    Mistake(
        id="B30",
        title="made, and never used",
        does="The constructor makes a layer with weights, a norm, a projection, an embedding, a table of positions, "
        "and forward never applies it, or throws away what it gives. Its parameters are never trained.",
        expected="Everything that is made has its place in forward.",
        fix="x = self.norm(x), with the result kept; or leave it out of the constructor.",
        source="documentation of torch.nn.Module: forward says what is computed at every call",
        severities={SECOND_TABLE: "harmless"},
        changes={
            "the feed-forward network's output is thrown away": {"network": "thrown away"},
            "a sublayer's output is thrown away, and its input is added to itself": {"summand": "its input"},
            SOURCES_TABLE: {"target_table": "source's"},
            "a sublayer's output is thrown away": {"summand": "nothing"},
            "what a sublayer's residual and norm made of it is thrown away": {"norm_order": "thrown away"},
            "a sublayer's output is thrown away, and that of the sublayer before is added again": {
                "summand": "earlier output"
            },
        },
        demo="""\
import torch
norm, x = torch.nn.LayerNorm(3), torch.tensor([1.0, 2.0, 6.0])
norm(x)
print("thrown away:", x)
print("kept:", norm(x).data)
""",
    ),
    Mistake(
        id="A35",
        title="stops where there are more or fewer keys than queries",
        severity="harmless",
        does="Splits keys and values into heads as if there were as many of them as queries. Where the source is "
        "longer or shorter than the target, attention to the encoder's output stops with an error: both must always "
        "be padded to one length. Where they are, all is right.",
        expected="As many keys and values as the source has words, whatever the number of queries.",
        fix="k = self.w_k(key).view(batch, -1, self.num_heads, self.d_k): with -1, PyTorch counts them. Each of query, "
        "key and value has a length of its own: key.size(1).",
        source="Vaswani et al. 2017, section 3.2.3: queries come from the decoder, keys and values from the encoder",
        demo="""\
import torch
query, key = torch.randn(1, 3, 8), torch.randn(1, 5, 8)  # (batch, tokens, features)
try:
    key.view(1, query.shape[1], 2, 4)
except RuntimeError as error:
    print("with the length of the query:", error)
print("with its own:", key.view(1, -1, 2, 4).shape)
""",
    ),
)
