"""Ranks that have met many others leave first: MPI keeps memory of each as long as a rank runs.

MPICH 5 keeps 93 KiB of every rank that a rank was ever connected to (docs/ranks.md) and gives it
back when the rank ends. A shrink gives back the processors that came last, so the first ranks of a
job that is resized for weeks would grow all the time. Where more than `most` ranks have joined
since a rank did, it leaves in place of one of the last ones: any rank may, the first too.
"""

from __future__ import annotations

from dataclasses import dataclass

from dq_server.core.model.errors import ConfigError
from dq_server.core.model.jobs import Job
from dq_server.core.model.launching import Launching
from dq_server.core.model.options import Options
from dq_server.core.model.reasons import because, declare
from dq_server.core.model.worlds import Worlds
from dq_server.core.turn import Turn

declare(
    long_met="the ranks on processors {leaving} leave, not the last ones: {met} others have joined"
    " since that on {oldest} started, more than {most}, and MPI keeps memory of each",
)


@dataclass(frozen=True, slots=True)
class MeetingOptions(Options):
    """most  ranks that joined a job while one of its ranks ran; at 93 KiB each some 93 MB"""

    table = "meetings"

    most: int = 1000

    def validate(self) -> None:
        if self.most < 1:
            raise ConfigError(f"[scheduler.meetings] most = {self.most}: at least 1 rank")


def rotated(turn: Turn, job: Job, count: int) -> tuple[int, ...] | None:
    """Which processors a shrink by `count` gives back, in the job's order; None: the last."""
    if job.launching is not Launching.JOIN:  # rank 0 stays elsewhere, or all of them go
        return None
    most, worlds = turn.options(MeetingOptions).most, Worlds.of(job)
    by_met = sorted(job.allocation, key=worlds.met, reverse=True)
    old = {p for p in by_met[:count] if worlds.met(p) > most}
    others = [p for p in job.allocation if p not in old]
    chosen = old.union(others[len(others) - (count - len(old)) :])
    leaving = tuple(p for p in job.allocation if p in chosen)
    if leaving == tuple(job.allocation[-count:]):
        return None
    said = because(
        "long_met",
        leaving=", ".join(map(str, leaving)),
        oldest=by_met[0],
        met=worlds.met(by_met[0]),
        most=most,
    )
    job.note(turn.now, "ranks", said)
    return leaving
