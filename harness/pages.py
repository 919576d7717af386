"""The fenced blocks of the documentation's pages, for the tests that check and run them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from harness.commands import ROOT

PAGES = sorted([*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")], key=lambda page: page.name)
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: the name of its page, its number there from 0, its language, its text."""

    page: str
    number: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}-{self.number}"

    def commands(self) -> str:
        """What is typed: all of it, or what follows the prompts `$ ` and `# ` if there are any.

        A command that ends with a backslash goes on in the next line.
        """
        lines = self.text.splitlines()
        if not any(line.startswith("$ ") for line in lines):
            return self.text
        typed, goes_on = [], False
        for line in lines:
            if goes_on or line.startswith("$ "):
                typed.append(line if goes_on else line[2:])
                goes_on = line.endswith("\\")
        return "\n".join(typed) + "\n"


def blocks(*pages: str) -> Iterator[Block]:
    """All blocks of these pages, by their names; without names of all pages."""
    for page in PAGES:
        if not pages or page.name in pages:
            for number, (language, text) in enumerate(FENCE.findall(page.read_text())):
                yield Block(page.name, number, language, text)


def put(text: str, here: Mapping[str, str]) -> str:
    """A text with these words in place of others, all of which must be there."""
    for word, other in here.items():
        assert word in text, f"no {word!r} in: {text}"
        text = text.replace(word, other)
    return text
