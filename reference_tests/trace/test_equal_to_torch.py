"""Every named tensor of every component is torch's, in float64."""

import copy
import itertools

import pytest
import torch

from reference_tests import model_pair
from scratch_transformer import masks, model, nn
from scratch_transformer.conformance.compare import DEFINITION
from scratch_transformer.conformance.draw import B, Draw, E, S, T
from scratch_transformer.conformance.measures import relative_error
from scratch_transformer.conformance.switches import exact
from scratch_transformer.conformance.table import COMPONENTS
from scratch_transformer.trace import trace
from scratch_transformer.trace.beside import torch_beside

CASES = [(component, case) for component in COMPONENTS.values() for case in component.cases]
EXPECTED = {
    "Linear": set(),
    "Embedding": set(),
    "Dropout": set(),
    "Softmax": {"maxima", "exponentials", "sums"},
    "ReLU": set(),
    "GELU": set(),
    "SiLU": set(),
    "RotaryEmbedding": set(),
    "GatedFeedForward": {"gate_proj", "up_proj", "down_proj"},
    "CausalSelfAttention": {"q_proj", "k_proj", "v_proj", "scores", "weights", "heads", "o_proj"},
    "LayerNorm": {"mean", "centred", "variance", "normalized"},
    "RMSNorm": {"mean_square", "normalized"},
    "BatchNorm1d": {"centred", "normalized"},
    "CrossEntropyLoss": {"log_probabilities"},
}
ATTENTION = {"scores", "maxima", "exponentials", "sums", "weights", "heads"}
HEADS = {"query", "key", "value", *ATTENTION, "joined", "out_proj"}
LAYER = {f"self_attn.{name}" for name in HEADS} | {
    "sum1",
    "sum2",
    "norm1.mean",
    "norm2.normalized",
    "linear1",
    "linear2",
}


def recorded(component, case):
    draw = Draw()
    init = copy.deepcopy(dict(case.init))
    if component.is_function:
        call = case.call(draw)
        return trace(component.ours, *call.args, **init, **{**call.kwargs, "dropout_p": 0.0})
    with exact():
        module = component.build(component.ours, init).double()
    draw.randomise(module)
    call = case.call(draw)
    return trace(module, *call.args, **call.kwargs)


def assert_torchs(found):
    """At every point an error of at most 1e-12; what is nearly zero is measured by 1/1000 of the largest tensor."""
    assert len(found)
    finite = [p.torch[p.torch.isfinite()].abs() for p in found]
    scale = max((x.max().item() for x in finite if x.numel()), default=0.0)
    for point in found:
        error = relative_error(point.tensor, point.torch, scale / 1000)
        assert error <= DEFINITION, f"{point.name}: relative error {error:.1e}"


@pytest.mark.parametrize(("component", "case"), CASES, ids=lambda x: getattr(x, "name", getattr(x, "description", "")))
def test_every_component(component, case):
    found = recorded(component, case)
    assert_torchs(found)
    names = {name for name in found.names if not name.endswith("masked_scores")}
    if component.name in EXPECTED:
        assert "output" in found
        assert names >= (EXPECTED[component.name] if found.output.numel() else set())
    elif component.name == "scaled_dot_product_attention":
        assert names == ATTENTION
    elif component.name == "MultiheadAttention":
        assert names >= HEADS
    elif component.name.endswith("Layer"):
        assert names >= LAYER
    else:
        assert len(names) > 20


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("padding", ["right", "left", "none"])
def test_the_tutorials_model(norm, padding):
    torch.manual_seed(3)
    ours = model_pair.small_model(norm=norm, positions="learned").double()
    src, tgt = model_pair.draw_ids(padding)
    src_mask, tgt_mask = model_pair.our_masks(src, tgt)
    if padding == "left":  # a padded query that may see nothing gets zeros from ours and from torch's function
        tgt_mask = tgt_mask | torch.eye(tgt.shape[1], dtype=torch.bool)
    found = trace(ours, src, tgt, src_mask, tgt_mask)
    assert_torchs(found)
    assert found["decoder.layers.1.self_attention.masked_scores"].tensor.isinf().any()
    assert found.output.equal(found["projection_layer.proj"].tensor)


def test_the_tutorials_model_beside_torchs_own_transformer():
    """The model that the comparison is with equals torch.nn.Transformer, put together in another place."""
    torch.manual_seed(4)
    ours = model_pair.small_model(norm="pre").double()
    src, tgt = model_pair.draw_ids("none")
    theirs = model_pair.TorchModel(ours, norm_first=True).double().eval()
    builtin, adapt = torch_beside(ours)
    args, _ = adapt(src, tgt, None, masks.causal(tgt.shape[1]))
    logits = builtin(*args)
    positions = (ours.src_pos.pe - model_pair.formula_of_the_paper(ours.src_pos.seq_len, model_pair.D_MODEL)).abs()
    assert (logits - theirs(src, tgt)).abs().max() < 1e-5 and positions.max() < 1e-6  # the buffer was float32


@pytest.mark.parametrize("attention_bias", [True, False])
def test_options_of_the_tutorials_model(attention_bias):
    torch.manual_seed(5)
    ours = model.build_transformer(
        19, 19, 11, 13, 12, 2, 3, 0.3, 17, attention_bias=attention_bias, share_embeddings="all"
    )
    model_pair.randomised(ours).double()
    for number, module in enumerate(m for m in ours.modules() if isinstance(m, model.LayerNormalization)):
        module.eps = 0.01 * (number + 1)
    assert_torchs(trace(ours, torch.randint(19, (B, S)), torch.randint(19, (B, T)), None, masks.causal(T)))


class MadeOfOurs(torch.nn.Module):
    """Somebody's model, from layers of ours and of torch's."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, E)
        self.block = nn.TransformerEncoderLayer(E, 3, 17, batch_first=True)
        self.head = torch.nn.Linear(E, 4)

    def forward(self, ids):
        return self.head(self.block(self.embed(ids))).mean(1)


def test_a_model_of_somebody_elses():
    torch.manual_seed(0)
    module = MadeOfOurs().double()
    Draw().randomise(module)
    found = trace(module, torch.randint(11, (B, S)))
    assert_torchs(found)
    assert {"embed", "block.self_attn.weights", "head", "output"} <= set(found.names)
    assert found["output"].shape == (B, 4)


def test_a_difference_shows_from_where_it_arises_on():
    """Torch's side is a run of its own: what is wrong there does not come from ours, and goes on to what follows."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(E, 3, 17, batch_first=True).double()
    other, _ = torch_beside(layer)
    with torch.no_grad():
        other.linear1.bias[3] += 0.5
    found = trace(layer, Draw().normal(B, S, E), beside=other)
    before = list(itertools.takewhile(lambda point: point.name != "linear1", found))
    assert len(before) > 15 and all(point.difference < 1e-12 for point in before)
    assert found["linear1"].difference == pytest.approx(0.5)
    assert all(point.difference > 1e-4 for point in list(found)[len(before) :] if not point.name.endswith("norm2.mean"))


def test_a_normalization_of_another_epsilon_shows():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(E, 3, 17, batch_first=True, norm_first=True).double()
    layer.norm2.eps = 0.1
    twin, _ = torch_beside(layer)
    layer.norm2.eps = 1e-5
    found = trace(layer, Draw().normal(B, S, E), beside=twin)
    assert found["norm2.variance"].difference < 1e-12 and found["norm2.normalized"].difference > 0.01
    assert found["output"].difference > 1e-3


_X, _MEMORY, _KEEP = (B, T, E), (B, S, E), torch.rand(B, 3, T, S, generator=torch.Generator().manual_seed(1)) > 0.3
_KEEP[..., 0] = True
PARTS = {
    "LayerNormalization": lambda draw: (draw.normal(*_X),),
    "PositionalEncoding": lambda draw: (draw.normal(*_X),),
    "InputEmbeddings": lambda draw: (draw.ids(B, T),),
    "ProjectionLayer": lambda draw: (draw.normal(*_X),),
    "FeedForwardBlock": lambda draw: (draw.normal(*_X),),
    "MultiHeadAttentionBlock": lambda draw: (draw.normal(*_X), draw.normal(*_MEMORY), draw.normal(*_MEMORY), _KEEP),
    "EncoderBlock": lambda draw: (draw.normal(*_X), masks.causal(T)),
    "Encoder": lambda draw: (draw.normal(*_X), masks.causal(T)),
    "DecoderBlock": lambda draw: (draw.normal(*_X), draw.normal(*_MEMORY), _KEEP, masks.causal(T)),
    "Decoder": lambda draw: (draw.normal(*_X), draw.normal(*_MEMORY), _KEEP, None),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_part_of_the_tutorials_model(name):
    whole = model.build_transformer(19, 23, 11, 13, E, 2, 3, 0.2, 17, norm="post")
    part = next(m for m in whole.modules() if type(m).__name__ == name).double()
    draw = Draw()
    draw.randomise(part)
    found = trace(part, *PARTS[name](draw))
    assert_torchs(found)
    assert "output" in found


def test_a_residual_connection_has_nothing_beside_it():
    part = model.ResidualConnection(E, 0.1)
    found = trace(part, torch.randn(B, S, E), torch.nn.Linear(E, E))
    assert found.names[-1] == "sum" and found.difference is None
    found = trace(torch.nn.Sequential(model.FeedForwardBlock(E, 17, 0.1)), torch.randn(B, S, E))
    assert found.names == ["0.linear_1", "0.hidden", "0.linear_2"] and found.difference is None


def test_dropout_has_no_place_in_a_trace():
    x = torch.randn(B, 3, S, 4)
    with pytest.raises(ValueError, match=r"dropout_p must be 0.*but is 0.1"):
        trace(COMPONENTS["scaled_dot_product_attention"].ours, x, x, x, dropout_p=0.1)
