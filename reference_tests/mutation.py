"""Mutation testing: mutmut changes the package's code at one place at a time, and a test must fail.

    python reference_tests/mutation.py              every mutant, from the start
    python reference_tests/mutation.py NAME ...     those mutants again (mutmut's names, * for anything)

Fails if less than 95 % are caught, if a survivor is not in CONTRIBUTING.md's table, or if a line of the table has no
survivor. Which code, and which tests: [mutmut] in setup.cfg.
"""

import fnmatch
import gc
import re
import shutil
import sys
from collections import Counter
from pathlib import Path

import libcst
import mutmut.workers.isolation
import torch._dynamo  # noqa: F401  torch.optim imports it late: once here, and not in every process
from _pytest.config import _prepareconfig
from _pytest.main import Session
from mutmut.__main__ import _run, walk_mutatable_files
from mutmut.mutation.data import SourceFileMutationData
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.mutation.file_mutation import MutationVisitor
from mutmut.runners.harness import PytestRunner
from mutmut.state import state
from mutmut.stats import status_by_exit_code
from mutmut.utils.file_utils import change_cwd

REQUIRED = 95.0  # per cent
CAUGHT = {"killed", "timeout", "segfault"}
# mutmut passes over decorated functions, for a decorator may do anything. These are harmless, and most of the
# mathematics is under them.
HARMLESS = {"rounded_once", "torch.no_grad()", "functools.wraps(equation)"}


def mutate_under_harmless_decorators():
    skips = MutationVisitor._skip_node_and_children

    def skip(self, node):
        if isinstance(node, libcst.FunctionDef) and node.decorators:
            source = libcst.Module([])
            if {source.code_for_node(decorator.decorator) for decorator in node.decorators} <= HARMLESS:
                return False
        return skips(self, node)

    MutationVisitor._skip_node_and_children = skip


class CollectedOnce(PytestRunner):
    """Collects the tests in the process from which mutmut forks one for every mutant: that takes longer than most live.

    Short tests run first, and those that caught another mutant of the function.
    """

    session = None
    failed = False

    def warm_up(self):
        with change_cwd("mutants"):
            # nobody reads why a mutant fails, and explaining it takes ten times as long as finding it out
            terse = ["--rootdir=.", "-q", "--tb=native", "--assert=plain"]
            selection = [*self._pytest_add_cli_args, *self._pytest_add_cli_args_test_selection]
            config = _prepareconfig([*terse, *selection], plugins=[self])
            config._do_configure()
            self.session = Session.from_config(config)
            config.hook.pytest_sessionstart(session=self.session)
            config.hook.pytest_collection(session=self.session)
        gc.freeze()  # no child needs to look through all this

    def pytest_runtest_logreport(self, report):
        self.failed |= report.failed

    def run_tests(self, *, mutant_name, tests):
        if self.session is None:
            self.warm_up()
        duration, wanted = state().duration_by_test, set(tests)
        items = [item for item in self.session.items if not wanted or item.nodeid in wanted]
        record = Path("mutants", f"{str(mutant_name).rpartition('__mutmut_')[0]}.catchers").absolute()
        catches = Counter(record.read_text("utf-8").split("\n") if record.exists() else ())
        items.sort(key=lambda item: duration.get(item.nodeid, 0) / (1 + catches[item.nodeid]))
        held = sys.stdout, sys.stderr  # capturing replaces them, and a file that nobody holds is a ResourceWarning
        self.session.config.get_terminal_writer()._file = held[0]
        with change_cwd("mutants"):
            for item, following in zip(items, [*items[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if self.failed:
                    with record.open("a", encoding="utf-8") as file:
                        file.write(f"{item.nodeid}\n")
                    return 1
        return 0 if items else 5  # pytest's code for no tests


def results():
    """{file: {mutant: status}}."""
    found = {}
    for path in walk_mutatable_files():
        data = SourceFileMutationData(path=path)
        data.load()
        if data.exit_code_by_key:
            found[str(path)] = {name: status_by_exit_code[code] for name, code in data.exit_code_by_key.items()}
    return found


def describe(name, path):
    """(function, changed line), as in CONTRIBUTING.md's table: mutmut's numbers change with every edit."""
    function = re.sub(r"^xǁ|^x_", "", name.split(".")[-1].rpartition("__mutmut_")[0]).replace("ǁ", ".")
    before, after = [], []
    for line in get_diff_for_mutant(name, path=path).splitlines()[2:]:
        {"-": before, "+": after}.get(line[:1], []).append(line[1:].strip())
    return function, " ".join(after) or f"without {' '.join(before)}"


def known_survivors():
    """[(function, line), ...], both with * for anything, from the table in CONTRIBUTING.md."""
    rows = re.findall(r"^\| `+ ?(.+?) ?`+ \| `+ ?(.+?) ?`+ \| .+ \|$", Path("CONTRIBUTING.md").read_text("utf-8"), re.M)
    return [(function, line.replace("\\|", "|")) for function, line in rows]


def fits(pattern, survivor):
    return all(fnmatch.fnmatchcase(s, p.replace("[", "[[]")) for s, p in zip(survivor, pattern, strict=True))


def summarize(found):
    """Print the score of each file and the survivors; return what is wrong."""
    known, unused, faults = known_survivors(), set(known_survivors()), []
    total = caught = 0
    for path, status_of in found.items():
        survivors = {name: status for name, status in status_of.items() if status not in CAUGHT}
        total, caught = total + len(status_of), caught + len(status_of) - len(survivors)
        print(f"{path:50} {1 - len(survivors) / len(status_of):7.1%} of {len(status_of):4} caught")
        for name, status in survivors.items():
            survivor = describe(name, path)
            fitting = {pattern for pattern in known if fits(pattern, survivor)}
            unused -= fitting
            if not fitting:
                faults.append(f"{status}: {name}\n    {survivor[0]}: {survivor[1]}")
    print(f"{'together':50} {caught / total:7.1%} of {total:4} caught")
    if 100 * caught / total < REQUIRED:
        faults.append(f"less than {REQUIRED} % are caught")
    return faults + [f"in CONTRIBUTING.md, but caught: {function}: {line}" for function, line in sorted(unused)]


def main(names):
    if not names:
        shutil.rmtree("mutants", ignore_errors=True)
    mutate_under_harmless_decorators()
    mutmut.workers.isolation.PytestRunner = CollectedOnce
    _run(names, max_children=None)
    print()
    faults = summarize(results())
    print(*faults, sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
