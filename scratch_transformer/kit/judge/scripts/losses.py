"""T2 and T4 by reading: what nn.CrossEntropyLoss is given, and whether it ignores padding."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from scratch_transformer.kit.judge.scripts.flow import Script, without_layout
from scratch_transformer.kit.syntax import is_of_self, method_of, nodes_in

Found = Iterator[tuple[str, ast.expr, str]]
"""(id, where, evidence)."""
PADS = re.compile(
    r"(?!pad_token(_id)? *(=(?!=)|is\b))pad_?(idx|id|index|token)|_pad\b|padding_idx|['\"](<pad>|\[PAD\])['\"]|\bPAD\b|"
    r"pad_sequence|padding=(True|['\"](max_length|longest)['\"])",
    re.IGNORECASE,
)
"""What speaks of padding; not tokenizer.pad_token = tokenizer.eos_token, with which many files begin that pad nothing.
"""
OTHERWISE = re.compile(r"-100\b|masked_select|pack_padded_sequence|packed")
"""Other ways to leave padding out."""
OF_TOKENS = re.compile(r"tgt|trg|dec_|decoder|tar_|target_(ids|seq|tokens)", re.IGNORECASE)
OF_SENTENCES = re.compile(r"pooled|num_labels|n(um)?_class|\bcls\b")
IN_BATCHES = re.compile(r"\w*loader|\bbatch(es)?\b|BucketIterator|_iter(ator)?\b", re.IGNORECASE)
"""Where sentences come in batches, they are padded; a few written out by hand may all have one length."""

LONGEST = 100
"""Characters of a line that are quoted."""


def losses(script: Script) -> Iterator[tuple[ast.Call, ast.Call]]:
    """Every call of a cross-entropy on (logits, target), and the call that says how it is set up: often another."""
    for call in script.calls:
        if len(call.args) < 2:
            continue
        if ast.unparse(call.func).rpartition(".")[2] == "cross_entropy":
            yield call, call
            continue
        made = script.source_of(call.func, call)
        if isinstance(made, ast.Call) and ast.unparse(made.func).rpartition(".")[2] == "CrossEntropyLoss":
            yield call, made


def softmaxed(script: Script) -> Found:
    """T2: the first argument is a softmax, or what a model of this file returns is one."""
    for call, _ in losses(script):
        given = script.source_of(call.args[0], call)
        if _is_softmax(given, script, call):
            yield "T2", call, f"The loss gets {ast.unparse(given)}, which is a softmax already."
        elif isinstance(given, ast.Call) and (cls := script.class_of(given.func, call)) is not None:
            returned = _returned(cls, script)
            if returned is not None:
                said = f"The loss gets what {cls.name} returns, and that ends in {ast.unparse(returned)}."
                yield "T2", call, said


def _is_softmax(value: ast.expr, script: Script, before: ast.expr) -> bool:
    """F.softmax(x, -1), x.softmax(-1), nn.Softmax(-1)(x), self.softmax(x) where that is nn.Softmax."""
    value = without_layout(value)
    if not isinstance(value, ast.Call):
        return False
    if ast.unparse(value.func).rpartition(".")[2] == "softmax" and not is_of_self(value.func):
        return True  # self.softmax may be anything
    made = script.source_of(value.func, before)
    return isinstance(made, ast.Call) and ast.unparse(made.func).rpartition(".")[2] == "Softmax"


def _returned(cls: ast.ClassDef, script: Script) -> ast.expr | None:
    """The softmax that a class's forward returns, always."""
    given = [node.value for node in nodes_in(method_of(cls, "forward"), ast.Return) if node.value is not None]
    values = [script.source_of(value, value) for value in given]
    found = [value for value, at in zip(values, given, strict=True) if _is_softmax(value, script, at)]
    return found[0] if found and len(found) == len(values) else None


def counting_padding(script: Script) -> Found:
    """T4: no ignore_index, no weights, and the mean over tokens of a file that pads them."""
    padded = PADS.search(script.text)
    if padded is None or OTHERWISE.search(script.text) or not IN_BATCHES.search(script.text):
        return
    line = script.text[: padded.start()].count("\n") + 1
    for call, made in losses(script):
        words = {word.arg for word in made.keywords}
        positional = made.args[2:] if made is call else made.args
        if (
            words & {"ignore_index", "weight", "reduction", "reduce", None}
            or positional
            or not _of_tokens(call, script)
        ):
            continue
        said = f"It has no ignore_index, though the file pads (line {line}: {line_of(script.text, line)})."
        yield "T4", made, said


def _of_tokens(call: ast.Call, script: Script) -> bool:
    """Whether the loss is over the words of a sentence, and not over one label for each sentence."""
    logits, target = (_with_origin(value, call, script) for value in call.args[:2])
    is_flat = re.search(r"view\(-1|reshape\(-1|flatten\(|transpose\(1, ?2|transpose\(-|permute\(0, ?2", logits)
    is_cut = re.search(r"\[[^\]]*1:", target)
    return bool(is_flat and not OF_SENTENCES.search(logits) and (is_cut or OF_TOKENS.search(target)))


def _with_origin(value: ast.expr, call: ast.Call, script: Script) -> str:
    """The text of an argument, of what its name was given, and of what is behind that."""
    origin = script.assigned(ast.unparse(value), call) or value
    return " ".join(ast.unparse(part) for part in (value, origin, script.source_of(value, call)))


def line_of(text: str, number: int) -> str:
    """A line of the text, to be quoted."""
    line = text.splitlines()[number - 1].strip()
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}…"
