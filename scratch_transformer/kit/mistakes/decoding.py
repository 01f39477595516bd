"""D1 … D12: mistakes in greedy and beam search, and in looking at attention."""

from scratch_transformer.kit.kind import Mistake

SEARCH = "Vaswani et al. 2017, section 6.1"
FROM_BELOW_ZERO = "of a shorter text, whose part begins below 0"
AT_THE_FIRST = "where it is the first word"
AT_THE_BEGINNING = "it stops at the token that texts begin with"
ALL_BUT = "all but the last words"
UNTIL_THE_BEST = {"decoding": "finished beams grow until the best ends"}

DECODING = (
    Mistake(
        id="D1",
        title="the beam sums raw logits",
        does="Adds up the logits of the chosen words. A logit says nothing by itself: adding a number to all logits of "
        "a step changes no probability, but changes which beam wins.",
        expected="Add up log-probabilities: log_softmax of the logits.",
        fix="scores = scores + logits.log_softmax(-1).",
        source=SEARCH,
        changes={"logits": {"decoding": "sums logits"}, "probabilities": {"decoding": "sums probabilities"}},
        demo="""\
import torch
a, b = torch.tensor([2.0, 0.0]), torch.tensor([7.0, 6.9])  # logits after two different beginnings
print("log-probabilities of the best words:", a.log_softmax(-1)[0].item(), b.log_softmax(-1)[0].item())
print("by log-probability the first wins; by logits the second:", a[0].item(), b[0].item())
""",
    ),
    Mistake(
        id="D2",
        title="finished hypotheses are dropped",
        does="A hypothesis that has said the end token leaves the beam, and is forgotten or never compared.",
        expected="Keep finished hypotheses with their score, and return the best of all.",
        fix="Move it to a list of finished ones, and compare at the end.",
        source=SEARCH,
        changes={"": {"decoding": "finished beams are dropped"}},
        demo="""\
beams = {"yes <end>": -0.5, "yes it": -2.0}
open_beams = {words: score for words, score in beams.items() if not words.endswith("<end>")}
print("kept:", max(beams, key=beams.get))
print("dropped:", max(open_beams, key=open_beams.get))
""",
    ),
    Mistake(
        id="D3",
        title="finished beams keep growing",
        does="A hypothesis goes on after the end token; its score keeps falling, so short answers lose.",
        expected="After the end token a hypothesis stays as it is.",
        fix="If a beam ends in eos, keep it, with its score, instead of expanding it.",
        source=SEARCH,
        changes={
            "": {"decoding": "finished beams grow"},
            "up to the longest length": {"decoding": "finished beams grow on"},
            "until the best one ends": UNTIL_THE_BEST,
            "until the best one ends, or is one word too long": {**UNTIL_THE_BEST, "writes": "one more"},
        },
        demo="""\
finished, other = -1.0, -1.2  # sums of log-probabilities; the first has said <end>
for step in range(3):
    finished -= 0.4  # whatever is written after <end>
    other -= 0.1
print("after three more steps:", round(finished, 1), "against", round(other, 1), "- the shorter answer has lost")
""",
    ),
    Mistake(
        id="D4",
        title="decoding does not stop at the end token",
        does="Goes on writing after the model has said the end token, up to the longest length, or to the next one. Or "
        "compares each word with what texts begin with, bos, which a model says at no end.",
        expected="Stop at the end token.",
        fix="if next_word == eos: break.",
        source=SEARCH,
        changes={
            "": {"decoding": "does not stop"},
            AT_THE_FIRST: {"decoding": "does not stop at the first word"},
            AT_THE_BEGINNING: {"decoding": "stops at bos"},
        },
        fixes={
            AT_THE_FIRST: "Compare the first word with the end, too, before the loop or in it: an answer may be empty.",
            AT_THE_BEGINNING: "Compare with the end, eos: no model is taught to say what texts begin with.",
        },
        demo="""\
words = iter(["ein", "Haus", "<end>", "Haus", "Haus"])
written = []
for word in words:
    written.append(word)
    if word == "<end>":
        break
print("stops:", written)
print("goes on:", written + list(words))
""",
    ),
    Mistake(
        id="D5",
        title="no cache of keys and values",
        severity="note",
        does="Computes all positions again for every new word: n words cost n² / 2 positions instead of n.",
        expected="Right, only slow. Keys and values of earlier words can be kept.",
        fix="Keep K and V of every layer, and compute only the newest position.",
        source="not in the paper",
        explain_only="Results are the same.",
        demo="""\
n = 100
print("positions computed without a cache:", sum(range(1, n + 1)))
print("with a cache:", n)
""",
    ),
    Mistake(
        id="D6",
        title="takes the least probable word",
        does="Chooses the word with the smallest score.",
        expected="The word with the largest score.",
        fix="logits[:, -1].argmax(-1).",
        source=SEARCH,
        changes={"": {"decoding": "least probable"}},
        demo="""\
import torch
scores = torch.tensor([0.1, 0.7, 0.2])
print("largest:", scores.argmax().item(), "smallest:", scores.argmin().item())
""",
    ),
    Mistake(
        id="D7",
        title="labels of the attention map are swapped",
        does="The picture of the cross-attention has the source's words on the rows.",
        expected="Rows are queries (target words), columns are keys (source words).",
        fix="Label the rows with the target's words, the columns with the source's.",
        source="Vaswani et al. 2017, figures 3 to 5",
        explain_only="It is in the picture, not in the model.",
        demo="""\
import torch
target, source = ["a", "house"], ["ein", "Haus", "<end>"]
weights = torch.tensor([[0.9, 0.1, 0.0], [0.1, 0.8, 0.1]])  # (queries, keys)
print("rows are", weights.shape[0], "target words:", target, "and columns", weights.shape[1], "source words:", source)
""",
    ),
    Mistake(
        id="D8",
        title="takes the wrong position's word",
        does="Reads the next word from the first position instead of the last.",
        expected="The last position's scores are those of the next word.",
        fix="logits[:, -1].",
        source=SEARCH,
        changes={"": {"decoding": "first position"}},
        demo="""\
import torch
logits = torch.eye(3)  # (positions, vocabulary)
print("last position:", logits[-1].argmax().item(), "first position:", logits[0].argmax().item())
""",
    ),
    Mistake(
        id="D9",
        title="the wrong part of a text that is longer, or shorter, than the model takes",
        does="Of a text that is longer than the model takes, the first words are given to it, and the last left out: "
        "from there on it reads the same words at every step. Or where the part begins is counted, "
        "idx.size(1) - block_size, which is below 0 for a shorter text, and counts from its end: first words are left "
        "out. Or the colon stands on the wrong side, idx[:, :-block_size], which leaves out the last words.",
        expected="The last words, as many as the model takes.",
        fix="idx[:, -block_size:].",
        source="Radford et al. 2019, section 2.3: a context of 1024 tokens",
        changes={
            "": {"window": "the beginning"},
            FROM_BELOW_ZERO: {"window": "counted from the front"},
            ALL_BUT: {"window": "all but the last"},
        },
        demo="""\
text, block_size = ["the", "cat", "sat", "on", "the", "mat"], 4
print("the last words:", text[-block_size:])
print("the first ones:", text[:block_size], "- whatever has been written since")
""",
    ),
    Mistake(
        id="D10",
        title="puts the next word in front of the text",
        does="Joins the new word and the text the wrong way round: the text grows backwards, and always ends in the "
        "same word, which the model goes on from.",
        expected="The next word comes behind those that are there.",
        fix="torch.cat((idx, next_word), dim=1).",
        source=SEARCH,
        changes={"": {"decoding": "at the front"}},
        demo="""\
import torch
text, word = torch.tensor([[5, 6, 7]]), torch.tensor([[8]])
print("behind:", torch.cat((text, word), dim=1).tolist(), "in front:", torch.cat((word, text), dim=1).tolist())
""",
    ),
    Mistake(
        id="D11",
        title="gives the model the last word alone",
        does="Asks the model for the next word and gives it the last one, without those before it: neither the whole "
        "text nor a cache of keys and values. Its attention sees one word, at position 0, at every step.",
        expected="The whole text; or the new word together with the cache that the call before has returned.",
        fix="logits = model(idx); or logits, cache = model(new_word, cache).",
        source=SEARCH,
        changes={"": {"window": "the last word"}},
        demo="""\
text = ["the", "cat", "sat", "on", "the"]
print("the next word depends on:", text)
print("the last word alone:", text[-1:], "- after which everything may come")
""",
    ),
    Mistake(
        id="D12",
        title="all beams begin alike",
        does="Begins with as many beams as are kept, all of them the first word with the score 0. Each has the same "
        "likeliest word, so that the best of all are copies of one beam: at every step, to the end. It is greedy "
        "search, at the cost of several.",
        expected="The first step has one beam, of which the likeliest words are taken; or all scores but the first "
        "begin at -∞.",
        fix="scores = torch.full((beam_size,), -math.inf); scores[0] = 0.0. In a list: beams = [([bos], 0.0)].",
        source=SEARCH,
        changes={"": {"decoding": "beams begin alike"}},
        demo="""\
import torch
log_p = torch.tensor([0.5, 0.3, 0.2]).log()  # of the next word
for scores in (torch.tensor([0.0, 0.0]), torch.tensor([0.0, -torch.inf])):
    best = (scores[:, None] + log_p).flatten().topk(2).indices
    print("scores", scores.tolist(), "- the words of the two best:", (best % 3).tolist())
""",
    ),
)
