"""Ranks on this agent's nodes that ended without a word (dq_client/presence.py).

The launcher tells the exit code of a job that it has torn down itself, so it gets a moment before
the server hears of the lost rank and ends the job everywhere.
"""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

from dq_client import messages as m
from dq_client import presence
from dq_client.agent.context import Context

log = logging.getLogger("dq.agent")

GRACE_S = 2.0


class Ranks:
    """The marks of the ranks on an agent's nodes."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._folder = presence.folder_of(context.home, context.name)
        self._since_s: dict[tuple[int, int], float] = {}  # when a rank of it was found missing
        self._told: set[tuple[int, int]] = set()

    @property
    def missing(self) -> bool:
        """Whether somebody is missing and the server is to be told soon."""
        return bool(self._since_s.keys() - self._told)

    def lost(self, job: int, instance: int) -> list[int]:
        """Pids of ranks that are gone without having said so."""
        return presence.lost(self._folder / f"{job}.{instance}")

    def look(self) -> None:
        """Tell the server of lost ranks; clear away the marks of what is over."""
        try:
            folders = list(self._folder.iterdir())
        except OSError:
            return  # no rank was ever here
        for folder in folders:
            job, _, instance = folder.name.partition(".")
            self._look_at(folder, int(job), int(instance))

    def _look_at(self, folder: Path, job: int, instance: int) -> None:
        of, context = (job, instance), self._context
        gone = [] if of in context.closed else presence.lost(folder)
        if gone and of not in self._told:
            now = context.clock()
            if now - self._since_s.setdefault(of, now) >= GRACE_S:
                why = describe(gone)
                log.warning("job %d.%d: %s", job, instance, why)
                self._told.add(of)
                context.reports.add(f"lost {job}.{instance}", m.RankLost(job, instance, why))
        elif not context.holdings.of(*of) and f"lost {job}.{instance}" not in context.reports:
            shutil.rmtree(folder, ignore_errors=True)
            self._since_s.pop(of, None)
            self._told.discard(of)


def describe(gone: list[int]) -> str:
    """What the job's owner reads. MPI kills the neighbours of a rank that ends in mid-run."""
    which = ", ".join(map(str, gone[:10])) + (", ..." if len(gone) > 10 else "")
    return f"a rank ended without leaving the job (gone: process{'es' * (len(gone) > 1)} {which})"
