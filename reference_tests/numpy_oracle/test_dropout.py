import numpy as np
import pytest
import torch

from reference_tests.numpy_oracle.against_torch import compare, normal
from scratch_transformer.numpy_oracle import dropout, dropout_backward
from scratch_transformer.numpy_oracle.dropout import keep_mask, masks_within


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_dropout_equals_torchs_with_the_elements_that_torch_drops(p):
    seed = torch.random.get_rng_state()
    keep = torch.nn.functional.dropout(torch.ones(3, 4, dtype=torch.float64), p) != 0
    torch.random.set_rng_state(seed)
    x, dy = torch.ones(3, 4, dtype=torch.float64).requires_grad_(), np.random.default_rng(0).normal(size=(3, 4))
    y = torch.nn.functional.dropout(x, p)
    y.backward(torch.from_numpy(dy))
    found, cache = dropout(x.detach().numpy(), p, keep.numpy())
    np.testing.assert_allclose(found, y.detach(), rtol=1e-15)
    np.testing.assert_allclose(dropout_backward(dy, cache), x.grad, rtol=1e-15)


def test_eval_mode_is_the_identity():
    compare("Dropout", {"p": 0.4}, torch.nn.Dropout(0.4).eval(), [normal(3, 4)])


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="p must be between 0 and 1, but is 1.001"):
        dropout(np.ones(3), 1.001)
    with pytest.raises(ValueError, match=r"keep has shape \(1,\), but must have x's shape \(3,\)"):
        dropout(np.ones(3), 0.5, np.ones(1))


def test_in_train_mode_every_dropout_needs_its_mask():
    masks = {"a.dropout": np.ones(2)}
    assert keep_mask(None, "dropout", 0.5) is None  # eval mode
    assert keep_mask({}, "dropout", 0.0) is None  # nothing to drop
    assert keep_mask(masks_within(masks, "a"), "dropout", 0.5) is masks["a.dropout"]
    assert masks_within(None, "a") is None
    with pytest.raises(KeyError, match=r"no mask for dropout 'dropout' \(p=0.5\); given are \['a.dropout'\]"):
        keep_mask(masks, "dropout", 0.5)
