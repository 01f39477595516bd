"""python -m benchmarks.corpus_on_disk [PAIRS] [FOLDER]: `train --on-disk` with that many generated pairs, 5,000,000.

How long until the first step of the optimizer is done, of a new run and of the same run resumed, and how much memory
the process has then, and had at most: its own, and that of files that are mapped, which the system may take back.

Pairs have 5 to 25 words out of 30,000, the frequent ones as much more frequent as in a language (Zipf's law). Memory is
read from /proc: Linux only.
"""

import subprocess
import sys
import tempfile
import time
from itertools import accumulate
from pathlib import Path
from random import Random

PAIRS, WORDS, TOGETHER = 5_000_000, 30_000, 50_000
TRAIN = ["--on-disk", "--vocab-size", "8000", "--set", "training.exact_match=0", "--set", "data.validation=100"]
TRAIN += ["--set", "data.held_out=100", "--set", "training.checkpoint_every=1"]
MEMORY = {"VmHWM": "most", "VmRSS": "then", "RssAnon": "of its own", "RssFile": "of mapped files"}


def write_pairs(path, count):
    random = Random(0)
    syllables = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
    words = ["".join(random.choices(syllables, k=random.randint(1, 4))) for _ in range(WORDS)]
    weights = list(accumulate(1 / rank for rank in range(1, WORDS + 1)))
    with path.open("w") as file:
        for start in range(0, count, TOGETHER):
            lengths = random.choices(range(5, 26), k=2 * min(TOGETHER, count - start))
            drawn = iter(random.choices(words, cum_weights=weights, k=sum(lengths)))
            texts = [" ".join(next(drawn) for _ in range(length)) for length in lengths]
            file.writelines(f"{a}\t{b}\n" for a, b in zip(texts[::2], texts[1::2], strict=True))


def until_the_first_step(*arguments):
    """In a process of its own: the command, which stops after its first step and tells."""
    since = time.perf_counter()
    from scratch_transformer.cli import main
    from scratch_transformer.translation.trainer import Trainer

    step = Trainer._step

    def first(self, batch):
        loss = step(self, batch)
        lines = Path("/proc/self/status").read_text().splitlines()
        found = {
            name: int(value.split()[0]) >> 10 for name, value in (line.split(":") for line in lines) if name in MEMORY
        }
        words = ", ".join(f"{found[name]:,} MB {words}" for name, words in MEMORY.items())
        print(f"the first step is done after {time.perf_counter() - since:.0f} s; memory: {words}", flush=True)
        if "--resume" in arguments:
            sys.exit()
        return loss

    Trainer._step = first
    main(["train", *arguments])


def measure(count, folder):
    tsv, run = folder / "pairs.tsv", folder / "run"
    write_pairs(tsv, count)
    print(f"{count:,} pairs, {tsv.stat().st_size >> 20:,} MB", flush=True)
    for arguments in (
        ["--data", str(tsv), "--out", str(run), *TRAIN, "--steps", "1"],
        ["--resume", str(run), "--steps", "9"],
    ):
        subprocess.run([sys.executable, "-m", "benchmarks.corpus_on_disk", *arguments], check=True)
    print(f"{sum(path.stat().st_size for path in (run / 'data').iterdir()) >> 20:,} MB in {run.name}/data")


if __name__ == "__main__":
    if len(sys.argv) > 3:
        until_the_first_step(*sys.argv[1:])
    else:
        given = [int(sys.argv[1].replace(",", ""))] if len(sys.argv) > 1 else [PAIRS]
        with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as scratch:
            measure(given[0], Path(scratch))
