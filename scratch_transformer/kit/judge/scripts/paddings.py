"""T5 by reading: whether a loss ignores the id that its file pads with, where both are numbers that the text says; and
whether it asks the source's tokenizer for that of the target.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from scratch_transformer.kit.judge.scripts.flow import Script
from scratch_transformer.kit.judge.scripts.losses import OTHERWISE, Found, line_of
from scratch_transformer.kit.syntax import assignments, is_text, last_name, nodes_in

LOSSES = ("CrossEntropyLoss", "cross_entropy", "NLLLoss", "nll_loss")
NAMED = re.compile(r"(?i:(\w*_)?pad(ding)?_?(token_?)?(idx|index|id))|(\w*_)?PAD(_TOKEN)?")
OF_THE_SOURCE = re.compile(r"src|source|enc|input", re.IGNORECASE)
WORD = re.compile(r"[<\[|_]+(?i:pad)[>\]|_]+|PAD")
"""How a vocabulary writes padding."""
TRAINERS = re.compile(r"(BpeTrainer|WordLevelTrainer|WordPieceTrainer|UnigramTrainer|build_vocab_from_iterator)$")
"""What gives the first ids to the words of its list, in their order."""
OF_MODELS = {r"(^|/)(distil)?bert-base|(^|/)t5-|flan-t5": 0, r"(^|/)(xlm-)?roberta-|/m?bart-": 1}
"""The names of pretrained tokenizers -> the id that they pad with."""
GPT2, END_OF_GPT2 = re.compile(r"(^|/)(distil)?gpt2"), 50256
AS_THE_END = re.compile(r"\.pad_token *= *\w+\.eos_token\b")
PADS_BY_ITSELF = re.compile(r"\bpadding *=|\.pad\(|pad_token_id")
REPLACED = re.compile(
    r"(label|target|tgt|trg|\by)\w*(\[[^\]\n]*==[^\]\n]*\] *=(?!=)|\.masked_fill)|DataCollator|where\("
)
"""Of what may put another id in the place of padding."""
SIDE, TARGETS = re.compile(r"(?i)(?<![a-z])(src|source)(?![a-z])"), ("tgt", "trg", "tar", "target")
PADDING = re.compile(r"(?i)pad")
LACKING = re.compile(r"- *len\(|pad|missing|remain|diff")
"""How many words a sentence is too short by."""
FILLED = re.compile(r"(zeros|full|new_full|pad|repeat)$")


class _Unclear(Exception):
    """It pads with something of which the text does not say which number that is."""


def ignoring_another(script: Script) -> Found:
    """T5: ignore_index=0, in a file that pads with 1 and with nothing else."""
    if OTHERWISE.search(script.text) or REPLACED.search(script.text):
        return
    ignoring = [(call, word.value) for call in script.calls for word in call.keywords if word.arg == "ignore_index"]
    ignored = [(call, _number(value, script)) for call, value in ignoring if last_name(call.func) in LOSSES]
    if not ignored:
        return
    try:
        padded = dict(_used(script)) or dict(_said(script))
    except _Unclear:
        return
    others = {*padded, *_filled(script)}
    for call, number in ignored:
        if padded and number is not None and number not in others:
            one, node = next(iter(padded.items()))
            said = f"line {node.lineno}: {line_of(script.text, node.lineno)}"
            yield "T5", call, f"It ignores the id {number}, and the file pads with {one} ({said})."


def ignoring_the_sources(script: Script) -> Found:
    """T5: ignore_index=tokenizer_src.token_to_id("[PAD]"), in a file that has a tokenizer of the target, too.

    With both of one list of special tokens it is the same number.
    """
    for call in script.calls if not REPLACED.search(script.text) else ():
        ignored = next((word.value for word in call.keywords if word.arg == "ignore_index"), None)
        if ignored is None or last_name(call.func) not in LOSSES:
            continue
        said = f"{ast.unparse(ignored)} {ast.unparse(script.source_of(ignored, ignored))}"
        asked = next(filter(SIDE.search, re.findall(r"[A-Za-z_]\w*", said)), "") if PADDING.search(said) else ""
        others = [SIDE.sub(side.upper() if asked.isupper() else side, asked) for side in TARGETS if asked]
        other = next((one for one in others if re.search(rf"\b{one}\b", script.text)), "")
        if other:
            yield "T5", call, f"It asks {asked} for the id of padding in the target, and not {other}."


def _used(script: Script) -> Iterator[tuple[int, ast.expr]]:
    """The numbers that it pads with, and where: pad_sequence(x, padding_value=1), x + [0] * (n - len(x))."""
    for node in ast.walk(script.tree):
        given: ast.expr | None = None
        if isinstance(node, ast.Call) and last_name(node.func) == "pad_sequence":
            words = {word.arg: word.value for word in node.keywords}
            given = words.get("padding_value", node.args[2] if len(node.args) > 2 else ast.Constant(0))
        elif isinstance(node, ast.BinOp) and (repeated := _repeated(node)) and LACKING.search(ast.unparse(node.right)):
            given = None if "mask" in line_of(script.text, node.lineno) or is_text(repeated[0]) else repeated[0]
        if given is not None and isinstance(node, ast.expr):
            number = _number(given, script)
            if number is None:
                raise _Unclear
            yield number, node


def _said(script: Script) -> Iterator[tuple[int, ast.expr]]:
    """The numbers that the text says are padding, and where: PAD_IDX = 1, {"<pad>": 1}, the tokenizer's."""
    for target, value in assignments(ast.walk(script.tree)):
        if _is_padding(target, script.text) and (number := _constant(script.source_of(value, value))) is not None:
            yield number, value
    yield from _in_tables(script)
    for call in script.calls:
        yield from ((number, call) for number in _of_a_tokenizer(call, script))


def _is_padding(target: ast.expr, text: str) -> bool:
    """PAD_IDX, if it is read anywhere, self.pad_id; not the source's."""
    name = last_name(target)
    is_read = len(re.findall(rf"\b{name}\b", text)) > 1
    return bool(NAMED.fullmatch(name)) and is_read and not OF_THE_SOURCE.search(name)


def _in_tables(script: Script) -> Iterator[tuple[int, ast.expr]]:
    """What a vocabulary has for padding: {"<pad>": 1}, ids["<pad>"] = 1."""
    pairs = [pair for table in nodes_in(script.tree, ast.Dict) for pair in zip(table.keys, table.values, strict=True)]
    assigned = assignments(ast.walk(script.tree))
    pairs += [(target.slice, value) for target, value in assigned if isinstance(target, ast.Subscript)]
    for key, value in pairs:
        if _is_word(key) and (number := _constant(script.source_of(value, value))) is not None:
            yield number, value


def _of_a_tokenizer(call: ast.Call, script: Script) -> Iterator[int]:
    words, name = {word.arg: word.value for word in call.keywords}, last_name(call.func)
    if TRAINERS.search(name) and "special_first" not in words:
        listed = script.source_of(words.get("specials", words.get("special_tokens", call)), call)
        ordered = listed.elts if isinstance(listed, (ast.List, ast.Tuple)) else []
        yield from (place for place, word in enumerate(ordered) if _is_word(word))
    elif name == "from_pretrained" and "Tokenizer" in ast.unparse(call.func) and PADS_BY_ITSELF.search(script.text):
        named = str(getattr(script.source_of(call.args[0], call), "value", "")) if call.args else ""
        known = [number for pattern, number in OF_MODELS.items() if re.search(pattern, named)]
        of_gpt2 = [END_OF_GPT2] if GPT2.match(named) and AS_THE_END.search(script.text) else []
        if not known + of_gpt2:
            raise _Unclear
        yield from known + of_gpt2


def _filled(script: Script) -> Iterator[int]:
    """The numbers that something is filled with, which may be padding: [0] * n, torch.zeros(n), F.pad(x, (0, n))."""
    for node in ast.walk(script.tree):
        values = _repeated(node) if isinstance(node, ast.BinOp) else []
        if isinstance(node, ast.Call) and FILLED.search(last_name(node.func)):
            values = [ast.Constant(0), *node.args, *(word.value for word in node.keywords)]
        yield from (number for value in values if (number := _number(value, script)) is not None)


def _repeated(node: ast.BinOp) -> list[ast.expr]:
    """What is in a list that is repeated, [0] * n."""
    return node.left.elts if isinstance(node.op, ast.Mult) and isinstance(node.left, ast.List) else []


def _number(value: ast.expr, script: Script) -> int | None:
    """The number that an expression is: names are followed back, tokenizer.pad_id and ids["<pad>"] too."""
    found = script.source_of(value, value) if hasattr(value, "lineno") else value
    if isinstance(found, ast.Attribute) and (cls := script.class_of(found.value, found)) is not None:
        own = [set_ for target, set_ in assignments(ast.walk(cls)) if ast.unparse(target) == f"self.{found.attr}"]
        found = script.source_of(own[0], own[0]) if len(own) == 1 else found
    if isinstance(found, (ast.Subscript, ast.Call)) and any(_is_word(node) for node in ast.walk(found)):
        numbers = {number for number, _ in _in_tables(script)}
        return numbers.pop() if len(numbers) == 1 else None
    return _constant(found)


def _constant(found: ast.expr) -> int | None:
    is_number = isinstance(found, ast.Constant) and type(found.value) in (int, float)
    return int(found.value) if is_number else None  # type: ignore[attr-defined]


def _is_word(node: ast.AST | None) -> bool:
    return is_text(node) and bool(WORD.fullmatch(node.value))
