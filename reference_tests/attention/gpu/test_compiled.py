"""Every shipped kernel, compiled ahead of time: no GPU is needed to see what the compiler emits.

Needs Triton, whose wheel brings the assembler along: `tox -e kernels`.
"""

import functools
import os
import re

import pytest
import torch

pytest.importorskip("triton.experimental.gluon", reason="needs triton 3.6 or later: tox -e kernels")
if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("the interpreter compiles nothing", allow_module_level=True)

import triton
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

if not triton.__version__.startswith(("3.6.", "3.7.")):
    pytest.skip(
        f"the registers and memory of Triton 3.6 and 3.7 are known, not of {triton.__version__}",
        allow_module_level=True,
    )

from reference_tests.attention.gpu.compiled import compile_kernel
from scratch_transformer.attention.gpu import (
    flash_forward,
    flash_grad_key_value,
    flash_grad_query,
    hopper,
    launch,
    split_kv,
    tiles,
)

KERNELS = {
    "forward": flash_forward.flash_forward_kernel,
    "grad_query": flash_grad_query.grad_query_kernel,
    "grad_key_value": flash_grad_key_value.grad_key_value_kernel,
}
TILES_ARE_FOR, ELSEWHERE = "3.6.", 640
"""The Triton whose compiler the tiles were chosen for, which spills nothing. Bytes of a thread's stack that 3.7.1 takes
for them at most: so much for a mask and dropout at width 128, up to 104 elsewhere.
"""
SHARED_MEMORY = {80: 163 * 1024, 86: 99 * 1024, 90: 227 * 1024}
DTYPES = {torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32"}
INTEGERS = {"H", "G", "T", "S", "lower", "upper", "threshold", "begin", "end", "keys_per_split", "splits"}
FLOATS = {"scale", "keep_scale"}
# the most that each choice of the table must hold
PLAIN = {"MASK": tiles.NO_MASK.value, "HAS_LOWER": False, "HAS_UPPER": True, "DROPOUT": False}
BANDED = {**PLAIN, "GROUP": 2, "HAS_LOWER": True}
MASKED = {**BANDED, "MASK": tiles.ADDITIVE.value, "DROPOUT": True}
NEEDS = {"plain": PLAIN, "banded": BANDED, "masked": MASKED}


def types_of(kernel, constants, dtype):
    pointers = {"seed": "*i64", "logsumexp": "*fp32", "delta": "*fp32"}
    pointers |= dict.fromkeys(("part", "part_max", "part_sum"), "*fp32")
    if constants.get("ADD_GRAD_QUERY"):
        pointers["grad_query"] = "*fp32"

    def type_of(name):
        if name in INTEGERS or name.startswith("stride"):
            return "i32"
        return "fp32" if name in FLOATS else pointers.get(name, f"*{DTYPES[dtype]}")

    return {name: type_of(name) for name in kernel.arg_names if name not in constants}


def compiled(kernel, capability, dtype, width, chosen, **options):
    constants = {
        "GROUP": 1, "D": width, "DV": width, "BLOCK_D": launch.block_width(width),
        "BLOCK_DV": launch.block_width(width), "RAGGED": True,
        "PRECISION": "ieee" if dtype == torch.float32 else "tf32", **chosen, **options,
    }  # fmt: skip
    launched = {name: constants.pop(name) for name in ("num_warps", "num_stages")}
    constants = {name: value for name, value in constants.items() if name in kernel.arg_names}
    return compile_kernel(kernel, types_of(kernel, constants, dtype), constants, capability, **launched)


def flash_cases():
    for capability, dtype in [(90, torch.bfloat16), (80, torch.bfloat16), (86, torch.bfloat16), (80, torch.float32)]:
        for kernel, widths in launch.table(dtype, SHARED_MEMORY[capability]).items():
            for width, choices in widths.items():
                yield from variants(capability, dtype, kernel, width, choices)


def variants(capability, dtype, kernel, width, choices):
    """Of equal choices the one that must hold most. A kernel that adds to dQ on the way needs more registers than one
    that doesn't, nearly always.
    """
    for needs, name in enumerate(NEEDS):
        if choices[needs] in choices[needs + 1 :]:
            continue
        for add in (False, True) if kernel == "grad_key_value" and dtype != torch.float32 else (False,):
            words = [f"sm{capability}", DTYPES[dtype], kernel, f"D{width}", name] + ["add"] * add
            yield pytest.param(capability, dtype, kernel, width, needs, add, id="-".join(words))


@pytest.mark.parametrize(("capability", "dtype", "kernel", "width", "needs", "add"), list(flash_cases()))
def test_flash_fits(capability, dtype, kernel, width, needs, add, record_property):
    chosen = launch.tiles(kernel, width, dtype, SHARED_MEMORY[capability], needs).options()
    options = {**list(NEEDS.values())[needs], "ADD_GRAD_QUERY": add}
    if needs == launch.PLAIN and kernel != "grad_key_value":
        options["GROUP"] = 2  # there, shared heads are nothing special
    result = compiled(KERNELS[kernel], capability, dtype, width, chosen, **options)
    record_property("registers", result.registers)
    record_property("shared", result.shared)
    assert result.stack <= (0 if triton.__version__.startswith(TILES_ARE_FOR) else ELSEWHERE), "registers are spilled"
    assert result.shared <= SHARED_MEMORY[capability]
    assert (result.count("HGMMA") + result.count("HMMA") > 0) == (dtype != torch.float32), "tensor cores"
    if capability == 90 and (needs < launch.MASKED or kernel != "grad_key_value"):
        assert result.count("HGMMA") > 0, "wgmma, which the smaller tiles of a masked choice are too small for"
    if chosen["num_stages"] >= 3:
        assert result.copies_under_way >= 2, "the next tile's copies are waited for, too"


@pytest.mark.parametrize("kernel", KERNELS)
def test_flash_fits_blackwell(kernel):
    """sm_100 has as much shared memory as sm_90, and takes its tiles; its products run in a memory of their own."""
    chosen = launch.tiles(kernel, 128, torch.bfloat16, SHARED_MEMORY[90], launch.PLAIN).options()
    result = compiled(KERNELS[kernel], 100, torch.bfloat16, 128, chosen, **PLAIN, ADD_GRAD_QUERY=False)
    assert result.stack == 0
    assert result.shared <= SHARED_MEMORY[90]
    assert result.count("UTC[A-Z]*MMA") > 0 and result.count("HMMA") == 0
    assert result.copies_under_way >= 2


@pytest.mark.parametrize(("kernel", "width"), [("forward", 40), ("grad_query", 16), ("grad_key_value", 80)])
def test_flash_of_another_width_fits(kernel, width):
    """float16, for a change, and no band at all."""
    chosen = launch.tiles(kernel, width, torch.float16, SHARED_MEMORY[90], launch.PLAIN).options()
    result = compiled(KERNELS[kernel], 90, torch.float16, width, chosen, **{**PLAIN, "HAS_UPPER": False})
    assert result.stack == 0
    assert result.shared <= SHARED_MEMORY[90]


@pytest.mark.parametrize(("capability", "width"), [(80, 64), (80, 128), (90, 128), (90, 256)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=DTYPES.get)
def test_split_keys_fit(capability, width, dtype):
    options = {**PLAIN, "MASK": tiles.BOOLEAN.value, "BLOCK_R": 16}
    chosen = launch.split_options(width, dtype)
    result = compiled(split_kv.split_kernel, capability, dtype, width, chosen, **options)
    assert result.stack == 0
    assert result.shared <= SHARED_MEMORY[capability]
    assert (result.count("HMMA") > 0) == (dtype != torch.float32)
    if chosen["num_stages"] > 1:
        assert result.count("LDGSTS") > 0, "keys and values are not loaded ahead"
        assert result.copies_under_way >= 2, "the next tile's copies are waited for, too"
        programs = split_kv.PROGRAMS_PER_PROCESSOR if capability == 90 else 3
        assert programs * (result.shared + 1024) <= SHARED_MEMORY[capability] + 1024, "too few programs at once"


# ---- Hopper ----

HOPPER_KERNELS = {
    "forward": hopper.hopper_forward_kernel,
    "grads": hopper.hopper_grads_kernel,
    "grad_query": hopper.hopper_grad_query_kernel,
    "grad_key_value": hopper.hopper_grad_key_value_kernel,
}


@functools.cache
def compiled_for_hopper(name, width, dtype, is_causal, group=1, turns=True):
    kernel = HOPPER_KERNELS[name]
    constants = {"GROUP": group, "CAUSAL": is_causal, "D": width, "SLOTS": hopper.SLOTS[name][width]}
    constants |= {"TURNS": turns} if name == "forward" else {}

    def type_of(argument):
        if not argument.endswith("_desc"):
            pointers = {"logsumexp": "*fp32", "delta": "*fp32", "order": "*i32", "pieces": "*i32", "scale": "fp32"}
            return pointers.get(argument, "i32")
        rows = 128 if name == "forward" and argument in ("k_desc", "v_desc") else 64
        added = name == "grads" and argument == "dq_desc"
        element, columns = (torch.float32, width // 2) if added else (dtype, width)
        pieces = 2 if name == "grads" and argument in ("k_desc", "dk_desc") else 1
        like = torch.empty(1, 1, rows, width, dtype=element, device="meta")
        layout = hopper._geometry(like.shape, like.stride(), element, rows, columns, pieces)["layout"]
        return f"tensordesc<{DTYPES[element]}[1, 1, {rows}, {columns}],{layout!r}>"

    signature = {argument: type_of(argument) for argument in kernel.arg_names if argument not in constants}
    return compile_kernel(kernel, signature, constants, 90, source=GluonASTSource, **hopper.OPTIONS)


SPILLED = {"grads": 80}
"""Bytes of stack, where not 0: addresses and counters, read once for each tile. dK, dV, and what makes them, fill 240
registers of a thread at width 128."""


@pytest.mark.parametrize("is_causal", [False, True], ids=["dense", "causal"])
@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize("name", HOPPER_KERNELS)
def test_hopper_kernels_do_what_they_promise(name, width, is_causal):
    result = compiled_for_hopper(name, width, torch.bfloat16, is_causal)
    assert result.stack <= (SPILLED.get(name, 0) if width == 128 else 0), "registers are spilled"
    assert result.shared <= SHARED_MEMORY[90]
    assert result.count("HGMMA") > 0, "no asynchronous products"
    assert result.count("UTMALDG") > 0, "no bulk copies in"
    assert result.count("UTMASTG") > 0, "no bulk copies out"
    assert (result.count("UTMAREDG") > 0) == (name == "grads"), "bulk copies that add, in one walk"
    assert result.count("USETMAXREG") > 0, "registers are not dealt out by role"
    assert result.count("HMMA") == 0


@pytest.mark.parametrize("turns", [False, True], ids=["freely", "in-turns"])
def test_hopper_softmax_runs_during_a_product(turns):
    """Scores ready, exponentials, product with V ready: in this order in the machine code of the forward pass."""
    result = compiled_for_hopper("forward", 128, torch.bfloat16, True, turns=turns)
    assert result.stack == 0
    events = re.findall(r"WARPGROUP\.DEPBAR\.LE gsb0, 0x[01]|MUFU\.EX2", result.sass)
    after_scores = events.index("WARPGROUP.DEPBAR.LE gsb0, 0x1")
    exponentials = events[after_scores + 1 :].index("WARPGROUP.DEPBAR.LE gsb0, 0x0")
    assert exponentials >= 64


def test_hopper_dq_reads_queries_from_registers():
    """Of the products with Q, dO and dS, all have their left operand there: no descriptor of shared memory."""
    result = compiled_for_hopper("grad_query", 128, torch.bfloat16, True)
    products = re.findall(r"wgmma\.mma_async[^;]*?\{[^}]*\}, (\{|%)", result.ptx, re.S)
    assert products and set(products) == {"{"}


def test_hopper_memory_is_ordered_before_dq():
    """In one walk: stores, fence, barrier of the consumer's warps, arrival; in this order, for each consumer."""
    result = compiled_for_hopper("grads", 64, torch.bfloat16, False)
    events = re.findall(r"stmatrix|fence\.proxy\.async|bar\.sync|mbarrier\.arrive\.shared|m64n32k16", result.ptx)
    before_dq = "".join(event[0] + event[-1] for event in events).split("m6")[0]
    stored = before_dq.rindex("sx")
    assert before_dq[stored:].startswith("sxfcbcmd")


def test_hopper_kernels_with_shared_heads_hardly_spill():
    """The loop over heads costs a few registers, which are spilled outside the loop over tiles."""
    assert compiled_for_hopper("grad_key_value", 128, torch.bfloat16, True, group=4).stack <= 32
    assert compiled_for_hopper("grads", 128, torch.float16, True, group=4).stack <= SPILLED["grads"]


def test_a_layout_is_gluons_default_unless_its_columns_are_read_in_pieces():
    for rows, columns, dtype, element in [(64, 64, torch.bfloat16, gl.bfloat16), (128, 128, torch.float16, gl.float16)]:
        found = hopper._geometry((1, 1, rows, columns), (1, 1, columns, 1), dtype, rows, columns, 1)
        assert found["layout"] == gl.NVMMASharedLayout.get_default_for([1, 1, rows, columns], element)
        assert found["block_shape"] == [1, 1, rows, columns]
    halves = hopper._geometry((1, 1, 64, 64), (1, 1, 64, 1), torch.bfloat16, 64, 64, 2)
    assert halves["layout"].swizzle_byte_width == 64
