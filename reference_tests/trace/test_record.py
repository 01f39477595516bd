"""Recording: what it sees, and that it leaves nothing behind."""

import inspect
import threading

import pytest
import torch
from torch.overrides import _get_current_function_mode_stack

from scratch_transformer import attention, functional, masks, model, nn
from scratch_transformer.trace import record, trace
from scratch_transformer.trace.sites import SITES


def encoder_layer():
    torch.manual_seed(0)
    return nn.TransformerEncoderLayer(12, 3, 17, batch_first=True)


def small_model():
    torch.manual_seed(0)
    return model.build_transformer(19, 23, 11, 13, 12, 2, 3, 0.1, 17)


def run_of(transformer):
    return transformer, torch.randint(19, (2, 5)), torch.randint(23, (2, 7)), None, masks.causal(7)


def has_traces(module):
    hooks = [m._forward_hooks or m._forward_pre_hooks or m._backward_hooks for m in module.modules()]
    return any(hooks) or len(_get_current_function_mode_stack()) > 0


def test_nothing_is_left_behind():
    transformer = small_model()
    transformer.encoder.eval()
    training = [module.training for module in transformer.modules()]
    before = {name: set(vars(module)) for name, module in transformer.named_modules()}
    transformer, *inputs = run_of(transformer)
    threads, random = torch.get_num_threads(), torch.get_rng_state()
    found = trace(transformer, *inputs)
    assert not has_traces(transformer)
    assert [module.training for module in transformer.modules()] == training
    assert {name: set(vars(module)) for name, module in transformer.named_modules()} == before
    assert torch.get_num_threads() == threads and torch.get_rng_state().equal(random)
    assert not any(point.tensor.requires_grad for point in found) and torch.is_grad_enabled()
    assert attention.explain(*[torch.randn(1, 2, 1200, 4)] * 3).startswith("tiled")


@pytest.mark.parametrize("inputs", [(torch.randn(2, 5, 13),), (torch.randn(2, 5, 12), torch.ones(3, 3).bool())])
def test_nothing_is_left_behind_by_an_error(inputs):
    layer = encoder_layer().train()
    with pytest.raises((AssertionError, RuntimeError)):
        trace(layer, *inputs)
    assert not has_traces(layer) and all(module.training for module in layer.modules())


def test_the_callers_hooks_stay():
    layer, seen = encoder_layer(), []
    handle = layer.linear1.register_forward_hook(lambda module, given, output: seen.append(output))
    found = trace(layer, torch.randn(2, 5, 12))
    assert len(layer.linear1._forward_hooks) == 1 and len(seen) == 1
    assert found["linear1"].tensor.equal(seen[0])
    handle.remove()


def test_a_traced_run_is_the_run():
    transformer, *inputs = run_of(small_model().double().eval())
    with torch.no_grad():
        expected = transformer(*inputs)
    assert (trace(transformer, *inputs).output - expected).abs().max() < 1e-13


@pytest.mark.parametrize("make", [encoder_layer, small_model])
def test_a_modules_name_is_what_it_returned(make):
    module = make().eval()
    inputs = (torch.randn(2, 5, 12),) if make is encoder_layer else run_of(module)[1:]
    returned, handles = {}, []
    for path, part in module.named_modules():
        handles.append(part.register_forward_hook(lambda _, given, output, path=path: returned.update({path: output})))
    found = trace(module, *inputs)
    assert len(returned) > 9
    for path, output in returned.items():
        output = output[0] if isinstance(output, tuple) else output
        assert found[path.replace("_block", "") or "output"].tensor.equal(output), path


def test_the_points_are_in_the_order_of_computation():
    names = trace(*run_of(small_model())).names
    first = "encoder.layers.0.residual_connections.0.norm.mean", "encoder.layers.0.self_attention.w_q"
    assert names[0] == "src_embed.embedding" and names[-1] == "projection_layer.proj"
    wanted = [
        *first, "encoder.layers.0.self_attention.query", "encoder.layers.0.self_attention.key",
        "encoder.layers.0.self_attention.scores", "encoder.layers.0.self_attention.weights",
        "encoder.layers.0.self_attention.heads", "encoder.layers.0.self_attention.w_o",
        "encoder.layers.0.residual_connections.0.sum", "encoder.layers.0.feed_forward.hidden", "encoder.norm",
        "tgt_embed.embedding", "decoder.layers.0.self_attention.masked_scores",
        "decoder.layers.0.cross_attention.weights",
    ]  # fmt: skip
    places = [names.index(name) for name in wanted]
    assert places == sorted(places) and len(set(names)) == len(names)


def test_the_line_is_the_one_that_computes_it():
    found = trace(*run_of(small_model()))
    shows = {
        "src_embed.embedding": "index_select",
        "src_embed.scaled": "math.sqrt(self.d_model)",
        "src_pos.sum": "x + self.pe",
        "encoder.norm.mean": "x.mean(dims, keepdim=True)",
        "encoder.norm.variance": "variance = centred.square().mean",
        "encoder.norm": "x + bias",
        "encoder.layers.0.self_attention.w_q": "torch.addmm(bias",
        "encoder.layers.0.self_attention.scores": "@ key_BHSD.transpose(-2, -1)",
        "decoder.layers.0.self_attention.masked_scores": 'masked_fill(~mask, float("-inf"))',
        "encoder.layers.0.self_attention.exponentials": ".exp()",
        "encoder.layers.0.self_attention.heads": "@ value_BHSDv",
        "encoder.layers.0.self_attention.joined": "heads.transpose(1, 2).flatten(2)",
        "encoder.layers.0.residual_connections.0.sum": "x + self.dropout(sublayer(self.norm(x)))",
        "encoder.layers.0.feed_forward.hidden": "torch.where(x <= 0, 0, x)",
    }
    for name, code in shows.items():
        point = found[name]
        assert code in point.source.lines[point.line - point.source.first_line], name
    source = found["encoder.norm.mean"].source
    assert source.file == "scratch_transformer/functional.py" and source.doc == inspect.getdoc(functional.layer_norm)
    assert "".join(line + "\n" for line in source.lines) == inspect.getsource(inspect.unwrap(functional.layer_norm))


def test_every_site_is_reached():
    """A line of the reference that says it in another way must not lose a name in silence."""
    reached = set()
    for found in (
        trace(*run_of(small_model())),
        trace(nn.TransformerDecoderLayer(12, 3, 17, activation="gelu"), torch.randn(5, 2, 12), torch.randn(7, 2, 12)),
        trace(encoder_layer(), torch.randn(2, 5, 12)),
        trace(nn.MultiheadAttention(12, 3), *[torch.randn(5, 2, 12)] * 3),
        trace(nn.RMSNorm(12), torch.randn(5, 12)),
        trace(nn.BatchNorm1d(12), torch.randn(5, 12)),
        trace(nn.CrossEntropyLoss(), torch.randn(5, 12), torch.randint(12, (5,))),
        trace(nn.Softmax(-1), torch.randn(5, 12)),
    ):
        reached |= {point.kind for point in found}
    declared = {kind.name for site in SITES.values() for kinds in site.inside.values() for kind in kinds if kind}
    declared |= {kind.name for site in SITES.values() for kind in site.returns} - {"linear"}
    assert declared <= reached


def test_a_module_that_is_called_twice_has_two_names():
    class Twice(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(12)

        def forward(self, x):
            return self.norm(self.norm(x) + x)

    found = trace(Twice().double(), torch.randn(5, 12, dtype=torch.float64))
    assert [name for name in found.names if "variance" in name] == ["norm.variance", "norm.variance#2"]
    assert found["norm#2"].tensor.equal(found.output) and found.difference < 1e-12
    assert found["norm.mean#2"].difference < 1e-12


def test_a_value_that_is_overwritten_was_recorded_before():
    class InPlace(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.act = nn.Linear(12, 9), nn.ReLU(inplace=True)

        def forward(self, x):
            return self.act(self.linear(x))

    found = trace(InPlace().double(), torch.randn(5, 12, dtype=torch.float64))
    assert (found["linear"].tensor < 0).any() and not (found["act"].tensor < 0).any()
    assert found["linear"].difference < 1e-12 and found["act"].difference < 1e-12


def test_another_thread_is_not_recorded():
    layer, other = encoder_layer().eval(), nn.Linear(12, 12)
    go, done = threading.Event(), threading.Event()

    def work():
        go.wait()
        other(torch.randn(3, 12))
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    with record.recording(layer) as recorder:
        go.set()
        assert done.wait(30)
        layer(torch.randn(2, 5, 12))
    thread.join()
    assert all(point.module in dict(layer.named_modules()) for point in recorder.points)
    assert sum(point.kind.name == "linear_1" for point in recorder.points) == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype):
    layer, x = encoder_layer(), torch.randn(2, 5, 12)
    wide, half = trace(layer, x), trace(layer.to(dtype), x.to(dtype))
    assert half.names == wide.names and [p.equation for p in half] == [p.equation for p in wide]
    assert half.output.dtype == dtype and max(point.error for point in half) < 8 * torch.finfo(dtype).eps


def test_of_a_compiled_module_the_module_is_traced():
    layer, compiled = encoder_layer(), torch.nn.Module()
    compiled._orig_mod = layer  # as torch.compile has it; it takes half a minute to load
    assert trace(compiled, torch.randn(2, 5, 12)).names == trace(layer, torch.randn(2, 5, 12)).names


def test_what_is_refused():
    with pytest.raises(TypeError, match="model must be a module, a function or a trained run, but is 3"):
        trace(3)
