"""python -m benchmarks.threads_under_load: training steps on cores that others use too.

Each core has a process that computes without end; beside them, the steps of the default run: with as many threads as
cores that wait actively or passively (OMP_WAIT_POLICY), and with one thread.
"""

import os
import subprocess
import sys
import time

STEPS, LIMIT = 20, 30
CORES = len(os.sched_getaffinity(0))
WAYS = {
    f"{CORES} threads, waiting actively": (CORES, "active"),
    f"{CORES} threads, waiting as they like": (CORES, None),
    f"{CORES} threads, waiting passively": (CORES, "passive"),
    "1 thread": (1, None),
}


def steps(threads):
    """Seconds of the steps alone, in this process."""
    import tempfile
    from pathlib import Path

    import torch

    from scratch_transformer.translation import config, trainer
    from scratch_transformer.translation.train import train

    torch.set_num_threads(threads)
    spent, step = [], trainer.Trainer._step

    def timed(self, batch):
        since = time.perf_counter()
        loss = step(self, batch)
        spent.append(time.perf_counter() - since)
        return loss

    trainer.Trainer._step = timed
    settings = config.preset("tiny").replace(**{"training.steps": STEPS, "training.exact_match": 0, "data.pairs": 2500})
    with tempfile.TemporaryDirectory() as folder:
        train(settings, Path(folder) / "run", say=lambda line: None)
    print(sum(spent))


def measure(threads, policy, load):
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(load)]
    environment = {
        name: value for name, value in os.environ.items() if name not in ("OMP_NUM_THREADS", "OMP_WAIT_POLICY")
    }
    environment |= {"OMP_WAIT_POLICY": policy} if policy else {}
    command = [sys.executable, "-m", "benchmarks.threads_under_load", str(threads)]
    try:
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=LIMIT, check=True
        ).stdout.strip()
    except subprocess.TimeoutExpired:
        return "more than " + str(LIMIT)
    finally:
        for other in others:
            other.kill()
            other.wait()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        steps(int(sys.argv[1]))
    else:
        for load in (CORES, 0):
            for way, (threads, policy) in WAYS.items():
                seconds = measure(threads, policy, load)
                print(f"{STEPS} steps, {way}, beside {load} busy processes: {seconds} s", flush=True)
