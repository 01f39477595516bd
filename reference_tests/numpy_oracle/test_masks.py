import numpy as np
import pytest

from scratch_transformer.numpy_oracle import causal
from scratch_transformer.numpy_oracle.masks import additive, merge, merge_backward

B, H, T, S = 2, 3, 4, 5
NONE = -np.inf


def test_causal_lets_a_query_attend_to_itself_and_the_past():
    np.testing.assert_array_equal(causal(2, 3), [[True, False, False], [True, True, False]])
    np.testing.assert_array_equal(causal(3, 2), [[True, False], [True, True], [True, True]])


def test_both_conventions_for_booleans_become_additive():
    mask = np.array([True, False])
    np.testing.assert_array_equal(additive(mask, "may attend"), [0.0, NONE])
    np.testing.assert_array_equal(additive(mask, "blocked"), [NONE, 0.0])


def test_a_float_mask_is_additive_already():
    np.testing.assert_array_equal(additive(np.array([1.5, NONE]), "blocked"), [1.5, NONE])


@pytest.mark.parametrize("shape", [(T, S), (B * H, T, S)])
def test_merge_adds_both_masks_for_every_batch_element_and_head(shape):
    rng = np.random.default_rng(0)
    attn_mask, key_padding_mask = rng.normal(size=shape), rng.normal(size=(B, S))
    merged, _ = merge(attn_mask, key_padding_mask, (B, H, T, S))
    for b in range(B):
        for h in range(H):
            expected = (attn_mask if attn_mask.ndim == 2 else attn_mask[b * H + h]) + key_padding_mask[b]
            np.testing.assert_array_equal(np.broadcast_to(merged, (B, H, T, S))[b, h], expected)


def test_merge_without_masks_is_no_mask():
    merged, cache = merge(None, None, (B, H, T, S))
    assert merged is None
    assert merge_backward(None, cache) == (None, None)


def test_boolean_masks_have_no_gradient():
    merged, cache = merge(np.ones((T, S), dtype=bool), np.zeros((B, S)), (B, H, T, S))
    dattn_mask, dkey_padding_mask = merge_backward(np.ones_like(merged), cache)
    assert dattn_mask is None
    np.testing.assert_array_equal(dkey_padding_mask, np.full((B, S), T))


@pytest.mark.parametrize(
    ("attn_mask", "key_padding_mask", "message"),
    [
        ((S, T), None, r"attn_mask has shape \(5, 4\), but must have \(4, 5\) or \(6, 4, 5\)"),
        ((B, T, S), None, r"attn_mask has shape \(2, 4, 5\)"),
        (None, (S, B), r"key_padding_mask has shape \(5, 2\), but must have \(2, 5\)"),
    ],
)
def test_masks_of_another_shape_are_refused(attn_mask, key_padding_mask, message):
    masks = (None if shape is None else np.zeros(shape) for shape in (attn_mask, key_padding_mask))
    with pytest.raises(ValueError, match=message):
        merge(*masks, (B, H, T, S))
