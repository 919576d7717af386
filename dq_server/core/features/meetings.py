"""Ranks that have met many others leave first: MPI keeps memory of each as long as a rank runs.

MPICH 5 keeps 93 KiB of every rank that a rank was ever connected to (docs/ranks.md) and gives it
back when the rank ends. A shrink gives back the processors that came last, so the first ranks of a
job that is resized for weeks would grow all the time. Where more than `most` ranks have joined
since a rank did, it leaves in place of one of the last ones: any rank may, the first too.
"""

from __future__ import annotations

from dq_server.core.feature import Feature
from dq_server.core.model.jobs import Job
from dq_server.core.model.launching import Launching
from dq_server.core.model.meetings import MeetingOptions
from dq_server.core.model.reasons import because, declare
from dq_server.core.model.worlds import Worlds
from dq_server.core.turn import Turn

declare(
    long_met="the ranks on processors {leaving} leave, not the last ones: {met} others have joined"
    " since that on {oldest} started, more than {most}, and MPI keeps memory of each",
)


class Meetings(Feature):
    """See the module's docstring."""

    def leaving(self, turn: Turn, job: Job, count: int) -> tuple[int, ...] | None:
        """See Feature."""
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
