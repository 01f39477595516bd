"""How kernels are launched: on which GPU, and with what grid. Tensors without data stand for a GPU's, and none runs."""

import contextlib
import functools
import os

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

pytest.importorskip("triton.experimental.gluon", reason="needs triton 3.6 or later: tox -e kernels")
if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("the interpreter has no Gluon", allow_module_level=True)

from benchmarks import host_overhead
from benchmarks.contact import choices
from benchmarks.contact.smoke import deterministic as in_fixed_order
from scratch_transformer.attention.gpu import call, delta, dropout, flash, hopper, hopper_work, launch, split_kv


class Gpus:
    """Two of them; the current one is the first. `launches`: of each, the kernel's name, its grid, and on which.

    given: the tensors that all were given.
    """

    def __init__(self):
        self.current, self.launches, self.given = 0, [], []

    @contextlib.contextmanager
    def device(self, device):
        before, self.current = self.current, torch.device(device).index
        yield
        self.current = before

    def kernel(self, name):
        def launch(grid, args):
            self.launches.append((name, grid, self.current))
            self.given += [x for x in args if isinstance(x, torch.Tensor)]

        class Kernel:
            def __getitem__(_, grid):
                return lambda *args, **options: launch(grid, args)

        return Kernel()


@pytest.fixture
def gpus(monkeypatch):
    found = Gpus()
    monkeypatch.setattr(torch.cuda, "current_device", lambda: found.current)
    monkeypatch.setattr(torch.cuda, "device", found.device)
    monkeypatch.setattr(launch, "shared_memory", lambda device: 227 * 1024)
    monkeypatch.setattr(launch, "num_processors", lambda device: 132)
    table = functools.cache(lambda *shape: torch.empty(12, 3, dtype=torch.int32))
    for name in ("order", "dealt"):
        monkeypatch.setattr(hopper_work, name, table)
    for module in (delta, dropout, flash, hopper, split_kv):
        for name in [name for name in vars(module) if name.endswith("_kernel")]:
            monkeypatch.setattr(module, name, found.kernel(name))
    monkeypatch.setattr(FakeTensor, "data_ptr", lambda self: 0, raising=False)
    with FakeTensorMode():
        yield found


def tensors(*shapes, device="cuda:1"):
    return [torch.empty(shape, dtype=torch.bfloat16, device=device) for shape in shapes]


def launch_everything(device, orders=(False, True)):
    query, one, key = tensors((2, 4, 300, 64), (2, 4, 1, 64), (2, 2, 300, 64), device=device)
    out, logsumexp = torch.empty_like(query), torch.empty(2, 4, 384, device=device)
    rest = (None, None, 0.0, None, 0, 0.125)
    flash._forward(query, key, key, *rest, True)
    for deterministic in (True, False):
        flash._backward(out, query, key, key, *rest, deterministic, out, logsumexp)
    split_kv._split_kv(one, key, key, None, None, None, 0.125)
    dropout.kept_weights(torch.empty(1, dtype=torch.int64, device=device), (2, 4, 5, 5), 0.5)
    hopper._forward(query, key, key, True, 0.125)
    for fixed in orders:
        with in_fixed_order(fixed):
            hopper._backward(out, query, key, key, True, 0.125, out, logsumexp)


@pytest.mark.parametrize("device", ["cuda:0", "cuda:1"])
def test_every_launch_goes_to_the_gpu_where_the_tensors_are(gpus, device):
    launch_everything(device)
    assert len({name for name, *_ in gpus.launches}) == 11
    assert {current for *_, current in gpus.launches} == {torch.device(device).index}
    assert gpus.current == 0


def test_only_the_first_dimension_of_a_grid_is_large(gpus):
    """The others end at 65535, which 2048 sequences of 32 heads reach."""
    query, key = tensors((2048, 32, 1, 64), (2048, 32, 512, 64))
    split_kv._split_kv(query, key, key, None, None, None, 0.125)
    flash._forward(query, key, key, None, None, 0.0, None, None, 0.125, True)
    assert len(gpus.launches) == 3
    for name, grid, _ in gpus.launches:
        assert max(grid[1:], default=1) <= 65535, name


@pytest.mark.parametrize("module", [flash, hopper])
def test_no_kernel_is_given_heads_beyond_the_reach_of_its_addresses(gpus, module):
    """Each within 2³¹ numbers, as they come; beside each other they would not be.

    On the CPU: a torch that is built without CUDA makes no copy of a tensor that is said to be on a GPU.
    """
    (query,) = tensors((1, 128, 2**17, 128), device="cpu")
    rest = (False, 0.125) if module is hopper else (None, None, 0.0, None, None, 0.125, True)
    out, logsumexp = module._forward(query, query, query, *rest)
    module._backward(query.mT.contiguous().mT, query, query, query, *rest, out, logsumexp)
    (beside,) = tensors((1, 2**17, 128, 128), device="cpu")
    module._backward(beside.transpose(1, 2), query, query, query, *rest, out, logsumexp)
    assert gpus.given
    for x in gpus.given:
        assert x.dim() < 4 or call.is_within_reach(x.shape, x.stride())


def test_what_begins_between_two_steps_of_the_copy_engine_is_moved():
    apart = torch.randn(1 + 2 * 5 * 64).bfloat16()[1:].view(1, 2, 5, 64)
    moved = hopper._aligned(apart)
    assert apart.is_contiguous() and apart.data_ptr() % 16 and moved.data_ptr() % 16 == 0
    assert torch.equal(moved, apart)


@pytest.mark.parametrize("name", choices.CHOICES)
def test_every_alternative_of_a_first_contact_can_be_launched_and_leaves_nothing_behind(gpus, name):
    tables = hopper.SLOTS, hopper.TURNS, launch.HOPPER
    before, deals = repr(tables), hopper_work.dealt
    choice = choices.CHOICES[name]
    with choice.switch():
        assert repr(tables) != before or choice.width is None
        launch_everything("cuda:0", orders=(False,) if name != "two-walks" else ())
    assert repr(tables) == before and hopper_work.dealt is deals
    assert not torch.are_deterministic_algorithms_enabled()


def test_what_the_host_does_is_measured(capsys, monkeypatch):
    monkeypatch.setattr(host_overhead, "microseconds", lambda function: (function(), 1.0)[1])
    host_overhead.main([])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 8
    assert lines[1].split() == ["hopper", "forward", "1.0", "1.0", "40"]
