"""The `scratch-transformer` command.

Each file in `commands/` is one subcommand: `commands/verify.py` holds the click command `verify`. A file is imported
only when its command is called, so `--help` answers at once, without torch.
"""

import ast
import importlib
import importlib.metadata
import io
import json
import pkgutil
import re
import sys
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import click

from scratch_transformer import __version__, commands

DISTRIBUTION = "scratch-transformer"


class MissingDependency(click.ClickException):
    """A package that is not installed, and the command that installs it."""

    exit_code = 2


class Commands(click.Group):
    """A click group whose subcommands are the files of `commands/`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(command_name(module.name) for module in pkgutil.iter_modules(commands.__path__))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        name = module_name(cmd_name)
        command: click.Command = getattr(importlib.import_module(f"{commands.__name__}.{name}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Click would import every command for its summary."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary(name)) for name in self.list_commands(ctx)])

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            install = installer(error.name or "", ctx.invoked_subcommand or "")
            if install is None:
                raise
            raise MissingDependency(f"{error.name} is not installed: {install}") from error
        except OSError as error:
            from scratch_transformer.options import Refused, in_words, is_of_standard_output

            if not is_of_standard_output(error):
                raise
            raise Refused(in_words(error)) from error


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name=DISTRIBUTION)
def main() -> None:
    """The Transformer from scratch, proved equal to PyTorch's builtins."""
    for stream in (sys.stdout, sys.stderr):  # what a terminal's encoding lacks is escaped, and stops no training
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def command_name(module: str) -> str:
    """`draw_mask` is called as draw-mask."""
    return module.replace("_", "-")


def module_name(command: str) -> str:
    """`draw-mask` lives in draw_mask.py."""
    return command.replace("-", "_")


def summary(command: str) -> str:
    """The first sentence of a command's help, read from its source without importing it."""
    name = module_name(command)
    tree = ast.parse(files(commands).joinpath(f"{name}.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return (ast.get_docstring(node) or "").split("\n\n")[0].replace("\n", " ")
    return ""


def installer(module: str, command: str = "") -> str | None:
    """The pip command that installs `module`, and all else that `command` needs; None where we do not ask for it."""
    package = normalized(module.partition(".")[0])
    try:
        requirements = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:  # run from a source tree
        return None
    extras = []
    for requirement in requirements:
        name = normalized(re.split(r"[^\w.-]", requirement, maxsplit=1)[0])
        if name == package != normalized(DISTRIBUTION):
            extra = re.search(r"extra == ['\"]([\w-]+)['\"]", requirement)
            if extra is None:
                return f"pip install {package}"
            extras.append(extra[1])
    extras.sort(key=lambda extra: extra != extra_of(command))
    return f'pip install "{source()}[{extras[0]}]"' if extras else None


def extra_of(command: str) -> str:
    """What `setup.cfg` calls the packages that a command needs: its EXTRA, or the command itself."""
    try:
        module = importlib.import_module(f"{commands.__name__}.{module_name(command)}")
    except ImportError:
        return command
    return getattr(module, "EXTRA", command)


def source() -> str:
    """What pip installed us from, as it wants to be told: a folder, or our name."""
    try:
        found = json.loads(importlib.metadata.distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return DISTRIBUTION
    folder = Path(url2pathname(urlsplit(found.get("url", "")).path)) if "dir_info" in found else None
    return str(folder) if folder is not None and folder.is_dir() else DISTRIBUTION


def normalized(name: str) -> str:
    """One spelling for packages: Some.Thing, some_thing and some-thing are the same."""
    return re.sub(r"[-_.]+", "-", name).lower()
