"""The pages of the documentation: links lead somewhere, each page has a kind, blocks are right.

tests/pages/owners.py says who runs each block. Here, in a second: every command line is parsed by
the commands themselves, also those that stand in the text, and Python is compiled.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from dq_client.cli.main import cli
from harness.commands import ROOT
from harness.pages import FENCE, PAGES, Block, blocks
from tests.pages.owners import owned

KINDS = ("Tutorial", "How-to", "Reference", "Explanation")
CODE = ("apps", "dq_client", "dq_server", "harness", "hostfiles", "resize_lib", "tests", "docs")


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


def test_pages_for_developers_name_files_that_exist() -> None:
    """Whole paths, or their ends: `requests/users.py`."""
    found = [f"/{p.relative_to(ROOT)}" for top in CODE for p in (ROOT / top).rglob("*")]
    for page in ("ARCHITECTURE.md", "CONTRIBUTING.md", "docs/spec/resize.md"):
        text = (ROOT / page).read_text()
        for name in set(re.findall(r"(?<![\w./>])[\w./]*\w\.(?:py|toml)\b", text)):
            assert any(path.endswith(f"/{name}") for path in found), f"{page} names {name}"


def test_no_file_has_marks_of_a_conflict() -> None:
    files = (*ROOT.glob("*.*"), *(p for top in CODE for p in (ROOT / top).rglob("*.*")))
    for path in (p for p in files if p.suffix in {".md", ".py", ".toml", ".txt", ".js", ".json"}):
        assert not re.search(r"^(<{7}|>{7}) ", path.read_text(), re.MULTILINE), path


def test_docstrings_of_packages_name_files_that_exist() -> None:
    for package in (file for top in CODE for file in (ROOT / top).rglob("__init__.py")):
        told = ast.get_docstring(ast.parse(package.read_text())) or ""
        here = {path.name for path in package.parent.iterdir()}
        wrong = set(re.findall(r"^(\w+\.py)\b", told, re.MULTILINE)) - here
        assert not wrong, f"{package.relative_to(ROOT)} names {sorted(wrong)}"


def test_every_page_is_in_one_of_the_four_kinds() -> None:
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    kinds = re.split(r"^  - ", nav, flags=re.MULTILINE)[1:]
    assert tuple(kind.partition(":")[0] for kind in kinds) == ("Home", *KINDS)
    listed = re.findall(r"^      - .*: (\S+\.md)$", "".join(kinds[1:]), re.MULTILINE)
    docs = ROOT / "docs"
    there = {str(page.relative_to(docs)) for page in [*docs.glob("*.md"), *docs.glob("spec/*.md")]}
    there -= {"index.md"}
    assert sorted(listed) == sorted(there), "each page once"


def test_the_page_of_commands_shows_no_inner_value() -> None:
    """Tables of mkdocs-click print click's mark for a missing default as it is."""
    markdown = pytest.importorskip("markdown")
    pytest.importorskip("mkdocs_click")
    text = (ROOT / "docs/commands.md").read_text()
    html = markdown.markdown(text, extensions=["mkdocs-click", "tables"])
    assert "--retry" in html and "Sentinel" not in html


def test_search_needs_no_other_site() -> None:
    settings = (ROOT / "mkdocs.yml").read_text()
    assert "  - offline" in settings
    assert "polyfills: [javascripts/iframe-worker.js]" in settings
    assert (ROOT / "docs/javascripts/iframe-worker.js").is_file()


# --- blocks --------------------------------------------------------------------------------------

SHELLS = ("bash", "console", "sh")


def inline(text: str) -> str:
    """What stands in the text as `code`, a line each, without forms: `dq a|b`, `dq COMMAND`."""
    found = re.findall(r"`([^`\n]+)`", FENCE.sub("", text))
    return "\n".join(line for line in found if not re.search(r"[|[]|^dq [A-Z]", line))


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
    code = [block.text for block in blocks(page.name) if block.language in SHELLS]
    for words in command_lines("\n".join([*code, inline(page.read_text())])):
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


@pytest.mark.parametrize("block", [b for b in blocks() if b.language == "python"], ids=str)
def test_python_compiles(block: Block) -> None:
    compile(block.text, "block", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_every_block_is_run_by_somebody() -> None:
    assert len(owned()) > 90
    left_out = [block for block, owner in owned().items() if owner.startswith("- ")]
    assert len(left_out) <= 5, "what needs machines that CI has not"


def test_blocks_are_of_known_languages() -> None:
    known = {*SHELLS, "python", "toml", "yaml", "text", "c", "fortran"}
    assert {block.language for block in blocks()} <= known


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_block_is_only_indented(page: Path) -> None:
    """Such a block would be run by nobody. In a list a paragraph may be indented."""
    found = re.findall(r"(?:\A|\n\n)((?: {4}|\t)\S.*)", FENCE.sub("", page.read_text()))
    assert not found
