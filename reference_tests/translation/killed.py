"""python -m reference_tests.translation.killed TASK FOLDER POINT...: runs that kill themselves, resumed.

TASK: translation or language, the folder whose `tiny` runs are killed.

A run kills itself with SIGKILL just before its POINT-th change of a file: writing, renaming, removing one, or a folder.
What is left is resumed, and must end like a run that was not killed. Each runs in a fork, so that torch is imported
once. Prints the number of changes of the undisturbed run; exits with 1 if any differs.
"""

import importlib
import os
import signal
import sys
from pathlib import Path

from reference_tests.translation.tiny import content

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


def told_apart(folder):
    """What is in a run, but where it is: the folder of its data."""
    return {name: data.replace(bytes(folder.parent), b"") for name, data in content(folder).items()}


def undisturbed(tiny, folder):
    count = kill_before_change(None, folder)
    tiny.run(folder)
    print(f"{count[0]} changes of files")


def killed(tiny, folder, point):
    kill_before_change(point, folder)
    tiny.run(folder)


def main():
    task, parent, *points = sys.argv[1:]
    tiny = importlib.import_module(f"reference_tests.{task}.tiny")
    whole = Path(parent, "whole", "run")
    assert in_a_fork(lambda: undisturbed(tiny, whole)) == 0
    expected, failures = told_apart(whole), 0
    for point in points:
        folder = Path(parent, point, "run")
        status = in_a_fork(lambda: killed(tiny, folder, int(point)))  # noqa: B023  (it is called at once)
        if folder.exists():  # else it was killed before there was anything to resume
            status = [status, in_a_fork(lambda: tiny.resume(folder, say=lambda line: None))]  # noqa: B023
        is_equal = not folder.exists() or told_apart(folder) == expected
        print(f"killed before change {point}: {status}, {'equal' if is_equal else 'DIFFERENT'}")
        failures += not is_equal
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
