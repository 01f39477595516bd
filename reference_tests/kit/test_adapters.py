"""The adapters of an assignment, run_rmsnorm and its like, beside the classes that they are made of."""

import pytest

from reference_tests.kit.learners.checked import IMPORTS, check_text, reported

RUN = """
class Embedding(nn.Module):
    def __init__(self, num_embeddings, embedding_dim):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(num_embeddings, embedding_dim))

    def forward(self, token_ids):
        return self.weight[token_ids]

def run_embedding(vocab_size, d_model, weights, token_ids):
    layer = Embedding(vocab_size, d_model)
    layer.load_state_dict({"weight": weights})
    return layer(token_ids)

class RMSNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(d_model))

    def forward(self, x):
        return x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight

def run_rmsnorm(d_model, eps, weights, in_features):
    layer = RMSNorm(d_model, eps)
    layer.load_state_dict({"weight": weights})
    return layer(in_features)
"""
CENTERED = RUN.replace("return x / torch", "x = x - x.mean(-1, keepdim=True)\n        return x / torch")
HELPER = """
class Attention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h = num_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        scores = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).masked_fill(later, -torch.inf)
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

def _attention(d_model, num_heads, q, k, v, o):
    layer = Attention(d_model, num_heads)
    layer.load_state_dict({"q.weight": q, "k.weight": k, "v.weight": v, "o.weight": o})
    return layer
"""


@pytest.mark.parametrize("name", ["run_embedding", "run_rmsnorm"])
def test_an_adapter_is_what_its_class_is(name, tmp_path):
    result = check_text(RUN, tmp_path)[name]
    assert (result.verdict, result.ids) == ("matches the builtin", []), result


def test_an_adapter_named_after_rmsnorm_is_no_layer_norm(tmp_path):
    results = check_text(CENTERED, tmp_path)
    assert [results[name].ids for name in ("RMSNorm", "run_rmsnorm")] == [["LN11"], ["LN11"]]
    assert results["run_rmsnorm"].kind == "RMSNorm"


def test_an_rms_norm_that_does_not_use_its_scale_subtracts_no_mean(tmp_path):
    text = RUN.replace("class RMSNorm", "class Norm").replace("RMSNorm(", "Norm(").replace(" * self.weight\n", "\n")
    result = check_text(text, tmp_path)["Norm"]
    assert (result.kind, result.ids) == ("RMSNorm", ["LN6"]), result


@pytest.mark.long
def test_a_private_function_that_cannot_be_called_is_no_component(tmp_path):
    path = tmp_path / "helper.py"
    path.write_text(IMPORTS + HELPER)
    report = reported(path)
    assert [result.name for result in report.results] == ["Attention"]
    (ignored,) = report.ignored
    assert ignored.startswith("_attention (tried as ScaledDotProductAttention: its forward, given d_model=None"), (
        ignored
    )
