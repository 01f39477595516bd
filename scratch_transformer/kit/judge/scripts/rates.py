"""T20, T21 and T24 by reading: schedules that are told of epochs in place of steps, of nothing, or too early."""

from __future__ import annotations

import ast
import itertools
import re

from scratch_transformer.kit.judge.scripts.flow import Script
from scratch_transformer.kit.judge.scripts.losses import Found
from scratch_transformer.kit.judge.scripts.turns import backwards_of, is_step, receiver_of, turns_of
from scratch_transformer.kit.syntax import last_name, names_within, nodes_in

SCHEDULES = re.compile(r"sched|lr|warm", re.IGNORECASE)
IN_STEPS = re.compile(
    r"OneCycleLR\(.*(steps_per_epoch|total_steps=\w*len\()|schedule_with_warmup\(.*len\(|"
    r"\*\* ?\(?-(0?\.5|1\.5|1 ?/ ?2|3 ?/ ?2)",
    re.DOTALL,
)
"""In the text of what makes a schedule: so many steps, or the paper's step^(-1/2)."""
IN_EPOCHS, OF_BATCHES = re.compile(r"(?i)epochs\b"), re.compile(r"(?i)step|iter(?!s?=)|batch|len\(|loader|\*|//")
"""In the text of what a schedule is told that is as long as the epochs; and in that of one that is not."""
WARM_UP = re.compile(r"warm\w*(?:: ?int)? ?[=:] ?(\d[\d_]*)", re.IGNORECASE)
MANY = 100
"""Steps of a warm-up, where nobody means epochs."""
OF_TORCH = re.compile(
    r"(Lambda|Multiplicative|Step|MultiStep|Linear|Exponential|CosineAnnealing|Polynomial|Cyclic|OneCycle|Sequential)LR|"
    r"CosineAnnealingWarmRestarts|ChainedScheduler|ReduceLROnPlateau|get_\w*schedule_with_warmup"
)
"""What makes a schedule that sets its optimizer's rate when its step() is called, and then alone."""
SETS_RATE = re.compile(r"\[['\"]lr['\"]\] = ")
STEPS_BY_ITSELF = re.compile(r"def __call__|register|\.step = ")
LOOKED_AT = ("state_dict", "load_state_dict", "get_last_lr", "get_lr", "last_epoch", "base_lrs", "optimizer")
"""What is asked of a schedule that moves it no step."""


ONCE_AN_EPOCH = "scheduler.step() behind the loop over batches; or a schedule of all steps, epochs * len(loader)."


def once_an_epoch(script: Script) -> Found:
    """T20: scheduler.step() beside the loop over batches, of a schedule that is written in steps."""
    for call in script.calls:
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


def once_a_batch(script: Script) -> Found:
    """T20, the other way round: scheduler.step() in the loop over batches, of a schedule as long as the epochs."""
    for call in script.calls:
        scheduler = receiver_of(call)
        if last_name(call.func) != "step" or call.args or is_step(call) or not SCHEDULES.search(last_name(scheduler)):
            continue
        loops = [*turns_of(script, call)]
        inner = [each[0] for backward in backwards_of(script) if len(each := [*turns_of(script, backward)]) > 1]
        is_inner = len(loops) > 1 and loops[0] in inner and _is_over_epochs(loops[1])
        made = script.source_of(scheduler, call)
        if is_inner and isinstance(made, ast.Call) and _counts_epochs(made) and not _is_rare(script, call, loops[0]):
            said = f"{ast.unparse(call)} is called in each turn of the loop at line {loops[0].lineno}, over batches; "
            yield "T20", call, f"{said}{ast.unparse(made)} is as long as the epochs: it takes steps for epochs."


def _is_over_epochs(loop: ast.For | ast.While) -> bool:
    return isinstance(loop, ast.For) and "epoch" in ast.unparse(ast.Tuple([loop.target, loop.iter])).lower()


def _counts_epochs(made: ast.Call) -> bool:
    """Whether what makes a schedule is told a number of epochs, and none of steps or batches."""
    told = "\n".join(ast.unparse(one) for one in (*made.args, *made.keywords))
    return IN_EPOCHS.search(told) is not None and not OF_BATCHES.search(told)


def _is_rare(script: Script, call: ast.Call, loop: ast.For | ast.While) -> bool:
    """Whether a call in a loop depends on more than that there is a schedule: on the batch's number, perhaps."""
    name = re.escape(ast.unparse(receiver_of(call)))
    inside = itertools.takewhile(lambda one: one is not loop, script.around(call))
    tests = [ast.unparse(one.test) for one in inside if isinstance(one, (ast.If, ast.While))]
    return not all(re.fullmatch(rf"{name}( is not None)?", test) for test in tests)


def never_stepping(script: Script) -> Found:
    """T21: a schedule that is made beside a loop that trains, and that nothing in the file steps or hands on."""
    trains = [loop for backward in backwards_of(script) for loop in turns_of(script, backward)]
    if not trains or not any(map(is_step, script.calls)):
        return
    uses = [node for node in nodes_in(script.tree, ast.expr) if isinstance(getattr(node, "ctx", None), ast.Load)]
    for made in nodes_in(script.tree, ast.Assign):
        target = made.targets[0]
        is_made = isinstance(made.value, ast.Call) and _is_schedule(script, made.value)
        if not is_made or len(made.targets) > 1 or not _is_private(script, target, trains):
            continue
        if all(_is_looked_at(script, one) for one in uses if last_name(one) == last_name(target)):
            said = f"Nothing calls {ast.unparse(target)}.step(): the rate stays at its first value."
            yield "T21", made.value, said


def before_the_optimizer(script: Script) -> Found:
    """T24: scheduler.step() in a loop in which the optimizer's only step comes behind it."""
    steps = [call for call in script.calls if is_step(call)]
    for call in script.calls:
        loops = script.loops_around(call)[0]
        if last_name(call.func) != "step" or call.args or call.keywords or is_step(call) or not loops:
            continue
        made = script.source_of(receiver_of(call), call)
        is_torch = isinstance(made, ast.Call) and OF_TORCH.fullmatch(last_name(made.func)) is not None
        at = [n for n, one in enumerate(loops[0].body) if isinstance(one, ast.Expr) and one.value is call]
        behind = {*nodes_in(loops[0].body[at[0] :], ast.Call)} if at else set()
        is_only = [ast.unparse(one) for one in script.calls].count(ast.unparse(call)) == 1
        if is_torch and is_only and steps and all(step in behind for step in steps):
            yield "T24", call, f"{ast.unparse(steps[0])} comes behind it: no step is taken with the first rate."


def _is_schedule(script: Script, made: ast.Call) -> bool:
    """Whether that is one of torch's, or of a class of the learner's that sets an optimizer's rate in its step."""
    name = last_name(made.func)
    if (cls := script.classes.get(name)) is None:
        return OF_TORCH.fullmatch(name) is not None
    text, has_step = ast.unparse(cls), any(getattr(one, "name", "").startswith("step") for one in cls.body)
    is_torchs = any(last_name(base) in ("LRScheduler", "_LRScheduler") for base in cls.bases)
    return is_torchs or (has_step and SETS_RATE.search(text) is not None and not STEPS_BY_ITSELF.search(text))


def _is_private(script: Script, target: ast.expr, trains: list[ast.For | ast.While]) -> bool:
    """Whether nothing outside of the file steps what a name is given.

    An object's own may be stepped by who calls its method for an epoch: not if the loops over both are in its class.
    """
    if isinstance(target, ast.Name):
        return True
    cls = next((one for one in script.around(target) if isinstance(one, ast.ClassDef)), None)
    own = [one for one in trains if cls in [*script.around(one)]]
    return cls is not None and ast.unparse(target).startswith("self.") and len(own) > 1


def _is_looked_at(script: Script, name: ast.expr) -> bool:
    """Whether what a name stands for is only asked something there, and neither called nor handed on."""
    around = next(script.around(name))
    return isinstance(around, ast.Attribute) and around.attr in LOOKED_AT


def _made_by(script: Script, value: ast.expr) -> str:
    """The text of what makes a schedule, with the functions of the file that it names."""
    named = [script.functions[name] for name in names_within(value) if name in script.functions]
    lambdas = [made for name in names_within(value) if (made := script.assigned(name, value)) is not None]
    return "\n".join(map(ast.unparse, [value, *(one for each in named for one in each), *lambdas]))
