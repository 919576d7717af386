"""The whole of DQ in one thread, under a virtual clock, with everything going wrong from a seed.

Real: the core, the server's logic with its translation and reconciliation, the agent's logic, the
encoding of every message, replay and snapshots. Played: the network (messages are lost, come twice,
come late and in another order; agents are cut off), the store (commits fail, once or for as long as
the disk is full; what was not committed is gone with the server, what was not flushed with the
machine's power), the disks of nodes, processes, applications, and the user.

Nothing here knows what the right decisions are. A run is right if

* at every moment no two jobs have processes on one processor (`Machine.occupy`);
* no job is started twice, but protected ones after a loss and those with retries, when nothing of
  their last start runs any more; and every job whose submission was acknowledged ends once, done if
  nothing happened to it;
* no node is given anything new while it drains (the invariants of Processors and Draining);
* a job starts again only when its copies are on disk, and none is left in memory in the end;
* in the end, when the faults are over, all nodes are up and all processors idle, but those of a
  pool, which were all given back: no ticket and no holder is left;
* the state is at every restart, and in the end, what the journal says (`check_store`).

The parts: played_machine.py what there is to compute on; stand_ins.py what stands for disks, keys
and process trees; played_line.py the ends of the network; played_agent.py, played_start.py and
played_app.py who computes; played_user.py who asks for it; played_operator.py who drains nodes;
played_pool.py where more nodes come from in some worlds; played_disk.py and played_clocks.py what
disks and clocks do in some; played_deaths.py who dies together; played_copies.py copies in memory;
verdict.py what is wrong with a run.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from dq_client.node.agent.allegiance import Allegiance, AllegianceRecord
from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.jobs import JobState
from dq_server.core.model.launching import Launching
from dq_server.core.settings import configured
from dq_server.core.transaction import MeetingOptions
from dq_server.live.access import Principal
from dq_server.live.server import Server
from dq_server.live.store.journal import JournalError
from tests.dst.played_agent import HEARTBEAT_S, PlayedAgent
from tests.dst.played_clocks import Clocks
from tests.dst.played_copies import Memory
from tests.dst.played_deaths import Deaths
from tests.dst.played_disk import Disk
from tests.dst.played_journal import NothingLeft, PlayedJournal, is_played
from tests.dst.played_line import Line
from tests.dst.played_machine import NODES, PROCESSORS, Machine
from tests.dst.played_operator import Operator
from tests.dst.played_pool import OPTIONS, BatchSystem, has_pool, leaked, link
from tests.dst.played_user import User
from tests.dst.stand_ins import Holdings, Keys, PowerCut, Store
from tests.dst.verdict import BUGS, Wrong, check_end, check_store

FAULTS_S = 15.0
HEAL_S = 120.0


class Crash(Exception):
    """The server dies here."""


@dataclass
class World:
    """One run."""

    seed: int
    server_class: type[Server] = Server
    config: SchedulerConfig = field(default_factory=lambda: SchedulerConfig(samples=1, discard=0))
    now: float = 0.0
    pid: int = 1000
    lives: int = 0
    faults: bool = True
    trace: list[str] = field(default_factory=list)
    faults_s: float = FAULTS_S

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        ways = [*[Launching.JOIN] * 5, Launching.SPAWN, Launching.SPAWN, Launching.MPIEXEC]
        by_restart = {5: Launching.RESTART, 6: Launching.MPIEXEC_RESTART}
        way = by_restart.get(self.seed % 11, ways[self.seed % len(ways)])
        self.config = replace(self.config, launching=way)
        self.heap: list[tuple[float, int, Callable[[], None]]] = []
        self.events = 0
        self.p_lost = self.rng.choice([0.0, 0.02, 0.2])
        self.p_twice = self.rng.choice([0.0, 0.1])
        self.p_disk = self.rng.choice([0.0, 0.0, 0.1])
        self.latest_s = self.rng.choice([0.005, 0.3, 2.0])
        self.slow_disk_s = self.rng.choice([0.0, 0.2, 1.0])
        self.machine, self.clocks = Machine(self), Clocks(self)
        self.lines: dict[bytes, Line] = {}
        self.disk = Disk(self)
        self.store = self.new_store()
        self.server: Server | None = None
        self.crash_at_send = 0
        self.turn_due = False
        self.holdings = {node: Holdings(self.machine) for node in NODES}
        self.agents: dict[str, PlayedAgent | None] = dict.fromkeys(NODES)
        self.batch = BatchSystem(self) if has_pool(self.seed) else None
        if self.batch is not None:
            self.config = configured(self.config, pool=OPTIONS)
        if self.seed % 3 == 0:  # ranks that stayed for long leave
            self.config = configured(self.config, meetings=MeetingOptions(most=2))
        self.memory = Memory(self)
        self.user = User(self)
        self.operator = Operator(self)
        self.deaths = Deaths(self)

    def new_store(self) -> Store:
        """A disk for the journal, which fails in some of the worlds."""
        return PlayedJournal(self) if is_played(self.seed) else Store(self)

    # --- time -------------------------------------------------------------------------------

    def later(self, delay_s: float, what: Callable[[], None]) -> None:
        self.events += 1
        heapq.heappush(self.heap, (self.now + delay_s, self.events, what))

    def chance(self, p: float) -> bool:
        return self.faults and self.rng.random() < p

    def run(self) -> World:
        """Faults for a while, then peace until all is settled."""
        with BUGS.listening():
            if not isinstance(self.store, PlayedJournal):
                self.live()
                return self
            with self.store, suppress(NothingLeft):
                self.store.arrive()
                self.live()
        return self

    def live(self) -> None:
        """From the first start to the end."""
        self.start_server()
        for node in NODES:
            self.start_agent(node)
        self.user.arrive()
        self.operator.arrive()
        self.deaths.arrive()
        self.disk.arrive()
        self.clocks.arrive()
        if self.batch is not None:
            self.batch.fail()
        self.later(self.rng.uniform(1.0, 3.0), self.misfortune)
        self.until(lambda: self.now >= self.faults_s, self.faults_s + 1)
        self.faults = False
        self.heal()
        limit = self.now + HEAL_S
        while not self.settled():
            if self.now > limit:
                raise Wrong(f"not settled: {self.story()}")
            self.step()
        check_end(self)

    def until(self, what: Callable[[], bool], limit_s: float) -> None:
        while not what() and self.now < limit_s:
            self.step()

    def step(self) -> None:
        self.now, _, what = heapq.heappop(self.heap)
        what()
        if BUGS.found:  # the real code catches everything and goes on: here it may not
            raise Wrong(BUGS.found.pop())

    # --- network ----------------------------------------------------------------------------

    def carry(self, line: Line, deliver: Callable[[], None]) -> None:
        if (self.faults and line.cut_off) or self.chance(self.p_lost):
            return
        for _ in range(2 if self.chance(self.p_twice) else 1):
            self.later(self.rng.uniform(0.0005, self.latest_s if self.faults else 0.005), deliver)

    def to_server(self, line: Line, frame: bytes) -> None:
        server = self.server
        if server is None:
            return
        server.receive(line.identity, line.principal, frame)
        self.turn_soon(server)

    def turn_soon(self, server: Server) -> None:
        """The disk is slow: the commit of this turn comes later, and more messages before it."""
        if not self.turn_due:
            self.turn_due = True
            self.later(
                self.rng.uniform(0, self.slow_disk_s) if self.faults else 0.0, self.finish_turn
            )

    def outlet(self, identity: bytes, frame: bytes) -> None:
        if self.crash_at_send:
            self.crash_at_send -= 1
            if not self.crash_at_send:
                raise Crash
        line = self.lines.get(identity)
        if line is not None:
            self.carry(line, lambda: line.deliver(frame))

    # --- the server -------------------------------------------------------------------------

    def start_server(self) -> None:
        self.turn_due = False
        self.store.open()
        self.server = self.server_class(
            self.store,
            Keys(),  # type: ignore[arg-type]
            self.outlet,
            self.config,
            heartbeat_s=HEARTBEAT_S,
            expected=NODES if self.seed % 2 else (),  # of `dq up`; of `dq server start`
            clock=self.clocks.of_a_server(),
            monotonic=lambda: self.now,
            engine=None if self.batch is None else link(self, self.batch),
        )
        if self.server.engine is not None:
            self.server.engine.start()
        self.last_server = self.server
        check_store(self)
        if self.store.lost:
            self.user.submits_the_unknown(self.server)
        self.tick(self.server)

    def tick(self, server: Server) -> None:
        if server is self.server:
            if not self.store.batch and self.clocks.clock.look(idle=server.idle):
                server.catch_up()
            server.tick()
            server.scheduler.state.check()
            self.turn_soon(server)
            self.later(0.25, lambda: self.tick(server))

    def finish_turn(self) -> None:
        self.turn_due = False
        if self.server is None:
            return
        if self.chance(0.01):
            self.crash_at_send = self.rng.randrange(1, 4)
        try:
            self.server.finish_turn()
        except (Crash, PowerCut) as e:
            self.crash(power=isinstance(e, PowerCut))
        self.crash_at_send = 0

    def crash(self, power: bool = False) -> None:
        self.trace.append(f"{self.now:.3f} server dies")
        self.server = None
        self.disk.crash(power)
        self.later(self.rng.uniform(0.1, 3.0), self.start_again)

    def start_again(self) -> None:
        if self.server is None and self.disk.full:  # it cannot even note that it starts
            self.later(0.5, self.start_again)
        elif self.server is None:
            try:
                self.start_server()
            except JournalError as e:
                self.server = None
                if not self.store.refused(e):
                    raise NothingLeft from e
                self.later(0.5, self.start_again)

    # --- agents -----------------------------------------------------------------------------

    def agent_line(self, node: str, wake: Callable[[], None]) -> Line:
        return Line(self, node, Principal("agent"), wake)

    def allegiance(self, node: str, wake: Callable[[], None]) -> Allegiance:
        """To the one server."""

        def nowhere(_: str) -> Any:
            raise AssertionError("there is no standby")

        return Allegiance(AllegianceRecord(""), nowhere, lambda _: None, 1e9)

    def start_agent(self, node: str) -> None:
        agent = PlayedAgent(self, node, self.holdings[node])
        self.agents[node] = agent
        agent._say_hello()
        self.agent_turn(agent)

    def agent_turn(self, agent: PlayedAgent) -> None:
        if self.agents[agent.name] is agent:
            agent.turn()
            if agent.retired:
                self.trace.append(f"{self.now:.3f} agent of {agent.name} ends")
                for held in self.holdings[agent.name].trees.values():
                    held.tears()
                agent.close()
                self.agents[agent.name] = None
                self.later(self.rng.uniform(0.1, 5.0), lambda: self.back(agent.name))
                return
            self.later(0.1 if agent.vacancies.waiting else 0.25, lambda: self.agent_turn(agent))

    # --- misfortune -------------------------------------------------------------------------

    def misfortune(self) -> None:
        if not self.faults:
            return
        what = self.rng.choice(["server", "server", "agent", "cut", "cut", "pause"])
        node = self.rng.choice(NODES)
        agent = self.agents[node]
        self.trace.append(f"{self.now:.3f} {what} {node}")
        if what == "server" and self.server is not None:
            self.crash()
        elif what == "agent" and agent is not None:
            self.kill_agent(node, self.rng.uniform(0.1, 5.0))
        elif what == "cut" and agent is not None:
            line: Any = agent.context.connection
            line.cut_off = True
            self.later(self.rng.uniform(0.5, 6.0), lambda: setattr(line, "cut_off", False))
        elif what == "pause" and self.server is not None:
            self.server.take_snapshot() if not self.store.batch else None
        self.later(self.rng.uniform(0.5, 4.0), self.misfortune)

    def kill_agent(self, node: str, away_s: float) -> None:
        agent = self.agents[node]
        if agent is not None:
            agent.context.connection.close()
            agent.allegiance.close()
            self.agents[node] = None
            self.later(away_s, lambda: self.back(node))

    def back(self, node: str) -> None:
        if self.agents[node] is None:
            self.start_agent(node)

    def heal(self) -> None:
        for line in self.lines.values():
            line.cut_off = False
        self.disk.mend()
        self.start_again()
        for node in NODES:
            self.back(node)
        self.operator.mend()

    # --- the end ----------------------------------------------------------------------------

    def settled(self) -> bool:
        server = self.server
        if server is None or not all(wish.job for wish in self.user.wishes):
            return False
        state = server.scheduler.state
        return (
            not state.active
            and not state.queue
            and not any(job.state is JobState.RESTARTING for job in state.jobs.values())
            and state.idle == len(NODES) * PROCESSORS
            and not self.store.batch
            and not self.memory.left()
            and (self.batch is None or not leaked(server, self.batch))
        )

    def story(self) -> str:
        server = self.server
        if server is None:
            return "no server"
        state = server.scheduler.state
        jobs = {j.id: str(j.state) for j in state.jobs.values()}
        pool = state.processors
        told = f"jobs {jobs} idle {pool.idle} vacating {pool.vacating} paused {state.paused!r}"
        told += f" in memory {self.memory.left()}"
        return told if self.batch is None else f"{told} {leaked(server, self.batch)}"
