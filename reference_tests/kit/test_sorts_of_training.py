"""What only a method uses that trains, which is read and not run, is not said to be judged in its class."""

import pytest
from torch import nn

from scratch_transformer.kit.resolve.sorts import A_PART, sort_of


def weighed(logits, weight):
    return logits * weight


class Trained(nn.Module):
    def forward(self, x):
        return x

    def train_epoch(self, batches, optimizer):
        for x in batches:
            optimizer.zero_grad()
            weighed(self(x), 2).sum().backward()


class Used(Trained):
    def forward(self, x):
        return weighed(x, 2)


@pytest.mark.parametrize("whole, is_part", [(Trained, False), (Used, True)])
def test_only_what_is_run_judges_its_pieces(whole, is_part):
    assert (sort_of("weighed", weighed, [whole]) == A_PART.format(whole.__name__)) == is_part
