"""EASY's reservation: when the job at the head of the queue will start at the latest.

Shadow time: the earliest moment at which the processors that are idle then suffice for the head job
if every running job ends as planned. Extra processors: those that are idle at that moment beyond
what the head job needs. (Mu'alem & Feitelson, IEEE TPDS 12(6), 2001, section 2.2.) Nodes of a pool
that are on their way bring idle processors when they are expected.

Choices where the text is silent: all jobs planned to end exactly at the shadow time count for the
extra processors; processors that are being vacated are back at any moment, hence now, and so are
those of a job that runs longer than planned; if the ends that matter are not known the shadow time
is +inf and only extra processors can be used, so that a stream of short jobs cannot starve the head
job; a head job that the cluster cannot hold (nodes are lost) holds up nobody.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass
from math import nextafter

from dq_server.core.model.pool import arrivals
from dq_server.core.model.state import State
from dq_server.core.policies.base import Start

INF = float("inf")


@dataclass(slots=True)
class Reservation:
    """`until_s`: while no processor is freed, the figures hold up to and including this time."""

    shadow_time_s: float
    extra_nodes: int
    until_s: float

    def end_by(self, now: float) -> float:
        """When a backfilled job must end if it is to leave the extra processors alone."""
        return -INF if self.shadow_time_s == INF else max(self.shadow_time_s, now)


def reserve(state: State, starts: list[Start], idle: int, needed: int, now: float) -> Reservation:
    """The reservation of a head job that needs `needed` processors, more than the `idle` ones.

    `starts` are decided and not yet carried out; `idle` is what they leave.
    """
    ends = state.ends
    if starts:
        ends = ends.copy()
        for start in starts:
            size = start.configuration.size
            planned_s = start.job.spec.planned_on_s(size)
            insort(ends, (INF if planned_s is None else now + planned_s, start.job.id, size))
    coming = arrivals(state)
    if coming:  # as if jobs that nobody has submitted held them until then
        ends = sorted([*ends, *((at_s, 0, count) for at_s, count in coming)])
    free = idle + state.processors.coming
    if free >= needed:  # it waits for the word that they are empty, and for no job's end
        return _reserved_at(ends, 0, now, free - needed, now)
    for k, (end_s, _, held) in enumerate(ends):
        free += held
        if free >= needed:
            return _reserved_at(ends, k + 1, max(end_s, now), free - needed, now)
    return Reservation(INF, idle, INF)


def _reserved_at(
    ends: list[tuple[float, int, int]], k: int, shadow_s: float, extra: int, now: float
) -> Reservation:
    """Add what else is planned to be back at the shadow time; ends[k:] were not looked at yet."""
    last = bisect_right(ends, (shadow_s, 2**62, 0), lo=k)
    extra += sum(held for _, _, held in ends[k:last])
    if shadow_s > now:
        return Reservation(shadow_s, extra, shadow_s)
    # The shadow time moves with `now` until the next planned end is passed, too.
    next_s = ends[last][0] if last < len(ends) else INF
    return Reservation(shadow_s, extra, nextafter(next_s, -INF))
