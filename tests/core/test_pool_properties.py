"""The pool beside whatever happens, in any order: nothing leaks, nothing flaps."""

from __future__ import annotations

import contextlib
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dq_server.core.model import events as ev
from dq_server.core.model.actions import Action, AskNodes, GiveNode, StartJob
from dq_server.core.model.errors import SchedulerError
from dq_server.core.model.jobs import JobState
from dq_server.core.model.needs import Needs
from dq_server.core.model.pool import PoolOptions, TicketState
from tests.core.pool_cluster import PoolCluster

BY_ITSELF = {"pool_idle", "pool_withdrawn"}  # why the policy gives back of its own accord
MEMORY = 4 << 30  # of a node
POLICIES = (
    {"start": "fcfs"},
    {"start": "easy"},
    {"start": "conservative"},
    {"start": "easy", "resize": "intensive", "moldable": True},
)


class Watched(PoolCluster):
    """What is asked for, given and granted is looked at."""

    def __init__(self, **options: Any) -> None:
        self.engine: set[int] = set()  # the tickets that the engine's books have
        self.asked_s: dict[int, float] = {}
        self.took_s: dict[int, float] = {}
        super().__init__(**options)

    def do(self, event: ev.Event, *, vacate: bool = True) -> list[Action]:
        withheld = set(self.scheduler.state.processors.withheld)
        actions = super().do(event, vacate=vacate)
        asks = [a for a in actions if isinstance(a, AskNodes)]
        gives = [a for a in actions if isinstance(a, GiveNode)]
        options: PoolOptions = self.scheduler.config.of(PoolOptions)
        for ask in asks:
            for number in ask.tickets:
                assert number not in self.asked_s, "a ticket is used twice"
                self.asked_s[number] = self.now
                self.engine.add(number)
        assert len(self.pool.tickets) <= options.max
        assert not (asks and {a.reason.code for a in gives} & BY_ITSELF)
        for give in gives:
            self.engine.discard(give.ticket)
        for action in actions:
            if isinstance(action, StartJob) and not isinstance(event, ev.NodeJoined):
                assert withheld.isdisjoint(action.processors)
        up = {n.name for n in self.scheduler.state.processors.nodes.values() if n.up}
        for number, ticket in self.pool.tickets.items():
            assert ticket.state is not TicketState.UP or ticket.node in up, number
        return actions

    def join(self, number: int) -> None:
        count = self.ticket(number).shape.processors
        self.do(ev.NodeJoined(f"p{number}", count, memory=MEMORY))

    def unflapping(self, options: PoolOptions) -> None:
        """A node that was given back for being idle had been there for idle_s, up and idle."""
        for note in self.pool.notes:
            if note.what == "drain" or note.reason.code == "pool_withdrawn":
                asked_s, took_s = self.asked_s[note.ticket], self.took_s.get(note.ticket, 0.0)
                assert note.time_s - asked_s >= took_s + options.idle_s - 1e-6, note


def happen(c: Watched, what: int, which: int, more: int) -> None:
    """One event; what is not legal is refused, and changes nothing."""
    jobs, numbers = list(c.scheduler.state.active.values()), list(c.pool.tickets)
    job = jobs[which % len(jobs)] if jobs else None
    number = numbers[which % len(numbers)] if numbers else 0
    ticket = c.pool.tickets.get(number)
    match what:
        case 0 | 1 | 2:
            sizes = (1, 2, 4) if more % 2 else (which % 5 + 1,)
            # Some need more than their share of a node's memory, some more than a node has.
            needs = Needs(memory=more % 6 * MEMORY // 4) if which % 3 and more % 6 else None
            start_on = sizes[which % len(sizes)]
            c.submit(*sizes, start=start_on, estimate_s=10.0 * more + 1, needs=needs)
        case 3 | 4:
            start(c)
        case 5 if ticket is not None and ticket.state is TicketState.ASKED:
            c.do(ev.TicketStarted(number, f"p{number}"))
        case 6 | 7:
            join(c)
        case 8 if ticket is not None and ticket.state is TicketState.STARTING:
            c.took_s[number] = c.now - c.asked_s[number]
            c.join(number)
        case 9 | 10 if job is not None:
            c.end(job, 0)
        case 11 | 12 if job is not None and job.state is JobState.RUNNING and not job.resize:
            c.point(job, 1.0 + 8.0 / job.size)
        case 13 if number:
            c.do(ev.TicketRefused(number, "no"))
            c.engine.discard(number)
        case 14 if number:
            c.do(ev.TicketRevoked(number, float(10 * more)))
        case 15 if number:
            c.do(ev.TicketEnded(number))
            c.engine.discard(number)
        case 16 if number:
            c.do(ev.TicketPending(number, "later"))
        case 17 if number:
            c.do(ev.NodeLost(f"p{number}"))
        case 18 if number:
            c.do(ev.DrainRequested(f"p{number}", leaves=bool(more % 2)))
        case _:
            c.wait(10.0 * more)


STEPS = st.lists(
    st.tuples(st.integers(0, 24), st.integers(0, 7), st.integers(0, 9)), min_size=5, max_size=60
)


@settings(deadline=None)
@given(STEPS, st.sampled_from(POLICIES), st.integers(0, 2), st.integers(1, 3))
def test_whatever_happens(
    steps: list[tuple[int, int, int]], policy: dict[str, object], least: int, processors: int
) -> None:
    options = {"min": least, "max": 4, "idle_s": 25.0, "start_s": 10.0, "retry_s": 5.0}
    c = Watched(fixed=1, processors=processors, config=policy, **options)
    for what, which, more in steps:
        with contextlib.suppress(SchedulerError):
            happen(c, what, which, more)
        c.scheduler.state.check()
        assert c.pool.tickets.keys() == c.engine, "a ticket leaked"
    c.unflapping(c.scheduler.config.of(PoolOptions))
    drain_all(c)
    settle(c)
    alive = [t for t in c.pool.tickets.values() if t.state is TicketState.UP]
    assert len(alive) == len(c.pool.tickets) == least, "what nobody needs goes back, min stays"
    c.unflapping(c.scheduler.config.of(PoolOptions))


def drain_all(c: Watched) -> None:
    """Every job ends, and nobody wants a node drained any more."""
    for job in list(c.scheduler.state.jobs.values()):
        if job.state is JobState.QUEUED:
            c.do(ev.KillRequested(job.id))
    for job in list(c.scheduler.state.active.values()):
        c.end(job, 0)
    for name in list(c.scheduler.state.processors.nodes):
        with contextlib.suppress(SchedulerError):
            c.do(ev.ResumeRequested(name))


def start(c: Watched) -> None:
    """All that was asked for is granted."""
    for number in c.tickets(TicketState.ASKED):
        c.do(ev.TicketStarted(number, f"p{number}"))


def join(c: Watched) -> None:
    """All that was granted joins."""
    for number in c.tickets(TicketState.STARTING):
        c.took_s[number] = c.now - c.asked_s[number]
        c.join(number)


def settle(c: Watched) -> None:
    """The engine does all that is still asked of it; then a long time passes."""
    for _ in range(8):
        start(c)
        join(c)
        c.wait(1000.0)
