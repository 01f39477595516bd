"""What the lessons' pages use."""

import pytest
import torch

from scratch_transformer.learn.desk import compare, exercise, heatmaps, with_mistake
from scratch_transformer.learn.lessons import find

ONE = torch.ones(2, dtype=torch.float64)


def test_equal_tensors_are_said_to_be_equal(capsys):
    compare(ONE, ONE)
    compare(ONE, ONE + 1e-13, "gradient")
    assert capsys.readouterr().out == "output: equal, to the last bit\ngradient: equal, relative error 1e-13\n"


@pytest.mark.parametrize("other", [ONE + 1e-11, ONE.float(), torch.ones(3, dtype=torch.float64), ONE * float("nan")])
def test_other_tensors_are_refused(other):
    with pytest.raises(AssertionError, match="weights: not equal"):
        compare(ONE, other, "weights")


def test_a_mistake_is_put_into_the_reference_and_nothing_else_changes():
    right, wrong = with_mistake("LayerNorm", "LN1", d_model=8)
    assert all(torch.equal(a, b) for a, b in zip(right.parameters(), wrong.parameters(), strict=True))
    x = torch.randn(2, 3, 8, dtype=torch.float64)
    builtin = torch.nn.functional.layer_norm(x, (8,), right.weight, right.bias)
    unbiased = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + 1e-5).sqrt() * right.weight + right.bias
    compare(right(x), builtin)
    compare(wrong(x), unbiased)


def test_a_form_of_a_mistake_is_chosen_by_its_words():
    _, first = with_mistake("PositionalEncoding", "P2", d_model=8)
    _, doubled = with_mistake("PositionalEncoding", "P2", "the exponent is doubled", d_model=8)
    _, halved = with_mistake("PositionalEncoding", "P2", "the exponent is halved", d_model=8)
    zeros = torch.zeros(1, 5, 8, dtype=torch.float64)
    assert torch.equal(first(zeros), doubled(zeros)) and not torch.equal(doubled(zeros), halved(zeros))


@pytest.mark.parametrize(
    "arguments, settings, message",
    [
        (("Zebra", "LN1"), {}, "no kind 'Zebra', only 'LayerNorm'"),
        (("LayerNorm", "LN99"), {}, "no mistake 'LN99'"),
        (("LayerNorm", "LN7", "over the moon"), {}, "no form of LN7 'over the moon', only 'over the tokens'"),
        (("LayerNorm", "LN8"), {}, "no form of LN8"),  # it has no numbers to be put in
        (("LayerNorm", "LN1"), {"zebra": 1}, "no setting of LayerNorm 'zebra', only 'd_model'"),
    ],
)
def test_what_is_not_known_is_refused(arguments, settings, message):
    with pytest.raises(ValueError, match=message):
        with_mistake(*arguments, **settings)


def test_matrices_side_by_side_share_their_colours():
    plt = pytest.importorskip("matplotlib.pyplot")
    figure = heatmaps({"a": torch.eye(3), "b": 2 * torch.eye(3)}, rows=["x", "y", "z"], columns="key")
    first, second, _ = figure.axes
    assert (first.get_title(), second.get_title()) == ("a", "b")
    assert [label.get_text() for label in first.get_yticklabels()] == ["x", "y", "z"]
    assert first.images[0].get_clim() == second.images[0].get_clim() == (0, 2)
    plt.close(figure)


def test_an_exercise_shows_its_commands_its_file_and_folded_hints():
    lesson = find("attention")
    shown = exercise("attention")._repr_markdown_()
    assert "scratch-transformer learn attention" in shown and "scratch-transformer check lesson04.py" in shown
    assert lesson.skeleton.strip() in shown
    assert shown.count("<details>") == shown.count("</details>") == len(lesson.hints)
    assert all(hint in shown for hint in lesson.hints)
    assert repr(exercise("attention")) == "scratch-transformer learn attention\nscratch-transformer check lesson04.py"
