"""Pages that are made of types say what the types say now; every key has a text."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from harness import reference
from harness.commands import ROOT

# Before any test runs: policies of other tests have options, too.
PAGES = reference.pages()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_is_what_its_types_say(path: Path) -> None:
    assert path.read_text() == PAGES[path], f"run {reference.HERE}"


def test_no_other_schema_lies_there() -> None:
    assert set((ROOT / "docs/schemas").iterdir()) <= set(PAGES)


def test_a_key_without_a_text_is_noticed() -> None:
    @dataclasses.dataclass
    class Told:
        """Some settings.

        one  has a text
             of two lines
        """

        one: int = 1

    @dataclasses.dataclass
    class Silent(Told):
        """one  has a text"""

        two: int = 2

    assert reference.texts(Told) == {"one": "has a text of two lines"}
    with pytest.raises(KeyError):
        reference.keys(Silent)
