"""What is given beside a config: an object of the one class of the file that has what is read; what turns heads."""

import pytest

from reference_tests.kit.learners.checked import check_text

NETWORK = """
@dataclasses.dataclass
class Sizes:
    width: int = 64
    inner: int = 256


class Group:
    def __init__(self, place: int = 0, world_size: int = 1):
        self.place, self.world_size = place, world_size

    def joined(self, x):
        return x


class Network(nn.Module):
    def __init__(self, sizes, group):
        super().__init__()
        self.group = group
        self.up = nn.Linear(sizes.width, sizes.inner // group.world_size)
        self.down = nn.Linear(sizes.inner // group.world_size, sizes.width)

    def forward(self, x):
        return self.group.joined(self.down(F.relu(self.up(x))))
"""
BEGIN, SET = (
    "def __init__(self, place: int = 0, world_size: int = 1):",
    "self.place, self.world_size = place, world_size",
)
FIELDS = NETWORK.replace("class Group", "@dataclasses.dataclass\nclass Group").replace(
    f"{BEGIN}\n        {SET}",
    """place: int = 0
    world_size: int = 1""",
)
BARE = NETWORK.replace(", group)", ", world_size)").replace("self.group = group", "").replace("group.world", "world")
BARE = BARE.replace("self.group.joined(self.down(F.relu(self.up(x))))", "self.down(F.relu(self.up(x)))")


@pytest.mark.parametrize("text", [NETWORK, FIELDS, BARE])
@pytest.mark.parametrize(
    "old, new, verdict", [("", "", "matches the builtin"), ("F.relu(self.up(x))", "self.up(x)", "mistake")]
)
def test_what_is_given_beside_the_sizes_is_of_the_files_class(text, old, new, verdict, tmp_path):
    """It is made for one process, whatever the model's sizes are."""
    result = check_text("import dataclasses\n" + text.replace(old, new), tmp_path, ["Network"])["Network"]
    assert result.verdict == verdict, result


ATTENTION = """
class Attention(nn.Module):
    def __init__(self, width, heads, rotary_layer):
        super().__init__()
        assert width % heads == 0
        self.heads, self.turn = heads, rotary_layer
        self.pack, self.back = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        b, t, e = x.shape
        q, k, v = self.pack(x).view(b, t, 3, self.heads, e // self.heads).permute(2, 0, 3, 1, 4)
        later = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        scores = (self.turn(q) @ self.turn(k).mT / (e // self.heads) ** 0.5).masked_fill(later, -torch.inf)
        return self.back((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, e))
"""
ANNOTATED = ATTENTION.replace("heads, self.turn = heads, rotary_layer", "heads = heads").replace(
    "        self.pack", "        self.turn: nn.Module = rotary_layer\n        self.pack"
)


@pytest.mark.parametrize("text", [ATTENTION, ANNOTATED])
@pytest.mark.parametrize(
    "old, new, ids", [("", "", []), (" / (e // self.heads) ** 0.5", "", ["A1"]), ("self.turn(k)", "k", ["R4"])]
)
def test_what_turns_heads_and_is_given_is_never_a_number(text, old, new, ids, tmp_path):
    """Nothing in the file is such: it is the reference's, which is said."""
    result = check_text(text.replace(old, new), tmp_path)["Attention"]
    assert [*result.ids] == ids, result
    assert any("the reference's RotaryEmbedding" in said for said in result.limits), result.limits


MIXED = """
class Block(nn.Module):
    def __init__(self, width, heads, inner, mixer):
        super().__init__()
        self.attention, self.mixer = nn.MultiheadAttention(width, heads, batch_first=True), mixer
        self.network = nn.Sequential(nn.Linear(width, inner), nn.ReLU(), nn.Linear(inner, width))
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        x = self.mixer(x)
        x = self.first(x + self.attention(x, x, x)[0])
        return self.second(x + self.network(x))
"""


def test_what_is_called_and_nobody_knows_is_asked_for(tmp_path):
    """That a number cannot be called is not said of the learner's code."""
    result = check_text(MIXED, tmp_path)["Block"]
    assert result.verdict == "could not be built" and "takes mixer" in str(result), result


def test_what_is_called_where_it_is_given_may_be_none(tmp_path):
    given = MIXED.replace("x = self.mixer(x)", "x = self.mixer(x) if self.mixer is not None else x")
    result = check_text(given, tmp_path)["Block"]
    assert result.verdict == "matches the builtin", result
