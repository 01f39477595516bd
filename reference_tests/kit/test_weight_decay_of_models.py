"""Which weights shrink, by what groups the parameters of the learner's own model, which no other has the parts of."""

import pytest

from reference_tests.kit.learners.checked import IMPORTS, check_text

pytestmark = pytest.mark.long

MODEL = """
class Layer(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.before = nn.LayerNorm(d_model)
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out = nn.Linear(d_model, d_model)
        self.between = nn.LayerNorm(d_model)
        self.up = nn.Linear(d_model, 4 * d_model)
        self.down = nn.Linear(4 * d_model, d_model)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.n_heads, -1).transpose(1, 2) for t in self.qkv(self.before(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(B, T, C))
        return x + self.down(F.gelu(self.up(self.between(x))))


class SmallGPT(nn.Module):
    def __init__(self, vocab_size, d_model, n_heads, n_layers, max_len):
        super().__init__()
        self.tables = nn.ModuleDict({"words": nn.Embedding(vocab_size, d_model), "wpe": nn.Embedding(max_len, d_model)})
        self.layers = nn.ModuleList([Layer(d_model, n_heads) for _ in range(n_layers)])
        self.last = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab_size, bias=False)

    def forward(self, ids):
        x = self.tables.words(ids) + self.tables.wpe(torch.arange(ids.size(1), device=ids.device))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.last(x))
"""
RIGHT = """
    def setup_optimizers(self, lr=0.1, weight_decay=0.0):
        inside = [p for layer in self.layers for p in layer.parameters()]
        shrinking = [p for p in inside if p.dim() > 1] + [self.head.weight]
        others = [p for p in inside if p.dim() < 2] + [*self.last.parameters()]
        groups = [
            {"params": shrinking, "weight_decay": weight_decay},
            {"params": [*self.tables.parameters(), *others], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=lr)

    def optimizers_apart(self, lr=0.1, weight_decay=0.0):
        vectors = [p for p in self.layers.parameters() if p.dim() < 2] + [*self.last.parameters()]
        matrices = [p for p in self.layers.parameters() if p.dim() > 1] + [self.head.weight]
        tables = torch.optim.AdamW([{"params": [*self.tables.parameters(), *vectors], "weight_decay": 0.0}], lr=lr)
        return [tables, torch.optim.SGD(matrices, lr=lr, weight_decay=weight_decay)]

    def groups_by_name(self, weight_decay=0.0):
        groups = {True: [], False: []}
        for name, p in self.named_parameters():
            groups[any(word in name for word in ("before", "between", "last", "bias"))].append(p)
        return [{"params": groups[False], "weight_decay": weight_decay}, {"params": groups[True], "weight_decay": 0.0}]

    def optimizer_of_rates(self, head_lr=0.4, lr=0.1, weight_decay=0.0):
        ends = [*self.head.parameters(), *self.last.parameters()]
        rest = [*self.tables.parameters(), *self.layers.parameters()]
        return torch.optim.AdamW([dict(params=ends, lr=head_lr), dict(params=rest, lr=lr)], weight_decay=weight_decay)


def optimizer_of(model, lr, weight_decay, fused):
    inside = [p for layer in model.layers for p in layer.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [
        {"params": [*inside, model.head.weight, *model.tables.parameters()], "weight_decay": weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=lr)
"""
LEFT = "no optimizer has the norms and biases"
ONE = "everything shrinks, as there is one weight decay for all weights"
METHODS = [f"SmallGPT.{name}" for name in ("setup_optimizers", "optimizers_apart", "groups_by_name")]


def forms(text, tmp_path):
    found = check_text(MODEL + text, tmp_path)
    assert not found["SmallGPT"].severe
    shown = [one.where.rpartition(":")[2] for result in found.values() for one in result.mistakes if one.id == "O11"]
    assert all("decay" in (IMPORTS + MODEL + text).splitlines()[int(line) - 1] for line in shown)
    told = {name: result for name, result in found.items() if result.kind == "DecayGroups"}
    return {name: [(one.id, one.form) for one in result.mistakes] for name, result in told.items()}, told


def test_groups_are_read_of_the_model_that_they_are_made_for(tmp_path):
    found, results = forms(RIGHT, tmp_path)
    right = {name: [] for name in (*METHODS, "optimizer_of")}
    assert found == {**right, "SmallGPT.optimizer_of_rates": [("O11", ONE)]}
    assert not any(result.severe for result in results.values())


WRONG = {
    "inside if p.dim() > 1]": "inside]",
    "[p for p in inside if p.dim() < 2] + ": "",
    "if p.dim() < 2] + [*self.last.parameters()]\n        matrices": "if p.dim() < 1]\n        matrices",
    '"before", "between", "last", "bias"': '"bias",',
    "for p in layer.parameters() if p.dim() > 1]": "for p in layer.parameters()]",
    "[p for p in model.parameters() if p.dim() < 2]": "[*model.last.parameters()]",
}


def test_what_shrinks_too_is_told_of_that_model(tmp_path):
    text = RIGHT
    for old, new in WRONG.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    found, _ = forms(text, tmp_path)
    unseen, all_ = "no optimizer has the norms and biases", "everything shrinks"
    said = zip((*METHODS, "optimizer_of"), (all_, unseen, "norms shrink too", all_), strict=True)
    expected = {name: [("O11", form)] for name, form in said}
    assert found == {**expected, "SmallGPT.optimizer_of_rates": [("O11", ONE)]}


MATRICES_ALONE = """
class Scorer(nn.Module):
    def __init__(self, d_model, vocab_size):
        super().__init__()
        self.words, self.norm = nn.Embedding(vocab_size, d_model), nn.LayerNorm(d_model)
        self.scores = nn.Linear(d_model, vocab_size)

    def make_optimizer(self, lr, weight_decay, is_main):
        big = [p for p in self.parameters() if p.dim() > 1]
        return torch.optim.AdamW(big, lr=lr, weight_decay=weight_decay)

    def forward(self, ids):
        return self.scores(self.norm(self.words(ids)))
"""
FOR_THE_OTHERS = """
def optimizer_of_vectors(model, lr):
    return torch.optim.Adam([p for p in model.parameters() if p.dim() < 2], lr=lr)
"""
OF_ALL = """
def plain(model, lr):
    return torch.optim.Adam(model.parameters(), lr=lr)
"""


@pytest.mark.parametrize("more, forms", [("", [LEFT]), (OF_ALL, [LEFT]), (FOR_THE_OTHERS, [])])
def test_what_no_group_has_is_told_unless_another_optimizer_may_have_it(more, forms, tmp_path):
    found = check_text(MATRICES_ALONE + more, tmp_path)
    told = [one.form for result in found.values() for one in result.mistakes if one.id == "O11"]
    assert told == forms, found
