"""Whether a resize may begin: values are compared, messages under way are waited for.

A resize that finds messages under way (under_way.py) is tried again at the next remap points, each
the end of one iteration, and refused after some of them. The server sees a resize that takes long.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from dq_client.base import messages as m
from resize_lib.processes import ProcessError
from resize_lib.resize import Step, aborted
from resize_lib.same_values import differing_value
from resize_lib.server_link import say
from resize_lib.under_way import obstacle, postponed_max

if TYPE_CHECKING:
    from resize_lib.runtime import Runtime


class Postponement:
    """Of one process; all but `take` is alike on every rank."""

    def __init__(self, session: Runtime) -> None:
        self._session = session
        self._max = postponed_max()
        self._points = 0  # remap points that the resize at hand has waited
        self._later: m.RemapAnswer | None = None  # on rank 0: what the server has said
        self._refused = ""  # why the last resize was

    def take(self) -> m.RemapAnswer | None:
        """On rank 0: the order that is to be tried again now; None: there is none."""
        later, self._later = self._later, None
        return later

    def forget(self) -> None:
        """The resize is settled, or the server orders it anew."""
        self._points, self._later = 0, None

    def step_instead(self, answer: m.RemapAnswer, step: Step) -> Step:
        """What to do now, where `step` would begin a resize; collective.

        That step; or one that goes on, and the resize is tried again; or GIVE_UP: it is refused.
        """
        session = self._session
        # The job would go on with the value that rank 0 has, and lose a leaver's.
        values = session.values
        why = differing_value(session.grid.own_comm, values) if values else ""
        if not why:
            found = obstacle(session.grid, stays=step is Step.REGRID)
            if found is None:
                self.forget()
                return step
            self._points += 1
            if self._points <= self._max:
                # Ranks that were begun and are ready at once are no expansion under way yet.
                begins = step is Step.COMPLETE and session.job.expanding is None
                self._later = answer if session.rank == 0 and not begins else None
                return Step.BEGIN if begins else Step.CONTINUE
            why = found.text(self._max)
        self.forget()
        self._refuse(answer, why)
        return Step.GIVE_UP

    def _refuse(self, answer: m.RemapAnswer, why: str) -> None:
        """Give the resize up before anything has changed."""
        session = self._session
        begun, session.job.expanding = session.job.expanding, None
        if session.rank == 0:
            with suppress(ProcessError):
                session.backend.cancel_expand()
            if why != self._refused:
                say(why)
        self._refused = why
        aborted(session, answer if begun is None else begun, why)
