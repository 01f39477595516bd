"""Derivatives, first and second, against finite differences, which know no autograd at all."""

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.func import functional_call
from torch.utils._pytree import tree_leaves

from reference_tests.nn.examples import CASES, QUIET, draw, make, over, takes
from scratch_transformer.attention import scaled_dot_product_attention
from scratch_transformer.conformance import Draw

pytestmark = QUIET

# A table that changes under the differences (max_norm), and a scaled gradient that is not the derivative
EXCEPTIONS = ("max_norm", "scale_grad_by_freq", "padding_idx")


def is_checkable(case):
    """Finite differences need finite inputs, at least one, and none where ReLU has its kink."""
    args, _ = draw(case)
    floats = [x for x in args if x.is_floating_point()]
    return not takes(case, *EXCEPTIONS) and all(x.numel() and x.isfinite().all() and (x != 0).all() for x in floats)


STACKS = ("TransformerEncoder", "TransformerDecoder", "Transformer")  # thousands of parameters, of layers checked here
LAYERS = ("TransformerEncoderLayer", "TransformerDecoderLayer")
CHECKABLE = [
    (component, case)
    for component, case in CASES
    if component.name not in STACKS and is_checkable(case) and (component.name not in LAYERS or case.training)
]


def as_function(module, case):
    """The module's results as a function of its positional floating-point inputs and its parameters; and these."""
    args, kwargs = draw(case)
    names = [name for name, _ in module.named_parameters()]
    inputs = [x for x in args if x.is_floating_point()]
    values = [x.detach().clone().requires_grad_() for x in (*inputs, *module.parameters())]

    def function(*values):
        given = iter(values)
        args_given = [next(given) if x.is_floating_point() else x for x in args]
        torch.manual_seed(0)  # dropout drops the same every time
        result = functional_call(module, dict(zip(names, given, strict=True)), tuple(args_given), kwargs)
        return tuple(x for x in tree_leaves(result) if isinstance(x, Tensor))

    return function, values


@over(CHECKABLE)
def test_gradcheck_and_gradgradcheck(component, case):
    ours, builtin = make(component, case)
    function, values = as_function(ours, case)
    if not all(x.isfinite().all() for x in function(*values)):
        expected, values = as_function(builtin, case)
        assert not all(x.isfinite().all() for x in expected(*values))  # torch's mean over nothing is NaN too
        return
    assert gradcheck(function, values, fast_mode=True)
    assert gradgradcheck(function, values, fast_mode=True, atol=1e-4)


@pytest.mark.parametrize(
    "options", [{}, {"is_causal": True}, {"scale": 0.7}, {"enable_gqa": True}, {"dropout_p": 0.3}], ids=str
)
@pytest.mark.parametrize("has_mask", [False, True])
@pytest.mark.long
def test_attention_with_rows_that_see_nothing(options, has_mask):
    """Where everything is masked the result is constant zero, and so are its derivatives, also numerically."""
    draw = Draw(0)
    heads = 1 if "enable_gqa" in options else 2
    inputs = [
        x.requires_grad_() for x in (draw.normal(1, 2, 3, 4), draw.normal(1, heads, 5, 4), draw.normal(1, heads, 5, 2))
    ]
    mask = None
    if has_mask:
        mask = ~draw.some(3, 5, share=0.4)
        mask[1] = False

    def attention(*inputs):
        torch.manual_seed(0)
        return scaled_dot_product_attention(*inputs, mask, **options)

    assert gradcheck(attention, inputs)
    assert gradgradcheck(attention, inputs)
