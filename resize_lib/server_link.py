"""Rank 0's connection to the DQ server. No failure of it stops the job: the job continues."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dq_client.base import messages as m
from dq_client.base.errors import DQError, NoServer, NotNow

if TYPE_CHECKING:
    from dq_client.base.connection import Question

ANSWER_WITHIN_S = 3.0
LOST_WITHIN_S = 10.0  # less than keepers give a job to go on in place (docs/ranks.md)
FAREWELL_WITHIN_S = 60.0
HELLO_WITHIN_S = 20.0  # a standby takes half of that to become the server
RESTART_WITHIN_S = 10.0  # unanswered, the job goes on, and the server hears of it at a remap point
NOT_NOW_S = 1.0  # until a server that cannot save anything at present is asked again
QUIET_S = 5.0  # after a time-out nothing is sent for so long: each attempt costs the job 3 s


@dataclass(slots=True)
class OpenRemap:
    """A question at a remap point that the job has not heard the answer to."""

    carry_on: m.RemapAnswer  # if there will be none
    question: Question | None = None  # None: it was not sent
    answer: m.RemapAnswer | None = None  # once it is known
    until_s: float = field(default_factory=lambda: time.monotonic() + ANSWER_WITHIN_S)


class ServerLink:
    """Made on rank 0 (and on whichever rank becomes rank 0) from the environment of the launch."""

    def __init__(self, address: str, server_key: str, secret: str) -> None:
        # Not at import: a program without a server needs no zmq. Sessions that have one do this
        # before others wait (`load`).
        from dq_client.base.connection import Connection
        from dq_client.base.keys import pair_of

        def connect(address: str) -> Connection:
            return Connection(address, server_key, pair_of(secret))

        self._connect = connect
        self._address = moved_to() or address
        self._connection = self._connect(self._address)
        self._quiet_until = 0.0
        self._open: OpenRemap | None = None
        self._let_in = 0  # the connection's handshakes before the last report

    @staticmethod
    def configured() -> bool:
        """Whether DQ launched this program."""
        return all(os.environ.get(k) for k in ("DQ_SERVER", "DQ_SERVER_KEY", "DQ_JOB_KEY"))

    @staticmethod
    def load() -> None:
        """Import what a connection needs."""
        import dq_client.base.connection  # noqa: F401
        from dq_client.base import codec

        codec.from_server()

    @classmethod
    def from_environment(cls) -> ServerLink:
        """The connection that the environment of the launch describes."""
        e = os.environ
        return cls(e["DQ_SERVER"], e["DQ_SERVER_KEY"], e["DQ_JOB_KEY"])

    def hello(self, processors: int, legal: Sequence[int] = ()) -> m.JobWelcome | None:
        """Report; None, with a note on standard error, if the server cannot be reached.

        legal: the sizes that the program can run on; empty: all.
        """
        try:
            hello = m.JobHello(m.PROTOCOL, processors, list(legal))
            reply = self._until_saved(hello, HELLO_WITHIN_S)
        except DQError as e:
            say(f"running without the DQ server: {e}")
            return None
        assert isinstance(reply, m.JobWelcome)
        return reply

    def joining(self, resize_id: int) -> m.JobWelcome:
        """Where ranks that were started for this resize will be in the job.

        Raises:
            DQError: the server is away, or does not wait for them any more.
        """
        reply = self._call(m.JobJoining(m.PROTOCOL, resize_id), 10.0)
        assert isinstance(reply, m.JobWelcome)
        return reply

    def say_where(self, report: m.RankReport, within_s: float) -> None:
        """Tell where a rank is.

        Raises:
            DQError: the server is away.
        """
        self._call(report, within_s)

    def remap(self, point: m.RemapPoint) -> m.RemapAnswer:
        """Ask what to do; if the server is away or refuses, the answer is: continue.

        Such an answer repeats the `preparing` of the question: an expansion under way goes on.
        """
        self.begin_remap(point)
        answer = self.remap_answer(wait=True)
        assert answer is not None, "it waits"
        return answer

    def begin_remap(self, point: m.RemapPoint) -> None:
        """Ask what to do, and go on; one question at a time."""
        assert self._open is None, "the answer before has not been taken"
        self._open = OpenRemap(m.RemapAnswer(what="continue", resize_id=point.preparing))
        if time.monotonic() < self._quiet_until:
            self._open.answer = self._open.carry_on
            return
        self._follow_server()
        try:
            self._open.question = self._connection.begin(point)
            self._connection.check_refused()
        except NoServer:
            self._give_up(self._open)
        except DQError:
            self._open.answer = self._open.carry_on
        self._connection.orders.clear()
        self._let_in = self._connection.handshakes

    def rung(self) -> bool:
        """Whether a job that rests is to report: the server has rung, or the connection was made
        anew since the last report, and a ring may be lost."""
        connection = self._connection
        try:
            while (message := connection.receive()) is not None:
                if isinstance(message, m.Order):
                    connection.orders.append(message)
            connection.check_refused()
        except DQError:
            return True
        return bool(connection.orders) or connection.handshakes > self._let_in

    def remap_word(self) -> str:
        """What the answer to `begin_remap` says to do; empty if it has not come."""
        asked = self._open
        assert asked is not None, "something was asked"
        self._look(asked, 0.0)
        return "" if asked.answer is None else asked.answer.what

    def remap_answer(self, *, wait: bool) -> m.RemapAnswer | None:
        """Take the answer to `begin_remap`; None if it has not come.

        wait: until it comes, or ANSWER_WITHIN_S since it was asked for are over.
        """
        asked = self._open
        assert asked is not None, "something was asked"
        self._look(asked, 0.0)
        while wait and asked.answer is None:
            self._look(asked, 0.25)
        if asked.answer is not None:
            self._open = None
        return asked.answer

    def _look(self, asked: OpenRemap, timeout_s: float) -> None:
        if asked.answer is not None or asked.question is None:
            return
        try:
            reply = asked.question.poll(timeout_s)
        except NoServer:
            self._give_up(asked)
            return
        except DQError:
            asked.answer = asked.carry_on
            return
        if isinstance(reply, m.RemapAnswer):
            asked.answer = reply
        elif reply is not None:  # an error: it refuses
            asked.answer = asked.carry_on
        elif time.monotonic() > asked.until_s:
            self._give_up(asked)

    def _give_up(self, asked: OpenRemap) -> None:
        self._quiet_until = time.monotonic() + QUIET_S
        asked.answer = asked.carry_on

    def _call(self, body: m.RequestBody, within_s: float) -> m.ReplyBody:
        """Ask and wait; the reply to an earlier question is kept."""
        while self._open is not None and self._open.answer is None:
            self._look(self._open, 0.25)
        while True:
            self._follow_server()
            try:
                return self._connection.call(body, within_s, unless=self.has_moved)
            except NoServer:
                if not self.has_moved():
                    raise

    def has_moved(self) -> bool:
        """Whether a standby has become the server (docs/standby.md)."""
        return moved_to() not in ("", self._address)

    def _follow_server(self) -> None:
        """Change over if it has."""
        if self.has_moved():
            self._connection.close()
            self._address = moved_to()
            self._connection = self._connect(self._address)

    def _until_saved(self, body: m.RequestBody, within_s: float) -> m.ReplyBody:
        """The same, however long the server has no room to save it (live/store/read_only.py).

        For what the job's end depends on, or all of its life: later nobody would make up for it.
        """
        told = False
        while True:
            try:
                return self._call(body, within_s)
            except NotNow as e:
                if not told:
                    say(f"the server cannot take note of {type(body).__name__} yet: {e}")
                told = True
                time.sleep(NOT_NOW_S)

    def lost(self, processors: list[int]) -> m.RemapAnswer:
        """Ask on what to go on without these; `continue` if the job cannot, or nobody answers."""
        try:
            reply = self._call(m.RanksLost(processors), LOST_WITHIN_S)
        except DQError as e:
            return m.RemapAnswer(what="continue", reason=str(e))
        assert isinstance(reply, m.RemapAnswer)
        return reply

    def ask(self, body: m.DynamicRequest | m.DynamicRelease) -> m.DynamicAnswer:
        """Ask for processors or give some back; any failure counts as rejected."""
        more = body.more if isinstance(body, m.DynamicRequest) else -body.count
        try:
            reply = self._call(body, ANSWER_WITHIN_S)
        except DQError as e:
            return m.DynamicAnswer(request=body.request, what="rejected", more=more, reason=str(e))
        assert isinstance(reply, m.DynamicAnswer)
        return reply

    def tell(self, body: m.Committed | m.Aborted) -> None:
        """Report a resize's outcome. If it is lost, the next remap point makes up for it."""
        try:
            self._call(body, ANSWER_WITHIN_S)
        except DQError as e:
            say(f"the server did not take note of a resize: {e}")

    def resizes_by_restart(self) -> None:
        """Tell that a resize ends all ranks: the server lets them end only if it knows."""
        try:
            self._call(m.ResizesByRestart(), ANSWER_WITHIN_S)
        except DQError as e:
            say(f"this job keeps its size: the server does not know how it is resized: {e}")

    def restart_ready(self, resize_id: int) -> str:
        """All ranks would end for this resize now: why they must not; empty: they may."""
        try:
            self._call(m.RestartReady(resize_id), RESTART_WITHIN_S)
        except DQError as e:
            return str(e)
        return ""

    def restarted(self, resize_id: int) -> bool:
        """The new ranks have their data; whether the server knows it now."""
        try:
            self._call(m.Committed(resize_id=resize_id), ANSWER_WITHIN_S)
        except DQError:  # it will, at the next remap point
            return False
        return True

    def report(self, body: m.CopyMade | m.GaveUp) -> None:
        """Report something that the job does not depend on, unless the server is away."""
        if time.monotonic() < self._quiet_until:
            return
        try:
            self._call(body, ANSWER_WITHIN_S)
        except NoServer:
            self._quiet_until = time.monotonic() + QUIET_S
        except DQError as e:
            say(f"the server did not take note of {type(body).__name__}: {e}")

    def farewell(self, resize_id: int) -> None:
        """Report that the work is done: a job that was resized or protected is not done without.

        resize_id: the last resize that was carried out, 0 if there was none
        """
        try:
            self._until_saved(m.WorkDone(resize_id), FAREWELL_WITHIN_S)
        except DQError as e:
            say(f"the server does not know that the work is done: {e}")

    def close(self) -> None:
        """Close the socket."""
        self._connection.close()


def moved_to() -> str:
    """Where this node's agent has its server; empty: it does not say."""
    path = os.environ.get("DQ_SERVER_FILE", "")
    if not path:
        return ""
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""


def say(text: str) -> None:
    """A note to the job's owner."""
    print(f"dq: {text}", file=sys.stderr, flush=True)  # noqa: T201
