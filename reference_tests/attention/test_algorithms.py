"""Which algorithm computes a call: by name, by context, or by itself; and that everything goes through that choice."""

import inspect
import logging
import threading
from types import SimpleNamespace

import pytest
import torch

from reference_tests.agreement import assert_equal
from reference_tests.attention.tiled.others import draw
from reference_tests.model_pair import draw_ids, our_masks, small_model
from scratch_transformer import nn
from scratch_transformer.attention import (
    ALGORITHMS,
    algorithms,
    attention_weights,
    explain,
    naive,
    scaled_dot_product_attention,
    tiled,
    use_algorithm,
)

FEW = algorithms.FEW_SCORES


@pytest.fixture
def ran(monkeypatch):
    """The names of the algorithms that ran, in order."""
    names = []

    class Recorded:
        def __init__(self, name, algorithm):
            self._name, self._algorithm, self.unsupported = name, algorithm, algorithm.unsupported

        def run(self, *args, **kwargs):
            names.append(self._name)
            return self._algorithm.run(*args, **kwargs)

    for name, algorithm in ALGORITHMS.items():
        monkeypatch.setitem(ALGORITHMS, name, Recorded(name, algorithm))
    return names


@pytest.fixture
def everything_is_large(monkeypatch):
    monkeypatch.setattr(algorithms, "FEW_SCORES", 0)


@pytest.fixture
def qkv():
    return [draw(2, 3, 4, 5) for _ in range(3)]


def without_data(*shape, dtype=torch.float32):
    """As large as you like: a tensor with one number in memory."""
    return torch.zeros((), dtype=dtype).expand(shape)


def chosen(query, key=None, value=None, *args, **kwargs):
    key = query if key is None else key
    return explain(query, key, key if value is None else value, *args, **kwargs).splitlines()[0]


# ---- By itself ----


def test_few_queries_of_many_keys_are_not_left_to_what_copies_them():
    """Half precision, or keys that heads share; else the fewest steps are best."""
    query, shared = without_data(1, 8, 1, 16), without_data(1, 2, 4096, 16)
    assert chosen(query, without_data(1, 8, 4096, 16)).startswith("naive")
    assert chosen(query, shared, enable_gqa=True).startswith("tiled")
    half = without_data(1, 8, 4096, 16, dtype=torch.bfloat16)
    assert chosen(half[:, :, :1], half).startswith("tiled")
    assert chosen(half[:, :, :1], half[:, :, :1000]).startswith("naive")
    assert chosen(half[:, :, :20], half).startswith("naive")


def test_few_scores_on_the_cpu():
    assert FEW == 1 << 20
    few, many = without_data(4, 8, 128, 64), without_data(1, 1, 1024, 64)
    assert chosen(few[:1]) == f"naive: the fewest steps, for fewer than {FEW} scores"
    assert chosen(many) == "tiled: never holds all scores, and keeps every core busy"
    assert chosen(many, many[:, :, 1:]).startswith("naive")
    assert chosen(few, without_data(4, 8, 255, 64)).startswith("naive")
    assert chosen(few, without_data(4, 8, 256, 64)).startswith("tiled")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_every_floating_dtype(dtype):
    assert chosen(without_data(1, 1, 1024, 64, dtype=dtype)).startswith("tiled")


MANY = without_data(1, 2, 2048, 8)
REASONS = {
    "integers": ((without_data(1, 2, 2048, 8, dtype=torch.int64),), "torch.int64 is no floating-point dtype"),
    "shared batch": ((without_data(3, 2, 2048, 8), MANY), "query, key and value are broadcast"),
    "a large mask": ((MANY, MANY, MANY, without_data(5, 1, 1, 1)), "query is broadcast over the mask"),
    "dropout of all": ((MANY, MANY, MANY, None, 1.0), "dropout_p is 1.0: no weight is left to scale"),
}


@pytest.mark.parametrize("call, reason", REASONS.values(), ids=REASONS)
def test_what_tiles_cant(call, reason):
    assert chosen(*call) == f"naive: tiled can't: {reason}"


def test_another_device_without_kernels():
    """Tensors without data stand for one."""
    query = torch.empty(1, 1, 1 << 15, 8, device="meta")
    most = algorithms.MANY_SCORES_ON_GPU
    assert chosen(query[:, :, : 1 << 14]) == f"naive: the fewest steps, and {most} scores fit the memory"
    assert chosen(query[:, :, : 1 << 14], query).startswith("naive: the fewest steps")  # exactly so many
    assert chosen(query) == "naive: tiled can't: tensors without data have no tiles"


@pytest.mark.cuda
def test_on_cuda():
    query = torch.randn(1, 2, 300, 64, device="cuda")
    name = chosen(query).partition(":")[0]
    able = [kernel for kernel in algorithms.KERNELS if ALGORITHMS[kernel].unsupported(query, query, query) is None]
    assert name == [*able, "naive"][0]


class OnAGpu(torch.Tensor):
    is_cuda = True


@pytest.mark.parametrize("able", [{"decode", "hopper", "triton"}, {"hopper", "triton"}, {"triton"}, set()])
def test_the_first_kernel_that_can(able, qkv, monkeypatch):
    asked = []
    for name in algorithms.KERNELS:
        reason = None if name in able else "it can't"
        fake = SimpleNamespace(unsupported=lambda *call, reason=reason: asked.append(call) or reason)
        monkeypatch.setitem(ALGORITHMS, name, fake)
    on_cpu = (*qkv, torch.ones(4, 4, dtype=torch.bool), 0.25)
    assert algorithms.choose("auto", *on_cpu).algorithm == "naive"
    assert asked == []
    call = (qkv[0].as_subclass(OnAGpu), *on_cpu[1:])
    choice = algorithms.choose("auto", *call)
    first = next((name for name in algorithms.KERNELS if name in able), "naive")
    assert choice.algorithm == first
    assert choice.reason == algorithms.KERNELS.get(first, choice.reason)
    assert asked
    assert all(len(one) == 5 and all(a is b for a, b in zip(one, call, strict=True)) for one in asked)


def test_the_environment_can_leave_the_hopper_kernels_out(qkv, monkeypatch):
    for name in algorithms.KERNELS:
        can = SimpleNamespace(unsupported=lambda *call, reason="few" if name == "decode" else None: reason)
        monkeypatch.setitem(ALGORITHMS, name, can)
    query = qkv[0].as_subclass(OnAGpu)
    assert chosen(query).startswith("hopper: ")
    monkeypatch.setenv("SCRATCH_TRANSFORMER_ATTENTION", "triton")
    assert chosen(query).startswith("triton: ")
    assert chosen(query).endswith("SCRATCH_TRANSFORMER_ATTENTION=triton leaves hopper out")
    assert chosen(query, algorithm="hopper") == "hopper: asked for"
    monkeypatch.setenv("SCRATCH_TRANSFORMER_ATTENTION", "hoper")
    with pytest.raises(ValueError, match="must be triton or not set, but is 'hoper'"):
        chosen(query)
    assert chosen(qkv[0]).startswith("naive")  # no GPU: nobody asks for the word


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"window": (1, 2)}, {"bottom_right": True}], ids=str)
def test_what_is_explained_is_what_runs(few, options, qkv, ran, monkeypatch):
    monkeypatch.setattr(algorithms, "FEW_SCORES", 1 << 30 if few else 0)
    result = scaled_dot_product_attention(*qkv, **options)
    assert ran == ["naive" if few else "tiled"] == [explain(*qkv, **options).partition(":")[0]]
    assert_equal(result, scaled_dot_product_attention(*qkv, algorithm="naive", **options))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # within torch
def test_whoever_looks_into_operations_sees_them(qkv, ran, everything_is_large):
    query, key, value = qkv

    def attention(x):
        return scaled_dot_product_attention(x, key, value)

    expected = naive.run(*qkv)
    vmapped = torch.vmap(scaled_dot_product_attention)(*qkv)
    assert_equal(vmapped, expected)
    _, tangent = torch.func.jvp(attention, (query,), (torch.ones_like(query),))
    assert (tangent != 0).any()
    assert torch.func.grad(lambda x: attention(x).square().sum())(query).abs().sum() > 0
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(query, torch.ones_like(query))
        assert_equal(torch.autograd.forward_ad.unpack_dual(attention(dual)).tangent, tangent)
        why = "forward-mode derivatives, torch.func and torch.export look into every operation"
        assert chosen(dual) == f"naive: {why}"
    assert set(ran) == {"naive"}
    attention(query)
    assert ran[-1] == "tiled"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # within torch
def test_exports_plain_operations(qkv, everything_is_large):
    class Attention(torch.nn.Module):
        def forward(self, query, key, value):
            return scaled_dot_product_attention(query, key, value)

    exported = torch.export.export(Attention(), tuple(qkv))
    operations = {str(node.target) for node in exported.graph.nodes if node.op == "call_function"}
    if hasattr(torch.compiler, "is_exporting"):  # since torch 2.7
        assert not any("scratch_transformer" in name or "scaled_dot_product" in name for name in operations)
    assert_equal(exported.module()(*qkv), naive.run(*qkv))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # within torch
def test_masks_of_any_rank_compile():
    """The comparison of shapes too: torch 2.6 compiles no zip of unequal lengths."""
    torch.compiler.reset()
    compiled = torch.compile(scaled_dot_product_attention, backend="eager", fullgraph=True)
    x = torch.randn(2, 3, 4, 5)
    for shape in ((4,), (4, 4), (3, 1, 4), (2, 1, 4, 4)):
        mask = torch.rand(shape) < 0.6
        assert torch.allclose(compiled(x, x, x, mask), scaled_dot_product_attention(x, x, x, mask), atol=1e-6)
    torch.compiler.reset()


# ---- By name ----


def test_the_names():
    assert list(ALGORITHMS) == ["naive", "tiled", "triton", "hopper", "decode"]
    assert set(algorithms.KERNELS) <= set(ALGORITHMS)


@pytest.mark.parametrize("name", ["naive", "tiled"])
def test_per_call(name, qkv, ran):
    result = scaled_dot_product_attention(*qkv, algorithm=name)
    assert ran == [name]
    assert explain(*qkv, algorithm=name).splitlines()[0] == f"{name}: asked for"
    assert_equal(result, naive.run(*qkv))


@pytest.mark.parametrize("name", ["flash", "", "Naive", "AUTO"])
def test_unknown_names(name, qkv):
    message = f"must be one of auto, naive, tiled, triton, hopper, decode, but is {name!r}"
    for call in (
        lambda: scaled_dot_product_attention(*qkv, algorithm=name),
        lambda: explain(*qkv, algorithm=name),
        lambda: use_algorithm(name).__enter__(),
    ):
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize("name", ["triton", "hopper", "decode"])
def test_kernels_say_that_they_cant_run_here(name, qkv):
    reason = ALGORITHMS[name].unsupported(*qkv)
    assert reason
    with pytest.raises(RuntimeError) as error:
        scaled_dot_product_attention(*qkv, algorithm=name)
    assert str(error.value) == f"attention: algorithm {name!r} can't run this call: {reason}"
    assert f"not {name}: {reason}" in explain(*qkv).splitlines()


def test_explain_takes_what_attention_takes():
    query, key, value = draw(2, 6, 4, 5), draw(2, 2, 7, 5), draw(2, 2, 7, 3)
    options = {"attn_mask": draw(4, 7), "dropout_p": 0.5, "is_causal": True, "scale": 2.0, "enable_gqa": True}
    text = explain(query, key, value, **options, bottom_right=True, window=(1, None), algorithm="tiled")
    assert text.startswith("tiled: asked for\nnot triton: ")
    with pytest.raises(RuntimeError, match="must agree in batch and heads"):
        explain(query, key, value)
    with pytest.raises(RuntimeError, match=r"attn_mask \(3, 7\) must broadcast"):
        explain(query, key, value, draw(3, 7), enable_gqa=True)
    with pytest.raises(ValueError, match="window"):
        explain(query, key, value, enable_gqa=True, window=(-1, None))
    assert inspect.signature(explain).parameters == inspect.signature(scaled_dot_product_attention).parameters


@pytest.mark.parametrize("options", [{"attn_mask": torch.ones(5, 1, 1, 1) > 0}, {"dropout_p": 1.0}], ids=["mask", "p"])
def test_what_keeps_others_from_the_call(options, qkv):
    reasons = {name: other.unsupported(*qkv, **options) for name, other in ALGORITHMS.items()}
    assert reasons["tiled"]
    expected = [f"not {name}: {reason}" for name, reason in reasons.items() if reason is not None]
    assert explain(*qkv, **options).splitlines()[1:] == expected


NO_WINDOW = "the kernels have no window, and no causal mask but the one from the top left"
HANDED_ON = {
    "all keys": (7, {}, None),
    "causal": (4, {"is_causal": True}, None),
    "causal, more keys": (7, {"is_causal": True}, "causal attention needs as many queries as keys, not 4 and 7"),
    "window": (4, {"window": (1, None)}, NO_WINDOW),
    "bottom right": (7, {"is_causal": True, "bottom_right": True}, NO_WINDOW),
}


@pytest.mark.parametrize("keys, options, reason", HANDED_ON.values(), ids=HANDED_ON)
def test_what_hopper_hands_on_is_explained(keys, options, reason, monkeypatch):
    for name in ("hopper", "triton"):
        monkeypatch.setitem(ALGORITHMS, name, SimpleNamespace(unsupported=lambda *call: None))
    query, key = draw(3, 4, 5), draw(3, keys, 5)
    handed = "" if reason is None else f"; hands this call to triton: {reason}"
    assert chosen(query, key, algorithm="hopper", **options) == f"hopper: asked for{handed}"
    assert chosen(query, key, algorithm="triton", **options) == "triton: asked for"


# ---- By context ----


def test_contexts_nest(qkv, ran):
    def run(**options):
        scaled_dot_product_attention(*qkv, **options)

    run()
    with use_algorithm("tiled"):
        run()
        with use_algorithm("naive"):
            run()
            run(algorithm="tiled")
        run()
        with use_algorithm("auto"):
            run()
        run()
    run()
    assert ran == ["naive", "tiled", "naive", "tiled", "tiled", "naive", "tiled", "naive"]


def test_a_context_ends_with_an_exception(qkv, ran):
    with pytest.raises(KeyError), use_algorithm("tiled"):
        raise KeyError
    with pytest.raises(ValueError, match="must be one of"), use_algorithm("flash"):
        pass
    scaled_dot_product_attention(*qkv)
    assert ran == ["naive"]


def test_a_context_holds_in_every_thread(qkv, ran):
    """Such as those in which autograd computes checkpoints again."""
    with use_algorithm("tiled"):
        thread = threading.Thread(target=scaled_dot_product_attention, args=qkv)
        thread.start()
        thread.join()
    assert ran == ["tiled"]


def test_a_context_asks_for_what_can_run(qkv):
    with use_algorithm("tiled"), pytest.raises(RuntimeError, match="'tiled' can't run this call: dropout_p is 1"):
        scaled_dot_product_attention(*qkv, dropout_p=1)


# ---- The log ----


def test_the_log_says_what_was_chosen_and_why(qkv, caplog):
    with caplog.at_level(logging.DEBUG, logger="scratch_transformer.attention"):
        scaled_dot_product_attention(*qkv)
        scaled_dot_product_attention(*qkv, algorithm="tiled")
    sizes = "(query (2, 3, 4, 5), key (2, 3, 4, 5), torch.float64)"
    assert [record.getMessage() for record in caplog.records] == [
        f"naive: the fewest steps, for fewer than {FEW} scores {sizes}",
        f"tiled: asked for {sizes}",
    ]
    assert {(record.levelno, record.name) for record in caplog.records} == {
        (logging.DEBUG, "scratch_transformer.attention")
    }


def test_the_log_is_silent_otherwise(qkv, caplog):
    with caplog.at_level(logging.INFO, logger="scratch_transformer.attention"):
        scaled_dot_product_attention(*qkv)
    assert caplog.records == []


# ---- Who goes through it ----


def test_multihead_attention(ran, everything_is_large):
    x = draw(2, 7, 12)
    module = nn.MultiheadAttention(12, 3, batch_first=True).double()
    outcomes = {}
    for name in ("auto", "naive", "tiled"):
        with use_algorithm(name):
            outcomes[name] = module(x, x, x, need_weights=False)[0].detach()
    assert ran == ["tiled", "naive", "tiled"]
    assert_equal(outcomes["tiled"], outcomes["naive"])
    weighted, weights = module(x, x, x, need_weights=True)
    assert len(ran) == 3  # weights are asked for: only the naive algorithm has them
    assert weights.shape == (2, 7, 7)
    assert_equal(weighted.detach(), outcomes["naive"])


@pytest.mark.parametrize("name", ["Transformer", "TransformerEncoderLayer", "TransformerDecoderLayer"])
def test_layers(name, ran, everything_is_large):
    sizes = (1, 1, 5) if name == "Transformer" else (5,)
    layer = getattr(nn, name)(12, 3, *sizes, dropout=0.0, batch_first=True).double()
    inputs = [draw(2, 7, 12)] * (1 if "Encoder" in name else 2)
    ours = layer(*inputs)
    assert set(ran) == {"tiled"}
    with use_algorithm("naive"):
        assert_equal(ours.detach(), layer(*inputs).detach())


def test_the_model(ran, everything_is_large):
    model = small_model().double()
    src, tgt = draw_ids()
    src_mask, tgt_mask = our_masks(src, tgt)

    def logits():
        return model.project(model.decode(model.encode(src, src_mask), src_mask, tgt, tgt_mask)).detach()

    ours = logits()
    assert set(ran) == {"tiled"}
    assert len(ran) == 6  # two layers, each with one attention in the encoder and two in the decoder
    with use_algorithm("naive"):
        assert_equal(ours, logits())


def test_never_torchs_own(qkv, monkeypatch, everything_is_large):
    """Under any of its names."""

    def forbidden(*args, **kwargs):
        raise AssertionError("torch's own attention was called")

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", forbidden)
    monkeypatch.setattr(torch._C._nn, "scaled_dot_product_attention", forbidden)
    with torch.profiler.profile() as profile:
        for name in ("auto", "naive", "tiled"):
            query = qkv[0].clone().requires_grad_()
            scaled_dot_product_attention(query, *qkv[1:], algorithm=name).sum().backward()
        attention_weights(*qkv[:2])
    names = {event.name for event in profile.events()}
    assert "aten::bmm" in names
    assert not any("scaled_dot_product" in name or "flash" in name or "aten::softmax" in name for name in names)


def test_the_choice_is_not_in_the_way_of_a_compiled_graph(qkv, ran):
    assert tiled.unsupported(*qkv) is None
    compiled = torch.compile(scaled_dot_product_attention, backend="eager", fullgraph=True)
    torch.compiler.reset()
    assert_equal(compiled(*qkv), naive.run(*qkv))
    assert_equal(compiled(*qkv, algorithm="tiled"), naive.run(*qkv))
    torch.compiler.reset()


def test_an_algorithms_own_defaults_are_attentions():
    call = draw(2, 3, 4, 5), draw(2, 3, 7, 5), draw(2, 3, 7, 6)
    for algorithm in (naive, tiled):
        assert_equal(algorithm.run(*call, is_causal=True), scaled_dot_product_attention(*call, is_causal=True))


@pytest.mark.parametrize("window", [(-1, None), (None, -2), (1, 2, 3)], ids=str)
def test_no_windows(window, qkv):
    for call in (scaled_dot_product_attention, explain):
        with pytest.raises(ValueError, match="window"):
            call(*qkv, window=window)
