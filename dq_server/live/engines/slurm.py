"""Slurm as an engine: each node of the pool is a Slurm job, a *holder* (docs/slurm.md)."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from dq_client.base import opened
from dq_client.base.errors import DQError
from dq_client.base.home import Home
from dq_client.deploy.slurm import commands
from dq_client.deploy.slurm.commands import Holder, SlurmAway, SlurmJobState
from dq_client.deploy.slurm.script import HolderRequest, output, script, submission
from dq_client.deploy.slurm_settings import SlurmRecord
from dq_server.live.engines.port import Has, Refusal, TicketPhase, Unclear

LAST_BYTES = 4096
CANCELLED = re.compile(r".*\*\*\* .* CANCELLED AT \S+( DUE TO [A-Z ]+)? \*\*\*.*")
WORDS_MAX = 300
PHASE = {
    SlurmJobState.PENDING: TicketPhase.PENDING,
    SlurmJobState.RUNNING: TicketPhase.RUNNING,
    SlurmJobState.ENDING: TicketPhase.REVOKED,
    SlurmJobState.ENDED: TicketPhase.ENDED,
}


class SlurmEngine:
    """See Engine."""

    period_s = 1.0
    idle_period_s = 5.0

    def __init__(self, home: Home, noted: SlurmRecord, python: str) -> None:
        self._home, self._noted = home, noted
        self._python = noted.slurm.python or python
        self._within_s = noted.slurm.answer_within_s
        self._folder = str(noted.folder(home))  # what holders read and write

    def ask(self, ticket: int, processors: int) -> None:
        """See Engine."""
        noted = self._noted
        ask = HolderRequest(
            cluster=noted.cluster,
            ticket=ticket,
            processors=processors,
            folder=self._folder,
            python=self._python,
            home=str(self._home.root),
            grace_s=noted.grace_s or 0.0,
            kill_wait_s=noted.kill_wait_s,
        )
        try:
            commands.run(submission(ask), self._within_s, script(ask, noted.slurm))
        except SlurmAway as e:
            raise Unclear(str(e)) from e
        except DQError as e:
            raise Refusal(str(e)) from e

    def give(self, keys: Sequence[int]) -> None:
        """See Engine."""
        try:
            commands.cancel(keys, self._within_s)
        except SlurmAway as e:
            raise Unclear(str(e)) from e
        except DQError as e:
            raise Refusal(str(e)) from e

    def poll(self) -> list[Has]:
        """See Engine."""
        try:
            found = commands.holders(self._noted.cluster, self._within_s)
        except SlurmAway as e:
            raise Unclear(str(e)) from e
        except DQError as e:
            raise Refusal(str(e)) from e
        return [Has(h.ticket, h.job, PHASE[h.place], h.why, h.node, self._left_s(h)) for h in found]

    def _left_s(self, holder: Holder) -> float | None:
        """Of its time; of one that was told to end, until Slurm kills what is left."""
        left_s = holder.left_s
        if left_s is None:
            return None
        if holder.place is SlurmJobState.ENDING:  # since when is known to a second
            left_s += self._noted.kill_wait_s + 1.0
        return max(0.0, left_s)

    def words(self, ticket: int) -> str:
        """See Engine: the last line of the holder's output, which tells why its agent ended.

        Of Slurm's own line that the job is cancelled only the cause counts: "DUE TO TIME LIMIT".
        """
        path = Path(output(self._folder, ticket))
        try:
            with os.fdopen(opened.open_own(path), "rb") as f:
                f.seek(max(0, path.stat().st_size - LAST_BYTES))
                lines = f.read().decode(errors="replace").strip().splitlines()
        except OSError:
            return ""
        lines = [CANCELLED.sub(r"\1", line).strip() for line in lines if "srun:" not in line]
        lines = [line for line in lines if line]
        return lines[-1][:WORDS_MAX] if lines else ""
