"""One script and one style sheet of many files."""

import re

from scratch_transformer.view import bundle

SCRIPT = bundle.script()


def test_every_file_is_in_the_script_once_and_after_what_it_needs():
    order = re.findall(r"^// ---- (.+) ----$", SCRIPT, re.MULTILINE)
    assert sorted(order) == sorted(path.name for path in bundle.ASSETS.glob("*.js"))
    assert order[-1] == "main.js"
    for path in bundle.ASSETS.glob("*.js"):
        for needed in bundle.IMPORT.findall(path.read_text("utf-8")):
            assert order.index(needed) < order.index(path.name), (path.name, needed)


def test_nothing_is_left_of_modules():
    assert not re.search(r"^\s*(import|export)\b", SCRIPT, re.MULTILINE)


def test_what_is_imported_is_exported():
    for path in bundle.ASSETS.glob("*.js"):
        for names, file in re.findall(
            r"^import \{([^}]*)\} from \"\./([\w-]+\.js)\";", path.read_text("utf-8"), re.MULTILINE
        ):
            exported = (bundle.ASSETS / file).read_text("utf-8")
            for name in re.findall(r"\w+", names):
                assert re.search(
                    rf"^export (async )?(function|const|class) (\w+ = \w+, )*{name}\b", exported, re.MULTILINE
                ), name


def test_names_of_the_files_do_not_meet():
    names = re.findall(r"^(?:async )?(?:function|const|let|class) (\w+)", SCRIPT, re.MULTILINE)
    assert len(names) == len(set(names))


def test_the_style_has_all_sheets_and_fonts():
    style = bundle.style()
    assert style.count("@font-face") == len(bundle.FONTS) == len(list((bundle.ASSETS / "fonts").glob("*.woff2")))
    assert all(path.read_text("utf-8") in style for path in bundle.ASSETS.glob("*.css"))
    assert "http" not in style.replace("data:", "")
    assert (bundle.ASSETS / "fonts" / "LICENSES.md").is_file()
