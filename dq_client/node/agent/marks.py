"""Lost ranks: those on this agent's nodes that ended without leaving their job (presence.py)."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

from dq_client.base import messages as m
from dq_client.base import presence
from dq_client.node.agent.context import Context

log = logging.getLogger("dq.agent")

# Before a lost rank is reported, which ends the job everywhere: if MPI's launcher notices, too, and
# tears the job down, its exit code is the better report.
GRACE_S = 2.0


class Ranks:
    """The marks of the ranks on an agent's nodes, one folder per job instance."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._folder = presence.folder_of(context.home, context.name)
        self._since_s: dict[tuple[int, int], float] = {}  # when a rank of it was found missing
        self._told: set[tuple[int, int]] = set()

    @property
    def missing(self) -> bool:
        """Whether a rank was found missing that is not reported yet."""
        return bool(self._since_s.keys() - self._told)

    def lost(self, job: int, instance: int) -> list[int]:
        """Pids of ranks that ended without leaving the job."""
        return presence.lost(self._folder / f"{job}.{instance}")

    def look(self) -> None:
        """Report lost ranks; remove the marks of instances that are over."""
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
    """What the job's owner reads about ranks that are gone."""
    # More than one, as a rule: MPI kills the neighbours of a rank that ends in mid-run.
    which = ", ".join(map(str, gone[:10])) + (", ..." if len(gone) > 10 else "")
    return f"a rank ended without leaving the job (gone: process{'es' * (len(gone) > 1)} {which})"
