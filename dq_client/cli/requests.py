"""What the commands that send requests share: the connection, job ids, the option --json."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager, closing
from typing import TYPE_CHECKING, Any

import click

from dq_client.base import messages as m
from dq_client.base.connection import Connection, ask
from dq_client.base.errors import DQError, UsageError
from dq_client.base.home import Home
from dq_client.base.values import JOB_ID
from dq_client.deploy.stopped_cluster import looking

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def server() -> closing[Connection]:
    """A connection to the server of this home, closed at the end of the command."""
    return closing(Connection.to(Home.default()))


def records() -> AbstractContextManager[Connection]:
    """For a command that only shows things: if no server runs, what its journal holds."""
    return looking(Home.default())


def cluster_now(connection: Connection) -> float:
    """The cluster's time, which the times in answers are of (dq_server/live/clock.py)."""
    return float(ask(connection, m.StatusQuery())["now_s"])


def resolve(connection: Connection, job_id: int) -> int:
    """The id of a job; the server is asked for that of `last` (0)."""
    return job_id or int(ask(connection, m.JobQuery(0))["id"])


RANGE = r"([0-9]{1,15})-([0-9]{1,15})"
RANGE_MAX = 100_000  # jobs
COMPLETED_MAX, COMPLETED_WITHIN_S = 100, 1.0  # ids that a shell is offered, and its patience


def completed_ids(incomplete: str, *, active_only: bool) -> list[CompletionItem]:
    """Ids of the newest jobs that begin like `incomplete`, for a shell; none without a server.

    Silent whatever happens: a message would land in the line that the user is typing.
    """
    from click.shell_completion import CompletionItem

    try:
        with server() as connection:
            reply = connection.call(m.JobsQuery(active_only), COMPLETED_WITHIN_S)
    except (DQError, OSError):
        return []
    jobs = reply.data if isinstance(reply, m.Data) else []
    # No job's name is shown: it is text of others, and the shells' protocol has no quoting.
    found = [
        CompletionItem(str(j["id"]), help=j["state"])
        for j in reversed(jobs)
        if str(j["id"]).startswith(incomplete)
    ][:COMPLETED_MAX]
    last = "last".startswith(incomplete) and bool(jobs)
    return [*found, CompletionItem("last")] if last else found


class JobIds(click.ParamType[list[int]]):
    """A job id, `last` (0), or a range of ids: 7-9."""

    name = "ID"

    def convert(self, value: Any, param: Any, ctx: Any) -> list[int]:
        """The ids as numbers."""
        found = re.fullmatch(RANGE, str(value))
        if found is None:
            return [JobId().convert(value, param, ctx)]
        first, last = int(found[1]), int(found[2])
        if not 0 < first <= last < first + RANGE_MAX:
            raise UsageError(f"{value!r} is no range of job ids: give the smaller first, as 7-9")
        return list(range(first, last + 1))

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """Jobs that have not ended: there is nothing to do to others."""
        return completed_ids(incomplete, active_only=True)


class JobId(click.ParamType[int]):
    """A job id, or `last`, which becomes 0: the server takes 0 for the last job submitted."""

    name = "ID"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:  # noqa: ARG002
        """The id as a number."""
        if value == "last":
            return 0
        if re.fullmatch(JOB_ID, str(value)):
            return int(value)
        raise UsageError(f"{value!r} is no job id: give its number, or last")

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """All jobs: those that have ended can be looked at, too."""
        return completed_ids(incomplete, active_only=False)
