"""python -m benchmarks.threads_under_load: training steps on cores that others use too.

Each core has a process that computes without end; beside them, the steps of the default run: with as many threads as
cores, which wait as OpenMP lets them, or as `scratch-transformer train` does, or passively; and with one thread.

On two cores of an AMD EPYC, in seconds, beside two such processes and beside none:

    as OpenMP lets them   17.2  1.8
    20000 turns            4.4  2.1
    passively              3.2  2.9
    1 thread               4.0  2.5
"""

import os
import subprocess
import sys
import time

STEPS, LIMIT = 20, 30
CORES = len(os.sched_getaffinity(0))
WAYS: dict[str, tuple[int, dict[str, str]]] = {
    f"{CORES} threads, waiting as OpenMP lets them": (CORES, {}),
    f"{CORES} threads, waiting 20000 turns": (CORES, {"GOMP_SPINCOUNT": "20000"}),
    f"{CORES} threads, waiting passively": (CORES, {"OMP_WAIT_POLICY": "passive"}),
    "1 thread": (1, {}),
}
OF_OPENMP = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT")


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


def measure(threads, waiting, load):
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(load)]
    environment = {name: value for name, value in os.environ.items() if name not in OF_OPENMP} | waiting
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
            for way, (threads, waiting) in WAYS.items():
                seconds = measure(threads, waiting, load)
                print(f"{STEPS} steps, {way}, beside {load} busy processes: {seconds} s", flush=True)
