"""The driver: the tickets of the state on one side, what the engine has on the other.

Both are compared, round by round, and whatever is missing or too much is mended, so that it does
not matter who was killed when: a request whose answer got lost is found by its ticket, one that
never arrived is made again, and what nobody knows a ticket of is given back. Nothing is asked for
before its ticket is in the journal, because the tickets that come here are those of a state that
was committed (link.py).

`Driver.round` is one comparison; `Thread` makes them, so that an engine that hangs keeps nobody
else waiting.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from dq_server.live.engines.port import (
    Engine,
    EngineRefusal,
    Has,
    News,
    Pending,
    Refusal,
    Revoked,
    Started,
    TicketEnd,
    TicketPhase,
    Unclear,
    WantedTicket,
)
from dq_server.live.rate_limited_log import RateLimitedLog

log = logging.getLogger("dq.server")
complaints = RateLimitedLog(log)

SETTLES_S = 4.0  # what an earlier server has asked for may still be on its way to the engine
SHOWS_S = 10.0  # a request that the engine has taken in is among what it has by then
REPEAT_S = 10.0  # between requests to end the same node: ending takes a while
UNKNOWN_LEFT_S = 30.0  # of a node that is taken back, if its engine does not know
MOVED_S = 5.0  # a node's end that moves by less has not moved: figures are rounded


@dataclass
class Driver:
    """See the module's docstring."""

    engine: Engine
    clock: Callable[[], float] = time.monotonic
    _old: set[int] | None = None  # tickets of an earlier server, seen in the first round
    _begun_s: float = 0.0
    _asked_s: dict[int, float] = field(default_factory=dict)  # taken in, or perhaps taken in
    _unclear: dict[int, str] = field(default_factory=dict)
    _told: dict[int, str] = field(default_factory=dict)  # why it is pending, said last
    _ends_s: dict[int, float | None] = field(default_factory=dict)  # of those said to have started
    _revoked: set[int] = field(default_factory=set)  # said to be taken back
    _ending_s: dict[str, float] = field(default_factory=dict)  # keys -> when it was told to end

    def round(self, wanted: Mapping[int, WantedTicket]) -> list[News]:
        """Compare once, mend, and say what is new. Never raises for what the engine does."""
        if self._old is None:
            self._old, self._begun_s = set(wanted), self.clock()
        self._forget(wanted)
        try:
            found = self.engine.poll()
        except (Refusal, Unclear) as e:
            complaints.warning("%s", e)
            return [n for t, w in wanted.items() if w.asked and (n := self._pending(t, str(e)))]
        news: list[News] = []
        end: list[str] = []
        by_ticket: dict[int, list[Has]] = {}
        for has in found:
            by_ticket.setdefault(has.ticket, []).append(has)
        for ticket, there in by_ticket.items():
            kept = _the_one(_alive(there), wanted.get(ticket))
            end += [h.key for h in there if h is not kept and h.phase is not TicketPhase.ENDED]
        missing = []
        for ticket, want in wanted.items():
            there = by_ticket.get(ticket, [])
            one = _the_one(_alive(there), want)
            if one is None:
                over = there[-1] if there else None
                if want.asked and over is None:
                    missing.append(ticket)
                elif not _alive(there) and (over is not None or not self._may_come(ticket)):
                    news.append(self._over(ticket, want, over))
            elif one.phase is TicketPhase.PENDING:
                news += filter(None, [self._pending(ticket, one.why)])
            elif one.phase is TicketPhase.REVOKED:
                news += self._taken_back(one)
            else:
                news += self._started(one)
        self._end(end)
        return news + self._ask(missing, wanted)

    def _forget(self, wanted: Mapping[int, WantedTicket]) -> None:
        for known in (self._asked_s, self._unclear, self._told, self._ends_s):
            for ticket in [t for t in known if t not in wanted]:
                del known[ticket]
        self._revoked &= wanted.keys()

    def _pending(self, ticket: int, why: str) -> Pending | None:
        if self._told.get(ticket) == why:
            return None
        self._told[ticket] = why
        return Pending(ticket, why)

    def _started(self, has: Has) -> list[News]:
        """Once, and again when its end has moved."""
        ends_s = None if has.left_s is None else self.clock() + has.left_s
        if has.ticket in self._ends_s:
            before_s = self._ends_s[has.ticket]
            if before_s == ends_s or (
                before_s is not None and ends_s is not None and abs(before_s - ends_s) < MOVED_S
            ):
                return []
        self._ends_s[has.ticket] = ends_s
        return [Started(has.ticket, has.left_s)]

    def _taken_back(self, has: Has) -> list[News]:
        """Once: how long is left is counted from then."""
        if has.ticket in self._revoked:
            return []
        self._revoked.add(has.ticket)
        left_s = UNKNOWN_LEFT_S if has.left_s is None else has.left_s
        return [Revoked(has.ticket, left_s, self._with_words(has.ticket, has.why))]

    def _may_come(self, ticket: int) -> bool:
        """Whether a request may still be on its way, so that nothing can be said to be over."""
        asked_s = self._asked_s.get(ticket)
        return asked_s is not None and self.clock() - asked_s < SHOWS_S

    def _over(self, ticket: int, want: WantedTicket, last: Has | None) -> News:
        why = last.why if last is not None else f"{self.engine.name} does not know it any more"
        why = why if want.given else self._with_words(ticket, why)
        return EngineRefusal(ticket, why) if want.asked else TicketEnd(ticket, why)

    def _with_words(self, ticket: int, why: str) -> str:
        said = self.engine.words(ticket)
        return f"{why}; it said: {said}" if said else why

    def _end(self, keys: list[str]) -> None:
        now = self.clock()
        due = [key for key in keys if now - self._ending_s.get(key, -REPEAT_S) >= REPEAT_S]
        self._ending_s = {key: s for key, s in self._ending_s.items() if key in keys}
        if not due:
            return
        try:
            self.engine.give(due)
        except (Refusal, Unclear) as e:
            complaints.warning("%s", e)
        else:
            self._ending_s |= dict.fromkeys(due, now)

    def _ask(self, tickets: list[int], wanted: Mapping[int, WantedTicket]) -> list[News]:
        """Ask for what the engine has nothing of."""
        news: list[News] = []
        ask: list[int] = []
        for ticket in tickets:
            now = self.clock()
            if self._old and ticket in self._old and now - self._begun_s < SETTLES_S:
                continue
            if ticket not in self._asked_s:
                ask.append(ticket)
            elif now - self._asked_s[ticket] >= SHOWS_S:
                lost = f"{self.engine.name} has taken it in and has it no more"
                why = self._unclear.get(ticket, lost)
                news.append(EngineRefusal(ticket, self._with_words(ticket, why)))
        silent = ""
        for some in _requests(ask, wanted, self.engine.at_once):
            if silent:  # it would keep the others waiting for as long
                news += [EngineRefusal(ticket, silent) for ticket in some]
                continue
            try:
                first = wanted[some[0]]
                self.engine.ask(some, first.processors, first.queue)
            except Refusal as e:
                news += [EngineRefusal(ticket, str(e)) for ticket in some]
                continue
            except Unclear as e:
                silent = str(e)
                self._unclear |= dict.fromkeys(some, silent)
                news += filter(None, [self._pending(ticket, silent) for ticket in some])
            self._asked_s |= dict.fromkeys(some, self.clock())
        return news


def _requests(
    tickets: list[int], wanted: Mapping[int, WantedTicket], at_once: int
) -> list[list[int]]:
    """Tickets that one request can be for: consecutive numbers, one queue, the same processors."""
    found: list[list[int]] = []
    for ticket in tickets:
        last = found[-1] if found else []
        if (
            0 < len(last) < at_once
            and ticket == last[-1] + 1
            and wanted[ticket].processors == wanted[last[-1]].processors
            and wanted[ticket].queue == wanted[last[-1]].queue
        ):
            last.append(ticket)
        else:
            found.append([ticket])
    return found


def _alive(there: list[Has]) -> list[Has]:
    return [has for has in there if has.phase not in (TicketPhase.FAILED, TicketPhase.ENDED)]


def _the_one(alive: list[Has], want: WantedTicket | None) -> Has | None:
    """Which of them is the ticket's node, if it is wanted; all others are too much."""
    if want is None or want.given or not alive:
        return None

    def rank(has: Has) -> tuple[bool, bool]:
        mine = bool(want.node) and (want.node == has.place or want.node.startswith(f"{has.place}-"))
        return not mine, has.phase is not TicketPhase.RUNNING

    return min(alive, key=rank)  # the oldest of those


class Thread:
    """Rounds, one after the other, in a thread of their own."""

    def __init__(self, engine: Engine) -> None:
        self._driver, self._engine = Driver(engine), engine
        self._wanted: dict[int, WantedTicket] | None = None  # None: the server has not said yet
        self._changed = threading.Event()
        self._stopping = False
        self._news: SimpleQueue[News] = SimpleQueue()
        # A daemon: a command that hangs must not keep the server from ending.
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        """Begin with the rounds."""
        self._thread.start()

    def want(self, wanted: dict[int, WantedTicket]) -> None:
        """The tickets, as of now."""
        if wanted != self._wanted:
            self._wanted = wanted
            self._changed.set()

    def news(self) -> list[News]:
        """What has been said since the last time."""
        found = []
        while True:
            try:
                found.append(self._news.get_nowait())
            except Empty:
                return found

    def stop(self) -> None:
        """No more rounds: what is under way ends by itself."""
        self._stopping = True
        self._changed.set()

    def _run(self) -> None:
        while not self._stopping:
            wanted = self._wanted
            self._changed.clear()
            if wanted is not None:
                try:
                    for one in self._driver.round(wanted):
                        self._news.put(one)
                except Exception:  # a bug of ours: the next round may do without
                    log.exception("a round with the engine failed")
            busy = any(
                want.asked or want.given or not want.node for want in (wanted or {}).values()
            )
            self._changed.wait(self._engine.period_s if busy else self._engine.idle_period_s)
            # Commands of one turn come together; and never one round right after the other.
            time.sleep(0.05)
