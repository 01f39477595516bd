"""What the two libraries bring along themselves: positions and the schedule, which torch has not."""

import pytest
import torch

from scratch_transformer.conformance.training import BUILTIN, FULL, OURS
from scratch_transformer.conformance.training.reversal import PAD, VOCABULARY, batch


@pytest.fixture(params=[OURS, BUILTIN], ids=lambda library: library.name)
def library(request):
    return request.param


def rates(library):
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = library.optimizer([parameter], betas=FULL.betas, eps=FULL.eps)
    schedule = library.schedule(optimizer, FULL)
    for _ in range(3 * FULL.warmup_steps):
        yield optimizer.param_groups[0]["lr"]
        parameter.grad = torch.ones(1)
        optimizer.step()
        schedule.step()


def test_both_schedules_have_the_same_rates_to_the_last_bit():
    assert list(rates(OURS)) == list(rates(BUILTIN))


def test_the_rate_rises_to_its_peak_and_falls(library):
    found = list(rates(library))
    assert found.index(max(found)) == FULL.warmup_steps - 1
    assert max(found) == pytest.approx(4.5644e-3, rel=1e-4)
    assert found[0] == pytest.approx(max(found) / FULL.warmup_steps)
    assert found[4 * 20 - 1] == pytest.approx(max(found) / 2**0.5)


def test_both_have_the_same_positions():
    ours, builtin = (library.model(FULL).positions(9, 14) for library in (OURS, BUILTIN))
    assert ours.dtype == builtin.dtype == torch.float64
    torch.testing.assert_close(ours, builtin, rtol=0, atol=1e-14)


def test_what_is_trained_is_the_libraries_own(library):
    package = {"torch": "torch.nn.modules.", "scratch_transformer": "scratch_transformer.nn."}[library.name]
    modules = list(library.model(FULL).modules())[1:]
    own = [m for m in modules if type(m).__name__ not in ("ModuleList", "NonDynamicallyQuantizableLinear")]
    assert len(own) > 50
    assert all(type(module).__module__.startswith(package) for module in own)
    assert {parameter.dtype for parameter in library.model(FULL).parameters()} == {torch.float64}


def test_logits_for_every_token_of_the_vocabulary_whatever_the_padding(library):
    model = library.model(FULL).eval()
    src, tgt = batch([(1, 2, 3), (4, 5)])
    alone = model(*batch([(4, 5)]))
    together = model(src, tgt)
    assert together.shape == (*tgt.shape, VOCABULARY)
    torch.testing.assert_close(together[1:, tgt[1] != PAD], alone, rtol=0, atol=1e-12)
