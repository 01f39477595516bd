"""The command in a process of its own, with a limit of the system."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def limited(limit, value, *arguments, **settings):
    """How it ends. It writes no bytecode, which a limit of the size of files would cut short for all who come after:
    Python takes a file that is written in part for one that is written."""
    code = f"import resource; resource.setrlimit(resource.{limit}, ({value}, {value})); "
    code += "from scratch_transformer.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-B", "-c", code, *arguments], capture_output=True, text=True, cwd=ROOT, **settings
    )
    assert "Traceback" not in done.stderr
    return done
