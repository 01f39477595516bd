"""What the Hopper kernels share: layouts, the order of the work, and rings of tiles in shared memory.

Gluon is Triton's language below Triton: layouts, shared memory, and asynchronous copies and products are written out.
A kernel here is three partitions of warps with a program each. The producer copies tiles with the tensor memory
accelerator (TMA), which needs one thread. Two consumers, warpgroups of four warps, multiply with wgmma and do the rest.
They meet at barriers in shared memory: a tile's slot is `ready` when its bytes have arrived, and `empty` when all
consumers are done with it. A barrier has phases, 0, 1, 0, 1, …: a slot's n-th use waits for phase n mod 2, and waiting
for the phase before the first never blocks, so all slots start empty.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier

LOG2E = gl.constexpr(1.4426950408889634)
CONSUMERS = gl.constexpr(2)
ROWS = gl.constexpr(64)  # of a consumer: what one wgmma computes
BLOCK = gl.constexpr(128)  # rows of all consumers, and of a tile that they walk along


@gluon.jit
def place(index, num_tiles, num_heads, heads_per_section, H, BLOCK: gl.constexpr, LAST_FIRST: gl.constexpr):
    """(b, h, first row) of the index-th piece of work.

    The heads are cut into sections whose keys and values fit into the L2 cache together. In a section the longest work
    comes first, over all its heads: programs take pieces in turn, so each gets its share of long and short ones.
    """
    section = index // (heads_per_section * num_tiles)
    first_head = section * heads_per_section
    heads = gl.minimum(heads_per_section, num_heads - first_head)
    index -= first_head * num_tiles
    tile = index // heads
    if LAST_FIRST:
        tile = num_tiles - 1 - tile
    head = first_head + index % heads
    return head // H, head % H, tile * BLOCK


@gluon.jit
def allocate_barriers(NUMBER: gl.constexpr, ARRIVALS: gl.constexpr):
    """Barriers whose phase ends after so many arrivals."""
    barriers = gl.allocate_shared_memory(gl.int64, [NUMBER, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(NUMBER):
        mbarrier.init(barriers.index(i), count=ARRIVALS)
    return barriers


@gluon.jit
def slot_and_phase(use, SLOTS: gl.constexpr):
    """Where in a ring of SLOTS its n-th use is, and the phase of the slot's barriers."""
    return use % SLOTS, (use // SLOTS) & 1
