"""The end of a server whose cluster lies in one allocation of Slurm (`dq up --cluster slurm`).

The agents end with the allocation, as they are a step of it. The server has left the batch script's
process session, where only control groups find it. So it asks Slurm itself, but only while it has
no node: no request is spent on an allocation that is in use.
"""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import dataclass

from dq_client.base.home import Home
from dq_client.deploy import batch_settings
from dq_client.deploy.batch.system import Refusal, TicketPhase, Unclear
from dq_client.deploy.slurm import commands

ASKS_S = 5.0  # between two questions
WITHIN_S = 20.0  # for an answer

log = logging.getLogger("dq.server")


@dataclass(slots=True)
class AllocationWatch:
    """Watches one allocation; `job`: Slurm's number of it."""

    job: str
    _due_s: float = 0.0
    _asking: threading.Thread | None = None
    _over: bool = False

    def is_over(self, now: float, *, has_nodes: bool) -> bool:
        """Whether Slurm has ended the allocation, as far as it has answered; `now`: monotonic."""
        asking = self._asking is not None and self._asking.is_alive()
        if not (self._over or has_nodes or asking) and now >= self._due_s:
            self._due_s = now + ASKS_S
            self._asking = threading.Thread(target=self._ask, daemon=True)
            self._asking.start()
        return self._over

    def _ask(self) -> None:
        words = ["squeue", "--noheader", "--states=all", f"--jobs={self.job}", "--format=%T"]
        try:
            state = commands.run(words, WITHIN_S).strip()
        except Refusal as e:  # it forgets an ended job after minutes
            self._over = "invalid job id" in str(e).lower()
            log.info("allocation %s: %s", self.job, e)
        except Unclear as e:
            log.info("allocation %s: %s", self.job, e)
        else:
            phase = commands.STATES.get(state, TicketPhase.ENDED)
            self._over = bool(state) and phase is TicketPhase.ENDED


def watch(home: Home) -> AllocationWatch | None:
    """For the server of this home; None if its cluster does not lie in an allocation."""
    noted, job = batch_settings.noted(home), os.environ.get("SLURM_JOB_ID", "")
    return AllocationWatch(job) if noted is not None and noted.allocated and job else None
