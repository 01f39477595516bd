"""What is read of a definition's text, and of what has none."""

import inspect
import re
import tokenize

import pytest

from scratch_transformer.kit.definitions import lines_of, source_of, tree_of


@pytest.mark.parametrize("thing", [int, len, re.RegexFlag, re.Pattern])
def test_what_python_finds_no_text_of_has_none(thing):
    """From Python 3.13 on, the line that an enumeration of the library says it begins on is of another file."""
    assert isinstance(source_of(thing), str)
    assert tree_of(thing) is None or tree_of(thing).name == thing.__name__


@pytest.mark.parametrize("error", [tokenize.TokenError("unterminated string"), SyntaxError("unterminated string")])
def test_a_wrong_line_is_no_source(error, monkeypatch):
    class Unread:
        pass

    def raises(_):
        raise error

    monkeypatch.setattr(inspect, "getsourcelines", raises)
    assert source_of(Unread) == ""
    with pytest.raises(OSError, match="no source of .*Unread.*unterminated"):
        lines_of(Unread)
