"""python -m reference_tests.translation.killed FOLDER POINT...: runs that kill themselves, resumed.

A run kills itself with SIGKILL just before its POINT-th change of a file: writing, renaming, removing one, or a folder.
What is left is resumed, and must end like a run that was not killed. Each runs in a fork, so that torch is imported
once. Prints the number of changes of the undisturbed run; exits with 1 if any differs.
"""

import os
import signal
import sys
from pathlib import Path

from reference_tests.translation import tiny
from scratch_transformer.translation.train import resume

CHANGES = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "shutil.rmtree"}


def kill_before_change(point, folder):
    """Count the changes in `folder` from now on; print them at the end where point is None."""
    count = [0]

    def watch(event, arguments):
        if event not in CHANGES or not isinstance(arguments[0], (str, Path)) or "tensorboard" in str(arguments[0]):
            return
        reads = event == "open" and not (arguments[2] & (os.O_WRONLY | os.O_RDWR))
        if not reads and str(arguments[0]).startswith(str(folder.parent)):
            count[0] += 1
            if count[0] == point:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    return count


def in_a_fork(function):
    """The exit status of a function, or minus the signal that ended it."""
    sys.stdout.flush()  # or the child prints it once more
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            function()
            status = 0
        finally:
            sys.stdout.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def undisturbed(folder):
    count = kill_before_change(None, folder)
    tiny.run(folder)
    print(f"{count[0]} changes of files")


def killed(folder, point):
    kill_before_change(point, folder)
    tiny.run(folder)


def main():
    parent, *points = sys.argv[1:]
    whole = Path(parent, "whole", "run")
    assert in_a_fork(lambda: undisturbed(whole)) == 0
    expected, failures = tiny.content(whole), 0
    for point in points:
        folder = Path(parent, point, "run")
        status = in_a_fork(lambda: killed(folder, int(point)))  # noqa: B023  (it is called at once)
        if folder.exists():  # else it was killed before there was anything to resume
            status = [status, in_a_fork(lambda: resume(folder, say=lambda line: None))]  # noqa: B023
        is_equal = not folder.exists() or tiny.content(folder) == expected
        print(f"killed before change {point}: {status}, {'equal' if is_equal else 'DIFFERENT'}")
        failures += not is_equal
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
