"""Our kernels beside PyTorch's, and each of our choices beside its alternatives: a line a case.

    python -m benchmarks.contact.race --list               24 shapes, forward and backward, full and causal
    python -m benchmarks.contact.race NAME                 one of them
    python -m benchmarks.contact.race --choices --list     what the compiler can't tell: stages, slots, order, passes
    python -m benchmarks.contact.race --choices NAME       one of them

Cases that are in the log already are not listed, nor repeated: whatever was cut off goes on where it stopped.
"""

import argparse
import functools
import traceback

from benchmarks.contact import choices, lines, smoke
from scratch_transformer.benchmarking import grid, race
from scratch_transformer.benchmarking.attention_case import AttentionCase
from scratch_transformer.benchmarking.case import Rival
from scratch_transformer.benchmarking.timing import Effort, batch_of, interleave, ratio, spread, timer_of

RIVALS = ("ours hopper", "ours triton", "torch flash", "torch efficient", "torch cudnn")
DRY_RIVALS = ("ours tiled", "ours naive", "torch flash")
EFFORT = {False: Effort(10, 0.7), True: Effort(2, 0.05)}
SHAPES = [(length, width) for width in (128, 64) for length in (2048, 512, 8192)]
OF_CHOICES = [grid.on_cuda(4096, 128), grid.on_cuda(1024, 128), grid.on_cuda(4096, 64), (1, 8, 4096, 128)]


def cases(is_dry):
    """The most telling first."""
    if is_dry:
        return [AttentionCase(1, 2, 48, 16, "bfloat16", d, c) for d in ("forward", "backward") for c in (False, True)]
    shapes = [grid.on_cuda(*shape) for shape in SHAPES]
    wanted = [(direction, is_causal) for direction in ("forward", "backward") for is_causal in (False, True)]
    return [AttentionCase(*shape, "bfloat16", *kind) for shape in shapes for kind in wanted]


def run_case(case, device, effort, rivals):
    """One line: TFLOP/s of everybody, and our best ratio."""
    left_out = {rival.name: "not in this race" for rival in case.rivals(device) if rival.name not in rivals}
    stuck = {name: smoke.stuck(name.removeprefix("ours "), case.D) for name in rivals if name.startswith("ours")}
    left_out |= {name: reason for name, reason in stuck.items() if reason}
    lineup = race.line_up(case, device, left_out)
    durations = interleave(lineup.ready, timer_of(device), effort, batch_of(device))
    rates = {name: case.flops / spread(seconds).median / 1e12 for name, seconds in durations.items()}
    out = {name: f"{r.status}: {r.reason}" for name, r in lineup.out.items() if name in rivals}
    lines.write("race", case=case.name, rates={name: float(f"{rate:.4g}") for name, rate in rates.items()},
                errors={name: lineup.errors[name] for name in rates}, out=out)  # fmt: skip


def run_choice(name, choice, case, device, effort):
    """One line: how many times as fast the alternative is as what is shipped, each checked first."""
    rival = Rival(f"ours {choice.algorithm}", is_ours=True)
    inputs = case.draw(device)
    right = case.golden(inputs)
    shipped = case.prepare(rival, inputs)
    other = choices.under(case.prepare(rival, inputs), choice)
    for prepared in (shipped, other):
        case.check(prepared.outcome(), right)
    durations = interleave({"shipped": shipped, "other": other}, timer_of(device), effort, batch_of(device))
    speedup = {name: round(value, 4) for name, value in vars(ratio(durations["shipped"], durations["other"])).items()}
    rate = case.flops / spread(durations["shipped"]).median / 1e12
    lines.write("choice", name=name, case=case.name, speedup=speedup, rate=float(f"{rate:.4g}"))


def of_choice(choice, is_dry):
    """The cases that a choice is about."""
    if is_dry:
        return cases(True)[:1]
    shapes = [shape for shape in OF_CHOICES if choice.width in (None, shape[-1])]
    kinds = [(direction, is_causal) for direction in choice.directions for is_causal in choice.causal]
    return [AttentionCase(*shape, "bfloat16", *kind) for shape in shapes for kind in kinds]


def main():
    """List what is not in the log yet, or do one of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?")
    parser.add_argument("--choices", action="store_true", help="our choices, instead of the race")
    parser.add_argument("--list", action="store_true", help="the names of what is left to do")
    parser.add_argument("--dry", action="store_true", help="tiny cases, on a processor")
    options = parser.parse_args()
    left = (choices_left if options.choices else cases_left)(options.dry)
    if options.list:
        print("\n".join(left))
        return
    if options.name not in left:
        print(f"{options.name}: it is done, or there is no such case, or its kernels hang")
    for name, job in left.get(options.name, {}).items():
        try:
            job("cpu" if options.dry else "cuda", EFFORT[options.dry])
        except Exception as error:  # one case must not cost the others
            traceback.print_exc()
            lines.write("failed", name=name, error=lines.shortened(f"{type(error).__name__}: {error}"))


def cases_left(is_dry):
    """Name -> what is to be done: of each race one thing."""
    done, rivals = {line["case"] for line in lines.read("race")}, DRY_RIVALS if is_dry else RIVALS
    jobs = {case.name: functools.partial(run_case, case, rivals=rivals) for case in cases(is_dry)}
    return {name: {name: job} for name, job in jobs.items() if name not in done}


def choices_left(is_dry):
    """Name -> what is to be done: of each choice its cases. Of kernels that hang there is none to be made."""
    done, left = {(line["name"], line["case"]) for line in lines.read("choice")}, {}
    for name, choice in (choices.DRY if is_dry else choices.CHOICES).items():
        jobs = {
            f"{name} {case.name}": functools.partial(run_choice, name, choice, case)
            for case in of_choice(choice, is_dry)
            if (name, case.name) not in done
        }
        if jobs and not smoke.stuck(choice.algorithm, choice.width):
            left[name] = jobs
    return left


if __name__ == "__main__":
    main()
