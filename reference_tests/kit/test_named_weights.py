"""An assignment's functions that hand on a dictionary of weights, whose names their docstrings tell."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.resolve.functions import documented, weight_names, weight_shapes, weighted

pytestmark = pytest.mark.long

MODULES = """
class Scaled(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)


class Attention(nn.Module):
    def __init__(self, width, heads, theta):
        super().__init__()
        self.heads, self.theta = heads, theta
        for name in ("q_proj", "k_proj", "v_proj", "output_proj"):
            setattr(self, name, nn.Linear(width, width, bias=False))

    def turned(self, x):
        length, width = x.shape[-2:]
        angles = torch.arange(length)[:, None] * self.theta ** (-torch.arange(0, width, 2) / width)
        even, odd = x[..., 0::2], x[..., 1::2]
        sin, cos = angles.sin(), angles.cos()
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)

    def forward(self, x):
        q, k, v = (
            part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.q_proj, self.k_proj, self.v_proj)
        )
        scores = self.turned(q) @ self.turned(k).mT / math.sqrt(q.shape[-1])
        ahead = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        mixed = scores.masked_fill(ahead, -math.inf).softmax(-1) @ v
        return self.output_proj(mixed.transpose(1, 2).flatten(2))


class Gated(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.w1, self.w3 = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.w2 = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Layer(nn.Module):
    def __init__(self, width, heads, inner, theta):
        super().__init__()
        self.attn, self.ffn = Attention(width, heads, theta), Gated(width, inner)
        self.ln1, self.ln2 = Scaled(width), Scaled(width)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.ffn(self.ln2(x))


class Stack(nn.Module):
    def __init__(self, words, width, heads, inner, count, theta):
        super().__init__()
        self.token_embeddings = nn.Embedding(words, width)
        self.layers = nn.ModuleList([Layer(width, heads, inner, theta) for _ in range(count)])
        self.ln_final, self.lm_head = Scaled(width), nn.Linear(width, words, bias=False)

    def forward(self, ids):
        x = self.token_embeddings(ids)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.ln_final(x))
"""
OF_A_LAYER = [
    "attn.q_proj",
    "attn.k_proj",
    "attn.v_proj",
    "attn.output_proj",
    "ln1",
    "ffn.w1",
    "ffn.w2",
    "ffn.w3",
    "ln2",
]
LISTED = "\n".join(f"            - `{name}.weight`" for name in OF_A_LAYER)
COUNTED = LISTED.replace("- `", "- `layers.{num_layers}.")
BLOCK = f'''
def run_transformer_block(
    d_model: int, num_heads: int, d_ff: int, max_seq_len: int, theta: float, weights, in_features
):
    """What a block gives.

    Args:
        weights (dict): by these names:
{LISTED}
    """
    layer = Layer(d_model, num_heads, d_ff, theta)
    layer.load_state_dict(weights)
    return layer(in_features)
'''
MODEL = f'''
def run_transformer_lm(
    vocab_size: int, context_length: int, d_model: int, num_layers: int, num_heads: int, d_ff: int, rope_theta: float,
    weights, in_indices,
):
    """What a language model gives.

    Args:
        weights (dict): by these names, where `num_layers` counts from 0:
            - `token_embeddings.weight`
{COUNTED}
            - `ln_final.weight`
            - `lm_head.weight`
    """
    model = Stack(vocab_size, d_model, num_heads, d_ff, num_layers, rope_theta)
    model.load_state_dict(weights)
    return model(in_indices)
'''
SCALE = " / math.sqrt(q.shape[-1])"


@pytest.mark.parametrize(
    "function, kind, old, ids",
    [(BLOCK, "LlamaBlock", "", []), (BLOCK, "LlamaBlock", SCALE, ["A1"]), (MODEL, "LlamaModel", "", [])],
)
def test_weights_by_the_names_of_a_docstring(function, kind, old, ids, tmp_path):
    source = (MODULES.replace(old, "") if old else MODULES) + function
    found = check_text(source, tmp_path)
    result = next(found[name] for name in found if name.startswith("run_"))
    assert (result.kind, [*result.ids, *result.inherited]) == (kind, ids), result
    assert result.verdict == ("mistake" if ids else "matches the builtin"), result


LINEAR = """
class Dense(nn.Module):
    def __init__(self, rows, columns):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(columns, rows))

    def forward(self, x):
        return torch.einsum("oi, ...i -> ...o", self.weight, x)


def run_linear(d_in: int, d_out: int, weights: torch.Tensor, in_features: torch.Tensor):
    layer = Dense(d_in, d_out)
    layer.load_state_dict({"weight": weights})
    return layer(in_features)
"""


def test_beside_a_width_that_comes_in_the_other_goes_out(tmp_path):
    assert check_text(LINEAR, tmp_path)["run_linear"].verdict == "matches the builtin"


def filled_one_by_one(weights, layers, x):
    """A function.

    - `layers.{i}.w1.weight`
    - `head.weight`
    """
    for i, layer in enumerate(layers):
        layer.weight.data = weights[f"layers.{i}.w1.weight"]
    return x @ weights["head.weight"]


def filled_with_others(weights, x):
    """A function whose docstring says `head.weight` in passing.

    - `head.weight`
    """
    return x @ weights["tail.weight"]


def test_a_docstring_says_more_than_names_that_are_put_together_and_less_than_others():
    found = [weighted._structure(one, "weights", 2) for one in (filled_one_by_one, filled_with_others)]
    assert [[*one.parts] for one in found] == [
        ["layers.0.w1.weight", "layers.1.w1.weight", "head.weight"],
        ["tail.weight"],
    ]


def told(weights):
    """A function.

    - `layers.{i}.w1.weight`: the first, of which `w1.weight` is in no list.
    - `head.bias`
    """


def test_the_names_of_layers_are_counted():
    assert documented.names(told, 2) == ["layers.0.w1.weight", "layers.1.w1.weight", "head.bias"]
    assert documented.names(lambda: None, 2) == []


def test_each_layers_gate_goes_first():
    found = weight_names.units([f"layers.{n}.w{i}.weight" for n in (0, 1) for i in (1, 2, 3)], only_norms=False)
    assert [unit.path[-1] for unit in weight_shapes._with_gate_first(found)] == ["1", "3", "2"] * 2
