"""A step with key/value caches gives the logits of the whole prefix."""

from unittest import mock

import pytest
import torch

from reference_tests.translation.decoding.examples import (
    LONGEST,
    SRC_PAD,
    TGT_VOCAB,
    every_model,
    random_model,
    random_sources,
    relative_error,
)
from scratch_transformer.generation import affine
from scratch_transformer.translation.decoding import (
    IncrementalDecoder,
    MergedDecoder,
    PrefixDecoder,
    cached_attention,
    merged,
)
from scratch_transformer.translation.decoding.cached_attention import FIRST_CAPACITY
from scratch_transformer.translation.decoding.modes import deciding


def both(model, sources, K=1):
    return IncrementalDecoder(model, sources, SRC_PAD, K), PrefixDecoder(model, sources, SRC_PAD, K)


def random_ids(count):
    return torch.randint(TGT_VOCAB, (count,))


@every_model
def test_every_step_has_the_logits_of_the_whole_prefix(options):
    model, sources = random_model(**options), random_sources()
    with deciding(model):
        cached, whole = both(model, sources)
        for _ in range(10):
            ids = random_ids(len(sources))
            assert relative_error(cached.step(ids), whole.step(ids)) <= 1e-12


@every_model
@pytest.mark.parametrize("small", [0, cached_attention.SMALL], ids=["apart", "merged"])
@pytest.mark.parametrize("K", [1, 3])
def test_a_single_source_has_the_logits_of_the_whole_prefix(options, small, K):
    model, sources = random_model(**options), random_sources(1)
    with deciding(model), mock.patch.object(cached_attention, "SMALL", small):
        cached, whole = both(model, sources, K)
        kinds = {type(layer.cross_attention) for layer in cached.layers}
        for t in range(6):
            ids = random_ids(K)
            assert relative_error(cached.step(ids), whole.step(ids)) <= 1e-12
            if t == 2:
                order = torch.arange(K).flip(0)
                cached.reorder(order), whole.reorder(order)
        cached.keep(torch.tensor([0])), whole.keep(torch.tensor([0]))
        assert relative_error(cached.step(ids), whole.step(ids)) <= 1e-12
    assert kinds == {cached_attention.CrossAttentionToOne if small else cached_attention.CrossAttention}


@pytest.mark.parametrize("padding", ["right", "left"])
def test_a_single_source_with_padding_has_the_logits_of_the_whole_prefix(padding):
    model, sources = random_model(), random_sources(2, padding)[1:]
    with deciding(model):
        cached, whole = both(model, sources)
        for _ in range(3):
            ids = random_ids(1)
            assert relative_error(cached.step(ids), whole.step(ids)) <= 1e-12


@pytest.mark.parametrize("rows", [1, 2])
def test_matrices_as_they_are_in_one_piece_and_in_a_piece_for_each_thread_are_the_same(rows):
    model, sources = random_model(), random_sources(rows)
    ids, found = random_ids(rows), []
    with deciding(model):
        for fewest, cached in ((0, affine.CACHED), (affine.FEWEST, affine.CACHED), (affine.FEWEST, 0)):
            threads = mock.patch.object(torch, "get_num_threads", return_value=4)
            with mock.patch.multiple(affine, FEWEST=fewest, CACHED=cached), threads:
                found.append(IncrementalDecoder(model, sources, SRC_PAD).step(ids))
    assert max(relative_error(each, found[0]) for each in found) <= 1e-14


@every_model
def test_weights_in_eight_bits_are_a_little_off(options):
    """Each is off by half of 1/127 of the largest of its row at most; what is multiplied is in bfloat16."""
    model, sources = random_model(torch.float32, spread=0.1, d_model=96, d_ff=64, **options), random_sources(3)
    with deciding(model):
        rounded = IncrementalDecoder(model, sources, SRC_PAD, merged=MergedDecoder(model, eight_bits=True))
        _, whole = both(model, sources)
        for _ in range(5):
            ids = random_ids(3)
            assert 1e-6 < relative_error(rounded.step(ids), whole.step(ids)) < 0.03


def test_matrices_of_other_sizes_stay_as_they_are():
    model, sources = random_model(), random_sources(2)
    with deciding(model):
        kept, (_, whole) = MergedDecoder(model, eight_bits=True), both(model, sources)
        ids = random_ids(2)
        cached = IncrementalDecoder(model, sources, SRC_PAD, merged=kept)
        assert relative_error(cached.step(ids), whole.step(ids)) <= 1e-12


@pytest.mark.parametrize(("out", "in_", "fits"), [(40, 64, True), (8, 32, True), (12, 64, False), (40, 48, False)])
def test_which_sizes_are_rounded(out, in_, fits):
    exact = affine.Affine(torch.randn(out, in_), torch.randn(out))
    assert isinstance(merged.rounded(exact), merged.Rounded if fits else affine.Affine)


def test_an_affine_map_in_eight_bits():
    exact = affine.Affine(torch.randn(40, 64) * torch.logspace(-3, 3, 40).unsqueeze(1), torch.randn(40))
    exact.weight[7] = 0
    y = torch.randn(3, 64).bfloat16().float()
    error = (merged.Rounded(exact)(y) - exact(y)).abs()
    largest = exact.weight.abs().amax(1)
    assert (error <= largest / 254 * 1.01 * y.abs().sum(1, keepdim=True) + exact(y).abs() / 128).all()
    assert error[:, 7].max() <= 1e-6


def test_weights_that_were_merged_once_are_used_again():
    """What one decoder keeps is not the other's."""
    model, sources = random_model(), random_sources(2)
    with deciding(model):
        kept = MergedDecoder(model)
        for _ in range(2):
            cached, (_, whole) = IncrementalDecoder(model, sources, SRC_PAD, 1, kept), both(model, sources)
            assert cached.layers[0].linear_1 is kept.layers[0].linear_1.turned
            for _ in range(3):
                ids = random_ids(2)
                assert relative_error(cached.step(ids), whole.step(ids)) <= 1e-12


@pytest.mark.parametrize("padding", ["right", "left"])
def test_several_prefixes_of_each_source_reordered_and_left_out(padding):
    model, sources = random_model(), random_sources(4, padding)
    with deciding(model):
        cached, whole = both(model, sources, K=3)
        rows = 12
        for t in range(9):
            ids = random_ids(rows)
            assert relative_error(cached.step(ids), whole.step(ids)) <= 1e-12
            if t in (2, 6):  # within their source: two prefixes change places, one takes another's
                order = torch.arange(rows)
                order[:3] = torch.tensor([1, 0, 0])
                cached.reorder(order), whole.reorder(order)
            if t == 4:
                going = torch.tensor([3, 1])
                cached.keep(going), whole.keep(going)
                rows = 6


def test_the_cache_grows():
    model, sources = random_model(), random_sources(2)
    assert LONGEST > FIRST_CAPACITY + 3
    with deciding(model):
        cached, whole = both(model, sources)
        for _ in range(FIRST_CAPACITY + 3):
            ids = random_ids(2)
            actual, expected = cached.step(ids), whole.step(ids)
    assert relative_error(actual, expected) <= 1e-12


def test_a_source_of_padding_alone_is_attended_to_as_zeros():
    model, sources = random_model(), random_sources(3)
    sources[1] = SRC_PAD
    with deciding(model):
        cached, whole = both(model, sources)
        ids = random_ids(3)
        assert relative_error(cached.step(ids), whole.step(ids)) <= 1e-12


def test_a_longer_prefix_than_the_model_has_positions_for_is_refused():
    model = random_model()
    with deciding(model):
        cached = IncrementalDecoder(model, random_sources(1), SRC_PAD)
        for _ in range(LONGEST):
            cached.step(random_ids(1))
        with pytest.raises(ValueError, match=f"a prefix of {LONGEST + 1} tokens is longer than seq_len={LONGEST}"):
            cached.step(random_ids(1))


def test_a_model_in_half_precision_is_stepped_in_float32():
    model, sources = random_model(torch.bfloat16, dropout=0.0), random_sources()
    with deciding(model):
        half = IncrementalDecoder(model, sources, SRC_PAD)
        ids = random_ids(len(sources))
        actual, (cached, exact) = half.step(ids), both(model.float(), sources)
        expected = exact.step(ids)
        assert actual.dtype == torch.float32
        assert relative_error(cached.step(ids), expected) <= 1e-5
        assert relative_error(actual, expected) <= 0.1  # the encoder computed in bfloat16


def test_the_model_is_left_as_it_was():
    model, sources = random_model(), random_sources()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.train()
    model.encoder.eval()  # frozen, say
    with deciding(model):
        cached = IncrementalDecoder(model, sources, SRC_PAD)
        assert not cached.step(random_ids(len(sources))).requires_grad
        assert not any(module.training for module in model.modules())
    assert model.training and model.decoder.layers[1].training and not model.encoder.layers[1].training
    assert torch.is_grad_enabled()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
