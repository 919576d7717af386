"""The agents' supervisor, which the server starts again if it is killed.

The supervisor starts agents again (dq_client/deploy/supervisor.py). Killed together with an agent,
it would leave a cluster that nobody mends. Its file says that it is to be there: it removes the
file when it ends in order.
"""

from __future__ import annotations

import logging
import subprocess
from dataclasses import dataclass

from dq_client.base.errors import DQError
from dq_client.base.home import Home
from dq_client.deploy import local
from dq_client.node import supervision

LOOK_S = 0.5
WAITS_S = 5.0  # whoever has started this server may start that, too; before another try
EXCUSES_S = 10.0  # how long agents may be silent because no supervisor is there

log = logging.getLogger("dq.server")


@dataclass(slots=True)
class Supervised:
    """Looks for the supervisor of one home."""

    home: Home
    _from_s: float | None = None  # from then on it is started again
    _due_s: float = 0.0
    _started: subprocess.Popen[bytes] | None = None
    _missed_s: float | None = None

    def look(self, now: float) -> bool:
        """Start the supervisor if it was killed; `now`: monotonic seconds.

        Returns:
            Whether agents are silent for want of it: one that was killed, too, waits for its start.
        """
        if self._from_s is None:
            self._from_s = now + WAITS_S
        if now >= self._due_s:
            self._due_s = now + LOOK_S
            starts = self._started is not None and self._started.poll() is None
            if not supervision.was_killed(self.home):
                self._from_s, self._missed_s = now, None
            elif not starts and now >= self._from_s:
                self._start(now)
        return self._missed_s is not None and now < self._missed_s + EXCUSES_S

    def _start(self, now: float) -> None:
        self._from_s = now + WAITS_S
        if self._missed_s is None:
            self._missed_s = now
        try:
            self._started = local.start_again(self.home)
            log.warning("the supervisor of the agents was killed: started again")
        except (DQError, OSError) as e:
            log.warning("the supervisor of the agents cannot be started again: %s", e)
