"""Runs `scratch-transformer check` on the tutorials' code and writes what it finds into docs/findings.md.

python -m docs.measure_findings
"""

from pathlib import Path

import torch

from docs.measure_tutorials import replaced, table
from reference_tests.kit.learners.checked import check_here

PAGE = Path(__file__).parent / "findings.md"
CODE = Path(__file__).parents[1] / "reference_tests" / "as_taught"
TUTORIALS = ("a", "b", "d", "e")
ORDER = ("mistake", "paper", "harmless", "note")


def main():
    """Write the page anew."""
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), tables()), encoding="utf-8")


def tables(tutorials=TUTORIALS):
    """Name -> table, for every place in the page that has to do with these tutorials."""
    found = {tutorial: checked(tutorial) for tutorial in tutorials}
    written = {
        "all": table(
            ("tutorial", "components", "as PyTorch", "mistakes", "harmless, or worth knowing"), overview(found)
        )
    }
    for tutorial, results in found.items():
        rows = [component(result) for result in results.values()]
        written[tutorial] = table(("class", "is a", "verdict", "found in it", "found in its parts"), rows)
        written[f"{tutorial}-numbers"] = "\n".join(numbers(results)) or "Nothing."
    return written


def checked(tutorial):
    """The results by class."""
    torch.manual_seed(0)
    return check_here(CODE / f"tutorial_{tutorial}.py")


def overview(found):
    """A row for each tutorial."""
    for tutorial in ("a", "b", "c", "d", "e"):
        results = list(found.get(tutorial, {}).values())
        if not results:
            yield tutorial.upper(), "0", "", "no code in the text", ""
            continue
        named = {named.id: named for result in results for named in result.mistakes}
        right = sum(result.verdict.startswith("matches") for result in results)
        yield tutorial.upper(), str(len(results)), str(right), ids(named, ("mistake",)), ids(named, ORDER[1:])


def ids(named, severities):
    """Those of these severities."""
    return ", ".join(sorted(id for id, mistake in named.items() if mistake.severity in severities)) or "none"


def component(result):
    """A row for a class."""
    design = f", {result.design}" if result.design else ""
    own = ", ".join(named.id for named in result.mistakes)
    return f"`{result.name}`", result.kind + design, result.verdict, own, ", ".join(sorted(result.inherited))


def numbers(results):
    """What shows each finding, said once, where it was found first."""
    said = set()
    for result in results.values():
        for named in result.mistakes:
            if named.id not in said:
                said.add(named.id)
                yield f"- **{named.id}**, {named.title} (`{result.name}`). {named.evidence}"


if __name__ == "__main__":
    main()
