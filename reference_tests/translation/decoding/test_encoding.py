"""The merged encoder gives what the model's does."""

import pytest
import torch

from reference_tests.translation.decoding.examples import SRC_PAD, S, every_model, random_model, random_sources
from scratch_transformer import masks
from scratch_transformer.generation import affine
from scratch_transformer.translation.decoding.encoding import MergedEncoder
from scratch_transformer.translation.decoding.modes import deciding


@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
@pytest.mark.parametrize("padding", ["right", "left", "none", "a source of nothing else"])
@every_model
def test_it_is_the_models(options, padding, large, monkeypatch):
    if large:
        monkeypatch.setattr(affine, "CACHED", 0)
    model = random_model(**options)
    sources = random_sources(4, "left" if padding == "left" else "right")
    if padding == "none":
        sources = sources[:1]
    if padding == "a source of nothing else":
        sources[2] = SRC_PAD
    mask = None if padding == "none" else masks.padding(sources, SRC_PAD)
    with deciding(model):
        expected = model.encode(sources, mask)
        found = MergedEncoder(model)(sources, mask)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12 * expected.norm().item())


def test_half_precision_becomes_single():
    model, sources = random_model(torch.bfloat16, spread=0.1), random_sources(2)
    mask = masks.padding(sources, SRC_PAD)
    with deciding(model):
        found, exact = MergedEncoder(model)(sources, mask), model.float().encode(sources, mask)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, exact, rtol=0, atol=0.02 * exact.abs().max().item())


def test_a_source_that_is_too_long_is_refused():
    model = random_model()
    with deciding(model), pytest.raises(ValueError, match=f"longer than seq_len={S}"):
        MergedEncoder(model)(torch.ones(1, S + 1).long(), None)
