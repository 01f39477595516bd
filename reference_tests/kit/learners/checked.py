"""The kit on learner-like code in this process: quicker than a child for each file, and none of it does any harm."""

import contextlib
import linecache
import sys
import types
from pathlib import Path
from unittest import mock

import pytest
import torch

from scratch_transformer.kit import checking as checks
from scratch_transformer.kit import process
from scratch_transformer.kit.checking import Checking
from scratch_transformer.kit.discover import scripted, standins
from scratch_transformer.kit.discover.survey import survey
from scratch_transformer.kit.discover.target import find
from scratch_transformer.kit.judge import search
from scratch_transformer.kit.resolve import trial
from scratch_transformer.kit.resolve.trials import choice, weight_search

BUDGETS = {
    checks: (
        *("COMPONENT_SECONDS", "MOST_COMPONENT", "MOST_PART"),
        *("FILE_SECONDS", "SEARCH", "SEARCH_SECONDS", "LEAST_SEARCH"),
    ),
    choice: ("QUICK", "THOROUGH"),
    search: ("SECONDS",),
    trial: ("SECONDS",),
    weight_search: ("SECONDS",),
}
USUAL = {module: {name: getattr(module, name) for name in names} for module, names in BUDGETS.items()}


@contextlib.contextmanager
def time_to_look(share):
    """So many times the usual time to look for what explains something.

    Less for what is only not to be called right: what is looked for in vain is looked for until time is up. What stops
    a component, or a part of it, goes by the processor's own time: a busy one gets more of that.
    """
    with contextlib.ExitStack() as stack:
        for module, seconds in USUAL.items():
            given = {name: share * usual for name, usual in seconds.items()}
            if module is checks:
                stops = {name: seconds[name] for name in ("COMPONENT_SECONDS", "MOST_COMPONENT", "MOST_PART")}
                given |= {name: MORE * max(share, 1) * usual for name, usual in stops.items()}
            stack.enter_context(mock.patch.multiple(module, **given))
        yield


MORE, LESS = 3, 0.2


def _says_which():
    try:
        torch.zeros(2).mean(-1, keep_dim=True)
    except TypeError as error:
        return "unexpected keyword" in str(error)


WORDS = pytest.mark.skipif(not _says_which(), reason="this torch does not say which argument it refuses")
"""The kit names what PyTorch's error says; older releases say less."""


def check_here(path, names=None):
    """Results by name of all components of a file, or of those that are named; the others are built where needed."""
    return checking_of(path, names)[1]


IMPORTS = "import copy\nimport math\nimport torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n"


def check_text(text, folder, names=None):
    """Results by name of the components in some lines of a learner's, after the usual imports."""
    return check_here(written(text, folder), names)


def reported(target):
    """The report of a file or folder, as a user gets it, by a process of its own."""
    return process.check(find(str(target)), Path(target).name)


def written(text, folder):
    """The file of such lines."""
    path = folder / "learner.py"
    path.write_text(IMPORTS + text)
    return path


def checking_of(path, names=None):
    """The same, and what was found out on the way."""
    (source,) = find(str(path)).sources
    standins.install()
    module = types.ModuleType(f"learner_{source.module}_{len(sys.modules)}")
    module.__file__ = f"<{module.__name__}>"
    linecache.cache[module.__file__] = (len(source.text), None, source.text.splitlines(keepends=True), module.__file__)
    sys.modules[module.__name__] = module
    try:
        with scripted.as_python():
            exec(compile(source.text, module.__file__, "exec"), module.__dict__)
        checking = Checking({}, None, lambda event, **values: None)
        for definition in survey(source).definitions:
            checking.add(definition.name, getattr(module, definition.name), source, definition.line)
        results = {}
        for entry in checking.in_order():
            if names is None or entry[1] in names:
                results[entry[1]] = checking.component(entry)
        return checking, {name: one for name, one in results.items() if one is not None}  # what has a report of its own
    finally:
        del sys.modules[module.__name__], linecache.cache[module.__file__]
