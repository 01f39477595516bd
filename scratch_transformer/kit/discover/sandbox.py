"""Keeps a learner's code from harming: no network, no other programs, no writing but in one folder, limits.

For the child process only: an audit hook cannot be taken off again, nor can limits be raised again. It guards against
accidents (a download at import, a checkpoint written beside the file, an endless loop), not against malice.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from scratch_transformer.kit import clock

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
NETWORK = ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "socket.bind")
PROGRAMS = ("subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn")
PATHS = (
    "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink", "os.chmod", "os.chown",
    "shutil.rmtree", "shutil.move", "shutil.copyfile",
)  # fmt: skip

SOON, NEAR = 0.005, 6
"""Seconds until time is up again; frames that are looked at."""


class Blocked(OSError):
    """What the learner's code may not do here."""


class Offline(Blocked):
    """An attempt to use the network."""


class TimeUp(BaseException):
    """The learner's code ran too long. No Exception, so that `except Exception` does not swallow it."""


class Guard:
    """The audit hook: it is there for good, and acts while `active`."""

    def __init__(self, folder: str) -> None:
        self.folder = os.path.realpath(folder)
        self.active = False
        self.attempts: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.active:
            return
        if event in NETWORK:
            self._refuse(Offline("the code wants to use the network; there is none while it is checked"))
        elif event in PROGRAMS:
            self._refuse(Blocked(f"the code wants to start another program ({event}); it may not while it is checked"))
        elif (event == "open" and self._writes(args)) or (event in PATHS and not self._inside(args[0])):
            self._refuse(Blocked(f"the code wants to write {args[0]!r}; it may not while it is checked"))

    def _refuse(self, error: Blocked) -> None:
        self.attempts.append(str(error))
        raise error

    def _writes(self, args: tuple[Any, ...]) -> bool:
        path, mode, flags = args
        writes = any(letter in mode for letter in "wax+") if isinstance(mode, str) else bool((flags or 0) & WRITING)
        return writes and not self._inside(path)

    def _inside(self, path: Any) -> bool:
        if isinstance(path, int):
            return True
        with contextlib.suppress(TypeError, ValueError):
            real = os.path.realpath(os.fsdecode(path))
            return real == os.devnull or real.startswith((self.folder + os.sep, "/dev/"))
        return True

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        """Active within the block."""
        before, self.active = self.active, True
        try:
            yield
        finally:
            self.active = before


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises TimeUp in the block after so many seconds of computing. Where there are no such timers: no limit.

    It counts the process's own time, so that a busy machine stops nobody; the parent's watch ends what only waits.
    Nothing is stopped while a `with` is entered or left: torch would stay without gradients, or in double precision.
    """
    if not hasattr(signal, "setitimer"):
        yield
        return

    is_over = False

    def stop(number: int, frame: FrameType | None) -> None:
        if is_over:  # it was under way when the timer was put off
            return
        if _switches(frame):
            signal.setitimer(signal.ITIMER_PROF, SOON, 1.0)
            return
        raise TimeUp(f"it was stopped after {seconds:g} s of computing")

    before = signal.signal(signal.SIGPROF, stop)
    # Again every second: a bare `except:` in the learner's loop would swallow the first.
    signal.setitimer(signal.ITIMER_PROF, clock.lasting(seconds), 1.0)
    try:
        yield
    finally:
        is_over = True
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _switches(frame: FrameType | None) -> bool:
    """Whether a context is being entered or left in a frame or in one of the few that called it."""
    for _ in range(NEAR):
        if frame is None:
            return False
        if frame.f_code.co_name in ("__enter__", "__exit__"):
            return True
        frame = frame.f_back
    return False


def limit_memory(megabytes: int) -> None:
    """So much memory besides what is in use now, and no core files. Linux only; elsewhere there is no such limit."""
    try:
        import resource

        with open("/proc/self/statm", encoding="ascii") as statm:
            used = int(statm.read().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):
        return
    for limit, value in ((resource.RLIMIT_AS, used + megabytes * 2**20), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(limit)[1]
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(limit, (value if hard < 0 else min(value, hard), hard))


def no_debugger() -> None:
    """breakpoint() and pdb.set_trace(), which were left in a forward, go on: nobody is there to answer."""
    import pdb  # noqa: T100

    sys.breakpointhook = pdb.set_trace = lambda *given, **options: None


def quiet_environment() -> dict[str, str]:
    """Environment variables for the child: no GPU, no windows, no compilers, no downloads, nothing written."""
    return {
        "CUDA_VISIBLE_DEVICES": "", "MPLBACKEND": "Agg", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0",
        "TORCHDYNAMO_DISABLE": "1", "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1",
        "WANDB_MODE": "disabled", "TOKENIZERS_PARALLELISM": "false", "PYTHONIOENCODING": "utf-8",
    }  # fmt: skip
