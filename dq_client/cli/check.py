"""`dq check`: mistakes that would show at the first resize, found in the source."""

from __future__ import annotations

from pathlib import Path

import click

from dq_client.base.errors import UsageError
from dq_client.check import Finding, check_source
from dq_client.cli.requests import json_option
from dq_client.show.output import note, print_json, say


@click.command()
@click.argument("programs", metavar="PROGRAM.py...", nargs=-1, required=True)
@json_option
def check(programs: tuple[str, ...], as_json: bool) -> int:
    """Read programs and find what will go wrong when ranks join and leave (docs/mistakes.md).

    Runs nothing. Exit code 1 and a line FILE:LINE for each finding; 0 if there is none.
    """
    findings: list[Finding] = []
    for program in programs:
        try:
            source = Path(program).read_text()
        except UnicodeDecodeError:
            raise UsageError(f"{program}: no text, and so no Python program") from None
        except OSError as error:
            raise UsageError(f"{program}: {error.strerror}") from error
        findings += check_source(source, program)
    if as_json:
        rows = [{"file": f.file, "line": f.line, "code": f.code, "text": f.text} for f in findings]
        print_json(findings=rows)
    else:
        for finding in findings:
            say(str(finding))
        count = len(findings)
        note("nothing found" if not count else f"{count} finding{'s' if count > 1 else ''}")
    return 1 if findings else 0
