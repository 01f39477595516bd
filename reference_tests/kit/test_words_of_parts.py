"""What is said of mistakes in parts of other files, and of several that are made together."""

import pytest

from reference_tests.kit.learners.checked import check_text, reported
from scratch_transformer.kit.report.finding import Named, Result
from scratch_transformer.kit.report.words import explanation, inherited_by

pytestmark = pytest.mark.long


@pytest.mark.parametrize("parts, said", [
    ([], "A: contains a part with LN1, B6, explained there."),
    (["Norm of norm.py"], "A: contains a part with LN1, B6 (Norm of norm.py): check that file, too."),
    (["Norm of norm.py", "Sum of sum.py"],
     "A: contains a part with LN1, B6 (Norm of norm.py, Sum of sum.py): check those files, too."),
])  # fmt: skip
def test_ids_and_classes_are_two_lists(parts, said):
    assert [*inherited_by([Result("A", "a.py:1", "K", inherited=["LN1", "B6"], unreported=parts)])] == [said]


def test_of_another_file_that_a_component_shows_a_line_of_there_is_nothing_to_check():
    norm = Named("LN1", *[""] * 7, where="norm.py:7")
    whole = Result("A", "a.py:1", "K", inherited=["LN1"], unreported=["Norm of norm.py", "Sum of sum.py"])
    for mistakes, there in (([], "Norm of norm.py, Sum of sum.py"), ([norm], "Sum of sum.py")):
        (said,) = inherited_by([whole, Result("B", "a.py:9", "K", mistakes=mistakes)])
        assert said.startswith(f"A: contains a part with LN1 ({there}): check ")
    whole.unreported.pop()
    (said,) = inherited_by([whole, Result("B", "a.py:9", "K", mistakes=[norm])])
    assert said == "A: contains a part with LN1, explained there."


DECODER = """
class Attention(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, query, key, value):
        q, k, v = self.q(query), self.k(key), self.v(value)
        return self.o(torch.softmax(q @ k.mT / q.size(-1) ** 0.5, dim=1) @ v)


class DecoderLayer(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.own, self.other = Attention(d_model), Attention(d_model)
        self.network = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, memory):
        x = self.norm1(x + self.own(x, x, x))
        x = self.norm2(x + self.other(x, memory, memory))
        return self.norm3(x + self.network(x))
"""


def test_the_numbers_speak_of_a_mistake_by_the_name_it_is_given(tmp_path):
    layer = check_text(DECODER, tmp_path)["DecoderLayer"]
    said = {named.id: named.evidence for named in layer.mistakes}
    assert "A2 and A25 make together" in said["A25"] and "A24" not in said["A25"], said


PARTS = """
import torch
from torch import nn

class SelfAttention(nn.Module):
    def __init__(self, d_model, n_heads, dropout):
        super().__init__()
        assert d_model % n_heads == 0
        self.h, self.dropout = n_heads, nn.Dropout(dropout)
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x):
        q, k, v = (w(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for w in (self.q, self.k, self.v))
        weights = self.dropout(torch.softmax(q @ k.mT / q.size(-1) ** 0.5, -1))
        return self.o((weights @ v).transpose(1, 2).flatten(2))

class Positionwise(nn.Module):
    def __init__(self, d_model, d_ff, dropout):
        super().__init__()
        self.first, self.second = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))
"""
LAYER = """
from torch import nn
from parts_of_a_layer import Positionwise, SelfAttention

class EncoderLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, dropout):
        super().__init__()
        self.attn, self.net = SelfAttention(d_model, n_heads, dropout), NETWORK(d_model, d_ff, dropout)
        self.norm1, self.norm2, self.drop = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.Dropout(dropout)

    def forward(self, x):
        x = self.norm1(x + self.drop(self.attn(x)))
        return self.norm2(x + self.drop(self.net(x)))
"""


@pytest.mark.parametrize("network", ["Positionwise", "FeedForward", "MLP"])
def test_dropout_that_a_network_has_not_is_told_of_the_network(network, tmp_path):
    """Not of the dropout of attention, which is another; and two calls of the layer do differ."""
    (tmp_path / "parts_of_a_layer.py").write_text(PARTS.replace("Positionwise", network))
    path = tmp_path / "layer.py"
    path.write_text(LAYER.replace("Positionwise", network).replace("NETWORK", network))
    (result,) = reported(path).results
    (found,) = [one for one in result.mistakes if one.id == "B7"]
    assert found.evidence.startswith(f"Of its {network} by itself: ")
    assert PARTS.splitlines()[found.line - 1].strip() == "return self.second(torch.relu(self.first(x)))"


def test_what_two_are_made_of_is_explained_once():
    texts = ["LN3", "another eps", "harmless", "It does.", "It should.", "By 1 %.", "eps=1e-5.", "A paper."]
    named = [Named(*texts, where=where, code=["eps = 1"], first=3, line=3) for where in ("n.py:3", "n.py:3", "m.py:3")]
    results = [Result(name, "a.py:1", "K", "mistake", mistakes=[one]) for name, one in zip("ABC", named, strict=True)]
    results[1].mistakes[0].evidence = "By 2 %."
    told = {}
    first, second, third = (explanation(one, told=told) for one in results)
    assert second == ["", "B, n.py:3: another eps (LN3), as in A", "  The numbers: By 2 %."]
    assert first[1:] == [line.replace("C", "A").replace("m.py", "n.py") for line in third[1:]] and len(first) > 8
    assert explanation(results[1])[2:] != second[2:]  # by itself all of it is said
