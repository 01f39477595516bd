"""The exercises: what is handed out is told from what is wrong, what is right passes, a typical mistake is named."""

import ast
import shutil
from pathlib import Path

import pytest

from scratch_transformer.learn.lessons import LESSONS, find
from scratch_transformer.learn.progress import NotChecked, progress

SOLUTIONS = Path(__file__).parent / "solutions"
SUBLAYERS = """\
        y = self.norm1(x)
        x = x + self.self_attention(y, y, y, mask)
        x = x + self.cross_attention(self.norm2(x), memory, memory, memory_mask)
"""
REVERSED = """\
        x = x + self.cross_attention(self.norm1(x), memory, memory, memory_mask)
        y = self.norm2(x)
        x = x + self.self_attention(y, y, y, mask)
"""
# number of the lesson -> what stands in the right solution, what a learner writes in its place, the mistake
TYPICAL = {
    1: (" * math.sqrt(self.d_model)\n", "\n", "E2"),
    2: ("(two_i / d_model)", "(2 * two_i / d_model)", "P2"),
    3: ("(x - x.amax(dim, keepdim=True)).exp()", "x.exp()", "A26"),
    4: (" / math.sqrt(query.shape[-1])", "", "A1"),
    5: (".tril()", ".tril(-1)", "A6"),
    6: ("length, self.num_heads, self.d_k).transpose(1, 2)", "self.num_heads, length, self.d_k)", "A13"),
    7: ("(x - mean).square().mean(-1, keepdim=True)", "x.var(-1, keepdim=True)", "LN1"),
    8: (".clamp(min=0)", "", "B16"),
    9: ("return x + sublayer", "return self.norm(x) + sublayer", "B2"),
    10: (" for _ in range(num_layers)])", "] * num_layers)", "B9"),
    11: (SUBLAYERS, REVERSED, "B20"),
    12: ("losses[target != pad].mean()", "losses.mean()", "T4"),
    13: ("min(", "max(", "T7"),
    14: ("memory, src_mask, tgt_mask)", "memory, None, tgt_mask)", "A22"),
    15: ("if ids[-1] == eos:", "if False:", "D4"),
    16: (" / math.sqrt(D)", "", "A1"),
    17: (" / math.sqrt(query.shape[-1])", "", "A1"),
}  # fmt: skip


@pytest.fixture(scope="module")
def standing(tmp_path_factory):
    """Kind of files -> name of the lesson -> its state: each kind in a folder of its own, judged in one go."""

    def judged(kind):
        folder = tmp_path_factory.mktemp(kind)
        for lesson in LESSONS:
            text = lesson.skeleton if kind == "skeletons" else (SOLUTIONS / lesson.file).read_text(encoding="utf-8")
            if kind == "mistaken":
                right, wrong, _ = TYPICAL[lesson.number]
                assert right in text, lesson.file
                text = text.replace(right, wrong).replace(
                    "from torch import nn\n", "import torch\nfrom torch import nn\n"
                )
            (folder / lesson.file).write_text(text, encoding="utf-8")
        return progress(folder)

    made = {}

    def of(kind):
        if kind not in made:
            made[kind] = judged(kind)
        return made[kind]

    return of


lessons = pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)


@lessons
def test_what_is_handed_out_is_not_written_yet(lesson, standing):
    assert standing("skeletons")[lesson.name].standing == "not written yet"


@lessons
def test_what_is_right_passes(lesson, standing):
    state = standing("solutions")[lesson.name]
    assert (state.standing, state.why) == ("right", "")


@pytest.mark.long
def test_typical_mistakes_are_named(standing):
    states = standing("mistaken")
    for lesson in LESSONS:
        state, id = states[lesson.name], TYPICAL[lesson.number][2]
        assert f"({id})" in state.why, lesson.name
        assert state.standing == ("right" if id == "E2" else "not right yet"), (
            lesson.name
        )  # one can live without √d_model


@lessons
def test_a_file_has_what_its_lesson_asks_for_and_says_how_to_check_it(lesson):
    tree = ast.parse(lesson.skeleton)
    names = [node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    assert names == list(lesson.asks)
    head = ast.get_docstring(tree)
    assert head.startswith(f"Lesson {lesson.number}: ") and lesson.check in head and f"{lesson.begin} --hint" in head
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            assert "not written yet" in ast.unparse(node), f"{lesson.file}: {node.name} does not say what to do"


@lessons
def test_a_solution_has_the_arguments_that_were_handed_out(lesson):
    def signatures(text):
        nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
        return {(node.name, ast.unparse(node.args)) for node in nodes}

    solution = (SOLUTIONS / lesson.file).read_text(encoding="utf-8")
    assert signatures(lesson.skeleton) <= signatures(solution)


def test_lessons_are_numbered_in_their_order_and_found_by_name_number_and_file():
    assert [lesson.number for lesson in LESSONS] == list(range(1, len(LESSONS) + 1))
    for lesson in LESSONS:
        for given in (lesson.name, lesson.name.upper(), str(lesson.number), lesson.file, lesson.page):
            assert find(given) is lesson
        assert len(lesson.hints) >= 2


def test_an_unknown_lesson_is_refused():
    with pytest.raises(ValueError, match="there is no lesson 'zebra'; the lessons are embeddings, positions"):
        find("zebra")


@pytest.mark.long
def test_an_exercise_of_which_a_part_is_written_says_which_part_is_not(tmp_path):
    right = (SOLUTIONS / "lesson05.py").read_text(encoding="utf-8")
    skeleton = find("masks").skeleton
    (tmp_path / "lesson05.py").write_text(
        right[: right.index("def target_mask")] + skeleton[skeleton.index("def target_mask") :]
    )
    state = progress(tmp_path)["masks"]
    assert (state.standing, state.why) == ("not written yet", "target_mask")


@pytest.mark.long
def test_ones_own_parts_take_the_place_of_ready_made_ones(tmp_path):
    for number in (6, 7, 8):
        shutil.copy(SOLUTIONS / f"lesson{number:02}.py", tmp_path)
    text = (SOLUTIONS / "lesson10.py").read_text(encoding="utf-8")
    line = "from scratch_transformer.learn.parts import FeedForward, LayerNorm, MultiHeadAttention"
    own = "from lesson06 import MultiHeadAttention\nfrom lesson07 import LayerNorm\nfrom lesson08 import FeedForward"
    assert line in text
    (tmp_path / "lesson10.py").write_text(text.replace(line, own), encoding="utf-8")
    assert progress(tmp_path)["encoder"].standing == "right"


def test_a_file_that_stops_when_it_is_imported_is_not_right(tmp_path):
    (tmp_path / "lesson03.py").write_text("def softmax(x, dim=-1)\n    return x\n")
    state = progress(tmp_path)["softmax"]
    assert state.standing == "not right yet" and "lesson03.py" in state.why


def test_an_empty_folder_has_nothing_begun(tmp_path):
    assert {state.standing for state in progress(tmp_path).values()} == {"not begun"}


@pytest.mark.long
def test_other_files_of_the_folder_are_left_alone(tmp_path):
    (tmp_path / "notes.py").write_text("raise SystemExit('not to be run')\n")
    shutil.copy(SOLUTIONS / "lesson03.py", tmp_path)
    assert progress(tmp_path)["softmax"].standing == "right"


def test_a_check_that_fails_is_told(tmp_path, monkeypatch):
    shutil.copy(SOLUTIONS / "lesson03.py", tmp_path)
    monkeypatch.setattr("scratch_transformer.learn.progress.sys.executable", shutil.which("false"))
    with pytest.raises(NotChecked, match="exit status 1"):
        progress(tmp_path)
