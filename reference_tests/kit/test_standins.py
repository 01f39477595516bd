"""Packages that are stood in for compute what the packages compute."""

import importlib
import importlib.metadata
import importlib.util
import sys

import pytest
import torch

from reference_tests.kit.learners.checked import reported, written
from scratch_transformer.kit.definitions import is_own
from scratch_transformer.kit.discover import standins
from scratch_transformer.kit.discover.load import _sentence

X = torch.randn(2, 5, 12, dtype=torch.float64)


@pytest.mark.parametrize(
    "pattern, sizes, expected",
    [
        ("b t (h d) -> b h t d", {"h": 3}, X.unflatten(-1, (3, 4)).transpose(1, 2)),
        ("b t (h d) -> b h t d", {"d": 3}, X.unflatten(-1, (4, 3)).transpose(1, 2)),
        ("b t (k h d) -> k b h t d", {"k": 3, "h": 2}, X.unflatten(-1, (3, 2, 2)).permute(2, 0, 3, 1, 4)),
        ("b t e -> (b t) e", {}, X.flatten(0, 1)),
        ("b t e -> b 1 t e", {}, X[:, None]),
        ("... (h d) -> ... h d", {"h": 4}, X.unflatten(-1, (4, 3))),
        ("... t e -> (...) e t", {}, X.transpose(1, 2)),
        ("b ... -> ... b", {}, X.permute(1, 2, 0)),
    ],
)
def test_rearrange(pattern, sizes, expected):
    assert torch.equal(standins.rearrange(X, pattern, **sizes), expected)


def test_repeat_adds_axes_where_the_pattern_has_them():
    assert torch.equal(standins.repeat(X, "b t e -> b t r e", r=3), X[:, :, None].expand(2, 5, 3, 12))
    assert torch.equal(standins.repeat(X, "b t e -> b (t r) e", r=2), X.repeat_interleave(2, 1))
    assert torch.equal(standins.repeat(X[0, 0], "e -> b e", b=4), X[0, 0].expand(4, 12))
    assert torch.equal(standins.repeat(X, "b t e -> b t (2 e)"), torch.cat((X, X), -1))


@pytest.mark.parametrize("reduction, expected", [("mean", X.mean(1)), ("sum", X.sum(1)), ("max", X.amax(1))])
def test_reduce(reduction, expected):
    assert torch.equal(standins.reduce(X, "b t e -> b e", reduction), expected)


def test_einsum_with_the_pattern_first_or_last():
    W = torch.randn(3, 12, 4, dtype=torch.float64)
    expected = torch.einsum("bte,hed->bhtd", X, W)
    assert torch.equal(standins.einsum(X, W, "batch time e, head e d -> batch head time d"), expected)
    assert torch.equal(standins.einsum("batch time e, head e d -> batch head time d", X, W), expected)


@pytest.mark.parametrize(
    "pattern, sizes",
    [("b t -> b t", {}), ("b t (h d) -> b h t d", {}), ("b t e -> b t", {}), ("b t (h d) -> b h t d", {"h": 5})],
)
def test_what_does_not_fit_is_refused(pattern, sizes):
    with pytest.raises(ValueError, match="b t"):
        standins.rearrange(X, pattern, **sizes)


def test_parse_shape():
    assert standins.parse_shape(torch.zeros(2, 3, 4), "batch _ e") == {"batch": 2, "e": 4}
    assert standins.parse_shape(torch.zeros(2, 3, 4), "batch ... time e") == {"batch": 2, "time": 3, "e": 4}
    assert standins.parse_shape(torch.zeros(2, 3, 5, 4), "... e") == {"e": 4}
    with pytest.raises(ValueError, match="2 dimensions, this one has 3"):
        standins.parse_shape(torch.zeros(2, 3, 4), "batch e")


def test_only_what_is_absent_is_stood_in_for():
    assert standins._FINDER.find_spec("torch") is None
    spec = standins._FINDER.find_spec("jaxtyping")
    assert spec is not None and "Float" in standins.CONTENTS["jaxtyping"]()


def test_what_reports_and_draws_does_nothing():
    silent = standins._contents("loguru.sinks")()["__getattr__"]
    with silent("logger").opt(colors=True) as logger:
        logger.info("a line")
    assert not silent("run").config["lr"] and list(silent("rows")) == []
    assert silent("catch")(len) is len and silent("main")(config_path="x")(len) is len


def test_a_progress_bar_goes_through_what_it_is_given():
    names = standins._contents("tqdm.auto")()
    assert list(names["tqdm"](range(3), desc="step")) == list(names["trange"](3)) == [0, 1, 2]
    with standins._contents("alive_progress")()["__getattr__"]("alive_bar")(3) as bar:
        bar.text("a line")
        bar()


def test_a_dictionary_of_words_has_their_numbers_the_other_way_round():
    words = standins._contents("bidict")()["bidict"]({"a": 0, "b": 1})
    assert words.inverse == {0: "a", 1: "b"} and words.inv.inv == words == {"a": 0, "b": 1}


def test_einx_says_in_brackets_what_is_worked_on():
    einx, W = standins._contents("einx")(), torch.randn(4, 12, dtype=torch.float64)
    assert torch.equal(einx["dot"]("... [e], o [e] -> ... o", X, W), torch.einsum("bte,oe->bto", X, W))
    assert torch.equal(einx["rearrange"]("b t (h d) -> b h t d", X, h=3), X.unflatten(-1, (3, 4)).transpose(1, 2))
    assert torch.equal(einx["mean"]("... [e]", X), X.mean(-1))
    assert torch.equal(einx["max"]("b [t] e", X), X.amax(1))
    assert torch.equal(einx["softmax"]("b [t] e", X), X.softmax(1))
    assert torch.equal(einx["sum"]("[t] ...", X), X.sum(0))


@pytest.mark.parametrize(
    "pattern, sizes, expected",
    [
        ("... e -> ... 1", {}, X.mean(-1, keepdim=True)),
        ("b t e -> e b", {}, X.mean(1).T),
        ("b ([t]) e", {}, X.mean(1, keepdim=True)),
        ("b [t] e", {"keepdims": True}, X.mean(1, keepdim=True)),
        ("[b t] e", {}, X.mean((0, 1))),
        ("... (h [d])", {"h": 3}, X.unflatten(-1, (3, 4)).mean(-1)),
    ],
)
def test_einx_means_over_what_is_in_brackets_or_is_lost(pattern, sizes, expected):
    assert torch.equal(standins._contents("einx")()["mean"](pattern, X, **sizes), expected)


def test_einx_works_number_by_number_on_tensors_of_fewer_axes():
    einx, row, mask = standins._contents("einx")(), X[0, 0], X > 0
    assert torch.equal(einx["multiply"]("... e, e -> ... e", X, row), X * row)
    assert torch.equal(einx["subtract"]("... e, ... 1 -> ... e", X, X[..., :1]), X - X[..., :1])
    assert torch.equal(einx["add"]("b t e, b t", X, X[..., 0]), X + X[..., :1])
    assert torch.equal(einx["divide"]("b t e, t -> e b t", X, X[0, :, 0]), (X / X[0, :, :1]).permute(2, 0, 1))
    assert torch.equal(einx["divide"]("... e, -> ... e", X, 3.0), X / 3.0)
    assert torch.equal(einx["where"]("... e, ... e, -> ... e", mask, X, -1.0), torch.where(mask, X, -1.0))
    heads = einx["multiply"]("b t (h d), h -> b t (h d)", X, row[:3])
    assert torch.equal(heads, X * row[:3].repeat_interleave(4))
    grid = einx["less_equal"]("t, s -> t s", torch.arange(3), torch.arange(4))
    assert torch.equal(grid, torch.arange(3)[:, None] <= torch.arange(4))


def test_einx_looks_up_places_and_joins_tensors_of_one_form():
    einx, places = standins._contents("einx")(), torch.tensor([[3, 1, 0], [2, 2, 3]])
    table = torch.randn(5, 4, 6, dtype=torch.float64)
    found = einx["get_at"]("c [pos] half, ... -> c ... half", table, places)
    assert torch.equal(found, table[:, places])
    scores, right = torch.randn(2, 3, 7), torch.tensor([[6, 0, 2], [1, 5, 6]])
    chosen = einx["get_at"]("... length [words], ... length -> ... length", scores, right)
    assert torch.equal(chosen, torch.stack([scores[b, t, right[b, t]] for b in range(2) for t in range(3)]).view(2, 3))
    pairs = einx["rearrange"]("... half, ... half -> ... (half (1 + 1))", X, 2 * X)
    assert torch.equal(pairs, torch.stack((X, 2 * X), -1).flatten(-2))
    apart = einx["rearrange"]("... half, ... half -> ... ((1 + 1) half)", X, 2 * X)
    assert torch.equal(apart, torch.cat((X, 2 * X), -1))
    with pytest.raises(ValueError, match="not known here"):
        einx["get_at"]("b [pos] half, b t -> b t half", table, places)


def test_models_of_hyperparameters_hold_what_they_are_given():
    pydantic = standins._contents("pydantic")()

    class Settings(pydantic["BaseModel"]):
        heads: int
        width: int = pydantic["Field"](12, gt=0)
        sizes: list = [1, 2]
        name: str = pydantic["Field"](...)

    made = Settings(heads=3, name="small")
    assert (made.heads, made.width, made.sizes, made.name) == (3, 12, [1, 2], "small")
    assert made.model_dump()["heads"] == 3 and Settings(heads=1, name="").sizes is not made.sizes
    with pytest.raises(TypeError, match="heads"):
        Settings(name="none")


def test_a_package_that_is_not_installed_has_a_version(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", importlib.metadata.version)
    standins.install()
    assert importlib.metadata.version("torch").startswith("2")
    assert importlib.metadata.version("a_package_nobody_has") == "0.0.0"


def test_what_stands_in_is_none_of_the_learners():
    assert not is_own(standins.rearrange) and not is_own(standins.CONTENTS["einops.layers.torch"]()["Rearrange"])


ASKS = """
try:
    import einops
except ImportError:
    einops = None
import importlib.util
HAS = importlib.util.find_spec("einops") is not None
"""


@pytest.mark.parametrize("folder, is_stood_in", [("site-packages", False), ("mine", True)])
def test_what_an_installed_package_asks_for_is_not_stood_in_for(folder, is_stood_in, tmp_path, monkeypatch):
    """A learner's file that imports such a package does not import what that can do without."""
    monkeypatch.setattr(standins, "_FINDER", finder := type(standins._FINDER)())
    monkeypatch.setattr(sys, "meta_path", [one for one in sys.meta_path if not isinstance(one, type(finder))])
    monkeypatch.setitem(sys.modules, "einops", None)
    monkeypatch.delitem(sys.modules, "einops")
    monkeypatch.setattr(standins, "without_profiler", lambda: None)
    (tmp_path / folder).mkdir()
    (tmp_path / folder / f"asks_from_{is_stood_in}.py").write_text(ASKS)
    monkeypatch.syspath_prepend(tmp_path / folder)
    standins.install(str(tmp_path))
    made = importlib.import_module(f"asks_from_{is_stood_in}")
    assert (made.einops is not None, made.HAS, "einops" in standins.used()) == (is_stood_in,) * 3


def test_what_lacks_a_package_is_told_by_its_name(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "that_is_broken.py").write_text("import nothing_of_this_name\n")
    monkeypatch.syspath_prepend(folder)
    with pytest.raises(ModuleNotFoundError) as raised:
        importlib.import_module("that_is_broken")
    assert _sentence(raised.value).startswith(
        "it imports that_is_broken, which needs nothing_of_this_name, which is not"
    )
    with pytest.raises(ModuleNotFoundError) as raised:
        importlib.import_module("nothing_of_this_name")
    assert _sentence(raised.value).startswith("it imports nothing_of_this_name, which is not")


OVER_PROCESSES = """
import fairscale.nn.model_parallel.initialize as fs_init
from fairscale.nn.model_parallel.layers import ColumnParallelLinear, RowParallelLinear


class FeedForward(nn.Module):
    def __init__(self, dim, hidden_dim):
        super().__init__()
        part = hidden_dim // fs_init.get_model_parallel_world_size()
        self.w1 = ColumnParallelLinear(dim, part, bias=False, gather_output=False, init_method=lambda x: x)
        self.w2 = RowParallelLinear(part, dim, bias=False, input_is_parallel=True, init_method=lambda x: x)
        self.w3 = ColumnParallelLinear(dim, part, bias=False, gather_output=False, init_method=lambda x: x)

    def forward(self, x):
        return self.w2(GATE)
"""


@pytest.mark.skipif(
    importlib.util.find_spec("fairscale") is not None, reason="fairscale is installed, and not stood for"
)
@pytest.mark.parametrize(
    "gate, is_right", [("F.silu(self.w1(x)) * self.w3(x)", True), ("self.w1(x) * self.w3(x)", False)]
)
def test_layers_that_are_spread_over_processes_are_those_of_one(gate, is_right, tmp_path):
    report = reported(written(OVER_PROCESSES.replace("GATE", gate), tmp_path))
    (result,) = report.results
    assert (result.verdict == "matches the builtin") == is_right, result
    assert any("fairscale is not installed; the kit's own functions stood in" in one for one in report.problems)
