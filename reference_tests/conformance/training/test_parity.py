"""Ours and torch's, trained side by side: the same, and what is not the same is found out."""

import dataclasses
import functools
import math
import types

import pytest
import torch

from reference_tests.conformance.training import made_up
from scratch_transformer import functional, nn
from scratch_transformer.conformance.training import BUILTIN, FULL, LIMIT, OURS, train
from scratch_transformer.conformance.training.library import Translator

SHORT = dataclasses.replace(FULL, steps=30, batch_size=16, held_out=20, warmup_steps=10)
FEW = dataclasses.replace(SHORT, steps=4)


@pytest.fixture(scope="module")
def short():
    return train(SHORT)


# ---- The same ----


def test_the_same_start_the_same_losses_the_same_end(short):
    assert short.same_start
    assert len(short.differences) == SHORT.steps
    assert max(short.differences) <= 1e-13 < LIMIT
    assert short.parameter_error <= 1e-12
    assert short.agrees
    assert short.ours.accuracy == short.builtin.accuracy


def test_it_learns_but_not_in_so_few_steps(short):
    assert short.ours.losses[-1] < 0.8 * short.ours.losses[0]
    assert not short.passed


def test_the_biases_of_the_keys_move_by_rounding_errors_alone(short):
    assert 0 < short.ours.key_bias < 1e-8
    assert 0 < short.builtin.key_bias < 1e-8


@pytest.mark.parametrize(
    "change", [{"seed": 1}, {"dropout": 0.3}, {"num_layers": 1}, {"label_smoothing": 0.0}], ids=str
)
def test_other_settings_too(change, short):
    other = train(dataclasses.replace(FEW, **change))
    assert other.agrees
    assert other.ours.losses != short.ours.losses[: FEW.steps]


def test_a_run_can_be_repeated_and_neither_side_disturbs_the_other():
    first, again, swapped = train(FEW), train(FEW), train(FEW, BUILTIN, OURS)
    assert first.ours.losses == again.ours.losses == swapped.builtin.losses
    assert first.builtin.losses == again.builtin.losses == swapped.ours.losses


def test_torch_against_itself_is_equal_to_the_last_bit():
    parity = train(FEW, BUILTIN, BUILTIN)
    assert set(parity.differences) == {0.0}
    assert parity.parameter_error == 0


def test_random_numbers_and_switches_of_the_caller_stay():
    torch.backends.mha.set_fastpath_enabled(True)
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    train(dataclasses.replace(FEW, steps=1))
    assert torch.backends.mha.get_fastpath_enabled()
    assert torch.equal(torch.rand(3), expected)


def test_progress_is_told_after_every_step():
    told = []
    train(FEW, progress=told.append)
    assert told == [1, 2, 3, 4]


# ---- Not the same ----


def with_mistake(**classes):
    """Ours, but for some classes of `nn`."""
    library = types.SimpleNamespace(**{**vars(nn), **classes})
    return dataclasses.replace(OURS, model=functools.partial(Translator, library, functional.sinusoidal_positions))


def with_positions(positions):
    return dataclasses.replace(OURS, model=functools.partial(Translator, nn, positions))


def without(**options):
    """Adam or the loss, without being told these options."""
    part, name = next(iter(options.items()))
    whole = getattr(OURS, part)
    return dataclasses.replace(
        OURS, **{part: lambda *args, **kwargs: whole(*args, **{k: v for k, v in kwargs.items() if k != name})}
    )


class Constant:
    """The peak of the schedule, without warm-up."""

    def __init__(self, optimizer, settings):
        peak = settings.lr_factor * (settings.d_model * settings.warmup_steps) ** -0.5
        optimizer.param_groups[0]["lr"] = peak

    def step(self):
        pass


class OneStepAhead:
    def __init__(self, optimizer, settings):
        self.schedule = OURS.schedule(optimizer, settings)
        self.schedule.step()

    def step(self):
        self.schedule.step()


class WithoutInnerDropout(nn.Transformer):
    def __init__(self, d_model, nhead, layers, layers_, d_ff, dropout, **options):
        super().__init__(d_model, nhead, layers, layers_, d_ff, 0.0, **options)


class WithoutPaddingMask(nn.Transformer):
    def forward(self, src, tgt, *, src_key_padding_mask, memory_key_padding_mask, **masks):
        return super().forward(src, tgt, **masks)


class SeesTheFuture(nn.Transformer):
    def forward(self, src, tgt, *, tgt_mask, **masks):
        return super().forward(src, tgt, **masks)


class DrawnAnew(nn.Linear):
    def reset_parameters(self):
        super().reset_parameters()
        super().reset_parameters()


class SmallerLoss(nn.CrossEntropyLoss):
    """By a billionth and a half: nothing that a curve would show."""

    def forward(self, input, target):
        return super().forward(input, target) * (1 - 1.5e-9)


MISTAKES = {
    "β₂ = 0.999": (without(optimizer="betas"), 3),  # at the first step Adam's direction is the gradient's sign anyway
    "ε = 1e-8": (without(optimizer="eps"), 2),
    "no warm-up": (dataclasses.replace(OURS, schedule=Constant), 2),
    "warm-up from the second step": (dataclasses.replace(OURS, schedule=OneStepAhead), 2),
    "no label smoothing": (without(loss="label_smoothing"), 1),
    "padding counts in the loss": (without(loss="ignore_index"), 1),
    "a loss a billionth too small": (dataclasses.replace(OURS, loss=SmallerLoss), 1),
    "no dropout of the embeddings": (with_mistake(Dropout=lambda p: torch.nn.Identity()), 1),
    "no dropout in the layers": (with_mistake(Transformer=WithoutInnerDropout), 1),
    "padding is attended to": (with_mistake(Transformer=WithoutPaddingMask), 1),
    "the decoder sees the future": (with_mistake(Transformer=SeesTheFuture), 1),
    "no positions": (with_positions(torch.zeros), 1),
    "positions from one": (with_positions(lambda T, E: functional.sinusoidal_positions(T + 1, E)[1:]), 1),
}


@pytest.mark.parametrize("mistake, step", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_shows_at_its_step(mistake, step):
    parity = train(FEW, ours=mistake)
    assert parity.same_start
    assert not parity.agrees
    assert next(i for i, difference in enumerate(parity.differences, start=1) if difference > LIMIT) == step


def test_other_initial_parameters_are_found_out_before_the_first_step():
    parity = train(FEW, ours=with_mistake(Linear=DrawnAnew))
    assert not parity.same_start
    assert not parity.agrees


def test_parameters_of_other_names_are_not_compared_but_refused():
    renamed = dataclasses.replace(OURS, state=lambda model: {f"my.{k}": v for k, v in model.state_dict().items()})
    parity = train(dataclasses.replace(FEW, steps=1), ours=renamed)
    assert not parity.same_start
    assert parity.parameter_error == math.inf


# ---- The judgement, on results that are made up ----


def test_differences_and_their_growth():
    parity = made_up.parity((3.0, 2.0, 4.0), (2.0, 2.0, 5.0))
    assert parity.differences == (0.5, 0.0, 0.2)
    assert parity.growth == (0.5, 0.5, 0.5)


def test_all_is_well():
    assert made_up.parity().agrees
    assert made_up.parity().passed


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_no_number_is_an_infinite_difference(bad):
    assert made_up.parity(losses=(2.0, bad)).differences == (0.0, math.inf)
    assert made_up.parity(builtin=(bad, 1.0)).differences == (math.inf, 0.0)
    assert not made_up.parity(losses=(bad, bad), builtin=(bad, bad)).agrees


@pytest.mark.parametrize(
    "wrong",
    [{"losses": (2.0, 1 + 2e-9)}, {"parameter_error": 2e-9}, {"key_bias": 2e-6}, {"same_start": False}],
    ids=str,
)
def test_each_difference_counts(wrong):
    assert not made_up.parity(**wrong).agrees
    assert not made_up.parity(**wrong).passed


def test_agreement_without_learning_is_not_enough():
    parity = made_up.parity(accuracy=0.94)
    assert parity.agrees
    assert not parity.passed
