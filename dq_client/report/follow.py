"""The events of `dq watch`: the differences between one poll of the server and the next.

No I/O: the caller asks the server and passes the answers in. A poll has four steps:

    1. the caller asks for the active jobs and for the last job id;
    2. `missing` names jobs to query one by one: those that ended, or came and ended, in between;
    3. `changed` says whose decisions (the story) must be read;
    4. `take` gets all of these answers and returns the events.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from dq_client.report.growth import ENDED
from dq_client.report.text import printable

View = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `event` is "state" (of the job) or "decision" (of the scheduler)."""

    time_s: float
    job: int
    name: str
    event: str
    what: str  # the state, or the decision
    processors: int
    reason: str

    def plain(self) -> dict[str, Any]:
        """As `dq watch --json` prints it."""
        return asdict(self)


@dataclass(slots=True)
class _Reported:
    """What of a job has been reported so far."""

    state: str = ""
    fingerprint: tuple[object, ...] = ()
    reported_s: float = float("-inf")  # decisions up to this time have been reported
    last: tuple[str, str] = ("", "")  # `what` and `code` of the last decision seen


class Follower:
    """Keeps what was reported. `only`: follow this job alone, from its first decision on."""

    def __init__(self, only: int | None = None) -> None:
        self.only = only
        self._seen: dict[int, _Reported] = {}
        self._last_id: int | None = None  # None before the first look
        self._active: set[int] = set()

    def missing(self, active: list[View], last_id: int) -> list[int]:
        """Jobs to query one by one: active at the last poll and not now, or never seen active."""
        if self.only is not None:
            return []
        now = {view["id"] for view in active}
        gone = self._active - now
        if self._last_id is not None:
            gone |= set(range(self._last_id + 1, last_id + 1)) - now
        return sorted(gone)

    def changed(self, view: View) -> bool:
        """Whether there may be decisions about the job since the last poll."""
        seen = self._seen.get(view["id"])
        if seen is None:
            return self._last_id is not None or self.only is not None
        return seen.fingerprint != _fingerprint(view)

    def take(
        self, views: list[View], stories: dict[int, list[View]], last_id: int, now_s: float
    ) -> list[Event]:
        """Events since the last poll, oldest first."""
        events: list[Event] = []
        first_look = self._last_id is None and self.only is None
        for view in views:
            events += self._job(view, stories.get(view["id"], []), now_s, first_look=first_look)
        self._active = {view["id"] for view in views if view["state"] not in ENDED}
        self._last_id = max(last_id, self._last_id or 0)
        for number in [n for n in self._seen if n not in self._active]:
            del self._seen[number]
        return sorted(events, key=lambda event: event.time_s)

    def _job(self, view: View, story: list[View], now_s: float, *, first_look: bool) -> list[Event]:
        seen = self._seen.setdefault(view["id"], _Reported())
        new_state = view["state"] != seen.state
        ended = view["state"] in ENDED
        events = []
        if new_state and not ended:
            events.append(_state_event(view, now_s))
        if first_look:
            seen.reported_s = now_s
        else:
            events += _decisions(view, story, seen)
        if new_state and ended:
            events.append(_state_event(view, now_s))
        seen.state, seen.fingerprint = view["state"], _fingerprint(view)
        return events


def _fingerprint(view: View) -> tuple[object, ...]:
    return (view["state"], view["remap_points"], view["processors"], view["sweet_spot"])


def _state_event(view: View, now_s: float) -> Event:
    state = view["state"]
    time_s = {
        "queued": view["submit_s"],
        "held": view["submit_s"],
        "waiting": view["submit_s"],
        "starting": view["start_s"],
    }.get(state, view["end_s"])
    return Event(
        time_s=time_s if time_s is not None else now_s,
        job=view["id"],
        name=printable(view["name"]),
        event="state",
        what=state,
        processors=view["processors"],
        reason=printable(view["reason"] or ""),
    )


def _decisions(view: View, story: list[View], seen: _Reported) -> list[Event]:
    """Decisions not reported yet; of several `continue` with one cause only the first.

    A job decides at every remap point: without that rule a steady job would print a line per turn.
    """
    events = []
    for line in story:
        if line["time_s"] <= seen.reported_s:
            continue
        key = (line["what"], line["code"])
        repeated = key == seen.last and line["what"] == "continue"
        seen.last = key
        if repeated or line["what"] in ENDED:  # reported as a state, with its reason
            continue
        events.append(
            Event(
                time_s=line["time_s"],
                job=view["id"],
                name=printable(view["name"]),
                event="decision",
                what=line["what"],
                processors=_processors_at(view, line["time_s"]),
                reason=printable(line["text"]),
            )
        )
    seen.reported_s = max([seen.reported_s, *(line["time_s"] for line in story)])
    return events


def _processors_at(view: View, time_s: float) -> int:
    """Processors held at `time_s`; views of a job list have no sizes: the present number."""
    stays = view.get("sizes")
    if stays is None:
        return int(view["processors"])
    held = [stay["processors"] for stay in stays if stay["since_s"] <= time_s]
    return int(held[-1]) if held else 0
