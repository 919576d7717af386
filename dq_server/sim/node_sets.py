"""Partitions and queues with nodes of their own, in one run of a study.

[[nodes]]                    # instead of `nodes = 100`
processors = 64
partitions = ["batch", 2]    # field 16: numbers, or names of the header
[[nodes]]
processors = 32
queues = ["debug"]           # field 15; with both keys, jobs of these queues in these partitions
[[nodes]]
processors = 4               # without either: the jobs of no other set

Jobs run on the nodes of their set only. Each set has a queue and a scheduler of its own, as
partitions that share no nodes have under Slurm, so it is one simulation; the records of all of them
are joined, and the figures of a run are those of the whole machine. Partitions that share their
nodes are one set. Jobs are drawn in each set by itself: a share of malleable jobs holds in each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dq_server.sim.errors import WorkloadError, unknown
from dq_server.sim.records import SimulatedJobs
from dq_server.sim.swf import SwfLog, among
from dq_server.sim.workload import MOST_NODES, RigidWorkload

KEYS = ("processors", "partitions", "queues")
Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class NodeSet:
    """Processors, and whose jobs run on them; neither queues nor partitions: all other jobs."""

    processors: int
    queues: tuple[int | str, ...] = ()
    partitions: tuple[int | str, ...] = ()

    @property
    def takes_others(self) -> bool:
        """Whether it is for the jobs of no other set."""
        return not self.queues and not self.partitions

    def __str__(self) -> str:
        whose = [f"{name} {', '.join(map(str, wanted))}"
                 for name, wanted in (("queue", self.queues), ("partition", self.partitions))
                 if wanted]  # fmt: skip
        return f"{self.processors} for {' in '.join(whose) or 'all other jobs'}"


def read_sets(
    tables: Sequence[Any], parts: Callable[[Any, str], tuple[int | str, ...]]
) -> tuple[NodeSet, ...]:
    """The tables [[nodes]]; `parts` reads a list of queues or partitions of one of them."""
    found = []
    for number, table in enumerate(tables, 1):
        where = f"[[nodes]] {number}"
        if not isinstance(table, dict):
            raise WorkloadError(f"nodes: {table!r}: write numbers, or tables [[nodes]], not both")
        for key in table:
            if key not in KEYS:
                raise WorkloadError(f"{where}: {unknown('key', key, KEYS)}")
        processors = table.get("processors")
        if type(processors) is not int or not 1 <= processors <= MOST_NODES:
            raise WorkloadError(
                f"{where}: processors = {processors!r}: a whole number, 1 to {MOST_NODES}"
            )
        try:
            found.append(NodeSet(processors, parts(table, "queues"), parts(table, "partitions")))
        except WorkloadError as error:
            raise WorkloadError(f"{where}: {error}") from error
    if sum(one.takes_others for one in found) > 1:
        raise WorkloadError("[[nodes]]: two have neither queues nor partitions: only one may")
    return tuple(found)


def members(log: SwfLog, sets: Sequence[NodeSet]) -> list[Places]:
    """The places of each set's jobs in the log; WorkloadError unless each job is of one set."""
    if not sets:
        return []
    masks = [np.zeros(len(log.fields), dtype=np.bool_) if one.takes_others
             else among(log, one.queues, one.partitions) for one in sets]  # fmt: skip
    count = np.sum(masks, axis=0)
    others = next((k for k, one in enumerate(sets) if one.takes_others), None)
    if others is not None:
        masks[others] = count == 0
    wrong = count > 1 if others is not None else count != 1
    if wrong.any():
        k = int(wrong.argmax())
        job, queue, partition = (int(log.column(name)[k]) for name in ("job", "queue", "partition"))
        said = "no set" if count[k] == 0 else "more than one set"
        raise WorkloadError(
            f"{log.path}: [[nodes]]: job {job} (queue {queue}, partition {partition}) is of {said};"
            " a set with neither queues nor partitions takes all other jobs"
        )
    return [np.flatnonzero(mask) for mask in masks]


def joined(
    rigid: RigidWorkload, nodes: int, parts: Sequence[tuple[Places, SimulatedJobs]]
) -> SimulatedJobs:
    """The records of simulations that had parts of these jobs, as those of one machine.

    nodes  processors of all of them
    """
    sizes, run_s = rigid.processors[:], rigid.run_s[:]
    for places, records in parts:
        of = records.workload
        for k, place in enumerate(places.tolist()):
            sizes[place], run_s[place] = of.size(k), of.static_run_s[k]
    whole = SimulatedJobs(rigid.on_sizes(sizes, run_s, rigid.estimate_s), nodes)
    for places, records in parts:
        for k, place in enumerate(places.tolist()):
            whole.start_s[place], whole.end_s[place] = records.start_s[k], records.end_s[k]
            whole.processors[place], whole.state[place] = records.processors[k], records.state[k]
        whole.resizes |= {int(places[k]): made for k, made in records.resizes.items()}
        whole.backfilled += records.backfilled
        whole.notes += records.notes
    return whole
