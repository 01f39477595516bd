"""Mutation testing: mutmut changes the package's code at one place at a time, and a test must fail.

    python reference_tests/mutation.py                        every mutant of the reference, from the start
    python reference_tests/mutation.py --of tiled             of the tiles; kit: of the kit's core
    python reference_tests/mutation.py --of tiled --go-on     those without a verdict yet
    python reference_tests/mutation.py NAME ...               those mutants again (mutmut's names, * for anything)
    python reference_tests/mutation.py --believe              survivors that the table explains are not tried again

Fails if too few are caught, if a survivor is not in the part's table in survivors.md, or if a line of that table has
no survivor. Which code, which tests, how many must be caught: [mutation:...] in setup.cfg, and [mutmut] for all.
"""

import argparse
import configparser
import fnmatch
import gc
import inspect
import math
import os
import re
import resource
import shutil
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import libcst
import mutmut.configuration
import mutmut.mutation.file_mutation
import mutmut.workers.isolation
import torch
import torch._dynamo  # torch.optim imports it late: once here, and not in every process
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

CAUGHT = {"killed", "timeout", "segfault"}
SURVIVORS = Path("reference_tests", "survivors.md")
# mutmut passes over decorated functions, for a decorator may do anything. These are harmless, and most of the
# mathematics is under them.
HARMLESS = {
    "cached_property",
    "contextlib.contextmanager",
    "functools.cache",
    "functools.wraps(equation)",
    "property",
    "rounded_once",
    "tiled_attention.register_fake",
    "tiled_attention_backward.register_fake",
    "torch.no_grad()",
}
METHODS = {"classmethod", "staticmethod"}  # which mutmut's copies keep
# A test that hangs catches a mutant. It has so many times as long as usual, and so many seconds: of the processor, for
# endless loops, and by the clock, for threads that wait for each other.
PATIENCE, PROCESSOR_SECONDS, SECONDS = 20, 20, 30


def mutate_under_harmless_decorators():
    skips = MutationVisitor._skip_node_and_children

    def skip(self, node):
        if isinstance(node, libcst.FunctionDef) and node.decorators:
            source = libcst.Module([])
            if {source.code_for_node(decorator.decorator) for decorator in node.decorators} <= HARMLESS:
                return False
        return skips(self, node)

    MutationVisitor._skip_node_and_children = skip
    arrange = mutmut.mutation.file_mutation.function_trampoline_arrangement

    def arrange_within_decorators(function, mutants, class_name):
        declared, (outer, *copies), assigned, names = arrange(function, mutants, class_name)
        if not any(isinstance(d.decorator, libcst.Name) and d.decorator.value in METHODS for d in function.decorators):
            copies = [copy.with_changes(decorators=[]) for copy in copies]
        return declared, [outer, *copies], assigned, names

    mutmut.mutation.file_mutation.function_trampoline_arrangement = arrange_within_decorators


def leave_names_of_buffers():
    """A buffer may have any name that no other has: strings in calls of `scratch`, and of what is handed it, are names.

    So is None. A call without its name is another call, and stays a mutant.
    """
    create = MutationVisitor._create_mutations

    def create_others(self, node):
        before = len(self.mutations)
        create(self, node)
        names = {id(argument.value) for argument in node.args if is_name(argument)} if takes_scratch(node) else set()
        self.names_of_buffers = getattr(self, "names_of_buffers", set()) | names
        found = self.mutations[before:]
        if id(node) in self.names_of_buffers:
            found = []
        elif names:
            found = [mutation for mutation in found if not becomes_none(node, mutation.mutated_node, names)]
        self.mutations[before:] = found

    MutationVisitor._create_mutations = create_others


def takes_scratch(node):
    if not isinstance(node, libcst.Call):
        return False
    of = [node.func.value] if isinstance(node.func, libcst.Attribute) else []
    return any(is_scratch(x) for x in (node.func, *of, *(a.value for a in node.args)))


def is_scratch(node):
    """Of scratch or self._scratch."""
    name = node.attr if isinstance(node, libcst.Attribute) else node
    return isinstance(name, libcst.Name) and name.value in ("scratch", "_scratch")


def is_name(argument):
    return isinstance(argument.value, libcst.SimpleString)


def becomes_none(call, mutated, names):
    """Whether a call's mutant has None for one of these arguments."""
    return isinstance(mutated, libcst.Call) and any(
        id(old.value) in names and isinstance(new.value, libcst.Name) and new.value.value == "None"
        for old, new in zip(call.args, mutated.args, strict=False)
    )


def read_types_of_what_is_wrapped():
    """torch finds the types of an operator's arguments among the globals of its function, not of mutmut's wrapper."""
    infer = torch.library.infer_schema
    torch.library.infer_schema = lambda function, **options: infer(inspect.unwrap(function), **options)


class CollectedOnce(PytestRunner):
    """Collects the tests in the process from which mutmut forks one for every mutant: that takes longer than most live.

    Short tests run first, and those that caught another mutant of the function.
    """

    session = None
    failed = False
    believed = ()  # survivors that are not tried again

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
        if report.failed:  # seen where nothing is mutated yet; mutants' words go nowhere
            print(report.nodeid, report.longreprtext, sep="\n")

    def run_tests(self, *, mutant_name, tests):
        if self.session is None:
            self.warm_up()
        if mutant_name and self.believed and explained(str(mutant_name), self.believed):
            return 0
        duration, wanted = state().duration_by_test, set(tests)
        items = [item for item in self.session.items if not wanted or item.nodeid in wanted]
        record = Path("mutants", f"{str(mutant_name).rpartition('__mutmut_')[0]}.catchers").absolute()
        catches = Counter(record.read_text("utf-8").split("\n") if record.exists() else ())
        items.sort(key=lambda item: duration.get(item.nodeid, 0) / (1 + catches[item.nodeid]))
        held = sys.stdout, sys.stderr  # capturing replaces them, and a file that nobody holds is a ResourceWarning
        self.session.config.get_terminal_writer()._file = held[0]
        with change_cwd("mutants"):
            for item, following in zip(items, [*items[1:], None], strict=True):
                give_up_after(duration.get(item.nodeid, 0))
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if self.failed:
                    with record.open("a", encoding="utf-8") as file:
                        file.write(f"{item.nodeid}\n")
                    return 1
        return 0 if items else 5  # pytest's code for no tests


def give_up_after(usual):
    """If the next test takes much longer than usual, this process ends, as mutmut ends one that takes too long."""
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    soft = math.ceil(time.process_time() + PROCESSOR_SECONDS + PATIENCE * usual)
    resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))
    left = math.ceil(SECONDS + PATIENCE * usual)

    def second(*_):  # counted one by one: those in which the process is stopped are not
        nonlocal left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGXCPU)

    signal.signal(signal.SIGALRM, second)
    signal.setitimer(signal.ITIMER_REAL, 1, 1)


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
    """(function, changed line), as in the table of survivors: mutmut's numbers change with every edit."""
    function = re.sub(r"^xǁ|^x_", "", name.split(".")[-1].rpartition("__mutmut_")[0]).replace("ǁ", ".")
    before, after = [], []
    for line in get_diff_for_mutant(name, path=path).splitlines()[2:]:
        {"-": before, "+": after}.get(line[:1], []).append(line[1:].strip())
    return function, " ".join(after) or f"without {' '.join(before)}"


def known_survivors(part):
    """[(function, line), ...], both with * for anything, from the part's table."""
    _, _, rest = SURVIVORS.read_text("utf-8").partition(f"\n## {part}\n")
    rows = re.findall(r"^\| `+ ?(.+?) ?`+ \| `+ ?(.+?) ?`+ \| .+ \|$", rest.partition("\n## ")[0], re.M)
    return [(function, line.replace("\\|", "|")) for function, line in rows]


def fits(pattern, survivor):
    return all(fnmatch.fnmatchcase(s, p.replace("[", "[[]")) for s, p in zip(survivor, pattern, strict=True))


def explained(name, patterns):
    """Whether a mutant is one that these patterns fit."""
    path = Path(*name.rpartition(".")[0].split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    survivor = describe(name, path)
    return any(fits(pattern, survivor) for pattern in patterns)


def summarize(found, known, required):
    """Print the score of each file and the survivors; return what is wrong."""
    unused, faults = set(known), []
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
    if 100 * caught / total < required:
        faults.append(f"less than {required} % are caught")
    return faults + [f"in {SURVIVORS}, but caught: {function}: {line}" for function, line in sorted(unused)]


def configure(part):
    """Make mutmut's configuration the part's; return how many per cent must be caught."""
    parser = configparser.ConfigParser()
    parser.read("setup.cfg")
    section = parser[f"mutation:{part}"]
    config = mutmut.configuration.config()
    config.only_mutate = section["code"].split()
    config.pytest_add_cli_args += ["-k", section["which"].replace("\n", " ")]
    config.pytest_add_cli_args_test_selection = section["tests"].split()
    config.timeout_constant = section.getfloat("seconds")
    return section.getfloat("required")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--of", choices=("reference", "tiled", "kit"), default="reference")
    parser.add_argument("--go-on", action="store_true")
    parser.add_argument("--believe", action="store_true")
    parser.add_argument("--processes", type=int)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    required = configure(options.of)
    if not options.names and not options.go_on:
        shutil.rmtree("mutants", ignore_errors=True)
    mutate_under_harmless_decorators()
    leave_names_of_buffers()
    read_types_of_what_is_wrapped()
    mutmut.workers.isolation.PytestRunner = CollectedOnce
    if options.believe:
        CollectedOnce.believed = known_survivors(options.of)
    _run(options.names, max_children=options.processes)
    print()
    faults = summarize(results(), known_survivors(options.of), required)
    print(*faults, sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
