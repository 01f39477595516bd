"""The examples in docstrings run, with the names of their module and what they take for granted."""

import ast
import importlib
import re
import textwrap
from pathlib import Path

import pytest

import scratch_transformer

PACKAGE = Path(scratch_transformer.__file__).parent
OF_A_USER = {"skeletons", "assets"}  # exercises, and what pages show

GIVEN = {
    "attention.algorithms.use_algorithm": """
        model = torch.nn.Transformer(12, 3, 1, 1, 20, batch_first=True)
        src, tgt = torch.randn(2, 5, 12), torch.randn(2, 4, 12)
    """,
    "benchmarking.measurement": """
        from scratch_transformer.benchmarking import measurement
        import tempfile
        folder = tempfile.mkdtemp()
    """,
    "conformance.verify": """
        every_task = plan
        plan = lambda: every_task(["Softmax"], ["float64"])
    """,
    "conversion": """
        from scratch_transformer.model import build_transformer
        V, S, T, d_model, N, h, dropout, d_ff = 9, 5, 4, 12, 2, 3, 0.0, 20
    """,
    "kit": """
        MyLayerNorm, MyAttention = torch.nn.LayerNorm, torch.nn.MultiheadAttention
    """,
    "kit.judge.diagnose": """
        from reference_tests.kit.made import CanonicalCandidate
        from scratch_transformer.kit.kinds import KINDS
        candidate = CanonicalCandidate(KINDS["LayerNorm"], {}, RIGHT)
    """,
    "language_model": """
        ids = torch.randint(0, 1000, (2, 5))
    """,
    "model": """
        src, tgt = torch.randint(1, 9, (2, 5)), torch.randint(1, 9, (2, 4))
        src_vocab_size = tgt_vocab_size = 9
        src_seq_len, tgt_seq_len, src_pad_id, tgt_pad_id = 5, 4, 0, 0
    """,
    "nn.cache.KeyValueCache": """
        from scratch_transformer.language_model import Config, LanguageModel
        num_layers, prompt, newest = 2, torch.randint(0, 9, (3, 5)), torch.randint(0, 9, (3, 1))
        config = Config.llama(
            vocab_size=9, d_model=8, num_layers=num_layers, num_heads=2, num_kv_heads=1, d_ff=12, max_length=9
        )
        model = LanguageModel(config).requires_grad_(False)
    """,
    "numpy_oracle": """
        import numpy
        x, dy, weight, bias = *numpy.random.default_rng(0).normal(size=(2, 4, 5)), *numpy.ones((2, 5))
    """,
    "optim.schedule.WarmupSchedule": """
        from scratch_transformer.optim import Adam
        model, batches = torch.nn.Linear(3, 2), torch.randn(2, 4, 3)
        loss = lambda model, batch: model(batch).square().mean()
    """,
    "trace": "",
}
"""Where an example stands -> what it takes for granted, as code."""


def blocks(docstring):
    """Indented code: a whole indented passage, or its paragraphs if it is not all code."""
    for passage in re.findall(r"(?:^    .*\n?|^\s*\n)+", docstring, re.MULTILINE):
        whole = textwrap.dedent(passage).strip("\n")
        yield from [whole] if is_code(whole) else filter(is_code, whole.split("\n\n"))


def is_code(text):
    """Python that does something."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return False
    return any(isinstance(node, (ast.Call, ast.With)) for node in ast.walk(tree))


def examples():
    """Where it stands -> its code."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        if not OF_A_USER & set(path.parts):
            module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                    name = module if isinstance(node, ast.Module) else f"{module}.{node.name}"
                    code = "\n".join(blocks(ast.get_docstring(node) or ""))
                    found |= {name: code} if code else {}
    return found


EXAMPLES = examples()
NEEDS_WEIGHTS = {"pretrained"}  # tested in pretrained/


def test_every_example_is_run():
    assert EXAMPLES.keys() == GIVEN.keys() | NEEDS_WEIGHTS


@pytest.mark.parametrize("name", GIVEN)
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_an_example(name):
    names = {"torch": importlib.import_module("torch")}
    names |= vars(next(filter(None, map(module, (name, name.rpartition(".")[0])))))
    exec(textwrap.dedent(GIVEN[name]) + EXAMPLES[name], names)


def module(name):
    """The module of this name, or None."""
    try:
        return importlib.import_module(f"scratch_transformer.{name}")
    except ModuleNotFoundError:
        return None
