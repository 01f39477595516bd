"""What a first contact has shown so far: what passed, what was fastest, and what to change.

python -m benchmarks.contact.summary
"""

from collections import Counter

from benchmarks.contact import choices, lines, smoke
from scratch_transformer.benchmarking.timing import geometric_mean

CLEAR = 1.02
"""A choice is changed for so much."""


def main():
    """Print it, from the log."""
    for part in (of_machine, of_smoke, of_tests, of_steps, of_race, of_choices):
        for line in part():
            print(line)


def of_machine():
    """Where it was."""
    for line in lines.read("machine")[-1:]:
        versions = ", ".join(f"{name} {line[name]}" for name in ("python", "torch", "triton"))
        yield f"{line['gpu']}, {line['processors']} processors, {line['memory'] / 2**30:.0f} GiB; {versions}"


def of_smoke():
    """Every first launch: which passed, failed, or never ended."""
    found = {line["name"]: line["error"] for line in lines.read("failed")}
    found |= {line["name"]: line["told"] for line in lines.read("smoke")}
    known = smoke.DRY if found.keys() & smoke.DRY.keys() else smoke.CASES
    passed = {line["name"] for line in lines.read("smoke") if line["passed"]} & known.keys()
    yield f"first launches: {len(passed)} of {len(known)} passed"
    for name in known:
        if name not in passed:
            yield f"  {name}: {found.get(name, 'not run yet')}"


def of_tests():
    """How many tests passed, and why others failed, the last time."""
    found = {line["name"]: line for line in lines.read("test")}
    count = Counter(line["outcome"] for line in found.values())
    if found:
        yield "tests: " + ", ".join(f"{number} {outcome}" for outcome, number in sorted(count.items()))
    for name, line in found.items():
        if line["outcome"] == "failed":
            yield f"  {name}: {line['told']}"


def of_steps():
    """How each step ended, and what failed in it and was not done later."""
    for line in {line["name"]: line for line in lines.read("step")}.values():
        status = "passed" if line["status"] == 0 else f"status {line['status']}"
        yield f"step {line['name']}: {status}, {line['seconds']} s"
    done = {line["case"] for line in lines.read("race")}
    done |= {f"{line['name']} {line['case']}" for line in lines.read("choice")} | smoke.CASES.keys()
    for name, error in {line["name"]: line["error"] for line in lines.read("failed")}.items():
        if name not in done:
            yield f"  failed: {name}: {error}"


def of_race():
    """The rates of each case, ours beside the best of PyTorch's, and the means that the goals are about."""
    ratios = {}
    for line in lines.read("race"):
        ours = {name: rate for name, rate in line["rates"].items() if name.startswith("ours")}
        theirs = {name: rate for name, rate in line["rates"].items() if not name.startswith("ours")}
        told = ", ".join(f"{name} {rate:.3g}" for name, rate in line["rates"].items())
        yield f"{line['case']}: {told} TFLOP/s" + "".join(f"; {name} {why}" for name, why in line["out"].items())
        for name, rate in ours.items():
            if theirs:
                direction = line["case"].rpartition("-")[2]
                ratios.setdefault((direction, name), []).append(rate / max(theirs.values()))
    for (direction, name), values in sorted(ratios.items()):
        mean = geometric_mean(values)
        yield f"{direction}, {name}: {mean:.2f} of the best of PyTorch's, geometric mean of {len(values)}"


def of_choices():
    """Each alternative beside what is shipped, and what to change."""
    found = {}
    for line in lines.read("choice"):
        found.setdefault(line["name"], []).append(line)
    known = choices.CHOICES | choices.DRY
    for name, measured in found.items():
        mean = geometric_mean([line["speedup"]["median"] for line in measured])
        cases = ", ".join(f"{short(line['case'])} {line['speedup']['median']:.2f}" for line in measured)
        advice = f"CHANGE {known[name].change}" if mean > CLEAR else "keep what is shipped"
        yield f"{name}: {mean:.3f} times as fast ({cases}): {advice}"


def short(case):
    """Its name without what all have."""
    return case.removeprefix("attention-").replace("-bfloat16", "")


if __name__ == "__main__":
    main()
