"""`scratch-transformer verify`, as its user meets it."""

import json

import pytest

from reference_tests.conformance import wrong
from scratch_transformer.conformance import COMPONENTS, environment
from scratch_transformer.conformance import verify as proof

CliRunner = pytest.importorskip("click.testing", reason="click is not installed").CliRunner
pytest.importorskip("rich", reason="rich is not installed")
from scratch_transformer.commands.verify import verify  # noqa: E402  (needs click)


def run(*arguments):
    return CliRunner().invoke(verify, arguments)


@pytest.fixture
def mistaken(monkeypatch):
    """Linear forgets its bias."""
    monkeypatch.setitem(COMPONENTS, "Linear", wrong.component("Linear", wrong.ForgetsTheBias))


@pytest.fixture
def nothing_runs(monkeypatch):
    def run(*args, **kwargs):
        raise AssertionError("bad usage must be found out before anything is compared")

    monkeypatch.setattr(proof, "verify", run)


# ---- What is right ----


def test_the_last_line_is_the_verdict_and_the_lines_before_say_where(monkeypatch):
    monkeypatch.setattr(environment, "_processor", lambda: "Long(R) Name(TM) Processor of a Server, 2.80 GHz " * 2)
    result = run("ReLU", "GELU")
    assert result.exit_code == 0, result.output
    *_, versions, machine, last = result.stdout.splitlines()
    assert last.startswith("PASS: scratch_transformer ")
    assert " in float64, float32, bfloat16, float16: 2 components, " in last
    assert versions.startswith("torch ")
    assert " · Python " in versions
    assert machine.startswith("cpu · Long(R) Name(TM) ")


def test_a_row_for_every_component_and_a_line_for_every_number():
    rows = [line.split() for line in run("ReLU", "GELU").stdout.splitlines() if line.strip()]
    assert [row[0] for row in rows if row[-1] == "pass"] == ["ReLU", "GELU", "all"]
    assert {"cases:", "bitwise:", "float64:", "oracle:", "mean:", "errors:", "invariants:"} <= {row[0] for row in rows}


def test_names_are_found_whatever_their_case_and_counted_once():
    result = run("relu", "ReLU", "--dtype", "float64")
    assert result.exit_code == 0
    assert "1 component," in result.stdout


def test_only_the_wanted_dtypes():
    result = run("ReLU", "--dtype", "float16", "--dtype", "float32")
    assert result.exit_code == 0
    assert " in float32, float16: 1 component, " in result.stdout.splitlines()[-1]


def test_the_output_is_plain_in_a_pipe():
    result = run("ReLU")
    assert "\x1b" not in result.output
    assert result.stderr == ""


def test_the_certificate_and_the_page(tmp_path):
    certificate, page = tmp_path / "c.json", tmp_path / "c.html"
    result = run("ReLU", "GELU", "--json", str(certificate), "--html", str(page))
    assert result.exit_code == 0
    document = json.loads(certificate.read_text(encoding="utf-8"))
    assert document["schema_version"] == 1
    assert document["verdict"] == {"passed": True, "sentence": result.stdout.splitlines()[-1]}
    assert [component["name"] for component in document["components"]] == ["ReLU", "GELU"]
    for component in document["components"]:
        assert component["passed"]
        assert len(component["cases"]) == len(COMPONENTS[component["name"]].cases)
        for case in component["cases"]:
            assert {"definition", "oracle", "float32", "bfloat16", "float16"} <= case.keys()
    text = page.read_text(encoding="utf-8")
    assert all(f'<h3 id="{name}">' in text for name in ("ReLU", "GELU"))
    assert sorted(tmp_path.iterdir()) == [page, certificate]


# ---- What is wrong ----


@pytest.mark.usefixtures("mistaken")
def test_a_failure_is_named_with_the_command_that_repeats_it(tmp_path):
    result = run("Linear", "ReLU", "--json", str(tmp_path / "c.json"))
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[-1].startswith("FAIL: ")
    assert lines[-1].endswith("checks failed, in Linear.")
    (where,) = [
        i for i, line in enumerate(lines) if line.startswith("  Linear, definition, float64, with bias: relative")
    ]
    assert "to repeat: python -c " in lines[where + 1]
    assert "Task(component='Linear', kind='definition', index=0" in lines[where + 1]
    assert not any(line.startswith("  ReLU") for line in lines)
    assert not json.loads((tmp_path / "c.json").read_text())["verdict"]["passed"]


def test_nothing_compared_is_a_failure(monkeypatch):
    def unsupported(*args, **kwargs):
        raise proof.BuiltinUnsupported("builtin unsupported in torch.float16 on cpu: no kernel")

    monkeypatch.setattr(proof, "compare_precision", unsupported)
    result = run("ReLU", "--dtype", "float16")
    assert result.exit_code == 1
    assert "3 skipped: builtin unsupported in torch.float16 on cpu: no kernel" in result.stdout
    assert "could be compared" in result.stdout.splitlines()[-1]


# ---- Bad usage ----


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        (["Linaer"], ["no component 'Linaer'. Did you mean Linear?", "Known are: Linear, Embedding, "]),
        (["transformerencoderlayr"], ["Did you mean TransformerEncoderLayer?"]),
        (["xyz"], ["no component 'xyz'.\n"]),
        (["ReLU", "--dtype", "float8"], ["'float8' is not one of 'float64'"]),
        (["ReLU", "--device", "abacus"], ["Invalid value for '--device': abacus"]),
        (["ReLU", "--device", "cuda:99"], ["Invalid value for '--device': cuda:99"]),
        (["ReLU", "--json", "{folder}"], ["cannot write {folder}", "is a folder"]),
        (["ReLU", "--html", "{folder}/nowhere/x.html"], ["cannot write {folder}/nowhere/x.html: No such file"]),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else None,
)
def test_bad_usage_is_found_out_before_the_run(arguments, messages, tmp_path):
    result = run(*(argument.format(folder=tmp_path) for argument in arguments))
    assert result.exit_code == 2
    for message in messages:
        assert message.format(folder=tmp_path) in result.stderr
