"""The whole of DQ in one thread, under a virtual clock, with everything going wrong from a seed.

Real: the core, the server's logic with its translation and reconciliation, the agent's logic, the
encoding of every message, replay and snapshots. Played: the network (messages are lost, come twice,
come late and in another order; agents are cut off), the store (commits fail, and what was not
committed is gone with the server), processes, applications, and the user.

Nothing here knows what the right decisions are. A run is right if

* at every moment no two jobs have processes on one processor (`Machine.occupy`);
* no job is started twice, but protected ones after a loss, when nothing of their last start runs
  any more; and every job whose submission was acknowledged ends once, done if nothing happened to
  it;
* in the end, when the faults are over, all processors are idle;
* the state is at every restart, and in the end, what the journal says (`check_store`).
"""

from __future__ import annotations

import heapq
import logging
import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from dq_client import codec
from dq_client import messages as m
from dq_client.agent.agent import Agent
from dq_client.agent.departures import Departures
from dq_client.agent.holdings import Record
from dq_client.agent.proxies import Proxies
from dq_client.agent.ranks import Ranks
from dq_client.agent.rsh import RshRequest
from dq_client.home import Home
from dq_client.keys import KeyPair
from dq_server.core.config import SchedulerConfig
from dq_server.live import snapshot
from dq_server.live.access import Principal
from dq_server.live.journal import EVENT_TYPES, Entry, JournalError, actions_as_json
from dq_server.live.requests.agents import runs
from dq_server.live.server import Server, replay, restored

HEARTBEAT_S = 1.0
FAULTS_S = 15.0
HEAL_S = 120.0
NODES = ("n1", "n2", "n3")
RESIZES = [(1, 0), (2, 0), (4, 0), (4, 2), (4, 4)]  # processors, rows; 0: any
PROCESSORS = 2


ENDS = ("exit", "killed_by_user", "node_lost", "launch_failed", "processes_lost", "restarts_used")


class Wrong(AssertionError):
    """An invariant does not hold."""


class Crash(Exception):
    """The server dies here."""


class Bugs(logging.Handler):
    """Exceptions that the server and the agents have caught and written to their logs."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []
        for name in ("dq.server", "dq.agent"):
            log = logging.getLogger(name)
            log.addHandler(self)
            log.setLevel(logging.ERROR)
            log.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.found.append(f"{record.getMessage()}: {record.exc_info[1]!r}")


BUGS = Bugs()


class Store:
    """A journal in memory: what is committed outlives a crash, nothing else does."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.safe: list[Entry] = []
        self.batch: list[Entry] = []
        self.kept: tuple[int, bytes] | None = None
        self.epoch = 0

    def next_epoch(self) -> int:
        self.epoch += 1
        return self.epoch

    def append(self, time: float, event: Any, body: str, actions: list[Any]) -> None:
        event = msgspec.json.decode(body, type=EVENT_TYPES[type(event).__name__])
        seq = len(self.safe) + len(self.batch) + 1
        self.batch.append(Entry(seq, time, event, actions_as_json(actions)))

    def archive(self, job: int, body: bytes) -> None:
        """Nobody asks here."""

    def archived(self, job: int) -> bytes | None:
        return None

    def commit(self) -> None:
        if self.batch and self.world.chance(self.world.p_disk):
            raise JournalError("the disk is full")
        self.safe += self.batch
        self.batch = []

    def rollback(self) -> None:
        self.batch = []

    def entries(self, after: int = 0) -> Iterator[Entry]:
        yield from [*self.safe, *self.batch][after:]

    def load_snapshot(self) -> tuple[int, bytes] | None:
        return self.kept

    def save_snapshot(self, seq: int, body: bytes) -> None:
        self.kept = seq, body

    def close(self) -> None:
        """Nothing to give back."""


class Keys:
    """Stands for Access: principals are known by the network."""

    server = KeyPair("public", "secret")

    def admit_job(self, job: int, instance: int) -> KeyPair:
        return KeyPair(f"{job}.{instance}", f"{job}.{instance}")

    def dismiss_job(self, job: int) -> None:
        """Keys are made by name here."""


@dataclass
class Process:
    """An application: where it runs, and how it will end."""

    job: int
    instance: int
    places: list[int]
    ends_s: float
    code: int
    pid: int
    node: str  # where its launcher runs
    over: bool = False
    where: dict[int, str] = field(default_factory=dict)  # processor -> node


class Machine:
    """All processes there are. They know nothing of servers and agents."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.on: dict[int, tuple[int, int]] = {}  # processor -> job, instance
        self.starts: set[tuple[int, int]] = set()  # job and instance
        self.pids: dict[int, tuple[int, int]] = {}
        self.processes: dict[tuple[int, int], Process] = {}
        self.unwanted: set[str] = set()  # proxies whose launcher has given up

    def occupy(self, process: Process, processors: list[int]) -> None:
        for p in processors:
            if p in self.on:
                raise Wrong(f"job {process.job} and job {self.on[p][0]} both run on {p}")
            self.on[p] = (process.job, process.instance)

    def leave(self, process: Process, processors: list[int]) -> None:
        for p in processors:
            if self.on.get(p) == (process.job, process.instance):
                del self.on[p]

    def end(self, process: Process) -> None:
        process.over = True
        self.leave(process, list(self.on))


class Held:
    """Stands for holdings.Tree."""

    def __init__(self, record: Record, process: Process, machine: Machine) -> None:
        self.record, self.process, self.machine = record, process, machine
        self.killed = self.gone = False  # gone: a proxy without ranks ends before its job
        self.is_proxy = bool(record.run)

    def running(self) -> bool:
        return not (self.process.over or self.gone)

    def exit_code(self) -> int | None:
        return None if self.running() else self.process.code

    def terminate(self) -> None:
        self.killed = True
        if not self.process.over:
            self.process.code = 137
            world = self.machine.world
            world.later(world.rng.uniform(0.0, 0.5), lambda: self.machine.end(self.process))

    def abandoned(self) -> bool:
        return False  # no keeper is killed here

    def sweep(self) -> bool:
        return not self.running()


class Holdings:
    """Stands for holdings.Holdings: survives its agent."""

    adopted = False

    def __init__(self, machine: Machine) -> None:
        self.trees: dict[str, Held] = {}
        self.machine = machine

    def start(self, record: Record, argv: list[str], *_: object) -> Held:
        """A proxy: it finds its launcher, or ends at once."""
        process = self.machine.processes[record.job, record.instance]
        held = Held(record, process, self.machine)
        held.gone = record.run in self.machine.unwanted
        return self.add(held)

    def get(self, job: int, instance: int, run: str = "") -> Held | None:
        return self.trees.get(f"{job}.{instance}{run}")

    def of(self, job: int, instance: int) -> list[Held]:
        wanted = (job, instance)
        return [t for t in self.trees.values() if (t.record.job, t.record.instance) == wanted]

    def add(self, held: Held) -> Held:
        r = held.record
        return self.trees.setdefault(f"{r.job}.{r.instance}{r.run}", held)

    def drop(self, held: Held) -> None:
        r = held.record
        self.trees.pop(f"{r.job}.{r.instance}{r.run}", None)

    def reap(self) -> None:
        """No zombies here."""


class Line:
    """Stands for Connection: one per life of its owner."""

    def __init__(self, world: World, name: str, principal: Principal, wake: Callable[[], None]):
        self.world, self.principal, self.wake = world, principal, wake
        self.inbox: deque[bytes] = deque()
        self.count = 0
        world.lives += 1
        self.identity = f"{name}#{world.lives}".encode()
        self.cut_off = False
        self.handshakes = 0
        world.lines[self.identity] = self

    def send(self, body: m.RequestBody, request: str = "") -> str:
        self.count += 1
        request = request or f"{self.identity.decode().replace('#', '-')}.{self.count}"
        frame = codec.encode(m.Request(request, body))
        self.world.carry(self, lambda: self.world.to_server(self, frame))
        return request

    def receive(self) -> Any:
        return codec.decode_from_server(self.inbox.popleft()) if self.inbox else None

    def deliver(self, frame: bytes) -> None:
        if self.world.lines.get(self.identity) is self:
            self.inbox.append(frame)
            self.wake()

    def check_refused(self) -> None:
        """Nobody is."""

    def close(self) -> None:
        self.world.lines.pop(self.identity, None)


class NoCopies:
    """Stands for CopyKeeper: applications that are played have no data."""

    def save(self, *_: object) -> bool:
        return True

    def forget(self, *_: object) -> None:
        """Nothing to remove."""


class PlayedAgent(Agent):
    """The agent's logic over played processes."""

    __slots__ = ("world",)

    def __init__(self, world: World, node: str, holdings: Holdings) -> None:
        self.world = world
        info = [m.NodeInfo(node, PROCESSORS, node)]
        line = Line(world, node, Principal("agent"), self.turn)
        super().__init__(Home(Path("/nowhere")), node, info, line, HEARTBEAT_S)  # type: ignore[arg-type]
        self.clock = lambda: world.now
        self.copies = NoCopies()  # type: ignore[assignment]
        self.holdings = holdings  # type: ignore[assignment]

    def __post_init__(self) -> None:
        """Without sockets and folders."""
        self.departures, self.proxies = PlayedDepartures(self), Proxies(self, None)
        self.ranks = Ranks(self)  # no folder, so nobody is ever missing

    def _start(self, order: m.Launch) -> Any:
        process = self.world.launch(order)
        held = Held(Record(order.job, order.instance), process, self.world.machine)
        self.world.spread(process, self.name)
        return self.holdings.add(held)  # type: ignore[attr-defined]


class PlayedDepartures(Departures):
    """Over played processes."""

    def still_there(self, order: m.Vacate) -> list[int]:
        pids = self._agent.world.machine.pids  # type: ignore[attr-defined]
        return [pid for pid in order.pids if pid in pids]

    def clear(self, order: m.Vacate) -> bool:
        on = self._agent.world.machine.on  # type: ignore[attr-defined]
        return all(on.get(p, (0, 0))[0] != order.job for p in order.processors)


class Call:
    """Stands for rsh.Caller: a launcher that waits for its proxy on another node."""

    def __init__(self) -> None:
        self.of = (0, 0)
        self.call: m.RemoteRun | None = None
        self.request = ""
        self.accepted = self.over = False

    def answer(self, **_: object) -> None:
        self.over = True

    def close(self) -> None:
        self.over = True


@dataclass
class Spawning:
    """New ranks that are being started: the order, and the proxies they still need, by node."""

    answer: m.RemapAnswer
    calls: dict[str, tuple[str, Call]]  # node -> run, call


@dataclass
class App:
    """An application that comes to remap points and carries resizes out, or fails to."""

    world: World
    process: Process
    line: Line
    seq: int = 0
    done: int = 0
    asked: str = ""
    asked_s: float = 0.0
    spawning: Spawning | None = None
    farewells: int = 0

    def finish(self) -> None:
        """A protected job says that its work is done, until that is heard, and ends."""
        world, process = self.world, self.process
        answers = iter(self.line.receive, None)
        if any(message.id.startswith("farewell") for message in answers):
            world.machine.end(process)
        elif not process.over:
            self.farewells += 1
            self.line.send(m.WorkDone(), f"farewell.{self.farewells}")
            world.later(world.rng.uniform(0.2, 1.0), self.finish)

    def turn(self) -> None:
        """Every so often: see what came, do it, ask on."""
        world, process = self.world, self.process
        if process.over or self.farewells:
            if process.over:
                self.line.close()
            return
        while (message := self.line.receive()) is not None:
            if message.id == self.asked:
                self.asked = ""
                if isinstance(message.body, m.RemapAnswer):
                    self.carry_out(message.body)
        if self.spawning is not None:
            self.look_at_spawning(self.spawning)
        elif not self.asked or world.now - self.asked_s > 3.0:
            self.seq += 1
            self.asked_s = world.now
            size = len(process.places)
            body = m.RemapPoint(self.seq, size, self.done, 1.0 / size)
            self.asked = self.line.send(body)
            if world.chance(0.2):  # asked again under the same id
                self.line.send(body, self.asked)
        world.later(world.rng.uniform(0.1, 0.6), self.turn)

    def carry_out(self, answer: m.RemapAnswer) -> None:
        world, process, machine = self.world, self.process, self.world.machine
        if answer.what == "continue":
            return
        places = [p.processor for p in answer.places]
        if world.chance(0.15):  # spawning or redistributing failed
            self.line.send(m.Aborted(answer.resize_id, "no luck"))
            return
        if answer.what == "expand":
            self.spawn(answer)
            return
        process.places = [p for p in process.places if p not in places]
        world.fold(process)
        self.done = answer.resize_id
        pids = []
        for p in places:
            world.pid += 1
            pids.append(world.pid)
            machine.pids[world.pid] = (process.job, p)
            pid = world.pid

            def leaves(pid: int = pid, p: int = p) -> None:
                machine.leave(process, [p])
                machine.pids.pop(pid, None)

            # A retiring rank takes milliseconds; the server relies on that if it forgets the pids.
            world.later(world.rng.uniform(0.001, 0.05), leaves)
        self.tell(m.Committed(answer.resize_id, 0.1, pids))

    def spawn(self, answer: m.RemapAnswer) -> None:
        """Ask for a proxy on every node that has none, as MPI's launcher does: of its own agent."""
        world, process = self.world, self.process
        of = process.job, process.instance
        agent = world.agents[process.node]
        self.spawning = Spawning(answer, {})
        for node in sorted({place.node for place in answer.places}):
            if any(held.running() for held in world.holdings[node].of(*of)):
                continue
            world.pid += 1
            run, call = f"run{world.pid}", Call()
            self.spawning.calls[node] = run, call
            if agent is None or not agent.holdings.of(*of):
                call.over = True
            else:
                agent.proxies.call(run, call, *of, RshRequest(node, ["proxy"], "/", {}))  # type: ignore[arg-type]
        self.look_at_spawning(self.spawning)

    def look_at_spawning(self, spawning: Spawning) -> None:
        """The new ranks are there, or one of their proxies could not be started."""
        world, process, answer = self.world, self.process, spawning.answer
        places = [p.processor for p in answer.places]
        calls = spawning.calls
        held = {node: world.held(node, process, run) for node, (run, _) in calls.items()}
        if all(h is not None and h.running() for h in held.values()):
            world.machine.occupy(process, places)
            process.places += places
            process.where |= {place.processor: place.node for place in answer.places}
            self.done, self.spawning = answer.resize_id, None
            self.tell(m.Committed(answer.resize_id, 0.1))
        elif any(call.over for _, call in calls.values()):
            world.machine.unwanted |= {run for run, _ in calls.values()}
            for proxy in held.values():
                if proxy is not None:
                    proxy.gone = True
            self.spawning = None
            self.line.send(m.Aborted(answer.resize_id, "a node cannot be reached"))

    def tell(self, body: m.Committed) -> None:
        """Like the library: nothing else is said before the answer, or three seconds, have come."""
        self.asked_s = self.world.now
        self.asked = self.line.send(body)


@dataclass
class Wish:
    """What the user submitted."""

    body: m.Submit
    sent_s: float = -10.0
    job: int = 0  # acknowledged
    doomed: bool = False  # killed by the user: need not be done


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

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.heap: list[tuple[float, int, Callable[[], None]]] = []
        self.events = 0
        self.p_lost = self.rng.choice([0.0, 0.02, 0.2])
        self.p_twice = self.rng.choice([0.0, 0.1])
        self.p_disk = self.rng.choice([0.0, 0.0, 0.1])
        self.latest_s = self.rng.choice([0.005, 0.3, 2.0])
        self.slow_disk_s = self.rng.choice([0.0, 0.2, 1.0])
        self.machine = Machine(self)
        self.lines: dict[bytes, Line] = {}
        self.store = Store(self)
        self.server: Server | None = None
        self.crash_at_send = 0
        self.turn_due = False
        self.holdings = {node: Holdings(self.machine) for node in NODES}
        self.agents: dict[str, PlayedAgent | None] = dict.fromkeys(NODES)
        self.wishes = [self.wish(n) for n in range(self.rng.randrange(2, 7))]

    # --- time -------------------------------------------------------------------------------

    def later(self, delay_s: float, what: Callable[[], None]) -> None:
        self.events += 1
        heapq.heappush(self.heap, (self.now + delay_s, self.events, what))

    def chance(self, p: float) -> bool:
        return self.faults and self.rng.random() < p

    def run(self) -> World:
        """Faults for a while, then peace until all is settled."""
        BUGS.found.clear()
        self.start_server()
        for node in NODES:
            self.start_agent(node)
        self.user = Line(self, "user", Principal("user"), lambda: None)
        self.later(0.5, self.user_turn)
        self.later(self.rng.uniform(1.0, 3.0), self.misfortune)
        self.until(lambda: self.now >= FAULTS_S, FAULTS_S + 1)
        self.faults = False
        self.heal()
        limit = self.now + HEAL_S
        while not self.settled():
            if self.now > limit:
                raise Wrong(f"not settled: {self.story()}")
            self.step()
        self.check_end()
        return self

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
            self.later(self.rng.uniform(0, self.slow_disk_s) if self.faults else 0.0, self.let_out)

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
        self.store.rollback()
        self.turn_due = False
        self.server = self.server_class(
            self.store,
            Keys(),  # type: ignore[arg-type]
            self.outlet,
            self.config,
            heartbeat_s=HEARTBEAT_S,
            clock=lambda: 1e9 + self.now,
            monotonic=lambda: self.now,
        )
        self.last_server = self.server
        self.check_store()
        self.tick(self.server)

    def tick(self, server: Server) -> None:
        if server is self.server:
            server.tick()
            server.scheduler.state.check()
            self.turn_soon(server)
            self.later(0.25, lambda: self.tick(server))

    def let_out(self) -> None:
        self.turn_due = False
        if self.server is None:
            return
        if self.chance(0.01):
            self.crash_at_send = self.rng.randrange(1, 4)
        try:
            self.server.let_out()
        except Crash:
            self.crash()
        self.crash_at_send = 0

    def crash(self) -> None:
        self.trace.append(f"{self.now:.3f} server dies")
        self.server = None
        self.store.rollback()
        self.later(self.rng.uniform(0.1, 3.0), self.start_again)

    def start_again(self) -> None:
        if self.server is None:
            self.start_server()

    def check_store(self) -> None:
        """Journal = state, with and without the snapshot."""
        assert self.server is not None
        scheduler, _, after = restored(self.store)
        for entry in self.store.entries(after):
            replay(scheduler, entry)
        if snapshot.encode(scheduler, 0.0) != snapshot.encode(self.server.scheduler, 0.0):
            raise Wrong("the state is not what the journal leads to")

    # --- agents and applications ------------------------------------------------------------

    def start_agent(self, node: str) -> None:
        agent = PlayedAgent(self, node, self.holdings[node])
        self.agents[node] = agent
        agent._say_hello()
        self.agent_turn(agent)

    def agent_turn(self, agent: PlayedAgent) -> None:
        if self.agents[agent.name] is agent:
            agent.turn()
            self.later(0.1 if agent.departures.waiting else 0.25, lambda: self.agent_turn(agent))

    def launch(self, order: m.Launch) -> Process:
        if (order.job, order.instance) in self.machine.starts:
            raise Wrong(f"start {order.instance} of job {order.job} happens twice")
        self.machine.starts.add((order.job, order.instance))
        if order.instance > 1 and "DQ_PROTECT" not in order.env:
            raise Wrong(f"job {order.job} is started twice")
        if self.beside_itself(order.job, order.places):
            raise Wrong(f"job {order.job} is started again beside itself")
        self.pid += 1
        places = [p.processor for p in order.places]
        ends_s = self.now + self.rng.choice([0.05, 1.0, 4.0, 8.0])
        first = order.places[0].node
        protected = "DQ_PROTECT" in order.env
        code = self.rng.choice([0, 0, 0, 1, 9]) if protected and self.faults else 0
        process = Process(order.job, order.instance, places, ends_s, code, self.pid, first)
        process.where = {place.processor: place.node for place in order.places}
        self.machine.processes[order.job, order.instance] = process
        reaches = self.reaches(order)
        if not reaches:  # its launcher fails, and ranks elsewhere never come to be
            process.places = [p for p in places if process.where[p] == first]
            process.ends_s, process.code = self.now + 0.2, 255
        self.machine.occupy(process, process.places)

        def end() -> None:
            if not process.over:
                self.machine.end(process)

        if order.argv[0] == "malleable" and reaches:
            principal = Principal("job", order.job, order.instance)
            app = App(self, process, Line(self, f"job{order.job}", principal, lambda: None))
            self.later(0.1, app.turn)
            if protected and not code and self.rng.random() < 0.9:  # else it vanishes
                end = app.finish
        self.later(process.ends_s - self.now, end)
        return process

    def reaches(self, order: m.Launch) -> bool:
        """Whether the launcher gets its proxies on other nodes: it asks for them at the server."""
        job = self.last_server.scheduler.state.job(order.job)
        return len({p.node for p in order.places}) == 1 or runs(job, order.instance)

    def beside_itself(self, job: int, places: list[m.Place]) -> bool:
        """Whether it starts, and still runs, where the server could know: on nodes it has not lost.

        A node that is only cut off computes for nobody until its agent is heard again.
        """
        down = self.last_server.scheduler.state.processors.down
        runs_on = [p for p, (j, _) in self.machine.on.items() if j == job and p not in down]
        return bool(runs_on) and any(place.processor not in down for place in places)

    def spread(self, process: Process, first: str) -> None:
        """Ranks on other nodes belong to a proxy there, which that node's agent holds."""
        for node in {process.where[p] for p in process.places} - {first}:
            record = Record(process.job, process.instance, f"first of {process.job}")
            self.holdings[node].add(Held(record, process, self.machine))

    def held(self, node: str, process: Process, run: str) -> Held | None:
        return self.holdings[node].get(process.job, process.instance, run)

    def fold(self, process: Process) -> None:
        """Proxies without ranks end."""
        used = {process.where[p] for p in process.places}
        for node in set(NODES) - used:
            for held in self.holdings[node].of(process.job, process.instance):
                held.gone |= held.is_proxy

    # --- the user ---------------------------------------------------------------------------

    def wish(self, n: int) -> Wish:
        size = self.rng.choice([1, 1, 2, 3])
        protect = m.Protect() if self.rng.random() < 0.4 else None
        if self.rng.random() < 0.5:
            body = m.Submit(f"r{n}", f"j{n}", ["rigid"], "/", "rigid", size, protect=protect)
            return Wish(body)
        sizes = m.Sizes([1, 2, "2x1", 3, 4, "4x1"])
        kind = "malleable"
        return Wish(m.Submit(f"r{n}", f"j{n}", [kind], "/", kind, size, sizes, protect=protect))

    def user_turn(self) -> None:
        while (message := self.user.receive()) is not None:
            number = message.id.partition("-")[2]
            if message.id.startswith("wish-") and isinstance(message.body, m.Submitted):
                self.wishes[int(number)].job = message.body.job
        for n, wish in enumerate(self.wishes):
            if not wish.job and self.now - wish.sent_s > 1.0 and self.rng.random() < 0.5:
                wish.sent_s = self.now
                self.user.send(wish.body, f"wish-{n}")
            elif wish.job and self.chance(0.02):
                wish.doomed = True
                self.user.send(m.Kill(wish.job))
            elif wish.job and self.chance(0.05):  # often refused: not all jobs can be resized
                self.user.send(m.Resize(wish.job, *self.rng.choice(RESIZES)))
        self.later(0.2, self.user_turn)

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
            agent.connection.close()
            self.agents[node] = None
            self.later(self.rng.uniform(0.1, 5.0), lambda: self.back(node))
        elif what == "cut" and agent is not None:
            line: Any = agent.connection
            line.cut_off = True
            self.later(self.rng.uniform(0.5, 6.0), lambda: setattr(line, "cut_off", False))
        elif what == "pause" and self.server is not None:
            self.server.keep() if not self.store.batch else None
        self.later(self.rng.uniform(0.5, 4.0), self.misfortune)

    def back(self, node: str) -> None:
        if self.agents[node] is None:
            self.start_agent(node)

    def heal(self) -> None:
        for line in self.lines.values():
            line.cut_off = False
        self.start_again()
        for node in NODES:
            self.back(node)

    # --- the end ----------------------------------------------------------------------------

    def settled(self) -> bool:
        server = self.server
        if server is None or not all(wish.job for wish in self.wishes):
            return False
        state = server.scheduler.state
        return (
            not state.active
            and not state.queue
            and not state.restarting
            and state.idle == len(NODES) * PROCESSORS
            and not self.store.batch
        )

    def check_end(self) -> None:
        assert self.server is not None
        state = self.server.scheduler.state
        state.check()
        self.check_store()
        if self.machine.on:
            raise Wrong(f"processes are left: {self.machine.on}")
        finished: dict[int, int] = {}
        for entry in self.store.entries():
            for _ in range(entry.actions.count('"JobFinished"')):
                finished[entry.seq] = finished.get(entry.seq, 0) + 1
        if sum(finished.values()) != len(state.jobs):
            raise Wrong(f"{len(state.jobs)} jobs finished {sum(finished.values())} times")
        for wish in self.wishes:
            job = state.jobs.get(wish.job)
            if job is None or job.end_s is None or job.end_reason is None:
                raise Wrong(f"job {wish.job} was accepted and has not ended")
            if job.end_reason.code not in ENDS:
                raise Wrong(f"job {wish.job} ended for {job.end_reason}")
            protected = job.spec.protection
            if protected and job.end_reason.code == "node_lost" and not wish.doomed:
                raise Wrong(f"job {wish.job} is protected, and ended for {job.end_reason}")
            if job.restarts > (protected.restarts if protected else 0):
                raise Wrong(f"job {wish.job} was restarted {job.restarts} times")
            if job.end_reason.code == "killed_by_user" and not wish.doomed:
                raise Wrong(f"job {wish.job} was killed by nobody")
        if len({wish.job for wish in self.wishes}) != len(self.wishes):
            raise Wrong("two submissions became one job")

    def story(self) -> str:
        server = self.server
        if server is None:
            return "no server"
        state = server.scheduler.state
        jobs = {j.id: str(j.state) for j in state.jobs.values()}
        pool = state.processors
        return f"jobs {jobs} idle {pool.idle} vacating {pool.vacating} paused {state.paused!r}"
