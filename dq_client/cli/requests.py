"""What the commands that send requests share: the connection, job ids, the option --json."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from dq_client import messages as m
from dq_client.bringup import connect
from dq_client.cli.values import JOB_ID
from dq_client.connection import Connection
from dq_client.errors import UsageError
from dq_client.home import Home
from dq_client.stopped_cluster import looking

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@contextmanager
def server() -> Iterator[Connection]:
    """A connection to the server of this home, closed at the end of the command."""
    connection = connect(Home.default())
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def records() -> Iterator[Connection]:
    """For a command that only shows things: if no server runs, what its journal holds."""
    with looking(Home.default()) as connection:
        yield connection


def ask(connection: Connection, body: m.RequestBody) -> Any:
    """The data that the server answers; None if the request has no data for an answer."""
    reply = connection.call(body)
    return reply.data if isinstance(reply, m.Data) else None


def resolve(connection: Connection, job_id: int) -> int:
    """The id of a job; the server is asked for that of `last` (0)."""
    return job_id or int(ask(connection, m.JobQuery(0))["id"])


RANGE = re.compile(r"([0-9]{1,15})-([0-9]{1,15})")
RANGE_MAX = 100_000  # jobs


class JobIds(click.ParamType[list[int]]):
    """A job id, `last` (0), or a range of ids: 7-9."""

    name = "ID"

    def convert(self, value: Any, param: Any, ctx: Any) -> list[int]:
        """The ids as numbers."""
        found = RANGE.fullmatch(str(value))
        if found is None:
            return [JobId().convert(value, param, ctx)]
        first, last = int(found[1]), int(found[2])
        if not 0 < first <= last < first + RANGE_MAX:
            raise UsageError(f"{value!r} is no range of job ids: give the smaller first, as 7-9")
        return list(range(first, last + 1))


class JobId(click.ParamType[int]):
    """A job id, or `last`, which becomes 0: the server takes 0 for the last job submitted."""

    name = "ID"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:  # noqa: ARG002
        """The id as a number."""
        if value == "last":
            return 0
        if JOB_ID.fullmatch(str(value)):
            return int(value)
        raise UsageError(f"{value!r} is no job id: give its number, or last")
