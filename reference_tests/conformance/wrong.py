"""Implementations with one mistake each, and some with none, to see whether the comparison tells them apart."""

import dataclasses

import torch

from scratch_transformer import functional, nn
from scratch_transformer.conformance import COMPONENTS


class EpsOutsideTheRoot(nn.LayerNorm):
    def forward(self, input):
        centred = input - input.mean(-1, keepdim=True)
        deviation = centred.square().mean(-1, keepdim=True).sqrt()
        return centred / (deviation + self.eps) * self.weight + self.bias


class UnbiasedVariance(nn.LayerNorm):
    def forward(self, input):
        variance = input.var(-1, keepdim=True)
        return (input - input.mean(-1, keepdim=True)) / (variance + self.eps).sqrt() * self.weight + self.bias


class ForgetsTheBias(nn.Linear):
    def forward(self, input):
        return functional.linear(input, self.weight) + 0 * self.bias.sum()


class DetachesTheBias(nn.Linear):
    """Right outputs, wrong gradients."""

    def forward(self, input):
        return functional.linear(input, self.weight) + self.bias.detach()


class RoundsAfterEveryOperation(nn.LayerNorm):
    """Right in float64, and the definition word for word: what loses digits is to round in between."""

    def forward(self, input):
        centred = input - input.mean(-1, keepdim=True)
        variance = (centred * centred).mean(-1, keepdim=True)
        return centred / torch.sqrt(variance + self.eps) * self.weight + self.bias


class NeverUpdates(nn.BatchNorm1d):
    """Right outputs and gradients in training, and nothing learned for evaluation."""

    def forward(self, input):
        before = {name: buffer.clone() for name, buffer in self.named_buffers()}
        output = super().forward(input)
        self.load_state_dict(before, strict=False)
        return output


class InTheWrongDtype(nn.ReLU):
    def forward(self, input):
        return super().forward(input).double()


class OnlyTheFirst(nn.MultiheadAttention):
    """Never returns weights."""

    def forward(self, *args, **kwargs):
        return super().forward(*args, **kwargs)[0], None


class AcceptsEverything(nn.Linear):
    """Refuses nothing."""

    def forward(self, input):
        return input


def crashing(error):
    """A module that raises `error` when it is constructed."""

    class Crashing(nn.Module):
        def __init__(self, **init):
            raise error

    return Crashing


def without_scale(query, key, value, **options):
    return COMPONENTS["scaled_dot_product_attention"].ours(query, key, value, **{"scale": 1.0, **options})


def rounds_after_every_operation(query, key, value, scale=None):
    """Right in float64."""
    scores = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
    exponentials = (scores - scores.amax(-1, keepdim=True)).exp()
    return exponentials / exponentials.sum(-1, keepdim=True) @ value


def component(name, ours):
    """The component of the table with another implementation in the place of ours."""
    return dataclasses.replace(COMPONENTS[name], ours=ours)


def case(name, description):
    """A case of the table."""
    (found,) = (case for case in COMPONENTS[name].cases if case.description == description)
    return found


def error_case(name, description):
    """An error case of the table."""
    (found,) = (case for case in COMPONENTS[name].errors if case.description == description)
    return found
