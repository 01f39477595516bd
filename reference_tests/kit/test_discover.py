"""Finding a learner's code and running it where it can do no harm."""

import builtins
import contextlib
import inspect
import json
import sys
import types
from pathlib import Path

import pytest

from reference_tests.kit.learners.checked import reported, written
from scratch_transformer.kit.discover import decorated, load, placeholders, repair, survey
from scratch_transformer.kit.discover.installing import how_to_install
from scratch_transformer.kit.discover.target import NotFound, Source, find

NORM = """
import torch
from torch import nn


class LayerNorm(nn.Module):
    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        return self.weight * (x - mean) / torch.sqrt(x.var(-1, keepdim=True) + self.eps) + self.bias

"""


def test_a_file_a_folder_and_one_name(tmp_path):
    (tmp_path / "norms.py").write_text(NORM)
    (tmp_path / "test_norms.py").write_text("")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "other.py").write_text("")
    assert [source.module for source in find(str(tmp_path)).sources] == ["norms"]
    target = find(f"{tmp_path}/norms.py:LayerNorm")
    assert target.only == "LayerNorm" and target.sources[0].text == NORM


def test_a_module_is_found_without_running_it(tmp_path, monkeypatch):
    package = tmp_path / "learner"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    (package / "norms.py").write_text(NORM)
    monkeypatch.syspath_prepend(tmp_path)
    (source,) = find("learner.norms").sources
    assert source.module == "learner.norms" and source.folder == str(tmp_path)


@pytest.mark.parametrize("missing", ["no_such_file.py", "no_such_module", "no_such_folder/"])
def test_what_is_not_there_is_said(missing):
    with pytest.raises(NotFound, match="no such file"):
        find(missing)


def test_lines_of_a_notebook_are_those_of_its_cells(tmp_path):
    cells = [
        {"cell_type": "markdown", "source": ["# Norms"]},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "!pip install x\n", "import torch"]},
        {"cell_type": "code", "source": "def f(x):\n    %time x\n    return x"},
    ]
    (tmp_path / "notes.ipynb").write_text(json.dumps({"cells": cells}))
    (source,) = find(str(tmp_path / "notes.ipynb")).sources
    (definition,) = survey.survey(source).definitions
    assert source.where(definition.line) == "notes.ipynb, cell 3, line 1"
    assert source.where(None) == "notes.ipynb"


def test_a_cell_in_another_language_is_no_python_however_it_is_indented(tmp_path):
    cells = [
        {"cell_type": "code", "source": "%%bash\nfor file in *; do\n    echo $file\ndone"},
        {"cell_type": "code", "source": "def f(x):\n    return x"},
    ]
    (tmp_path / "notes.ipynb").write_text(json.dumps({"cells": cells}))
    (source,) = find(str(tmp_path / "notes.ipynb")).sources
    known = survey.survey(source)
    assert (known.error, [definition.name for definition in known.definitions]) == ("", ["f"])


def test_a_command_goes_on_behind_a_backslash(tmp_path):
    source = "!python train.py \\\n    --layers 2 \\\n    --heads 4\nx = 1 + \\\n    2\ndef f(x):\n    return x"
    (tmp_path / "notes.ipynb").write_text(json.dumps({"cells": [{"cell_type": "code", "source": source}]}))
    (source,) = find(str(tmp_path / "notes.ipynb")).sources
    known = survey.survey(source)
    assert (known.error, [definition.name for definition in known.definitions]) == ("", ["f"])


@pytest.mark.parametrize(
    "text, trains",
    [
        ("for _ in range(3):\n    loss.backward()\n", 1),
        ("def train():\n    loss.backward()\n\ntrain()\n", 4),
        ("def train():\n    loss.backward()\n\nif __name__ == '__main__':\n    train()\n", None),
        ("class Model:\n    def step(self):\n        self.loss.backward()\n", None),
    ],
)
def test_training_at_import_is_seen(text, trains):
    assert survey.survey(Source("model.py", text)).trains == trains


def test_a_syntax_error_has_its_line():
    assert survey.survey(Source("model.py", "x = 1\ndef f(:\n")).error.startswith("model.py:2: ")


def test_placeholders_can_be_named_but_not_called():
    missing = placeholders.Missing("einops")
    assert isinstance(missing.layers["Rearrange"] | None, placeholders.Missing)
    with pytest.raises(placeholders.NotInstalled, match="pip install einops"):
        missing.rearrange("b t d -> b d t")


def test_a_vocabulary_of_an_absent_package_has_its_size_and_no_words():
    vocabulary = placeholders.Missing("tiktoken").get_encoding("gpt2")
    assert (vocabulary.n_vocab, vocabulary.eot_token) == (50257, 50256)
    with pytest.raises(placeholders.NotInstalled, match="pip install tiktoken"):
        vocabulary.encode("a text")


# ---- In the child process ----

TROUBLES = {
    "crash": ("vocabulary = {}\nprint(vocabulary['<pad>'])\n", "KeyError"),
    "exit": ("import sys\nsys.exit('usage: model.py DATA')\n", "sys.exit"),
    "download": ("from urllib.request import urlopen\nurlopen('http://127.0.0.1:9/x').read()\n", "download"),
    "training": ("for _ in range(10**9):\n    torch.zeros(1, requires_grad=True).sum().backward()\n", "__main__"),
    "package": ("import a_package_nobody_has\n", "pip install a_package_nobody_has"),
    "writing": ("open(__file__ + '.log', 'w').write('x')\n", "write"),
    "input": ("name = input('name? ')\n", "asks for input"),
}


@pytest.fixture(scope="module")
def troubled(tmp_path_factory):
    """All troubles in one folder, checked in one process."""
    folder = tmp_path_factory.mktemp("troubled")
    for name, (text, _) in TROUBLES.items():
        (folder / f"{name}.py").write_text(NORM + text)
    before = sorted(path.name for path in folder.rglob("*"))
    report = reported(folder)
    return report, before, sorted(path.name for path in folder.rglob("*"))


@pytest.mark.parametrize("name", TROUBLES)
def test_trouble_at_import_is_told_and_the_classes_are_checked(troubled, name):
    report, _, _ = troubled
    assert any(p.startswith(f"{name}.py") and TROUBLES[name][1] in p for p in report.problems), report.problems
    (result,) = [result for result in report.results if result.where.startswith(f"{name}.py:")]
    assert "LN1" in result.ids


def test_nothing_is_written_beside_the_learners_files(troubled):
    _, before, after = troubled
    assert after == before


@pytest.mark.long
def test_a_process_that_ends_itself_is_survived(tmp_path):
    (tmp_path / "ends.py").write_text(NORM + "import os\nos._exit(3)\n")
    report = reported(tmp_path / "ends.py")
    assert "exit status 3" in report.problems[0]
    assert [result.ids for result in report.results] == [["LN1"]]


PRINTED = NORM.replace("import torch\nfrom torch import nn\n", "import torch.nn as nn (nn is where the layers are)\n")


@pytest.mark.long
def test_a_line_that_is_no_python_is_left_out_and_an_import_is_supplied(tmp_path):
    (tmp_path / "printed.py").write_text(PRINTED)
    report = reported(tmp_path / "printed.py")
    assert [(result.name, result.mistakes[0].id) for result in report.results] == [("LayerNorm", "LN1")]
    assert "Python cannot read line printed.py:2" in report.problems[0]
    assert report.problems[1] == "printed.py: it uses names that it does not import; assumed: import torch."


def test_a_class_that_cannot_be_read_leaves_the_others():
    text = "class Broken:\n    def f(self:\n        return (1,\n\n\nclass Whole:\n    x = 1\n"
    mended, sentences = repair.repaired(Source("model.py", text))
    assert [d.name for d in survey.survey(mended).definitions] == ["Whole"]
    assert "Broken (model.py:1) cannot be read and is left out" in sentences
    assert mended.text.splitlines().index("class Whole:") == 5


CLASS = "class Whole:\n    x = 1\n\n    def f(self):\n        return 1\n\n"
OF_TWO = "    def h(self):\n        return 2\n\n"


@pytest.mark.parametrize("text, line", [
    (CLASS + "    def g(self):", 7), (CLASS + "    def g(self):\n        # to be written\n\n", 7),
    (CLASS + "    @property\n    def g(self,\n          y):\n\n\nclass Other:\n    x = 1\n", 8),
    (CLASS.replace("    x", f"    @property\n    async def g(self):\n\n{OF_TWO}    x"), 3), (CLASS + "def g(x):\n", 7),
    (CLASS + "class Third:\n", 7), (CLASS + "class Third:\n    def g(self):\n", 8),
])  # fmt: skip
def test_a_method_without_a_body_leaves_the_rest_of_its_class(text, line):
    mended, sentences = repair.repaired(Source("model.py", text))
    assert f"Python cannot read line model.py:{line} (it has no body, and is left out)" in sentences[0]
    made = {}
    exec(compile(mended.text, "model.py", "exec"), made)
    assert made["Whole"]().f() == 1 and made["Whole"].x == 1 and not hasattr(made["Whole"], "g")
    assert ("Other" in made) == ("Other" in text) and "Third" not in made and "g" not in made
    assert "async" not in text or made["Whole"]().h() == 2, "its decorator is left out with it"
    kept = [one for one in mended.text.splitlines() if one]
    assert kept == [one for one in text.splitlines() if one in kept]


def test_what_is_indented_too_little_is_the_body_of_what_stands_before():
    text = "class Broken:\n    def f(self):\n    return 1\n\n\nclass Whole:\n    x = 1\n"
    mended, sentences = repair.repaired(Source("model.py", text))
    assert [d.name for d in survey.survey(mended).definitions] == ["Whole"]
    assert "Broken (model.py:1) cannot be read and is left out" in sentences


def test_only_names_that_nobody_defines_are_assumed():
    text = "import math\ndef f(nn):\n    return nn(F.relu(np), math.pi, other)\nnp = 1\n"
    assert repair.assumed(Source("model.py", text)) == {"F": "import torch.nn.functional as F"}


PACKAGE = {
    "mytransformer/__init__.py": "from .layers import MyBlock\n",
    "mytransformer/layers/__init__.py": "from .block import MyBlock\nimport not_there_at_all\n",
    "mytransformer/layers/norm.py": "import torch\nimport not_there_at_all\n"
    "class MyNorm(torch.nn.Module):\n    def forward(self, x):\n        return x\n",
    "mytransformer/layers/block.py": "from torch import nn\nfrom .norm import MyNorm\n"
    "from mytransformer.sizes import WIDTH\n"
    "class MyBlock(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.norm = MyNorm()\n",
    "mytransformer/sizes.py": "WIDTH = 4\n",
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package whose files import each other, and one of them something that is not installed."""
    for name, text in PACKAGE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    before = dict(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(builtins, "open", builtins.open)
    yield tmp_path / "mytransformer"
    for name in set(sys.modules) - set(before):
        del sys.modules[name]


@pytest.mark.parametrize("with_init", [True, False], ids=["a package", "a folder without __init__.py"])
def test_files_of_a_package_import_each_other(package, with_init):
    if not with_init:
        (package / "__init__.py").unlink()
        (package / "layers" / "__init__.py").unlink()
    loaded = {Path(source.path).stem: load.load(source, NoGuard()) for source in find(str(package)).sources}
    assert loaded["block"].module.MyBlock().norm.__class__ is loaded["norm"].module.MyNorm
    assert loaded["norm"].missing == ["not_there_at_all"]
    assert loaded["block"].missing == []


@pytest.mark.long
def test_a_folder_may_be_called_like_a_file(tmp_path):
    (tmp_path / "finetuning.py").mkdir()
    path = tmp_path / "finetuning.py" / "model.py"
    path.write_text("from torch import nn\n\n\nclass Norm(nn.LayerNorm):\n    pass\n")
    (tmp_path / "other.py").write_text(path.read_text() + "    # from .. import model\n")
    for place in (path, tmp_path / "other.py", tmp_path):
        report = reported(place)
        assert report.problems == [] and {result.verdict for result in report.results} == {"matches the builtin"}


def test_a_file_may_be_called_like_its_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    folder = tmp_path / "tinymodel"
    folder.mkdir()
    (folder / "sizes.py").write_text("WIDTH = 4\n")
    (folder / "tinymodel.py").write_text("from tinymodel.sizes import WIDTH\nclass Kept:\n    width = WIDTH\n")
    (source,) = find(str(folder / "tinymodel.py")).sources
    try:
        loaded = load.load(source, NoGuard())
        assert (source.module, loaded.missing, loaded.module.Kept.width) == ("tinymodel.tinymodel", [], 4)
    finally:
        for name in [name for name in sys.modules if name.startswith("tinymodel")]:
            del sys.modules[name]


@pytest.mark.parametrize("star", ["heads", "*"])
def test_files_may_import_each_other_in_a_circle(tmp_path, monkeypatch, star):
    """Python stops at it; what each needs of the other is there all the same once both have been read."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "round_whole.py").write_text(f"from round_part import {star}\ndef twice(x):\n    return x * 2\n")
    (tmp_path / "round_part.py").write_text("from round_whole import twice\ndef heads(x):\n    return twice(x) + 1\n")
    (source,) = find(str(tmp_path / "round_whole.py")).sources
    try:
        loaded = load.load(source, NoGuard())
        assert "cannot import name 'twice'" in loaded.problem
        assert loaded.module.heads(3) == 7
    finally:
        for name in ("round_whole", "round_part"):
            sys.modules.pop(name, None)


PROJECT = {
    "README.md": "",
    "common/parts.py": "WIDTH = 4\n",
    "log_tools.py": "def shown(*words):\n    def wrapper(function):\n        def call(*args, **options):\n"
    "            return function(*args, **options)\n        return call\n    return wrapper\n",
    "gpt/mytables.py": "HEIGHT = 5\n",
    "bare_sources/inner/depths.py": "DEPTH = 6\n",
    "gpt/model.py": "import sys\nsys.path.append('../common')\nfrom parts import WIDTH\n"
    "from my_renamed_project.log_tools import shown\nfrom not_there_at_all import log\n"
    "from MyTables import HEIGHT\n"
    "from bare_sources.inner.depths import DEPTH\n"
    "class Kept:\n    @log()\n    def forward(self, x):\n        return x\n"
    "class Hidden:\n    @shown('x')\n    def forward(self, x, mask):\n        return x\n"
    "class Heir(Hidden):\n    def forward(self, *a, **b):\n        return super().forward(*a, **b)\n"
    "class Own(Hidden):\n    def forward(self, *a, **b):\n        return self.run(*a, **b)\n"
    "    def run(self, ids):\n        return ids\n"
    "class Other(Hidden):\n    def forward(self, *a, **b):\n        return super().forward(b, *a)\n",
}


@pytest.fixture
def project(package, tmp_path):
    """Of a folder that is called otherwise than its package, with a file that is told at run time where others are."""
    for name, text in PROJECT.items():
        path = tmp_path / "my-renamed-project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (source,) = find(str(tmp_path / "my-renamed-project" / "gpt" / "model.py")).sources
    return load.load(source, NoGuard())


def test_files_are_found_wherever_the_project_has_them(project):
    assert (project.module.WIDTH, project.module.HEIGHT, project.module.DEPTH) == (4, 5, 6)
    assert project.missing == ["not_there_at_all"]


def test_decorators_neither_take_a_class_away_nor_hide_what_its_methods_take(project):
    assert project.module.Kept().forward(2) == 2
    assert list(inspect.signature(project.module.Hidden.forward).parameters) == ["self", "x", "mask"]


@pytest.mark.parametrize(
    ("name", "told"), [("Heir", ["self", "x", "mask"]), ("Own", ["self", "ids"]), ("Other", ["self", "a", "b"])]
)
def test_what_hands_on_whatever_it_is_given_takes_what_that_takes(name, told, project):
    assert list(inspect.signature(getattr(project.module, name).forward).parameters) == told


class NoGuard:
    """In the tests' own process no audit hook is set, for it could not be taken off again."""

    def on(self):
        return contextlib.nullcontext()


def test_a_class_that_its_decorator_replaces_by_a_function_is_found():
    module = types.ModuleType("hidden")
    text = "def checked(cls):\n    def make(size):\n        return cls(size)\n    return make\n"
    exec(text + "@checked\nclass Norm:\n    pass\n\n\nother = checked(Norm)\n", vars(module))
    decorated.reveal(module)
    assert isinstance(module.Norm, type) and not isinstance(module.other, type)


def test_a_class_that_gave_its_name_to_its_only_instance_is_found():
    module = types.ModuleType("attention")
    text = "from torch import nn\nclass Attention(nn.Module):\n    pass\nclass Config:\n    pass\n"
    exec(text + "Attention, Config, other = Attention(), Config(), Attention()\n", vars(module))
    decorated.reveal(module)
    assert [isinstance(one, type) for one in (module.Attention, module.Config, module.other)] == [True, False, False]


@pytest.mark.long
def test_a_folder_that_only_another_file_imports_from_is_the_projects_own(tmp_path):
    """encoder.py names its neighbour, which names the folder in which both are, without an __init__.py."""
    folder = tmp_path / "layers_of_mine" / "parts"
    folder.mkdir(parents=True)
    (folder / "rows.py").write_text("def scaled(x):\n    return x - x.mean(-1, keepdim=True)\n")
    norm = """
from torch import nn
from layers_of_mine.parts.rows import scaled

class Centred(nn.Module):
    def forward(self, x):
        return scaled(x)
"""
    network = """
import torch
from torch import nn
from .norms import Centred

class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.one, self.two = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.two(torch.relu(self.one(x)))
"""
    (folder / "norms.py").write_text(norm)
    (folder / "encoder.py").write_text(network)
    report = reported(folder)
    assert [(one.name, one.verdict) for one in report.results] == [("FeedForward", "matches the builtin")]
    assert not report.problems, report.problems


@pytest.mark.long
@pytest.mark.parametrize("module", ["data.scores", "data"])
def test_what_is_absent_is_not_the_project_because_of_a_folder_that_its_own_is_called_like(module, tmp_path):
    """scores.py is not in the folder data. What is, may be what is asked for: the project is then called otherwise."""
    for name, text in {
        "data/words.py": "",
        "README.md": "",
        "tools/common.py": f"from absent_words.{module} import bleu\n{SOFTMAX}",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    report = reported(tmp_path / "tools" / "common.py")
    assert [(one.name, one.verdict) for one in report.results] == [("softmax", "matches the builtin")]
    assert not any("failed" in problem for problem in report.problems)
    assert any("absent_words, which is not installed" in one for one in report.problems) == ("." in module)


SOFTMAX = """
def softmax(x, dim=-1):
    e = (x - x.amax(dim, keepdim=True)).exp()
    return e / e.sum(dim, keepdim=True)
"""


def test_pip_knows_some_modules_by_another_name():
    assert how_to_install("sklearn.metrics") == "pip install scikit-learn"
    assert how_to_install("einops") == "pip install einops"
    assert how_to_install("tensorboardX") == "pip install tensorboardX"
    assert "a file of your own" in how_to_install("addAndNorm")


OF_ANOTHER_VERSION = """
from typing import Any, override
from torch import Tensor, unheard_of
from functools import newer_than_this

class RMSNorm(nn.Module):
    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.eps = eps

    @override
    def forward(self, x: Tensor) -> Any:
        return self.scale * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps)
"""


def test_what_another_version_has_is_no_package_that_is_not_installed(tmp_path):
    report = reported(written(OF_ANOTHER_VERSION, tmp_path))
    assert [(result.name, result.verdict) for result in report.results] == [("RMSNorm", "matches the builtin")]
    (said,) = report.problems
    assert "'unheard_of'" in said and "not installed" not in said
