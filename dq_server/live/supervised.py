"""The agents' supervisor, which the server starts again if it is killed.

The supervisor starts agents again (dq_client/deploy/supervisor.py). Killed together with an agent,
it would leave a cluster that nobody mends. Its file says that it is to be there: it removes the
file when it ends in order.
"""

from __future__ import annotations

import logging
import subprocess
from dataclasses import dataclass, field

from dq_client.base.errors import DQError
from dq_client.base.home import Home
from dq_client.deploy import local
from dq_client.node import supervision

LOOK_S = 1.0
STARTS_WITHIN_S = 5.0  # until then its file may be of the one before

log = logging.getLogger("dq.server")


@dataclass(slots=True)
class Supervised:
    """Looks for the supervisor of one home."""

    home: Home
    _due_s: float | None = None
    _started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def look(self, now: float) -> None:
        """Start the supervisor if it was killed; `now`: monotonic seconds."""
        if self._due_s is None:  # whoever starts this server may be about to start that, too
            self._due_s = now + STARTS_WITHIN_S
        if now < self._due_s:
            return
        self._due_s = now + LOOK_S
        self._started = [each for each in self._started if each.poll() is None]
        if not supervision.was_killed(self.home):
            return
        self._due_s = now + STARTS_WITHIN_S
        try:
            self._started.append(local.start_again(self.home))
            log.warning("the supervisor of the agents was killed: started again")
        except (DQError, OSError) as e:
            log.warning("the supervisor of the agents cannot be started again: %s", e)
