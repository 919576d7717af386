"""Tickets outlive the server: they are in snapshots, and their events in journals."""

from __future__ import annotations

from dq_server.core.model import events as ev
from dq_server.core.model.options import decoded, plain
from dq_server.live.store.snapshot import decode, encode
from tests.core.pool_cluster import PoolCluster


def test_a_snapshot_keeps_the_tickets() -> None:
    c = PoolCluster(max=6, processors=2, config={"start": "easy"})
    c.submit(1, 2, start=2)
    c.submit(4)
    c.grant([1])
    c.do(ev.TicketPending(2, "Priority"))
    c.do(ev.TicketStarted(3, "p3"))
    c.do(ev.TicketRevoked(1, 60.0, "preempted"))
    scheduler, at_s = decode(encode(c.scheduler, c.now))
    assert at_s == c.now
    assert scheduler.state.records == c.scheduler.state.records
    assert scheduler.state.processors == c.scheduler.state.processors
    assert [str(t.state) for t in c.pool.tickets.values()] == ["draining", "asked", "starting"]
    ended = ev.TicketEnded(2)
    assert scheduler.handle(ended, 5.0) == c.scheduler.handle(ended, 5.0)


def test_events_of_the_engine_can_be_journaled() -> None:
    news = (
        ev.TicketPending(1, "why"),
        ev.TicketStarted(1, "n1"),
        ev.TicketRefused(1, "why"),
        ev.TicketRevoked(1, 5.0, "why"),
        ev.TicketEnded(1, "why"),
    )
    for event in news:
        assert type(event) in ev.EVENTS.values()
        assert decoded(plain(event), type(event)) == event
