"""What holds for the project as a whole: the from-scratch rule, its version, what importing it costs."""

import ast
import configparser
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import scratch_transformer
from reference_tests.from_scratch_rule import REFERENCE, violations

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "scratch_transformer"


def reference_files():
    return [
        path for name in REFERENCE for path in [*PACKAGE.glob(f"{name}.py"), *sorted((PACKAGE / name).rglob("*.py"))]
    ]


def constants(text):
    """The names that stand on the left at the top of a module."""
    lines = [node for node in ast.parse(text).body if isinstance(node, ast.Assign | ast.AnnAssign)]
    targets = [target for line in lines for target in getattr(line, "targets", [getattr(line, "target", None)])]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def test_no_constant_of_a_module_is_given_twice():
    """What is above would silently take the value that is below."""
    names = {path: Counter(constants(path.read_text(encoding="utf-8"))) for path in PACKAGE.rglob("*.py")}
    assert [(path.name, name) for path, each in names.items() for name, times in each.items() if times > 1] == []
    assert Counter(constants("WORD = 1\nOTHER: int = 2\nWORD = 3"))["WORD"] == 2


# ---- The from-scratch rule ----


@pytest.mark.parametrize("path", reference_files(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_the_reference_is_from_scratch(path):
    assert violations(path.read_text(encoding="utf-8")) == []


def test_the_rule_looks_at_the_whole_reference():
    names = {str(path.relative_to(PACKAGE)) for path in reference_files()}
    assert names >= {"functional.py", "masks.py", "attention/naive.py", "attention/tiled/tile.py", "nn/linear.py"}


@pytest.mark.parametrize(
    "snippet",
    [
        "import torch\ntorch.nn.Linear(2, 3)",
        "import torch.nn as x\nx.LayerNorm(2)",
        "from torch import nn\nnn.Transformer()",
        "from torch import nn as layers\nclass A(layers.Linear): pass",
        "from torch.nn import Linear",
        "from torch.nn import Linear as L",
        "from torch.nn.modules.linear import Linear",
        "from torch.nn.attention import sdpa_kernel",
        "import torch.nn.functional",
        "import torch.nn.functional as F",
        "from torch.nn import functional as F",
        "from torch.nn.functional import pad",
        "import torch\ntorch.nn.functional.one_hot(x)",
        "def f():\n    import torch as t\n    return t.softmax(x, -1)",
        "from torch import softmax as s",
        "import torch\ntorch.special.log_softmax(x, -1)",
        "import torch\ntorch.Tensor.softmax(x, -1)",
        "from torch import Tensor\nTensor.relu(x)",
        "import torch\ntorch.relu(x)",
        "import torch\ntorch.relu_(x)",
        "import torch\ntorch.sigmoid(x)",
        "import torch\ntorch.layer_norm(x, (3,))",
        "import torch\ntorch.rms_norm(x, (3,))",
        "import torch\ntorch.batch_norm(x)",
        "import torch\ntorch.dropout(x, 0.1, True)",
        "import torch\ntorch.embedding(w, x)",
        "import torch\ntorch.native_layer_norm(x)",
        "import torch\ntorch.native_dropout(x)",
        "import torch\ntorch.lstm(x)",
        "import torch\ntorch._softmax(x, -1, False)",
        "import torch\ntorch._C._nn.linear(x, w)",
        "import torch\ntorch._scaled_dot_product_flash_attention(q, k, v)",
        "import torch\ntorch.ops.aten.addmm(x, y, z)",
        "import torch\ntorch.optim.Adam(p)",
        "from torch.optim import Adam",
        "from torch import optim",
        "from torch import *",
        "from torch.nn import *",
        "x.softmax(-1)",
        "(q @ k).log_softmax(dim=-1)",
        "f(x).relu()",
        "x.relu_()",
        "scores = x.softmax\nscores(-1)",
        "getattr(x, 'softmax')(-1)",
        "import torch\ngetattr(torch, 'soft' + 'max')(x, -1)",
        "import torch\nt = torch\nt.softmax(x, -1)",
        "import torch\nlayers = torch.nn\nlayers.Linear(2, 3)",
        "import torch\nvars(torch)['softmax'](x, -1)",
        "import torch\ntorch.__dict__['softmax'](x, -1)",
        "import torch\ntorch.nn.__dict__['Linear'](2, 3)",
        "getattr(x, 'soft' + 'max')(-1)",
        "import operator\noperator.methodcaller('softmax', -1)(x)",
        "x.__getattribute__('softmax')(-1)",
        "import importlib\nimportlib.import_module('torch.nn.functional')",
        "__import__('torch').softmax(x, -1)",
        "eval('torch.softmax(x, -1)')",
        "import transformers",
        "from xformers.ops import memory_efficient_attention",
    ],
)
def test_the_rule_rejects(snippet):
    assert violations(snippet)


@pytest.mark.parametrize(
    "snippet",
    [
        "import torch\nw = torch.exp(x - x.amax(-1, keepdim=True)) @ torch.tanh(x).transpose(0, 1)",
        "from torch import Tensor, nn\nclass A(nn.Module):\n    def f(self, x: Tensor): return nn.Parameter(x)",
        "from torch.nn import Module, ModuleList, Parameter, init\ninit.xavier_uniform_(w)",
        "import torch\ntorch.nn.init.zeros_(w)",
        "import torch\nclass A(torch.autograd.Function): pass",
        "import torch\ntorch.autograd.grad(y, x)",
        "import torch\nif torch.__version__ > '2': y = x.unfold(0, 2, 1)",
        "from scratch_transformer import functional as F\nF.softmax(x, -1)",
        "from scratch_transformer.functional import relu, softmax\nsoftmax(relu(x), -1)",
        "from . import functional\nfunctional.layer_norm(x, (3,))",
        "from .. import nn\nnn.Linear(2, 3)",
        "class A:\n    def forward(self, x): return self.softmax(self.relu(x))",
        "activations = {'relu': relu}\nactivation = activations['relu']",
        "'''torch.softmax, explained.'''\nmodel.eval()",
        "class A:\n    def f(self, name): return getattr(self, name)",
        "import math\nimport numpy as np\nimport triton.language as tl\nfrom functools import partial",
    ],
)
def test_the_rule_accepts(snippet):
    assert violations(snippet) == []


def test_the_rule_says_where_and_why():
    assert violations("import torch\n\nx = torch.relu(y)") == ["line 3: torch.relu: PyTorch's own relu"]


# ---- Packaging ----


def setup_cfg():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    return config


def test_one_version_everywhere():
    version = scratch_transformer.__version__
    cited = re.findall(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.M)
    assert setup_cfg()["metadata"]["version"] == version
    assert cited == [version]
    assert version in (ROOT / "CHANGELOG.md").read_text()


def test_type_hints_ship():
    assert (PACKAGE / "py.typed").is_file()
    assert "py.typed" in setup_cfg()["options.package_data"]["scratch_transformer"]


def test_every_folder_of_the_package_ships():
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert sorted(folder for folder in folders if not (folder / "__init__.py").is_file()) == []


# ---- What an import costs ----


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("scratch_transformer", ["torch", "numpy", "click"]),
        ("scratch_transformer.numpy_oracle", ["torch"]),
        ("scratch_transformer.nn", ["click", "rich", "jinja2"]),
    ],
    ids=["package", "numpy_oracle", "nn"],
)
def test_importing_does_not_load(module, unwanted):
    code = f"import sys, {module}\nassert not set(sys.argv[1:]) & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code, *unwanted], cwd=ROOT, check=True)
