"""E1 … E6 and P1 … P14: mistakes in embeddings and positions."""

from scratch_transformer.kit.kind import Mistake
from scratch_transformer.kit.mistakes.masks import TOLD_DEVICE

IN_A_BATCH = "in a batch; a sentence alone, (length, d_model), gets the right ones"
ATTENTION_ALONG_IT = "attention goes along it"
"""A form of P4 without any positions, or where these are right."""
ATTENDS = (
    "Attention goes along the first dimension of what comes as (batch, length, d_model): the samples of a batch "
    "attend to each other, and the tokens of a sentence do not."
)
BATCH_FIRST = (
    "batch_first=True in torch.nn's attention and layers, and no transpose; or a transpose before those that take "
    "(length, batch, d_model), and one after them."
)
NO_POSITIONS = "it has none at all, neither added nor rotary: of the order it knows what its masks tell"
EMBEDDING_SOURCE = "Vaswani et al. 2017, section 3.4"
ROUNDED_ANGLES = "the angles of rotary positions have the type of the input"
"""A form of P8."""
DIVIDED = "divided by √d_model"
"""A form of E2."""
ELSEWHERE = "not scaled by itself: another class of its file multiplies by √d_model"
POSITIONS_SOURCE = "Vaswani et al. 2017, section 3.5"
FORMULA = "PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(pos / 10000^(2i/d_model))"

TABLE = """\
import torch
def table(angles, d_model=4):
    pe = torch.zeros(3, d_model)
    pe[:, 0::2], pe[:, 1::2] = angles.sin(), angles.cos()
    return pe
pos, two_i = torch.arange(3.0).unsqueeze(1), torch.arange(0, 4, 2)
right = table(pos / 10000 ** (two_i / 4))
"""

EMBEDDING = (
    Mistake(
        id="E1",
        title="torch.sqrt of a number",
        does="Calls torch.sqrt with a plain number. It wants a tensor, and stops with a TypeError.",
        expected="math.sqrt for numbers, torch.sqrt for tensors.",
        fix="self.embedding(x) * math.sqrt(self.d_model).",
        source=EMBEDDING_SOURCE,
        demo="""\
import math, torch
try:
    torch.sqrt(512, dtype=torch.float32)
except TypeError as error:
    print("TypeError:", str(error).splitlines()[0])
print("math.sqrt(512) =", math.sqrt(512))
""",
    ),
    Mistake(
        id="E2",
        title="embeddings are not multiplied by √d_model",
        severity="harmless",
        does="Hands the embeddings on as they are (or times something else, or with √d_model added to every feature), "
        "not times √d_model.",
        expected="The paper multiplies the embeddings by √d_model. Training can make up for a missing factor, but "
        "positions that are added weigh more at the start, and weights of a model with the factor do not fit.",
        fix="self.embedding(x) * math.sqrt(self.d_model).",
        source=EMBEDDING_SOURCE,
        mathematics="right: √d_model · W[id]      here: W[id]; the ratio is √d_model = 22.6 for d_model = 512",
        changes={
            "not scaled": {"embedding_scale": "none"},
            "times d_model": {"embedding_scale": "d_model"},
            DIVIDED: {"embedding_scale": "1/sqrt(d_model)"},
            "plus √d_model": {"embedding_scale": "plus sqrt(d_model)"},
        },
        severities={"plus √d_model": "mistake", DIVIDED: "mistake", ELSEWHERE: "note"},
        fixes={
            DIVIDED: "self.embedding(x) * math.sqrt(self.d_model): the factor makes words as large as positions are."
        },
        demo="""\
import torch
torch.manual_seed(0)
d_model = 512
embedding = torch.nn.Embedding(10, d_model)
torch.nn.init.normal_(embedding.weight, std=d_model**-0.5)
token, position = embedding(torch.tensor(3)), torch.full((d_model,), 0.5**0.5)
print("length of a position's code:", position.norm().item())
print("length of a token without the factor:", token.norm().item())
print("and with it:", (token * d_model**0.5).norm().item())
""",
    ),
    Mistake(
        id="E4",
        title="the padding's row is overwritten",
        severity="harmless",
        does="Sets padding_idx, so the padding's vector should be zero and stay so, but initializes all weights "
        "afterwards: the padding gets random numbers that are never trained.",
        expected="The row of padding_idx is zero.",
        fix="with torch.no_grad(): embedding.weight[padding_idx].zero_() after the initialization.",
        source="documentation of torch.nn.Embedding",
        demo="""\
import torch
embedding = torch.nn.Embedding(5, 4, padding_idx=0)
print("at first:", embedding.weight[0].data)
for parameter in embedding.parameters():
    torch.nn.init.xavier_uniform_(parameter)
print("after initializing everything:", embedding.weight[0].data)
""",
    ),
    Mistake(
        id="E5",
        title="padding_idx is a fixed number",
        severity="harmless",
        does="padding_idx is written into the class. Where the tokenizer's padding has another id, a real word is "
        "never trained.",
        expected="The padding's id is an argument.",
        fix="nn.Embedding(vocab_size, d_model, padding_idx=pad_id).",
        source="documentation of torch.nn.Embedding",
        demo="""\
import torch
embedding = torch.nn.Embedding(5, 4, padding_idx=0)
embedding(torch.tensor([0, 1, 2])).sum().backward()
print("gradient of every row:", embedding.weight.grad.sum(1))
print("if id 0 is a word, it never learns anything")
""",
    ),
    Mistake(
        id="E6",
        title="the scores of words are divided by √d_model",
        severity="harmless",
        does="Divides the scores that the last layer gives to the words by √d_model.",
        expected="The paper and PyTorch hand them on as they are. Where one table embeds words and scores them, T5 "
        "divides the scores in place of multiplying the embeddings. Training can make up for it; weights of a model "
        "without the division do not fit.",
        fix="logits = self.projection(x).",
        source="Vaswani et al. 2017, section 3.4; Raffel et al. 2020, whose code divides what is projected",
        mathematics="right: x Wᵀ      here: x Wᵀ / √d_model",
        changes={"": {"logits": "over sqrt(d_model)"}},
        demo="""\
import torch
d_model = 512
logits = torch.tensor([4.0, 2.0, 0.0])
print("probabilities:", logits.softmax(-1))
print("after the division:", (logits / d_model**0.5).softmax(-1))
""",
    ),
    Mistake(
        id="P1",
        title="an odd d_model crashes",
        severity="note",
        does="With an odd d_model the table of positions has one column less for cosines than are computed, and the "
        "constructor stops with an error.",
        expected="The last cosine is left out. (The paper's d_model is even, so it says nothing.)",
        fix="pe[:, 1::2] = torch.cos(angles)[:, : d_model // 2].",
        source=POSITIONS_SOURCE,
        demo="""\
import torch
d_model = 7
pe, angles = torch.zeros(5, d_model), torch.zeros(5, 4)
pe[:, 0::2] = angles.sin()
try:
    pe[:, 1::2] = angles.cos()
except RuntimeError as error:
    print("RuntimeError:", error)
pe[:, 1::2] = angles.cos()[:, : d_model // 2]
print("with the last cosine left out:", pe.shape)
""",
    ),
    Mistake(
        id="P2",
        title="other frequencies",
        does="The frequencies are not 1 / 10000^(2i/d_model): the exponent is another one (doubled, as 2i runs over "
        "even numbers already), or the base is, or the cosine has another frequency than the sine beside it.",
        expected="Sine and cosine of a pair have one frequency, 1 / 10000^(2i/d_model). The authors' own code divides "
        "by d_model - 2 in the exponent, so that the last one is 1: that is as good.",
        fix="torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model)) for sine and cosine alike.",
        source=POSITIONS_SOURCE,
        mathematics=FORMULA,
        changes={
            "the exponent is doubled": {"angles": "doubled"},
            "the cosine has the next exponent": {"angles": "cosine at the next"},
            "doubled, and the cosine has the next": {"angles": "doubled, cosine at the next"},
            "the exponent is halved": {"angles": "halved"},
            "the last exponent is 1": {"angles": "to 1"},
            "multiplied instead of divided": {"angles": "inverted"},
        },
        severities={"the last exponent is 1": "harmless"},
        demo=TABLE
        + """\
wrong = table(pos / 10000 ** (2 * two_i / 4))
print("right:", right, sep="\\n")
print("doubled:", wrong, sep="\\n")
""",
    ),
    Mistake(
        id="P3",
        title="another order of sines and cosines",
        severity="harmless",
        does="All sines come first and then all cosines, or the cosine before the sine, where the paper alternates; or "
        "its features are counted from 1, so that the first sine is missing and there is another one at the end.",
        expected="sin, cos, sin, cos, … It is only another order of the columns, which training does not mind; weights "
        "of a model with the paper's order do not fit.",
        fix="pe[:, 0::2] = sines; pe[:, 1::2] = cosines.",
        source=POSITIONS_SOURCE,
        mathematics=FORMULA,
        changes={
            "all sines, then all cosines": {"layout": "concatenated"},
            "cosine before sine": {"layout": "cosine first"},
            "features are counted from 1": {"layout": "from feature 1"},
        },
        demo=TABLE
        + """\
angles = pos / 10000 ** (two_i / 4)
wrong = torch.cat([angles.sin(), angles.cos()], dim=1)
print("right:", right, sep="\\n")
print("concatenated:", wrong, sep="\\n")
print("the same after reordering the columns:", torch.equal(wrong[:, [0, 2, 1, 3]], right))
""",
    ),
    Mistake(
        id="P4",
        title="positions or attention along the batch",
        does="Takes the rows of the table by the number of the sample, not of the token: all tokens of a sentence get "
        "the same code. It happens when batch-first data meets code for (length, batch, d_model), or a table for "
        "(batch, length, d_model) meets attention along the first axis, as torch.nn's goes without batch_first=True. "
        "Or a colon is missing, pe[:, x.size(1)]: that is one row.",
        expected="Token t gets row t, and attends to the tokens of its own sentence.",
        fix="x + self.pe[:, : x.size(1)] for x of shape (batch, length, d_model), and batch_first=True in torch.nn's "
        "attention.",
        source=POSITIONS_SOURCE,
        changes={
            "": {"position_axis": "batch"},
            "as many rows as there are samples: the first, for a sentence alone": {"position_axis": "none"},
            "one row for all tokens, that of their number: a colon is missing": {"position_axis": "length"},
        },
        severities={IN_A_BATCH: "note"},
        demo="""\
import torch
pe = torch.arange(4.0).view(4, 1, 1)  # (length, 1, d_model)
x = torch.zeros(2, 3, 1)  # (batch, length, d_model)
print("by sample:", (x + pe[: x.size(0)])[..., 0], sep="\\n")
print("by token:", (x + pe[: x.size(1)].transpose(0, 1))[..., 0], sep="\\n")
""",
    ),
    Mistake(
        id="P5",
        title="the table of positions is no buffer",
        does="The table is a plain attribute. model.to('cuda') does not move it, and the code stops on a GPU.",
        expected="A buffer: it moves with the model, is saved with it, and is not trained.",
        fix="self.register_buffer('pe', pe).",
        source="documentation of torch.nn.Module.register_buffer",
        severities={TOLD_DEVICE: "harmless"},
        demo="""\
import torch
class Positions(torch.nn.Module):
    def __init__(self, is_buffer):
        super().__init__()
        if is_buffer:
            self.register_buffer("pe", torch.zeros(3, 4))
        else:
            self.pe = torch.zeros(3, 4)
for is_buffer in (True, False):
    print("buffer" if is_buffer else "attribute", "- after .double():", Positions(is_buffer).double().pe.dtype)
""",
    ),
    Mistake(
        id="P6",
        title="a silent limit of the length",
        severity="note",
        does="A sequence longer than the table fails in an addition of tensors, in words about shapes.",
        expected="An error that says which length was given and which is the longest.",
        fix="if x.size(1) > self.pe.size(1): raise ValueError(...)",
        source=POSITIONS_SOURCE,
        demo="""\
import torch
pe, x = torch.zeros(1, 5, 4), torch.zeros(1, 6, 4)
try:
    x + pe[:, : x.size(1)]
except RuntimeError as error:
    print("RuntimeError:", error)
""",
    ),
    Mistake(
        id="P7",
        title="positions do not advance in step-wise decoding",
        does="When decoding one token at a time with stored keys and values, every new token gets position 0.",
        expected="The n-th token gets position n, however it is computed.",
        fix="Add self.pe[:, offset : offset + x.size(1)], offset being the number of tokens already seen.",
        source=POSITIONS_SOURCE,
        demo="""\
import torch
pe = torch.arange(4.0).view(1, 4, 1)
x = torch.zeros(1, 4, 1)
steps = [x[:, t : t + 1] + pe[:, :1] for t in range(4)]
print("all at once:", (x + pe).flatten())
print("step by step, wrong:", torch.cat(steps, 1).flatten())
steps = [x[:, t : t + 1] + pe[:, t : t + 1] for t in range(4)]
print("step by step, right:", torch.cat(steps, 1).flatten())
""",
    ),
    Mistake(
        id="P8",
        title="positions with too few digits",
        does="Counts the positions in bfloat16, which has 8 binary digits: 256 and 257 are the same number there. Or "
        "puts the sines and cosines into a tensor of integers: nearly all of them become 0.",
        expected="Count in integers or float32, have the table in float32, and round the finished table.",
        fix="torch.arange(length, dtype=torch.float32), and torch.zeros(length, d_model) for the table.",
        source=POSITIONS_SOURCE,
        changes={
            "counted in bfloat16": {"positions_dtype": "bfloat16"},
            "cut to integers": {"positions_dtype": "integers"},
        },
        fixes={
            ROUNDED_ANGLES: "Positions, frequencies and angles in float32, and .to(x.dtype) for the cosines and sines."
        },
        demo="""\
import torch
pos = torch.arange(254, 262)
print("float32: ", pos.float().tolist())
print("bfloat16:", pos.bfloat16().tolist())
""",
    ),
    Mistake(
        id="P9",
        title="the first position is not 0",
        severity="harmless",
        does="Counts the positions from 1.",
        expected="The first token has position 0 in PyTorch's tutorials and here; the paper does not say. Training "
        "does "
        "not mind.",
        fix="torch.arange(length).",
        source=POSITIONS_SOURCE,
        changes={"from 1": {"first_position": 1}},
        demo="""\
import torch
for first in (0, 1):
    pos = torch.arange(first, first + 3.0)
    print("first position", first, "- its code:", torch.stack([pos.sin(), pos.cos()], 1)[0])
""",
    ),
    Mistake(
        id="P10",
        title="positions are multiplied, not added",
        does="Multiplies the embeddings with the code of the positions.",
        expected="Add them.",
        fix="x + self.pe[:, : x.size(1)].",
        source=POSITIONS_SOURCE,
        changes={"": {"adding": "multiplied"}},
        demo="""\
import torch
x, pe = torch.full((1, 4), 2.0), torch.tensor([[0.0, 1.0, 0.0, 1.0]])  # position 0: sin 0, cos 0, ...
print("added:", x + pe)
print("multiplied, position 0 loses half of its features:", x * pe)
""",
    ),
    Mistake(
        id="P11",
        title="√d_model inside the positions",
        severity="note",
        does="Multiplies its input by √d_model before adding the positions. That is the embedding's factor in another "
        "place: right, unless the embedding has it too.",
        expected="The factor √d_model once, in the embedding or here.",
        fix="Keep it in one of the two.",
        source=EMBEDDING_SOURCE,
        changes={"": {"input_scale": "sqrt(d_model)"}},
        demo="""\
import torch
x, d_model = torch.ones(1, 4), 4
once = x * d_model**0.5
print("once:", once)
print("in the embedding and again with the positions:", once * d_model**0.5)
""",
    ),
    Mistake(
        id="P12",
        title="the embedding, or the code of the positions, is added twice",
        does="Adds the embedding to what adds the positions to the embedding already: x + pos(x), where pos(x) is "
        "x + code. The positions weigh half as much beside the words; or twice as much, where they are added twice.",
        expected="x + code: either pos(x) alone, or x + pos where pos gives the codes and nothing else.",
        fix="x = self.pos(self.embed(ids)), without adding the embedding again.",
        source=POSITIONS_SOURCE,
        mathematics="right: x + pe      here: x + (x + pe) = 2x + pe",
        changes={"": {"adding": "twice"}, "the positions are added twice": {"adding": "positions twice"}},
        demo=TABLE
        + """\
x = torch.ones(1, 4)
def with_positions(x):
    return x + right[1]
print("right:", with_positions(x))
print("the embedding twice:", x + with_positions(x))
""",
    ),
    Mistake(
        id="P13",
        title="no positions are added",
        does="Returns what it is given: the code of the positions is not made, or what is added to is thrown away. "
        "Without positions a Transformer sees a bag of words, in which order says nothing.",
        expected="x + the code of its position, for every token.",
        fix="return x + self.pe[:, : x.size(1)]. `x + self.pe` on a line of its own does nothing.",
        source=POSITIONS_SOURCE,
        mathematics="right: x + pe      here: x",
        changes={"": {"positions": "none"}},
        severities={NO_POSITIONS: "note"},
        demo=TABLE
        + """\
x = torch.ones(1, 4)
x + right[1]  # nobody keeps the sum
print("thrown away:", x)
x = x + right[1]
print("kept:", x)
""",
    ),
    Mistake(
        id="P14",
        title="half of the waves are missing, or all",
        does="Writes both waves into the same columns, pe[:, 0::2] twice, so that the cosines replace the sines and "
        "every second feature stays 0; or writes one wave only, or the same one twice. Or adds the number of the "
        "position itself, or of that by each frequency, without sine and cosine: soon that is larger than all that the "
        "words say.",
        expected="A sine and a cosine of every frequency. With both, a step by k positions is one rotation, wherever "
        "it starts; with one of them, positions on both sides of a wave's crest look alike.",
        fix="pe[:, 0::2] = torch.sin(angles); pe[:, 1::2] = torch.cos(angles).",
        source=POSITIONS_SOURCE,
        mathematics=FORMULA,
        changes={
            "cosines where the sines belong, then zeros": {"layout": "cosine, zero"},
            "zeros, then cosines": {"layout": "zero, cosine"},
            "sines, then zeros": {"layout": "sine, zero"},
            "zeros, then sines": {"layout": "zero, sine"},
            "sines twice": {"layout": "sine, sine"},
            "cosines twice": {"layout": "cosine, cosine"},
            "the position's number in every feature": {"layout": "number"},
            "the angles themselves": {"layout": "angle, cosine's angle"},
        },
        demo=TABLE
        + """\
angles = pos / 10000 ** (two_i / 4)
wrong = torch.zeros(3, 4)
wrong[:, 0::2] = angles.sin()
wrong[:, 0::2] = angles.cos()
print("right:", right, sep="\\n")
print("written twice into the same columns:", wrong, sep="\\n")
""",
    ),
)
