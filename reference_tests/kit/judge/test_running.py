"""Which parts run, however they are called."""

import pytest
import torch
from torch import nn

from scratch_transformer.kit.judge.running import calls_of, running


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.called, self.forwarded, self.idle = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)
        self.idle.forward = self.idle.forward  # of its own

    def forward(self, x):
        return self.forwarded.forward(self.called(x))


def test_parts_run_by_a_call_and_by_their_forward():
    whole = Whole()
    own = whole.idle.forward
    assert running(whole, lambda: whole(torch.ones(1, 2))) == {whole, whole.called, whole.forwarded}
    assert whole.idle.forward is own and "forward" not in vars(whole.called)


def test_what_parts_of_a_class_are_given_however_they_are_called():
    whole, x = Whole(), torch.ones(1, 2)
    calls = calls_of(nn.Linear, whole, lambda: whole(x=x))
    assert [(len(args), options) for args, options in calls] == [(1, {}), (1, {})]
    assert calls[0][0][0] is x and "forward" not in vars(whole.called)
    ((args, options),) = calls_of(Whole, whole, lambda: whole(x=x))
    assert args == () and options["x"] is x


def test_what_stops_leaves_everything_as_it_was():
    whole, fast = Whole(), torch.backends.mha.get_fastpath_enabled()
    with pytest.raises(RuntimeError):
        running(whole, lambda: whole(torch.ones(1, 3)))
    assert "forward" not in vars(whole.called) and torch.backends.mha.get_fastpath_enabled() == fast


@torch.no_grad()
def test_the_parts_of_torch_s_own_layer_run():
    layer = nn.TransformerEncoderLayer(4, 2, 5, batch_first=True).eval()
    assert {layer.norm1, layer.linear1, layer.self_attn} <= running(layer, lambda: layer(torch.ones(1, 3, 4)))
    assert running(None, list) == set()
