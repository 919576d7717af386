"""The scheduler's whole state as bytes and back, so that a start need not replay a long life.

Driven by the type hints of `State` and of the features' records: a field added there is kept
without a word here. Only some kinds of fields need translation: the indexes over `jobs` (queue,
active, ...) become lists of ids, because the jobs in them must be the very same objects again;
ordered dictionaries and deques become lists, because msgspec knows neither; what the scheduler
wires in is left out, and so are what is `derived` of the rest, and `changes`, which counts refused
events, too, and matters only to what policies have worked out and hold in memory. A field that is
missing takes its default, so that a newer version reads an older snapshot. One of FORM 1 is not
read: journals of that time have all of their events. Later ones have not (journal.py drops old
events), so who makes a FORM 3 writes what reads FORM 2, too.

Records that equal their defaults are left out: a query may have made them, an event has not.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from dq_server.core.model.jobs import Job
from dq_server.core.model.records import RECORDS, Records
from dq_server.core.model.state import Answers, State
from dq_server.core.scheduler import Scheduler
from dq_server.core.settings import from_recorded

COMPRESSION = 1  # quick: writing the bytes takes the server's time, making them need not
FORM = 2  # 1 had the features' fields in Job and State

RETIRED = frozenset({"Inside", "QuotaHeld"})  # records of older versions that follow from others

Raws = dict[str, msgspec.Raw]


class DamagedSnapshot(ValueError):
    """These bytes are no snapshot."""


@dataclass(frozen=True, slots=True)
class _Form:
    """A snapshot on disk."""

    form: int
    time: float
    config: dict[str, Any]
    jobs: list[tuple[Job, dict[str, Raws]]]  # without and with its records
    state: Raws
    records: dict[str, Raws]


# A job's records stand beside it in the form; what it holds itself is empty.
_DECODER = msgspec.msgpack.Decoder(_Form, dec_hook=lambda kind, value: kind(value))

_hints = cache(get_type_hints)


def _kind(owner: type, name: str) -> str:
    """How a field is translated: own (in a place of its own), index, ordered, deque or plain."""
    hint = _hints(owner)[name]
    origin, args = get_origin(hint), get_args(hint)
    if owner is State and name in ("jobs", "records", "derived"):
        return "own"
    if origin is Callable or hint is Answers:
        return "own"
    if origin in (dict, OrderedDict) and args[1] is Job:
        return "index"
    if origin is OrderedDict:
        return "ordered"
    return "deque" if origin is deque else "plain"


def _encoded(thing: Any) -> Raws:
    """The fields of the state or of a record."""
    raws = {}
    for f in fields(thing):
        kind, value = _kind(type(thing), f.name), getattr(thing, f.name)
        if kind == "own":
            continue
        if kind in ("index", "deque"):
            value = list(value)
        elif kind == "ordered":
            value = list(value.items())
        raws[f.name] = msgspec.Raw(msgspec.msgpack.encode(value))
    return raws


def _records(owner: Job | State) -> dict[str, Raws]:
    """The records that say something, by name."""
    return {name: _encoded(record) for name, record in owner.records.said().items()}


def encode(scheduler: Scheduler, time: float) -> bytes:
    """The state at `time`, the time of the last event."""
    state = scheduler.state
    jobs = [(replace(job, records=Records()), _records(job)) for job in state.jobs.values()]
    config = msgspec.to_builtins(scheduler.config)
    form = _Form(FORM, time, config, jobs, _encoded(state), _records(state))
    return zlib.compress(msgspec.msgpack.encode(form), COMPRESSION)


def decode(body: bytes) -> tuple[Scheduler, float]:
    """A scheduler in that state, and the time of its last event; DamagedSnapshot otherwise."""
    try:
        form = _DECODER.decode(zlib.decompress(body))
        assert form.form == FORM, f"it has form {form.form}, not {FORM}"
        jobs = {job.id: job for job, _ in form.jobs}
        state = State(jobs=jobs, **_decoded(State, form.state, jobs))
        _restore(state, form.records, jobs)
        for job, records in form.jobs:
            _restore(job, records, jobs)
        scheduler = Scheduler(from_recorded(form.config), state)
        scheduler.state.check()
    except Exception as e:  # whatever the bytes make of themselves
        raise DamagedSnapshot(str(e)) from e
    return scheduler, form.time


def _restore(owner: Job | State, records: dict[str, Raws], jobs: dict[int, Job]) -> None:
    for name, raws in records.items():
        if name in RETIRED:
            continue
        kind = RECORDS[name]
        owner.records[name] = kind(**_decoded(kind, raws, jobs))


def _decoded(owner: type, raws: Raws, jobs: dict[int, Job]) -> dict[str, Any]:
    known = _hints(owner)
    return {name: _value(owner, name, raw, jobs) for name, raw in raws.items() if name in known}


def _value(owner: type, name: str, raw: msgspec.Raw, jobs: dict[int, Job]) -> Any:
    kind, hint = _kind(owner, name), _hints(owner)[name]
    if kind == "index":
        ids = msgspec.msgpack.decode(raw, type=list[int])
        return get_origin(hint)((i, jobs[i]) for i in ids)
    if kind == "ordered":
        key, value = get_args(hint)
        return OrderedDict(msgspec.msgpack.decode(raw, type=list[tuple[key, value]]))  # type: ignore[valid-type]
    if kind == "deque":
        return deque(msgspec.msgpack.decode(raw, type=list[get_args(hint)[0]]))  # type: ignore[misc]
    return msgspec.msgpack.decode(raw, type=hint)
