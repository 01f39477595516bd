"""A process for each case: one that hangs, crashes, or leaves the GPU's context broken costs the others nothing.

    python -m benchmarks.contact.each --limit 60 --processes 4 benchmarks.contact.smoke

The module prints the names of what is left to do if it is given --list, and does one if it is given its name. Of a case
that ends without a line in the log a line is written here.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from benchmarks.contact import lines

GRACE = 5
"""Seconds for a killed process to be gone: one that waits for a broken GPU can be there for ever."""

running: set[subprocess.Popen] = set()


def main():
    """Do all that the module lists; the exit status says whether all passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.allow_abbrev = False  # of options that are the module's
    parser.add_argument("--limit", type=float, required=True, help="seconds for a case")
    parser.add_argument("--seconds", type=float, default=570, help="for all; what is at work then is cut off")
    parser.add_argument("--processes", type=int, default=1, help="at a time")
    parser.add_argument("module")
    options, rest = parser.parse_known_args()
    signal.signal(signal.SIGTERM, end)
    command = [sys.executable, "-m", options.module, *rest]
    listed = subprocess.run([*command, "--list"], stdout=subprocess.PIPE, text=True)
    if listed.returncode:
        raise SystemExit(listed.returncode)
    deadline = time.monotonic() + options.seconds
    with ThreadPoolExecutor(options.processes) as pool:
        passed = pool.map(lambda name: one([*command, name], name, options.limit, deadline), listed.stdout.split("\n"))
        raise SystemExit(0 if all(passed) else 1)


def one(command, name, limit, deadline):
    """Whether a case passed, in its own process, which is killed at its limit. Nothing is begun after the deadline."""
    left = deadline - time.monotonic()
    if not name or left <= 0:
        return not name
    before = len(lines.read())
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True
    )
    running.add(process)
    try:
        told, _ = process.communicate(timeout=min(limit, left))
    except subprocess.TimeoutExpired:
        told = killed(process)
        if limit <= left:
            lines.write("failed", name=name, error=f"did not end within {limit:g} s")
    else:
        if process.returncode and not any(name in line.values() for line in lines.read()[before:]):
            how = f"signal {-process.returncode}" if process.returncode < 0 else f"status {process.returncode}"
            lines.write("failed", name=name, error=f"ended with {how}: {lines.shortened(told)}")
    running.discard(process)
    print(told, end="", flush=True)
    return process.returncode == 0


def killed(process):
    """What it had printed."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        return process.communicate(timeout=GRACE)[0]
    except subprocess.TimeoutExpired:
        return ""


def end(*_):
    """Take along what is at work."""
    for process in list(running):
        killed(process)
    os._exit(128 + signal.SIGTERM)


if __name__ == "__main__":
    main()
