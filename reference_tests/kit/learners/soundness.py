"""Does the kit ever call right what is wrong? Right code is changed in one place, and checked.

    python -m reference_tests.kit.learners.soundness seq2seq --most 100

A change survives where the kit says that the class is right, although, called and loaded as the right one was, it gives
other numbers. Some that survive are right in another way: a mask that is taken in another form, another design.
"""

import argparse
import copy
import json
import os
import random
import resource
import sys
import tempfile
import traceback
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import torch
from torch import nn

from reference_tests.kit.learners.checked import check_here, checking_of
from reference_tests.kit.learners.corpus import CORRECT, STYLES
from reference_tests.kit.learners.mutations import Mutation, mutations
from scratch_transformer.conformance.switches import exact
from scratch_transformer.kit.judge.session import distance
from scratch_transformer.kit.kind import Probe, random_state
from scratch_transformer.kit.recipe import RIGHT
from scratch_transformer.kit.report.finding import FINE
from scratch_transformer.kit.resolve.build import construct
from scratch_transformer.kit.resolve.call import forwards
from scratch_transformer.kit.resolve.call.precision import double
from scratch_transformer.kit.resolve.candidate import Resolved
from scratch_transformer.kit.resolve.weights.layout import Parameters

PATHS = {**STYLES, **{path.stem: path for path in sorted((CORRECT.parent / "wild").glob("*.py"))}}
SECONDS = 40
"""Of computing, for one change."""


class Right:
    """A style that is right, resolved: what each class is and how it is called, to call changed code the same way."""

    def __init__(self, path: Path) -> None:
        self.made: dict[int, construct.Attempt] = {}
        with self._recorded():
            self.checking, self.results = checking_of(path)
        self.candidates = self.checking.library.resolved
        self.module = next(_globals_of(thing) for thing in self.candidates)
        self.outputs = {thing.__name__: self._outputs(c, c.load) for thing, c in self.candidates.items()}

    @contextmanager
    def _recorded(self) -> Iterator[None]:
        """Which attempt built what."""
        build = construct.Attempt.build

        def recording(attempt):
            made = build(attempt)
            self.made[id(made)] = attempt
            attempt.kept = made
            return made

        construct.Attempt.build = recording
        try:
            yield
        finally:
            construct.Attempt.build = build

    def _outputs(self, candidate, load):
        found = []
        for seed in (0, 5):
            full = candidate.kind.complete(candidate.settings)
            asked = random_state(candidate.kind.build(full, RIGHT.with_(candidate.kind.full)), seed)
            for probe in candidate.kind.probes(full, seed):
                if not candidate.accepts(probe.inputs):
                    continue
                try:
                    with exact(), torch.no_grad():
                        torch.manual_seed(0)
                        load(asked)
                        inputs = copy.deepcopy(probe.inputs)
                        found.append((probe, candidate(**inputs)))
                except Exception:
                    found.append((probe, None))
        return found

    def differing(self, text: str, names: list[str]) -> dict[str, str]:
        """Whether changed code gives other numbers, called as before: "yes", "no", "unknown", by name."""
        namespace = {"__name__": self.module["__name__"], "__file__": self.module["__file__"]}
        sys.modules[namespace["__name__"]] = types.ModuleType(namespace["__name__"])  # dataclasses look there
        exec(compile(text, self.module["__file__"], "exec"), namespace)
        _swap(self.module, namespace)
        return {name: self._differs(name) for name in names}

    def _differs(self, name: str) -> str:
        thing = next((thing for thing in self.candidates if thing.__name__ == name), None)
        if thing is None:
            return "unknown"
        before = self.candidates[thing]
        try:
            candidate = self._again(before)
        except Exception:
            return "yes"
        if candidate is None:
            return "unknown"
        after = self._outputs(candidate, candidate.load)
        for (probe, expected), (_, actual) in zip(self.outputs[name], after, strict=True):
            if (expected is None) != (actual is None):
                return "yes"
            if expected is not None and distance(actual, expected, Probe(probe.name, {}, probe.valid)) > 1e-7:
                return "yes"
        return "no"

    def _again(self, before: Resolved) -> Resolved | None:
        if not isinstance(before.made, nn.Module):
            return before
        attempt = self.made.get(id(before.made))
        if attempt is None:
            return None
        with double():
            made = forwards.held(attempt.build())
        after = Resolved(before.kind, made, before.settings, before.plan, before.layout)
        after.function, after.post = forwards.forward_of(made, before.kind), _of_other(before.post, before.made, made)
        after.shape_of = before.shape_of
        parameters = Parameters(made)
        shapes = {name: values.shape for name, values in parameters.tensors.items()}
        if shapes != {name: values.shape for name, values in before.parameters.tensors.items()}:
            raise ValueError("other parameters")
        after.parameters = parameters
        return after


def _of_other(post: Callable, before: nn.Module, after: nn.Module) -> Callable:
    """What is done with an output, with another module's part where it uses one: the projection."""
    paths = {id(part): path for path, part in before.named_modules()}
    cells = [cell.cell_contents for cell in post.__closure__ or ()]
    cells = [after.get_submodule(paths[id(held)]) if id(held) in paths else held for held in cells]
    return types.FunctionType(post.__code__, post.__globals__, closure=tuple(map(types.CellType, cells)))


def _globals_of(thing) -> dict:
    return (thing.__init__ if isinstance(thing, type) else thing).__globals__


def _swap(old: dict, new: dict) -> None:
    """The changed functions' code in the place of the right ones', in classes that stay."""
    for name, value in list(old.items()):
        other = new.get(name)
        if isinstance(value, type) and isinstance(other, type) and value.__module__ == old["__name__"]:
            _swap_methods(value, other)
        elif type(value).__name__ == "function" and hasattr(other, "__code__"):
            _swap_function(value, other)


def _swap_methods(cls: type, other: type) -> None:
    for name, value in list(vars(cls).items()):
        changed = vars(other).get(name)
        if type(value).__name__ == "function" and hasattr(changed, "__code__"):
            _swap_function(value, changed)


def _swap_function(function, other) -> None:
    if len(function.__code__.co_freevars) == len(other.__code__.co_freevars):
        function.__code__, function.__defaults__ = other.__code__, other.__defaults__


def judged(mutation: Mutation, file_name: str) -> dict[str, dict]:
    """Of all components of the file: a whole is judged by what is known about its parts."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / file_name
        path.write_text(mutation.text, encoding="utf-8")
        results = check_here(path)
    return {name: result.document() for name, result in results.items()}


def tried(right: Right, mutation: Mutation, file_name: str) -> dict:
    """What became of one change, found out in a process of its own."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 2))
        try:
            with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
                results = judged(mutation, file_name)
                fine = [name for name, result in results.items() if result["verdict"] in FINE]
                answer = {"results": results, "differs": right.differing(mutation.text, fine)}
        except BaseException:
            answer = {"failed": traceback.format_exc()[-600:]}
        with os.fdopen(write, "w") as pipe:
            pipe.write(json.dumps(answer))
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else {"failed": "no answer in time"}


def survivors(answer: dict) -> list[str]:
    """What is called right, though its numbers are others; not where it is said that a part was left out of it."""
    differing = [name for name, differs in answer.get("differs", {}).items() if differs != "no"]
    return [name for name in differing if not answer["results"][name]["replaced"]]


def sample(style: str, most: int, seed: int, kinds: set[str]) -> list[Mutation]:
    found = [m for m in mutations(PATHS[style].read_text(encoding="utf-8")) if not kinds or m.kind in kinds]
    return sorted(random.Random(seed).sample(found, min(most, len(found))), key=lambda m: m.line)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("styles", nargs="*", default=[s for s, path in STYLES.items() if path.suffix == ".py"])
    parser.add_argument("--most", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", default="")
    parser.add_argument("--json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    done = []
    for style in options.styles:
        right = Right(PATHS[style])
        for mutation in sample(style, options.most, options.seed, set(filter(None, options.kinds.split(",")))):
            answer = tried(right, mutation, PATHS[style].name)
            done.append({"style": style, **vars(mutation), **answer})
            for name in survivors(answer):
                found = answer["results"][name]
                ids = " ".join(named["id"] for named in found["mistakes"])
                print(f"{style}:{mutation.line} [{mutation.kind}] {mutation.name}: {mutation.words}")
                print(f"    {name}: {found['verdict']} as {found['kind']} ({found['design']}), {ids}")
                print("".join(f"    {text}\n" for text in (*found["notes"], *found["limits"])), end="", flush=True)
            if "failed" in answer:
                print(f"{style}:{mutation.line} {mutation.words}: FAILED {answer['failed'][-300:]}", flush=True)
            if options.json:
                Path(options.json).write_text(json.dumps(done))
    count = sum("results" in d for d in done)
    print(f"{count} changes tried")


if __name__ == "__main__":
    main()
