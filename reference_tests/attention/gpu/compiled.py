"""Kernels compiled ahead of time for a GPU that needn't be there, and what the compiler made of them."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


class Compiled(NamedTuple):
    """Registers and bytes of stack per thread, bytes of shared memory per block, and the machine's instructions."""

    registers: int
    stack: int
    shared: int
    ptx: str
    sass: str

    @property
    def copies_under_way(self) -> int:
        """How many groups of asynchronous copies a loop leaves under way when it waits, at most."""
        return max((int(number) for number in re.findall(r"cp\.async\.wait_group\s+(\d+)", self.ptx)), default=0)

    def count(self, instruction: str) -> int:
        """How often the machine code has an instruction whose name starts so."""
        return len(re.findall(rf"^\s+/\*\w+\*/\s+(?:@!?U?P\d+ +)?{instruction}\b", self.sass, re.M))


def compile_kernel(kernel, signature, constants, capability, num_warps, num_stages=3, source=ASTSource, **options):
    """`signature` names the types of those parameters that are no constants; pointers and strides divide by 16."""
    names = kernel.arg_names
    types = {name: signature.get(name, "constexpr" if name in constants else None) for name in names}
    assert None not in types.values(), types
    aligned = {
        (index,): [["tt.divisibility", 16]]
        for index, name in enumerate(names)
        if types[name].startswith("*") or name.startswith("stride")
    }
    compiled = triton.compile(
        source(kernel, types, constants, aligned),
        target=GPUTarget("cuda", capability, 32),
        options={"num_warps": num_warps, "num_stages": num_stages, **options},
    )
    return Compiled(*_resources(compiled.asm["cubin"]), compiled.metadata.shared, compiled.asm["ptx"], _sass(compiled))


def _resources(cubin):
    usage = _tool("cuobjdump", cubin, "-res-usage")
    found = re.search(r"REG:(\d+) STACK:(\d+)", usage)
    return int(found[1]), int(found[2])


def _sass(compiled):
    return _tool("nvdisasm", compiled.asm["cubin"], "-c")


def _tool(name, cubin, option):
    """A tool that the triton wheel brings along."""
    tool = Path(triton.__file__).parent / "backends/nvidia/bin" / name
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        return subprocess.run([tool, option, file.name], check=True, capture_output=True, text=True).stdout
