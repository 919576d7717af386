"""What earlier runs of an application have shown is offered to the next one.

Source: ReSHAPE thesis, future work. Runs belong together if their jobs have the same `application`.
When a job has ended well, the iteration times that it measured itself replace those of earlier runs
size by size. The next one starts with them: it knows gains and sweet spot without probing, and with
moldable start it starts on the sweet spot if that is free and nobody waits.

Mistrust. As soon as a size is measured again and differs from the history by more than
`history_tolerance`, everything in it that was not measured again is dropped, and the job probes as
if it were the first (another machine, other data under the same name). Its own figures become the
history when it ends. Kept in the state, so a replay of the journal knows at each moment what was
known then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dq_server.core.jobs import Job, JobKind, JobState
from dq_server.core.performance import AppHistory
from dq_server.core.planning import INF, free
from dq_server.core.policies.fitting import ADAPTABLE
from dq_server.core.reasons import because
from dq_server.core.sizes import Configuration

if TYPE_CHECKING:
    from dq_server.core.scheduler import Scheduler

APPLICATIONS_MAX = 1000  # the least recently run are forgotten


def prefer(s: Scheduler, job: Job, now: float) -> None:
    """A new job: start it on its sweet spot if that may be chosen and is there for the taking."""
    state, known = s.state, _known(s, job)
    if known is None or not s.config.moldable or job.spec.kind not in ADAPTABLE or state.queue:
        return
    spot = known.sweet_spot
    if spot is not None and _legal(job, spot) and spot.size <= free(state, now, INF):
        job.start_on = spot


def recall(s: Scheduler, job: Job, now: float) -> None:
    """A malleable job starts for the first time: it knows what is known."""
    known = _known(s, job)
    if known is None or job.spec.kind is not JobKind.MALLEABLE or job.instance > 1:
        return
    data = job.performance
    data.recalled = {c: time_s for c, time_s in known.times.items() if _legal(job, c)}
    data.known = dict(data.recalled)
    spot = known.sweet_spot
    if spot in data.known:
        data.sweet_spot, data.worse = spot, known.worse
    if data.known:
        sizes = ", ".join(str(size) for size in sorted({c.size for c in data.known}))
        at = f"the sweet spot is {spot.size}" if spot in data.known else "no sweet spot was found"
        name = job.spec.application
        reason = because("history_known", application=name, runs=known.runs, sizes=sizes, spot=at)
        job.note(now, "history", reason)


def check(s: Scheduler, job: Job, now: float) -> None:
    """An iteration was recorded: does what was recalled still hold?"""
    data, at = job.performance, job.configuration
    if not data.recalled or at not in data.recalled or not data.measured(s.config.samples):
        return
    expected_s, time_s = data.recalled.pop(at), data.known[at]
    tolerance = s.config.history_tolerance
    if abs(time_s - expected_s) <= tolerance * expected_s:
        return
    for other in data.recalled:
        del data.known[other]
    data.recalled.clear()
    data.kept.clear()
    data.sweet_spot = data.worse = None
    data.mistrusts = True
    figures = {"size": at.size, "time_s": time_s, "expected_s": expected_s}
    job.note(now, "history", because("history_differs", pct=100 * tolerance, **figures))


def remember(s: Scheduler, job: Job, to: JobState) -> None:
    """A job has ended: keep what it measured, if it ended well."""
    data, name, history = job.performance, job.spec.application, s.state.history
    measured = {c: t for c, t in data.known.items() if c not in data.recalled}
    if to is not JobState.DONE or not name or not measured or s.config.history == "never":
        return
    old = history.pop(name, None)
    if old is None or data.mistrusts:
        old = AppHistory()
    history[name] = AppHistory(
        old.times | measured,
        data.sweet_spot or old.sweet_spot,
        data.worse or old.worse,
        old.runs + 1,
    )
    while len(history) > APPLICATIONS_MAX:
        history.popitem(last=False)


def _known(s: Scheduler, job: Job) -> AppHistory | None:
    name = job.spec.application
    return s.state.history.get(name) if name and s.config.history != "never" else None


def _legal(job: Job, configuration: Configuration) -> bool:
    return configuration in job.spec.configurations or configuration in job.spec.other_grids
