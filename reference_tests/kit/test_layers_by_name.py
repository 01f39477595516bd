"""Layers that add_module names, and a loop over them in a class of its own; a layer under the name of a part."""

import pytest

from reference_tests.kit.learners.checked import check_text, time_to_look

STACK = """
class EncoderLayer(nn.Module):
    def __init__(self, d_model, n_head):
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, n_head, batch_first=True)
        self.up, self.down = nn.Linear(d_model, 24), nn.Linear(24, d_model)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x):
        x = self.norm1(x + self.attention(x, x, x)[0])
        return self.norm2(x + self.down(torch.relu(self.up(x))))


class InTurn(nn.Sequential):
    def forward(self, x):
        for module in self:
            FED = module(x)
        return FED


class Encoder(nn.Module):
    def __init__(self, d_model, n_stack, n_head):
        super().__init__()
        self.layer = InTurn()
        for i in range(n_stack):
            self.layer.add_module(f"EncoderLayer_{i}", EncoderLayer(d_model, n_head))

    def forward(self, x):
        return self.layer(x)
"""


@pytest.mark.parametrize("fed, ids", [("x", []), ("y", ["B19"])])
def test_of_layers_that_all_get_the_first_input_the_last_one_counts(fed, ids, tmp_path):
    """It is not made of the first alone (B28): it is the first on which nothing depends."""
    result = check_text(STACK.replace("FED", fed), tmp_path)["Encoder"]
    assert result.severe == ids


REWARDS = """
class Head(nn.Module):
    def __init__(self, d_model, head_size):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(d_model, head_size, bias=False) for _ in range(3))

    def forward(self, x):
        weights = self.q(x) @ self.k(x).mT / self.q.out_features**0.5
        return weights.masked_fill(torch.ones_like(weights).triu(1).bool(), -math.inf).softmax(-1) @ self.v(x)


class Transformer(nn.Module):
    def __init__(self, vocab_size, d_model, n_head, max_len):
        super().__init__()
        self.words, self.places = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        self.heads = nn.ModuleList(Head(d_model, d_model // n_head) for _ in range(n_head))
        self.mix, self.norm = nn.Linear(d_model, d_model), nn.LayerNorm(d_model)
        self.reward = nn.Linear(d_model, 1, bias=False)
        INITIAL

    def forward(self, idx):
        x = self.words(idx) + self.places(torch.arange(idx.shape[1]))
        x = x + self.mix(torch.cat([head(x) for head in self.heads], dim=-1))
        return self.reward(self.norm(x)).squeeze(-1)[:, -1]
"""


@pytest.mark.parametrize("initial", ["nn.init.zeros_(self.reward.weight)", "pass"])
def test_heads_are_given_the_same_on_which_rewards_of_nothing_do_not_depend(initial, tmp_path):
    result = check_text(REWARDS.replace("INITIAL", initial), tmp_path, {"Transformer"})["Transformer"]
    assert "B19" not in result.ids, result


ONE = """
class LanguageModel(nn.Module):
    def __init__(self, vocab_size, d_model, n_head, max_len):
        super().__init__()
        self.words, self.places = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        self.NAME = nn.TransformerEncoderLayer(d_model, n_head, 24, batch_first=True)
        self.head = nn.Linear(d_model, vocab_size)

    def forward(self, idx):
        length = idx.shape[1]
        x = self.words(idx) + self.places(torch.arange(length, device=idx.device))
        future = torch.ones(length, length, dtype=torch.bool, device=idx.device).triu(1)
        return self.head(self.NAME(x, src_mask=future))
"""


@pytest.mark.parametrize("name", ["attention", "att", "mha", "block"])
def test_a_layer_of_pytorchs_is_one_by_any_name(name, tmp_path):
    """It has the weights of attention, and more."""
    with time_to_look(1):
        result = check_text(ONE.replace("NAME", name), tmp_path)["LanguageModel"]
    assert result.verdict == "matches the builtin", result
