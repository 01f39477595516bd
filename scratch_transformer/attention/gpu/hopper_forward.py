"""The forward pass of attention on Hopper. Shah et al. 2024, FlashAttention-3, algorithm 2.

Three things overlap that plain Triton does one after the other:

- Copies: the producer runs ahead of the consumers by as many tiles as the rings hold, and into the next piece of work.
- Softmax and products within a consumer: the product of the weights with V is issued after the next tile's scores, so
  that the tensor cores are busy with it while the exponentials of those scores are computed.
- Softmax and products of different consumers: while one computes exponentials, the other one's products run. Left to
  themselves they may well do the same thing at the same time; so they take turns in sending products off ("ping-pong").

The kernel is persistent: one program per processor, which does the pieces of work dealt to it (`hopper_work.py`). Tiles
of keys are walked from the last to the first, for only the last one can lie across the diagonal or the end of the keys.
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
    """How many tiles of keys the queries from `start` on see. Causal: T = S, and a tile of keys is one of queries."""
    if CAUSAL:
        return start // BLOCK + 1
    else:
        return gl.cdiv(S, BLOCK)


@gluon.jit
def _produce(
    descriptors, buffers, barriers, sizes, work, GROUP: gl.constexpr, CAUSAL: gl.constexpr, SLOTS: gl.constexpr
):
    q_desc, k_desc, v_desc = descriptors
    q_smem, k_smem, v_smem = buffers
    q_ready, q_empty, k_ready, k_empty, v_ready, v_empty, _ = barriers
    H, _, S = sizes
    pieces, rounds, num_tiles = work
    pieces += gl.program_id(0) * (rounds + 1)
    used = 0
    for done in range(gl.load(pieces)):
        b, h, start = place(gl.load(pieces + 1 + done), num_tiles, H)
        end = _key_tiles(start, S, CAUSAL)
        for i in range(end):
            s = (end - 1 - i) * BLOCK
            slot, phase = slot_and_phase(used, SLOTS)
            mbarrier.wait(k_empty.index(slot), phase ^ 1)
            mbarrier.expect(k_ready.index(slot), k_desc.block_type.nbytes)
            tma.async_copy_global_to_shared(k_desc, [b, h // GROUP, s, 0], k_ready.index(slot), k_smem.index(slot))
            if i == 0:  # after the first keys, which needn't wait for the last piece's results to be stored
                for c in gl.static_range(CONSUMERS):
                    mbarrier.wait(q_empty.index(c), (done & 1) ^ 1)
                    mbarrier.expect(q_ready.index(c), q_desc.block_type.nbytes)
                    tma.async_copy_global_to_shared(
                        q_desc, [b, h, start + c * ROWS, 0], q_ready.index(c), q_smem.index(c)
                    )
            mbarrier.wait(v_empty.index(slot), phase ^ 1)
            mbarrier.expect(v_ready.index(slot), v_desc.block_type.nbytes)
            tma.async_copy_global_to_shared(v_desc, [b, h // GROUP, s, 0], v_ready.index(slot), v_smem.index(slot))
            used += 1


@gluon.jit
def _softmax(scores, row_max, row_sum, factor):
    """Online softmax: the weights of new scores, the new maximum and sum, and what the old sum is worth now."""
    new_max = gl.maximum(row_max, gl.max(scores, 1) * factor)
    correction = gl.exp2(row_max - new_max)
    weights = gl.exp2(scores * factor - gl.expand_dims(new_max, 1))
    return weights, new_max, row_sum * correction + gl.sum(weights, 1), correction


@gluon.jit
def _wait_for_next(k_ready, used, pred, SLOTS: gl.constexpr):
    """Wait for the keys after the used-th, if there are any.

    Also a fence for ptxas, which moves `wgmma.wait_group` up over arithmetic that it needn't wait for, as far as the
    last branch. The loop in here is one: placed after the exponentials, it keeps the products running during them.
    """
    slot, phase = slot_and_phase(used + 1, SLOTS)
    mbarrier.wait(k_ready.index(slot), phase, pred=pred)


@gluon.jit
def _consume(
    o_desc, logsumexp, buffers, barriers, sizes, work, factor,
    WHICH: gl.constexpr, CAUSAL: gl.constexpr, D: gl.constexpr, SLOTS: gl.constexpr, TURNS: gl.constexpr,
):  # fmt: skip
    q_smem, k_smem, v_smem = buffers
    q_ready, q_empty, k_ready, k_empty, v_ready, v_empty, turn = barriers
    H, rows, S = sizes
    pieces, rounds, num_tiles = work
    pieces += gl.program_id(0) * (rounds + 1)
    dtype: gl.constexpr = q_smem.dtype
    scores_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK, 16])
    out_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    weights_layout: gl.constexpr = gl.DotOperandLayout(0, out_layout, 2)
    row_layout: gl.constexpr = gl.SliceLayout(1, scores_layout)
    out_row_layout: gl.constexpr = gl.SliceLayout(1, out_layout)
    q_buffer = q_smem.index(WHICH)
    q = q_buffer.reshape([ROWS, D])
    used = 0
    for done in range(gl.load(pieces)):
        b, h, start = place(gl.load(pieces + 1 + done), num_tiles, H)
        start += WHICH * ROWS
        end = _key_tiles(start, S, CAUSAL)
        t = start + gl.arange(0, ROWS, layout=row_layout)
        s = (end - 1) * BLOCK + gl.arange(0, BLOCK, layout=gl.SliceLayout(0, scores_layout))
        none = gl.zeros([ROWS, BLOCK], gl.float32, layout=scores_layout)
        acc = gl.zeros([ROWS, D], gl.float32, layout=out_layout)

        mbarrier.wait(q_ready.index(WHICH), done & 1)
        slot, phase = slot_and_phase(used, SLOTS)
        mbarrier.wait(k_ready.index(slot), phase)
        k = k_smem.index(slot).reshape([BLOCK, D])
        scores = warpgroup_mma(q, k.permute((1, 0)), none, use_acc=False, is_async=True)
        scores = warpgroup_mma_wait(num_outstanding=0, deps=(scores,))
        mbarrier.arrive(k_empty.index(slot), count=1)
        visible = gl.expand_dims(s, 0) < S
        if CAUSAL:
            visible = visible & (gl.expand_dims(s, 0) <= gl.expand_dims(t, 1))
        scores = gl.where(visible, scores, float("-inf"))
        row_max = gl.full([ROWS], float("-inf"), gl.float32, layout=row_layout)
        row_sum = gl.zeros([ROWS], gl.float32, layout=row_layout)
        weights, row_max, row_sum, _ = _softmax(scores, row_max, row_sum, factor)
        p = gl.convert_layout(weights.to(dtype), weights_layout)

        _wait_for_next(k_ready, used, end > 1, SLOTS)
        for i in range(1, end):
            last_slot, last_phase = slot, phase
            used += 1
            slot, phase = slot_and_phase(used, SLOTS)
            k = k_smem.index(slot).reshape([BLOCK, D])
            mbarrier.wait(v_ready.index(last_slot), last_phase)
            v = v_smem.index(last_slot).reshape([BLOCK, D])
            if TURNS:  # the first consumer begins, and each lets the other one go on: its n-th turn is used - done - 1
                mbarrier.wait(turn.index(WHICH), ((used - done) ^ WHICH) & 1)
            scores = warpgroup_mma(q, k.permute((1, 0)), none, use_acc=False, is_async=True)
            acc = warpgroup_mma(p, v, acc, is_async=True)
            if TURNS:
                mbarrier.arrive(turn.index(1 - WHICH), count=1)
            scores = warpgroup_mma_wait(num_outstanding=1, deps=(scores,))  # the product with V is still running
            mbarrier.arrive(k_empty.index(slot), count=1)
            weights, row_max, row_sum, correction = _softmax(scores, row_max, row_sum, factor)
            next_p = gl.convert_layout(weights.to(dtype), weights_layout)
            _wait_for_next(k_ready, used, i + 1 < end, SLOTS)
            acc, p = warpgroup_mma_wait(num_outstanding=0, deps=(acc, p))  # wgmma was reading p: not to be reused yet
            mbarrier.arrive(v_empty.index(last_slot), count=1)
            acc = acc * gl.expand_dims(gl.convert_layout(correction, out_row_layout), 1)
            p = next_p

        mbarrier.wait(v_ready.index(slot), phase)
        acc = warpgroup_mma(p, v_smem.index(slot).reshape([BLOCK, D]), acc, is_async=True)
        acc = warpgroup_mma_wait(num_outstanding=0, deps=(acc,))
        mbarrier.arrive(v_empty.index(slot), count=1)
        used += 1

        # The results leave through the place of the queries, which are not needed any more.
        acc = acc * gl.expand_dims(gl.convert_layout(1.0 / row_sum, out_row_layout), 1)
        q.store(acc.to(dtype))
        fence_async_shared()
        tma.async_copy_shared_to_global(o_desc, [b, h, start, 0], q_buffer)
        gl.store(logsumexp + (b * H + h) * rows + t, row_max + gl.log2(row_sum))
        tma.store_wait(0)
        mbarrier.arrive(q_empty.index(WHICH), count=1)


@gluon.jit(do_not_specialize=["rows", "S", "rounds", "num_tiles"])
def hopper_forward_kernel(
    q_desc, k_desc, v_desc, o_desc, logsumexp, pieces, H, rows, S, rounds, num_tiles, scale,
    GROUP: gl.constexpr, CAUSAL: gl.constexpr, D: gl.constexpr, SLOTS: gl.constexpr, TURNS: gl.constexpr,
):  # fmt: skip
    """out = softmax(Q Kᵀ · scale) V and logsumexp in base 2, (B, H, rows): T rounded up to BLOCK.

    Descriptors: tiles of (1, 1, ROWS, D) of queries and results, (1, 1, BLOCK, D) of keys and values.
    pieces: (programs, 1 + rounds), `hopper_work.dealt`. TURNS: whether the consumers' products take turns.
    """
    q_smem = gl.allocate_shared_memory(q_desc.dtype, [CONSUMERS, 1, 1, ROWS, D], q_desc.layout)
    k_smem = gl.allocate_shared_memory(k_desc.dtype, [SLOTS, 1, 1, BLOCK, D], k_desc.layout)
    v_smem = gl.allocate_shared_memory(v_desc.dtype, [SLOTS, 1, 1, BLOCK, D], v_desc.layout)
    q_ready = allocate_barriers(CONSUMERS, 1)
    q_empty = allocate_barriers(CONSUMERS, 1)
    k_ready = allocate_barriers(SLOTS, 1)
    k_empty = allocate_barriers(SLOTS, CONSUMERS)
    v_ready = allocate_barriers(SLOTS, 1)
    v_empty = allocate_barriers(SLOTS, CONSUMERS)
    turn = allocate_barriers(CONSUMERS, 1)
    fence_async_shared()  # the barriers, written by threads, are next seen by the copy engine
    buffers = (q_smem, k_smem, v_smem)
    barriers = (q_ready, q_empty, k_ready, k_empty, v_ready, v_empty, turn)
    sizes = (H, rows, S)
    work = (pieces, rounds, num_tiles)
    factor = scale * LOG2E
    # 240 registers for a thread of a consumer, 24 for one of the producer: that is all of a processor's
    gl.warp_specialize(
        [
            (_produce, ((q_desc, k_desc, v_desc), buffers, barriers, sizes, work, GROUP, CAUSAL, SLOTS)),
            (_consume, (o_desc, logsumexp, buffers, barriers, sizes, work, factor, 0, CAUSAL, D, SLOTS, TURNS)),
            (_consume, (o_desc, logsumexp, buffers, barriers, sizes, work, factor, 1, CAUSAL, D, SLOTS, TURNS)),
        ],
        [4, 4],
        [240, 240],
    )
