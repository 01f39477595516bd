"""The linear map, softmax, the activations and dropout against torch.nn.functional. Others: test_functional_*.py."""

import math

import pytest
import torch
import torch.nn.functional as F

from reference_tests.agreement import assert_agree, assert_equal, differentiate
from scratch_transformer import functional

INF, NAN = math.inf, math.nan
EXTREMES = {
    "large": [1e4, -1e4, 3.0],
    "huge": [1e300, -1e300, 0.0],
    "tiny": [1e-300, -1e-300, 0.0],
    "one inf": [INF, 1.0, -2.0],
    "two infs": [INF, INF, -2.0],
    "one -inf": [-INF, 1.0, -2.0],
    "all -inf": [-INF, -INF, -INF],
    "nan": [NAN, 1.0, -2.0],
    "zeros": [0.0, 0.0, 0.0],
}
extremes = pytest.mark.parametrize("values", EXTREMES.values(), ids=EXTREMES)


# ---- linear ----


@pytest.mark.parametrize("shape", [(7,), (3, 7), (2, 3, 7), (2, 5, 3, 7), (0, 7), (2, 0, 7)], ids=str)
@pytest.mark.parametrize("has_bias", [True, False])
def test_linear(shape, has_bias, device):
    x, weight = torch.randn(shape, dtype=torch.float64), torch.randn(5, 7, dtype=torch.float64)
    bias = torch.randn(5, dtype=torch.float64) if has_bias else None
    arguments = (x.to(device), weight.to(device), None if bias is None else bias.to(device))
    assert_agree(functional.linear, F.linear, *arguments)


@pytest.mark.parametrize("sizes", [(0, 5), (7, 0)], ids=str)
def test_linear_without_features(sizes, device):
    inputs, outputs = sizes
    x, weight, bias = (
        torch.randn(*s, dtype=torch.float64, device=device) for s in ((3, inputs), sizes[::-1], (outputs,))
    )
    assert_agree(functional.linear, F.linear, x, weight, bias)


def test_a_linear_bias_that_does_not_fit_is_refused():
    x, weight = torch.randn(3, 7), torch.randn(5, 7)
    with pytest.raises(RuntimeError, match=r"^linear: bias must have shape \(5,\), not \(1,\)$"):
        functional.linear(x, weight, torch.randn(1))
    with pytest.raises(
        RuntimeError, match="^linear: bias must have weight's dtype, torch.float32, but has torch.float64$"
    ):
        functional.linear(x, weight, torch.randn(5, dtype=torch.float64))


def test_linear_by_hand():
    x, weight = torch.tensor([[1.0, 10.0]]), torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert functional.linear(x, weight, torch.tensor([0.5, 0.0, -0.5])).tolist() == [[21.5, 43.0, 64.5]]


# ---- softmax ----

SOFTMAXES = pytest.mark.parametrize(
    ("ours", "builtin"), [(functional.softmax, F.softmax), (functional.log_softmax, F.log_softmax)], ids=["p", "log p"]
)


@SOFTMAXES
@pytest.mark.parametrize(
    ("shape", "dim"),
    [((5,), 0), ((3, 5), 0), ((3, 5), -1), ((2, 3, 5), 1), ((), 0), ((), -1), ((0, 5), 1), ((5, 0), 1)],
    ids=str,
)
def test_softmax(ours, builtin, shape, dim, device):
    assert_agree(ours, builtin, torch.randn(shape, dtype=torch.float64, device=device) * 3, dim)


@SOFTMAXES
@extremes
def test_softmax_of_extremes(ours, builtin, values, device):
    assert_agree(ours, builtin, torch.tensor([values, [0.0, 1.0, 2.0]], dtype=torch.float64, device=device), dim=-1)


def test_softmax_does_not_overflow():
    x = torch.tensor([1e4, 1e4 - 1, -1e4], dtype=torch.float64)
    expected = torch.tensor([1 / (1 + math.exp(-1)), 1 / (1 + math.e), 0], dtype=torch.float64)
    assert_equal(functional.softmax(x, 0), expected)
    assert functional.log_softmax(x, 0)[2].item() == pytest.approx(-2e4 - math.log1p(math.exp(-1)), rel=1e-15)


def test_softmax_of_integers_is_refused():
    with pytest.raises(RuntimeError, match="^softmax: x must be of a floating dtype, but is torch.int64"):
        functional.softmax(torch.tensor([1, 2]), 0)


# ---- relu, gelu, silu and sigmoid ----

ACTIVATIONS = {
    "relu": (functional.relu, F.relu),
    "gelu": (functional.gelu, F.gelu),
    "silu": (functional.silu, F.silu),
    "sigmoid": (functional.sigmoid, torch.sigmoid),
    "gelu tanh": (lambda x: functional.gelu(x, "tanh"), lambda x: F.gelu(x, approximate="tanh")),
}
activations = pytest.mark.parametrize(("ours", "builtin"), ACTIVATIONS.values(), ids=ACTIVATIONS)


@activations
def test_activation(ours, builtin, device):
    assert_agree(ours, builtin, torch.randn(3, 50, dtype=torch.float64, device=device) * 3)
    assert_agree(ours, builtin, torch.tensor(0.7, dtype=torch.float64, device=device))


@activations
@extremes
def test_activation_of_extremes(ours, builtin, values, device):
    assert_agree(ours, builtin, torch.tensor(values, dtype=torch.float64, device=device))


@pytest.mark.parametrize("x", [-7.0, -5.0, -3.0, -0.1, 1e-9, 4.0])
def test_gelu_keeps_its_digits_in_the_tail(x):
    """The tail of Φ is where 1 + erf cancels: the error is torch's own, not more."""
    exact = x * 0.5 * math.erfc(-x / math.sqrt(2))
    ours, builtin = (gelu(torch.tensor(x, dtype=torch.float64)).item() for gelu in (functional.gelu, F.gelu))
    assert abs(ours - exact) <= 2 * abs(builtin - exact) + 4e-16 * abs(x)


@pytest.mark.parametrize("x", [-700.0, -40.0, -7.0, -0.1, 1e-9, 4.0, 50.0])
def test_silu_keeps_its_digits_in_the_tail(x):
    exact, given = x / (1 + math.exp(-x)), torch.tensor(x, dtype=torch.float64)
    assert functional.silu(given).item() == pytest.approx(exact, rel=1e-15, abs=0)
    assert functional.sigmoid(given).item() == pytest.approx(exact / x, rel=1e-15, abs=0)


def test_sigmoid_is_plain_operations_where_it_is_traced(monkeypatch):
    """Without overflow there, too, for a derivative of ∞ · 0 would be no number."""
    x = torch.tensor([-800.0, -2.0, 0.0, 3.0, 800.0, INF, NAN], dtype=torch.float64, requires_grad=True)
    assert "ByHand" in functional.sigmoid(x).grad_fn.name()
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert "ByHand" not in functional.sigmoid(x).grad_fn.name()
    assert_agree(functional.sigmoid, torch.sigmoid, x.detach())
    assert_agree(functional.silu, F.silu, x.detach())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # within torch
def test_silu_forward_mode():
    x = torch.tensor([-INF, -800.0, -2.0, -0.0, 0.0, 1e-300, 0.5, 3.0, 800.0, NAN], dtype=torch.float64)
    tangent = torch.randn(10, dtype=torch.float64)
    for ours, theirs in ((functional.sigmoid, torch.sigmoid), (functional.silu, F.silu)):
        assert_equal(*(torch.func.jvp(function, (x,), (tangent,)) for function in (ours, theirs)))


def test_silu_by_hand():
    one = torch.tensor(1.0, dtype=torch.float64)
    assert functional.sigmoid(one).item() == pytest.approx(1 / (1 + math.exp(-1)), rel=1e-15)
    assert functional.silu(2 * one).item() == pytest.approx(2 / (1 + math.exp(-2)), rel=1e-15)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16], ids=str)
def test_silu_in_place(dtype):
    x = torch.tensor([-1.0, 0.0, 2.0, NAN], dtype=dtype)
    expected = F.silu(x)
    same = functional.silu(x, inplace=True)
    assert same is x
    assert_equal(x, expected, tolerance=torch.finfo(dtype).eps)

    def in_place(silu):
        return lambda x: silu(x * 1, inplace=True)

    assert_agree(in_place(functional.silu), in_place(F.silu), torch.randn(20, dtype=torch.float64))


@pytest.mark.parametrize("function", [functional.silu, functional.sigmoid])
def test_silu_of_integers_is_refused(function):
    name = function.__name__
    with pytest.raises(RuntimeError, match=f"^{name}: x must be of a floating dtype, but is torch.int64"):
        function(torch.tensor([1]))


def test_gelu_by_hand():
    one = torch.tensor(1.0, dtype=torch.float64)
    assert functional.gelu(one).item() == pytest.approx(0.5 * (1 + math.erf(math.sqrt(0.5))), rel=1e-15)
    assert functional.gelu(one, "tanh").item() == pytest.approx(0.841191990608, rel=1e-11)
    assert functional.gelu(one).item() != functional.gelu(one, "tanh").item()


def test_relu_of_booleans_is_refused():
    with pytest.raises(
        RuntimeError, match="^relu: x must be numbers, but is torch.bool: Boolean inputs not supported$"
    ):
        functional.relu(torch.tensor([True]))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # within torch
def test_relu_forward_mode():
    x = torch.tensor([-INF, -2.0, -0.0, 0.0, 1e-300, 0.5, 3.0, INF, NAN], dtype=torch.float64)
    for dtype in (torch.float64, torch.float16):
        tangent = torch.randn(9).to(dtype)
        ours, theirs = (torch.func.jvp(relu, (x.to(dtype),), (tangent,)) for relu in (functional.relu, F.relu))
        assert_equal(ours, theirs)


def test_relu_is_plain_operations_where_it_is_traced(monkeypatch):
    x = torch.tensor([-2.0, -0.0, 0.0, 0.5, 3.0, NAN], dtype=torch.float64, requires_grad=True)
    assert "ByHand" in functional.relu(x).grad_fn.name()
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert "ByHand" not in functional.relu(x).grad_fn.name()
    assert_agree(functional.relu, F.relu, x.detach())


def test_relu_in_place():
    x = torch.tensor([-1.0, 0.0, 2.0, NAN])
    same = functional.relu(x, inplace=True)
    assert same is x
    assert_equal(x, torch.tensor([0.0, 0.0, 2.0, NAN]))

    def in_place(relu):
        return lambda x: relu(x * 1, inplace=True)

    x = torch.randn(20, dtype=torch.float64)
    x[3] = 0  # where the derivative is 0, in place too
    assert_agree(in_place(functional.relu), in_place(F.relu), x)


# ---- dropout ----


def transposed(x):
    return x.transpose(0, 1)


def expanded(x):
    return x[:1].expand(4, -1)


@pytest.mark.parametrize("layout", [torch.clone, transposed, expanded, lambda x: x[::2, 1::3]], ids=range(4))
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_dropout_is_bitwise_torchs(p, dtype, layout):
    x = layout(torch.randn(11, 23).to(dtype))
    results = []
    for dropout in (functional.dropout, F.dropout):
        outcome = differentiate(lambda x, dropout=dropout: dropout(x, p), x)
        next_draw = torch.rand(3)  # the same too
        results.append([outcome["result"], *outcome["gradient"], next_draw])
    for ours, builtin in zip(*results, strict=True):
        assert torch.equal(ours, builtin)
        assert ours.stride() == builtin.stride()


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_dropout_in_place_is_bitwise_torchs(p):
    results = []
    for dropout in (functional.dropout, F.dropout):
        torch.manual_seed(5)
        x = torch.randn(7, 13)
        assert dropout(x, p, True, True) is x
        results.append(x)
    assert torch.equal(*results)


def test_dropout_scales_what_it_keeps(device):
    x = torch.ones(40_000, dtype=torch.float64, device=device)
    y = functional.dropout(x, 0.2)
    assert set(y.unique().tolist()) == {0.0, 1 / 0.8}
    assert y.mean().item() == pytest.approx(1, abs=5 * math.sqrt(0.25 / len(x)))  # five standard deviations


def test_dropout_drops_one_in_two_by_default():
    x = torch.ones(100)
    torch.manual_seed(0)
    ours = functional.dropout(x)
    torch.manual_seed(0)
    assert torch.equal(ours, F.dropout(x))
    assert torch.equal(x, torch.ones(100))


def test_dropout_of_one_number():
    assert functional.dropout(torch.ones(1), 1.0).tolist() == [0.0]


@pytest.mark.parametrize("p", [-0.1, 1.1])
def test_a_bad_probability_is_refused(p):
    with pytest.raises(ValueError, match=f"^dropout: p, the dropout probability, has to be .* but got {p}$"):
        functional.dropout(torch.ones(3), p)


def test_dropout_outside_training_and_of_nothing_is_the_identity():
    x = torch.randn(5)
    assert functional.dropout(x, 0.5, training=False) is x
    assert functional.dropout(x, 0.0) is x
    assert functional.dropout(x[:0], 0.5).shape == (0,)


# ---- positions ----


@pytest.mark.parametrize("d_model", [1, 2, 5, 8])
def test_sinusoidal_positions_by_the_papers_formula(d_model, device):
    table = functional.sinusoidal_positions(6, d_model, device, torch.float64)
    for pos in range(6):
        for column in range(d_model):
            angle = pos / 10000 ** (2 * (column // 2) / d_model)
            expected = math.cos(angle) if column % 2 else math.sin(angle)
            assert table[pos, column].item() == pytest.approx(expected, abs=1e-15)


def test_sinusoidal_positions_are_on_the_given_device():
    assert functional.sinusoidal_positions(6, 4, "meta").is_meta


def test_late_positions_keep_their_digits():
    """Angles computed in float32 would be off by up to 0.004 at position 65536."""
    table = functional.sinusoidal_positions(65537, 4)
    assert table.dtype == torch.float32
    assert table[65536, 0].item() == pytest.approx(math.sin(65536), abs=1e-7)
    assert table[65536, 1].item() == pytest.approx(math.cos(65536), abs=1e-7)


def test_positions_are_products_of_a_rotation():
    """Section 3.5: "for any fixed offset k, PE(pos + k) can be represented as a linear function of PE(pos)"."""
    table = functional.sinusoidal_positions(20, 6, dtype=torch.float64)
    sine, cosine = table[:, 0::2], table[:, 1::2]
    k = 7
    assert_equal(sine[k:], sine[:-k] * cosine[k] + cosine[:-k] * sine[k])
    assert_equal(cosine[k:], cosine[:-k] * cosine[k] - sine[:-k] * sine[k])
