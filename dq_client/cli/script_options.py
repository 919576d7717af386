"""Options of `dq submit` that stand in the program itself, in comments at its head.

    #!/bin/sh
    #DQ --sizes 1,2,4 --walltime 10m
    #DQ --name "my run"

They hold where the command line says nothing else. Read are the blank lines and comments that the
script begins with, up to its first other line.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from dq_client.base.errors import UsageError
from dq_client.base.values import script_of

MARK = "#DQ"
HEAD_BYTES = 1 << 16
# They describe the sizes together: one of them on the command line replaces all in the script.
SIZES = frozenset({"sizes", "smallest", "largest", "chain", "multiple", "profile"})


def with_script_options(
    ctx: click.Context, program: tuple[str, ...], given: dict[str, Any]
) -> dict[str, Any]:
    """The options, completed by those in the script that `program` runs.

    UsageError names the line of the script.
    """
    script = Path(given["chdir"] or ".") / script_of(list(program))
    found = dict(given)
    for number, words in _lines(script):
        where = f"{script}, line {number}"
        try:
            said = ctx.command.make_context("dq submit", [*words, "--", "x"])
        except click.ClickException as e:
            raise UsageError(f"{where}: {e.format_message()}") from e
        except click.exceptions.Exit:  # --help has printed what it prints
            raise UsageError(f"{where}: no option for a script: {' '.join(words)}") from None
        if said.params["chdir"] is not None:
            raise UsageError(
                f"{where}: --chdir locates the script, so give it on the command line only"
            )
        if said.params["program"] != ("x",):
            raise UsageError(f"{where}: options only; the program is the script: {' '.join(words)}")
        _add(ctx, said, found)
    return found


def _add(ctx: click.Context, said: click.Context, found: dict[str, Any]) -> None:
    """What one line of the script says and the command line does not."""
    from_user = ParameterSource.COMMANDLINE
    here = {name for name in found if ctx.get_parameter_source(name) is from_user}
    sizes_here = not SIZES.isdisjoint(here)
    for name, value in said.params.items():
        if name not in found or said.get_parameter_source(name) is not from_user:
            continue
        if isinstance(value, tuple):  # --env: what stands last holds
            found[name] = (*value, *found[name])
        elif name not in here and not (sizes_here and name in SIZES):
            found[name] = value


def _lines(script: Path) -> list[tuple[int, list[str]]]:
    """The #DQ lines at the head of a script, as words, with their numbers."""
    try:
        if not script.is_file():
            return []
        with script.open("rb") as f:
            head = f.read(HEAD_BYTES).decode(errors="replace")
    except OSError:
        return []  # whether it can be run is found out where it is run
    found = []
    for number, line in enumerate(head.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            break
        if line.startswith(MARK) and line[len(MARK) :][:1] in ("", " ", "\t"):
            try:
                found.append((number, shlex.split(line[len(MARK) :])))
            except ValueError as e:
                raise UsageError(f"{script}, line {number}: {e}") from e
    return found
