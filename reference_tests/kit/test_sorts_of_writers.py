"""What is said of functions that are given a model, and of optimizers, where no known part is like them."""

import torch

from scratch_transformer.kit.resolve import sorts


def generate_batch(model, prompts, n):
    return [model(prompt)[:n] for prompt in prompts]


def get_batch(data, n):
    return data[:n]


class Slide(torch.optim.Optimizer):
    def __init__(self, params, lr=0.1):
        super().__init__(params, {"lr": lr})

    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.data -= group["lr"] * p.grad


def test_what_is_given_a_model_fetches_no_data():
    assert sorts.sort_of("get_batch", get_batch) == sorts.DATA
    assert sorts.sort_of("generate_batch", generate_batch) == sorts.UNKNOWN


def test_an_optimizer_is_called_one():
    assert sorts.sort_of("Slide", Slide) == sorts.OTHER_OPTIMIZER
