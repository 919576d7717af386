"""Requests round a standby (docs/standby.md)."""

from __future__ import annotations

from dq_client.base import messages as m
from dq_server.live.context import Desk
from dq_server.live.requests.call import Call, handles


@handles(m.Follow)
def follow(desk: Desk, call: Call[m.Follow]) -> m.ReplyBody | None:
    """A standby asks for what it has not."""
    refusal = desk.pairing.follow(call.body, call.identity, call.request_id)
    return m.Error("refused", refusal) if refusal else None  # None: answered after the commit


@handles(m.Ballot)
def ballot(desk: Desk, call: Call[m.Ballot]) -> m.ReplyBody:
    """An agent that has lost another server, or us, has found us."""
    if refusal := desk.pairing.hear(call.body.promised, call.body.agent):
        return m.Error("refused", refusal)
    term = desk.pairing.term
    if term < 0:
        return m.Standing(stage="waits")
    return m.Standing(stage="serves", epoch=desk.epoch, term=term)


@handles(m.ForgetStandby)
def forget(desk: Desk, call: Call[m.ForgetStandby]) -> m.ReplyBody:  # noqa: ARG001
    """The user says that the standby is gone for good."""
    if desk.pairing.forget():
        return m.Done()
    return m.Error("not_found", "this server has no standby")
