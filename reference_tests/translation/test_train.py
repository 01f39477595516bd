"""Whole runs: what is in the folder, what is said, and what changes nothing."""

import json
import math
import shutil
from pathlib import Path

import pytest
import torch

from reference_tests.translation import tiny
from scratch_transformer.translation import checkpoint
from scratch_transformer.translation.errors import InputError
from scratch_transformer.translation.train import resume, train


def losses(folder):
    lines = map(json.loads, (folder / "log.jsonl").read_text().splitlines())
    return [line["loss"] for line in lines if "loss" in line]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of six steps without dropout."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    tiny.run(folder, model__dropout=0.0)
    return folder


def test_a_folder_has_all_that_a_run_needs(tmp_path):
    said = tiny.run(tmp_path / "a" / "run")
    names = {path.name for path in (tmp_path / "a" / "run").iterdir()}
    tokenizers = {"source_tokenizer.json", "target_tokenizer.json"}
    assert names == {"config.json", "held_out.jsonl", "log.jsonl", "tensorboard", "checkpoints", *tokenizers}
    assert [path.name for path in checkpoint.checkpoints(tmp_path / "a" / "run")] == ["step-00000004", "step-00000006"]
    assert said[0] == "reading numbers below 300 in words, en to de ..."
    assert said[1].startswith("120 pairs to train on, 8 held out; vocabulary of ")
    assert any(line.startswith("step 6 of 6: validation loss ") for line in said)
    assert said[-1].endswith("% of 8 held-out sentences are translated exactly")
    assert any(path.name.startswith("events") for path in (tmp_path / "a" / "run" / "tensorboard").iterdir())


def test_the_loss_falls(tmp_path):
    tiny.run(tmp_path / "run", training__steps=60, training__checkpoint_every=60, training__lr_factor=0.5)
    found = losses(tmp_path / "run")
    assert len(found) == 60
    assert sum(found[-10:]) < 0.8 * sum(found[:10])


def test_the_same_seed_gives_the_same_run_and_another_another(whole, tmp_path):
    tiny.run(tmp_path / "again", model__dropout=0.0)
    assert tiny.content(tmp_path / "again") == tiny.content(whole)
    tiny.run(tmp_path / "other", model__dropout=0.0, training__seed=1)
    assert losses(tmp_path / "other") != losses(whole)


@pytest.mark.parametrize("others", [{"training__accumulate": 3}, {"training__workers": 1}], ids=str)
def test_what_changes_how_and_not_what_is_computed(whole, tmp_path, others):
    tiny.run(tmp_path / "run", model__dropout=0.0, **others)
    torch.testing.assert_close(losses(tmp_path / "run"), losses(whole), rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    "others",
    [
        {"model__norm": "post", "training__precision": "bfloat16", "tokens__kind": "bpe", "training__clip": 0.0},
        {"tokens__shared": True, "model__share_embeddings": "all", "tokens__kind": "char", "data__max_length": 64},
        {"model__positions": "learned", "model__attention_bias": False, "training__exact_match": 0},
        {"model__num_layers": 2, "model__decoder_layers": 1},
    ],
    ids=["post-norm, bfloat16", "shared", "learned positions", "two layers and one"],
)
def test_every_variant_trains_and_loads(tmp_path, others):
    tiny.run(tmp_path / "run", training__steps=2, **{"training__batch_tokens": 128, **others})
    assert all(math.isfinite(loss) for loss in losses(tmp_path / "run"))
    run = checkpoint.load_run(tmp_path / "run")
    assert (run.source_tokenizer is run.target_tokenizer) == run.config.tokens.shared
    assert not run.model.training


@pytest.mark.long
def test_compiled_it_is_the_same(whole, tmp_path, monkeypatch):
    """Through torch.compile's tracing; without its code generator, which takes a minute."""
    compiled = torch.compile
    monkeypatch.setattr(torch, "compile", lambda module, **options: compiled(module, backend="eager", **options))
    tiny.run(tmp_path / "run", model__dropout=0.0, training__compile=True, training__steps=4)
    torch.testing.assert_close(losses(tmp_path / "run"), losses(whole)[:4], rtol=1e-6, atol=0)


def test_it_ends_early_when_validations_get_no_better(tmp_path):
    said = tiny.run(tmp_path / "run", training__lr_factor=0.0, training__patience=2, training__steps=40)
    assert len(losses(tmp_path / "run")) == 6  # the best at step 2, then two that are as good
    assert checkpoint.best(tmp_path / "run").name == "step-00000002"
    assert [path.name[-1] for path in checkpoint.checkpoints(tmp_path / "run")] == ["2", "4", "6"]
    assert "step 6 of 40" in "".join(said)
    assert resume(tmp_path / "run", say=said.append) == 0.0
    assert len(losses(tmp_path / "run")) == 6


def test_the_best_checkpoint_has_the_lowest_loss_as_it_is_trained(tmp_path):
    """With smoothing: without it, the surest model would be taken for the best."""
    tiny.run(tmp_path / "run", training__steps=16, training__lr_factor=0.6, training__label_smoothing=0.6)
    lines = map(json.loads, (tmp_path / "run" / "log.jsonl").read_text().splitlines())
    validations = [line for line in lines if "validation_loss" in line]
    names = ("validation_loss", "validation_smoothed_loss")
    by_loss, by_smoothed_loss = (min(validations, key=lambda line: line[name])["step"] for name in names)
    assert checkpoint.best(tmp_path / "run").name == checkpoint.step_name(by_smoothed_loss)
    if by_loss == by_smoothed_loss:
        pytest.skip("with the rounding of this torch one checkpoint is the best by both")


def test_more_steps_than_before(whole, tmp_path):
    tiny.run(tmp_path / "run", model__dropout=0.0, training__steps=3)
    resume(tmp_path / "run", say=lambda line: None, **{"training.steps": 6})
    assert losses(tmp_path / "run") == losses(whole)
    assert checkpoint.read_config(tmp_path / "run").training.steps == 6


def test_a_loss_that_is_no_number_is_said(tmp_path, monkeypatch):
    from scratch_transformer.translation.objective import Objective

    monkeypatch.setattr(
        Objective, "forward", lambda self, *batch: next(self.parameters()).sum() * float("nan")
    )  # fmt: skip
    with pytest.raises(InputError, match="the loss is nan at step 1: expected training.lr_factor to be smaller"):
        tiny.run(tmp_path / "run")


def test_lines_that_made_no_pair_are_said_and_listed(tmp_path):
    (tmp_path / "c.tsv").write_text("x\n" * 7 + "".join(f"a {i}\tb {i}\n" for i in range(40)))
    said = tiny.run(tmp_path / "run", data__tsv=str(tmp_path / "c.tsv"), data__held_out=3, data__validation=3)
    assert said[1] == f"skipped: {tmp_path}/c.tsv, line 1: has 1 columns, not a source, a tab and a target"
    assert said[6] == f"skipped: 7 lines in all, listed in {tmp_path}/run/skipped.txt"
    assert len((tmp_path / "run" / "skipped.txt").read_text().splitlines()) == 7


def test_overlong_pairs_are_said(tmp_path):
    said = tiny.run(tmp_path / "run", data__max_length=6, training__steps=1)
    assert any("pairs have more than data.max_length = 6 tokens: dropped" in line for line in said)
    assert len(checkpoint.load_run(tmp_path / "run").held_out()) < 8


def test_data_that_changed_are_noticed(tmp_path):
    pairs = [f"a {i}\tb {i}\n" for i in range(40)]
    (tmp_path / "c.tsv").write_text("".join(pairs))
    tiny.run(tmp_path / "run", data__tsv=str(tmp_path / "c.tsv"), data__held_out=3, data__validation=3)
    (tmp_path / "c.tsv").write_text("".join(pairs[:-1]))
    with pytest.raises(InputError, match="the data are not the ones that .*run was trained on so far"):
        resume(tmp_path / "run", say=lambda line: None, **{"training.steps": 9})


def write_pairs(path, numbers):
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"a {i}\tb {i}\n" for i in numbers))
    return str(path)


def test_data_may_be_moved_but_not_changed(tmp_path):
    before, after = write_pairs(tmp_path / "c.tsv", range(40)), write_pairs(tmp_path / "moved" / "d.tsv", range(40))
    sizes = {"data__held_out": 3, "data__validation": 3, "model__dropout": 0.0}
    tiny.run(tmp_path / "whole", data__tsv=before, **sizes)
    tiny.run(tmp_path / "run", data__tsv=before, training__steps=3, **sizes)
    (tmp_path / "c.tsv").unlink()
    with pytest.raises(
        InputError, match=r"cannot read .*c.tsv: there is no such file; if it was moved, --data says wh"
    ):
        resume(tmp_path / "run", say=print, **{"training.steps": 6})
    other = write_pairs(tmp_path / "other.tsv", range(1, 41))
    with pytest.raises(InputError, match="the data are not the ones that"):
        resume(tmp_path / "run", say=print, **{"training.steps": 6, "data.tsv": other})
    resume(tmp_path / "run", say=print, **{"training.steps": 6, "data.tsv": after})
    assert losses(tmp_path / "run") == losses(tmp_path / "whole")
    assert checkpoint.read_config(tmp_path / "run").data.tsv == after


def test_a_run_goes_on_from_any_folder(tmp_path, monkeypatch):
    """Its data are looked for from the folders above it."""
    write_pairs(tmp_path / "project" / "c.tsv", range(40))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    tiny.run(Path("runs", "a"), data__tsv="c.tsv", data__held_out=3, data__validation=3)
    monkeypatch.chdir(tmp_path / "elsewhere")
    run = Path("..", "project", "runs", "a")
    assert "going on after step 6" in tiny.go_on(run, **{"training.steps": 8})
    (tmp_path / "project" / "c.tsv").unlink()
    with pytest.raises(InputError, match=r"c.tsv: there is no such file; if it was moved, --data says where to"):
        tiny.go_on(run, **{"training.steps": 9})


def test_without_a_checkpoint_the_vocabulary_is_that_of_the_data(tmp_path):
    first, second = write_pairs(tmp_path / "a.tsv", range(40)), write_pairs(tmp_path / "b.tsv", range(50, 90))
    sizes = {"data__held_out": 3, "data__validation": 3}
    tiny.run(tmp_path / "run", data__tsv=first, **sizes)
    tiny.run(tmp_path / "expected", data__tsv=second, **sizes)
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    resume(tmp_path / "run", say=print, **{"data.tsv": second})
    for name in ("source_tokenizer.json", "target_tokenizer.json"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "expected" / name).read_bytes()


@pytest.mark.parametrize("best", ["BLEU", "chrF", "exact_match"])
def test_the_best_by_a_score_of_its_translations(tmp_path, monkeypatch, best):
    """The loss says that the last is the best, and this score that the first is."""
    scores = iter(
        [{"BLEU": 3.0, "chrF": 3.0, "exact_match": 0.3}] + [{"BLEU": 2.0, "chrF": 2.0, "exact_match": 0.2}] * 2
    )
    monkeypatch.setattr("scratch_transformer.translation.metrics.text_metrics", lambda *arguments: next(scores))
    losses_ = iter([(3.0, 3.0), (2.0, 2.0), (1.0, 1.0)])
    monkeypatch.setattr("scratch_transformer.translation.validation.losses", lambda *arguments: next(losses_))
    tiny.run(tmp_path / "run", training__best=best)
    assert checkpoint.best(tmp_path / "run").name == "step-00000002"
    lines = map(json.loads, (tmp_path / "run" / "log.jsonl").read_text().splitlines())
    assert [line[best] for line in lines if best in line] == pytest.approx(
        [0.3, 0.2, 0.2] if best[0] == "e" else [3, 2, 2]
    )


def test_a_score_without_translations_chooses_nothing():
    for others in ({"training__exact_match": 0}, {"training__engine": "fsdp"}):
        with pytest.raises(InputError, match="training.best is 'BLEU', but no validation pair is decoded"):
            tiny.config(training__best="BLEU", **others)


def test_ending_early_is_said(tmp_path):
    said = tiny.run(tmp_path / "run", training__lr_factor=0.0, training__patience=1, training__steps=40)
    assert "ended early, at step 4 of 40: 1 validations without a lower loss than at step 2" in said


def test_samples_are_cut_to_the_terminal(tmp_path, monkeypatch):
    from rich.console import Console

    monkeypatch.setattr(Console, "is_terminal", True)
    monkeypatch.setattr(Console, "width", 30)
    said = tiny.run(tmp_path / "run")
    samples = [line for line in said if line.startswith("    ")]
    assert samples and all(len(line) <= 30 for line in samples) and any(line.endswith("…") for line in samples)


def test_the_bar_makes_room_for_lines(tmp_path, monkeypatch):
    """Or each would leave a copy of the bar above it."""
    from rich.console import Console

    from scratch_transformer.translation.logs import Log

    monkeypatch.setattr(Console, "is_terminal", True)
    shown = []
    log = Log(tmp_path, 0, 6, lambda line: shown.append((line, log.progress.live.is_started)))
    log.say("a", "b")
    shown.append(("", log.progress.live.is_started))
    log.close()
    assert shown == [("a", False), ("b", False), ("", True)]


def test_data_that_cannot_be_used_leave_no_folder(tmp_path):
    with pytest.raises(InputError, match="cannot read nowhere.tsv"):
        tiny.run(tmp_path / "run", data__tsv="nowhere.tsv")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_there_is_left_alone(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("precious")
    with pytest.raises(InputError, match="run is there already: expected a new folder, or --resume"):
        train(tiny.config(), tmp_path / "run", say=print)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["thesis.txt"]
