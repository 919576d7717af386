"""What agents measured of jobs: output that could not be written, CPU time and memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dq_server.core.feature import Feature, handles
from dq_server.core.model import events as ev
from dq_server.core.model.jobs import Job
from dq_server.core.model.reasons import because, declare
from dq_server.core.model.records import Record
from dq_server.core.model.state import State
from dq_server.core.turn import Turn

declare(
    output_lost="{lost_bytes} bytes of what its ranks on {node} have written are lost: {why}",
)


@dataclass(slots=True)
class LostOutput(Record):
    """Of a job: bytes, by node and start."""

    key = "LostOutput"

    lost: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Usage(Record):
    """Of a job: CPU time of its parts that have ended; the most memory that all had at one time."""

    key = "Usage"

    cpu_s: float = 0.0
    memory_max: int = 0


class Output(Feature):
    @handles(ev.UsageMeasured)
    def usage_measured(self, turn: Turn, event: ev.UsageMeasured) -> None:
        """Ranks of a job on one agent's nodes have ended, perhaps the last ones."""
        job = turn.state.jobs.get(event.job)
        if job is None:  # it is forgotten
            return
        usage = Usage.of(job)
        usage.cpu_s += event.cpu_s
        usage.memory_max = max(usage.memory_max, event.memory_max)

    @handles(ev.OutputLost)
    def output_lost(self, turn: Turn, event: ev.OutputLost) -> None:
        """An agent reports how much of a start's output its nodes have lost, perhaps once more."""
        job = turn.state.jobs.get(event.job)
        if job is None:  # it ended long ago
            return
        lost, where = LostOutput.of(job).lost, f"{event.node} {event.instance}"
        if event.lost_bytes <= lost.get(where, 0):
            return
        lost[where] = event.lost_bytes
        reason = because("output_lost", lost_bytes=event.lost_bytes, node=event.node, why=event.why)
        job.note(turn.now, "output", reason)
        turn.state.touch(job)

    def view(self, state: State, job: Job) -> Mapping[str, Any]:
        return {"output_lost_bytes": sum(LostOutput.of(job).lost.values())}
