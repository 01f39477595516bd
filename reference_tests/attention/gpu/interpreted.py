"""Where kernels in Triton are tested: on a GPU, or on the CPU in Triton's interpreter (`tox -e kernels`)."""

import os

import pytest
import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
MARKS = [
    pytest.mark.skipif(
        not INTERPRETED and not torch.cuda.is_available(), reason="needs a GPU, or the interpreter: tox -e kernels"
    ),
    # Triton 3.6's interpreter takes a loop's bounds for numbers, which are arrays
    pytest.mark.filterwarnings("ignore:Conversion of an array with ndim > 0:DeprecationWarning"),
]
DEVICE = torch.device("cpu" if INTERPRETED else "cuda")
DTYPES = [torch.float32, torch.float16] + [torch.bfloat16] * (not INTERPRETED)
