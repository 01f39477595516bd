"""Several processes, started by torchrun: who computes what, and weights gathered from all of them.

DDP: every process has the whole model. FSDP2 (`fully_shard`): every process has a part of each tensor, of the
gradients and of Adam's moments. Both average gradients, so a share's loss is multiplied by the number of processes.
"""

from __future__ import annotations

import inspect
import os
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import Module

from scratch_transformer.translation.errors import InputError
from scratch_transformer.translation.files import tensors_to_bytes, write_bytes


@dataclass(frozen=True)
class World:
    """The processes that train together; this one is number `rank` and computes on `device`."""

    device: torch.device
    rank: int = 0
    processes: int = 1

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and speaks to the user."""
        return self.rank == 0

    def wait(self) -> None:
        """Until all processes are here."""
        if self.processes > 1:
            dist.barrier()

    def main_first(self, action: Callable[[], object]) -> None:
        """The main process does something; if it refuses, all do, or the others would wait for it.

        Raises:
            InputError: what the action says; in the other processes, that it was refused.
        """
        error: InputError | None = None
        if self.is_main:
            try:
                action()
            except InputError as refused:
                error = refused
        if self.sum(torch.tensor(0.0 if error is None else 1.0)):
            raise error or InputError("the main process has refused") from None

    def main_says(self, answer: Callable[[], bool]) -> bool:
        """What the main process answers, in all."""
        return bool(self.sum(torch.tensor(1.0 if self.is_main and answer() else 0.0)))

    def sum(self, values: Tensor) -> Tensor:
        """The sum over all processes, the same in each."""
        if self.processes == 1:
            return values
        values = values.to(self.device)
        dist.all_reduce(values)
        return values


def start(device: str) -> World:
    """The processes that torchrun started, or this one alone."""
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    if processes == 1:
        return World(torch.device(device))
    kind = torch.device(device).type
    if kind == "cuda":
        device = f"cuda:{os.environ['LOCAL_RANK']}"
        torch.cuda.set_device(device)
    if not dist.is_initialized():
        store = _store() if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True" else None
        given: dict[str, Any] = {"store": store, "rank": int(os.environ["RANK"]), "world_size": processes}
        dist.init_process_group("nccl" if kind == "cuda" else "gloo", **(given if store else {}))
    return World(torch.device(device), dist.get_rank(), processes)


def _store() -> dist.Store:
    """torchrun's, where its processes find each other. It outlives them, so that it has the addresses of those that
    ended before a restart: each start has names of its own.
    """
    e = os.environ
    shared = dist.TCPStore(e["MASTER_ADDR"], int(e["MASTER_PORT"]), int(e["WORLD_SIZE"]), is_master=False)
    return dist.PrefixStore(f"start-{e.get('TORCHELASTIC_RESTART_COUNT', '0')}", shared)


def stop() -> None:
    """Leave the other processes."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


def wrap(objective: Any, engine: str, world: World) -> Module:
    """The objective as the processes train it: in DDP, or with its tensors sharded in place; in one process, itself."""
    if world.processes == 1:
        return objective
    if engine == "fsdp":
        from torch.distributed.fsdp import fully_shard

        _storage("Writer")  # or a missing one would be noticed at the first checkpoint
        mesh = dist.device_mesh.init_device_mesh(world.device.type, (world.processes,))
        for layer in objective.layers():
            fully_shard(layer, mesh=mesh)
        fully_shard(objective, mesh=mesh)
        return objective
    devices = [world.device] if world.device.type == "cuda" else None
    return torch.nn.parallel.DistributedDataParallel(objective, device_ids=devices)


def without_exchange(wrapped: Module, unless: bool) -> Any:
    """A context in which DDP keeps gradients to itself, for all pieces of a step `unless` it is the last."""
    if unless or not isinstance(wrapped, torch.nn.parallel.DistributedDataParallel):
        return nullcontext()
    return wrapped.no_sync()


def reshard(wrapped: Module) -> None:
    """After a forward without a backward, FSDP still has the outermost parameters gathered: let go of them."""
    release = getattr(wrapped, "reshard", None)
    if release is not None:
        release()


# ---- Tensors to files and back, whole or sharded ----


def is_sharded(tensors: dict[str, Tensor]) -> bool:
    """Whether these are FSDP's."""
    return any(hasattr(tensor, "full_tensor") for tensor in tensors.values())


def write_tensors(path: Path, tensors: dict[str, Tensor], world: World) -> None:
    """One safetensors file of whole tensors, whoever has their parts; every process must call it.

    Sharded tensors are written by torch.distributed.checkpoint: a file a process, which are then joined.
    """
    if not is_sharded(tensors):
        if world.is_main:
            write_bytes(path, tensors_to_bytes(tensors))
        return
    import torch.distributed.checkpoint as dcp

    parts = path.with_name(f"{path.stem}-parts")
    writer = _storage("Writer")(str(parts), save_distributed=True, enable_consolidation=True)
    dcp.save(dict(tensors), storage_writer=writer)
    if world.is_main:
        next(parts.glob("*.safetensors")).rename(path)
        shutil.rmtree(parts)


def read_sharded(path: Path, tensors: dict[str, Tensor]) -> None:
    """Fill sharded tensors from a file of `write_tensors`; each process reads its parts."""
    import torch.distributed.checkpoint as dcp

    class OneFile(_storage("Reader")):  # type: ignore[misc]
        """The reader takes a folder and reads all that is there: show it this file alone."""

        def __init__(self) -> None:
            super().__init__(str(path.parent))
            self.fs.ls = lambda folder: [str(path)]

    dcp.load(dict(tensors), storage_reader=OneFile())


def _storage(kind: str) -> Any:
    """The storage of torch.distributed.checkpoint that writes and reads safetensors: nothing is pickled."""
    try:
        from torch.distributed.checkpoint import hf_storage

        assert "enable_consolidation" in inspect.signature(hf_storage.HuggingFaceStorageWriter).parameters
        return getattr(hf_storage, f"HuggingFaceStorage{kind}")
    except (ImportError, AttributeError, AssertionError):
        raise InputError(
            f"checkpoints of FSDP need torch 2.9 or later, and this is torch {torch.__version__}"
        ) from None
