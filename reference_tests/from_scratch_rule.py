"""The from-scratch rule: what the reference may take from PyTorch, checked on the syntax tree.

Allowed: tensor operations, autograd, and of `torch.nn` what `ALLOWED_NN` names. Names are resolved through imports
(`import torch.nn as n`, `from torch.nn import functional as F`), so it does not matter what a file calls them.
"""

import ast
import re
import sys

import torch

REFERENCE = ("checks", "precision", "by_hand", "functional", "masks", "attention", "nn", "optim")
REFERENCE += ("model", "language_model", "conversion")
ALLOWED_PACKAGES = {"torch", "numpy", "triton", "scratch_transformer"} | sys.stdlib_module_names
ALLOWED_NN = {"Module", "Parameter", "ModuleList", "init"}

# Every torch.nn.functional function is forbidden under any roof: torch.relu, torch.special.softmax, Tensor.log_softmax.
# Not the two that are plain tensor operations too: the hyperbolic function and the sliding view.
KERNELS = {name for name, value in vars(torch.nn.functional).items() if callable(value) and name.islower()}
KERNELS -= {"tanh", "unfold"}
TENSOR_METHODS = KERNELS & set(dir(torch.Tensor))
OTHER_KERNELS = re.compile(r"_|native_|fused_|cudnn_|miopen_|mkldnn_|fbgemm_|quantized_|rnn_|lstm|gru|ops$|optim$")

# Private, but it computes nothing, and there is no public way to ask.
QUESTIONS = {
    "torch._C._are_functorch_transforms_active", "torch._C._functorch.is_legacy_batchedtensor",
    "torch._C._len_torch_dispatch_stack",
}  # fmt: skip

BY_NAME = {"getattr", "attrgetter", "methodcaller", "__getattribute__", "__getattr__"}
NEVER_CALLED = {"eval", "exec", "__import__", "import_module"}


def violations(source: str) -> list[str]:
    """What `source` takes from PyTorch against the rule, as "line 3: torch.relu: why"."""
    checker = _Checker()
    checker.visit(ast.parse(source))
    return [f"line {line}: {what}" for line, what in sorted(checker.found)]


def forbidden(path: str) -> str | None:
    """Why `path`, such as torch.nn.Linear, may not be used; None if it may."""
    parts = path.split(".")
    if parts[0] != "torch" or parts[-1] == "__version__" or path in QUESTIONS:
        return None
    if parts[1:2] == ["nn"]:
        if parts[2:] and parts[2] not in ALLOWED_NN:
            return f"of torch.nn only {', '.join(sorted(ALLOWED_NN))} are allowed"
    elif len(parts) > 1 and OTHER_KERNELS.match(parts[1]):
        return "a fused kernel, or a way to one"
    elif kernels := KERNELS.intersection(parts):
        return f"PyTorch's own {kernels.pop()}"
    return None


class _Checker(ast.NodeVisitor):
    def __init__(self) -> None:
        self.found: set[tuple[int, str]] = set()
        self.paths: dict[str, str] = {}  # a name in this file -> what it stands for: {"F": "torch.nn.functional"}

    def report(self, node: ast.AST, path: str, why: str | None) -> None:
        if why is not None:
            self.found.add((node.lineno, f"{path}: {why}"))  # type: ignore[attr-defined]

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.check_import(node, alias.name)
            top = alias.name.partition(".")[0]
            self.paths[alias.asname or top] = alias.name if alias.asname else top

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = ("scratch_transformer." if node.level else "") + (node.module or "")
        for alias in node.names:
            path = f"{module}.{alias.name}"
            self.check_import(node, path)
            if alias.name == "*" and module.startswith("torch"):
                self.report(node, path, "hides what is taken")
            self.paths[alias.asname or alias.name] = path

    def check_import(self, node: ast.stmt, path: str) -> None:
        self.report(node, path, forbidden(path))
        if path.partition(".")[0] not in ALLOWED_PACKAGES:
            self.report(node, path, "the reference needs torch, NumPy and the standard library only")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        path = self.resolve(node)
        if path is not None:
            self.check_use(node, path)
            return  # its parts were seen as one
        own = isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}
        if node.attr in TENSOR_METHODS and not own:
            self.report(node, f".{node.attr}", f"PyTorch's own {node.attr}")
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load) and (path := self.resolve(node)) is not None:
            self.check_use(node, path)

    def check_use(self, node: ast.expr, path: str) -> None:
        self.report(node, path, forbidden(path))
        if path.startswith("torch") and (path in sys.modules or path.endswith(".__dict__")):
            self.report(node, path, "a module handed on as a value hides what is taken from it")

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
        if function in NEVER_CALLED - ({"eval"} if isinstance(node.func, ast.Attribute) else set()):  # model.eval() may
            self.report(node, f"{function}(...)", "hides what is taken")
        if function in BY_NAME:
            self.check_by_name(node, function)
        self.generic_visit(node)

    def check_by_name(self, node: ast.Call, function: str) -> None:
        """`getattr(x, "softmax")` is `x.softmax`; a name that is only known at run time is for `self` alone."""
        names = node.args[1:2] if function == "getattr" else node.args
        for name in names:
            if isinstance(name, ast.Constant) and name.value in TENSOR_METHODS:
                self.report(node, f"{function}(..., {name.value!r})", f"PyTorch's own {name.value}")
            elif not isinstance(name, ast.Constant) and ast.unparse(node.args[0]) != "self":
                self.report(node, f"{function}(..., {ast.unparse(name)})", "hides what is taken")

    def resolve(self, node: ast.expr) -> str | None:
        """The dotted path that `node` stands for, or None where it does not start at an import."""
        if isinstance(node, ast.Name):
            return self.paths.get(node.id)
        if isinstance(node, ast.Attribute) and (path := self.resolve(node.value)) is not None:
            return f"{path}.{node.attr}"
        return None
