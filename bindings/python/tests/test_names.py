"""The names that docs/reference/languages.md promises for Python exist."""

import inspect
import re
from pathlib import Path

import pytest

import commonhold

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "languages.md"
COLUMN = 5


def promised():
    rows = [line.split("|") for line in PAGE.read_text("utf-8").splitlines() if line.startswith("|")]
    return sorted({name for row in rows for name in re.findall(r"`([^`]+)`", row[COLUMN])})


def missing(name):
    """The missing parts of a promised name; nothing if it is complete."""
    parts = re.fullmatch(r"(\w+)\.(\w+)(?:\((\w+)=\))?", name)
    if parts is None:
        return "the form of a name"
    owner, member, keyword = parts.groups()
    place = commonhold if owner == "commonhold" else getattr(commonhold, owner, None)
    if place is None or (place is not commonhold and not isinstance(place, type)):
        return owner
    found = getattr(place, member, None)
    if found is None:
        return member
    if keyword is not None and keyword not in inspect.signature(found).parameters:
        return keyword
    return None


def test_the_page_promises_much():
    assert len(promised()) > 100


@pytest.mark.parametrize("name", promised())
def test_a_promised_name_exists(name):
    assert missing(name) is None


def test_made_up_names_are_noticed():
    assert missing("Map.set") is None and missing("Map.set(ttl=)") is None
    assert missing("Map.set_with_tll") == "set_with_tll"
    assert missing("Map.set(tll=)") == "tll"
    assert missing("Mapp.set") == "Mapp"
    assert missing("commonhold.opened") == "opened"
    assert missing("Map#set") == "the form of a name"
