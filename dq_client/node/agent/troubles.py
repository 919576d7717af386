"""What goes wrong with this agent's disk and ends no job: said in heartbeats, and once logged."""

from __future__ import annotations

import logging

from dq_client.base import messages as m
from dq_client.base import storage
from dq_client.base.home import Home

log = logging.getLogger("dq.agent")

NODE = 0  # instead of a job: nothing can be started here


class Troubles:
    """By job; NODE for what concerns all."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._known: dict[int, str] = {}

    def cannot_start(self) -> str:
        """Why no ranks can be started here at present; empty: they can.

        By a trial: keepers and ranks write, too, and what they fail at ends their job.
        """
        self.tell(NODE, storage.fault(self._home.root, flush=False))
        return self._known.get(NODE, "")

    def tell(self, job: int, text: str) -> None:
        """It is so from now on; an empty text: it is over."""
        if text and self._known.get(job) != text:
            about = f"job {job}: " if job else ""
            log.warning("%s%s", about, text)
        if text:
            self._known[job] = text
        else:
            self._known.pop(job, None)

    def list(self) -> list[m.Trouble]:
        """What a heartbeat says."""
        if NODE in self._known:
            self.cannot_start()
        return [m.Trouble(job, text[:4000]) for job, text in self._known.items()]
