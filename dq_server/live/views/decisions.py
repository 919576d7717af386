"""What the scheduler decided, as plain data for a feed: made of events and their actions, whether
they are still in memory or were read from the journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from dq_server.core.model import events as ev
from dq_server.core.model.actions import Action
from dq_server.core.model.reasons import Reason

Plain = dict[str, Any]

# Events that are told themselves, though they may lead to no action.
TOLD = (
    ev.ResizeCommitted,
    ev.ResizeAborted,
    ev.NodeJoined,
    ev.NodeLost,
    ev.NodeLeft,
    ev.DrainRequested,
    ev.ResumeRequested,
    ev.HoldRequested,
    ev.ReleaseRequested,
    ev.JobEdited,
    ev.ResizeRequested,
    ev.GrantsPaused,
    ev.EventsLost,
)


@dataclass(frozen=True, slots=True)
class Happened:
    """An event, its number in the journal, and what it led to: as objects, or as the journal's
    text."""

    seq: int
    time_s: float
    event: ev.Event
    actions: list[Action] | str


def plain(entries: Iterable[Happened]) -> list[Plain]:
    """Decisions of these events, oldest first.

    Each has `event` (its number in the journal), `time_s`, `what`, `job` (0: none), `node` (empty:
    none), `processors` (None: it is about no size), and the reason's `code`, `text` and `figures`.
    """
    found = []
    said: dict[int, str] = {}  # to continue for the same reason again says nothing
    for entry in entries:
        rows = _of_event(entry.event)
        for name, action in _decoded(entry.actions):
            make = ACTIONS.get(name)
            row = make(action) if make is not None else None
            if row is None:
                continue
            if row["what"] == "continue":
                if said.get(row["job"]) == row["code"]:
                    continue
                said[row["job"]] = row["code"]
            rows.append(row)
        found += [{"event": entry.seq, "time_s": entry.time_s, **row} for row in rows]
    return found


def _row(what: str, reason: Plain | None = None, text: str = "", **more: Any) -> Plain:
    code, figures = "", {}
    if reason is not None:
        code, figures = reason["code"], reason["figures"]
        try:
            text = Reason(code, figures).text
        except KeyError:  # of a policy that is not in use any more
            text = code
    fixed = {"job": 0, "node": "", "processors": None}
    return {"what": what, **fixed, "code": code, "text": text, "figures": figures, **more}


def _remap(action: Plain) -> Plain:
    answer = action["answer"]
    size = answer["configuration"]["rows"] * answer["configuration"]["cols"]
    return _row(answer["what"], answer["reason"], job=action["job"], processors=size)


def _request(action: Plain) -> Plain:
    answer = action["answer"]
    return _row(f"request {answer['what']}", answer["reason"], job=action["job"])


def _start(action: Plain) -> Plain:
    size = len(action["processors"])
    return _row("start", action["reason"], job=action["job"], processors=size)


def _nodes(what: str) -> Callable[[Plain], Plain]:
    return lambda action: _row(what, action["reason"], node=action.get("node", ""))


def _of_job(what: str) -> Callable[[Plain], Plain]:
    return lambda action: _row(what, action["reason"], job=action["job"])


ACTIONS: dict[str, Callable[[Plain], Plain]] = {
    "JobAccepted": lambda action: _row("submit", job=action["job"]),
    "StartJob": _start,
    "AnswerRemap": _remap,
    "AnswerRequest": _request,
    "KillJob": _of_job("kill"),
    "JobFinished": lambda action: _row(action["state"], action["reason"], job=action["job"]),
    "JobRestarts": _of_job("restart"),
    "WarnJob": _of_job("warn"),
    "ResizeWorkers": lambda action: _row(
        action["what"], action["reason"], job=action["job"], processors=action["size"]
    ),
    "AskNodes": _nodes("ask for nodes"),
    "GiveNode": _nodes("give back"),
}


def _of_event(event: ev.Event) -> list[Plain]:
    """What an event says by itself."""
    match event:
        case ev.ResizeCommitted():
            took_s = event.redistribution_time_s
            text = f"the resize is done, {took_s:.3g} s of redistribution"
            return [
                _row("committed", text=text, job=event.job, figures={"redistribution_s": took_s})
            ]
        case ev.ResizeAborted():
            return [_row("aborted", text=event.why, job=event.job)]
        case ev.NodeJoined():
            return [_row("node up", node=event.node, processors=event.processors)]
        case ev.NodeLost():
            return [_row("node lost", text=event.why, node=event.node)]
        case ev.NodeLeft():
            return [_row("node left", text="it was empty", node=event.node)]
        case ev.DrainRequested():
            return [_row("drain", text=event.reason, node=event.node)]
        case ev.ResumeRequested():
            return [_row("resume", node=event.node)]
        case ev.HoldRequested():
            return [_row("hold", job=event.job)]
        case ev.ReleaseRequested():
            return [_row("release", job=event.job)]
        case ev.JobEdited():
            given = {"walltime_s": event.walltime_s, "priority": event.priority}
            figures = {name: value for name, value in given.items() if value is not None}
            text = ", ".join(f"{name} = {value:g}" for name, value in figures.items())
            return [_row("edit", text=text, job=event.job, figures=figures)]
        case ev.ResizeRequested():
            text = f"asked for by the user: {event.size}"
            return [_row("order", text=text, job=event.job, processors=event.size)]
        case ev.GrantsPaused():
            return [_row("grants paused" if event.paused else "grants go on", text=event.why)]
        case ev.EventsLost():
            again = f"; starts of jobs {event.unknown} are over" if event.unknown else ""
            return [_row("events lost", text=f"the journal was mended or restored{again}")]
    return []


def _decoded(actions: list[Action] | str) -> list[tuple[str, Plain]]:
    """Actions with the names of their types."""
    if isinstance(actions, str):
        return [(name, action) for name, action in msgspec.json.decode(actions)]
    return [(type(action).__name__, msgspec.to_builtins(action)) for action in actions]
