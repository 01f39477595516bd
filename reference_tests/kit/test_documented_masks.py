"""A mask that means the opposite of what its documentation says (A32); where it says nothing, nothing is wrong."""

import inspect

import pytest

from scratch_transformer.kit import check
from scratch_transformer.kit.resolve.call.documented import meaning

SAID = {
    "mask: True = may attend, to be broadcast to (B, h, T, S)": "may attend",
    "mask (torch.Tensor): 1 means attend, 0 means ignore": "may attend",
    "- mask: ones for positions to attend to": "may attend",
    "mask: the padding mask.\n        True: keep": "may attend",
    "mask: (batch, keys), True for tokens and False for padding.": "may attend",
    "mask: True for tokens that are padding": "",
    "mask: 1 for padding, 0 for words": "blocked",
    "`mask`: True = blocked": "blocked",
    "mask: a bool tensor where True is masked out": "blocked",
    "mask: (B, 1, 1, S), 1 for ignored": "blocked",
    "mask: the mask": "",
    "mask: True is masked; False: may attend": "blocked",
    "mask: True = may attend; for the decoder True = blocked": "",
    "mask: lower triangular, ones below the diagonal": "",
    "mask: 1 for not masked, 0 for masked": "",
    "other: True = may attend": "",
    "True = may attend, says nobody of which": "",
}


@pytest.mark.parametrize("text", SAID)
def test_what_documentation_says_of_a_mask(text):
    def function(mask):
        pass

    function.__doc__ = f"Attention.\n\nArgs:\n    {text}\n\nReturns True = blocked."
    assert meaning(function, "mask") == SAID[text], inspect.getdoc(function)


CODE = '''
import math, torch

def attention(query, key, value, mask=None):
    """What every query takes from the values.

    mask: {said}
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores.masked_fill({blocked}, float("-inf"))
    return scores.softmax(-1) @ value
'''


@pytest.mark.parametrize(
    "said, blocked, ids",
    [
        ("True = may attend", "mask", ("A32",)),
        ("True = may attend", "~mask", ()),
        ("1 = blocked", "mask == 0", ("A32",)),
        ("True = blocked", "mask", ()),
        ("optional", "mask", ()),
    ],
)
def test_code_that_does_the_opposite_is_a_mistake(said, blocked, ids):
    names = {}
    exec(CODE.format(said=said, blocked=blocked), names)
    result = check(names["attention"])
    assert tuple(id for id in result.ids if id != "A11") == ids
    assert (result.verdict == "mistake") == bool(ids)
