"""When waiting jobs will start: `dq sim forecast` of the server's journal, in its own process."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from dq_client.base.errors import DQError, NotFound, Timeout
from dq_client.base.home import Home

DRAWS = 30  # simulations
WITHIN_S = 15.0
KEPT_S, FAILED_KEPT_S = 20.0, 300.0  # on the page

# earliest_s, median_s, latest_s: seconds until the start; None: it does not start in the simulation
Start = dict[str, float | None]


def start_forecasts(home: Home, now_s: float) -> dict[int, Start]:
    """Return by queued job when it starts, in seconds from `now_s` (the cluster's time) on.

    The chance is about 80 % that it starts between `earliest_s` and `latest_s`.

    Raises:
        DQError: there is no forecast, and why.
    """
    if not home.journal.exists():
        raise NotFound("no forecast: the server's journal is not on this machine")
    words = [sys.executable, "-P", "-m", "dq_server.sim.forecast_command", str(home.journal),
             "--at", str(now_s), "--draws", str(DRAWS), "--json"]  # fmt: skip
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    except subprocess.TimeoutExpired as e:
        raise Timeout(
            f"no forecast within {WITHIN_S:g} s; try dq sim forecast {home.journal}"
        ) from e
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise DQError(f"no forecast: {said[-1] if said else f'exit code {done.returncode}'}")
    found = json.loads(done.stdout)
    return {row["job"]: row["starts"]["as it is"] for row in found["jobs"]}


class NewestForecast:
    """A forecast for readers that ask often: one is made at a time, and kept for a while.

    now_s  returns the cluster's time, or raises DQError
    """

    def __init__(self, home: Home, now_s: Callable[[], float]) -> None:
        self._home, self._now_s, self._lock = home, now_s, threading.Lock()
        self._until = 0.0  # monotonic
        self._kept: dict[str, Any] = {}

    def read(self) -> dict[str, Any]:
        """Return `at_s`, the cluster's time, `starts` by job, and `error`: why there are none."""
        with self._lock:
            if time.monotonic() < self._until:
                return self._kept
            at_s, starts, error, kept_s = 0.0, dict[int, Start](), "", KEPT_S
            try:
                at_s = self._now_s()
                starts = start_forecasts(self._home, at_s)
            except DQError as e:
                error, kept_s = str(e), FAILED_KEPT_S
            self._kept = {"at_s": at_s, "starts": starts, "error": error}
            self._until = time.monotonic() + kept_s
            return self._kept
