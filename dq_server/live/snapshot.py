"""The scheduler's whole state as bytes and back, so that a start need not replay a long life.

Driven by the type hints of `State`: a field added there is kept without a word here. Only three
kinds of fields need translation: the indexes over `jobs` (queue, active, ...) become lists of ids,
because the jobs in them must be the very same objects again, ordered dictionaries and deques
become lists, because msgspec knows neither, and functions are left out, because the scheduler puts
them in again when it is configured, and so is `changes`, which counts refused events, too, and
matters only to what policies have worked out and hold in memory. A field that is missing takes its
default, so that a newer version reads an older snapshot.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from dq_server.core.config import SchedulerConfig
from dq_server.core.jobs import Job
from dq_server.core.scheduler import Scheduler
from dq_server.core.state import State

COMPRESSION = 1  # quick: writing the bytes takes the server's time, making them need not

_HINTS = get_type_hints(State)


class DamagedSnapshot(ValueError):
    """These bytes are no snapshot."""


@dataclass(frozen=True, slots=True)
class _Form:
    """A snapshot on disk."""

    time: float
    config: SchedulerConfig
    jobs: list[Job]
    state: dict[str, msgspec.Raw]


def _kind(name: str) -> str:
    """How a field of State is translated: jobs, index, ordered, deque, wiring or plain."""
    hint = _HINTS[name]
    origin, args = get_origin(hint), get_args(hint)
    if name == "jobs":
        return "jobs"
    if origin is Callable or name == "changes":
        return "wiring"
    if origin in (dict, OrderedDict) and args[1] is Job:
        return "index"
    if origin is OrderedDict:
        return "ordered"
    return "deque" if origin is deque else "plain"


def encode(scheduler: Scheduler, time: float) -> bytes:
    """The state at `time`, the time of the last event."""
    raw = {}
    for f in fields(State):
        kind, value = _kind(f.name), getattr(scheduler.state, f.name)
        if kind in ("jobs", "wiring"):
            continue
        if kind == "index":
            value = list(value)
        elif kind == "ordered":
            value = list(value.items())
        elif kind == "deque":
            value = list(value)
        raw[f.name] = msgspec.Raw(msgspec.msgpack.encode(value))
    jobs = list(scheduler.state.jobs.values())
    body = msgspec.msgpack.encode(_Form(time, scheduler.config, jobs, raw))
    return zlib.compress(body, COMPRESSION)


def decode(body: bytes) -> tuple[Scheduler, float]:
    """A scheduler in that state, and the time of its last event; DamagedSnapshot otherwise."""
    try:
        form = msgspec.msgpack.decode(zlib.decompress(body), type=_Form)
        jobs = {job.id: job for job in form.jobs}
        values = {
            name: _value(name, raw, jobs) for name, raw in form.state.items() if name in _HINTS
        }
        scheduler = Scheduler(form.config, State(jobs=jobs, **values))
        scheduler.state.check()
    except Exception as e:  # whatever the bytes make of themselves
        raise DamagedSnapshot(str(e)) from e
    return scheduler, form.time


def _value(name: str, raw: msgspec.Raw, jobs: dict[int, Job]) -> Any:
    kind, hint = _kind(name), _HINTS[name]
    if kind == "index":
        ids = msgspec.msgpack.decode(raw, type=list[int])
        return get_origin(hint)((i, jobs[i]) for i in ids)
    if kind == "ordered":
        key, value = get_args(hint)
        return OrderedDict(msgspec.msgpack.decode(raw, type=list[tuple[key, value]]))  # type: ignore[valid-type]
    if kind == "deque":
        return deque(msgspec.msgpack.decode(raw, type=list[get_args(hint)[0]]))  # type: ignore[misc]
    return msgspec.msgpack.decode(raw, type=hint)
