"""How to cite: from CITATION.cff and the releases' certificates."""

from pathlib import Path

import yaml

from docs.site.proof import certificate

CITATION = Path(__file__).parents[2] / "CITATION.cff"


def bibtex():
    """The entry of the software."""
    found = yaml.safe_load(CITATION.read_text(encoding="utf-8"))
    fields = {
        "title": f"{{{found['title']}}}",
        "author": f"{{{' and '.join(person(author) for author in found['authors'])}}}",
        "version": f"{{{found['version']}}}",
        "year": f"{{{certificate()['date'][:4]}}}",
    }
    return entry("software", "scratch_transformer", fields)


def paper():
    """The entry of the paper whose model it is."""
    (found,) = yaml.safe_load(CITATION.read_text(encoding="utf-8"))["references"]
    fields = {
        "title": found["title"],
        "author": " and ".join(person(author) for author in found["authors"]),
        "booktitle": found["collection-title"],
        "year": str(found["year"]),
    }
    return entry("inproceedings", "vaswani2017attention", {name: f"{{{value}}}" for name, value in fields.items()})


def person(author):
    """A person's name as BibTeX has it, or an organization's, which must not be taken apart."""
    if "name" in author:
        return f"{{{author['name']}}}"
    return f"{author['family-names']}, {author['given-names']}"


def entry(kind, key, fields):
    """A BibTeX entry as a block."""
    lines = "\n".join(f"  {name} = {value}," for name, value in fields.items())
    return f"```bibtex\n@{kind}{{{key},\n{lines}\n}}\n```"


def sentence():
    """What one may write, with the numbers of the latest release."""
    found = certificate()
    where, all_of_it = found["environment"], found["summary"]
    worst = max(all_of_it["output_error"], all_of_it["gradient_error"])
    return (
        f"> We used scratch_transformer {where['scratch_transformer']}, whose {len(found['components'])} components "
        f"equal those of PyTorch {where['torch'].partition('+')[0]} in {all_of_it['definitions']} configurations, "
        f"outputs and gradients, to a relative error of {worst:.0e} in float64; in lower precision its rounding error "
        f"is on average {all_of_it['mean_ratio']:.2f} times PyTorch's own."
    )
