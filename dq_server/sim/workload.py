"""What is simulated: jobs in order of submission, each with a description and an application.

A workload makes descriptions and applications when they are asked for, so that a log of a million
jobs needs no million objects.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, Protocol

from dq_server.core.model.events import AdvanceReservation, NodeJoined
from dq_server.core.model.jobs import JobKind, JobSpec
from dq_server.core.model.sizes import Configuration, Scalability, nearest_square
from dq_server.sim.applications import Application, Rigid
from dq_server.sim.errors import WorkloadError
from dq_server.sim.swf import SwfLog

MOST_NODES, MOST_SIZES = 10_000_000, 100_000  # of a machine; of one job


@cache
def configuration(size: int) -> Configuration:
    """The grid nearest to a square; sizes are few, jobs are many."""
    return nearest_square(size)


@dataclass(frozen=True, slots=True)
class Follows:
    """That a job comes after others, numbered as in the workload.

    after, after_any  it may start once these have ended successfully, or in whatever way
    think_s           it is submitted so long after the end of the first one in `after_any`, not at
                      its time in the workload: whoever submits it looks at the result first
    """

    after: tuple[int, ...] = ()
    after_any: tuple[int, ...] = ()
    think_s: float | None = None


class Workload(Protocol):
    """Jobs 0 .. len - 1, ascending by submission time.

    notes         what was odd about the source and how often: reported beside every result
    follows       the jobs that come after others, by their number here; they only name earlier ones
    static_run_s  run time of each job on the processors that it asks for, never resized; NaN: not
                  known
    """

    @property
    def name(self) -> str:
        """Where the jobs come from."""

    @property
    def submit_s(self) -> Sequence[float]:
        """Submission time of each job."""

    @property
    def static_run_s(self) -> Sequence[float]:
        """See the class."""

    @property
    def notes(self) -> Mapping[str, int]:
        """See the class."""

    @property
    def follows(self) -> Mapping[int, Follows]:
        """See the class."""

    def __len__(self) -> int:
        """How many jobs."""

    def number(self, k: int) -> int:
        """What the source calls job k."""

    def size(self, k: int) -> int:
        """Processors that job k asks for."""

    def spec(self, k: int) -> JobSpec:
        """What job k asks the scheduler for."""

    def application(self, k: int) -> Application:
        """What job k does once it runs; a new object at each call."""


@dataclass(frozen=True, slots=True)
class ListedJob:
    """A job of a `ListedWorkload`; `after` and `after_any` name others by their numbers.

    static_run_s  see Workload
    """

    submit_s: float
    spec: JobSpec
    make: Callable[[], Application]
    number: int
    after: tuple[int, ...] = ()
    after_any: tuple[int, ...] = ()
    static_run_s: float = math.nan


class ListedWorkload:
    """A few jobs, each described by itself, and what is reserved beside them. See Workload.

    nodes  what they run on, if that matters to them; empty: processors that are all alike
    """

    def __init__(
        self,
        name: str,
        jobs: Sequence[ListedJob],
        reservations: Sequence[AdvanceReservation] = (),
        nodes: Sequence[NodeJoined] = (),
    ) -> None:
        self.name, self.reservations, self.nodes = name, tuple(reservations), tuple(nodes)
        self.jobs = sorted(jobs, key=lambda job: job.submit_s)
        self.submit_s = [job.submit_s for job in self.jobs]
        self.static_run_s = [job.static_run_s for job in self.jobs]
        self.notes: dict[str, int] = {}
        self.follows = self._follows()

    def _follows(self) -> dict[int, Follows]:
        """WorkloadError if a job is to follow one that is not there or comes later."""
        place = {job.number: k for k, job in enumerate(self.jobs)}
        found = {}
        for k, job in enumerate(self.jobs):
            for other in (*job.after, *job.after_any):
                if place.get(other, k) >= k:
                    raise WorkloadError(
                        f"{self.name}: job {job.number} comes after job {other}, which is not"
                        " submitted before it"
                    )
            if job.after or job.after_any:
                after, any_end = (
                    tuple(place[n] for n in named) for named in (job.after, job.after_any)
                )
                found[k] = Follows(after, any_end)
        return found

    def __len__(self) -> int:
        return len(self.jobs)

    def number(self, k: int) -> int:
        return self.jobs[k].number

    def size(self, k: int) -> int:
        return self.jobs[k].spec.needed

    def spec(self, k: int) -> JobSpec:
        return self.jobs[k].spec

    def application(self, k: int) -> Application:
        return self.jobs[k].make()


class Outage(NamedTuple):
    """Processors that fail together, without notice, and come back. Times in seconds."""

    processors: int
    start_s: float
    end_s: float

    def since(self, first_s: float) -> Outage:
        """The outage whose times count from `first_s` on, by the clock of the jobs."""
        return Outage(self.processors, first_s + self.start_s, first_s + self.end_s)

    def of(self, parts: Iterable[NodeJoined]) -> Iterator[NodeJoined]:
        """The parts of the machine that fail: the first ones."""
        left = self.processors
        for part in parts:
            if left > 0:
                yield part
            left -= part.processors

    @staticmethod
    def parts(nodes: int, outages: Sequence[Outage]) -> tuple[NodeJoined, ...]:
        """The machine in parts, so that each outage is of the first ones."""
        for outage in outages:
            if not 1 <= outage.processors <= nodes:
                raise WorkloadError(
                    f"[[outage]] processors = {outage.processors}: the machine has 1 to {nodes}"
                )
        ends = sorted({outage.processors for outage in outages} | {nodes})
        return tuple(NodeJoined(f"part{b}", b - a) for a, b in pairwise((0, *ends)))


class RigidWorkload:
    """Rigid jobs in columns: a log, or a generator's output. See Workload.

    enforce_estimates  the estimate is also the walltime: jobs that run longer are killed
    """

    def __init__(
        self,
        name: str,
        submit_s: Sequence[float],
        run_s: Sequence[float],
        processors: Sequence[int],
        estimate_s: Sequence[float] | None = None,
        *,
        numbers: Sequence[int] | None = None,
        users: Sequence[int] | None = None,
        groups: Sequence[int] | None = None,
        notes: Mapping[str, int] | None = None,
        enforce_estimates: bool = False,
        follows: Mapping[int, Follows] | None = None,
    ) -> None:
        self.name = name
        self.submit_s = array("d", submit_s)
        self.run_s = self.static_run_s = array("d", run_s)
        self.processors = array("q", processors)
        self.estimate_s = self.run_s if estimate_s is None else array("d", estimate_s)
        self.numbers = array("q", range(1, len(submit_s) + 1) if numbers is None else numbers)
        unknown = array("q", [-1]) * len(submit_s)
        self.users = unknown if users is None else array("q", users)
        self.groups = unknown if groups is None else array("q", groups)
        self.notes = dict(notes or {})
        self.follows = dict(follows or {})
        self.enforce_estimates = enforce_estimates

    @classmethod
    def from_log(
        cls, log: SwfLog, *, enforce_estimates: bool = False, dependencies: bool = False
    ) -> RigidWorkload:
        """The jobs of a log, each as large and as long as it was.

        dependencies  honour fields 17 and 18: a job with a think time is submitted so long after
                      the end of the job it names, one without may start once that has ended
        """

        def whole(name: str) -> list[int]:
            return [int(value) for value in log.column(name).tolist()]

        return cls(
            Path(log.path).name,
            log.column("submit_s").tolist(),
            log.column("run_s").tolist(),
            log.processors().tolist(),
            log.estimates_s().tolist(),
            numbers=whole("job"),
            users=whole("user"),
            groups=whole("group"),
            notes=log.notes,
            enforce_estimates=enforce_estimates,
            follows=_preceding(log) if dependencies else None,
        )

    def on_sizes(
        self, processors: Sequence[int], run_s: Sequence[float], estimate_s: Sequence[float]
    ) -> RigidWorkload:
        """The same jobs with other sizes and times."""
        return RigidWorkload(
            self.name,
            self.submit_s,
            run_s,
            processors,
            estimate_s,
            numbers=self.numbers,
            users=self.users,
            groups=self.groups,
            notes=self.notes,
            enforce_estimates=self.enforce_estimates,
            follows=self.follows,
        )

    def part(self, places: Sequence[int]) -> RigidWorkload:
        """The jobs at these places, ascending, without notes; none may follow another."""
        assert not self.follows, "places in it would change"
        return RigidWorkload(
            self.name,
            [self.submit_s[k] for k in places],
            [self.run_s[k] for k in places],
            [self.processors[k] for k in places],
            [self.estimate_s[k] for k in places],
            numbers=[self.numbers[k] for k in places],
            users=[self.users[k] for k in places],
            groups=[self.groups[k] for k in places],
            enforce_estimates=self.enforce_estimates,
        )

    def __len__(self) -> int:
        return len(self.submit_s)

    def number(self, k: int) -> int:
        return self.numbers[k]

    def size(self, k: int) -> int:
        return self.processors[k]

    def spec(
        self,
        k: int,
        kind: JobKind = JobKind.RIGID,
        legal: tuple[Configuration, ...] = (),
        scalability: Scalability | None = None,
    ) -> JobSpec:
        """See Workload; of another kind, with these legal sizes."""
        shape = configuration(self.processors[k])
        estimate_s = self.estimate_s[k]
        return JobSpec(
            name="",
            kind=kind,
            initial=shape,
            configurations=legal or (shape,),
            scalability=scalability,
            estimate_s=estimate_s,
            walltime_s=estimate_s if self.enforce_estimates and estimate_s > 0 else None,
            user=_name("u", self.users[k]),
            group=_name("g", self.groups[k]),
        )

    def application(self, k: int) -> Application:
        return Rigid(self.run_s[k])


def _preceding(log: SwfLog) -> dict[int, Follows]:
    """Fields 17 and 18. A job that names one which is not in the log before it is counted."""
    place: dict[int, int] = {}
    found: dict[int, Follows] = {}
    columns = (log.column(name).tolist() for name in ("job", "preceding_job", "think_s"))
    for k, (job, preceding, think_s) in enumerate(zip(*columns, strict=True)):
        before = place.get(int(preceding))
        if before is not None:
            found[k] = Follows(after_any=(before,), think_s=think_s if think_s >= 0 else None)
        elif preceding > 0:
            note = "the preceding job (field 17) is not in the log before it"
            log.notes[note] = log.notes.get(note, 0) + 1
        place[int(job)] = k
    return found


@cache
def _name(letter: str, number: int) -> str:
    """Logs number their users and groups; -1 is unknown."""
    return f"{letter}{number}" if number >= 0 else ""
