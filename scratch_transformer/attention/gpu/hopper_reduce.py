"""A copy out of shared memory that adds instead of replacing. The hardware has it, and Gluon 3.6 does not export it."""

from __future__ import annotations

from triton._C.libtriton import ir
from triton.experimental.gluon.language._core import builtin


@builtin
def async_add_shared_to_global(tensor_desc, coord, src, _semantic=None):
    """As `tma.async_copy_shared_to_global`, adding: each number in one step, in no fixed order among programs."""
    coord = _semantic._convert_to_ir_values(coord, require_i64=False)
    add = ir.DESCRIPTOR_REDUCE_KIND.ADD
    _semantic.builder.create_async_tma_reduce(add, tensor_desc.handle, coord, src.handle)
