"""What earlier runs of an application have shown is offered to the next one.

Source: ReSHAPE thesis, future work. Runs belong together if their jobs have the same `application`.
When a job has ended well, the iteration times that it measured itself replace those of earlier runs
size by size. The next one starts with them: it knows gains and sweet spot without probing, and with
moldable start it starts on the sweet spot if that is free and nobody waits.

Mistrust. As soon as a size is measured again and differs from the history by more than `tolerance`,
everything in it that was not measured again is dropped, and the job probes as if it were the first
(another machine, other data under the same name). Its own figures become the history when it ends.
Kept in the state, so a replay of the journal knows at each moment what was known then.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dq_server.core.feature import Feature
from dq_server.core.model.errors import ConfigError
from dq_server.core.model.jobs import ADAPTABLE, Job, JobKind, JobState
from dq_server.core.model.options import Options
from dq_server.core.model.performance import Phases
from dq_server.core.model.reasons import because, declare
from dq_server.core.model.records import Record
from dq_server.core.model.sizes import Configuration
from dq_server.core.model.state import State
from dq_server.core.planning import INF, free
from dq_server.core.turn import Turn

APPLICATIONS_MAX = 1000  # the least recently run are forgotten

declare(
    history_known="earlier runs of {application} ({runs}) have measured {sizes} processors; {spot}",
    history_differs="{time_s:.4g} s per iteration on {size}, {expected_s:.4g} s in earlier runs:"
    " more than {pct:g} % apart, so the earlier times are no longer used",
)


@dataclass(frozen=True, slots=True)
class HistoryOptions(Options):
    """What is learned from earlier runs.

    learn      whose jobs learn: "named" (dq submit --app-name), "always" (else by program and
               arguments), "never"
    tolerance  by how much a measured time may differ from the history's, relatively
    """

    table = "history"
    short = {"history": "learn", "history_tolerance": "tolerance"}  # noqa: RUF012 - ClassVar

    learn: str = "named"
    tolerance: float = 0.25

    def validate(self) -> None:
        if self.learn not in ("named", "always", "never"):
            raise ConfigError(f'history = {self.learn!r}: "named", "always" or "never"')
        if not self.tolerance > 0:
            raise ConfigError(f"history_tolerance = {self.tolerance}: above 0 (0.25: 25 %)")


@dataclass(frozen=True, slots=True)
class AppHistory:
    """What earlier runs of one application have shown. Times in seconds."""

    times: dict[Configuration, float] = field(default_factory=dict)
    sweet_spot: Configuration | None = None
    worse: Configuration | None = None
    runs: int = 0


@dataclass(slots=True)
class Runs(Record, key="Runs"):
    """Of the state: application -> what its runs have shown, the least recently run first."""

    by_application: OrderedDict[str, AppHistory] = field(default_factory=OrderedDict)


class History(Feature):
    def entered(self, turn: Turn, job: Job) -> bool:
        """A new job: start it on its sweet spot if that may be chosen and is there for it."""
        state, known = turn.state, _known(turn, job)
        if known is None or not turn.config.moldable or state.queue:
            return False
        spot = known.sweet_spot
        wanted = job.spec.kind in ADAPTABLE and spot is not None and _legal(job, spot)
        if wanted and spot is not None and spot.size <= free(state, turn.now, INF):
            job.start_on = spot
            state.touch(job)
        return False

    def started(self, turn: Turn, job: Job) -> None:
        """A malleable job starts for the first time: it knows what is known."""
        known = _known(turn, job)
        # A restarted job has its own measurements, which are newer.
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
            at = "no sweet spot was found"
            if spot is not None and spot in data.known:
                at = f"the sweet spot is {spot.size}"
            name = job.spec.application
            reason = because(
                "history_known", application=name, runs=known.runs, sizes=sizes, spot=at
            )
            job.note(turn.now, "history", reason)

    def measured(self, turn: Turn, job: Job) -> None:
        """An iteration was recorded: does what was recalled still hold?"""
        data, at = job.performance, job.configuration
        if not data.recalled or at not in data.recalled:
            return
        if not data.measured(turn.config.samples):
            return
        expected_s, time_s = data.recalled.pop(at), data.known[at]
        tolerance = turn.config.of(HistoryOptions).tolerance
        if abs(time_s - expected_s) <= tolerance * expected_s:
            return
        for other in data.recalled:
            del data.known[other]
        data.recalled.clear()
        data.kept.clear()
        data.sweet_spot = data.worse = None
        data.mistrusts = True
        figures = {"size": at.size, "time_s": time_s, "expected_s": expected_s}
        reason = because("history_differs", pct=100 * tolerance, **figures)
        job.note(turn.now, "history", reason)

    def ended(self, turn: Turn, job: Job) -> None:
        """Keep what the job measured, if it ended well."""
        data, name = Phases.of(job).of_first(job), job.spec.application
        if job.state is not JobState.DONE or not name:
            return
        measured = {c: t for c, t in data.known.items() if c not in data.recalled}
        if not measured or turn.config.of(HistoryOptions).learn == "never":
            return
        history = Runs.of(turn.state).by_application
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

    def view(self, state: State, job: Job) -> Mapping[str, Any]:
        return {"application": job.spec.application}


def _known(turn: Turn, job: Job) -> AppHistory | None:
    name = job.spec.application
    if not name or turn.config.of(HistoryOptions).learn == "never":
        return None
    return Runs.of(turn.state).by_application.get(name)


def _legal(job: Job, configuration: Configuration) -> bool:
    return configuration in job.spec.configurations or configuration in job.spec.other_grids
