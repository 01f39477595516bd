"""T15 and T19 by reading: the mode of a model where it trains, and where it does not."""

from __future__ import annotations

import ast
import re

from scratch_transformer.kit.judge.scripts.flow import Script
from scratch_transformer.kit.judge.scripts.losses import Found
from scratch_transformer.kit.judge.scripts.turns import (
    Call,
    backwards_of,
    calls_in,
    is_left,
    is_unrecorded,
    receiver_of,
    turns_of,
)
from scratch_transformer.kit.syntax import last_name

DROPS = re.compile(r"drop_?(out|path)|batch_?norm|nn\.Transformer|MultiheadAttention\(", re.IGNORECASE)
"""In the text of a model that is another one in evaluation."""
RATE = re.compile(r"drop\w*(?:\s*:\s*float)?\s*[=:(]\s*(?:p\s*=\s*)?([\d.]+)", re.IGNORECASE)
EVALUATES = re.compile(r"\.eval\(\)|\btrain(ing)?\(?(mode)? ?=? ?False|from_pretrained|Lightning|\bTrainer\(")
TRAINS = re.compile(r"backward\(|optim|\bfit\(|\btrain\w*\(")


def kept_in_evaluation(script: Script) -> Found:
    """T15: what trains is put into evaluation mode, in a turn of its loop or before it, and nothing puts it back."""
    if not any(map(_drops, script.texts)):
        return
    for backward in backwards_of(script):
        for loop in turns_of(script, backward):
            calls = [*calls_in(script, loop, {})]
            trained = {one.of for one in calls if one.node.func is one.subject}
            modes = [one for one in calls if one.of in trained and one.mode is False]
            if any(one.mode for one in calls):  # of the same model by another name, perhaps
                continue
            if wrong := [one for one in modes if not is_left(script, one.node)]:
                said = f"The loop at line {loop.lineno} trains it, and has {ast.unparse(wrong[0].node)} in each turn, "
                yield "T15", wrong[0].node, f"{said}but no {wrong[0].of}.train()."
                return
            before = [one for one in _before(script, loop) if one.of in trained]
            if not modes and before and before[-1].mode is False:
                said = f"So it is when the loop at line {loop.lineno} trains it: there is no {before[-1].of}.train()."
                yield "T15", before[-1].node, said
                return


def dropping_in_evaluation(script: Script) -> Found:
    """T19: what is trained or loaded here is used where no gradients are, and nothing ever calls eval()."""
    if any(map(EVALUATES.search, script.texts)) or not any(map(_drops, script.texts)):
        return
    turns = [loop for backward in backwards_of(script) for loop in turns_of(script, backward)]
    trained = {one.of for loop in turns for one in calls_in(script, loop, {})} - {"self"}
    loading = [call for call in script.calls if last_name(call.func) == "load_state_dict"]
    loaded = set() if TRAINS.search(script.text) else {ast.unparse(receiver_of(call)) for call in loading}
    for one in calls_in(script, script.tree, {}, depth=1) if trained | loaded else ():
        is_used = one.of in loaded or (one.of in trained and is_unrecorded(script, one.node))
        if is_used and one.node.func is one.subject and script.class_of(one.subject, one.node) is not None:
            how = "loaded" if one.of in loaded else "trained"
            yield "T19", one.node, f"{one.of} is {how} in this file, and used here; nothing calls {one.of}.eval()."
            return


def _before(script: Script, loop: ast.stmt) -> list[Call]:
    """The calls that set a mode, each a statement of its own, beside a loop and before it."""
    lists = [getattr(node, "body", []) for node in script.around(loop)]
    beside = next((body for body in lists if isinstance(body, list) and loop in body), [])
    values = [one.value for one in beside if isinstance(one, ast.Expr) and one.lineno < loop.lineno]
    calls = [Call(one, receiver_of(one), ast.unparse(receiver_of(one))) for one in values if isinstance(one, ast.Call)]
    return [one for one in calls if one.mode is not None]


def _drops(text: str) -> bool:
    """Whether what a text makes is another one in evaluation: not with dropout = 0.0 alone."""
    rates = RATE.findall(text)
    return DROPS.search(text) is not None and (not rates or any(rate.strip("0.") for rate in rates))
