"""Rank 0's connection to the DQ server. No failure of it stops the job: the job continues."""

from __future__ import annotations

import os
import sys
import time

from dq_client import messages as m
from dq_client.errors import DQError, NoServer

ANSWER_WITHIN_S = 3.0
LOST_WITHIN_S = 10.0  # less than keepers give a job to go on in place (docs/ranks.md)
FAREWELL_WITHIN_S = 60.0
QUIET_S = 5.0  # after a time-out nothing is sent for so long: each attempt costs the job 3 s


class ServerLink:
    """Made on rank 0 (and on whichever rank becomes rank 0) from the environment of the launch."""

    def __init__(self, address: str, server_key: str, secret: str) -> None:
        # Not at import: a program without a server needs no zmq. Sessions that have one do this
        # before others wait (`load`).
        from dq_client.connection import Connection
        from dq_client.keys import pair_of

        self._connection = Connection(address, server_key, pair_of(secret))
        self._quiet_until = 0.0

    @staticmethod
    def configured() -> bool:
        """Whether DQ launched this program."""
        return all(os.environ.get(k) for k in ("DQ_SERVER", "DQ_SERVER_KEY", "DQ_JOB_KEY"))

    @staticmethod
    def load() -> None:
        """Import what a connection needs."""
        import dq_client.connection  # noqa: F401

    @classmethod
    def from_environment(cls) -> ServerLink:
        """The connection that the environment of the launch describes."""
        e = os.environ
        return cls(e["DQ_SERVER"], e["DQ_SERVER_KEY"], e["DQ_JOB_KEY"])

    def hello(self, processors: int) -> m.JobWelcome | None:
        """Report; None, with a note on standard error, if the server cannot be reached."""
        try:
            reply = self._connection.call(m.JobHello(m.PROTOCOL, processors), 10.0)
        except DQError as e:
            say(f"running without the DQ server: {e}")
            return None
        assert isinstance(reply, m.JobWelcome)
        return reply

    def remap(self, point: m.RemapPoint) -> m.RemapAnswer:
        """Ask what to do; if the server is away or refuses, the answer is: continue.

        Such an answer repeats the `preparing` of the question: an expansion under way goes on.
        """
        carry_on = m.RemapAnswer(what="continue", resize_id=point.preparing)
        if time.monotonic() < self._quiet_until:
            return carry_on
        try:
            reply = self._connection.call(point, ANSWER_WITHIN_S)
        except NoServer:
            self._quiet_until = time.monotonic() + QUIET_S
            return carry_on
        except DQError:
            return carry_on
        assert isinstance(reply, m.RemapAnswer)
        return reply

    def lost(self, processors: list[int]) -> m.RemapAnswer:
        """Ask on what to go on without these; `continue` if the job cannot, or nobody answers."""
        try:
            reply = self._connection.call(m.RanksLost(processors), LOST_WITHIN_S)
        except DQError as e:
            return m.RemapAnswer(what="continue", reason=str(e))
        assert isinstance(reply, m.RemapAnswer)
        return reply

    def ask(self, body: m.DynamicRequest | m.DynamicRelease) -> m.DynamicAnswer:
        """Ask for processors or give some back; any failure counts as rejected."""
        more = body.more if isinstance(body, m.DynamicRequest) else -body.count
        try:
            reply = self._connection.call(body, ANSWER_WITHIN_S)
        except DQError as e:
            return m.DynamicAnswer(request=body.request, what="rejected", more=more, reason=str(e))
        assert isinstance(reply, m.DynamicAnswer)
        return reply

    def tell(self, body: m.Committed | m.Aborted) -> None:
        """Report a resize's outcome. If it is lost, the next remap point makes up for it."""
        try:
            self._connection.call(body, ANSWER_WITHIN_S)
        except DQError as e:
            say(f"the server did not take note of a resize: {e}")

    def report(self, body: m.CopyMade | m.GaveUp) -> None:
        """Report something that the job does not depend on, unless the server is away."""
        if time.monotonic() < self._quiet_until:
            return
        try:
            self._connection.call(body, ANSWER_WITHIN_S)
        except NoServer:
            self._quiet_until = time.monotonic() + QUIET_S
        except DQError as e:
            say(f"the server did not take note of {type(body).__name__}: {e}")

    def farewell(self) -> None:
        """Report that the work is done: a job that was resized or protected is not done without."""
        try:
            self._connection.call(m.WorkDone(), FAREWELL_WITHIN_S)
        except DQError as e:
            say(f"the server does not know that the work is done: {e}")

    def close(self) -> None:
        """Close the socket."""
        self._connection.close()


def say(text: str) -> None:
    """A note to the job's owner."""
    print(f"dq: {text}", file=sys.stderr, flush=True)  # noqa: T201
