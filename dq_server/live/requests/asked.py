"""A request with its circumstances, and what the handlers of all roles share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dq_client import __version__
from dq_client import messages as m
from dq_server.core.model.errors import UnknownJob
from dq_server.core.model.jobs import Job
from dq_server.live.access import Principal

if TYPE_CHECKING:
    from dq_server.live.server import Server

VERSION = __version__


class Asked:
    """A request with its circumstances."""

    __slots__ = ("body", "identity", "principal", "request_id")

    def __init__(self, identity: bytes, principal: Principal, request: m.Request) -> None:
        self.identity, self.principal = identity, principal
        self.request_id, self.body = request.id, request.body


Table = dict[type, Callable[["Server", Asked, Any], m.ReplyBody | None]]


def other_protocol(spoken: int) -> m.Error | None:
    """The refusal of a peer that speaks another version of the protocol."""
    if spoken == m.PROTOCOL:
        return None
    return m.Error(
        "refused",
        f"this server speaks protocol {m.PROTOCOL}, the client {spoken}:"
        " install the same version of dq on both sides",
    )


def the_job(server: Server, job_id: int) -> Job:
    """The job; 0 stands for the last one submitted."""
    state = server.scheduler.state
    if job_id == 0:
        if not state.jobs:
            raise UnknownJob("no job has been submitted yet")
        job_id = max(state.jobs)
    return state.job(job_id)
