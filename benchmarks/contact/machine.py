"""What is here, in a line of the log, and what is missing, in a line each.

python -m benchmarks.contact.machine          the exit status says whether the kernels can run
python -m benchmarks.contact.machine tests    … whether the packages of a step are here
"""

import argparse
import importlib.util
import platform

from benchmarks.contact import lines

NEEDS = {"tests": ("numpy", "pytest"), "bench": ("click", "rich", "jinja2", "matplotlib", "psutil")}
KERNELS = ("torch", "triton")


def main():
    """Say it, and exit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", nargs="?", choices=NEEDS)
    step = parser.parse_args().step
    missing = [name for name in (NEEDS[step] if step else KERNELS) if importlib.util.find_spec(name) is None]
    for name in missing:
        print(f"{step or 'the kernels'}: {name} is not installed")
    raise SystemExit(bool(missing) or not (step or has_a_gpu()))


def has_a_gpu():
    """Whether torch sees one; which, and the versions, are noted."""
    import torch
    import triton

    versions = {"python": platform.python_version(), "torch": torch.__version__, "triton": triton.__version__}
    if not torch.cuda.is_available():
        print(f"there is no GPU: torch {torch.__version__} sees none. On a processor: --dry")
        return False
    gpu = torch.cuda.get_device_properties(0)
    lines.write(
        "machine",
        **versions,
        gpu=gpu.name,
        capability=f"{gpu.major}.{gpu.minor}",
        processors=gpu.multi_processor_count,
        memory=gpu.total_memory,
    )
    return True


if __name__ == "__main__":
    main()
