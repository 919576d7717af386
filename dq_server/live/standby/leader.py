"""A server with a standby: nothing leaves that the standby does not have (docs/standby.md).

A server is in one of four ways:

    single   it has no standby
    paired   the standby follows, and what follows from an event leaves once the standby has it
    alone    the standby is behind or away, and cannot become the server: most agents have agreed
             that a newer copy than its own is the newest
    seeks    neither: it has just started, or the standby fell silent. Nothing that changes anything
             happens or leaves (read_only.py) until it is paired or alone

So of two servers only one can ever act: whoever cannot pair needs most agents, and they agree to
one at a time. Terms and epochs are those of dq_client/base/messages/standby.py; the agents' side is
dq_client/node/agent/allegiance.py, the standby's follower.py. The protocol is Paxos' with agents as
the acceptors: a promise to an epoch, then a term; between them only "most" counts, never a clock.
"""

from __future__ import annotations

import logging
import sqlite3
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from dq_client.base import messages as m
from dq_server.live.agents.registry import AgentLink
from dq_server.live.rate_limited_log import RateLimitedLog
from dq_server.live.standby.leader_parts import (
    PairingRecord,
    Surroundings,
    WaitingFollow,
    What,
    implausible,
)
from dq_server.live.store import checksums
from dq_server.live.store.journal import JournalError
from dq_server.live.store.journal_file import Broken

log = logging.getLogger("dq.server")
complaints = RateLimitedLog(log)

SILENT_S = 1.5  # a standby that says nothing for so long is not waited for
ASKED_AGAIN_S = 0.5
ANSWERED_WITHIN_S = 0.4  # a standby that waits for more, also if there is none
LINES_MAX, LINES_BYTES_MAX = 2000, 4 << 20  # of an answer
ENDED_MAX = 500
SNAPSHOT_EVERY = 2000  # events: it is megabytes, and spares the standby's start their replay
TERM_OF_EPOCH = m.TERM_OF_EPOCH

Way = Literal["single", "paired", "alone", "seeks"]
Rests = Literal["", "stopped", "down"]


@dataclass(slots=True)
class Pairing:
    around: Surroundings
    way: Way = "single"
    record: PairingRecord | None = None
    promised: int = 0  # agents obey no server of an earlier epoch: the highest that one has said
    replaced_by: str = ""  # where the server is now, if it is another one
    has: int = 0  # the last event that the standby has
    seq: int = 0  # the last event that is committed
    _waiting: WaitingFollow | None = None
    _heard_s: float = 0.0
    _installing: bool = False
    _asked_s: float = float("-inf")
    _rests: Rests = ""
    _told_rest: bool = False
    _held: deque[tuple[int, bytes, bytes, What]] = field(default_factory=deque)
    _unsaved: bool = False  # the last of the voters
    _told: set[str] = field(default_factory=set)

    def begin(self, seq: int) -> None:
        """A server starts, with the journal up to event `seq`."""
        self.seq = seq
        self._heard_s = self.around.monotonic()
        kept = self.around.journal.noted("standby")
        if kept:
            self.record = msgspec.json.decode(kept, type=PairingRecord)
            self.way = "seeks"
            self._told = set(self.record.voters[-1][1])

    def hear(self, promised: int, who: str) -> str:
        """An agent obeys no server of an earlier epoch. Why it is not believed; empty: it is."""
        highest = checksums.highest_plausible(self.around.epoch)
        if promised > highest:
            refusal = (
                f"agent {who} has promised epoch {promised}, and no server of this cluster can have"
                f" one above {highest}: not believed; if that agent is yours, stop it and remove"
                " the file `allegiance` in its folder"
            )
            complaints.warning("%s", refusal)
            return refusal
        self.promised = max(self.promised, promised)
        return ""

    @property
    def outbid(self) -> bool:
        """Whether some agents obey this server no more: it has to start again, as a later one."""
        return self.promised > self.around.epoch

    # --- what may leave -----------------------------------------------------------------------

    @property
    def bar(self) -> str:
        """Why nothing may happen; empty: it may."""
        if self.way != "seeks" or self.record is None:
            return ""
        return (
            f"the standby {self.record.name} at {self.record.address} does not follow, and most"
            " agents have not agreed yet that this server goes on without it; if it is gone for"
            " good: dq server forget"
        )

    def refusal(self, body: m.RequestBody, known: Mapping[str, int]) -> str:
        """Why no job is acknowledged: --sync, and there is no second copy; empty: it can be.

        known  jobs by the requests that they were submitted by
        """
        if not self._lacks_copy or not isinstance(body, m.Submit | m.Attach):
            return ""
        request = body.request if isinstance(body, m.Submit) else body.submission.request
        assert self.record is not None
        why = f"the standby {self.record.name} does not follow"
        if request in known:
            return f"job {known[request]} is taken in, and this server alone has it: {why}"
        return (
            f"{why}, and with --sync a job is taken in only if it would survive the loss of the"
            " server's machine: start the standby, or do without it by dq server forget"
        )

    @property
    def _lacks_copy(self) -> bool:
        return self.record is not None and self.record.sync and self.way != "paired"

    def leave(self, identity: bytes, frame: bytes, what: What) -> None:
        """Send what follows from the events up to now, at once or once the standby has them."""
        if what == "free":
            self.around.send(identity, frame)
        elif self._held or not self._may_leave(self.seq):
            self._held.append((self.seq, identity, frame, what))
        else:
            self._send(identity, frame, what)

    def _send(self, identity: bytes, frame: bytes, what: What) -> None:
        # With --sync the standby had to have it; who asks again is told that it has not.
        if what != "acknowledgement" or not self._lacks_copy:
            self.around.send(identity, frame)

    def _may_leave(self, seq: int) -> bool:
        return self.way in ("single", "alone") or (self.way == "paired" and self.has >= seq)

    @property
    def tells(self) -> bool:
        """Whether something waits for the standby, or it has not heard that the server stops."""
        return bool(self._held) or not self._told_rest

    def _release(self) -> None:
        while self._held and self._may_leave(self._held[0][0]):
            _, identity, frame, what = self._held.popleft()
            self._send(identity, frame, what)

    @property
    def term(self) -> int:
        """Of this server's copy; -1: perhaps there is a newer one."""
        if self.record is None:
            return int(self.around.journal.noted("term") or 0)
        return -1 if self.way == "seeks" else self.record.term

    # --- turns --------------------------------------------------------------------------------

    def _electorate(self) -> list[str]:
        """Nodes that are up, and whose agents know of the standby."""
        record, links = self.record, self.around.agents.by_node
        up = set(self.around.nodes())
        if record is not None:
            self._told |= {n for n, link in links.items() if link.term >= record.term}
        self._told &= up
        return sorted(self._told)

    def before_commit(self) -> None:
        """What voters there are is committed with the batch, before the standby hears of it."""
        if self.record is None or self.way == "seeks":
            return
        record, nodes = self.record, self._electorate()
        if record.voters[-1][1] != nodes:
            self._change(voters=[*record.voters, (record.voters[-1][0] + 1, nodes)])
            self._unsaved = True
        elif self._unsaved:
            self._change()

    def committed(self, seq: int, *, saved: bool) -> None:
        """The journal is safe up to there; `saved`: the last batch is part of that."""
        self.seq = seq
        self._unsaved &= not saved
        late_s = self.around.monotonic() - SILENT_S
        if self._waiting is not None and self._waiting.since_s < late_s:
            self._waiting = None  # it would have asked again: it is not there any more
        if self._waiting is not None and not self._unsaved:
            with self._disk_may_fail():
                self._answer(self._waiting)
        self._release()

    @contextmanager
    def _disk_may_fail(self) -> Iterator[None]:
        """What could not be kept, or read, is tried again: it was said to nobody."""
        try:
            yield
        except (JournalError, Broken, sqlite3.Error) as e:
            complaints.warning("the standby has to wait: %s", e)

    def look(self) -> None:
        """What is due by time alone."""
        if self.record is None or self.outbid:
            return  # if outbid, the server starts again, with a higher epoch
        now = self.around.monotonic()
        if self.way == "paired" and now - self._heard_s > SILENT_S:
            log.warning("the standby %s is silent: going on without it", self.record.name)
            self.way = "seeks"
        if self.way == "seeks":
            with self._disk_may_fail():
                self._seek(now)
        elif now - self._asked_s > ASKED_AGAIN_S:
            self._asked_s = now
            for link in self.around.agents.by_name.values():
                if link.term < self.record.term:  # the order was lost
                    self.welcomed(link)

    # --- alone --------------------------------------------------------------------------------

    def _seek(self, now: float) -> None:
        """Have most agents agree that the standby's copy is not the newest any more."""
        record, agents = self.record, self.around.agents.by_node
        assert record is not None
        mine = {n for n, link in agents.items() if link.promised == self.around.epoch}
        if not self._installing:
            known = max(record.term, record.tried, record.void)
            if not self._most({n for n in mine if agents[n].term <= known}):
                return
            # Kept before anybody hears of it: only who knows it can be the server afterwards.
            record = self._change(tried=max(known + 1, self.around.epoch << TERM_OF_EPOCH))
            self._installing = True
        if self._most({n for n in mine if agents[n].term == record.tried}):
            record = self._change(term=record.tried)
            self._installing, self.way = False, "alone"
            log.warning("the standby %s is not needed: most agents agree", record.name)
            self._release()
        elif now - self._asked_s > ASKED_AGAIN_S:
            self._asked_s = now
            for link in {link.name: link for link in agents.values()}.values():
                self.around.order(link, m.Recognize(record.address, record.tried))

    def _most(self, nodes: set[str]) -> bool:
        """Whether these are most of the voters, by each list of them that the standby may have."""
        assert self.record is not None
        return all(2 * len(nodes & set(v)) > len(v) or not v for _, v in self.record.voters)

    def welcomed(self, link: AgentLink) -> None:
        """An agent has reported: tell it of the standby."""
        if self.record is not None and self.way != "seeks":
            self.around.order(link, m.Recognize(self.record.address, self.record.term))

    # --- a standby that follows ---------------------------------------------------------------

    def follow(self, body: m.Follow, identity: bytes, request_id: str) -> str:
        """A standby has the journal up to body.seq; it is answered after a commit.

        Why it is refused; empty: it is not.
        """
        if refusal := implausible(body, self.around.epoch, self.record):
            complaints.warning("%s", refusal)
            return refusal
        with self._disk_may_fail():
            self._follow(body, identity, request_id)
        return ""

    def _follow(self, body: m.Follow, identity: bytes, request_id: str) -> None:
        now, record = self.around.monotonic(), self.record
        self._waiting = WaitingFollow(body, identity, request_id, now)
        if record is None or body.name != record.name:
            return  # answered as one that begins
        self._heard_s = now
        if body.void > record.void:
            record = self._change(void=body.void)
        if not self._knows(body):
            return
        if self.way == "seeks" and not self._installing and body.term == record.term:
            self._raise_term()
            self.way = "paired"
            log.info("the standby %s follows", record.name)
        if self.way == "paired" and body.term == record.term:
            self._has(body)
            self._raise_term()

    def _raise_term(self) -> None:
        """Agents that agreed to a term which came to nothing would take the copy for an old one.

        As long as the disk does not take that, the standby could not become the server: it is not
        paired.
        """
        assert self.record is not None
        nothing = max(self.record.tried, self.record.void)
        if nothing > self.record.term:
            self.way = "seeks"
            self._change(term=nothing + 1, tried=nothing + 1)
            self.way = "paired"

    def _has(self, body: m.Follow) -> None:
        assert self.record is not None
        self.has = max(self.has, body.seq)
        voters = [listed for listed in self.record.voters if listed[0] >= body.voters]
        if voters and voters != self.record.voters:
            self._change(voters=voters)

    def _knows(self, body: m.Follow) -> bool:
        """Whether its copy is a part of this journal."""
        return body.seq <= self.seq and self.around.journal.chain_of(body.seq) == body.chain

    def _answer(self, waiting: WaitingFollow) -> None:
        """Give the standby what it lacks, if there is anything, or it has waited for long."""
        body, journal = waiting.body, self.around.journal
        digest, files = self.around.files()
        news = m.Followed(
            epoch=self.around.epoch,
            term=body.term,
            off_s=self.around.off_s(),
            rests=self._rests,
            digest=digest,
            files=dict(files) if digest != body.files else None,
            options=list(self.around.options),
        )
        change = msgspec.structs.replace
        if not self._knows(body) or body.seq + 1 < journal.first:
            news = change(news, base=journal.base(), ended_to=0)
        elif body.ended >= 0:
            rows = journal.ended(body.ended, ENDED_MAX)
            news = change(news, ended=rows, ended_to=rows[-1][0] if rows else -1)
        else:
            lines = journal.lines(body.seq, LINES_MAX, LINES_BYTES_MAX)
            late_s = self.around.monotonic() - waiting.since_s
            whole = (lines[-1].seq if lines else body.seq) == self.seq
            joins = whole and self.way in ("single", "alone") and not self._rests
            record = self.record
            told = self.way != "paired" or record is None or body.voters == record.voters[-1][0]
            news_is = lines or joins or self._rests or not told
            if not news_is and late_s < ANSWERED_WITHIN_S:
                return
            if joins:
                self._pair(body)
            if body.snapshot + SNAPSHOT_EVERY < journal.newest_snapshot() <= body.seq:
                news = change(news, base=journal.base())
            news = self._with_lines(news, body, lines)
        self._waiting = None
        self._told_rest = bool(self._rests)
        self.around.reply(waiting.identity, waiting.request_id, news)

    def _with_lines(self, news: m.Followed, body: m.Follow, lines: list[m.Line]) -> m.Followed:
        """What it lacks. If this is the server's standby: of which term its copy is with that."""
        reached = lines[-1].seq if lines else body.seq
        record, mine = self.record, self.way == "paired" and body.name == self.record_name
        if not mine or record is None or (body.term != record.term and reached != self.seq):
            return msgspec.structs.replace(news, lines=lines)
        voters = record.voters[-1]
        return msgspec.structs.replace(news, lines=lines, term=record.term, voters=voters)

    @property
    def record_name(self) -> str:
        """The standby's name; empty: there is none."""
        return "" if self.record is None else self.record.name

    def _pair(self, body: m.Follow) -> None:
        """Before it hears that its copy is whole: nothing leaves without it from now on."""
        epoch, record = self.around.epoch, self.record
        if record is None or record.address != body.address:
            self._told.clear()
        same = record is not None and record.name == body.name
        # Not below that of an earlier standby: agents would take this copy for an old one.
        term = self.term if same else max(epoch << TERM_OF_EPOCH, self.term)
        self._keep(
            PairingRecord(
                name=body.name,
                address=body.address,
                sync=body.sync,
                term=term,
                tried=term,
                void=record.void if record is not None and same else 0,
                # Of the term before nobody can make use any more, nor of its voters.
                voters=[(body.voters + 1, self._electorate())],
            )
        )
        self.way, self.has = "paired", body.seq
        self._heard_s = self.around.monotonic()
        log.info("the standby %s at %s has a whole copy", body.name, body.address)
        for link in self.around.agents.by_name.values():
            self.around.order(link, m.Recognize(body.address, term))

    # --- ends ---------------------------------------------------------------------------------

    def rest(self, why: Rests) -> None:
        """The server is about to be stopped on purpose: the standby shall not become one."""
        self._rests = why
        if self._waiting is not None:
            self._answer(self._waiting)

    def forget(self) -> bool:
        """There shall be no standby any more; whether there was one."""
        if self.record is None:
            return False
        for link in self.around.agents.by_name.values():
            self.around.order(link, m.Recognize("", self.record.term))
        self.around.journal.note("term", str(max(self.record.term, self.record.tried)))
        self.around.journal.note("standby", "")
        self.record, self.way, self._installing = None, "single", False
        self._waiting = None
        self._release()
        return True

    def _change(self, **changes: object) -> PairingRecord:
        """Another record of the same standby. JournalError: it cannot be kept, and is as it was."""
        assert self.record is not None
        return self._keep(msgspec.structs.replace(self.record, **changes))

    def _keep(self, record: PairingRecord) -> PairingRecord:
        self.around.journal.note("standby", msgspec.json.encode(record).decode())
        self.record = record
        return record

    def view(self) -> dict[str, object] | None:
        """For `dq server status`."""
        if self.record is None:
            return None
        return {
            "name": self.record.name,
            "address": self.record.address,
            "sync": self.record.sync,
            "follows": self.way == "paired",
            "behind": max(0, self.seq - self.has) if self.way == "paired" else None,
        }
