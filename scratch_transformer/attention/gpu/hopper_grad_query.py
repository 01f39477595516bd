"""The gradient of the queries on Hopper: dQ = dS K · scale, with dS = P ⊙ (dO Vᵀ - δ).

A walk along the keys, organised as the forward pass (`hopper_forward.py`): a producer, two consumers of 64 queries
each, and one program per processor. dO Vᵀ runs while the weights P are computed from the scores, and one consumer's
products while the other one computes. Every number is written once: the result is the same in every run.
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
    place,
    slot_and_phase,
)


@gluon.jit
def _key_tiles(start, S, CAUSAL: gl.constexpr):
    """How many tiles of ROWS keys the BLOCK queries from `start` on see. Causal: T = S."""
    if CAUSAL:
        return gl.cdiv(gl.minimum(start + BLOCK, S), ROWS)
    else:
        return gl.cdiv(S, ROWS)


@gluon.jit
def _produce(
    descriptors, buffers, barriers, sizes, work, GROUP: gl.constexpr, CAUSAL: gl.constexpr, SLOTS: gl.constexpr
):
    q_desc, do_desc, k_desc, v_desc = descriptors
    q_smem, do_smem, k_smem, v_smem = buffers
    q_ready, q_empty, ready, empty = barriers
    H, _, S = sizes
    pieces, rounds, num_tiles = work
    pieces += gl.program_id(0) * (rounds + 1)
    used = 0
    for done in range(gl.load(pieces)):
        b, h, start = place(gl.load(pieces + 1 + done), num_tiles, H)
        for c in gl.static_range(CONSUMERS):
            t = start + c * ROWS
            mbarrier.wait(q_empty.index(c), (done & 1) ^ 1)
            mbarrier.expect(q_ready.index(c), 2 * q_desc.block_type.nbytes)
            tma.async_copy_global_to_shared(q_desc, [b, h, t, 0], q_ready.index(c), q_smem.index(c))
            tma.async_copy_global_to_shared(do_desc, [b, h, t, 0], q_ready.index(c), do_smem.index(c))
        end = _key_tiles(start, S, CAUSAL)
        for i in range(end):
            s = (end - 1 - i) * ROWS
            slot, phase = slot_and_phase(used, SLOTS)
            mbarrier.wait(empty.index(slot), phase ^ 1)
            mbarrier.expect(ready.index(slot), 2 * k_desc.block_type.nbytes)
            tma.async_copy_global_to_shared(k_desc, [b, h // GROUP, s, 0], ready.index(slot), k_smem.index(slot))
            tma.async_copy_global_to_shared(v_desc, [b, h // GROUP, s, 0], ready.index(slot), v_smem.index(slot))
            used += 1


@gluon.jit
def _consume(
    dq_desc, logsumexp, delta, buffers, barriers, sizes, work, scale,
    WHICH: gl.constexpr, CAUSAL: gl.constexpr, D: gl.constexpr, SLOTS: gl.constexpr,
):  # fmt: skip
    q_smem, do_smem, k_smem, v_smem = buffers
    q_ready, q_empty, ready, empty = barriers
    H, rows, S = sizes
    pieces, rounds, num_tiles = work
    pieces += gl.program_id(0) * (rounds + 1)
    dtype: gl.constexpr = q_smem.dtype
    scores_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, ROWS, 16])
    out_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    ds_layout: gl.constexpr = gl.DotOperandLayout(0, out_layout, 2)
    operand_layout: gl.constexpr = gl.DotOperandLayout(0, scores_layout, 2)
    q_buffer = q_smem.index(WHICH)
    result = q_buffer.reshape([ROWS, D])
    used = 0
    for done in range(gl.load(pieces)):
        b, h, start = place(gl.load(pieces + 1 + done), num_tiles, H)
        end = _key_tiles(start, S, CAUSAL)
        start += WHICH * ROWS
        t = start + gl.arange(0, ROWS, layout=gl.SliceLayout(1, scores_layout))
        row = (b * H + h) * rows + t
        lse = gl.expand_dims(gl.load(logsumexp + row), 1)
        row_delta = gl.expand_dims(gl.load(delta + row), 1)
        none = gl.zeros([ROWS, ROWS], gl.float32, layout=scores_layout)
        dq = gl.zeros([ROWS, D], gl.float32, layout=out_layout)
        mbarrier.wait(q_ready.index(WHICH), done & 1)
        q = q_buffer.reshape([ROWS, D]).load(operand_layout)
        do = do_smem.index(WHICH).reshape([ROWS, D]).load(operand_layout)
        for i in range(end):
            slot, phase = slot_and_phase(used, SLOTS)
            k = k_smem.index(slot).reshape([ROWS, D])
            v = v_smem.index(slot).reshape([ROWS, D])
            mbarrier.wait(ready.index(slot), phase)
            scores = warpgroup_mma(q, k.permute((1, 0)), none, use_acc=False, is_async=True)
            dp = warpgroup_mma(do, v.permute((1, 0)), none, use_acc=False, is_async=True)
            scores = warpgroup_mma_wait(num_outstanding=1, deps=(scores,))
            if i < BLOCK // ROWS:  # the last tiles, which the end of the keys or the diagonal may cross
                s = (end - 1 - i) * ROWS + gl.arange(0, ROWS, layout=gl.SliceLayout(0, scores_layout))
                visible = gl.expand_dims(s, 0) < S
                if CAUSAL:
                    visible = visible & (gl.expand_dims(s, 0) <= gl.expand_dims(t, 1))
                scores = gl.where(visible, scores, float("-inf"))
            weights = gl.exp2(scores * (scale * LOG2E) - lse)
            dp = warpgroup_mma_wait(num_outstanding=0, deps=(dp,))
            ds = gl.convert_layout((weights * (dp - row_delta)).to(dtype), ds_layout)
            dq = warpgroup_mma(ds, k, dq, is_async=True)
            dq = warpgroup_mma_wait(num_outstanding=0, deps=(dq,))
            mbarrier.arrive(empty.index(slot), count=1)
            used += 1

        result.store((dq * scale).to(dtype))  # the results leave through the place of the queries
        fence_async_shared()
        tma.async_copy_shared_to_global(dq_desc, [b, h, start, 0], q_buffer)
        tma.store_wait(0)
        mbarrier.arrive(q_empty.index(WHICH), count=1)


@gluon.jit(do_not_specialize=["rows", "S", "rounds", "num_tiles"])
def hopper_grad_query_kernel(
    q_desc, do_desc, k_desc, v_desc, dq_desc, logsumexp, delta, pieces,
    H, rows, S, rounds, num_tiles, scale,
    GROUP: gl.constexpr, CAUSAL: gl.constexpr, D: gl.constexpr, SLOTS: gl.constexpr,
):  # fmt: skip
    """dQ. All descriptors: tiles of (1, 1, ROWS, D); logsumexp in base 2 and delta: (B, H, rows).

    rows is T rounded up to BLOCK: beyond T queries are zero, and so is what they add, with any finite logsumexp.
    pieces: (programs, 1 + rounds), `hopper_work.dealt`.
    """
    q_smem = gl.allocate_shared_memory(q_desc.dtype, [CONSUMERS, 1, 1, ROWS, D], q_desc.layout)
    do_smem = gl.allocate_shared_memory(q_desc.dtype, [CONSUMERS, 1, 1, ROWS, D], do_desc.layout)
    k_smem = gl.allocate_shared_memory(q_desc.dtype, [SLOTS, 1, 1, ROWS, D], k_desc.layout)
    v_smem = gl.allocate_shared_memory(q_desc.dtype, [SLOTS, 1, 1, ROWS, D], v_desc.layout)
    buffers = (q_smem, do_smem, k_smem, v_smem)
    barriers = (
        allocate_barriers(CONSUMERS, 1), allocate_barriers(CONSUMERS, 1),
        allocate_barriers(SLOTS, 1), allocate_barriers(SLOTS, CONSUMERS),
    )  # fmt: skip
    fence_async_shared()  # the barriers, written by threads, are next seen by the copy engine
    sizes = (H, rows, S)
    work = (pieces, rounds, num_tiles)
    gl.warp_specialize(
        [
            (_produce, ((q_desc, do_desc, k_desc, v_desc), buffers, barriers, sizes, work, GROUP, CAUSAL, SLOTS)),
            (_consume, (dq_desc, logsumexp, delta, buffers, barriers, sizes, work, scale, 0, CAUSAL, D, SLOTS)),
            (_consume, (dq_desc, logsumexp, delta, buffers, barriers, sizes, work, scale, 1, CAUSAL, D, SLOTS)),
        ],
        [4, 4],
        [240, 240],
    )
