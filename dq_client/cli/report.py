"""`dq report`: one job, or all jobs, as one HTML file."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from dq_client.base.errors import NotFound, UsageError
from dq_client.cli.requests import JobId, json_option, records
from dq_client.show.output import print_json, say

DEFAULT_FILE = "report.html"


@click.command()
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE",
    help=f"The file to write ({DEFAULT_FILE}); - is stdout.",
)  # fmt: skip
@json_option
@click.argument("what", required=False, metavar="[ID|RUN]")
def report(what: str | None, output: Path | None, as_json: bool) -> None:
    """Write a report as one HTML file; prints the file's name.

    ID is a job's number, or last. RUN is a file with data saved earlier by dq report --json. With
    neither the report is about all jobs. With --json the data are printed and no file is written,
    unless -o is given as well.
    """
    from dq_client.show.report.collect import collect
    from dq_client.show.report.data import checked, load
    from dq_client.show.report.page import render, write_report

    job_id = _job_id(what)
    if what is not None and job_id is None:
        data = load(_saved(what))
    else:
        with records() as connection:
            data = collect(connection, job_id)
    if str(output) == "-":
        if as_json:
            raise UsageError("--json and -o - both want stdout: give -o a file")
        sys.stdout.write(render(checked(data)))
        return
    if output is not None or not as_json:
        output = output or Path(DEFAULT_FILE)
        write_report(output, data)
    if as_json:
        print_json(**{key: value for key, value in data.items() if key != "schema"})
    else:
        say(output)


def _job_id(what: str | None) -> int | None:
    """The job id in `what`, 0 for `last`; None if `what` is not a job id."""
    if what is not None and (what == "last" or what.isdigit()):
        return JobId().convert(what, None, None)
    return None


def _saved(what: str) -> Path:
    path = Path(what)
    if not path.exists():
        raise NotFound(f"{what} is neither a job id nor a file with saved data")
    return path
