"""What an evolving job has asked for (features/dynamic_requests.py)."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from dq_server.core.model.actions import RequestAnswer
from dq_server.core.model.jobs import Job
from dq_server.core.model.records import Record


@dataclass(frozen=True, slots=True)
class DynamicRequest:
    """A request that waits, or was granted (`Job.reserved`) and waits for its remap point."""

    request: int  # the application's number of it
    more: int
    asked_s: float
    deadline_s: float
    granted: bool = False


@dataclass(frozen=True, slots=True)
class Release:
    """Processors that the application gives back at its next remap point; none named: any."""

    count: int
    processors: tuple[int, ...]


@dataclass(slots=True)
class Asked(Record, key="Asked"):
    """Of a job: what it has asked for. At most one of `request` and `release` is pending."""

    request: DynamicRequest | None = None
    release: Release | None = None
    answer: RequestAnswer | None = None  # to its latest request or release


@dataclass(slots=True)
class Waiting(Record, key="Waiting"):
    """Of the state: jobs whose request waits, in the order of asking."""

    jobs: OrderedDict[int, Job] = field(default_factory=OrderedDict)
