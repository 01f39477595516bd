"""A simulator of the part of Gluon that the Hopper kernels use: what the hardware may do, in an order drawn at random.

Needs neither Triton nor a GPU. The kernels' source is executed as Python, on torch tensors, with stand-ins for Gluon's
modules. Partitions take turns at every barrier, in random order. Copies and products happen at any moment between their
start and the wait for them, and a slot is filled with NaN as soon as a copy into it starts: whoever reads too early, or
writes while somebody still reads, gets wrong numbers. If everybody waits, that is a deadlock, and an error.

Not simulated: layouts, registers, and instructions, which the compiler checks (`test_compiled.py`).
"""

from __future__ import annotations

import functools
import math
import random
import sys
import threading
import types
from pathlib import Path
from unittest import mock

import torch

from scratch_transformer.attention import gpu


class Deadlock(RuntimeError):
    """Every partition waits for another one."""


# ---- Partitions take turns ----


class Machine:
    """One program at a time: its partitions, of which one runs, and the copies that are under way."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.copies = []  # functions, in the order of their start
        self.program, self.programs = 0, 1
        self.local = threading.local()

    def run_partitions(self, partitions):
        self.waiting = {}  # partition -> condition under which it can go on
        self.turns = [threading.Semaphore(0) for _ in partitions]
        self.error = None
        self.idle = threading.Semaphore(0)
        threads = [threading.Thread(target=self._partition, args=(i, *p)) for i, p in enumerate(partitions)]
        for i, thread in enumerate(threads):
            self.waiting[i] = lambda: True
            thread.start()
        self._pass_on()
        self.idle.acquire()
        for turn in self.turns:
            turn.release()  # in case of an error: let all end
        for thread in threads:
            thread.join()
        if self.error:
            raise self.error
        assert not self.copies, "the kernel ended while a copy was under way"

    def _partition(self, number, function, args):
        self.turns[number].acquire()
        self.local.number, self.local.products, self.local.stores = number, [], []
        try:
            if self.error is None:
                function(*args)
        except BaseException as error:
            self.error = self.error or error
        if self.error:
            self.idle.release()
        else:
            self._pass_on()

    def wait(self, condition):
        self.waiting[self.local.number] = condition
        self._pass_on()
        self.turns[self.local.number].acquire()
        if self.error:
            raise SystemExit

    def _pass_on(self):
        while True:
            while self.copies and self.random.random() < 0.3:
                self.copies.pop(self.random.randrange(len(self.copies)))()
            if ready := [number for number, condition in self.waiting.items() if condition()]:
                number = self.random.choice(ready)
                del self.waiting[number]
                return self.turns[number].release()
            if self.copies:
                self.copies.pop(0)()
            elif not self.waiting:
                return self.idle.release()
            else:
                self.error = Deadlock(f"{len(self.waiting)} partitions wait for each other")
                return self.idle.release()


machine = Machine(0)


# ---- Memory ----


class Shared:
    """A piece of shared memory; `root` is the allocation, which remembers stores that no fence has followed."""

    def __init__(self, data, root=None, barriers=None):
        self.data, self.root, self.barriers, self.unfenced = data, root or self, barriers, set()

    dtype = property(lambda self: self.data.dtype)

    def index(self, i):
        return self.barriers[int(i)] if self.barriers else Shared(self.data[int(i)], self.root)

    def reshape(self, shape):
        return Shared(self.data.view(shape), self.root)

    def permute(self, order):
        return Shared(self.data.permute(order), self.root)

    def slice(self, start, length, dim=0):
        return Shared(self.data.narrow(dim, start, length), self.root)

    def load(self, layout):
        return self.data.clone()

    def store(self, value):
        assert value.shape == self.data.shape and value.dtype == self.dtype
        self.data.copy_(value)
        self.root.unfenced.add(machine.local.number)

    def read_by_engine(self):
        assert not self.root.unfenced, "stored, and read by the copy engine or wgmma without a fence between"
        return self.data


class Pointer:
    def __init__(self, tensor, offset=0):
        self.tensor, self.offset = tensor.view(-1), offset

    def __add__(self, offset):
        pointer = Pointer(self.tensor)
        pointer.offset = self.offset + offset
        return pointer


class Descriptor:
    """A tensor in global memory that is copied in blocks, zero beyond its edges."""

    def __init__(self, tensor, block_shape):
        self.tensor, self.block_shape, self.dtype, self.layout = tensor, block_shape, tensor.dtype, None
        self.block_type = types.SimpleNamespace(nbytes=math.prod(block_shape) * tensor.element_size())

    def inside(self, coordinates):
        """Where the block overlaps the tensor: slices of the tensor, and of the block."""
        ranges = [
            (int(c), min(int(c) + size, n))
            for c, size, n in zip(coordinates, self.block_shape, self.tensor.shape, strict=True)
        ]
        assert all(start >= 0 for start, _ in ranges)
        if any(stop <= start for start, stop in ranges):
            return None, None
        return tuple(slice(*r) for r in ranges), tuple(slice(0, stop - start) for start, stop in ranges)


# ---- Barriers, copies, products ----


class Barrier:
    """A phase ends when all have arrived and all expected bytes have; `wait(phase)` is for a phase of that parity."""

    def __init__(self):
        self.phase, self.arrivals, self.pending, self.bytes = 0, None, None, 0

    def arrive(self, count, sent=0):
        self.pending -= count
        self.bytes += sent
        assert self.pending >= 0
        if self.pending == 0 and self.bytes == 0:
            self.phase += 1
            self.pending = self.arrivals


def barrier_init(barrier, count):
    barrier.arrivals = barrier.pending = count


def barrier_wait(barrier, phase, pred=True):
    machine.wait((lambda: barrier.phase & 1 != phase) if pred else (lambda: True))


def barrier_arrive(barrier, *, count=1, pred=True):
    if pred:
        barrier.arrive(count)


def barrier_expect(barrier, nbytes, pred=True):
    if pred:
        barrier.arrive(1, nbytes)


def global_to_shared(descriptor, coordinates, barrier, result):
    result.data.fill_(math.nan)
    result.read_by_engine()  # or written, which needs the same fence

    def copy():
        outside, inside = descriptor.inside(coordinates)
        assert result.data.isnan().all(), "somebody wrote to a slot that a copy was filling"
        result.data.zero_()
        if inside:
            result.data[inside] = descriptor.tensor[outside]
        barrier.arrive(0, -descriptor.block_type.nbytes)

    machine.copies.append(copy)


def shared_to_global(descriptor, coordinates, source, adding=False):
    source.read_by_engine()

    def copy():
        if copy in machine.copies:
            machine.copies.remove(copy)
        outside, inside = descriptor.inside(coordinates)
        if inside and copy not in done:
            before = descriptor.tensor[outside] if adding else 0
            descriptor.tensor[outside] = before + source.data[inside]
        done.append(copy)

    done = []
    machine.copies.append(copy)
    machine.local.stores.append(copy)


def store_wait(pendings):
    for copy in machine.local.stores[: len(machine.local.stores) - pendings]:
        copy()
    del machine.local.stores[: len(machine.local.stores) - pendings]


class Product:
    """A product under way. Its operands may be read, and its result written, from now on until somebody waits."""

    def __init__(self, a, b, acc):
        self.a, self.b, self.acc, self.result = a, b, acc, None
        if machine.random.random() < 0.5:
            self.compute()

    def compute(self):
        if self.result is None:
            acc = self.acc.finished() if isinstance(self.acc, Product) else self.acc
            a = self.a.read_by_engine() if isinstance(self.a, Shared) else self.a
            self.result = a.float() @ self.b.read_by_engine().float() + acc

    def finished(self):
        self.compute()
        return self.result


def warpgroup_mma(a, b, acc, *, use_acc=True, is_async=False):
    assert is_async and isinstance(b, Shared)
    product = Product(a, b, acc if use_acc else torch.zeros(()))
    machine.local.products.append(product)
    return product


def warpgroup_mma_wait(num_outstanding=0, deps=()):
    products = machine.local.products
    for product in products[: len(products) - num_outstanding]:
        product.compute()
    del products[: len(products) - num_outstanding]
    results = []
    for dep in deps:
        assert dep not in products or len(deps) > 1, "not waited for"
        results.append(dep if dep in products or not isinstance(dep, Product) else dep.result)
    return results[0] if len(results) == 1 else tuple(results)


def fence():
    number = getattr(machine.local, "number", None)
    for root in allocations:
        root.unfenced.discard(number)


allocations = []


def allocate(dtype, shape, layout):
    if layout == "barriers":
        return Shared(None, barriers=[Barrier() for _ in range(shape[0])])
    allocations.append(Shared(torch.full(shape, math.nan, dtype=dtype)))
    return allocations[-1]


# ---- The language ----


def _elementwise(function):
    return lambda x, *args: function(x, *args) if isinstance(x, torch.Tensor) else function(torch.tensor(x), *args)


def _minmax(builtin, function):
    def choose(x, y):
        if isinstance(x, torch.Tensor) or isinstance(y, torch.Tensor):
            return function(*(v if isinstance(v, torch.Tensor) else torch.tensor(v) for v in (x, y)))
        return builtin(x, y)

    return choose


def _store(pointer, value, mask=True):
    offset, value, mask = torch.broadcast_tensors(pointer.offset, value, torch.as_tensor(mask))
    pointer.tensor[offset[mask]] = value[mask].to(pointer.tensor.dtype)


def _load(pointer, mask=None, other=0.0):
    offset = pointer.offset
    if not isinstance(offset, torch.Tensor):
        return pointer.tensor[offset].item()
    mask = torch.ones_like(offset, dtype=torch.bool) if mask is None else mask
    result = torch.full(offset.shape, other, dtype=pointer.tensor.dtype)
    result[mask] = pointer.tensor[offset[mask]]
    return result


def _language():
    gl = types.ModuleType("triton.experimental.gluon.language")
    layouts = ("NVMMADistributedLayout", "DotOperandLayout", "SliceLayout", "BlockedLayout")
    vars(gl).update({name: lambda *_: None for name in layouts})
    gl.NVMMASharedLayout = types.SimpleNamespace(get_default_for=lambda *_: None)
    vars(gl).update(
        float32=torch.float32, float16=torch.float16, bfloat16=torch.bfloat16, int64=torch.int64,
        constexpr=lambda x: x, static_range=range, cdiv=lambda a, b: -(-a // b),
        program_id=lambda axis: machine.program, num_programs=lambda axis: machine.programs,
        allocate_shared_memory=allocate, warp_specialize=lambda parts, warps, registers: machine.run_partitions(parts),
        arange=lambda a, b, layout=None: torch.arange(a, b), convert_layout=lambda x, layout: x,
        zeros=lambda shape, dtype, layout=None: torch.zeros(shape, dtype=dtype),
        full=lambda shape, value, dtype, layout=None: torch.full(shape, value, dtype=dtype),
        expand_dims=lambda x, axis: x.unsqueeze(axis), where=torch.where, store=_store, load=_load,
        maximum=_minmax(max, torch.maximum), minimum=_minmax(min, torch.minimum),
        max=lambda x, axis: x.amax(axis), sum=lambda x, axis: x.sum(axis),
        exp2=_elementwise(torch.exp2), log2=_elementwise(torch.log2), thread_barrier=lambda: None,
    )  # fmt: skip
    return gl


def _modules():
    """Stand-ins for what the kernels' files import."""
    gluon = types.ModuleType("triton.experimental.gluon")
    gluon.language = _language()
    gluon.jit = lambda function=None, **options: function or (lambda function: function)
    hopper = types.ModuleType("triton.experimental.gluon.language.nvidia.hopper")
    hopper.mbarrier = types.SimpleNamespace(
        init=barrier_init, wait=barrier_wait, arrive=barrier_arrive, expect=barrier_expect,
        MBarrierLayout=lambda: "barriers",
    )  # fmt: skip
    hopper.tma = types.SimpleNamespace(
        async_copy_global_to_shared=global_to_shared, async_copy_shared_to_global=shared_to_global,
        store_wait=store_wait,
    )  # fmt: skip
    reduce = types.ModuleType(f"{gpu.__name__}.hopper_reduce")
    reduce.async_add_shared_to_global = functools.partial(shared_to_global, adding=True)
    hopper.fence_async_shared = fence
    hopper.warpgroup_mma, hopper.warpgroup_mma_wait = warpgroup_mma, warpgroup_mma_wait
    names = {"triton": types.ModuleType("triton"), "triton.experimental": types.ModuleType("triton.experimental")}
    names["triton.experimental"].gluon = gluon
    names |= {gluon.__name__: gluon, gluon.language.__name__: gluon.language}
    names["triton.experimental.gluon.language.nvidia"] = types.ModuleType("triton.experimental.gluon.language.nvidia")
    names |= {hopper.__name__: hopper, reduce.__name__: reduce}
    return names


def source(name):
    """The text of the kernels' file of this name."""
    return (Path(gpu.__file__).parent / f"{name}.py").read_text(encoding="utf-8")


def load(name, text=None):
    """The kernels' file of this name, or another text in its place, as Python."""
    module = types.ModuleType(f"simulated_{name}")
    names = _modules()
    if name != "hopper_tiles":
        names[f"{gpu.__name__}.hopper_tiles"] = load("hopper_tiles")
    with mock.patch.dict(sys.modules, names):
        exec(compile(text or source(name), f"{name}.py", "exec"), vars(module))
    return module


def launch(kernel, programs, seed, *args, **constants):
    """Run `programs` programs, one after the other."""
    machine.__init__(seed)
    machine.programs = programs
    for machine.program in range(programs):
        allocations.clear()
        kernel(*args, **constants)
