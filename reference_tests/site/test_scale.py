"""The table of scale: its numbers from the models themselves."""

import pytest
import torch

from docs.site import scale
from scratch_transformer.by_hand import equations_alone
from scratch_transformer.translation import config


@pytest.mark.parametrize(("preset", "millions"), [("base", 65), ("big", 213)])
def test_the_models_are_the_papers(preset, millions):
    """Vaswani et al. 2017, table 3; its vocabulary is not told to the token."""
    total, layers, layer = scale.sizes(scale.built(config.preset(preset)))
    assert abs(total / 1e6 - millions) < 3
    d_model, d_ff = (512, 2048) if preset == "base" else (1024, 4096)
    feed_forward, norm = 2 * d_model * d_ff + d_model + d_ff, 2 * d_model
    assert layer == 8 * d_model**2 + feed_forward + 3 * norm
    assert layers == 6 * layer + 6 * (4 * d_model**2 + feed_forward + 2 * norm)


def test_what_is_kept_and_sent():
    """Of 100 numbers, 60 in layers of 20."""
    assert scale.alone(100, 60, 20, 1) == (1600, 0)
    assert scale.ddp(100, 60, 20, 4) == (2000, 600)
    assert scale.fsdp(100, 60, 20, 4) == (400 + 4 * (80 + 60), 300 + 0.75 * 4 * 160)


def test_what_is_saved_for_the_backward_pass():
    """In a model so small that it can be added up: with real numbers it is the same. Passes by hand keep less."""
    settings = config.Config().replace(
        **{"model.num_layers": 1, "model.d_model": 8, "model.num_heads": 2, "model.d_ff": 12}
    )
    found = scale.saved_bytes(settings)
    from scratch_transformer.translation import checkpoint
    from scratch_transformer.translation.objective import Objective

    objective = Objective(checkpoint.build_model(settings, 120, 120), 0.1)
    ids, kept = torch.ones(1, scale.WORDS, dtype=torch.int64), {}
    keep = lambda t: kept.update({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes()}) or t  # noqa: E731
    with equations_alone(), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = objective(ids, ids, ids)
    for parameter in objective.parameters():
        kept.pop(parameter.data_ptr(), None)
    assert loss.requires_grad and found == pytest.approx(sum(kept.values()) + 4 * scale.WORDS * 120, rel=0.02)


def test_the_table():
    lines = scale.table().splitlines()
    assert len(lines) == 2 + 2 * (1 + 3 * 2) and all(line.count("|") == 7 for line in lines)
