"""What projects to the vocabulary is known by what it gives, whatever it is called."""

import pytest

from reference_tests.kit.learners.checked import check_text

LINEAR = """
class LinearLayer(nn.Module):
    def __init__(self, SIZES):
        super().__init__()
        self.linear = nn.Linear(SIZES)

    def forward(self, x):
        return GIVEN
"""


@pytest.mark.parametrize(
    "sizes, given, expected",
    [
        ("d_model, vocab_size", "self.linear(x).log_softmax(-1)", ("Projection", "matches the builtin", [])),
        ("in_features, out_features", "self.linear(x)", ("Linear", "matches the builtin", [])),
        ("d_model, vocab_size", "self.linear(x).softmax(1)", ("Projection", "mistake", ["B18"])),
    ],
)
def test_a_linear_layer_that_ends_in_a_softmax(sizes, given, expected, tmp_path):
    result = check_text(LINEAR.replace("SIZES", sizes).replace("GIVEN", given), tmp_path)["LinearLayer"]
    assert (result.kind, result.verdict, [named.id for named in result.mistakes]) == expected


HEAD = """
class BertLMPredictionHead(nn.Module):
    def __init__(self, hidden_size, vocab_size):
        super().__init__()
        self.dense, self.norm = nn.Linear(hidden_size, hidden_size), nn.LayerNorm(hidden_size)
        self.decoder = nn.Linear(hidden_size, vocab_size)

    def forward(self, x):
        return self.decoder(self.norm(F.gelu(self.dense(x))))
"""


@pytest.mark.parametrize(
    "old, new, verdict, ids",
    [
        ("", "", "matches the builtin", []),
        ("F.gelu", "F.silu", "matches the builtin", []),
        ("self.norm(F.gelu(self.dense(x)))", "F.gelu(self.norm(self.dense(x)))", "unknown mismatch", []),
        ("self.decoder(", "(lambda y: self.decoder(y).softmax(1))(", "mistake", ["B18"]),
    ],
)
def test_a_projection_behind_a_layer_of_its_own_as_in_bert(old, new, verdict, ids, tmp_path):
    result = check_text(HEAD.replace(old, new), tmp_path)["BertLMPredictionHead"]
    assert (result.kind, result.verdict, [named.id for named in result.mistakes]) == ("Projection", verdict, ids)


@pytest.mark.parametrize("between, linears", [
    ("", 2), ("nn.ReLU(), ", 2), ("nn.Linear(4 * d_model, 4 * d_model), ", 3),
])  # fmt: skip
def test_a_network_that_projects_is_of_a_design_that_is_not_known(between, linears, tmp_path):
    """And that is no verdict on the model that it ends."""
    made = f"nn.Sequential(nn.Linear(d_model, 4 * d_model), {between}nn.Linear(4 * d_model, vocab_size))"
    text = LINEAR.replace("SIZES", "d_model, vocab_size").replace("nn.Linear(d_model, vocab_size)", made)
    text = text.replace("LinearLayer", "Generator").replace("GIVEN", "self.linear(x)")
    result = check_text(text, tmp_path)["Generator"]
    assert result.verdict.endswith(f"a projection to the vocabulary of {linears} linear layers")


TIED = """
class Projection(nn.Module):
    def __init__(self, d_model, vocab_size, shared_weights):
        super().__init__()
        self.linear = nn.Linear(d_model, vocab_size)
        self.linear.weight = shared_weights

    def forward(self, x):
        return self.linear(x).log_softmax(AXIS)
"""


@pytest.mark.parametrize("axis, expected", [("-1", ("matches the builtin", [])), ("1", ("mistake", ["B18"]))])
def test_weights_that_it_is_given_have_the_shape_of_those_that_they_replace(axis, expected, tmp_path):
    """Nothing that was given in their place is the learner's mistake."""
    result = check_text(TIED.replace("AXIS", axis), tmp_path)["Projection"]
    assert (result.verdict, [named.id for named in result.mistakes]) == expected


OF_A_MODULE = """
class NAME(nn.Module):
    def __init__(self, d_model, tgt_size):
        super().__init__()
        self.cell = nn.Identity()
        self.net = nn.Sequential(nn.Linear(d_model, tgt_size), nn.LogSoftmax(dim=AXIS))

    def forward(self, x):
        return self.net(self.cell(x))
"""


@pytest.mark.parametrize("name", ["DecoderOutput", "OutputBlock", "TransformerHead", "LinearSoftmax"])
@pytest.mark.parametrize("axis, expected", [("-1", ("matches the builtin", [])), ("1", ("mistake", ["B18"]))])
def test_a_linear_layer_before_a_softmax_that_is_a_module_projects(name, axis, expected, tmp_path):
    result = check_text(OF_A_MODULE.replace("NAME", name).replace("AXIS", axis), tmp_path)[name]
    assert (result.kind, result.verdict, [named.id for named in result.mistakes]) == ("Projection", *expected)


def test_what_has_a_recurrent_layer_before_it_does_not(tmp_path):
    text = OF_A_MODULE.replace("NAME", "DecoderOutput").replace("AXIS", "-1")
    results = check_text(text.replace("nn.Identity()", "nn.GRU(d_model, d_model)"), tmp_path)
    assert all(one.kind != "Projection" for one in results.values())


OF_PYTORCHS = """
class CastLinear(nn.Linear):
    def forward(self, x):
        return F.linear(x, self.weight.to(dtype=x.dtype))


class Squared(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.wide, self.narrow = CastLinear(d_model, d_ff, BIAS), CastLinear(d_ff, d_model, BIAS)

    def forward(self, x):
        return self.narrow(torch.relu(self.wide(x)).square())
"""


@pytest.mark.parametrize("bias, expected", [("bias=False", True), ("bias=True", False)])
def test_a_layer_of_pytorchs_without_its_bias_has_none_where_every_call_says_so(bias, expected, tmp_path):
    result = check_text(OF_PYTORCHS.replace("BIAS", bias), tmp_path)["CastLinear"]
    assert (result.verdict == "matches the builtin") == expected, result
