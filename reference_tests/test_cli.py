"""The command line: found from the files present, quick to help, clear about what is not installed."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import scratch_transformer
from scratch_transformer import cli, commands

HELLO = '''
import click

@click.command()
@click.argument("name")
def say_hello(name):
    """Greet NAME
    warmly.

    And say no more.
    """
    click.echo(f"Hello, {name}")
'''


@pytest.fixture
def own_commands(tmp_path, monkeypatch):
    """Puts a folder in the place of `commands/`, and fills it: own_commands(file=source, ...)."""
    name = f"commands_of_{tmp_path.name}"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)

    def fill(**sources):
        for file, source in sources.items():
            (folder / f"{file}.py").write_text(source)
        monkeypatch.setattr(cli, "commands", importlib.import_module(name))

    return fill


def run(*arguments):
    return CliRunner().invoke(cli.main, arguments, prog_name="scratch-transformer")


# ---- The commands of this package ----


@pytest.mark.parametrize("arguments", [[], ["--help"]], ids=["bare", "help"])
def test_help_loads_no_command(arguments):
    code = (
        "import sys\nfrom scratch_transformer.cli import main\n"
        "try:\n    main(sys.argv[1:], standalone_mode=False)\n"
        "except Exception as help: print(help.format_message())\n"
        "loaded = {name for name in sys.modules if name.startswith('scratch_transformer.commands.')}\n"
        "assert not loaded | ({'torch', 'numpy', 'rich'} & set(sys.modules))"
    )
    process = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    names = [path.stem for path in Path(commands.__path__[0]).glob("[!_]*.py")]
    assert names
    assert all(f"  {name}  " in process.stdout for name in names)


@pytest.mark.parametrize("name", cli.main.list_commands(None))
def test_every_command_of_the_package_shows_its_help(name):
    result = run(name, "--help")
    assert result.exit_code == 0, result.output
    assert cli.summary(name), f"commands/{name}.py: the command has no docstring"


def test_python_dash_m_is_the_command():
    command = [sys.executable, "-m", "scratch_transformer", "--version"]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    assert process.stdout == f"scratch-transformer, version {scratch_transformer.__version__}\n"


# ---- How commands are found ----


def test_a_file_is_a_command(own_commands):
    own_commands(say_hello=HELLO)
    assert cli.main.list_commands(None) == ["say-hello"]
    assert run("say-hello", "reader").output == "Hello, reader\n"


def test_the_summary_is_the_first_sentence_of_the_docstring(own_commands):
    own_commands(say_hello=HELLO, silent="raise SystemExit('imported')")
    lines = [line.split(maxsplit=1) for line in run("--help").output.splitlines()]
    assert ["say-hello", "Greet NAME warmly."] in lines
    assert ["silent"] in lines


def test_an_unknown_command_is_a_usage_error():
    result = run("transmogrify")
    assert result.exit_code == 2
    assert "No such command 'transmogrify'" in result.output


# ---- What is not installed ----

REQUIREMENTS = [
    "numpy>=1.26",
    'tokenizers>=0.20; extra == "embed"',
    'tokenizers>=0.20; extra == "translation"',
    'scratch-transformer[embed]; extra == "test"',
    'Some.Thing; python_version > "3" and extra == "test"',
]


@pytest.fixture
def requirements(monkeypatch):
    monkeypatch.setattr(cli.importlib.metadata, "requires", lambda name: REQUIREMENTS)
    monkeypatch.setattr(cli, "source", lambda: "scratch-transformer")


@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("numpy", "pip install numpy"),
        ("numpy.linalg", "pip install numpy"),
        ("tokenizers", 'pip install "scratch-transformer[embed]"'),
        ("some_thing", 'pip install "scratch-transformer[test]"'),
        ("scratch_transformer.missing", None),
        ("somebody_elses", None),
        ("", None),
    ],
)
@pytest.mark.usefixtures("requirements")
def test_the_command_that_installs_a_module(module, command):
    assert cli.installer(module) == command


@pytest.mark.parametrize(
    ("command", "extra"),
    [("translate", "translation"), ("train", "translation"), ("embed", "embed"), ("view", "embed")],
)
@pytest.mark.usefixtures("requirements")
def test_what_is_to_be_installed_is_all_that_the_command_needs(command, extra):
    assert cli.installer("tokenizers", command) == f'pip install "scratch-transformer[{extra}]"'


def test_every_extra_of_a_command_is_one_of_the_package():
    known = cli.importlib.metadata.metadata(cli.DISTRIBUTION).get_all("Provides-Extra")
    needy = {"average", "bench", "embed", "evaluate", "generate", "trace", "train", "translate", "view"}
    assert {command for command in cli.main.list_commands(None) if cli.extra_of(command) in known} == needy


@pytest.mark.parametrize(
    ("direct_url", "named"),
    [
        ('{"url": "file://FOLDER", "dir_info": {}}', "FOLDER"),
        ('{"url": "file://FOLDER", "dir_info": {"editable": true}}', "FOLDER"),
        ('{"url": "file:///gone/since", "dir_info": {}}', "scratch-transformer"),
        ('{"url": "file://FOLDER/a.whl", "archive_info": {}}', "scratch-transformer"),
        (None, "scratch-transformer"),
    ],
    ids=["a clone", "editable", "no more", "a wheel", "an index"],
)
def test_pip_is_told_the_folder_that_we_were_installed_from(monkeypatch, tmp_path, direct_url, named):
    class Distribution:
        @staticmethod
        def read_text(name):
            assert name == "direct_url.json"
            return direct_url and direct_url.replace("FOLDER", tmp_path.as_posix())

    monkeypatch.setattr(cli.importlib.metadata, "distribution", lambda name: Distribution)
    assert cli.source() == named.replace("FOLDER", str(tmp_path))


@pytest.mark.parametrize(
    "source",
    [
        'raise ModuleNotFoundError("No module", name="tokenizers")',
        "import click\n@click.command()\ndef needy():\n    raise ModuleNotFoundError(name='tokenizers.models')",
    ],
    ids=["at import", "when it runs"],
)
@pytest.mark.usefixtures("requirements")
def test_a_missing_dependency_is_one_line(own_commands, source):
    own_commands(needy=source)
    result = run("needy")
    assert result.exit_code == 2
    assert result.output.startswith("Error: tokenizers")
    assert result.output.endswith(' is not installed: pip install "scratch-transformer[embed]"\n')
    assert result.output.count("\n") == 1


def test_a_missing_file_of_ours_is_a_bug_and_not_a_dependency(own_commands):
    own_commands(broken="import scratch_transformer.no_such_file")
    assert isinstance(run("broken").exception, ModuleNotFoundError)


def test_without_metadata_nothing_is_guessed(monkeypatch):
    def uninstalled(name):
        raise cli.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(cli.importlib.metadata, "requires", uninstalled)
    assert cli.installer("tokenizers") is None
