"""The machine's limits: positive, by dtype, and half precision measured by what is faster."""

import torch

from scratch_transformer.benchmarking import machine
from scratch_transformer.benchmarking.machine import Limits


def test_rates_are_measured(monkeypatch):
    monkeypatch.setattr(machine, "ENOUGH", 1e-3)
    assert machine.gemm_rate("cpu", "float32", start=32, largest=64) > 1e6


def test_half_precision_is_measured_by_the_faster_of_two():
    limits = Limits({"float64": 1.0, "float32": 2.0, "bfloat16": 4.0, "float16": 0.5}, 1.0)
    assert [limits.rate(dtype) for dtype in ("float64", "float32", "bfloat16", "float16")] == [1, 2, 4, 2]


def test_limits_know_every_dtype_asked_for(monkeypatch):
    monkeypatch.setattr(machine, "gemm_rate", lambda device, dtype: len(dtype))
    monkeypatch.setattr(machine, "copy_rate", lambda device: 7.0)
    assert machine.limits("cpu", ["bfloat16"]) == Limits({"bfloat16": 8, "float32": 7}, 7.0)


def test_the_description_says_where_it_ran():
    found = machine.description("cpu", Limits({"float32": 1.0}, 2.0))
    assert found["limits"] == {"gemm": {"float32": 1.0}, "bandwidth": 2.0}
    assert found["environment"]["threads"] == torch.get_num_threads()
    assert {"torch", "processor", "processors", "device"} <= set(found["environment"])
