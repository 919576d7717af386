"""Commands that act on one job (kill, hold, release, resize), and `dq logs`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

import click

from dq_client import messages as m
from dq_client.cli.output import note, print_json
from dq_client.cli.requests import JobId, json_option, resolve, server
from dq_client.cli.values import parse_size
from dq_client.connection import Connection
from dq_client.errors import Refused


@click.command()
@click.argument("job_id", type=JobId(), metavar="ID")
@click.option("--err", "stream", flag_value="err", help="Standard error instead of output.")
@click.option("--out", "stream", flag_value="out", default="out", hidden=True)
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended.")
@json_option
def logs(job_id: int, stream: str, follow: bool, as_json: bool) -> None:
    """Show what a job has written."""
    with server() as connection:
        number = resolve(connection, job_id)
        pieces = output_of(connection, number, stream, follow=follow)
        if as_json:
            text = b"".join(pieces).decode(errors="replace")
            print_json(job={"id": number}, stream=stream, text=text)
            return
        for piece in pieces:
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()


def output_of(
    connection: Connection, job_id: int, stream: str = "out", *, follow: bool = False
) -> Iterator[bytes]:
    """The output of a job in pieces; with `follow` until the job has ended.

    What ranks on other nodes have written comes last, node by node, where these do not share a home
    with the first.
    """
    homes, elsewhere, away = set[str](), set[str](), list[str]()
    for reply in _pieces(connection, job_id, stream, follow=follow):
        homes.add(reply.home)
        elsewhere |= set(reply.elsewhere)
        yield reply.data
    for node in sorted(elsewhere):
        try:
            first = True
            for reply in _pieces(connection, job_id, stream, node=node):
                if first and (reply.home in homes or not reply.data):
                    break
                if first:
                    note(f"on {node}:")
                first = False
                yield reply.data
        except Refused:
            away.append(node)
        else:
            homes.add(reply.home)
    # If no other node has files of its own, those that are away will have had none either.
    if away and (len(homes) > 1 or len(away) == len(elsewhere)):
        note(f"{', '.join(away)}: away; what ranks there wrote is there, unless the home is shared")


def _pieces(
    connection: Connection, job_id: int, stream: str, *, node: str = "", follow: bool = False
) -> Iterator[m.LogPiece]:
    """The file of one node."""
    offset = 0
    while True:
        query = m.LogsQuery(job=job_id, stream=stream, offset=offset, node=node)
        reply = connection.call(query)
        assert isinstance(reply, m.LogPiece)
        offset = reply.offset
        yield reply
        if reply.end or not (reply.data or follow):
            return
        if not reply.data:
            time.sleep(0.2)


def _simple(name: str, body: Any, done: str, doc: str) -> click.Command:
    """A command that sends one request about a job and prints the note `done`."""

    @click.command(name, help=doc)
    @click.argument("job_id", type=JobId(), metavar="ID")
    @json_option
    def command(job_id: int, as_json: bool) -> None:
        with server() as connection:
            number = resolve(connection, job_id)
            connection.call(body(number))
        if as_json:
            print_json(job={"id": number})
        else:
            note(f"job {number}: {done}")

    return command


kill = _simple("kill", m.Kill, "is being killed", "Kill a job and all its processes.")
hold = _simple("hold", m.Hold, "is on hold", "Keep a queued job from starting.")
release = _simple("release", m.Release, "is in the queue", "Let a held job start.")


@click.command()
@click.argument("job_id", type=JobId(), metavar="ID")
@click.argument("wanted", metavar="N")
def resize(job_id: int, wanted: str) -> None:
    """Bring a job to N processors at its next remap point; also to one of its grids, as 2x4."""
    size, rows = parse_size(wanted)
    with server() as connection:
        number = resolve(connection, job_id)
        connection.call(m.Resize(number, size, rows))
    grid = f" as {wanted}" if rows else ""
    note(f"job {number}: {size} processors{grid} at its next remap point")
