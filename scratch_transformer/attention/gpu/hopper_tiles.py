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
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma

LOG2E = gl.constexpr(1.4426950408889634)
CONSUMERS = gl.constexpr(2)
ROWS = gl.constexpr(64)  # of a consumer: what one wgmma computes
BLOCK = gl.constexpr(128)  # rows of all consumers, and of a tile that they walk along
# The warps of one partition wait for each other; Gluon 3.7 has it by another name.
thread_barrier = gl.thread_barrier if hasattr(gl, "thread_barrier") else gl.barrier


@gluon.jit
def place(piece, num_tiles, H):
    """(b, h, first row) of a piece of work, which is a tile of a head: pieces are numbered head by head."""
    head = piece // num_tiles
    return head // H, head % H, piece % num_tiles * BLOCK


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


@gluon.jit
def first_query(start, CAUSAL: gl.constexpr):
    """The first query that sees any of the keys from `start` on. Causal: T = S."""
    if CAUSAL:
        return start
    else:
        return start * 0


@gluon.jit
def produce_queries(
    descriptors, buffers, barriers, sizes, work, GROUP: gl.constexpr, CAUSAL: gl.constexpr, SLOTS: gl.constexpr
):
    """The producer of both kernels that own keys: a piece's keys and values once, then all queries that see them."""
    k_desc, v_desc, q_desc, do_desc = descriptors
    k_smem, v_smem, q_smem, do_smem = buffers
    k_ready, ready, empty = barriers
    G, _, T = sizes
    order, num_tiles = work
    b, g, start = place(gl.load(order + gl.program_id(0)), num_tiles, G)
    for c in gl.static_range(CONSUMERS):
        s = start + c * ROWS
        mbarrier.expect(k_ready.index(c), 2 * k_desc.block_type.nbytes)
        tma.async_copy_global_to_shared(k_desc, [b, g, s, 0], k_ready.index(c), k_smem.index(c))
        tma.async_copy_global_to_shared(v_desc, [b, g, s, 0], k_ready.index(c), v_smem.index(c))
    used = 0
    for h in range(g * GROUP, (g + 1) * GROUP):
        for t in range(first_query(start, CAUSAL), T, ROWS):
            slot, phase = slot_and_phase(used, SLOTS)
            mbarrier.wait(empty.index(slot), phase ^ 1)
            mbarrier.expect(ready.index(slot), 2 * q_desc.block_type.nbytes)
            tma.async_copy_global_to_shared(q_desc, [b, h, t, 0], ready.index(slot), q_smem.index(slot))
            tma.async_copy_global_to_shared(do_desc, [b, h, t, 0], ready.index(slot), do_smem.index(slot))
            used += 1
