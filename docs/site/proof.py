"""What is proved, measured while the site is built, and what the certificates of the releases say."""

import functools
import json
from pathlib import Path

import torch

from docs import measure_proof
from docs.measure_tutorials import table
from docs.site.catalogue import plain

CERTIFICATES = Path(__file__).parents[1] / "certificates"


@functools.cache
def measured():
    """The table's rows, each component compared with its builtin in all cases now."""
    from scratch_transformer.conformance import COMPONENTS
    from scratch_transformer.conformance.verify import exact

    with exact():
        return [measure_proof.row(component) for component in COMPONENTS.values()]


def home():
    """The table of the home page: what, how often, how far apart."""
    rows = [
        (f"`{name.strip('`').rpartition('.')[2]}`", cases, outputs, gradients)
        for name, _, cases, outputs, gradients, _ in measured()
    ]
    return table(("equal to torch's", "cases", "outputs", "gradients"), rows)


def sentence():
    """The table in one sentence."""
    cases = sum(int(row[2]) for row in measured())
    worst = max(float(error) for row in measured() for error in row[3:])
    return (
        f"{len(measured())} components, {cases} cases, compared on the machine that built this page with torch "
        f"{torch.__version__}: no output and no gradient differs by more than {worst:.0e} of its size."
    )


def certificate():
    """The latest release's."""
    file = max(CERTIFICATES.glob("*.json"), key=lambda file: tuple(map(int, file.stem.split("."))))
    return json.loads(file.read_text(encoding="utf-8"))


def excerpt(*keys):
    """A part of the latest release's certificate, by the names that lead to it; lists cut after their first entry."""
    part = certificate()
    for key in keys:
        part = part[int(key) if isinstance(part, list) else key]
    shown = (
        {key: part[key] for key in part if not isinstance(part[key], (list, dict))} if len(str(part)) > 3000 else part
    )
    return f"```json\n{json.dumps(shown, indent=2, ensure_ascii=False)}\n```"


def releases():
    """Every release that has a certificate: where it was verified, and the numbers."""
    rows = []
    for file in sorted(CERTIFICATES.glob("*.json"), reverse=True):
        found = json.loads(file.read_text(encoding="utf-8"))
        where, all_of_it = found["environment"], found["summary"]
        rows.append(
            (
                f"[{file.stem}](certificates/{file.name})",
                found["date"][:10],
                f"{where['torch']}, Python {where['Python']}",
                where["processor"],
                "everything passed" if found["verdict"]["passed"] else "NOT EVERYTHING PASSED",
                str(all_of_it["cases"]),
            )
        )
    return table(("version", "verified on", "torch", "processor", "result", "cases"), rows)


def verdict():
    """The latest release's, in its own words."""
    return f"> {certificate()['verdict']['sentence']}"


def case(name):
    """The first case of a component, as the certificate has it."""
    component = next(component for component in certificate()["components"] if component["name"] == name)
    return f"```json\n{json.dumps(component['cases'][0], indent=2, ensure_ascii=False)}\n```"


def definitions():
    """What every number of a certificate means, from the certificate."""
    return "\n".join(f"{name}\n: {plain(words)}\n" for name, words in certificate()["definitions"].items())
