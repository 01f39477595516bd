"""`train --on-disk` with five million generated pairs, or as many as are asked for: time and memory.

    python -m benchmarks.corpus_on_disk
    python -m benchmarks.corpus_on_disk --pairs 100000 --keep benchmarks/results

How long until the first step of the optimizer is done, of a new run and of the same run resumed, by the clock and of
the processors, and how much memory the process has then, and had at most: its own, and that of files that are mapped,
which the system may take back.

Pairs have 5 to 25 words out of 30,000, the frequent ones as much more frequent as in a language (Zipf's law). Memory is
read from /proc: Linux only.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from itertools import accumulate
from pathlib import Path
from random import Random

from scratch_transformer.benchmarking.measurement import kept

SUBJECT = "a corpus on disk"
PAIRS, WORDS, TOGETHER = 5_000_000, 30_000, 50_000
TRAIN = ["--on-disk", "--vocab-size", "8000", "--set", "training.exact_match=0", "--set", "data.validation=100"]
TRAIN += ["--set", "data.held_out=100", "--set", "training.checkpoint_every=1"]
MARK = "the first step is done: "
MEMORY = {"VmHWM": "most", "VmRSS": "then", "RssAnon": "of its own", "RssFile": "of mapped files"}
"""What Linux calls them, in megabytes."""


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
        lines = (line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
        memory = {MEMORY[name]: int(value.split()[0]) >> 10 for name, value in lines if name in MEMORY}
        found = {"seconds": time.perf_counter() - since, "of a processor": time.process_time(), **memory}
        print(MARK + json.dumps(found), flush=True)
        if "--resume" in arguments:
            sys.exit()
        return loss

    Trainer._step = first
    main(["train", *arguments])


def measure(count, folder, values):
    tsv, run = folder / "pairs.tsv", folder / "run"
    write_pairs(tsv, count)
    values |= {"pairs": count, "text": tsv.stat().st_size >> 20}
    new = ["--data", str(tsv), "--out", str(run), *TRAIN, "--steps", "1"]
    for name, arguments in {"new": new, "resumed": ["--resume", str(run), "--steps", "9"]}.items():
        command = [sys.executable, "-m", "benchmarks.corpus_on_disk", "train", *arguments]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                print(line, end="", flush=True)
                if line.startswith(MARK):
                    values[name] = json.loads(line.removeprefix(MARK))
        assert process.returncode == 0
    values["ids"] = sum(path.stat().st_size for path in (run / "data").iterdir()) >> 20


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--scratch", metavar="FOLDER", help="where there is room for some gigabytes")
    parser.add_argument("--keep", metavar="FOLDER", help="keep the result there, dated")
    options = parser.parse_args()
    with kept(SUBJECT, options.keep) as values, tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        measure(options.pairs, Path(scratch), values)
        print(json.dumps(values))


if __name__ == "__main__":
    if sys.argv[1:2] == ["train"]:
        until_the_first_step(*sys.argv[2:])
    else:
        main()
