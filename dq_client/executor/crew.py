"""Which worker does which task of an executor. Pure: `Crew.handle(event, now) -> actions`.

A task is done at least once and delivered exactly once. Each worker has one task at a time, in the
order of submission; a task that comes back is the next one to be given. The first answer to a task
counts, also one of a worker that had been taken for lost.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from enum import Enum, auto

LOSSES_MAX = 5  # a task whose workers die this often is what kills them


class What(Enum):
    """What has happened; `task` and `worker` of an Event are those that it is about."""

    SUBMITTED = auto()  # a task
    CANCELLED = auto()  # a task; `worker` was given it and did not get it
    READY = auto()  # a worker: it is there and has nothing to do. Repeated
    ANSWERED = auto()  # a worker has done a task
    CRASHED = auto()  # the process that did a task has died; its worker has not
    LEFT = auto()  # a worker was told to leave, or has found no more work
    LOST = auto()  # a worker is there no more
    TICK = auto()  # time has passed


@dataclass(frozen=True, slots=True)
class CrewEvent:
    """Something that has happened. `how`: what a process died of."""

    what: What
    worker: bytes = b""
    task: int = 0
    how: str = ""


@dataclass(frozen=True, slots=True)
class Give:
    """Send a task to a worker."""

    worker: bytes
    task: int


@dataclass(frozen=True, slots=True)
class Deliver:
    """The answer at hand is the task's."""

    task: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Task `task` has killed too many workers."""

    task: int
    how: str


@dataclass(frozen=True, slots=True)
class Dismiss:
    """A worker has been idle for long and is to end."""

    worker: bytes


Action = Give | Deliver | GiveUp | Dismiss


@dataclass(slots=True)
class Crew:
    """Tasks and workers; `handle` is the only way to change them.

    idle_s    a worker that has had nothing to do for so long is dismissed
    open      tasks that are not over: each is in `waiting` or in `doing`, once
    waiting   tasks that no worker has, the next one first; some may be over
    doing     worker -> its task; None: it is idle
    repeated  how often a task was given again
    """

    idle_s: float
    waiting: deque[int] = field(default_factory=deque)
    open: set[int] = field(default_factory=set)
    doing: dict[bytes, int | None] = field(default_factory=dict)
    repeated: int = 0
    _idle_since_s: dict[bytes, float] = field(default_factory=dict)
    _losses: Counter[int] = field(default_factory=Counter)

    def handle(self, event: CrewEvent, now_s: float) -> list[Action]:
        """Take note of an event and return what is to be done. Stale events change nothing."""
        worker, task = event.worker, event.task
        found: list[Action] = []
        if event.what is What.SUBMITTED:
            self.open.add(task)
            self.waiting.append(task)
        elif event.what is What.CANCELLED:
            self._close(task)
            if worker and self.doing.get(worker) == task:
                self._rest(worker, now_s)
        elif event.what is What.READY:
            held = self.doing.get(worker)
            if held is not None:  # it has not come to the worker, or is on its way
                found.append(Give(worker, held))
            elif worker not in self.doing:
                self._rest(worker, now_s)
        elif event.what is What.ANSWERED:
            if task in self.open:
                self._close(task)
                found.append(Deliver(task))
            if self.doing.get(worker) in (task, None):
                self._rest(worker, now_s)
        elif event.what is What.CRASHED:
            if self.doing.get(worker) == task:
                self._rest(worker, now_s)
                found += self._again(task, event.how)
        elif event.what in (What.LEFT, What.LOST):
            held = self.doing.pop(worker, None)
            self._idle_since_s.pop(worker, None)
            if held is not None:
                how = "" if event.what is What.LEFT else event.how or "its worker was lost"
                found += self._again(held, how)
        return found + self._give() + self._dismiss(now_s)

    def _rest(self, worker: bytes, now_s: float) -> None:
        self.doing[worker] = None
        self._idle_since_s[worker] = now_s

    def _close(self, task: int) -> None:
        """The task is over, whoever still works at it."""
        self.open.discard(task)
        self._losses.pop(task, None)

    def _again(self, task: int, how: str) -> list[Action]:
        """A worker has not finished it. `how`: what the worker died of; empty: it is well."""
        if task not in self.open:
            return []
        self._losses[task] += bool(how)
        if self._losses[task] >= LOSSES_MAX:
            self._close(task)
            return [GiveUp(task, how)]
        self.repeated += 1
        self.waiting.appendleft(task)
        return []

    def _give(self) -> list[Action]:
        found: list[Action] = []
        while self.waiting and (self._idle_since_s or self.waiting[0] not in self.open):
            task = self.waiting.popleft()
            if task in self.open:
                worker = next(iter(self._idle_since_s))
                self.doing[worker] = task
                del self._idle_since_s[worker]
                found.append(Give(worker, task))
        return found

    def _dismiss(self, now_s: float) -> list[Action]:
        """Those that have been idle for long; nothing waits while one is idle."""
        over = [w for w, since_s in self._idle_since_s.items() if now_s - since_s >= self.idle_s]
        for worker in over:
            del self._idle_since_s[worker], self.doing[worker]
        return [Dismiss(worker) for worker in over]
