"""A batch system as an engine: each node of the pool is a job there, a *holder* (docs/pool.md)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from dq_client.base import opened
from dq_client.base.home import Home
from dq_client.deploy.batch.system import HolderRequest, Refusal, System, output
from dq_client.deploy.batch_settings import BatchRecord
from dq_server.live.engines.port import Has

LAST_BYTES = 4096
WORDS_MAX = 300
KILL_WAIT_S = 30.0  # where it is not known
KILL_WAIT_LEAST_S = 1.0  # an agent needs a time, also where there is none


class BatchEngine:
    """See Engine. `python`: the interpreter on the nodes, if a queue's table has none."""

    period_s = 1.0
    idle_period_s = 5.0

    def __init__(
        self, home: Home, noted: BatchRecord, systems: Mapping[str, System], python: str
    ) -> None:
        self._system = next(iter(systems.values()))  # all have the same holders
        self.name, self.at_once = self._system.name, self._system.at_once
        self._home, self._noted, self._systems = home, noted, systems
        self._pythons = {name: t.python or python for name, t in noted.queues().items()}
        self._folder = str(noted.folder(home))  # what holders read and write

    def ask(self, tickets: Sequence[int], processors: int, queue: str) -> None:
        """See Engine."""
        if queue not in self._systems:  # the cluster file has changed meanwhile
            words = ", ".join(filter(None, self._systems)) or "none"
            raise Refusal(f"{self.name}: the cluster file has queues {words}, not {queue!r}")
        known_s = self._noted.kill_wait_s
        request = HolderRequest(
            cluster=self._noted.cluster,
            tickets=tickets,
            processors=processors,
            folder=self._folder,
            python=self._pythons[queue],
            home=str(self._home.root),
            grace_s=self._noted.grace_s or 0.0,
            kill_wait_s=max(KILL_WAIT_LEAST_S, KILL_WAIT_S if known_s is None else known_s),
        )
        self._systems[queue].submit(request)

    def give(self, keys: Sequence[str]) -> None:
        """See Engine."""
        self._system.cancel(keys)

    def poll(self) -> list[Has]:
        """See Engine."""
        return self._system.holders(self._noted.cluster)

    def words(self, ticket: int) -> str:
        """See Engine: the last line of the holder's output, which tells why its agent ended."""
        path = Path(output(self._folder, ticket))
        try:
            with os.fdopen(opened.open_own(path), "rb") as f:
                f.seek(max(0, path.stat().st_size - LAST_BYTES))
                lines = f.read().decode(errors="replace").strip().splitlines()
        except OSError:
            return ""
        noise = self._system.noise
        lines = [noise.sub(lambda m: "".join(filter(None, m.groups())), x).strip() for x in lines]
        lines = [line for line in lines if line]
        return lines[-1][:WORDS_MAX] if lines else ""
