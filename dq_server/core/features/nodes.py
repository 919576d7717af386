"""Nodes come and go, grants are paused, and time passes (walltimes)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dq_server.core.feature import Feature, handles
from dq_server.core.model import events as ev
from dq_server.core.model.actions import WarnJob
from dq_server.core.model.decisions import Ending
from dq_server.core.model.errors import ConfigError
from dq_server.core.model.jobs import Job, JobState
from dq_server.core.model.options import Options
from dq_server.core.model.reasons import because, declare
from dq_server.core.model.state import State
from dq_server.core.model.worlds import Worlds
from dq_server.core.turn import Turn

LEAVE_WITHIN_S_MAX = 7 * 86400.0

declare(
    walltime="the walltime of {walltime_s:g} s was exceeded",
    walltime_warning="{left_s:g} s of the walltime of {walltime_s:g} s are left",
)


@dataclass(frozen=True, slots=True)
class NodeOptions(Options):
    """How nodes come and go.

    leave_within_s  how long an agent that is told to go waits for its nodes to be empty (features/
                    draining.py); what is left there then ends with it
    """

    table = "nodes"

    leave_within_s: float = 30.0

    def validate(self) -> None:
        """See Options."""
        if not 0 <= self.leave_within_s <= LEAVE_WITHIN_S_MAX:
            raise ConfigError(
                f"[nodes] leave_within_s = {self.leave_within_s}: from 0 to"
                f" {LEAVE_WITHIN_S_MAX:g} s"
            )


class Nodes(Feature):
    """See the module's docstring."""

    @handles(ev.NodeJoined)
    def joined(self, turn: Turn, event: ev.NodeJoined) -> None:
        """A node offers its processors."""
        active = turn.state.active.values()
        pool = turn.state.processors
        owned = [p for job in active for p in job.holds()]
        # Ranks that nobody needs any more may have been there when the node was lost: as then, they
        # have to end first.
        left = {job.id: _ending(turn.state, job, event.node) for job in active}
        owned += [p for processors in left.values() for p in processors]
        pool.join(event.node, event.processors, event.speed, owned)
        for job in active:
            if left[job.id]:
                turn.let_go(job, left[job.id])
        self._capacity_changed(turn)

    @handles(ev.NodeLost)
    def lost(self, turn: Turn, event: ev.NodeLost) -> None:
        """Missing heartbeats: kill the jobs on the node everywhere, reclaim their processors.

        Source: ReSHAPE thesis, 3.4.2. A job that has nobody left to report its end ends here: one
        whose launcher was on the node, on its first node even if no rank is left there; without a
        launcher, one that has no other node. The others end when an agent says so. Protected jobs
        start again instead of failing.
        """
        state = turn.state
        reason = because("node_lost", node=event.node, why=event.why)
        for feature in turn.features["losing"]:
            feature.losing(turn, event.node, reason)
        drained = bool(state.processors.withheld)
        lost = set(state.processors.lose(event.node))
        if drained:
            state.plan_again(lost)
        for job in list(state.active.values()):
            holds = job.holds()
            if job.launching.by_agents:
                unheard = state.processors.down.issuperset(holds)
            else:
                unheard = job.first_processor in lost
            if lost.isdisjoint(holds) and (job.launching.by_agents or not unheard):
                continue
            turn.kill(job, reason)
            if unheard and not turn.survives(job, Ending(reason)):
                turn.finish(job, JobState.FAILED, reason)
        for feature in turn.features["vacated"]:  # a lost node's processors are not waited for
            feature.vacated(turn)
        self._capacity_changed(turn)

    def _capacity_changed(self, turn: Turn) -> None:
        for feature in turn.features["capacity_changed"]:
            feature.capacity_changed(turn)
        turn.schedule()

    @handles(ev.GrantsPaused)
    def are_paused(self, turn: Turn, event: ev.GrantsPaused) -> None:
        """The shell cannot carry grants out for a while, or can again."""
        turn.state.paused = (event.why or "paused") if event.paused else ""
        for feature in turn.features["paused"]:
            feature.paused(turn)
        turn.schedule()

    @handles(ev.Tick)
    def time_passed(self, turn: Turn, event: ev.Tick) -> None:
        """What is due? Asked of every feature in its order, this one's walltimes among them."""
        for feature in turn.features["tick"]:
            feature.tick(turn)
        turn.schedule()

    def tick(self, turn: Turn) -> None:
        """Walltimes: a warning before the end, then the end."""
        for job in list(turn.state.active.values()):
            end_s = _walltime_end(job)
            walltime_s = job.spec.walltime_s
            if end_s is None or walltime_s is None:
                continue
            left_s = end_s - turn.now
            if left_s <= 0:
                turn.kill(job, because("walltime", walltime_s=walltime_s))
            elif left_s <= turn.config.walltime_warning_s and not job.warned:
                job.warned = True
                reason = because("walltime_warning", left_s=left_s, walltime_s=walltime_s)
                job.note(turn.now, "warning", reason)
                turn.actions.append(WarnJob(job.id, reason))

    def deadline(self, turn: Turn) -> Iterable[float]:
        """When the next walltime, or its warning, is due."""
        for job in turn.state.active.values():
            end_s = _walltime_end(job)
            if end_s is not None and job.start_s is not None:
                warn_s = end_s - turn.config.walltime_warning_s
                yield end_s if job.warned else max(warn_s, job.start_s)


def _ending(state: State, job: Job, node: str) -> list[int]:
    """Processors of a node that comes back where ranks of a world of the job were to end."""
    if not job.launching.by_agents:
        return []
    node_of, vacating = state.processors.node_of, state.processors.vacating
    ending = Worlds.of(job).ending
    return [p for p in ending if node_of[p] == node and p not in vacating]


def _walltime_end(job: Job) -> float | None:
    """When an active job's walltime ends (s); None: it has none, or is being killed already."""
    walltime_s = job.spec.walltime_s
    if walltime_s is None or job.start_s is None or job.state is JobState.KILLING:
        return None
    return job.start_s + walltime_s
