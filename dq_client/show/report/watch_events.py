"""The events of `dq watch`: what the answers to Since say that was not said before.

No I/O: the caller asks the server, with `stories_s`, and passes the answers in (`take`). A job of
which the server knows no more by then is in `forgotten`: the caller asks for it by itself, once.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from dq_client.base.states import ENDED
from dq_client.show.report.text import printable

View = dict[str, Any]
OVERLAP_S = 1.0  # what was decided just before an answer is told again, and left out here


@dataclass(frozen=True, slots=True)
class WatchEvent:
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
    reported_s: float = float("-inf")  # decisions up to this time have been reported
    last: tuple[str, str] = ("", "")  # `what` and `code` of the last decision seen


class WatchEvents:
    """Keeps what was reported. `only`: follow this job alone, from its first decision on.

    active      rows of the jobs followed that have not ended
    last        the row of `only` as last seen
    complete    the server has told all that there was, once
    forgotten   jobs whose end was missed
    """

    def __init__(self, only: int | None = None) -> None:
        self.only = only
        self.active: dict[int, View] = {}
        self.last: View | None = None
        self.complete = False
        self.forgotten: list[int] = []
        self._seen: dict[int, _Reported] = {}
        self._last_id = 0  # as of the last complete look: what is new has a higher one
        self._ended: set[int] = set()  # of the new ones, told since then
        self._untold: set[int] = set()  # active ones, while the server tells all anew
        self._complete_s = 0.0  # all that was decided until then has been told

    @property
    def stories_s(self) -> float | None:
        """What the server shall tell of the stories of jobs (messages.Since)."""
        if self.complete or self.only is not None:
            return max(0.0, self._complete_s - OVERLAP_S)
        return None

    def take(self, answer: View) -> list[WatchEvent]:
        """Events that this answer tells of, oldest first."""
        now_s, events = answer["now_s"], list[WatchEvent]()
        first = not self.complete and self.only is None
        if answer["whole"]:
            self._untold = set(self.active) if self.only is None else {self.only}
        for view in answer["jobs"]:
            self._untold.discard(view["id"])
            events += self._look(view, now_s, first_look=first)
        self.forgotten = [k for k in answer["gone"] if isinstance(k, int) and self._is_followed(k)]
        if not answer["more"]:
            self.forgotten += self._untold
            self._untold = set()
            self.complete, self._complete_s = True, now_s
            self._last_id = max([self._last_id, *self.active, *self._ended])
            self._ended.clear()
        return sorted(events, key=lambda event: event.time_s)

    def take_forgotten(self, view: View, story: list[View], now_s: float) -> list[WatchEvent]:
        """Events of a job that was forgotten, from the answers to JobQuery and WhyQuery."""
        return self._look({**view, "story": story}, now_s, first_look=False)

    def _is_followed(self, job: int) -> bool:
        return job in self._seen or (self.only is None and self._is_new(job))

    def _is_new(self, job: int) -> bool:
        return self.complete and job > self._last_id and job not in self._ended

    def _look(self, view: View, now_s: float, *, first_look: bool) -> list[WatchEvent]:
        job, ended = view["id"], view["state"] in ENDED
        if self.only == job:
            self.last = view
        elif job not in self._seen and ended and not self._is_new(job):
            self._last_id = max(self._last_id, job) if first_look else self._last_id
            return []
        events = self._job(view, view.get("story", []), now_s, first_look=first_look)
        if ended:
            self.active.pop(job, None)
            self._seen.pop(job, None)
            self._ended.add(job)
        else:
            self.active[job] = view
        return events

    def _job(
        self, view: View, story: list[View], now_s: float, *, first_look: bool
    ) -> list[WatchEvent]:
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
        seen.state = view["state"]
        return events


def _state_event(view: View, now_s: float) -> WatchEvent:
    state = view["state"]
    time_s = {
        "queued": view["submit_s"],
        "held": view["submit_s"],
        "waiting": view["submit_s"],
        "starting": view["start_s"],
    }.get(state, view["end_s"])
    return WatchEvent(
        time_s=time_s if time_s is not None else now_s,
        job=view["id"],
        name=printable(view["name"]),
        event="state",
        what=state,
        processors=view["processors"],
        reason=printable(view["reason"] or ""),
    )


def _decisions(view: View, story: list[View], seen: _Reported) -> list[WatchEvent]:
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
            WatchEvent(
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
    """Processors held at `time_s`."""
    held = [stay["processors"] for stay in view["sizes"] if stay["since_s"] <= time_s]
    return int(held[-1]) if held else 0
