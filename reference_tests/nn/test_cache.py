"""The cache of keys and values: what comes back, memory, order, and what is refused."""

import pytest
import torch

from scratch_transformer import nn

B, G, D = 2, 3, 4


def tokens(length, start=0):
    """Keys whose numbers say where they stand, and values that are their negatives."""
    places = torch.arange(start, start + length, dtype=torch.float64).reshape(1, 1, -1, 1)
    keys = places.expand(B, G, -1, D) + torch.arange(B).reshape(-1, 1, 1, 1) * 100
    return keys, -keys


def test_all_tokens_so_far_come_back():
    cache = nn.KeyValueCache(1, capacity=2)
    for before, length in ((0, 1), (1, 3), (4, 1), (5, 9)):
        keys, values = cache.append(0, *tokens(length, before))
        expected = tokens(before + length)
        assert torch.equal(keys, expected[0])
        assert torch.equal(values, expected[1])
        assert cache.length == before + length


def test_layers_are_apart_and_the_last_one_counts():
    cache = nn.KeyValueCache(2)
    cache.append(0, *tokens(3))
    assert cache.length == 0  # within a run, positions go on from what the whole model has seen
    keys, _ = cache.append(1, *tokens(3, start=7))
    assert cache.length == 3
    assert torch.equal(keys, tokens(3, start=7)[0])


def test_memory_is_of_the_shared_heads_and_what_comes_back_is_no_copy():
    cache = nn.KeyValueCache(2, capacity=16)
    for layer in range(2):
        keys, values = cache.append(layer, *tokens(5))
    assert cache.memory == 2 * 2 * B * G * 16 * D * 8  # layers, keys and values, float64
    assert keys.untyped_storage().data_ptr() == values.untyped_storage().data_ptr()
    assert cache.memory == 2 * keys.untyped_storage().nbytes()


def test_it_grows_by_doubling():
    cache, rooms = nn.KeyValueCache(1, capacity=2), []
    for place in range(9):
        cache.append(0, *tokens(1, place))
        rooms.append(cache.memory // (2 * B * G * D * 8))
    assert rooms == [2, 2, 4, 4, 8, 8, 8, 8, 16]


def test_reordering_rows():
    cache = nn.KeyValueCache(1)
    cache.append(0, *tokens(2))
    cache.reorder(torch.tensor([1, 1, 0]))
    more = tokens(1, 2)[0][[1, 1, 0]]
    keys, values = cache.append(0, more, -more)
    assert torch.equal(keys, tokens(3)[0][[1, 1, 0]])
    assert torch.equal(values, -keys)


def test_cropping():
    cache = nn.KeyValueCache(1)
    cache.append(0, *tokens(5))
    cache.crop(2)
    assert cache.length == 2
    keys, _ = cache.append(0, *tokens(1, 9))
    assert keys[0, 0, :, 0].tolist() == [0, 1, 9]
    cache.crop(0)
    assert cache.length == 0


@pytest.mark.parametrize("length", [-1, 6])
def test_cropping_to_what_is_not_there_is_refused(length):
    cache = nn.KeyValueCache(1)
    cache.append(0, *tokens(5))
    with pytest.raises(ValueError, match=f"length must be from 0 to 5, the tokens so far, not {length}"):
        cache.crop(length)


@pytest.mark.parametrize(("num_layers", "capacity"), [(0, 4), (2, 0), (-1, 4)])
def test_a_cache_without_room_is_refused(num_layers, capacity):
    with pytest.raises(ValueError, match=f"must be positive, but are {num_layers} and {capacity}"):
        nn.KeyValueCache(num_layers, capacity)


@pytest.mark.parametrize("layer", [-1, 2])
def test_a_layer_that_is_not_there_is_refused(layer):
    with pytest.raises(IndexError, match=f"layer must be from 0 to 1, but is {layer}"):
        nn.KeyValueCache(2).append(layer, *tokens(1))


def test_keys_that_do_not_go_on_are_refused():
    cache = nn.KeyValueCache(1)
    keys, values = tokens(2)
    with pytest.raises(RuntimeError, match=r"key and value must have the same shape \(B, G, L, D\), but have"):
        cache.append(0, keys, values[..., :2])
    with pytest.raises(RuntimeError, match="must have the same shape"):
        cache.append(0, keys[0], values[0])
    cache.append(0, keys, values)
    for wrong in (keys[:1], keys[:, :1], keys[..., :2], keys.float()):
        with pytest.raises(RuntimeError, match="key must go on with what is stored, torch.float64 on cpu"):
            cache.append(0, wrong, wrong)
    assert cache.length == 2


def test_gradients_are_refused():
    keys, values = tokens(2)
    with pytest.raises(RuntimeError, match="need gradients, which a cache does not keep"):
        nn.KeyValueCache(1).append(0, keys.clone().requires_grad_(), values)
    with torch.no_grad():
        nn.KeyValueCache(1).append(0, keys.clone().requires_grad_(), values)
