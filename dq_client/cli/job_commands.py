"""Commands that act on one job (kill, hold, release, resize), and `dq logs`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

import click
from msgspec.structs import replace

from dq_client import messages as m
from dq_client.cli.output import note, print_json
from dq_client.cli.requests import JobId, JobIds, ask, json_option, records, resolve, server
from dq_client.cli.values import parse_size
from dq_client.connection import Connection
from dq_client.errors import DQError, NotFound, Refused, UsageError
from dq_client.ranks.marks import SUFFIX, Labelled

UNKNOWN = (
    "which rank has written what is not known here: the job was submitted with --label, or its"
    " ranks were not started by DQ, or the beginning is missing"
)
ERROR_LINES, ERROR_BYTES = 10, 4 << 20  # shown of a failed job; read of it at most


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


def output_of(
    connection: Connection,
    job_id: int,
    stream: str = "out",
    *,
    follow: bool = False,
    label: bool = False,
) -> Iterator[bytes]:
    """The output of a job in pieces; with `follow` until the job has ended.

    What ranks on other nodes have written comes last, node by node, where these do not share a home
    with the first. Refused if the first is away, and no other has anything.
    """
    homes, elsewhere, away, any_data = set[str](), set[str](), list[str](), False
    refused: Refused | None = None
    try:
        for reply in _pieces(connection, job_id, stream, follow=follow, label=label):
            homes.add(reply.home)
            elsewhere |= set(reply.elsewhere)
            any_data |= bool(reply.data)
            yield reply.data
    except Refused as e:
        refused = e
        elsewhere |= set(ask(connection, m.JobQuery(job_id)).get("ran_on", [])[1:])
    for node in sorted(elsewhere):
        try:
            first = True
            for reply in _pieces(connection, job_id, stream, node=node, label=label):
                if first and (reply.home in homes or not reply.data):
                    break
                if first:
                    note(f"on {node}:")
                first, any_data = False, True
                yield reply.data
        except Refused:
            away.append(node)
        else:
            homes.add(reply.home)
    if refused is not None:
        if not any_data:
            raise refused
        note(f"{refused}; what ranks there wrote is there")
    # If no other node has files of its own, those that are away will have had none either.
    if away and (len(homes) > 1 or len(away) == len(elsewhere)):
        note(f"{', '.join(away)}: away; what ranks there wrote is there, unless the home is shared")


def _pieces(
    connection: Connection,
    job_id: int,
    stream: str,
    *,
    node: str = "",
    follow: bool = False,
    label: bool = False,
) -> Iterator[m.LogPiece]:
    """The file of one node."""
    query = m.LogsQuery(job=job_id, stream=stream, node=node)
    marks = replace(query, stream=stream + SUFFIX)
    labelled = Labelled() if label else None
    while True:
        reply = _piece(connection, query)
        query = replace(query, offset=reply.offset)
        if labelled is None:
            yield reply
        else:
            # Who has written it is noted just after it was.
            while (more := _piece(connection, marks)).data:
                marks = replace(marks, offset=more.offset)
                labelled.learn(more.data)
            yield replace(reply, data=labelled.show(reply.data))
        if reply.end or not (reply.data or follow):
            break
        if not reply.data:
            time.sleep(0.2)
    if labelled is not None and query.offset and not labelled.seen:
        note(UNKNOWN)


def _piece(connection: Connection, query: m.LogsQuery) -> m.LogPiece:
    reply = connection.call(query)
    assert isinstance(reply, m.LogPiece)
    return reply


def last_errors(connection: Connection, job_id: int) -> list[str]:
    """What a failed job wrote last to stderr; nothing where that cannot be read."""
    text, read = b"", 0
    try:
        for piece in output_of(connection, job_id, "err"):
            text, read = (text + piece)[-1 << 16 :], read + len(piece)
            if read > ERROR_BYTES:
                return []
    except DQError:
        return []  # it is on a node that is away: `dq logs` says so
    return text.decode(errors="replace").splitlines()[-ERROR_LINES:]


def more_about(job_id: int) -> str:
    """What to type next about a failed job."""
    return f"all it wrote: dq logs {job_id} and dq logs --err {job_id}; its story: dq why {job_id}"


def _simple(name: str, body: Any, done: str, doc: str) -> click.Command:
    """A command that sends a request about each of the jobs, and notes what is `done`."""

    @click.command(name, help=f"{doc} Also several, as 3 5 7-9, or an array.")
    @click.argument("job_ids", type=JobIds(), metavar="ID...", nargs=-1, required=True)
    @json_option
    def command(job_ids: tuple[list[int], ...], as_json: bool) -> int:
        wanted = list(dict.fromkeys(k for ids in job_ids for k in ids))
        with server() as connection:
            if len(wanted) == 1:  # an error is the command's own
                (number,) = wanted
                number = resolve(connection, number)
                connection.call(body(number))
                answers = {number: ""}
            else:
                answers, code = _each(connection, body, wanted)
        if as_json and len(wanted) == 1:
            print_json(job={"id": number})
        elif as_json:
            print_json(jobs=[{"id": k, "error": why or None} for k, why in answers.items()])
        else:
            for k, why in answers.items():
                note(f"job {k}: {why or done}")
        return code if len(wanted) > 1 else 0

    return command


def _each(connection: Connection, body: Any, wanted: list[int]) -> tuple[dict[int, str], int]:
    """Why it could not be done, by job (empty: it was), and the exit code: that of the first."""
    answers, code = dict[int, str](), 0
    for job_id in wanted:
        try:
            number = resolve(connection, job_id)
            connection.call(body(number))
        except (Refused, NotFound) as e:
            answers[job_id] = str(e)
            code = code or e.exit_code
        else:
            answers[number] = ""
    return answers, code


kill = _simple("kill", m.Kill, "is being killed", "Kill a job and all its processes.")
hold = _simple("hold", m.Hold, "is on hold", "Keep a queued job from starting.")
release = _simple("release", m.Release, "is in the queue", "Let a held job start.")


@click.command()
@click.argument("job_id", type=JobId(), metavar="ID")
@click.argument("wanted", metavar="N", required=False)
@click.option("--hold", is_flag=True, help="Keep that size until --release, or the next order.")
@click.option("--release", is_flag=True, help="Let the scheduler choose its size again.")
@json_option
def resize(job_id: int, wanted: str | None, hold: bool, release: bool, as_json: bool) -> None:
    """Bring a job to N processors at its next remap point; also to one of its grids, as 2x4.

    Afterwards the scheduler goes on from there, unless the size is held. A job of workers has
    at most N from now on, until --release.
    """
    if release:
        if wanted is not None or hold:
            raise UsageError("--release stands alone: dq resize ID --release")
        _release_size(job_id, as_json=as_json)
        return
    if wanted is None:
        raise UsageError("to which size? dq resize ID N, or dq resize ID --release")
    size, rows = parse_size(wanted)
    with server() as connection:
        number = resolve(connection, job_id)
        reply = connection.call(m.Resize(job=number, size=size, rows=rows, hold=hold))
        assert isinstance(reply, m.Ordered)
    if as_json:
        order = {"processors": size, "rows": rows or None, "hold": hold}
        before = {"replaces": reply.replaces or None, "held": reply.held or None}
        print_json(job={"id": number}, order={**order, **before})
        return
    grid, held = f" as {wanted}" if rows else "", ", held there" if hold else ""
    if reply.at_once:
        most = f"{size} workers" if hold else f"{size} workers at most, until --release"
        note(f"job {number}: {most}{held}")
        return
    note(f"job {number}: {size} processors{grid} at its next remap point{held}")
    if reply.replaces:
        note(f"this replaces the order to go to {reply.replaces}, which was not carried out yet")
    if reply.held and not hold:
        note(f"it is not held at {reply.held} any more")


def _release_size(job_id: int, *, as_json: bool) -> None:
    with server() as connection:
        number = resolve(connection, job_id)
        connection.call(m.ReleaseSize(number))
    if as_json:
        print_json(job={"id": number})
    else:
        note(f"job {number}: the scheduler chooses its size again")
