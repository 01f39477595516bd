"""The corpus of learner-like code is what it says."""

import ast
import json
from collections import defaultdict

import pytest

from reference_tests.kit.learners.checked import LESS, MORE, USUAL, time_to_look
from reference_tests.kit.learners.corpus import STYLES, _replaced
from reference_tests.kit.learners.mistaken.tables import MISTAKEN
from scratch_transformer.kit import checking
from scratch_transformer.kit.judge import search
from scratch_transformer.kit.mistakes import MISTAKES

NOT_SHOWN = {
    "A11": "every style does one or the other with a query that may attend to nothing",
    "A17": "every style that keeps its weights keeps them after dropout",
    "A39": "two layers more, beside an attention: in test_projected_twice.py",
    "B1": "both orders are right, unless the code claims one and does the other",
    "P7": "no style decodes step by step from a cache",
    "T5": "shows where source and target are tokenized, not in a component",
    "T10": "shows when a training script is resumed",
    "T11": "shows when a training script is resumed",
    "T12": "shows when a training script is resumed",
    "K1": "shows with a cache: in test_today.py",
    "S3": "the one style that samples removes probabilities, not logits",
    "S4": "the one style that samples has no top-k",
    "S5": "no style has a penalty: in test_methods_that_write.py",
    "T13": "shows in training scripts, which test_scripts.py has",
    "T14": "shows in training loops, which test_training_loops.py has",
    "T15": "shows in training loops, which test_training_loops.py has",
    "T16": "shows in training loops, which test_training_loops.py has",
    "T17": "shows in training loops, which test_training_loops.py has",
    "T18": "shows in training loops, which test_training_loops.py has",
    "T19": "shows in training loops, which test_training_loops.py has",
    "T20": "shows in training loops, which test_training_loops.py has",
    **{f"T{n}": "shows in training loops, which test_turns_of_training.py has" for n in range(21, 26)},
    "T26": "no style draws batches of a text: in test_batches_of_text.py",
    "R5": "shows where one order of axes is meant and another given: in test_today.py",
    "R8": "heads that are split after the rotation: in test_today.py",
    "D5": "slow, not wrong",
    "D7": "a label of a plot",
}


ONCE = {"G6", *(f"O{n}" for n in range(1, 11)), "O12", "S1", "S2", "W1", "W2", "W3", "W4", "W5"}
"""What one style has alone: the optimizer, its schedule, sampling and the tokenizer of a course."""


def python_of(mistaken):
    source = mistaken.source()
    if not mistaken.file_name.endswith(".ipynb"):
        return source
    lines = [line for cell in json.loads(source)["cells"] if cell["cell_type"] == "code" for line in cell["source"]]
    return "\n".join(line.rstrip("\n") for line in lines if line[0] not in "%!")


@pytest.mark.parametrize("mistaken", MISTAKEN, ids=lambda mistaken: mistaken.name)
def test_a_mistaken_version_is_python_and_defines_its_component(mistaken):
    """Also: every text that is replaced is there exactly once."""
    defined = {getattr(node, "name", "") for node in ast.parse(python_of(mistaken)).body}
    assert mistaken.component.split(".")[0] in defined  # the class of a method


def test_names_are_unique():
    names = [mistaken.name for mistaken in MISTAKEN]
    assert len(set(names)) == len(names)


def test_every_mistake_is_made_in_at_least_two_styles():
    styles = defaultdict(set)
    for mistaken in MISTAKEN:
        for id in mistaken.ids.split():
            styles[id].add(mistaken.style)
    assert {id for id in styles if len(styles[id]) < 2} == ONCE
    assert styles.keys() - MISTAKES.keys() == set()
    assert MISTAKES.keys() - styles.keys() == NOT_SHOWN.keys()


def test_a_text_that_is_not_there_once_is_refused():
    with pytest.raises(AssertionError, match="2 times in the file, not once: 'a'"):
        _replaced("aba", "a", "c")
    with pytest.raises(AssertionError, match="0 times"):
        _replaced("aba", "d", "c")


def test_what_is_asked_for_inside_is_of_the_usual_time():
    usual = USUAL[search]["SECONDS"]
    with time_to_look(LESS), time_to_look(0.5):
        assert 0.5 * usual == search.SECONDS
    with time_to_look(LESS):  # it stops, and does not look
        assert MORE * USUAL[checking]["COMPONENT_SECONDS"] == checking.COMPONENT_SECONDS


def test_there_are_twenty_six_styles():
    assert len(STYLES) == 26
