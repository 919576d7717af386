"""What applications say: they report, come to remap points, and ask for processors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from dq_client import messages as m
from dq_server.core.features.requests import answer_of
from dq_server.core.model import events as ev
from dq_server.core.model.actions import AnswerRemap, AnswerRequest
from dq_server.core.model.errors import InvalidTransition
from dq_server.live import translate
from dq_server.live.access import Principal
from dq_server.live.requests.asked import Asked, Table, other_protocol

if TYPE_CHECKING:
    from dq_server.live.server import Server


def job_hello(server: Server, asked: Asked, body: m.JobHello) -> m.ReplyBody:
    """The application's first rank reports."""
    if (refusal := other_protocol(body.protocol)) is not None:
        return refusal
    who = asked.principal
    job = server.scheduler.state.job(who.job)
    if job.instance != who.instance or job.configuration is None or not job.allocation:
        raise InvalidTransition(f"job {job.id} is {job.state}: this start of it is over")
    places = server.places.of(tuple(job.allocation))
    shape = job.configuration
    node = server.places.node(places[0].node)
    welcome = m.JobWelcome(job.id, job.instance, server.epoch, places, shape.rows, shape.cols)
    if node is None:
        return welcome
    return msgspec.structs.replace(
        welcome,
        link_mbit=node.link_mbit,
        link_latency_us=node.link_latency_us,
        link_duplex=node.link_duplex,
    )


def remap(server: Server, asked: Asked, body: m.RemapPoint) -> m.ReplyBody:
    """A remap point."""
    who = asked.principal
    actions = server.apply(translate.remap_point(body, who.job, who.instance))
    for action in actions:
        if isinstance(action, AnswerRemap) and action.job == who.job:
            standing = answer_of(server.scheduler.job(who.job))
            about = translate.dynamic_answer(standing, server.now()) if standing else None
            return translate.remap_answer(action.answer, server.places.of, about)
    return m.RemapAnswer("continue", reason="this remap point is older than the last")


def committed(server: Server, asked: Asked, body: m.Committed) -> m.ReplyBody:
    """A resize was carried out."""
    who = asked.principal
    pending = server.scheduler.state.job(who.job).resize
    if pending is not None and pending.resize_id == body.resize_id and not pending.expand:
        server.leaving.update(
            {(who.job, p): pid for p, pid in zip(pending.processors, body.pids, strict=False)}
        )
    server.apply(
        ev.ResizeCommitted(who.job, who.instance, body.resize_id, body.redistribution_time_s)
    )
    return m.Done()


def copy_made(server: Server, asked: Asked, body: m.CopyMade) -> m.ReplyBody:
    """A protected job has copied its data."""
    who = asked.principal
    server.apply(translate.copy_made(body, who.job, who.instance))
    return m.Done()


def gave_up(server: Server, asked: Asked, body: m.GaveUp) -> m.ReplyBody:
    """The application says why it ends."""
    server.apply(ev.JobGaveUp(asked.principal.job, asked.principal.instance, body.why))
    return m.Done()


def work_done(server: Server, asked: Asked, body: m.WorkDone) -> m.ReplyBody:  # noqa: ARG001
    """A protected job's program is about to end as it should."""
    server.apply(ev.WorkDone(asked.principal.job, asked.principal.instance))
    return m.Done()


def aborted(server: Server, asked: Asked, body: m.Aborted) -> m.ReplyBody:
    """A resize did not happen."""
    who = asked.principal
    server.apply(ev.ResizeAborted(who.job, who.instance, body.resize_id, body.why))
    return m.Done()


def dynamic_request(server: Server, asked: Asked, body: m.DynamicRequest) -> m.ReplyBody:
    """An evolving application asks for processors."""
    who = asked.principal
    return _dynamic(server, who, translate.dynamic_request(body, who.job, who.instance))


def dynamic_release(server: Server, asked: Asked, body: m.DynamicRelease) -> m.ReplyBody:
    """An evolving application gives processors back."""
    who = asked.principal
    return _dynamic(server, who, translate.dynamic_release(body, who.job, who.instance))


def _dynamic(
    server: Server, who: Principal, event: ev.DynamicRequested | ev.DynamicReleased
) -> m.ReplyBody:
    """Hand it to the scheduler, which answers every legal one at once."""
    actions = server.apply(event)
    own = (a.answer for a in actions if isinstance(a, AnswerRequest) and a.job == who.job)
    return translate.dynamic_answer(next(own), server.now())


TABLE: Table = {
    m.JobHello: job_hello,
    m.RemapPoint: remap,
    m.Committed: committed,
    m.Aborted: aborted,
    m.CopyMade: copy_made,
    m.GaveUp: gave_up,
    m.WorkDone: work_done,
    m.DynamicRequest: dynamic_request,
    m.DynamicRelease: dynamic_release,
}
