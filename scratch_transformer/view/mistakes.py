"""The catalogue's mistakes that can be seen in a translation, with its own names and texts."""

from __future__ import annotations

from typing import Any

from scratch_transformer.kit.kinds.attention import OF_ANOTHER
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.attention import ATTENTION, SPLIT_ALONE
from scratch_transformer.kit.mistakes.blocks import BLOCKS
from scratch_transformer.kit.mistakes.decoding import AT_THE_BEGINNING, AT_THE_FIRST, DECODING
from scratch_transformer.kit.mistakes.embedding import EMBEDDING
from scratch_transformer.kit.mistakes.normalization import AT_LEAST, NORMALIZATION, TIMES_EPS
from scratch_transformer.translation.config import Model

CHAPTERS = {
    "Attention": ATTENTION,
    "Layers and residual connections": BLOCKS,
    "Normalization": NORMALIZATION,
    "Embeddings and positions": EMBEDDING,
    "Decoding": DECODING,
}

UNKNOWN = "the page does not know it yet"
NOT_HERE = {
    "A11": "every query has a key to attend to",
    "A29": UNKNOWN,
    "A37": UNKNOWN,
    "A38": UNKNOWN,
    "B23": UNKNOWN,
    "B25": UNKNOWN,
    "B28": UNKNOWN,
    "B30": UNKNOWN,
    "B31": UNKNOWN,
    "E6": UNKNOWN,
    "P12": UNKNOWN,
    "P13": UNKNOWN,
    "A26": "no score is large enough to overflow",
    "D1": "the page decodes greedily, without a beam",
    "D2": "the page decodes greedily, without a beam",
    "D12": "the page decodes greedily, without a beam",
    "D3": "the page decodes greedily, without a beam",
    "D9": "no sentence is longer than the model takes",
    "D10": UNKNOWN,
    "D11": UNKNOWN,
    "LN6": UNKNOWN,
    "LN14": UNKNOWN,
    "LN11": "the model has no RMSNorm",
    "LN12": UNKNOWN,
    "P8": "sentences are shorter than 256 tokens, and the page does not count in integers",
}
"""Changes of the forward pass that mean nothing here, and why; mistakes without any change of the numbers besides."""

NO_FORMS = {
    ("A1", "divided by the root of the number of samples"): "the page shows one sample",
    ("P4", "as many rows as there are samples: the first, for a sentence alone"): "the page shows one sample",
    ("P4", "one row for all tokens, that of their number: a colon is missing"): UNKNOWN,
    ("P14", "the angles themselves"): UNKNOWN,
    ("P14", "the position's number in every feature"): UNKNOWN,
    ("P3", "features are counted from 1"): UNKNOWN,
    ("LN7", "over the batch and the features"): "the page shows one sample",
    ("LN7", "over the batch and the tokens"): "the page shows one sample",
    ("A4", "filled with 1e9"): UNKNOWN,
    ("A4", "filled with -1e-9"): UNKNOWN,
    ("A4", "filled with +inf"): UNKNOWN,
    ("A7", "queries instead of keys, in the target"): "the page does it on both sides",
    ("A7", "queries instead of keys, in the source"): "the page does it on both sides",
    **{("A13", form): UNKNOWN for form in SPLIT_ALONE},
    ("A13", "heads stay behind the tokens: those of one token attend to each other, and tokens never do"): UNKNOWN,
    ("A13", "one head of all features"): UNKNOWN,
    ("A13", "one head of all features, merged as if there were several"): UNKNOWN,
    ("A13", "one head of all features, with √d_k of several"): UNKNOWN,
    **{(id, form): UNKNOWN for id, _, form in (name.partition(":") for name in OF_ANOTHER)},
    ("A21", "the scores are products of queries and values"): UNKNOWN,
    ("A21", "the weights are multiplied with the keys"): UNKNOWN,
    ("A21", "keys and values are swapped after they were projected"): UNKNOWN,
    ("A23", "features before tokens"): UNKNOWN,
    ("B13", "f(x), without a norm either"): UNKNOWN,
    ("E2", "plus √d_model"): UNKNOWN,
    ("B15", "a sublayer's own, before it and after its sum: norm(x + f(norm(x)))"): UNKNOWN,
    ("B15", "the first sublayer's for the second too"): UNKNOWN,
    ("B15", "the second sublayer's for the third too"): UNKNOWN,
    ("B15", "the first sublayer's for the third too"): UNKNOWN,
    ("B19", "and none of their outputs is used"): UNKNOWN,
    ("B3", "as in OLMo 2, with RMSNorm: a design"): "the model has no RMSNorm",
    ("A21", "query and key are swapped"): "cross-attention's masks do not fit",
    ("A21", "values come from the decoder"): "cross-attention's masks do not fit",
    ("A27", "it stops where their lengths differ"): "it computes nothing",
    ("A27", "the encoder is given a causal mask too, and no word of the source sees a later one"): UNKNOWN,
    ("B17", "before the first map instead"): UNKNOWN,
    ("LN10", "the mean of |x - μ|"): UNKNOWN,
    ("LN10", TIMES_EPS): UNKNOWN,
    **dict.fromkeys((("D4", AT_THE_FIRST), ("D4", AT_THE_BEGINNING)), UNKNOWN),
    ("LN3", "1e-5"): "that is the right one here",
    ("LN3", f"{AT_LEAST}, and ε is added to that"): "every token's features vary more",
    ("LN3", f"{AT_LEAST}, and none is added"): "every token's features vary more",
    ("LN7", "over the batch"): "the batch is one sentence",
    ("LN7", "over all dimensions at once"): UNKNOWN,
    ("B8", "ReLU in place of GELU"): "the model has ReLU",
    ("B8", "tanh in place of erf"): "the model has ReLU",
    ("B8", "sigmoid in place of erf"): "the model has ReLU",
    ("B8", "0.44715 in place of 0.044715"): "the model has ReLU",
}


def offered(model: Model) -> list[dict[str, Any]]:
    """Every mistake with a meaning for a trained model, in the catalogue's order: texts, and its forms as changes."""
    entries = []
    for chapter, mistakes in CHAPTERS.items():
        for mistake in mistakes:
            forms = forms_of(mistake.id, model)
            if not forms:
                continue
            texts = {name: getattr(mistake, name) for name in ("id", "title", "severity", "does", "expected", "fix")}
            entries.append({**texts, "mathematics": mistake.mathematics, "chapter": chapter, "forms": forms})
    return entries


def forms_of(id: str, model: Model) -> dict[str, dict[str, Any]]:
    """The forms of a mistake, each with its changes of the recipe, that mean something for this model."""
    if id in NOT_HERE:
        return {}
    changes = MISTAKES[id].changes
    return {name: dict(change) for name, change in changes.items() if _differs(id, name, change, model)}


def _differs(id: str, form: str, change: Any, model: Model) -> bool:
    """Whether a form is another computation than this model's."""
    if (id, form) in NO_FORMS:
        return False
    right = {"norm_order": model.norm, "final_norm": model.norm == "pre"}
    if change.keys() <= right.keys() and all(right[name] == value for name, value in change.items()):
        return False
    if change.keys() == {"norm_order", "final_norm"} and change["norm_order"] != model.norm:
        return False
    if not model.attention_bias and "unused_biases" in change:
        return False
    return not (model.positions == "learned" and change.keys() & {"angles", "layout", "first_position"})
