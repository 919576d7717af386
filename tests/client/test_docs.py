"""The pages of the documentation: links lead somewhere, each page has a kind, blocks are right.

The blocks of README.md and docs/tutorial.md are run (tests/live/test_readme.py, test_tutorial.py).
Of the others every command line is parsed by the commands themselves, every TOML block is read,
and every Python block is compiled.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from dq_client.cli.main import cli

ROOT = Path(__file__).parents[2]
PAGES = [*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")]
KINDS = ("Tutorial", "How-to", "Reference", "Explanation")
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))


def anchors(text: str) -> set[str]:
    """As GitHub names the headings of a page."""
    found = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *$", FENCE.sub("", text), re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        found.add(re.sub(r"[^\w\- ]", "", words).replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    text = without_code(page.read_text())
    named = dict(re.findall(r"^\[([^\]]+)\]: (\S+)$", text, re.MULTILINE))
    used = set(re.findall(r"\]\[([^\]]+)\]", text))
    assert used == set(named), "each named link is used, and each used one is named"
    for target in [*re.findall(r"\]\(([^)\s]+)\)", text), *named.values()]:
        if target.startswith(("https://", "http://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path) if path else page
        assert file.exists(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in anchors(file.read_text()), f"{page.name} links to {target}"


def test_every_page_is_in_one_of_the_four_kinds() -> None:
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    kinds = re.split(r"^  - ", nav, flags=re.MULTILINE)[1:]
    assert tuple(kind.partition(":")[0] for kind in kinds) == ("Home", *KINDS)
    listed = re.findall(r"^      - .*: (\S+\.md)$", "".join(kinds[1:]), re.MULTILINE)
    there = {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert sorted(listed) == sorted(there), "each page once"


# --- blocks --------------------------------------------------------------------------------------


def blocks(*languages: str) -> list[Any]:
    """(page, block) of fenced blocks."""
    found = []
    for page in PAGES:
        for number, (language, body) in enumerate(FENCE.findall(page.read_text())):
            if language in languages:
                found.append(pytest.param(body, id=f"{page.name}-{number}"))
    return found


def indented(text: str) -> str:
    """Indented blocks: examples on a terminal, mostly."""
    return "\n".join(re.findall(r"^(?:    )(\S.*)$", FENCE.sub("", text), re.MULTILINE))


def command_lines(text: str) -> Iterator[list[str]]:
    """Words after `dq` of the lines that are commands, without what follows a pipe or a comment."""
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        said = re.match(r"^(?:\$ )?(?:[A-Z_]+=\S+ )*(?:\S*/bin/)?dq (?!:)(.*)$", line.strip())
        if said is None:
            continue
        try:
            lexer = shlex.shlex(said[1], posix=True, punctuation_chars="|&;<>")
            lexer.whitespace_split = True
            words = list(lexer)
        except ValueError:
            continue  # a sentence with an apostrophe
        ends = [k for k, word in enumerate(words) if re.fullmatch(r"[|&;<>]+", word)]
        yield words[: min(ends, default=len(words))]


def parse(words: list[str]) -> None:
    """Raise click.UsageError if a command would refuse these words for what they are."""
    command: click.Command = cli
    context = click.Context(cli, info_name="dq")
    while isinstance(command, click.Group) and words:
        if words[0].startswith("-"):
            return  # dq --version
        found = command.get_command(context, words[0])
        if found is None:
            raise click.UsageError(f"no command {words[0]!r}", context)
        command, words = found, words[1:]
        if isinstance(command, click.Group) and words and words[0].startswith("-"):
            break
        context = click.Context(command, info_name=command.name, parent=context)
    options = {name for p in command.params if isinstance(p, click.Option)
               for name in (*p.opts, *p.secondary_opts)} | {"-h", "--help"}  # fmt: skip
    for word in words:
        if word == "--":
            break
        if re.match(r"--?[a-zA-Z]", word) and not _after_program(command, words, word):
            name = word.partition("=")[0]
            if name not in options:
                raise click.NoSuchOption(name, ctx=context)


def _after_program(command: click.Command, words: list[str], word: str) -> bool:
    """Whether an option stands behind the first word of a job's program, and is the program's."""
    if command.name != "submit":
        return False
    takes = {name: p for p in command.params if isinstance(p, click.Option) for name in p.opts}
    rest = iter(words)
    for one in rest:
        if one == word:
            return False
        option = takes.get(one.partition("=")[0])
        if option is None and not one.startswith("-"):
            return True
        if option is not None and not option.is_flag and "=" not in one:
            next(rest, None)
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_line_is_one(page: Path) -> None:
    if page.name == "CHANGELOG.md":
        return  # of what was, too
    text = page.read_text()
    code = [body for language, body in FENCE.findall(text) if language in ("bash", "console", "")]
    for words in command_lines("\n".join([*code, indented(text)])):
        try:
            parse(words)
        except click.UsageError as e:
            raise AssertionError(
                f"{page.name}: dq {shlex.join(words)}: {e.format_message()}"
            ) from e


def test_a_wrong_command_line_is_noticed() -> None:
    parse(["submit", "-n", "2", "--", "python", "x.py", "--nonsense"])
    for wrong in (["submitt"], ["submit", "--nonsense", "--", "true"], ["node", "drein", "n1"]):
        with pytest.raises(click.UsageError):
            parse(wrong)


@pytest.mark.parametrize("body", blocks("toml"))
def test_toml_is_toml(body: str) -> None:
    assert tomllib.loads(body)


@pytest.mark.parametrize("body", blocks("python"))
def test_python_compiles(body: str) -> None:
    import ast

    compile(body, "block", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_blocks_are_of_known_languages() -> None:
    known = {"", "bash", "console", "python", "toml", "yaml", "json", "text", "c", "fortran"}
    for page in PAGES:
        assert {language for language, _ in FENCE.findall(page.read_text())} <= known, page.name
