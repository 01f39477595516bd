"""Launches as far as the driver: what Triton makes of our arguments, and whether CUDA would take it. No kernel runs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

triton = pytest.importorskip("triton", reason="needs triton: tox -e kernels")
pytest.importorskip("triton.experimental.gluon", reason="needs triton 3.6 or later: tox -e kernels")
COMPILER = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
if os.environ.get("TRITON_INTERPRET") == "1" or torch.cuda.is_available() or not COMPILER:
    pytest.skip("needs Triton's compiler and C's, and no driver", allow_module_level=True)

if not triton.__version__.startswith(("3.6.", "3.7.")):
    pytest.skip(f"the driver here is that of Triton 3.6 and 3.7, not of {triton.__version__}", allow_module_level=True)

HERE = Path(__file__).parent
HOPPER = ["hopper_forward_kernel", "delta_kernel", "hopper_grads_kernel"]
EXPECTED = {
    "hopper": HOPPER,
    "in a fixed order": [*HOPPER[:2], "hopper_grad_query_kernel", "hopper_grad_key_value_kernel"],
    "between two steps of the copy engine": HOPPER,
    "projected together": HOPPER,
    "of one head for all": HOPPER,
    "one query": HOPPER,
    "triton": ["flash_forward_kernel", "delta_kernel", "grad_query_kernel", "grad_key_value_kernel"],
    "no batch": [],
    "decode": ["split_kernel", "combine_kernel"],
    "decode, no keys": ["split_kernel", "combine_kernel"],
}


def test_the_driver_takes_every_launch(tmp_path):
    library = tmp_path / "libcuda.so.1"
    headers = Path(triton.__file__).parent / "backends/nvidia/include"
    options = ["-shared", "-fPIC", f"-I{headers}", "-Wl,-soname,libcuda.so.1"]
    subprocess.run([COMPILER, *options, HERE / "fake_cuda.c", "-o", library], check=True)
    command = [sys.executable, "-m", "reference_tests.attention.gpu.launched", library]
    environment = os.environ | {"TRITON_LIBCUDA_PATH": str(tmp_path)}
    run = subprocess.run(command, cwd=HERE.parents[2], env=environment, capture_output=True, text=True, timeout=900)
    assert run.returncode == 0, run.stdout + run.stderr
    found, threads = {}, {}
    for line in run.stdout.splitlines():
        if line.startswith("- "):
            kernels = found[line[2:]] = []
            continue
        name, _, threads[name], _ = line.split()
        kernels.append(name)
    assert found == EXPECTED
    assert {threads[name] for name in threads if name.startswith("hopper")} == {"384"}, "three warpgroups"
