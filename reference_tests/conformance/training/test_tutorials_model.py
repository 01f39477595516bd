"""The tutorials' model and the same one around `torch.nn.Transformer`, trained side by side, with dropout."""

import dataclasses

import pytest
import torch
from torch.nn import Module

from reference_tests.model_pair import OURS_TO_TORCH, SRC_PAD, TGT_PAD, TorchModel, our_masks, small_model
from reference_tests.test_model import ContiguousDropout
from scratch_transformer.conformance.training import BUILTIN, FULL, OURS, train
from scratch_transformer.conformance.training.reversal import PAD
from scratch_transformer.conversion import to_torch

SHORT = dataclasses.replace(FULL, steps=25, batch_size=16, held_out=10, warmup_steps=10, d_model=12, dropout=0.3)


class Tutorials(Module):
    def __init__(self, settings, norm):
        super().__init__()
        torch.set_default_dtype(torch.float64)  # train() puts it back
        self.model = small_model(settings.dropout, norm=norm)

    def forward(self, src, tgt):
        src, tgt = with_their_padding(src, tgt)
        return self.model(src, tgt, *our_masks(src, tgt))

    def state(self):
        state = self.model.state_dict()
        outside = {theirs: state[name] for name, theirs in OURS_TO_TORCH.items()}
        return outside | {f"transformer.{name}": values for name, values in to_torch(state).items()}


class Torchs(Module):
    def __init__(self, settings, norm):
        super().__init__()
        ours = Tutorials(settings, norm).model
        with torch.random.fork_rng():  # what torch draws for its own initial parameters is not used
            self.model = TorchModel(ours, norm == "pre", settings.dropout)
        for layer in [*self.model.transformer.encoder.layers, *self.model.transformer.decoder.layers]:
            for name in ("dropout1", "dropout2", "dropout3")[: 3 if hasattr(layer, "dropout3") else 2]:
                setattr(layer, name, ContiguousDropout(settings.dropout))

    def forward(self, src, tgt):
        return self.model(*with_their_padding(src, tgt))

    def state(self):
        return self.model.state_dict()


def with_their_padding(src, tgt):
    """Each side has another id for padding; in the target, the two ids change places."""
    is_padding, is_theirs = tgt == PAD, tgt == TGT_PAD
    return src.where(src != PAD, SRC_PAD), tgt.where(~is_padding, TGT_PAD).where(~is_theirs, PAD)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_tutorials_model_trains_as_torchs(norm):
    ours = dataclasses.replace(OURS, model=lambda s: Tutorials(s, norm), state=Tutorials.state)
    builtin = dataclasses.replace(BUILTIN, model=lambda s: Torchs(s, norm), state=Torchs.state)
    parity = train(SHORT, ours, builtin)
    assert parity.same_start
    assert max(parity.differences) <= 1e-12
    assert parity.parameter_error <= 1e-11
    assert parity.agrees
    assert parity.ours.losses[-1] < 0.9 * parity.ours.losses[0]
