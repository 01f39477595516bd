"""T20 by reading: a schedule that counts steps, and is told of epochs."""

from __future__ import annotations

import ast
import re

from scratch_transformer.kit.judge.scripts.flow import Script
from scratch_transformer.kit.judge.scripts.losses import Found
from scratch_transformer.kit.judge.scripts.turns import backwards_of, is_step, receiver_of, turns_of
from scratch_transformer.kit.syntax import last_name, names_within

SCHEDULES = re.compile(r"sched|lr|warm", re.IGNORECASE)
IN_STEPS = re.compile(
    r"OneCycleLR\(.*(steps_per_epoch|total_steps=\w*len\()|schedule_with_warmup\(.*len\(|"
    r"\*\* ?\(?-(0?\.5|1\.5|1 ?/ ?2|3 ?/ ?2)",
    re.DOTALL,
)
"""In the text of what makes a schedule: so many steps, or the paper's step^(-1/2)."""
WARM_UP = re.compile(r"warm\w*(?:: ?int)? ?[=:] ?(\d[\d_]*)", re.IGNORECASE)
MANY = 100
"""Steps of a warm-up, where nobody means epochs."""


def once_an_epoch(script: Script) -> Found:
    """T20: scheduler.step() beside the loop over batches, of a schedule that is written in steps."""
    for call in script.calls():
        scheduler = receiver_of(call)
        if last_name(call.func) != "step" or call.args or is_step(call) or not SCHEDULES.search(last_name(scheduler)):
            continue
        loop = next(turns_of(script, call), None)
        turns = [[*turns_of(script, backward)] for backward in backwards_of(script)]
        is_outer = any(loop in each[1:] for each in turns) and all(loop is not each[0] for each in turns if each)
        counts = [int(number.replace("_", "")) for number in WARM_UP.findall(script.text)]
        if loop is None or not is_outer or (counts and max(counts) < MANY):
            continue
        if IN_STEPS.search(_made_by(script, script.source_of(scheduler, call))):
            said = f"{ast.unparse(call)} is called once in each turn of the loop at line {loop.lineno}, "
            yield "T20", call, f"{said}which has a loop over batches in it: the schedule takes epochs for steps."


def _made_by(script: Script, value: ast.expr) -> str:
    """The text of what makes a schedule, with the functions of the file that it names."""
    named = [script.functions[name] for name in names_within(value) if name in script.functions]
    lambdas = [made for name in names_within(value) if (made := script.assigned(name, value)) is not None]
    return "\n".join(map(ast.unparse, [value, *(one for each in named for one in each), *lambdas]))
