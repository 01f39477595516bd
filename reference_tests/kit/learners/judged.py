"""What must be true of the kit's results on the corpus."""

from reference_tests.kit.learners.checked import check_here
from reference_tests.kit.learners.corpus import STYLES
from reference_tests.kit.learners.expected import ALSO, EXPECTED
from scratch_transformer.kit.report.finding import FINE


def judge_correct(style):
    """Complaints about a style that is right: each component that is not recognised, and each alarm."""
    results = check_here(STYLES[style])
    complaints = [f"{name}: not found" for name in EXPECTED[style] if name not in results]
    for name, result in results.items():
        wanted = EXPECTED[style].get(name)
        alarms = result.severe
        if alarms or result.verdict == "mistake":
            complaints.append(f"{name}: false alarm {alarms or result.inherited}")
        elif wanted and result.verdict not in FINE:
            complaints.append(
                f"{name}: {result.verdict} as {result.kind} {result.problem or result.divergence}".strip()
            )
        elif wanted and result.kind not in (wanted, *ALSO.get(wanted, ())):
            complaints.append(f"{name}: taken for {result.kind}, is a {wanted}")
    return complaints


def judge_mistaken(mistaken, folder):
    """Complaints about a version with mistakes: they must be named in its component, and no other."""
    path = mistaken.write(folder)
    result = check_here(path, {mistaken.component}).get(mistaken.component)
    if result is not None and result.verdict in ("unknown mismatch", "crashed"):  # so far without its parts
        result = check_here(path)[mistaken.component]
    if result is None:
        return ["not found"]
    wanted = set(mistaken.ids.split())
    named = {found.id for found in result.mistakes} | set(result.inherited)
    others = {found.id for found in result.mistakes if found.severity == "mistake"} - wanted
    complaints = [
        f"{id} not named: {result.verdict} as {result.kind} {result.problem}" for id in sorted(wanted - named)
    ]
    return complaints + [f"{id} named, which is not there" for id in sorted(others)]
