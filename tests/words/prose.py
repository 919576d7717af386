"""The six rules of plain technical English, over pages, help texts, public docstrings and messages.

A rule is a pattern. Each finds a fault that a reader would have to translate, and lets ordinary
English pass: "a user who waits" is one, "who waits" as a noun is not.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click

import resize_lib
from dq_client import client
from dq_client.cli.main import cli
from harness.commands import ROOT
from harness.pages import FENCE
from tests.words.messages import GOLDEN

COUNTS = Path(__file__).with_name("prose.txt")
VERB = r"(?:is|are|was|were|has|have|had|can|may|must|does|do|will|would)"
# Nouns that `who` may follow, and subjects that may say something.
PERSON = "".join(
    rf"(?<!\b{noun} )"
    for noun in (
        "people",
        "person",
        "user",
        "users",
        "reader",
        "readers",
        "those",
        "anyone",
        "anybody",
        "Anybody",
        "People",
        "administrators",
        "someone",
    )
)
SPEAKER = "".join(
    rf"(?<!\b{noun} )" for noun in ("you", "we", "paper", "papers", "thesis", "people", "users")
)
RULES = {
    "clause as a noun": (
        r"(?:^|[.:;(] |\b(?:of|for|with|by|from|than|and|but|in|on|as|at) )"
        r"(?:W|w)h(?:at|atever|oever)\b(?![^.]*\?)(?![\w ]*$)"
        rf"|{PERSON}\b(?<!{{)[Ww]ho\b(?![^.]*\?)"
    ),
    "a machine that speaks": rf"{SPEAKER}\b(?<!{{)(?:tells?|told|says?|said|hears?|heard|knows?)\b",
    "opens with a pronoun": r"^(?:It|They|Its|Their|So|Such|He|She)\b",
    "word order": (
        r"\btoo(?=[.,;:)]|$)|\bbesides\b|\bany more\b|\bas ever\b|, else\b"
        r"|\bso (?:long|much|many)\b(?! as\b| that\b)"
    ),
    "nobody as the subject": (
        rf"\b[Nn]o(?:thing|ne) (?:of \w+ )?(?:{VERB}|\w+[^s]s)\b|\b[Nn]obody\b"
    ),
    "colon for a conjunction": (
        r"(?<!}): (?:it|they|there|then|so|you|we|otherwise)\b"
        rf"|(?<!}}): (?:this|the|a|an|its|each|all|no|every) [\w-]+ {VERB}\b"
    ),
}
PATTERNS = {rule: re.compile(pattern) for rule, pattern in RULES.items()}


def faults(text: str) -> Iterator[tuple[str, str]]:
    """(rule, where) of each fault in Markdown or a docstring; code and quotations are left out."""
    plain = FENCE.sub("\n\n", text)
    plain = re.sub(r"``[^`]+``|`[^`]+`", "X", plain)
    plain = re.sub(r'"[^"\n]+"', "X", plain)
    plain = re.sub(r"\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])", r"\1", plain)
    units = re.split(r"\n\s*\n|\n\s*(?:[*-]|\d+\.) |\n#+ |\n?\s*\|\s*|^#+ |^[*-] ", plain)
    for unit in units:
        heading, words = unit.startswith("#"), " ".join(unit.replace("*", "").strip("# ").split())
        for rule, pattern in PATTERNS.items():
            if heading and rule == "clause as a noun":
                continue  # "What it costs"
            for found in pattern.finditer(words):
                yield rule, words[max(0, found.start() - 40) : found.end() + 40]


def public_docstrings() -> str:
    """The docstrings of what programs import, and of the methods of these classes."""
    names = [getattr(resize_lib, name) for name in resize_lib.__all__]
    names += [client.cluster, client.connect, client.Cluster, client.Job, client.Event]
    members = [
        member
        for one in names
        if inspect.isclass(one)
        for name, member in vars(one).items()
        if not name.startswith("_") and (callable(member) or isinstance(member, property))
    ]
    texts = [*map(inspect.getdoc, [resize_lib, client, *names, *members])]
    return "\n\n".join(dict.fromkeys(text for text in texts if text))


def help_texts(command: click.Command) -> Iterator[str]:
    """The help of a command, of its options, and of the commands below it."""
    yield command.help or ""
    yield from (p.help or "" for p in command.params if isinstance(p, click.Option))
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            yield from help_texts(found) if found else ()


def texts() -> dict[str, str]:
    """Each page, and what else users read, by name."""
    importlib.import_module("mpi4py.MPI")
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs/spec").glob("*.md")]
    found = {str(page.relative_to(ROOT)): page.read_text() for page in pages}
    found["public docstrings"] = public_docstrings()
    found["help texts"] = "\n\n".join(help_texts(cli))
    found["messages"] = "\n\n".join(
        line.partition(": ")[2] for line in GOLDEN.read_text().splitlines()
    )
    return found


def counts() -> dict[str, int]:
    """How many faults each text has."""
    return {name: len(list(faults(text))) for name, text in sorted(texts().items())}


def recorded() -> dict[str, int]:
    """How many each text may have; a text that is not listed may have none."""
    lines = (line.rsplit(maxsplit=1) for line in COUNTS.read_text().splitlines())
    return {name: int(count) for name, count in lines}
