"""A standby: it follows a server, and takes its place if most agents have lost it.

It becomes the server in three steps, each agreed to by most of the nodes that were up by the last
event of its copy: they hear nothing of the server; they promise to obey no earlier epoch; they
agree that this copy is the newest. A server that is still there cannot act from the second step on,
since it needs an answer of this standby, or the agreement of most of the same agents (leader.py).

Sockets are program.py's; docs/standby.md has the protocol.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container
from dataclasses import dataclass, field

import msgspec

from dq_client.base import messages as m
from dq_server.live.rate_limited_log import RateLimitedLog
from dq_server.live.standby.leader import TERM_OF_EPOCH
from dq_server.live.store import checksums
from dq_server.live.store.journal import JournalError
from dq_server.live.store.replica import Position, Replica

log = logging.getLogger("dq.standby")
complaints = RateLimitedLog(log)

LOST_S = 2.0  # since the server's last answer: it has one every 0.4 s
FOLLOW_AGAIN_S = 1.0
STANDS_S = 4.0  # then it looks for the server again
EPOCHS = 1000
FRESH_S = 2.0  # what an agent has said counts for so long; it says it twice a second


def next_epoch(position: Position, promised: int = 0) -> int:
    """The epoch of a server that a standby becomes: of no other, they count on by one."""
    return (max(position.epoch, position.stood, promised) // EPOCHS + 1) * EPOCHS


@dataclass(slots=True)
class Standby:
    """See the module's docstring.

    send  to the server that is followed; returns the request's id
    """

    replica: Replica
    name: str
    address: str
    sync: bool
    send: Callable[[m.RequestBody], str]
    monotonic: Callable[[], float]
    digest: str = ""  # of the files it has
    rests: str = ""
    elected: int = 0  # the epoch that it may serve with
    _asked: str = ""
    _asked_s: float = float("-inf")
    _heard_s: float = field(default=float("-inf"))
    _said: dict[str, tuple[m.Ballot, float]] = field(default_factory=dict)  # by node
    _epoch: int = 0  # that agents are asked to promise; 0: it follows
    _stood_s: float = 0.0
    _follows_s: float = float("-inf")  # it has given up, and looks for the server again

    # --- following ----------------------------------------------------------------------------

    def look(self) -> None:
        """What is due by time alone."""
        now = self.monotonic()
        if self._epoch and now - self._stood_s > STANDS_S and not self.elected:
            self._epoch, self._follows_s = 0, now
        if not self._epoch and now - self._asked_s > FOLLOW_AGAIN_S:
            self._follow()

    def _follow(self) -> None:
        # Whoever follows has given up becoming the server: what it has asked for counts no more.
        mark, position = self.replica.mark, self.replica.position
        self._asked_s = self.monotonic()
        self._asked = self.send(
            m.Follow(
                name=self.name,
                address=self.address,
                seq=mark.seq,
                chain=mark.chain,
                term=position.term,
                ended=position.ended,
                snapshot=self.replica.newest_snapshot(),
                void=max(position.tried, default=0),
                voters=position.number,
                sync=self.sync,
                files=self.digest,
            )
        )

    def answered(self, reply: m.Reply) -> m.Followed | None:
        """What the server has said, if it was taken in."""
        news = reply.body
        if self._epoch or reply.id != self._asked or not isinstance(news, m.Followed):
            return None
        self._heard_s, self.rests = self.monotonic(), news.rests
        before = self.replica.position
        if news.epoch < before.epoch:
            return None  # of a server that another one has followed
        changed = news.lines or news.base or news.ended or news.voters is not None
        if changed or (news.term, news.ended_to) != (before.term, before.ended):
            try:
                self.replica.take_in(news, flush=self.sync)
            except JournalError as e:  # a full disk: the server goes on alone meanwhile
                complaints.warning("nothing is copied: %s", e)
                return None
            if before.term < 0 <= news.term:
                log.info("the copy is whole, at event %d", self.replica.mark.seq)
        if not news.rests:
            self._follow()
        return news

    # --- who asks here ------------------------------------------------------------------------

    def answer(self, request: m.RequestBody, role: str, server: str) -> m.ReplyBody:
        """Agents may vote, and are told where the `server` is; so is everybody else."""
        if role == m.AGENT and isinstance(request, m.Ballot):
            try:
                return self.ballot(request)
            except JournalError as e:  # what agents are asked for has to be kept
                complaints.warning("not to be a server: %s", e)
                return m.Standing(stage="waits")
        elsewhere = self._elsewhere(server) if isinstance(request, m.AgentHello) else None
        return elsewhere or m.Error("later", f"this is a standby; the server is at {server}")

    def _elsewhere(self, address: str) -> m.Standing | None:
        """For who takes this for the server: where that is, if it is known to be there."""
        if self.monotonic() - self._heard_s > LOST_S or self.replica.position.term < 0:
            return None
        position = self.replica.position
        return m.Standing(stage="serves", epoch=position.epoch, term=position.term, address=address)

    # --- becoming the server ------------------------------------------------------------------

    def ballot(self, ballot: m.Ballot) -> m.Standing:
        """What an agent is asked to agree to."""
        now, position = self.monotonic(), self.replica.position
        highest = checksums.highest_plausible(max(position.epoch, position.stood))
        if ballot.promised > highest:
            complaints.warning(
                "agent %s has promised epoch %d, and no server can have one above %d: not counted",
                ballot.agent, ballot.promised, highest,
            )  # fmt: skip
            return m.Standing(stage="waits")
        self._said = {n: said for n, said in self._said.items() if now - said[1] < FRESH_S}
        for node in ballot.nodes:
            self._said[node] = ballot, now
        if self.elected:
            return self._install()
        silent_s = now - max(self._heard_s, self._follows_s)
        if not self._epoch and (position.term < 0 or self.rests or silent_s < LOST_S):
            return m.Standing(stage="waits")
        lost = {n: b for n, (b, _) in self._said.items()}
        mine = {position.term, *position.tried}
        lost = {n: b for n, b in lost.items() if b.term <= position.term or b.term in mine}
        if not self._most(lost):
            return m.Standing(stage="waits")
        highest = max(b.promised for b in lost.values())
        if not self._epoch or highest > self._epoch:
            self._stand(next_epoch(position, highest))
        promised = {n: b for n, b in lost.items() if b.promised == self._epoch}
        if not self._most(promised):
            return m.Standing(stage="promise", epoch=self._epoch, term=max(mine))
        if self._epoch << TERM_OF_EPOCH not in position.tried:
            tried = [*position.tried, self._epoch << TERM_OF_EPOCH]
            self.replica.remember(msgspec.structs.replace(self.replica.position, tried=tried))
        installed = [n for n, b in promised.items() if b.term == self._epoch << TERM_OF_EPOCH]
        if self._most(installed):
            # If it dies before it serves, it is the server all the same when it is started again.
            self.replica.note("term", str(self._epoch << TERM_OF_EPOCH))
            self.replica.note("epoch", str(self._epoch - 1))
            self.elected = self._epoch
            log.warning("most agents have lost the server: taking its place, epoch %d", self._epoch)
        return self._install()

    def _stand(self, epoch: int) -> None:
        log.warning("most agents have lost the server: asking for epoch %d", epoch)
        if not self._epoch:
            self._stood_s = self.monotonic()
        self._epoch = epoch
        self.replica.remember(msgspec.structs.replace(self.replica.position, stood=epoch))

    def _install(self) -> m.Standing:
        return m.Standing(stage="install", epoch=self._epoch, term=self._epoch << TERM_OF_EPOCH)

    def _most(self, nodes: Container[str]) -> bool:
        voters = self.replica.position.voters
        agree = sum(node in nodes for node in voters)
        return 2 * agree > len(voters) > 0
