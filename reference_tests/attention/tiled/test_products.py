"""bfloat16 products by the processor: set for the length of a call, where nobody else can see it, and never longer."""

import contextlib
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest
import torch

from reference_tests.attention.tiled.others import builtin, draw, tiled
from scratch_transformer.attention import explain
from scratch_transformer.attention.tiled import backward, bystanders, forward, products, workers
from scratch_transformer.attention.tiled.products import Way

CPU = torch.device("cpu")
pytestmark = pytest.mark.skipif(
    not hasattr(torch.backends.mkldnn, "matmul"), reason=f"torch {torch.__version__} has no setting for it"
)


def setting():
    return torch.backends.mkldnn.matmul.fp32_precision


@pytest.fixture(autouse=True)
def restored():
    before = setting()
    yield
    assert setting() == before
    assert products._narrowed._calls == 0


@pytest.fixture
def it_pays(monkeypatch):
    """As on a processor with such products, and alone (the tests' own threads are not counted)."""
    known = set(threading.enumerate())
    monkeypatch.setattr(products, "_pays", lambda: True)

    def is_alone():
        return {thread for thread in threading.enumerate() if thread.ident not in workers._ours} <= known

    monkeypatch.setattr(workers, "is_alone", is_alone)


@pytest.fixture
def seen(monkeypatch):
    """The setting at every tile."""
    seen = []
    for module in (forward, backward):

        def exponents(*args, original=module.tile.exponents):
            seen.append(setting())
            return original(*args)

        monkeypatch.setattr(module.tile, "exponents", exponents)
    return seen


def qkv(dtype=torch.bfloat16, requires_grad=True):
    return [draw(2, 3, 70, 8).to(dtype).requires_grad_(requires_grad) for _ in range(3)]


@pytest.mark.parametrize("few", [False, True], ids=["tiles", "few keys"])
def test_set_during_both_passes_of_a_call_in_bfloat16(few, it_pays, seen, monkeypatch):
    monkeypatch.setattr(products, "multiplies_bfloat16", lambda: few)
    q, k, v = qkv()
    out = tiled(q, k, v)
    passes = len(seen)
    assert setting() == "none"
    torch.autograd.grad(out, (q, k, v), torch.randn_like(out))
    assert len(seen) > passes > 0
    assert set(seen) == {"bf16"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
def test_not_for_other_dtypes(dtype, it_pays, seen):
    tiled(*qkv(dtype))
    assert set(seen) == {"none"}


def test_not_where_it_does_not_pay(it_pays, seen, monkeypatch):
    monkeypatch.setattr(products, "_pays", lambda: False)
    tiled(*qkv())
    assert set(seen) == {"none"}


def test_not_beside_another_thread(it_pays, seen):
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    try:
        tiled(*qkv())
    finally:
        done.set()
        other.join()
    assert set(seen) == {"none"}


def test_threads_that_share_the_work_are_no_strangers(monkeypatch):
    workers._pool(3)
    strangers = {t for t in threading.enumerate() if t.ident not in workers._ours} - {threading.current_thread()}
    assert len(workers._ours) >= 2
    assert workers.is_alone() == (not bystanders.compute(list(strangers)))


def test_not_with_deterministic_algorithms(it_pays, seen):
    torch.use_deterministic_algorithms(True)
    try:
        tiled(*qkv())
    finally:
        torch.use_deterministic_algorithms(False)
    assert set(seen) == {"none"}


def test_not_on_a_torch_that_cannot(it_pays, seen, monkeypatch):
    monkeypatch.setattr(products, "_can", lambda: False)
    tiled(*qkv())
    assert set(seen) == {"none"}
    assert f"torch {torch.__version__} can't ask for others" in products.advantage(torch.bfloat16, CPU, 70)


def test_what_was_set_before_is_set_again(it_pays, seen):
    torch.backends.mkldnn.matmul.fp32_precision = "ieee"
    try:
        tiled(*qkv())
        assert setting() == "ieee"
        assert set(seen) == {"bf16"}
    finally:
        torch.backends.mkldnn.matmul.fp32_precision = "none"


def test_restored_after_an_error(it_pays, monkeypatch):
    def fail(*args):
        assert setting() == "bf16"
        raise KeyboardInterrupt

    monkeypatch.setattr(forward.tile, "exponents", fail)
    with pytest.raises(KeyboardInterrupt):
        tiled(*qkv())


def test_calls_within_and_beside_each_other(it_pays):
    with products.asked_for(Way.NARROWED):
        with products.asked_for(Way.NARROWED):
            assert setting() == "bf16"
        assert setting() == "bf16"
    assert setting() == "none"
    first, second = (contextlib.ExitStack() for _ in range(2))
    first.enter_context(products.asked_for(Way.NARROWED))
    second.enter_context(products.asked_for(Way.NARROWED))
    first.close()  # the other goes on
    assert setting() == "bf16"
    second.close()
    assert setting() == "none"


def test_a_float32_product_in_between_has_float32s_error(it_pays):
    q, k, v = qkv()
    a, b = torch.randn(64, 64), torch.randn(64, 64)
    expected = a.double() @ b.double()
    out = tiled(q, k, v)
    assert (a @ b - expected).abs().max() < 1e-4  # bfloat16's would be 1e-1
    torch.autograd.grad(out, (q, k, v), torch.randn_like(out))
    assert (a @ b - expected).abs().max() < 1e-4


def test_as_close_as_the_builtin(it_pays):
    """Against float64: outputs and gradients."""
    q, k, v = qkv()
    grad = torch.randn(2, 3, 70, 8, dtype=torch.bfloat16)

    def run(attend, dtype):
        x = [t.detach().to(dtype).requires_grad_() for t in (q, k, v)]
        out = attend(*x)
        return [out.detach(), *torch.autograd.grad(out, x, grad.to(dtype))]

    golden, ours, theirs = run(builtin, torch.float64), run(tiled, torch.bfloat16), run(builtin, torch.bfloat16)
    for g, o, t in zip(golden, ours, theirs, strict=True):
        assert (o - g).abs().max() <= 2 * (t - g).abs().max()


def test_scores_are_exact(it_pays):
    """What is multiplied are bfloat16 numbers: the scale comes after the product."""
    q, k, _ = qkv(requires_grad=False)
    problem = forward.Problem.of(q, k, k, None, None, 0.0, None, None, 0.3)
    block = problem.blocks()[0]
    scratch = workers.Scratch(torch.float32, CPU)
    with products.asked_for(problem.way):
        query = forward.tile.query_rows(problem, block, scratch)
        keys = problem.key_tiles(block)[0]
        key = forward.tile.keys_of(problem.key, "key", block, keys, scratch)
        scores = forward.tile.exponents(problem, block, keys, query, key, scratch)
    expected = problem.exponent_scale * query.double() @ key.double().transpose(1, 2)
    assert (scores - expected).abs().max() < 1e-6 * expected.abs().max()


def test_compiled(it_pays, seen):
    q, k, v = qkv(requires_grad=False)
    compiled = torch.compile(tiled, backend="eager", fullgraph=True)
    assert torch.equal(compiled(q, k, v), tiled(q, k, v))
    assert set(seen) == {"bf16"}


FORK = """
import os, sys, torch
from scratch_transformer.attention.tiled import products

with products.asked_for(products.Way.NARROWED):
    assert torch.backends.mkldnn.matmul.fp32_precision == "bf16"
    child = os.fork()
    if child == 0:
        os._exit(torch.backends.mkldnn.matmul.fp32_precision != "none")
assert torch.backends.mkldnn.matmul.fp32_precision == "none"
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
def test_a_fork_in_the_middle_of_a_call():
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], timeout=120).returncode == 0


def test_explained(it_pays):
    q, k, v = (torch.randn(8, 8, 256, 16, dtype=torch.bfloat16) for _ in range(3))
    assert "; products of bfloat16 by the processor" in explain(q, k, v).splitlines()[0]
    assert "products" not in explain(q.float(), k.float(), v.float())
    assert products.advantage(torch.float32, CPU, 70) == ""
    assert products.advantage(torch.bfloat16, torch.device("meta"), 70) == ""


def test_why_not(it_pays, monkeypatch):
    def reason(dtype=torch.bfloat16, device=CPU, rows=products.ROWS):
        return products.against(dtype, device, rows)

    for dtype, device in ((torch.float32, CPU), (torch.bfloat16, torch.device("meta"))):
        assert reason(dtype, device) == "only bfloat16 on a CPU has others"
    assert reason(rows=products.ROWS - 1) == "for few queries it takes longer to narrow the keys"
    assert reason() is None
    monkeypatch.setattr(products, "_pays", lambda: False)
    assert reason() == "oneDNN multiplies no faster for it here"
    monkeypatch.setattr(workers, "is_alone", lambda: False)
    assert reason() == "other threads run, whose products would be rounded too"
    monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: True)
    assert reason() == "deterministic algorithms are asked for, and which threads run would decide"


# ---- Where it can't be had: products are rounded ----


@pytest.mark.parametrize("multiplies", [False, True])
@pytest.mark.parametrize("pays", [False, True])
def test_which_way(multiplies, pays, it_pays, monkeypatch):
    """Narrowed where it pays; else rounded, where the processor multiplies bfloat16."""
    monkeypatch.setattr(products, "_pays", lambda: pays)
    monkeypatch.setattr(products, "multiplies_bfloat16", lambda: multiplies)
    instead = Way.ROUNDED if multiplies else Way.WIDE
    assert products.way(torch.bfloat16, CPU, products.ROWS) is (Way.NARROWED if pays else instead)
    assert products.way(torch.bfloat16, CPU, products.ROWS - 1) is Way.WIDE
    assert products.way(torch.bfloat16, torch.device("meta"), 70) is Way.WIDE
    for dtype in (torch.float16, torch.float32, torch.float64):
        assert products.way(dtype, CPU, 70) is Way.WIDE


@pytest.mark.parametrize("way, is_set", [(Way.WIDE, False), (Way.NARROWED, True), (Way.ROUNDED, False)])
def test_onednn_is_told_on_one_way_alone(way, is_set):
    with products.asked_for(way):
        assert setting() == ("bf16" if is_set else "none")


@pytest.mark.parametrize("options", [{}, {"dropout_p": 0.5}, {"attn_mask": True}], ids=str)
@pytest.mark.parametrize("multiplies", [False, True])
def test_what_is_multiplied_in_bfloat16(options, multiplies, it_pays, monkeypatch):
    """All but scores, and the gradient of weights where dropout or a mask's gradient need it in float32."""
    monkeypatch.setattr(products, "_pays", lambda: False)
    monkeypatch.setattr(products, "multiplies_bfloat16", lambda: multiplies)
    monkeypatch.setattr(forward.few, "suits", lambda *_: False)
    q, k, v = qkv()
    if "attn_mask" in options:
        options = {"attn_mask": draw(70, 70).float().requires_grad_()}
    seen = []
    bmm, baddbmm_ = torch.bmm, torch.Tensor.baddbmm_
    monkeypatch.setattr(torch, "bmm", lambda a, b, out: seen.append(b.dtype) or bmm(a, b, out=out))
    monkeypatch.setattr(torch.Tensor, "baddbmm_", lambda sum, a, b: seen.append(b.dtype) or baddbmm_(sum, a, b))
    out = tiled(q, k, v, **options)
    of_forward, seen[:] = list(seen), []
    torch.autograd.grad(out, (q, k, v, *options.values())[: 4 if "attn_mask" in options else 3], torch.randn_like(out))
    narrow, wide = torch.bfloat16 if multiplies else torch.float32, torch.float32
    assert of_forward == [wide, narrow]
    assert seen == [wide, wide if options else narrow, narrow, narrow, narrow]


def test_rounded_with_deterministic_algorithms(it_pays, monkeypatch):
    """Then no thread decides."""
    monkeypatch.setattr(products, "multiplies_bfloat16", lambda: True)
    torch.use_deterministic_algorithms(True)
    try:
        assert products.way(torch.bfloat16, CPU, 70) is Way.ROUNDED
    finally:
        torch.use_deterministic_algorithms(False)


def test_rounded_dropout_drops_the_same_backward(it_pays, monkeypatch):
    """Though the forward pass was narrowed, before another thread came. The result is linear in the values."""
    monkeypatch.setattr(products, "multiplies_bfloat16", lambda: True)
    q, k, v = (draw(1, 1, length, 8).bfloat16().requires_grad_() for length in (1100, 1100, 1100))
    out = tiled(q, k, v, dropout_p=0.5)
    monkeypatch.setattr(products, "_pays", lambda: False)
    upstream = draw(1, 1, 1100, 8).bfloat16()
    (grad_value,) = torch.autograd.grad(out, v, upstream)
    found, expected = (grad_value.double() * v.double()).sum(), (upstream.double() * out.double()).sum()
    size = (upstream.double() * out.double()).norm()
    assert (found - expected).abs() < 0.1 * size


def test_ways_explained(it_pays, monkeypatch):
    monkeypatch.setattr(products, "_pays", lambda: False)
    for multiplies, words in (
        (True, "products of bfloat16 by the processor, rounded, and scores in float32"),
        (False, "products in float32"),
    ):
        monkeypatch.setattr(products, "multiplies_bfloat16", lambda multiplies=multiplies: multiplies)
        said = products.advantage(torch.bfloat16, CPU, 70)
        assert said == f"{words}: oneDNN multiplies no faster for it here"
    monkeypatch.setattr(products, "against", lambda *_: None)
    assert products.advantage(torch.bfloat16, CPU, 70) == products.way(torch.bfloat16, CPU, 70).value


# ---- How it is kept and measured, on a setting and by a clock of our own ----


@pytest.fixture
def other_setting(monkeypatch):
    setting = SimpleNamespace(fp32_precision="ieee")
    monkeypatch.setattr(products, "_setting", lambda: setting)
    return setting


def test_the_first_call_sets_it_and_the_last_one_sets_it_back(other_setting):
    narrowed = products._Narrowed()
    narrowed.enter()
    narrowed.enter()
    narrowed.leave()
    assert other_setting.fp32_precision == "bf16"
    narrowed.leave()
    assert other_setting.fp32_precision == "ieee"


def test_without_the_setting_it_cannot(monkeypatch):
    def old():
        raise AttributeError("matmul")

    assert products._can()
    monkeypatch.setattr(products, "_setting", old)
    assert not products._can()


def test_forked_it_forgets_the_calls_of_its_parent(other_setting):
    narrowed = products._Narrowed()
    narrowed.forget()
    assert other_setting.fp32_precision == "ieee"
    narrowed.enter()
    narrowed._lock.acquire()  # by another thread, at the moment of the fork
    narrowed.forget()
    assert other_setting.fp32_precision == "ieee"
    for expected in ("bf16", "ieee"):
        assert narrowed._lock.acquire(timeout=1)
        narrowed._lock.release()
        (narrowed.enter if expected == "bf16" else narrowed.leave)()
        assert other_setting.fp32_precision == expected


@pytest.mark.parametrize("times, pays", [(0.5, False), (1.25, False), (1.5, True)])
def test_it_pays_where_the_fastest_is_faster_by_so_much(times, pays, other_setting, monkeypatch):
    """By a clock on which products take 3 seconds, or so many times as many without the setting, and one takes long."""
    now, asked, threads = [0.0], [], set()
    monkeypatch.setattr(products, "PAYS", 1.25)  # not more
    monkeypatch.setattr(torch, "bmm", lambda *_, **__: threads.add(torch.get_num_threads()))

    def clock():
        asked.append(other_setting.fp32_precision)
        if len(asked) % 2 == 0:
            now[0] += (3 if asked[-1] == "bf16" else 3 * times) * (50 if len(asked) < 5 else 1)
        return now[0]

    monkeypatch.setattr(products, "time", SimpleNamespace(perf_counter=clock))
    assert products._pays.__wrapped__() is pays
    assert set(asked) == {"bf16", "ieee"}
    assert threads == {1}
    assert other_setting.fp32_precision == "ieee"


def test_measured_on_this_machine():
    """Either answer may be right here: it is an answer, and nothing stays set."""
    assert products._pays() in (True, False)
