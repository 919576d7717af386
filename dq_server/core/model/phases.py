"""What is known of the loops of a job, each by itself.

A program that first assembles and then solves has turns of two kinds: that those of the second take
longer says nothing about the size they run on. So each loop has performance data of its own, with
its own sweet spot, and `Job.performance` is that of the loop which the job is in.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from dq_server.core.model.jobs import Job
from dq_server.core.model.performance import PerformanceData
from dq_server.core.model.records import Record
from dq_server.core.model.sizes import Configuration

LOOPS_MAX = 100  # of one job; the one that has not run for the longest time is forgotten


@dataclass(slots=True)
class Phase:
    """A loop that the job is not in."""

    performance: PerformanceData
    configuration: Configuration | None  # of the job when it was last in that loop
    resizes: int  # of the job until then


@dataclass(slots=True)
class Phases(Record, key="Phases"):
    """Of a job that has told which loops it is in; most have one."""

    loop: str = ""  # the one that `Job.performance` is of; "": that was not told
    first: str = ""  # the one that the job began with: earlier runs have told of that one
    others: OrderedDict[str, Phase] = field(default_factory=OrderedDict)

    def enter(self, job: Job, loop: str) -> None:
        """The job is in this loop now."""
        if loop == self.loop:
            return
        if self.loop:
            self.others[self.loop] = Phase(job.performance, job.configuration, job.resizes)
            if len(self.others) > LOOPS_MAX:
                self.others.popitem(last=False)
            found = self.others.pop(loop, None)
            if found is None:
                job.performance = PerformanceData()
            else:
                job.performance = found.performance
                if (found.configuration, found.resizes) != (job.configuration, job.resizes):
                    job.performance.moved_elsewhere()
        self.loop, self.first = loop, self.first or loop

    def of_first(self, job: Job) -> PerformanceData:
        """What is known of the loop that the job began with."""
        known = self.others.get(self.first)
        return job.performance if known is None else known.performance
