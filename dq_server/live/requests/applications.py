"""Requests of applications: they report, come to remap points, and ask for processors.

Which job speaks is known from its key (access.py), never from what the message says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from dq_client.base import messages as m
from dq_server.core.features.dynamic_requests import answer_of
from dq_server.core.model import events as ev
from dq_server.core.model.actions import AnswerRemap, AnswerRequest
from dq_server.core.model.errors import InvalidTransition
from dq_server.core.resting import Rest, rest_of
from dq_server.live import translate
from dq_server.live.access import Principal
from dq_server.live.context import Desk
from dq_server.live.orders.welcome import welcome_to
from dq_server.live.requests.call import Call, handles, other_protocol


@handles(m.JobHello)
def job_hello(desk: Desk, call: Call[m.JobHello]) -> m.ReplyBody:
    """The application's first rank reports."""
    if (refusal := other_protocol(call.body.protocol)) is not None:
        return refusal
    who = call.principal
    job = desk.state.job(who.job)
    if job.instance != who.instance or job.configuration is None or not job.allocation:
        raise InvalidTransition(f"job {job.id} is {job.state}: this start of it is over")
    declared = translate.declared_sizes(call.body.legal, job.spec)
    if declared and declared != job.spec.declared:
        desk.apply(ev.SizesDeclared(job.id, job.instance, declared))
    if job.opened_s is None:
        desk.apply(ev.SessionOpened(job.id, job.instance))
    return welcome_to(desk, job, tuple(job.allocation), job.configuration)


@handles(m.JobJoining)
def job_joining(desk: Desk, call: Call[m.JobJoining]) -> m.ReplyBody:
    """New ranks ask where they will be, before they join."""
    if (refusal := other_protocol(call.body.protocol)) is not None:
        return refusal
    who = call.principal
    job = desk.state.job(who.job)
    pending = job.resize
    if (
        job.instance != who.instance
        or pending is None
        or not pending.expand
        or pending.resize_id != call.body.resize_id
    ):
        raise InvalidTransition(f"job {job.id} no longer waits for these ranks")
    return welcome_to(desk, job, (*job.allocation, *pending.processors), pending.target)


@handles(m.RemapPoint)
def remap(desk: Desk, call: Call[m.RemapPoint]) -> m.ReplyBody:
    """A remap point."""
    who, body = call.principal, call.body
    desk.silent.end(who.job)
    actions = desk.apply(translate.remap_point(body, who.job, who.instance))
    for action in actions:
        if isinstance(action, AnswerRemap) and action.job == who.job:
            job = desk.scheduler.state.job(who.job)
            standing = answer_of(job)
            about = translate.dynamic_answer(standing, desk.now()) if standing else None
            each = body.iterations / (body.silent + 1)
            point_s = body.iteration_time_s * each
            rest = rest_of(desk.scheduler, job, point_s) if body.rests else Rest()
            if rest.points:
                desk.silent.begin(who.job, call.identity)
            return translate.remap_answer(action.answer, desk.places.of, about, rest)
    return m.RemapAnswer(what="continue", reason="this remap point is older than the last")


@handles(m.RanksLost)
def ranks_lost(desk: Desk, call: Call[m.RanksLost]) -> m.ReplyBody:
    """Ranks of a protected job died, and the others ask on what to go on."""
    who = call.principal
    event = ev.RanksLost(who.job, who.instance, tuple(call.body.processors))
    actions = desk.apply(event)
    answers = [a for a in actions if isinstance(a, AnswerRemap) and a.job == who.job]
    return translate.remap_answer(answers[0].answer, desk.places.of)


@handles(m.Committed)
def committed(desk: Desk, call: Call[m.Committed]) -> m.ReplyBody:
    """A resize was carried out."""
    who, body = call.principal, call.body
    pending = desk.state.job(who.job).resize
    # Before the event: it leads to the orders that name these processes (orders.vacate).
    if pending is not None and pending.resize_id == body.resize_id and not pending.expand:
        desk.leaving.update(
            {(who.job, p): pid for p, pid in zip(pending.processors, body.pids, strict=False)}
        )
    took_s = body.redistribution_time_s
    desk.apply(ev.ResizeCommitted(who.job, who.instance, body.resize_id, took_s, body.carried))
    return m.Done()


# Messages that are only handed to the scheduler, each as an event with the same fields.
EVENTS: dict[type[m.RequestBody], Callable[..., ev.Event]] = {
    m.ResizesByRestart: ev.ResizesByRestart,
    m.RestartReady: ev.RestartReady,
    m.CopyMade: ev.CopyMade,
    m.GaveUp: ev.JobGaveUp,
    m.RankReport: ev.RankReported,
    m.WorkDone: ev.WorkDone,
    m.Aborted: ev.ResizeAborted,
}


def _apply(desk: Desk, call: Call[Any]) -> m.ReplyBody:
    who, fields = call.principal, msgspec.structs.asdict(call.body)
    desk.apply(EVENTS[type(call.body)](job=who.job, instance=who.instance, **fields))
    return m.Done()


for message in EVENTS:
    handles(message)(_apply)


@handles(m.DynamicRequest)
def dynamic_request(desk: Desk, call: Call[m.DynamicRequest]) -> m.ReplyBody:
    """An evolving application asks for processors."""
    who, fields = call.principal, msgspec.structs.asdict(call.body)
    return _dynamic(desk, who, ev.DynamicRequested(who.job, who.instance, **fields))


@handles(m.DynamicRelease)
def dynamic_release(desk: Desk, call: Call[m.DynamicRelease]) -> m.ReplyBody:
    """An evolving application gives processors back."""
    who = call.principal
    return _dynamic(desk, who, translate.dynamic_release(call.body, who.job, who.instance))


def _dynamic(
    desk: Desk, who: Principal, event: ev.DynamicRequested | ev.DynamicReleased
) -> m.ReplyBody:
    """Hand it to the scheduler, which answers every legal one at once."""
    actions = desk.apply(event)
    own = (a.answer for a in actions if isinstance(a, AnswerRequest) and a.job == who.job)
    return translate.dynamic_answer(next(own), desk.now())
