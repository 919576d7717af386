"""Commands that act on jobs: kill, hold, release, edit, resize."""

from __future__ import annotations

from typing import Any

import click

from dq_client.base import messages as m
from dq_client.base.connection import Connection
from dq_client.base.errors import NotFound, Refused, UsageError
from dq_client.base.values import parse_size, parse_time
from dq_client.cli.requests import JobId, JobIds, json_option, resolve, server
from dq_client.show.output import note, print_json


def _simple(name: str, body: Any, done: str, doc: str) -> click.Command:
    """A command that sends a request about each of the jobs, and notes what is `done`."""

    @click.command(name, help=f"{doc} Also several, as 3 5 7-9, or an array.")
    @click.argument("job_ids", type=JobIds(), metavar="ID...", nargs=-1, required=True)
    @json_option
    def command(job_ids: tuple[list[int], ...], as_json: bool) -> int:
        return _send(job_ids, body, done, as_json=as_json)

    return command


def _send(job_ids: tuple[list[int], ...], body: Any, done: str, *, as_json: bool) -> int:
    """Send a request about each of the jobs, and note what is `done`; returns the exit code."""
    wanted = list(dict.fromkeys(k for ids in job_ids for k in ids))
    with server() as connection:
        if len(wanted) == 1:  # an error is the command's own
            (number,) = wanted
            number = resolve(connection, number)
            connection.call(body(number))
            answers, code = {number: ""}, 0
        else:
            answers, code = _each(connection, body, wanted)
    if as_json and len(wanted) == 1:
        print_json(job={"id": number})
    elif as_json:
        print_json(jobs=[{"id": k, "error": why or None} for k, why in answers.items()])
    else:
        for k, why in answers.items():
            note(f"job {k}: {why or done}")
    return code


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
@click.argument("job_ids", type=JobIds(), metavar="ID...", nargs=-1, required=True)
@click.option("--walltime", metavar="TIME", help="Limit on the run time: 90s, 10m, 2h.")
@click.option(
    "--priority", type=click.IntRange(-(10**9), 10**9), metavar="N", help="As for dq submit."
)
@json_option
def edit(
    job_ids: tuple[list[int], ...], walltime: str | None, priority: int | None, as_json: bool
) -> int:
    """Change walltime or priority of a job that has not started. Also several, as 3 5 7-9."""
    if walltime is None and priority is None:
        raise UsageError("change what? dq edit ID --walltime 2h, or --priority 5")
    walltime_s = None if walltime is None else parse_time("--walltime", walltime)

    def body(number: int) -> m.Edit:
        return m.Edit(number, walltime_s=walltime_s, priority=priority)

    return _send(job_ids, body, "is changed", as_json=as_json)


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
