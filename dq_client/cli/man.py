"""`dq man`: manual pages, made of what `--help` says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from dq_client import __version__
from dq_client.base.errors import UsageError
from dq_client.show.output import note


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
def man(folder: Path) -> None:
    """Write manual pages to FOLDER/man1: dq.1, dq-submit.1, dq-node-drain.1, ...

    With FOLDER ~/.local/share/man, `man dq-submit` finds them.
    """
    from dq_client.cli.main import cli  # this module is imported by the one named there

    written = 0
    try:
        (folder / "man1").mkdir(parents=True, exist_ok=True)
        for context in commands(click.Context(cli, info_name="dq")):
            name = context.command_path.replace(" ", "-")
            (folder / "man1" / f"{name}.1").write_text(page(context))
            written += 1
    except OSError as e:
        raise UsageError(f"{e.filename or folder}: {e.strerror}") from e
    note(f"{written} pages are in {folder / 'man1'}")


def commands(context: click.Context) -> Iterator[click.Context]:
    """The command of a context and all below it, each with a context of its own."""
    yield context
    group = context.command
    if isinstance(group, click.Group):
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            if command is not None and not command.hidden:
                yield from commands(click.Context(command, info_name=name, parent=context))


def page(context: click.Context) -> str:
    """A command's page, in the man macros."""
    command, path = context.command, context.command_path
    name, short = path.replace(" ", "-"), command.get_short_help_str(200)
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [
        f'.TH "{_quoted(name.upper())}" "1" "" "dq {__version__}" "DQ"',
        ".SH NAME",
        f"{_plain(name)} \\- {_plain(short)}",
        ".SH SYNOPSIS",
        f".B {_plain(path)}",
        _plain(usage),
        ".SH DESCRIPTION",
        *_paragraphs(command.help or short),
    ]
    records = [
        p.get_help_record(context)
        for p in command.get_params(context)
        if isinstance(p, click.Option)
    ]
    options = [record for record in records if record is not None]
    if options:
        lines.append(".SH OPTIONS")
        for words, text in options:
            lines += [".TP", f"\\fB{_plain(words)}\\fR", _plain(text) or "\\&"]
    if isinstance(command, click.Group):
        lines.append(".SH COMMANDS")
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            if found is not None and not found.hidden:
                told = _plain(found.get_short_help_str(200))
                lines += [".TP", f"\\fB{_plain(name)}-{_plain(child)}\\fR(1)", told or "\\&"]
    if context.parent is not None:
        parent = context.parent.command_path.replace(" ", "-")
        lines += [".SH SEE ALSO", f"\\fB{_plain(parent)}\\fR(1)"]
    return "\n".join(lines) + "\n"


def _paragraphs(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(re.split(r"\n\s*\n", click.unstyle(text).strip())):
        if number:
            yield ".PP"
        # \b: click leaves the lines of such a paragraph as they are.
        if paragraph.lstrip().startswith("\b"):
            yield from (".nf", *(_plain(line) for line in paragraph.splitlines()[1:]), ".fi")
        else:
            yield _plain(" ".join(paragraph.split()))


def _plain(text: str) -> str:
    """Text that means nothing to roff."""
    text = " ".join(text.split("\n")).replace("\\", "\\e").replace("-", "\\-")
    text = "".join(c if c.isascii() else f"\\[u{ord(c):04X}]" for c in text)
    return f"\\&{text}" if text.startswith((".", "'")) else text


def _quoted(text: str) -> str:
    return _plain(text).replace('"', "")
