"""What cannot come out otherwise is not tried again: what stops always, masks that hide nothing, another shape."""

import collections

import pytest
import torch

from reference_tests.kit.learners.checked import check_text, time_to_look
from scratch_transformer.kit.judge.changes import changes_of
from scratch_transformer.kit.judge.variants import Variants
from scratch_transformer.kit.kind import asked_of
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.recipe import RIGHT
from scratch_transformer.kit.report.finding import FINE
from scratch_transformer.kit.resolve.build import wired
from scratch_transformer.kit.resolve.trials import match, planned


@pytest.fixture
def counted(monkeypatch):
    """Counts the calls of a function of a module by what is made of its arguments."""

    def count(module, name, key):
        calls, function = collections.Counter(), getattr(module, name)

        def counting(*args, **options):
            calls[key(*args)] += 1
            return function(*args, **options)

        monkeypatch.setattr(module, name, counting)
        return calls

    return count


STOPS = """
class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.network = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.first, self.second = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x):
        x = self.first(x + self.attention(x, x, x)[0])
        return self.second(x + self.network(x).transpose(0, 2) @ x)
"""


def test_what_stops_however_it_is_called_is_tried_once_as_each_kind(tmp_path, counted):
    tried = counted(match, "_resolved", lambda thing, kind, library, settings: (kind.name, *library.stand_ins))
    assert [m.id for m in check_text(STOPS, tmp_path)["EncoderLayer"].mistakes] == ["B26"]
    assert tried and set(tried.values()) == {1}


HANDED_ON = """
class SelfAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h = num_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, mask):
        q, k, v = (w(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for w in (self.q, self.k, self.v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]) + 0.0 * mask
        return self.o((scores.cos() @ v).transpose(1, 2).flatten(2))
"""


def test_masks_of_other_forms_that_give_the_same_numbers_are_tried_once(tmp_path, counted):
    """Weights that explain the numbers are looked for with one of them: no other has others."""
    searched = counted(planned, "find_weights", lambda candidate, trial, *_: (candidate.kind.name, trial.until))
    with time_to_look(1):
        assert check_text(HANDED_ON, tmp_path)["SelfAttention"].verdict not in FINE
    assert searched and max(searched.values()) <= 2


@pytest.mark.parametrize("two, tried", [((3, 2), False), ((13, 12), False), ((6, 5), True), ((7, 8), True)])
def test_sequences_of_another_length_are_tried_where_it_stops_for_a_length(two, tried):
    stopped = RuntimeError("The size of tensor a ({}) must match the size of tensor b ({}) at dimension 1".format(*two))
    assert bool(wired.lengths(stopped, {})) == tried


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if asked_of(kind, kind.complete({}), 0)])
def test_no_mistake_changes_more_of_an_outputs_shape_than_its_length(name):
    """So what has another shape than every design is not looked for among them."""
    kind, settings = KINDS[name], KINDS[name].complete({})
    variants, state, probe = Variants(kind, settings), asked_of(kind, settings, 0), kind.probes(settings, 0)[0]
    design = next(iter(kind.designs.values()))
    for change in changes_of(kind):
        output = variants.output(RIGHT.with_({**design, **dict(change.entries)}), "", state, probe)
        assert output is None or variants.may_give(output, [("", design)], "", state, probe), change
    right = variants.output(RIGHT.with_(design), "", state, probe)
    assert not variants.may_give(torch.cat([right, right], -1), [("", design)], "", state, probe)
