"""Which classes are halves of a BERT's layer, heads of sentences, or a dropout: by what their forward does."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import Any

from scratch_transformer.kit.definitions import leads_to, names_in, nodes_of, parameters_of, source_of
from scratch_transformer.kit.syntax import sums_in

LINEAR = re.compile(r"\bLinear\(")
NORMS = re.compile(r"norm", re.IGNORECASE)
OTHERWISE = re.compile(
    r"softmax|attention|Embedding|Module(List|Dict)|Sequential|Conv|LSTM|GRU|Parameter|^cat$|^chunk$|^split$|matmul|einsum|argmax|"
    r"view|reshape",
    re.IGNORECASE,
)
"""Names in what is more than that."""
LOGS = {"log_softmax", "LogSoftmax"}
KEEPS_LOGS = re.compile(r"self\.softmax *=.*LogSoftmax\(")
DRAWS = {"rand", "rand_like", "bernoulli", "bernoulli_", "empty_like", "Bernoulli"}
ACTS = re.compile(r"gelu|relu|silu|swish|tanh|^act|activation|act_fn|ACT2FN", re.IGNORECASE)
HEADS = re.compile(r"head|logits|classif|score|relationship|sentence", re.IGNORECASE)
"""In the name of what gives scores, of as many classes as are written in: NextSentenceHead."""
WIDE = {"d_ff", "d_ff/d_model"}
TIMES = re.compile(r"\bLinear\([^()]*\b\d \*|\bLinear\([^()]*\* \d\b")
"""Linear(4 * d_model, d_model)."""


def kinds_of(cls: Any, told: set[str], tensors: int) -> tuple[str, ...]:
    """Names of kinds; () for anything else. told: its settings. tensors: how many inputs its forward must be given."""
    names, source = names_in(cls), source_of(cls)
    if tensors == 1 and told == {"dropout"} and DRAWS & names and "dropout" in cls.__name__.lower():
        return ("Dropout",)
    count, of_logs = len(LINEAR.findall(source)), LOGS | ({"softmax"} if KEEPS_LOGS.search(source) else set())
    if "d_model" not in told or not 1 <= count <= 2 or any(map(OTHERWISE.search, names - of_logs)):
        return ()
    if any(OTHERWISE.search(name) for part in leads_to(cls) for name in names_in(part) - LOGS):
        return ()  # a whole, whose words and sentences are scored
    normalizes, acts = (any(map(words.search, names)) for words in (NORMS, ACTS))
    forward, is_wide = nodes_of(cls.forward), bool(told & WIDE or TIMES.search(source))
    if tensors == 2 and count == 1 and normalizes and not acts and (_adds_an_input(cls) or "Output" in cls.__name__):
        return ("NetworkOutput", "AttentionOutput") if is_wide else ("AttentionOutput",)
    if tensors != 1 or normalizes:
        return ()
    is_head = "vocab_size" in told or bool(HEADS.search(cls.__name__))
    if _pools(forward):
        return ("SentenceHead",) if acts or is_head else ()
    if count == 1 and acts and is_wide:
        return ("Intermediate",)
    return ("Projection",) if count == 1 and not acts and is_head else ()


def _adds_an_input(cls: Any) -> bool:
    """Whether an input of its forward is a summand as it is: norm(hidden_states + input_tensor)."""
    given = {p.name for p in parameters_of(cls.forward)} - {"self"}
    return any(isinstance(one, ast.Name) and one.id in given for pair in sums_in(nodes_of(cls.forward)) for one in pair)


def _pools(nodes: Iterable[ast.AST]) -> bool:
    """x[:, 0], x[:, -1], x.mean(1)."""
    for node in nodes:
        if isinstance(node, ast.Subscript) and re.fullmatch(r"\(?:, (0|-1)(, :)?\)?", ast.unparse(node.slice)):
            return True
        is_mean = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "mean"
        if is_mean and re.search(r"\((dim=)?1\)$", ast.unparse(node)):
            return True
    return False
