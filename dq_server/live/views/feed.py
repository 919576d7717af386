"""What has changed, for those who follow: the answer to `Since`, and who waits for it.

The server notes after each event which jobs and nodes it may have changed, and keeps the latest
events with decisions; older ones are read from the journal. A follower gets the present row of each
thing that has changed since it asked last, however often that was: what it misses cannot grow
without bound. One that knows everything waits (`Since.wait_s`), and all who wait are answered
together, at most every EVERY_S, so that a busy cluster costs each of them ten answers a second.

An answer is cut where it has taken BUDGET_S, because everybody else waits meanwhile; it says so
(`more`), and the follower asks again at once. So is the look at all jobs and nodes for changes that
no event names (change_scan.py).

An answer is not sent before the events it follows from are safe (server.py). Events that were
refused after all are forgotten with the state (`restart`): then every row counts as changed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec

from dq_client.base import messages as m
from dq_client.base.changes import Changes
from dq_server.core.model import events as ev
from dq_server.core.model.actions import Action, AnswerRemap
from dq_server.core.model.jobs import Job, Remap
from dq_server.core.model.state import State
from dq_server.live.agents.usage import Usages
from dq_server.live.store.journal import Entry
from dq_server.live.translate import ProcessorNames
from dq_server.live.views import decisions, tables
from dq_server.live.views.change_scan import ChangeScan, Key
from dq_server.live.views.decisions import Happened

EVERY_S = 0.1
BUDGET_S = 0.002
ROWS_MAX = 500  # of an answer
EVENTS_KEPT = 5000
EVENTS_TOLD = 60  # in an answer, or read from the journal for it: some 20 µs each
EVENTS_LEAST = 10  # in an answer whose time is up already: both rows and decisions get on
EVENTS_LATEST = 2000  # looked at for one who asks for the latest decisions
FORGOTTEN_KEPT = 20_000
WAITING_MAX = 64  # of those who follow all jobs
WAITING_FOR_ONE_MAX = 4096

# Events that change the job that they name and no other, the most frequent ones.
QUIET = (ev.RemapPoint, ev.CopyMade, ev.RankReported)


@dataclass(frozen=True, slots=True)
class WaitingReader:
    """Who waits: a connection, the request that will be answered, and until when (monotonic)."""

    request_id: str
    body: m.Since
    until_s: float


@dataclass(frozen=True, slots=True)
class FeedSources:
    """Where the feed finds what it tells."""

    entries: Callable[[int], Iterable[Entry]]  # of the journal, after an event
    monotonic: Callable[[], float]
    epoch: int
    now: Callable[[], float]  # the cluster's time
    whole: Callable[[Job, float], dict[str, Any]]  # a job with its story after a time


class Feed:
    """See the module's docstring. Used by the server's one thread."""

    def __init__(self, sources: FeedSources) -> None:
        self._sources = sources
        self._changes: Changes[Key] = Changes()
        self._gone: deque[Key] = deque()
        self._whole_after = 0  # who knows less has missed that something is gone: all anew
        self.usage = Usages(self._touch)
        self._look = ChangeScan(self._touch, self._lose)
        self._events: deque[Happened] = deque()  # with decisions, the latest
        self._complete_after = self.last_event = 0
        self._said: dict[int, str] = {}  # code of each running job's last `continue`
        self._waiting: dict[bytes, WaitingReader] = {}
        self._answered_s = float("-inf")
        self._answered_to = self._answered_event = 0  # what there was to tell then
        self._rows: dict[Key, tuple[int, msgspec.Raw]] = {}

    # --- what happens ----------------------------------------------------------------------------

    def restart(self, last_event: int) -> None:
        """The state was made anew: whatever was told may be wrong."""
        self._events.clear()
        self._said.clear()
        self._rows.clear()
        self.usage.lost()
        self._look.restart()
        self._complete_after = self.last_event = last_event
        self._number_anew()

    def _number_anew(self) -> None:
        """All that is there counts as changed, and who knows an older number gets the whole."""
        self._gone.clear()
        self._changes = Changes(self._changes.last + 1)
        self._whole_after = self._changes.last
        for thing in self._look.known:
            self._changes.touch(thing)

    def note(self, seq: int, now: float, event: ev.Event, actions: list[Action]) -> bool:
        """An event has happened; `seq` is its number in the journal. False: nothing has changed but
        the times of a job, which continues for the same reason as before."""
        self.last_event = seq
        # By far the most frequent event first: a remap point whose answer changes nothing.
        if type(event) is ev.RemapPoint and len(actions) == 1:
            self._changes.touch(event.job)
            if self._continues_as_before(event.job, actions[0]):
                return False
        else:
            for job in {getattr(one, "job", 0) for one in (event, *actions)} - {0}:
                self._changes.touch(job)
            if not isinstance(event, QUIET):
                self._look.expect(nodes=hasattr(event, "node") or hasattr(event, "ticket"))
            if isinstance(event, ev.JobEnded):
                self._said.pop(event.job, None)
        if actions or isinstance(event, decisions.TOLD):
            self._events.append(Happened(seq, now, event, actions))
            if len(self._events) > EVENTS_KEPT:
                self._complete_after = self._events.popleft().seq
        return True

    def _continues_as_before(self, job: int, only: Action) -> bool:
        """Whether the answer is to continue, for the same reason as the one before."""
        if type(only) is not AnswerRemap or only.answer.what is not Remap.CONTINUE:
            return False
        code = only.answer.reason.code
        if self._said.get(job) == code:
            return True
        self._said[job] = code
        return False

    def _touch(self, thing: Key) -> None:
        self._changes.touch(thing)  # of the present numbers: they may begin anew

    def _lose(self, thing: Key) -> None:
        self._changes.touch(thing)
        self._gone.append(thing)
        if len(self._gone) > FORGOTTEN_KEPT:
            self._number_anew()

    # --- who asks --------------------------------------------------------------------------------

    def ask(
        self, identity: bytes, request_id: str, body: m.Since, state: State, places: ProcessorNames
    ) -> m.ReplyBody | None:
        """The answer; None: it comes later, by `answer_waiting`."""
        now = self._sources.monotonic()
        if body.job:
            behind = self._changes.number(body.job) > body.seq
        else:
            behind = body.seq < self._answered_to or (body.event or 0) < self._answered_event
            behind |= self._look.under_way
        if not body.wait_s or body.epoch != self._sources.epoch or behind:
            return self._answer(body, state, places)
        waiting = self._waiting.get(identity)
        if waiting is None and (refusal := self._full(body)):
            return m.Error("later", refusal)
        # By connection: another request takes the place of the first. The same one is sent again
        # each second, and does not wait any longer for that.
        if waiting is None or waiting.request_id != request_id:
            self._waiting[identity] = WaitingReader(request_id, body, now + body.wait_s)
        return None

    def _full(self, body: m.Since) -> str:
        """Why nobody else can wait like this; empty: there is room."""
        for_one = bool(body.job)
        most = WAITING_FOR_ONE_MAX if for_one else WAITING_MAX
        if len(self._waiting) < most:
            return ""
        count = sum(bool(f.body.job) == for_one for f in self._waiting.values())
        what = "a job" if for_one else "changes"
        return f"{count} clients wait for {what} already" if count >= most else ""

    def wait_s(self, longest_s: float) -> float:
        """When somebody who waits can be answered, at the latest in `longest_s`."""
        if not self._waiting:
            return longest_s
        now = self._sources.monotonic()
        due_s = min(f.until_s for f in self._waiting.values())
        followed = (f.body.event or 0 for f in self._waiting.values() if not f.body.job)
        if self._is_news(min(followed, default=self.last_event)):
            due_s = min(due_s, self._answered_s + EVERY_S)
        return min(longest_s, max(0.0, due_s - now))

    def _is_news(self, event: int) -> bool:
        return (
            self._changes.last > self._answered_to
            or self._look.due
            or bool(self._events and self._events[-1].seq > event)
        )

    def answer_waiting(
        self, state: State, places: ProcessorNames, reply: Callable[[bytes, str, m.ReplyBody], None]
    ) -> None:
        """Answer who waits, if there is something to say or the time is up; between turns."""
        if not self._waiting:
            return
        now = self._sources.monotonic()
        due, out = now >= self._answered_s + EVERY_S, self._clock(BUDGET_S)
        if due:
            self._look.go_on(state, places, out)
        elif all(f.until_s > now for f in self._waiting.values()):
            return
        answered = 0
        for identity, follower in list(self._waiting.items()):
            if not (due and self._has_news(follower.body)) and follower.until_s > now:
                continue
            if answered and out():
                return  # the others in the next turn: `_answered_to` still says that they are due
            answered += 1
            del self._waiting[identity]
            reply(identity, follower.request_id, self._answer(follower.body, state, places))
        if due:
            self._answered_s, self._answered_to = now, self._changes.last
            self._answered_event = self._events[-1].seq if self._events else 0

    def _has_news(self, body: m.Since) -> bool:
        if body.job:
            return body.seq < self._changes.number(body.job)
        return body.seq < self._changes.last or bool(
            self._events and self._events[-1].seq > (body.event or 0)
        )

    # --- the answer ------------------------------------------------------------------------------

    def _clock(self, within_s: float) -> Callable[[], bool]:
        """Says when the time is up that begins now."""
        until_s = self._sources.monotonic() + within_s
        return lambda: self._sources.monotonic() > until_s

    def _answer(self, body: m.Since, state: State, places: ProcessorNames) -> m.Data:
        out = self._clock(BUDGET_S)
        self._look.go_on(state, places, out)
        if body.job in state.jobs and not self._changes.number(body.job):
            self._changes.touch(body.job)  # the look has not come to it yet
        known = body.epoch == self._sources.epoch and self._whole_after <= body.seq
        seq = body.seq if known and body.seq <= self._changes.last else 0
        jobs: list[object] = []
        nodes, gone = [], []
        told, cut = seq, False
        for count, (thing, number) in enumerate(self._changed(body.job, seq)):
            if count and (count >= ROWS_MAX or out()):
                cut = True
                break
            told = number
            job = state.jobs.get(thing) if isinstance(thing, int) else None
            if job is not None:
                if body.stories_s is None:
                    jobs.append(self._row(job, number, state))
                else:
                    jobs.append(self._sources.whole(job, body.stories_s))
            elif isinstance(thing, str) and thing in self._look.nodes:
                nodes.append(self._look.nodes[thing])
            else:
                gone.append(thing)
        most = EVENTS_LEAST if out() else EVENTS_TOLD
        story, event, more_events = (
            ([], self.last_event, False) if body.job else self._decisions(body.event, most)
        )
        data = {
            "epoch": self._sources.epoch,
            "now_s": self._sources.now(),
            "seq": told if cut else self._changes.last,
            "event": event,
            "more": cut or more_events or self._look.under_way,
            "whole": seq == 0,  # what the follower knew counts no more
            "jobs": jobs,
            "nodes": nodes,
            "gone": gone,
            "decisions": story,
            "processors": state.processors.capacity,
            "idle": state.idle,
            "paused": state.paused,
        }
        return m.Data(data)

    def _changed(self, job: int, seq: int) -> Iterable[tuple[Key, int]]:
        """What has changed after a number, with the numbers, oldest first; 0: of all jobs."""
        if not job:
            return self._changes.after(seq)
        number = self._changes.number(job)
        return [(job, number)] if number > seq else []

    def _row(self, job: Job, number: int, state: State) -> msgspec.Raw:
        """A job's row, encoded once for all who follow."""
        known = self._rows.get(job.id)
        if known is None or known[0] != number:
            row = msgspec.Raw(msgspec.msgpack.encode(tables.followed_view(job, state, self.usage)))
            if len(self._rows) > 2 * ROWS_MAX:
                self._rows.clear()
            known = self._rows[job.id] = (number, row)
        return known[1]

    def _decisions(self, after: int | None, most: int) -> tuple[list[dict[str, Any]], int, bool]:
        """Decisions of the next events, `most` at most; the last that they cover; whether there are
        more."""
        if after is None or after > self.last_event:
            after = max(0, self.last_event - EVENTS_LATEST)
        if after < self._complete_after:
            read = islice(self._sources.entries(after), most)
            found = [Happened(e.seq, e.time, e.event, e.actions) for e in read]
            last = found[-1].seq if found else self._complete_after
            return decisions.plain(found), last, bool(found) and last < self.last_event
        newer: deque[Happened] = deque()
        for entry in reversed(self._events):
            if entry.seq <= after:
                break
            newer.appendleft(entry)
        some = list(islice(newer, most))
        if len(newer) > len(some):
            return decisions.plain(some), some[-1].seq, True
        return decisions.plain(some), self.last_event, False
