"""A world with a standby: two machines for servers, between which everything may break.

Machines are lost, with their disks while the other one has all, come back, are cut off from each
other or from some nodes, in one direction or both, and stand still for a while. What world.py says
holds, and one thing more, which says it all: what leaves a server follows from a beginning of the
journal that counts in the end (`check_story`). Two servers that both act would have two.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from dq_client.base import codec
from dq_client.base import messages as m
from dq_client.node.agent.allegiance import Allegiance, AllegianceRecord
from dq_server.core.model.events import EVENTS
from dq_server.live.access import Principal
from dq_server.live.server import Server
from dq_server.live.standby.follower import Standby, next_epoch
from dq_server.live.standby.leader import TERM_OF_EPOCH
from dq_server.live.store.checksums import JournalPosition
from dq_server.live.store.journal import Entry
from dq_server.live.store.replica import Position
from tests.dst.played_agent import HEARTBEAT_S
from tests.dst.played_line import Line
from tests.dst.played_machine import NODES
from tests.dst.stand_ins import Keys, Store
from tests.dst.verdict import Wrong
from tests.dst.world import Crash, World

SITES = ("A", "B")
STANDBY_TURN_S = 0.1
SILENT_BEATS = 1.75
COMES_BACK_S = 0.8
FAULTS_S = 40.0


class PlayedReplica:
    """Stands for Replica, over a played journal."""

    def __init__(self, store: Store) -> None:
        self.store = store
        kept = store.noted("position")
        self.position = msgspec.json.decode(kept, type=Position) if kept else Position()

    @property
    def mark(self) -> JournalPosition:
        seq = len(self.store.safe)
        return JournalPosition(seq, self.store.chain_of(seq) or b"")

    def newest_snapshot(self) -> int:
        return 0

    def take_in(self, news: m.Followed, *, flush: bool) -> None:
        position = msgspec.structs.replace(
            self.position, epoch=news.epoch, term=news.term, ended=news.ended_to
        )
        if news.voters is not None:
            position.number, position.voters = news.voters
        self.store.need_room()
        if news.base is not None:
            assert news.base.seq == 0
            self.store.forget()
            position.term = -1
        for line in news.lines:
            assert line.seq == len(self.store.safe) + 1
            event = msgspec.json.decode(line.body, type=EVENTS[line.kind])
            self.store.safe.append(Entry(line.seq, line.time, event, line.actions))
        if flush:
            self.store.flushed = len(self.store.safe)
        self.remember(position)

    def note(self, key: str, value: str) -> None:
        self.store.note(key, value)
        if key == "epoch":
            self.store.epoch = int(value)

    def remember(self, position: Position) -> None:
        self.store.note("position", msgspec.json.encode(position).decode())
        self.position = position


@dataclass
class Site:
    """A machine for a server: its disk, and what runs on it."""

    name: str
    store: Store
    server: Server | None = None
    standby: Standby | None = None
    line: Line | None = None  # of the standby
    turn_due: bool = False
    frozen_until_s: float = 0.0
    lost: bool = False
    life: int = 0
    queue: list[Callable[[], None]] = field(default_factory=list)


class PairedWorld(World):
    """See the module's docstring."""

    def __post_init__(self) -> None:
        self.sites = {name: Site(name, Store(self)) for name in SITES}
        self.drawn = random.Random(f"standby {self.seed}")
        self.kept_by = dict.fromkeys(NODES, AllegianceRecord("A"))
        self.cuts: set[tuple[str, str]] = set()  # from, to
        self.left: dict[tuple[int, bytes], str] = {}  # what has left follows from these
        self.sync = self.drawn.random() < 0.5
        self.takeovers, self.faults_s = 0, FAULTS_S
        super().__post_init__()
        self.batch = None
        # What these do is tried with one machine; a standby's clock is another one.
        self.disk.p_power, self.clocks.jump = 0.0, False
        self.sites["A"].store = self.store

    def new_store(self) -> Store:
        return Store(self)  # copies of a journal on a disk are tried in tests/live

    # --- network ------------------------------------------------------------------------------

    def agent_line(self, node: str, wake: Callable[[], None]) -> Line:
        return Line(self, node, Principal("agent"), wake, self.kept_by[node].server)

    def allegiance(self, node: str, wake: Callable[[], None]) -> Allegiance:
        def keep(text: str) -> None:
            self.kept_by[node] = msgspec.json.decode(text, type=AllegianceRecord)

        def connect(address: str) -> Any:
            return Line(self, node, Principal("agent"), wake, address)

        kept = self.kept_by[node]
        return Allegiance(kept, connect, keep, SILENT_BEATS * HEARTBEAT_S, self.now)

    def to_server(self, line: Line, frame: bytes) -> None:
        """Clients know both addresses; what the wrong one does not answer they say again."""
        name = line.address or self.drawn.choice(SITES)
        if self.faults and (line.name, name) in self.cuts:
            return
        self.at(self.sites[name], lambda site: self._arrives(site, line, frame))

    def at(self, site: Site, what: Callable[[Site], None]) -> None:
        """Something happens at a machine: later, if it stands still."""
        if site.frozen_until_s > self.now:
            site.queue.append(lambda: what(site))
        else:
            what(site)

    def _arrives(self, site: Site, line: Line, frame: bytes) -> None:
        if site.server is not None:
            site.server.receive(line.identity, line.principal, frame)
            self.turn_of(site)
        elif site.standby is not None and line.principal.role == "agent":
            try:
                request = codec.decode_request(frame)
            except codec.MalformedMessage:
                return
            of = site.store.noted("of")
            answer = site.standby.answer(request.body, line.principal.role, of)
            self._back(site, line.identity, codec.encode(m.Reply(request.id, answer)))
            if site.standby.elected:
                self._take_over(site, site.standby.elected)

    def _back(self, site: Site, identity: bytes, frame: bytes) -> None:
        line = self.lines.get(identity)
        if line is None or (self.faults and (site.name, line.name) in self.cuts):
            return
        server = site.server

        def deliver() -> None:
            self.last_server = server or self.last_server  # who knows what an order is about
            line.deliver(frame)

        self.carry(line, deliver)

    def sends(self, site: Site, identity: bytes, frame: bytes) -> None:
        """A message leaves a server."""
        if self.crash_at_send:
            self.crash_at_send -= 1
            if not self.crash_at_send:
                raise Crash
        server = site.server
        if server is not None and server.pairing.way != "seeks":
            pairing = server.pairing
            reach = pairing.has if pairing.way == "paired" else pairing.seq
            chain = site.store.chain_of(reach)
            if chain is None:
                raise Wrong(f"server {site.name} tells of event {reach}, which it has not")
            said = f"{self.now:.3f} {site.name} {pairing.way} epoch {server.epoch}"
            self.left.setdefault((reach, chain), said)
        self._back(site, identity, frame)

    # --- servers ------------------------------------------------------------------------------

    def start_server(self) -> None:
        self.serve(self.sites["A"])
        self.sites["B"].store.kept_beside["role"] = "standby"
        self.sites["B"].store.kept_beside["of"] = "A"
        self.later(self.drawn.uniform(0.5, 3.0), lambda: self.follow(self.sites["B"], "A"))
        self.later(self.drawn.uniform(4.0, 7.0), self.trouble)

    def serve(self, site: Site, least: int = 0) -> None:
        site.store.rollback()
        site.turn_due, site.life = False, site.life + 1
        # While it is being made it may send already.
        site.server = None
        site.server = self.server_class(
            site.store,
            Keys(),  # type: ignore[arg-type]
            lambda to, frame: self.sends(site, to, frame),
            self.config,
            heartbeat_s=HEARTBEAT_S,
            clock=self.clocks.of_a_server(),
            monotonic=lambda: self.now,
            least_epoch=least,
        )
        self.server = self.last_server = site.server
        self.store = site.store
        self.trace.append(f"{self.now:.3f} {site.name} serves, epoch {site.server.epoch}")
        self._tick(site, site.server)

    def _tick(self, site: Site, server: Server) -> None:
        if site.server is not server:
            return
        if site.frozen_until_s > self.now:
            site.queue.append(lambda: self._tick(site, server))
            return
        if not site.store.batch and self.clocks.clock.look(idle=server.idle):
            server.catch_up()
        server.tick()
        server.scheduler.state.check()
        if server.begin_again and not self.disk.full:
            self.trace.append(f"{self.now:.3f} {site.name} begins again")
            self.serve(site, server.begin_again)
            return
        if server.pairing.way == "seeks" and self._replaced(site, server):
            return
        self.turn_of(site)
        self.later(0.25, lambda: self._tick(site, server))

    def _replaced(self, site: Site, server: Server) -> bool:
        """It finds a later server at its standby's address, and ends; it may become a standby."""
        other = self.other(site)
        there = other.server
        cut = self.faults and {(site.name, other.name), (other.name, site.name)} & self.cuts
        record = server.pairing.record
        assert record is not None
        if there is None or cut or other.frozen_until_s > self.now:
            return False
        if there.pairing.term <= record.term:
            return False
        self.trace.append(f"{self.now:.3f} {site.name} is replaced by {other.name}")
        self._stop(site)
        self.later(self.drawn.uniform(0.5, 3.0), lambda: self.follow(site, other.name, anew=True))
        return True

    def other(self, site: Site) -> Site:
        return self.sites["B" if site.name == "A" else "A"]

    def turn_of(self, site: Site) -> None:
        if not site.turn_due:
            site.turn_due, life = True, site.life
            late_s = self.rng.uniform(0, self.slow_disk_s) if self.faults else 0.0
            self.later(min(late_s, 0.3), lambda: self._finish(site, life))

    def _finish(self, site: Site, life: int) -> None:
        if site.life != life or site.server is None:
            return
        if site.frozen_until_s > self.now:
            site.queue.append(lambda: self._finish(site, life))
            return
        site.turn_due = False
        if self.chance(0.005):
            self.crash_at_send = self.rng.randrange(1, 4)
        try:
            site.server.finish_turn()
        except Crash:
            self.dies(site)
        self.crash_at_send = 0

    def turn_soon(self, server: Server) -> None:
        """By site here."""

    def crash(self, power: bool = False) -> None:
        self.dies(self.drawn.choice(list(self.sites.values())))

    def dies(self, site: Site) -> None:
        """What runs there, server or standby; it comes back soon."""
        self.trace.append(f"{self.now:.3f} what runs on {site.name} dies")
        self._stop(site)
        life = site.life
        self.later(self.drawn.uniform(0.1, 3.0), lambda: self.back_on(site, life))

    def _stop(self, site: Site) -> None:
        site.life += 1
        if self.server is site.server:
            self.server = None
        site.server, site.turn_due = None, False
        site.queue.clear()
        site.store.rollback()
        if site.line is not None:
            site.line.close()
        site.standby = site.line = None

    def back_on(self, site: Site, life: int) -> None:
        if site.life != life or site.server is not None or site.standby is not None:
            return
        site.lost = False
        if self.disk.full:  # it cannot even note that it starts
            self.later(0.5, lambda: self.back_on(site, life))
        elif site.store.noted("role") == "standby":
            self.follow(site, site.store.noted("of"))
        else:
            self.serve(site)

    # --- standbys -----------------------------------------------------------------------------

    def follow(self, site: Site, of: str, *, anew: bool = False) -> None:
        if site.server is not None or site.standby is not None or site.lost:
            return
        if anew:  # a home of its own
            site.store = Store(self)
        site.store.kept_beside["role"] = "standby"
        site.store.kept_beside["of"] = of
        site.life += 1
        life = site.life
        line = Line(self, site.name, Principal("standby"), lambda: self._reads(site, life), of)
        site.line = line
        site.standby = Standby(
            replica=PlayedReplica(site.store),  # type: ignore[arg-type]
            name=site.name,
            address=site.name,
            sync=self.sync,
            send=line.send,
            monotonic=lambda: self.now,
        )
        self.trace.append(f"{self.now:.3f} {site.name} follows {of}")
        self._look(site, life)

    def _look(self, site: Site, life: int) -> None:
        if site.life != life or site.standby is None:
            return
        if site.frozen_until_s > self.now:
            site.queue.append(lambda: self._look(site, life))
            return
        site.standby.look()
        self.later(STANDBY_TURN_S, lambda: self._look(site, life))

    def _reads(self, site: Site, life: int) -> None:
        if site.frozen_until_s > self.now:
            site.queue.append(lambda: self._reads(site, life))
            return
        while site.life == life and site.line and (message := site.line.receive()) is not None:
            if site.standby is not None:
                site.standby.answered(message)

    def _take_over(self, site: Site, epoch: int) -> None:
        self.trace.append(f"{self.now:.3f} {site.name} takes over, epoch {epoch}")
        self.takeovers += 1
        self._stop(site)
        site.store.kept_beside["role"] = "server"
        life = site.life
        self.later(COMES_BACK_S, lambda: self._begins(site, epoch, life))

    def _begins(self, site: Site, epoch: int, life: int) -> None:
        if site.life == life and not site.lost and self.disk.full:
            self.later(0.5, lambda: self._begins(site, epoch, life))
        elif site.life == life and not site.lost:
            self.serve(site, epoch)

    # --- trouble ------------------------------------------------------------------------------

    def trouble(self) -> None:
        if not self.faults:
            return
        rng = self.drawn
        what = rng.choice(["lose", "lose", "lose", "cut", "cut", "apart", "freeze", "freeze"])
        site = self.sites[rng.choice(SITES)]
        for_s = rng.choice([0.5, 2.0, 4.0, 9.0])
        self.trace.append(f"{self.now:.3f} {what} {site.name} {for_s}")
        if what == "lose" and not site.lost:
            self._lose(site, for_s)
        elif what == "freeze":
            site.frozen_until_s = self.now + for_s
            self.later(for_s, lambda: self._thaw(site))
        elif what == "cut":  # the two servers, and perhaps some nodes from one of them
            self._cut(site.name, self.other(site).name, for_s)
            for node in rng.sample(NODES, rng.randrange(3)):
                self._cut(site.name, node, for_s)
        elif what == "apart":
            for node in rng.sample(NODES, rng.randrange(1, 4)):
                self._cut(site.name, node, for_s)
        self.later(rng.uniform(0.5, 6.0), self.trouble)

    def _cut(self, one: str, two: str, for_s: float) -> None:
        ways = [(one, two), (two, one)]
        if self.drawn.random() < 0.3:
            ways.pop(self.drawn.randrange(2))  # one direction only
        self.cuts |= set(ways)
        self.later(for_s, lambda: self.cuts.difference_update(ways))

    def _lose(self, site: Site, for_s: float) -> None:
        """With its disk, if the other one has all that has left."""
        other, server = self.other(site), site.server
        had_all = (
            server is not None
            and server.pairing.way == "paired"
            and other.standby is not None
            and not other.lost
            and server.pairing.record is not None
            and other.standby.replica.position.term == server.pairing.record.term
            and bool(other.standby.replica.position.voters)  # or nobody could say that it is lost
        )
        self._stop(site)
        site.lost = True
        gone = had_all and self.drawn.random() < 0.5
        self.trace.append(f"{self.now:.3f} {site.name} is lost{', with its disk' * gone}")
        life = site.life
        if not gone:
            self.later(for_s, lambda: self.back_on(site, life))
        else:
            self.later(for_s + 9.0, lambda: self._new_machine(site, life))

    def _new_machine(self, site: Site, life: int) -> None:
        if site.life != life:
            return
        site.lost = False
        self.follow(site, self.other(site).name, anew=True)

    def decide(self) -> None:
        """No node was up that could have agreed to anything: the operator decides, by hand."""
        standbys = [site for site in self.sites.values() if site.standby is not None]
        whole = [s for s in standbys if s.standby and s.standby.replica.position.term >= 0]
        if len(standbys) == len(SITES) and len(whole) == 1 and not self.disk.full:
            (site,) = whole
            assert site.standby is not None
            if not site.standby.replica.position.voters:
                epoch = next_epoch(site.standby.replica.position)
                site.store.kept_beside["term"] = str(epoch << TERM_OF_EPOCH)
                site.store.epoch = epoch - 1
                self._take_over(site, epoch)
        self.later(5.0, self.decide)

    def _thaw(self, site: Site) -> None:
        if site.frozen_until_s <= self.now:
            queue, site.queue = site.queue, []
            for what in queue:
                what()

    # --- the end ------------------------------------------------------------------------------

    def start_again(self) -> None:
        """By site here."""

    def heal(self) -> None:
        self.cuts.clear()
        for site in self.sites.values():
            site.frozen_until_s = 0.0
            self._thaw(site)
        super().heal()
        self.decide()

    def settled(self) -> bool:
        acting = [s for s in self.sites.values() if s.server and s.server.pairing.way != "seeks"]
        if len(acting) != 1:
            return False
        site = acting[0]
        # A word of its standby that was long under way: it takes that for a moment as following.
        if site.server.pairing.way == "paired" and self.other(site).standby is None:  # type: ignore[union-attr]
            return False
        self.server, self.store, self.last_server = site.server, site.store, site.server  # type: ignore[assignment]
        paired = site.server is not None and site.server.pairing.way in ("single", "paired")
        done = paired and super().settled()
        if done:
            self.check_story()
        return done

    def check_story(self) -> None:
        """What has left any server follows from a beginning of this journal."""
        for (seq, chain), said in self.left.items():
            if self.store.chain_of(seq) != chain:
                raise Wrong(f"{said}: event {seq}, which is another one in the end")
