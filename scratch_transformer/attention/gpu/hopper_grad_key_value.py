"""The gradients of keys and values on Hopper: dV = Pᵀ dO and dK = dSᵀ Q · scale, with dS = P ⊙ (dO Vᵀ - δ).

A walk along the queries of every head that shares the keys, with a producer and two consumers of 64 keys each, as in
the forward pass (`hopper_forward.py`). Scores lie as K Qᵀ, keys by queries: so Pᵀ and dSᵀ are in registers as the
products with dO and Q want their left operand, and nothing is transposed.

Not persistent: two results of 64 × 128 and two products on their way fill a consumer's registers, and what a loop over
pieces of work keeps would be spilled. The hardware hands out the programs in order, the longest first
(`hopper_work.py`).
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from scratch_transformer.attention.gpu.hopper_tiles import (
    BLOCK,
    CONSUMERS,
    LOG2E,
    ROWS,
    allocate_barriers,
    first_query,
    place,
    produce_queries,
    slot_and_phase,
)


@gluon.jit
def _consume(
    descriptors, logsumexp, delta, buffers, barriers, sizes, work, scale,
    WHICH: gl.constexpr, GROUP: gl.constexpr, CAUSAL: gl.constexpr, D: gl.constexpr, SLOTS: gl.constexpr,
):  # fmt: skip
    dk_desc, dv_desc = descriptors
    k_smem, v_smem, q_smem, do_smem = buffers
    k_ready, ready, empty = barriers
    G, rows, T = sizes
    order, num_tiles = work
    dtype: gl.constexpr = k_smem.dtype
    scores_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, ROWS, 16])
    out_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    weights_layout: gl.constexpr = gl.DotOperandLayout(0, out_layout, 2)
    k_buffer = k_smem.index(WHICH)
    v_buffer = v_smem.index(WHICH)
    k = k_buffer.reshape([ROWS, D])
    v = v_buffer.reshape([ROWS, D])
    b, g, start = place(gl.load(order + gl.program_id(0)), num_tiles, G)
    first = first_query(start, CAUSAL)
    start += WHICH * ROWS
    s = gl.expand_dims(start + gl.arange(0, ROWS, layout=gl.SliceLayout(1, scores_layout)), 1)
    none = gl.zeros([ROWS, ROWS], gl.float32, layout=scores_layout)
    dk = gl.zeros([ROWS, D], gl.float32, layout=out_layout)
    dv = gl.zeros([ROWS, D], gl.float32, layout=out_layout)
    mbarrier.wait(k_ready.index(WHICH), 0)
    count = gl.cdiv(T - first, ROWS)
    for member in range(GROUP):
        row = ((b * G + g) * GROUP + member) * rows
        for first_t in range(first, T, ROWS):
            t = first_t + gl.arange(0, ROWS, layout=gl.SliceLayout(0, scores_layout))
            lse = gl.expand_dims(gl.load(logsumexp + row + t), 0)
            slot, phase = slot_and_phase(member * count + (first_t - first) // ROWS, SLOTS)
            q = q_smem.index(slot).reshape([ROWS, D])
            do = do_smem.index(slot).reshape([ROWS, D])
            mbarrier.wait(ready.index(slot), phase)
            scores = warpgroup_mma(k, q.permute((1, 0)), none, use_acc=False, is_async=True)
            dp = warpgroup_mma(v, do.permute((1, 0)), none, use_acc=False, is_async=True)
            scores = warpgroup_mma_wait(num_outstanding=1, deps=(scores,))
            weights = gl.exp2(scores * (scale * LOG2E) - lse)
            if CAUSAL:  # noqa: SIM102  # known at compile time, what follows is not
                if first_t < first + BLOCK:  # the first tiles, which the diagonal crosses
                    weights = gl.where(s <= gl.expand_dims(t, 0), weights, 0.0)
            row_delta = gl.expand_dims(gl.load(delta + row + t), 0)
            dp = warpgroup_mma_wait(num_outstanding=0, deps=(dp,))
            p = gl.convert_layout(weights.to(dtype), weights_layout)
            dv = warpgroup_mma(p, do, dv, is_async=True)
            ds = gl.convert_layout((weights * (dp - row_delta)).to(dtype), weights_layout)
            dk = warpgroup_mma(ds, q, dk, is_async=True)
            dv, dk = warpgroup_mma_wait(num_outstanding=0, deps=(dv, dk))
            mbarrier.arrive(empty.index(slot), count=1)

    k.store((dk * scale).to(dtype))  # the results leave through the places of keys and values
    v.store(dv.to(dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(dk_desc, [b, g, start, 0], k_buffer)
    tma.async_copy_shared_to_global(dv_desc, [b, g, start, 0], v_buffer)
    tma.store_wait(0)


@gluon.jit(do_not_specialize=["rows", "T", "num_tiles"])
def hopper_grad_key_value_kernel(
    k_desc, v_desc, q_desc, do_desc, dk_desc, dv_desc, logsumexp, delta, order,
    G, rows, T, num_tiles, scale,
    GROUP: gl.constexpr, CAUSAL: gl.constexpr, D: gl.constexpr, SLOTS: gl.constexpr,
):  # fmt: skip
    """dK and dV. All descriptors: tiles of (1, 1, ROWS, D); logsumexp in base 2 and delta: (B, H, rows).

    rows is T rounded up to BLOCK, as in `hopper_grad_query_kernel`. order: the piece of each program.
    """
    k_smem = gl.allocate_shared_memory(k_desc.dtype, [CONSUMERS, 1, 1, ROWS, D], k_desc.layout)
    v_smem = gl.allocate_shared_memory(k_desc.dtype, [CONSUMERS, 1, 1, ROWS, D], v_desc.layout)
    q_smem = gl.allocate_shared_memory(k_desc.dtype, [SLOTS, 1, 1, ROWS, D], q_desc.layout)
    do_smem = gl.allocate_shared_memory(k_desc.dtype, [SLOTS, 1, 1, ROWS, D], do_desc.layout)
    buffers = (k_smem, v_smem, q_smem, do_smem)
    barriers = (
        allocate_barriers(CONSUMERS, 1), allocate_barriers(SLOTS, 1), allocate_barriers(SLOTS, CONSUMERS)
    )  # fmt: skip
    fence_async_shared()  # the barriers, written by threads, are next seen by the copy engine
    sizes = (G, rows, T)
    work = (order, num_tiles)
    written = (dk_desc, dv_desc)
    gl.warp_specialize(
        [
            (
                produce_queries,
                ((k_desc, v_desc, q_desc, do_desc), buffers, barriers, sizes, work, GROUP, CAUSAL, SLOTS),
            ),
            (_consume, (written, logsumexp, delta, buffers, barriers, sizes, work, scale, 0, GROUP, CAUSAL, D, SLOTS)),
            (_consume, (written, logsumexp, delta, buffers, barriers, sizes, work, scale, 1, GROUP, CAUSAL, D, SLOTS)),
        ],
        [4, 4],
        [240, 240],
    )
