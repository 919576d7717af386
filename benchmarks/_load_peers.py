"""The agents and applications of benchmarks.load: played, but on real sockets with real keys.

benchmarks.many_jobs plays other applications on the same agents (_many_jobs_peers.py).
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

import zmq
from msgspec.structs import replace

from dq_client.base import codec, keys
from dq_client.base import messages as m
from dq_client.base.home import Home
from dq_client.base.keys import KeyPair
from dq_client.base.launch import raise_open_file_limit
from harness.sockets import dealer

HEARTBEAT_S = 2.0
REMAP_S = 1.0


@dataclass(frozen=True)
class Plan:
    """What shall be played."""

    home: str
    agents: int
    processors: int  # of each
    rate: float  # ends of rigid jobs a second, the oldest first


class Line:
    """A socket with a key; tells how long answers take."""

    def __init__(self, stage: Stage, pair: KeyPair) -> None:
        self.socket = dealer(stage.context, stage.address, stage.public, pair)
        self.stage = stage
        self.asked: dict[str, float] = {}
        stage.open(self)

    def send(self, body: m.RequestBody) -> str:
        request = f"r{next(self.stage.numbers)}"
        self.socket.send(codec.encode(m.Request(request, body)))
        return request

    def hear(self, message: Any) -> None:
        raise NotImplementedError


class PlayedAgent(Line):
    """Starts nothing, and says that it ran."""

    def __init__(self, stage: Stage, number: int) -> None:
        super().__init__(stage, stage.agent_key)
        self.name, self.session = f"a{number:04}", 0
        self.period_s = HEARTBEAT_S
        self.holdings: dict[tuple[int, int], m.Holding] = {}
        # By job: processor -> the resize by which its rank came, 0: the start.
        self.ranks: dict[tuple[int, int], dict[int, int]] = {}
        self.begun: dict[tuple[int, int], set[int]] = {}  # worlds, also those that have left
        self.say_hello()

    def say_hello(self) -> None:
        nodes = [m.NodeInfo(self.name, self.stage.plan.processors, self.name)]
        holdings = list(self.holdings.values())
        self.hello = self.send(m.AgentHello(m.PROTOCOL, self.name, nodes, holdings))

    def beat(self, due_s: float) -> None:
        """Keeps its phase: on machines of their own agents do not fall into step."""
        request = self.send(m.Heartbeat(self.session, list(self.holdings.values())))
        self.asked[request] = time.monotonic()
        self.stage.at(due_s + self.period_s, self.beat)

    def hear(self, message: Any) -> None:
        if isinstance(message, m.Order):
            self.order(message.body)
        elif message.id == self.hello:
            assert isinstance(message.body, m.Welcome), message.body
            if not self.session:
                self.stage.welcomed += 1
                phase_s = HEARTBEAT_S * (self.stage.welcomed % 100) / 100
                self.stage.at(time.monotonic() + phase_s, self.beat)
            self.session = message.body.session
        elif message.id in self.asked:
            self.stage.heartbeats.append(time.monotonic() - self.asked.pop(message.id))
            if isinstance(message.body, m.Heard):
                self.period_s = message.body.next_s
            elif isinstance(message.body, m.Error):
                self.say_hello()
        error = message.body if isinstance(message, m.Reply) else None
        # "later": a job on several nodes has not started on all of them; heartbeats say that.
        if isinstance(error, m.Error) and error.code != "later":
            self.stage.error(error.text)

    def order(self, body: Any) -> None:
        if isinstance(body, m.Vacate):
            self.vacate(body)
        elif isinstance(body, m.StartRanks):
            self.start(body)

    def start(self, order: m.StartRanks) -> None:
        """Play the ranks of a world that are here, and the application if its rank 0 is."""
        of = order.job, order.instance
        begun = self.begun.setdefault(of, set())
        if order.world in begun:
            return
        begun.add(order.world)
        held = self.holdings.get(of, m.Holding(*of, True, 1, 0.0, True))
        here = [place.processor for place in order.places if place.node == self.name]
        self.ranks.setdefault(of, {}).update(dict.fromkeys(here, order.world))
        worlds = [*held.worlds, *([order.world] if order.world else [])]
        self.holdings[of] = replace(held, worlds=worlds)
        self.send(m.AppStarted(*of, 1))
        if order.world or order.places[0].node != self.name:
            return
        if order.env.get("LOAD") == "malleable":
            self.stage.begin(order)
        else:
            self.stage.running.append((self, of))

    def vacate(self, order: m.Vacate) -> None:
        """Its ranks have left at once; or those of the whole job, if it names none."""
        of = order.job, order.instance
        ranks = self.ranks.get(of, {})
        # An order that crosses its answer comes again, perhaps after others have come there.
        for processor, resize in zip(order.processors, order.pids, strict=False):
            if ranks.get(processor, resize) < resize:
                del ranks[processor]
        if not order.pids or not ranks:
            self.holdings.pop(of, None)
            self.ranks.pop(of, None)
        if not order.pids:
            self.begun.pop(of, None)
        self.send(m.Vacated(*of, order.processors))

    def end(self, of: tuple[int, int]) -> None:
        self.holdings.pop(of, None)
        self.ranks.pop(of, None)
        self.begun.pop(of, None)
        self.stage.ended += 1
        self.send(m.AppEnded(*of, 0))


@dataclass(slots=True)
class Course:
    """What an application has done so far: where it is, and the last resize that it carried out."""

    size: int
    done: int = 0
    seq: int = 0

    def point(self, time_s: float) -> m.RemapPoint:
        """The next remap point, after an iteration of `time_s`."""
        self.seq += 1
        return m.RemapPoint(self.seq, self.size, self.done, time_s)

    def carry_out(self, answer: m.RemapAnswer) -> m.Committed | None:
        """Do at once what the answer says; what is said of that, None if there is nothing to do."""
        if answer.what == "continue":
            return None
        # Instead of the pids of those who leave: PlayedAgent.vacate goes by the number.
        left = [] if answer.what == "expand" else [answer.resize_id] * len(answer.places)
        self.size += -len(left) if left else len(answer.places)
        self.done = answer.resize_id
        return m.Committed(answer.resize_id, 0.01, left)


class PlayedApplication(Line):
    """Comes to a remap point a second and carries out what it is told, at once."""

    def __init__(self, stage: Stage, order: m.StartRanks) -> None:
        super().__init__(stage, keys.pair_of(order.env["DQ_JOB_KEY"]))
        self.course = Course(len(order.places))
        stage.applications += 1
        stage.at(time.monotonic() + REMAP_S * (stage.applications % 100) / 100, self.remap)

    def remap(self, due_s: float) -> None:
        request = self.send(self.course.point(1.0 / self.course.size))
        self.asked[request] = time.monotonic()
        self.stage.at(due_s + REMAP_S, self.remap)

    def hear(self, message: Any) -> None:
        begin = self.asked.pop(message.id, None)
        body = message.body
        if isinstance(body, m.Error):
            self.stage.error(body.text)
        if begin is None or not isinstance(body, m.RemapAnswer):
            return
        self.stage.decisions.append(time.monotonic() - begin)
        committed = self.course.carry_out(body)
        if committed is not None:
            self.send(committed)


class Stage:
    """All that is played, in one loop."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        home = Home(Path(plan.home))
        self.address = home.server()["address"]
        self.public = keys.load(home.keys, "server").public
        self.agent_key = keys.load(home.keys, "agent")
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.context.set(zmq.MAX_SOCKETS, plan.agents + 2000)
        self.numbers = itertools.count(1)
        self.lines: dict[zmq.Socket[bytes], Line] = {}
        self.poller = zmq.Poller()
        self.heap: list[tuple[float, int, Callable[[float], None]]] = []
        self.welcomed = self.applications = 0
        self.running: deque[tuple[PlayedAgent, tuple[int, int]]] = deque()
        self.began_s = float("inf")  # nothing ends while the queue is filled
        self.count()

    def count(self) -> None:
        """From now on the figures count."""
        self.heartbeats: list[float] = []
        self.decisions: list[float] = []
        self.errors: dict[str, int] = {}
        self.ended = 0

    def begin(self, order: m.StartRanks) -> None:
        """The application of a malleable job starts."""
        PlayedApplication(self, order)

    def open(self, line: Line) -> None:
        self.lines[line.socket] = line
        self.poller.register(line.socket, zmq.POLLIN)

    def at(self, due_s: float, what: Callable[[float], None]) -> None:
        """`what` is handed the time that it was due."""
        heapq.heappush(self.heap, (due_s, next(self.numbers), what))

    def error(self, text: str) -> None:
        self.errors[text[:80]] = self.errors.get(text[:80], 0) + 1

    def turn(self) -> None:
        for socket, _ in self.poller.poll(2):
            line = self.lines[socket]
            while True:
                try:
                    frame = socket.recv(zmq.NOBLOCK)
                except zmq.Again:
                    break
                line.hear(codec.decode_from_server(frame))
        now = time.monotonic()
        while self.heap and self.heap[0][0] <= now:
            due_s, _, what = heapq.heappop(self.heap)
            what(due_s)
        while self.running and self.ended < self.plan.rate * (now - self.began_s):
            agent, of = self.running.popleft()
            agent.end(of)


def peers(plan: Plan, pipe: Pipe) -> None:
    """Play until told to stop. Says "ready" once all agents are welcome."""
    raise_open_file_limit()
    stage = Stage(plan)
    for number in range(plan.agents):
        PlayedAgent(stage, number)
        if number % 20 == 19:
            stage.turn()
    while stage.welcomed < plan.agents:
        stage.turn()
    pipe.send("ready")
    while True:
        stage.turn()
        if not pipe.poll(0):
            continue
        told = pipe.recv()
        if told == "stop":
            return
        if told == "tell":
            pipe.send({name: getattr(stage, name)
                       for name in ("heartbeats", "decisions", "ended", "errors")})  # fmt: skip
        if told == "count":
            stage.began_s = time.monotonic()
            stage.count()
