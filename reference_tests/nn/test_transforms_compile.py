"""torch.compile in one graph, and torch.export: results and gradients are those of torch's modules, not compiled."""

import os
import shutil

import pytest
import torch
from torch._dynamo.testing import CompileCounter

from reference_tests.agreement import assert_agree, assert_equal
from reference_tests.nn.examples import CASES, MODULES, QUIET, draw, make, over
from scratch_transformer import nn

pytestmark = [*QUIET, pytest.mark.filterwarnings("ignore::DeprecationWarning")]  # within torch's compiler itself

FURTHER = {
    "Embedding": ["padding_idx and scale_grad_by_freq", "max_norm"],
    "MultiheadAttention": ["unbatched, weights per head, masks", "add_bias_kv and add_zero_attn", "causal hint"],
    "TransformerEncoderLayer": ["boolean mask and padding"],
    "TransformerEncoder": ["mask and padding"],
    "TransformerDecoderLayer": ["as in translation"],
    "BatchNorm1d": ["evaluation on sequences"],
}
CHOSEN = [
    (component, case)
    for component, case in CASES
    if case is component.cases[0] or case.description in FURTHER.get(component.name, ())
]
STACKS = {"TransformerDecoder", "Transformer"}  # layers are compiled by themselves, and the stack of encoder layers
chosen = over(CHOSEN, long=STACKS)


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def test_the_further_cases_exist():
    expected = len(MODULES) + sum(map(len, FURTHER.values()))
    assert len(CHOSEN) == expected


@chosen
def test_compiles_into_one_graph(component, case):
    ours, builtin = make(component, case)
    args, kwargs = draw(case)
    assert_agree(torch.compile(ours, backend="aot_eager", fullgraph=True), builtin, *args, **kwargs)


@chosen
def test_exports(component, case):
    ours, builtin = make(component, case)
    args, kwargs = draw(case)
    exported = torch.export.export(ours, args, kwargs).module()
    other_args, other_kwargs = draw(case, seed=2)
    assert_equal(exported(*other_args, **other_kwargs), builtin(*other_args, **other_kwargs))


def test_exports_with_any_batch_and_length():
    module = nn.MultiheadAttention(6, 3, batch_first=True).double().eval()
    batch, length = torch.export.Dim("batch", min=2, max=64), torch.export.Dim("length", min=2, max=64)
    x, padding = torch.randn(4, 5, 6, dtype=torch.float64), torch.zeros(4, 5, dtype=torch.bool)
    sizes = {0: batch, 1: length}
    dynamic = {"query": sizes, "key": sizes, "value": sizes, "key_padding_mask": sizes}
    exported = torch.export.export(module, (x, x, x), {"key_padding_mask": padding}, dynamic_shapes=dynamic).module()
    for shape in ((3, 7), (9, 2)):
        x, padding = torch.randn(*shape, 6, dtype=torch.float64), torch.rand(shape) < 0.3
        padding[:, 0] = False
        assert_equal(exported(x, x, x, key_padding_mask=padding), module(x, x, x, key_padding_mask=padding))


def test_one_compiled_graph_serves_every_length():
    counter = CompileCounter()
    ours = nn.TransformerEncoderLayer(6, 3, 7, 0.0, batch_first=True).double()
    builtin = torch.nn.TransformerEncoderLayer(6, 3, 7, 0.0, batch_first=True).double()
    builtin.load_state_dict(ours.state_dict())
    compiled = torch.compile(ours, backend=counter, fullgraph=True, dynamic=True)
    for batch, length in ((2, 5), (4, 7), (3, 11)):
        x = torch.randn(batch, length, 6, dtype=torch.float64)
        assert_equal(compiled(x).detach(), builtin(x).detach())
    assert counter.frame_count == 1


@pytest.mark.skipif(
    not any(map(shutil.which, filter(None, (os.environ.get("CXX"), "g++", "clang++", "c++")))),
    reason="inductor makes C++ on the CPU, and there is no compiler for it",
)
@pytest.mark.filterwarnings("ignore::UserWarning")  # of older inductors, about their own settings
@pytest.mark.long
def test_inductor(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    ours = nn.TransformerEncoderLayer(6, 3, 7, 0.0, batch_first=True).double()
    builtin = torch.nn.TransformerEncoderLayer(6, 3, 7, 0.0, batch_first=True).double()
    builtin.load_state_dict(ours.state_dict())
    x, padding = torch.randn(2, 5, 6, dtype=torch.float64), torch.zeros(2, 5, dtype=torch.bool)
    padding[1, 3:] = True
    compiled = torch.compile(ours, backend="inductor", fullgraph=True)
    assert_agree(compiled, builtin, x, src_key_padding_mask=padding)
