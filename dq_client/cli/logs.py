"""`dq logs`, and the output of a job for other commands."""

from __future__ import annotations

import sys

import click

from dq_client.cli.requests import JobId, json_option, records, resolve
from dq_client.show.job_output import output_of
from dq_client.show.output import print_json


@click.command()
@click.argument("job_id", type=JobId(), metavar="ID")
@click.option("--err", "stream", flag_value="err", help="Standard error instead of output.")
@click.option("--out", "stream", flag_value="out", default="out", hidden=True)
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended.")
@click.option("-l", "--label", is_flag=True, help="The rank before each line, as [3].")
@json_option
def logs(job_id: int, stream: str, follow: bool, label: bool, as_json: bool) -> None:
    """Show what a job has written."""
    with records() as connection:
        number = resolve(connection, job_id)
        pieces = output_of(connection, number, stream, follow=follow, label=label)
        if as_json:
            text = b"".join(pieces).decode(errors="replace")
            print_json(job={"id": number}, stream=stream, text=text)
            return
        for piece in pieces:
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()


def more_about(job_id: int) -> str:
    """What to type next about a failed job."""
    return f"output: dq logs {job_id} and dq logs --err {job_id}; decisions: dq why {job_id}"
