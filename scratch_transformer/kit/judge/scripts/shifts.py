"""T13 by reading: whether a model is asked for the tokens it is given, by its loss or by what makes batches."""

from __future__ import annotations

import ast
import re

from scratch_transformer.kit.judge.scripts.flow import MODEL, Script, sliced
from scratch_transformer.kit.judge.scripts.losses import Found, losses
from scratch_transformer.kit.syntax import method_of, names_within, nodes_in

SHIFTS = re.compile(r":-1\]|:, 1:|\[1:|roll\(|shift|\bbos\b|\bsos\b", re.IGNORECASE)
"""In the text of a model: it may shift what it is given by itself."""
IS_CAUSAL = re.compile(r"causal|tril|triu|subsequent|def generate|future|autoregress", re.IGNORECASE)
EMBEDS = re.compile(r"\bEmbedding\(")


def unshifted(script: Script) -> Found:
    """T13: model(src, tgt), and the loss with tgt; or a language model's own input as its labels."""
    for call, _ in losses(script):
        label, label_cut = sliced(_followed(call.args[1], call, script))
        logits, logits_cut = call.args[0], sliced(call.args[0])[1]
        output = script.source_of(logits, call)
        if isinstance(output, ast.Subscript):
            logits_cut = logits_cut or ast.unparse(output.slice)
            output = script.source_of(output.value, call)
        if not isinstance(output, ast.Call) or not label or (logits_cut and ":" in logits_cut):
            continue
        if (label, label_cut) in _decoded(output, script, call):
            tokens = f"{label}[{label_cut}]" if label_cut else label
            said = f"{ast.unparse(output)} is given {tokens}, and the loss asks for the same tokens."
            yield "T13", call, said


ONE_LATER = "Labels of one token later: y = data[i + 1 : i + 1 + length] beside x = data[i : i + length]."
CUT = re.compile(r"\[[^\[\]]*:[^\[\]]*\]")
"""A piece of a text: data[i : i + length]."""


def unshifted_batches(script: Script) -> Found:
    """T13: a function that gives the same piece of a text as input and as labels, of a language model's file."""
    if any(map(SHIFTS.search, script.texts)) or not any(map(IS_CAUSAL.search, script.texts)):
        return
    if next(losses(script), None) is None:
        return
    for function in nodes_in(script.tree, ast.FunctionDef):
        for given in nodes_in(function, ast.Return):
            pair = given.value.elts if isinstance(given.value, ast.Tuple) else []
            made = [script.source_of(one, one) for one in pair]
            same = {*map(ast.unparse, made)}
            if len(pair) == 2 and len(same) == 1 and CUT.search(text := same.pop()):
                yield "T13", made[1], f"{function.name} gives {text} as input, and the same as labels."


def _decoded(output: ast.Call, script: Script, before: ast.expr) -> list[tuple[str, str]]:
    """Of a model's inputs, those that its decoder sees; [] where it may shift them itself."""
    cls = script.class_of(output.func, before) or _only_model(output, script)
    if cls is None:
        return []
    values = _in_order(output, cls)
    inputs = [sliced(_followed(value, output, script)) for value in values]
    given = [script.source_of(value, output) for value in values]  # the mask of the future, perhaps
    text = "\n".join(ast.unparse(other) for other in (*_used(cls, script), *given))
    if not (MODEL.search(ast.unparse(output.func) + cls.name) or EMBEDS.search(text)):
        return []
    if SHIFTS.search(ast.unparse(cls)) or not IS_CAUSAL.search(text):
        return []
    return inputs[1:] if len([name for name, _ in inputs if name and "mask" not in name.lower()]) > 1 else inputs[:1]


def _only_model(output: ast.Call, script: Script) -> ast.ClassDef | None:
    """The one class of the file that embeds words, where what is called is a parameter that nothing here is given."""
    if not isinstance(output.func, ast.Name) or not script.is_left_open(output.func.id, output):
        return None
    own = [node for node in script.tree.body if isinstance(node, ast.ClassDef) and EMBEDS.search(ast.unparse(node))]
    wanted, fits = len(output.args) + len(output.keywords), []
    for cls in own:
        takes = _parameters(cls)
        fits += [cls] if takes[:1] and len(takes) >= wanted else []
    return fits[0] if len(own) == len(fits) == 1 else None


def _parameters(cls: ast.ClassDef) -> list[str]:
    """What a class's forward takes, without self."""
    forward = method_of(cls, "forward")
    return [] if forward is None else [one.arg for one in forward.args.args[1:]]


def _in_order(output: ast.Call, cls: ast.ClassDef) -> list[ast.expr]:
    """What a model is given, in the order in which its forward takes it: model(tgt=b, src=a)."""
    places = {name: place for place, name in enumerate(_parameters(cls))}
    named = [word for word in output.keywords if word.arg in places]
    return [*output.args, *(word.value for word in sorted(named, key=lambda word: places[str(word.arg)]))]


def _used(cls: ast.ClassDef, script: Script, depth: int = 4) -> list[ast.AST]:
    """A class, and the classes and functions that it uses."""
    found: list[ast.AST] = [cls]
    functions = {node.name: node for node in script.tree.body if isinstance(node, ast.FunctionDef)}
    known: dict[str, ast.AST] = {**functions, **script.classes}
    for _ in range(depth):
        names = names_within(found)
        found += [node for name, node in known.items() if name in names and node not in found]
    return found


def _followed(value: ast.expr, before: ast.expr, script: Script) -> ast.expr:
    """A name's value where that is a name again, perhaps cut; else the name itself."""
    for _ in range(4):
        name, cut = sliced(value)
        origin = script.assigned(name, before) if name and not cut else None
        if origin is None or not sliced(origin)[0] or sliced(origin)[0] == name:
            break
        before, value = origin, origin
    return value
