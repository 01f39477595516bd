"""Writes the tables of docs/tutorials.md: each class of each tutorial, its name here, and how far it is from PyTorch.

    python -m docs.measure_tutorials

measures and rewrites what stands between the markers.
"""

import re
from pathlib import Path

import torch

from docs.tutorials import rows
from scratch_transformer import masks, model

PAGE = Path(__file__).parent / "tutorials.md"
HEAD = ("in the tutorial", "here", "the tutorial's, beside PyTorch's")
BASE = {"src_vocab_size": 37000, "tgt_vocab_size": 37000, "src_seq_len": 4096, "tgt_seq_len": 4096}
SMALL = re.compile(r"layers\.[1-9]|dropout|\.w_|\.linear_|\.embedding|\.proj$")  # left out of the calling sequence


def tables():
    """Name of the marker -> table, measured now."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    made = {"calls": calls(), "parameters": parameters()}
    try:
        for name in ("ours", "a", "b", "c", "d", "e"):
            torch.manual_seed(0)
            lines = getattr(rows, f"rows_{name}")()
            made[name] = table(("here", "beside PyTorch's") if name == "ours" else HEAD, lines)
    finally:
        torch.set_default_dtype(before)
    return made


def calls():
    """What is called, in which order and with what result, in one forward pass of the example configuration."""
    with torch.device("meta"):  # shapes without numbers
        transformer = model.build_transformer(**BASE, share_embeddings="all")
        src, tgt = torch.zeros(128, 20, dtype=torch.long), torch.zeros(128, 30, dtype=torch.long)
        src_mask, tgt_mask = masks.padding(src, 0), masks.padding(tgt, 0) & masks.causal(30)
    lines = []
    for name, module in transformer.named_modules():
        if name and not SMALL.search(name):
            module.register_forward_pre_hook(lambda *_, name=name: lines.append([name, None]))
            module.register_forward_hook(lambda m, _, out, name=name: _returned(lines, name, type(m), out))
    transformer(src, tgt, src_mask, tgt_mask)
    return table(("called", "class", "returns"), lines)


def _returned(lines, name, kind, output):
    line = next(line for line in lines if line[:2] == [name, None])
    line[:] = [f"`{name}`", f"`{kind.__name__}`", " × ".join(map(str, output.shape))]


def parameters():
    """The number of parameters of the example configuration, with and without one matrix for all embeddings."""
    lines = []
    for share in ("none", "target", "all"):
        with torch.device("meta"):
            transformer = model.build_transformer(**BASE, share_embeddings=share)
        lines.append([f'`share_embeddings="{share}"`', f"{sum(p.numel() for p in transformer.parameters()):,}"])
    return table(("37,000 tokens, shared", "parameters"), lines)


def table(head, rows):
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def replaced(page, made):
    """`page` with what stands between <!-- measured: NAME --> and <!-- end --> replaced by made[NAME]."""

    def block(match):
        return f"{match[1]}\n{made[match[2]]}\n{match[3]}"

    return re.sub(r"(<!-- measured: ([\w-]+) -->)\n.*?(<!-- end -->)", block, page, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), tables()), encoding="utf-8")
