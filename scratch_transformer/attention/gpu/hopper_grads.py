"""All gradients in one walk on Hopper: dV = Pᵀ dO, dK = dSᵀ Q · scale, and dQ = dS K · scale, added up as it goes.

Five products for each pair of tiles, where `hopper_grad_query.py` and `hopper_grad_key_value.py` compute seven: neither
the scores nor dO Vᵀ is computed twice. The price is the order of the sums in dQ, which is not fixed.

A program owns 128 keys, 64 for each consumer, and walks along the queries, with scores as K Qᵀ, keys by queries, as in
`hopper_grad_key_value.py`. A tile of dQ needs dS of all 128 keys. So both consumers put theirs into shared memory, and
each multiplies all of it with half of K's columns. Its half of dQ, float32, is added to global memory by the copy
engine while the next tiles are computed. There are two places for dS: who has found the other one's dS of a step
complete knows that it is done with that of the step before.
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

from scratch_transformer.attention.gpu.hopper_reduce import async_add_shared_to_global
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
    thread_barrier,
)


@gluon.jit
def _consume(
    descriptors, logsumexp, delta, buffers, barriers, sizes, work, scale,
    WHICH: gl.constexpr, GROUP: gl.constexpr, CAUSAL: gl.constexpr, D: gl.constexpr, SLOTS: gl.constexpr,
):  # fmt: skip
    dq_desc, dk_desc, dv_desc = descriptors
    k_smem, v_smem, q_smem, do_smem, ds_smem, dq_smem = buffers
    k_ready, ready, empty, ds_ready = barriers
    G, rows, T, S = sizes
    order, num_tiles = work
    dtype: gl.constexpr = k_smem.dtype
    HALF: gl.constexpr = D // CONSUMERS
    scores_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, ROWS, 16])
    out_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    half_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HALF, 16])
    weights_layout: gl.constexpr = gl.DotOperandLayout(0, out_layout, 2)
    k_buffer = k_smem.index(WHICH)
    v_buffer = v_smem.index(WHICH)
    dq_buffer = dq_smem.index(WHICH)
    k = k_buffer.reshape([ROWS, D])
    v = v_buffer.reshape([ROWS, D])
    dq_half = dq_buffer.reshape([ROWS, HALF])
    b, g, start = place(gl.load(order + gl.program_id(0)), num_tiles, G)
    first = first_query(start, CAUSAL)
    start += WHICH * ROWS
    s = gl.expand_dims(start + gl.arange(0, ROWS, layout=gl.SliceLayout(1, scores_layout)), 1)
    none = gl.zeros([ROWS, ROWS], gl.float32, layout=scores_layout)
    no_half = gl.zeros([ROWS, HALF], gl.float32, layout=half_layout)
    dk = gl.zeros([ROWS, D], gl.float32, layout=out_layout)
    dv = gl.zeros([ROWS, D], gl.float32, layout=out_layout)
    for c in gl.static_range(CONSUMERS):
        mbarrier.wait(k_ready.index(c), 0)  # of both: dQ needs all keys
    count = gl.cdiv(T - first, ROWS)
    for member in range(GROUP):
        h = g * GROUP + member
        row = (b * G * GROUP + h) * rows
        for first_t in range(first, T, ROWS):
            t = first_t + gl.arange(0, ROWS, layout=gl.SliceLayout(0, scores_layout))
            lse = gl.expand_dims(gl.load(logsumexp + row + t), 0)
            use = member * count + (first_t - first) // ROWS
            slot, phase = slot_and_phase(use, SLOTS)
            place_of_ds, ds_phase = slot_and_phase(use, 2)
            q = q_smem.index(slot).reshape([ROWS, D])
            do = do_smem.index(slot).reshape([ROWS, D])
            mbarrier.wait(ready.index(slot), phase)
            scores = warpgroup_mma(k, q.permute((1, 0)), none, use_acc=False, is_async=True)
            dp = warpgroup_mma(v, do.permute((1, 0)), none, use_acc=False, is_async=True)
            scores = warpgroup_mma_wait(num_outstanding=1, deps=(scores,))
            weights = gl.exp2(scores * (scale * LOG2E) - lse)
            if CAUSAL:  # known at compile time, what follows is not
                if first_t < first + BLOCK:  # the first tiles, which the diagonal crosses
                    weights = gl.where(s <= gl.expand_dims(t, 0), weights, 0.0)
            else:
                if start + ROWS > S:  # keys beyond the last are zero, but not times an infinite weight, in dQ
                    weights = gl.where(s < S, weights, 0.0)
            row_delta = gl.expand_dims(gl.load(delta + row + t), 0)
            dp = warpgroup_mma_wait(num_outstanding=0, deps=(dp,))
            p = gl.convert_layout(weights.to(dtype), weights_layout)
            dv = warpgroup_mma(p, do, dv, is_async=True)
            ds = (weights * (dp - row_delta)).to(dtype)
            own_ds = ds_smem.index(place_of_ds * CONSUMERS + WHICH)
            own_ds.store(ds)
            fence_async_shared()
            thread_barrier()  # all warps have stored
            mbarrier.arrive(ds_ready.index(place_of_ds), count=1)
            dk = warpgroup_mma(own_ds, q, dk, is_async=True)
            mbarrier.wait(ds_ready.index(place_of_ds), ds_phase)
            dq = warpgroup_mma(
                ds_smem.index(place_of_ds * CONSUMERS).permute((1, 0)),
                k_smem.index(0).reshape([ROWS, D]).slice(WHICH * HALF, HALF, dim=1),
                no_half, use_acc=False, is_async=True,
            )  # fmt: skip
            dq = warpgroup_mma(
                ds_smem.index(place_of_ds * CONSUMERS + 1).permute((1, 0)),
                k_smem.index(1).reshape([ROWS, D]).slice(WHICH * HALF, HALF, dim=1),
                dq, is_async=True,
            )  # fmt: skip
            dv, dk, dq = warpgroup_mma_wait(num_outstanding=0, deps=(dv, dk, dq))
            mbarrier.arrive(empty.index(slot), count=1)
            tma.store_wait(0)  # the engine has read the last tile's
            dq_half.store(dq * scale)
            fence_async_shared()
            async_add_shared_to_global(dq_desc, [b, h, first_t, WHICH * HALF], dq_buffer)

    # The results leave through the places of keys and values: the other consumer, too, is done with the keys.
    last = GROUP * count
    place_of_ds, ds_phase = slot_and_phase(last, 2)
    mbarrier.arrive(ds_ready.index(place_of_ds), count=1)
    mbarrier.wait(ds_ready.index(place_of_ds), ds_phase)
    k.store((dk * scale).to(dtype))
    v.store(dv.to(dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(dk_desc, [b, g, start, 0], k_buffer)
    tma.async_copy_shared_to_global(dv_desc, [b, g, start, 0], v_buffer)
    tma.store_wait(0)


@gluon.jit(do_not_specialize=["rows", "T", "num_tiles", "S"])
def hopper_grads_kernel(
    k_desc, v_desc, q_desc, do_desc, dq_desc, dk_desc, dv_desc, logsumexp, delta, order,
    G, rows, T, num_tiles, S, scale,
    GROUP: gl.constexpr, CAUSAL: gl.constexpr, D: gl.constexpr, SLOTS: gl.constexpr,
):  # fmt: skip
    """dK, dV, and what they add to dQ, float32. Descriptors: tiles of (1, 1, ROWS, D), of dQ (1, 1, ROWS, D / 2).

    logsumexp in base 2 and delta: (B, H, rows), as in `hopper_grad_query_kernel`. order: the piece of each program.
    """
    k_smem = gl.allocate_shared_memory(k_desc.dtype, [CONSUMERS, 1, 1, ROWS, D], k_desc.layout)
    v_smem = gl.allocate_shared_memory(k_desc.dtype, [CONSUMERS, 1, 1, ROWS, D], v_desc.layout)
    q_smem = gl.allocate_shared_memory(k_desc.dtype, [SLOTS, 1, 1, ROWS, D], q_desc.layout)
    do_smem = gl.allocate_shared_memory(k_desc.dtype, [SLOTS, 1, 1, ROWS, D], do_desc.layout)
    dq_smem = gl.allocate_shared_memory(gl.float32, [CONSUMERS, 1, 1, ROWS, D // CONSUMERS], dq_desc.layout)
    ds_layout: gl.constexpr = gl.NVMMASharedLayout.get_default_for([ROWS, ROWS], k_desc.dtype)
    ds_smem = gl.allocate_shared_memory(k_desc.dtype, [2 * CONSUMERS, ROWS, ROWS], ds_layout)
    buffers = (k_smem, v_smem, q_smem, do_smem)
    barriers = (
        allocate_barriers(CONSUMERS, 1), allocate_barriers(SLOTS, 1), allocate_barriers(SLOTS, CONSUMERS)
    )  # fmt: skip
    k_ready, ready, empty = barriers
    met = (k_ready, ready, empty, allocate_barriers(2, CONSUMERS))
    used = (k_smem, v_smem, q_smem, do_smem, ds_smem, dq_smem)
    fence_async_shared()  # the barriers, written by threads, are next seen by the copy engine
    sizes = (G, rows, T)
    all_sizes = (G, rows, T, S)
    work = (order, num_tiles)
    written = (dq_desc, dk_desc, dv_desc)
    gl.warp_specialize(
        [
            (
                produce_queries,
                ((k_desc, v_desc, q_desc, do_desc), buffers, barriers, sizes, work, GROUP, CAUSAL, SLOTS),
            ),
            (_consume, (written, logsumexp, delta, used, met, all_sizes, work, scale, 0, GROUP, CAUSAL, D, SLOTS)),
            (_consume, (written, logsumexp, delta, used, met, all_sizes, work, scale, 1, GROUP, CAUSAL, D, SLOTS)),
        ],
        [4, 4],
        [240, 240],
    )
