"""The training run in the certificate, on the page and in the terminal."""

import io
import json

import pytest

from reference_tests.conformance.checks import definition
from reference_tests.conformance.test_report import Structure
from reference_tests.conformance.training.made_up import parity
from scratch_transformer.conformance import report, training
from scratch_transformer.conformance.certificate import certificate, to_json

WELL = parity((2.5, 1.25, 1.0), (2.5, 1.25, 1.0 - 2.0**-50))
BADLY = parity((2.5, float("nan")), (2.5, 1.0), accuracy=0.0, parameter_error=float("inf"))


def test_the_certificate_has_all_losses():
    document = json.loads(to_json(certificate([definition()], training=WELL)))
    assert document["training"]["ours"]["losses"] == [2.5, 1.25, 1.0]
    assert document["training"]["differences"][:2] == [0.0, 0.0]
    assert document["training"]["settings"]["steps"] == 3
    assert "backwards" in document["definitions"]["training"]
    assert document["verdict"]["passed"]
    assert document["verdict"]["sentence"].endswith("0 skipped, and 3 steps of training.")


def test_without_training_nothing_is_said_of_it():
    document = certificate([definition()])
    assert "training" not in document | document["definitions"]
    assert "training run" not in report.page(document)


def test_a_training_run_that_differs_fails_the_verification():
    document = certificate([definition()], training=BADLY)
    assert not document["verdict"]["passed"]
    assert document["verdict"]["sentence"].startswith("FAIL: scratch_transformer ")
    assert document["verdict"]["sentence"].endswith("in every single check, but not in a whole training run.")
    assert json.loads(to_json(document))["training"]["ours"]["losses"] == [2.5, "nan"]


def test_a_failed_check_is_said_first():
    sentence = certificate([definition(1.0)], training=BADLY)["verdict"]["sentence"]
    assert sentence.endswith("1 of 1 checks failed, in Linear.")


@pytest.mark.parametrize("found", [WELL, BADLY], ids=["well", "badly"])
def test_the_page_draws_both_losses_and_is_well_formed(found):
    document = certificate([definition()], training=found)
    page = report.page(document)
    structure = Structure()
    structure.feed(page)
    assert structure.open == []
    assert structure.loaded == []
    assert page.count("<svg") == 1
    assert document["training"]["sentence"].replace("'", "&#39;") in page
    assert f'class="{"passed" if found is WELL else "failed"}">{document["training"]["sentence"][:10]}' in page
    assert '<a href="#training">' in page
    assert '<h2 id="training">' in page


def test_the_table_has_both_losses_and_the_largest_difference_so_far():
    rich_console = pytest.importorskip("rich.console", reason="rich is not installed")
    console = rich_console.Console(width=200, file=io.StringIO())
    console.print(report.training_table(certificate([definition()], training=WELL)["training"]))
    rows = [line.split() for line in console.file.getvalue().splitlines() if line.split()[:1] in (["1"], ["2"], ["3"])]
    assert rows == [
        ["1", "2.5000000000000000", "2.5000000000000000", "0"],
        ["2", "1.2500000000000000", "1.2500000000000000", "0"],
        ["3", "1.0000000000000000", "0.9999999999999991", "9e-16"],
    ]


# ---- The command ----


@pytest.mark.parametrize(("found", "code"), [(WELL, 0), (BADLY, 1)], ids=["well", "badly"])
def test_the_command_trains_if_it_is_told_to(found, code, monkeypatch, tmp_path):
    testing = pytest.importorskip("click.testing", reason="click is not installed")
    pytest.importorskip("rich", reason="rich is not installed")
    from scratch_transformer.commands.verify import verify

    monkeypatch.setattr(training, "train", lambda progress: progress(1) or found)
    files = ["--json", str(tmp_path / "c.json"), "--html", str(tmp_path / "c.html")]
    result = testing.CliRunner().invoke(verify, ["ReLU", "--training", *files])
    assert result.exit_code == code, result.output
    document = json.loads((tmp_path / "c.json").read_text(encoding="utf-8"))
    assert document["training"]["passed"] == (code == 0)
    assert document["training"]["sentence"] in result.stdout.splitlines()
    assert "<svg" in (tmp_path / "c.html").read_text(encoding="utf-8")
