"""Pictures of how each attention algorithm cuts the matrix of scores, drawn from what the algorithms themselves say."""

import ast
import re
from collections import namedtuple
from pathlib import Path

import torch

from docs.site.drawing import figure, line, rect, text
from scratch_transformer import attention, masks
from scratch_transformer.attention.algorithms import KERNELS
from scratch_transformer.attention.tiled.problem import Problem

T, S, HEADS, D = 2048, 2048, 8, 64
SIDE = 210
GPU = Path(attention.__file__).parent / "gpu"
MIB = 1 << 20

CASES = {  # name -> (is_causal, window)
    "every key": (False, (None, None)),
    "causal": (True, (None, None)),
    "causal, a window of 256": (True, (256, None)),
}


def tiled():
    """The tiles of `tiled` for three calls, in the order in which they are computed."""
    shapes, widest = [], 0
    for column, (name, (is_causal, window)) in enumerate(CASES.items()):
        x = 70 + column * (SIDE + 30)
        tiles = tiles_of(is_causal, window)
        share = sum((t1 - t0) * (s1 - s0) for t0, t1, s0, s1 in tiles) / (T * S)
        shapes += [rect(x, 40, SIDE, SIDE), text(x, 20, name, kind="strong")]
        shapes += [text(x, 34, f"{len(tiles)} tiles, {share:.0%} of the scores", kind="faint")]
        shapes += [square(x, 40, tile, n / len(tiles)) for n, tile in enumerate(tiles)]
        widest = max(widest, *((t1 - t0) * (s1 - s0) for t0, t1, s0, s1 in tiles))
    shapes += [text(60, 50, "query 0", "end", "faint"), text(60, 40 + SIDE, f"query {T - 1}", "end", "faint")]
    shapes += [text(70, SIDE + 56, "key 0", kind="faint"), text(70 + SIDE, SIDE + 56, f"key {S - 1}", "end", "faint")]
    caption = (
        f"One head of {T} queries and keys: the darker, the later. Each rectangle is a tile of scores, computed, "
        "used and forgotten; blank is what the mask leaves out, for which nothing is computed."
    )
    return figure(3 * (SIDE + 30) + 50, SIDE + 66, shapes, caption)


def tiles_of(is_causal, window):
    """(t0, t1, s0, s1) of every tile of one head."""
    problem = problem_of(is_causal, window)
    first = problem.groups()[0].h0
    blocks = [block for block in problem.blocks() if (block.b, block.h0) == (0, first)]
    return [(block.t0, block.t1, keys.start, keys.stop) for block in blocks for keys in problem.key_tiles(block)]


def problem_of(is_causal, window):
    """The call as the algorithm sees it."""
    query, key, value = (torch.empty(1, HEADS, length, D) for length in (T, S, S))
    lower, upper = masks.band(T, S, is_causal, False, window)
    return Problem.of(query, key, value, None, None, 0.0, lower, upper, 1.0)


def square(x, y, tile, order):
    """A tile in the picture of the whole matrix."""
    t0, t1, s0, s1 = tile
    unit = SIDE / T
    return rect(x + s0 * unit, y + t0 * unit, (s1 - s0) * unit, (t1 - t0) * unit, "tile", 0.25 + 0.7 * order)


def memory():
    """What stays in memory at a time, naive and tiled, in words."""
    problem = problem_of(False, (None, None))
    block = max(problem.blocks(), key=lambda b: (b.h1 - b.h0) * (b.t1 - b.t0))
    keys = problem.key_tiles(block)[0]
    tile = (block.h1 - block.h0) * (block.t1 - block.t0) * (keys.stop - keys.start) * 4
    whole = HEADS * T * S * 4
    return (
        f"For {HEADS} heads of {T} queries and keys in float32, the whole matrix takes {whole / MIB:.0f} MiB, and "
        f"grows with the square of the length; a tile takes {tile / MIB:.0f} MiB at any length."
    )


# ---- On a GPU ----


def kernel_tables():
    """The tables of tile sizes in gpu/launch.py, by name: read from the source, because its import needs Triton."""
    tables = {"Tiles": namedtuple("Tiles", "block_t block_s num_warps num_stages")}
    for node in ast.parse((GPU / "launch.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            exec(compile(ast.Module([node], []), "launch.py", "exec"), tables)
    return {
        name: table
        for name, table in tables.items()
        if isinstance(table, dict) and "forward" in table and name.isupper()
    }


def triton():
    """Who walks where: a program of the forward pass along the keys, one of the keys' gradient along the queries."""
    sizes = {
        "forward": "some queries, along the keys",
        "grad_query": "some queries, along the keys",
        "grad_key_value": "some keys, along the queries",
    }
    table, rows, length = next(iter(kernel_tables().items()))[1], [], 1024
    unit = SIDE / length
    for column, (kernel, words) in enumerate(sizes.items()):
        tile = table[kernel][D][0]
        x, along_keys = 20 + column * (SIDE + 50), kernel != "grad_key_value"
        rows += [text(x, 20, kernel, kind="strong"), text(x, 35, f"{tile.block_t} × {tile.block_s}", kind="faint")]
        rows += [rect(x, 45, SIDE, SIDE)]
        held = tile.block_t if along_keys else tile.block_s
        step = tile.block_s if along_keys else tile.block_t
        for n in range(length // step):
            place = (n * step * unit, 2 * held * unit, step * unit, held * unit)
            a, b, width, height = place if along_keys else (place[1], place[0], place[3], place[2])
            rows.append(rect(x + a, 45 + b, width, height, "tile", 0.25 + 0.7 * n * step / length))
        middle = 2.5 * held * unit
        start, end = ((x + 6, 45 + middle), (x + SIDE - 6, 45 + middle)) if along_keys else (
            (x + middle, 51), (x + middle, 39 + SIDE)
        )  # fmt: skip
        rows += [line(start, end, arrow=True), text(x, SIDE + 62, words, kind="faint")]
    caption = (
        f"{length} queries, downwards, and keys, to the right, heads of width {D}, on the first GPU of the table "
        "below. All programs run at the same time; each holds its block on chip and loads what it walks along."
    )
    return figure(3 * (SIDE + 50) + 60, SIDE + 72, rows, caption)


def triton_sizes():
    """The table of tile sizes of the forward kernel, queries × keys, by the widest head."""
    tables = kernel_tables()
    comments = dict(re.findall(r"^(\w+) = \{  # (.*)$", (GPU / "launch.py").read_text(encoding="utf-8"), re.M))
    widths = list(next(iter(tables.values()))["forward"])
    made = ["| kernel for | " + " | ".join(f"heads to {width}" for width in widths) + " |"]
    made.append("| --- |" + " --- |" * len(widths))
    for name, table in tables.items():
        cells = [f"{table['forward'][width][0].block_t} × {table['forward'][width][0].block_s}" for width in widths]
        made.append(f"| {name.capitalize()}: {comments[name].partition(':')[0]} | " + " | ".join(cells) + " |")
    return "\n".join(made)


def when(algorithm):
    """Whether "auto" takes a kernel, and why."""
    reason = KERNELS.get(algorithm)
    return (
        f'`"auto"` takes it where it can run. {reason[:1].upper()}{reason[1:]}.'
        if reason
        else "It is taken by name only."
    )


def constants(file):
    """The numbers that a file of the kernels names."""
    found = {}
    for node in ast.parse((GPU / file).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value = node.value.args[0] if isinstance(node.value, ast.Call) and node.value.args else node.value
            if isinstance(value, ast.Constant) and isinstance(value.value, (int, float)):
                found[node.targets[0].id] = value.value
    return found


def decode():
    """One query, many keys: the keys cut into splits, each with a program, and a second kernel that adds up."""
    at_least = constants("split_kv.py")["KEYS_PER_SPLIT"]
    keys = 8 * at_least
    width = 620 / 8
    shapes = [text(20, 20, f"1 query, {keys} keys: 8 splits of {at_least}", kind="strong")]
    for n in range(8):
        x = 20 + n * width
        shapes += [
            rect(x, 30, width - 3, 26, "tile", 0.35 + 0.07 * n),
            line((x + width / 2, 56), (x + width / 2, 84), arrow=True),
        ]
        shapes += [rect(x + 8, 86, width - 19, 34), text(x + width / 2 - 2, 107, "Σ, m, o", "middle")]
        shapes.append(line((x + width / 2, 120), (330, 148), arrow=True))
    shapes += [rect(240, 150, 180, 28), text(330, 168, "scaled to one m, added up", "middle")]
    caption = (
        "Every split leaves the sum of its weights Σ, the largest score m by which they were divided, and its weighted "
        "sum of values o; a second kernel adds them up. So one query keeps all processors of a GPU busy."
    )
    return figure(660, 190, shapes, caption)


def hopper():
    """Producer and consumers over time: tiles in a ring of slots, products while the next tile is under way."""
    known = constants("hopper_tiles.py")
    consumers, rows = known["CONSUMERS"], known["ROWS"]
    step, shapes = 78, []
    names = ["producer", *(f"consumer {n}: {rows} queries" for n in range(consumers))]
    for lane, name in enumerate(names):
        shapes.append(text(10, 52 + lane * 44, name))
        for n in range(6):
            x = 180 + step * (n if lane == 0 else n + 0.8 + 0.5 * (lane - 1))
            kind, words = ("box", f"copy {n}") if lane == 0 else ("tile", f"tile {n}")
            shapes += [rect(x, 34 + lane * 44, step - 4, 28, kind, 1 if lane == 0 else 0.25 + 0.2 * lane)]
            shapes.append(text(x + step / 2 - 2, 52 + lane * 44, words, "middle"))
    bottom = 34 + len(names) * 44
    shapes += [
        line((180, bottom), (180 + 7.6 * step, bottom), arrow=True),
        text(180, bottom + 18, "time", kind="faint"),
    ]
    caption = (
        f"The three programs of a block of {known['BLOCK']} queries. While one consumer takes exponentials of a tile, "
        "the other has the tensor cores, and the producer copies the tiles after it."
    )
    return figure(820, bottom + 28, shapes, caption)
