"""What the pages compute: pictures of tiles cover what is computed, tables have everything in them."""

import ast

import pytest
import torch

from docs.site import architecture, catalogue, cite, proof, surprises, tiles
from scratch_transformer import __version__, masks
from scratch_transformer.kit.mistakes import MISTAKES


@pytest.mark.parametrize("case", tiles.CASES)
def test_the_tiles_cover_what_is_attended_to_once(case):
    is_causal, window = tiles.CASES[case]
    covered = torch.zeros(tiles.T, tiles.S, dtype=torch.int8)
    for t0, t1, s0, s1 in tiles.tiles_of(is_causal, window):
        covered[t0:t1, s0:s1] += 1
    lower, upper = masks.band(tiles.T, tiles.S, is_causal, False, window)
    needed = masks.within(tiles.T, tiles.S, lower, upper)
    assert (covered[needed] == 1).all()
    assert covered.max() == 1


def test_the_sizes_of_tiles_are_those_of_the_kernels():
    tables = tiles.kernel_tables()
    assert {"HOPPER", "AMPERE"} <= tables.keys()
    first = tables["HOPPER"]["forward"][64][0]
    assert f"| {first.block_t} × {first.block_s} |" in tiles.triton_sizes()


def test_pictures_are_described():
    for picture in (tiles.tiled(), tiles.triton(), tiles.decode(), tiles.hopper(), architecture.drawing()):
        assert 'role="img"' in picture and "<figcaption>" in picture and "nan" not in picture


def test_the_architecture_has_every_room():
    drawn = {name for names in architecture.layers() for name in names}
    rooms = {path.stem for path in architecture.PACKAGE.iterdir() if path.suffix == ".py" or any(path.glob("*.py"))}
    assert rooms - drawn == {"__init__", "__main__"}
    assert architecture.table().count("\n") == len(drawn) + 1


def test_the_index_of_mistakes_is_whole():
    parts = catalogue.by_part()
    assert [mistake for part in parts.values() for mistake in part] == list(MISTAKES.values())
    assert all(f"[{id}]({id}.md)" in catalogue.table() for id in MISTAKES)


def test_a_mistakes_page_has_its_demonstration():
    page = catalogue.page(MISTAKES["LN1"])
    assert page.startswith("# LN1: the variance divides by n - 1")
    assert "ratio: 0.8660" in page and ":math:" in page


def test_every_surprise_has_a_paragraph():
    page = surprises.page()
    for file in surprises.FILES:
        tests = [node for node in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)]
        for node in tests:
            if node.name.startswith("test_"):
                assert f"def {node.name}(" in page
    assert page.count("\n### ") + page.startswith("### ") == page.count(":::{dropdown} The test")


def test_this_version_has_a_certificate():
    found = proof.certificate()
    assert found["environment"]["scratch_transformer"] == __version__
    assert found["verdict"]["passed"]
    assert f"equal those of PyTorch {found['environment']['torch'].partition('+')[0]}" in cite.sentence()


def test_the_entries_name_everybody():
    assert "author = {{scratch_transformer contributors}}" in cite.bibtex()
    assert cite.paper().count(" and ") == 7
