"""What has happened to jobs since the last look: events for `dq watch`, made from queries' answers.

Pure: the caller asks the server and hands the answers in. A look consists of

    1. the active jobs and the last id given;
    2. `missing`: jobs to ask for one by one, because they ended or came and went in between;
    3. `changed`: jobs whose story must be read;
    4. `take`: all that in, events out.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from dq_client.report.growth import ENDED
from dq_client.report.text import printable

View = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Event:
    """One line of news. `event`: state (of the job) or decision (of the scheduler)."""

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
class _Seen:
    """How far a job has been told."""

    state: str = ""
    fingerprint: tuple[object, ...] = ()
    told_s: float = float("-inf")  # up to here its story is told
    last: tuple[str, str] = ("", "")  # what and code of the last line told


class Follower:
    """Remembers what was told. `only`: follow this job alone, and tell its story from the start."""

    def __init__(self, only: int | None = None) -> None:
        self.only = only
        self._seen: dict[int, _Seen] = {}
        self._last_id: int | None = None  # None before the first look
        self._active: set[int] = set()

    def missing(self, active: list[View], last_id: int) -> list[int]:
        """Jobs that `active` should have had, or that were never seen there: ask for each."""
        if self.only is not None:
            return []
        now = {view["id"] for view in active}
        gone = self._active - now
        if self._last_id is not None:
            gone |= set(range(self._last_id + 1, last_id + 1)) - now
        return sorted(gone)

    def changed(self, view: View) -> bool:
        """Whether the job's story may have grown since the last look."""
        seen = self._seen.get(view["id"])
        if seen is None:
            return self._last_id is not None or self.only is not None
        return seen.fingerprint != _fingerprint(view)

    def take(
        self, views: list[View], stories: dict[int, list[View]], last_id: int, now_s: float
    ) -> list[Event]:
        """Events since the last look, oldest first."""
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
        seen = self._seen.setdefault(view["id"], _Seen())
        new_state = view["state"] != seen.state
        ended = view["state"] in ENDED
        events = []
        if new_state and not ended:
            events.append(_state_event(view, now_s))
        if first_look:
            seen.told_s = now_s
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


def _decisions(view: View, story: list[View], seen: _Seen) -> list[Event]:
    """New lines of the story. A decision to continue for the same cause is told once."""
    events = []
    for line in story:
        if line["time_s"] <= seen.told_s:
            continue
        key = (line["what"], line["code"])
        repeated = key == seen.last and line["what"] == "continue"
        seen.last = key
        if repeated or line["what"] in ENDED:  # the end is told as a state, with its reason
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
    seen.told_s = max([seen.told_s, *(line["time_s"] for line in story)])
    return events


def _processors_at(view: View, time_s: float) -> int:
    """What the job held then, so far as its view tells: a list of jobs leaves that out."""
    stays = view.get("sizes")
    if stays is None:
        return int(view["processors"])
    held = [stay["processors"] for stay in stays if stay["since_s"] <= time_s]
    return int(held[-1]) if held else 0
