"""Jobs of workers: processes without MPI, each by itself, of which a job may have none at all.

A worker job's sizes are a range, and its program has no remap points: the scheduler starts single
processes and ends single ones whenever it wants (features/workers.py).
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, field

from dq_server.core.model.errors import InvalidSpec
from dq_server.core.model.records import Record
from dq_server.core.model.sizes import SIZES_MAX, Configuration, nearest_square

NONE = Configuration(0, 0)  # the size of a worker job that has no processor at the moment
GRACE_MAX_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Workers:
    """How the processes of a worker job are ended.

    stop_signal  what a process is sent that is to leave
    grace_s      so much later it is killed, if it is still there
    """

    stop_signal: int = signal.SIGTERM
    grace_s: float = 10.0

    def validate(self) -> None:
        """Raise InvalidSpec with one line if it makes no sense."""
        if self.stop_signal not in signal.valid_signals():
            raise InvalidSpec(f"{self.stop_signal} is no signal")
        if not 0 <= self.grace_s <= GRACE_MAX_S:
            raise InvalidSpec(f"a grace of {self.grace_s:g} s: 0 to {GRACE_MAX_S:g}")


@dataclass(slots=True)
class WorkerJobs(Record, key="WorkerJobs"):
    """Of the state: active worker jobs, in the order of starting; those that end are not served."""

    ids: list[int] = field(default_factory=list)


@dataclass(slots=True)
class NoMoreWork(Record, key="NoMoreWork"):
    """Of a worker job: a worker has ended by itself and well, and none has left or was lost since:
    no other is started."""

    told: bool = False


def sizes_between(least: int, most: int) -> tuple[Configuration, ...]:
    """All sizes of a worker job, ascending. InvalidSpec if there is none above zero."""
    if not 0 <= least <= most or most < 1:
        raise InvalidSpec(f"sizes {least}:{most}: the smaller first, and at least 1 as the larger")
    if most - least > SIZES_MAX:
        raise InvalidSpec(f"sizes {least}:{most}: at most {SIZES_MAX} sizes")
    return tuple(NONE if size == 0 else nearest_square(size) for size in range(least, most + 1))
