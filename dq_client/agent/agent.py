"""The agent's loop: orders in, processes started and ended, reports out until acknowledged.

It owns the processes, the server does not: they survive the server, and through their keepers also
the agent (holdings.py). See the package's docstring for the parts.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import zmq

from dq_client import messages as m
from dq_client.agent import tree
from dq_client.agent.applications import Applications
from dq_client.agent.copies import CopyKeeper
from dq_client.agent.departures import Departures
from dq_client.agent.holdings import Holdings
from dq_client.agent.proxies import Proxies
from dq_client.agent.ranks import Ranks
from dq_client.agent.reports import Reports
from dq_client.agent.rsh import RshSocket
from dq_client.connection import Connection
from dq_client.errors import DQError, NoServer
from dq_client.home import Home
from dq_client.launch import install_rsh

log = logging.getLogger("dq.agent")

TURN_S = 0.05  # between looks at what cannot wake the loop
DEPARTURE_TURN_S = 0.005  # a retiring rank takes milliseconds, and its processor is wanted
OVER_MAX = 10_000
UNSENT = "unsent"


class WrongServer(DQError):
    """This server will never take this agent, for the reason it gave."""


@dataclass(slots=True)
class Agent:
    """One agent for one or more nodes of this machine."""

    home: Home
    name: str
    nodes: list[m.NodeInfo]
    connection: Connection
    heartbeat_s: float = 2.0
    interface: str = "lo"
    clock: Callable[[], float] = time.monotonic
    session: int = 0  # what the last welcome said
    retired: bool = False
    reports: Reports = field(default_factory=Reports)
    over: dict[int, int] = field(default_factory=dict)  # job -> instance that must not start now
    environment: dict[str, str] = field(default_factory=dict)  # set for every rank
    each_beat: Callable[[], object] = field(default=lambda: None)
    wake: socket.socket | None = None  # readable after a signal: a child may have ended
    holdings: Holdings = field(init=False)
    applications: Applications = field(init=False)
    departures: Departures = field(init=False)
    proxies: Proxies = field(init=False)
    ranks: Ranks = field(init=False)
    rsh: RshSocket = field(init=False)
    rsh_program: Path = field(init=False)
    copies: CopyKeeper = field(init=False)
    _hello: str = ""
    _ending: bool = False  # a tree is being ended, or has ended and is being cleared
    _last_beat: float = 0.0
    _beat_ids: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        folder = self.home.agent(self.name)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.holdings = Holdings(folder / "holdings", self.owner)
        self.rsh = RshSocket(folder)
        self.applications = Applications(self)
        self.departures, self.proxies = Departures(self), Proxies(self, self.rsh)
        self.ranks = Ranks(self)
        self.rsh_program = install_rsh(folder)
        self.copies = CopyKeeper(node.host for node in self.nodes)

    # --- the loop ---------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until retired."""
        poller = zmq.Poller()
        poller.register(self.connection.socket, zmq.POLLIN)
        poller.register(self.connection.monitor, zmq.POLLIN)
        poller.register(self.rsh.listener.fileno(), zmq.POLLIN)
        if self.wake is not None:
            poller.register(self.wake.fileno(), zmq.POLLIN)
        self._say_hello()
        while not self.retired:
            ready = dict(poller.poll(int(1000 * self._patience_s())))
            if self.wake is not None and self.wake.fileno() in ready:
                self.wake.recv(4096)
            self.proxies.serve(ready, poller)
            self.turn()
        self.close()

    def turn(self) -> None:
        """What there is to do at this moment."""
        self._look_at_line()
        self._take_in()
        self._watch()
        self.reports.send(self.clock(), self.send)
        self._beat()

    def _patience_s(self) -> float:
        """How long the loop may sleep unless something wakes it.

        Many agents may share a machine with the ranks they started, so an agent with nothing to
        look after wakes for its heartbeats only.
        """
        if self.departures.retiring:
            return DEPARTURE_TURN_S
        leaving = bool(self.departures.waiting)
        unseen = self.wake is None or self.holdings.adopted or leaving
        if self.reports or (unseen and (self.holdings.trees or leaving)):
            return TURN_S
        if self._ending or self.ranks.missing:
            return TURN_S
        return max(0.0, self._last_beat + self.heartbeat_s - self.clock()) + 0.001

    def close(self) -> None:
        """End what is left and leave."""
        for held in self.holdings.trees.values():
            held.terminate()
        self.rsh.close()
        self.connection.close()

    def _take_in(self) -> None:
        """All messages that are there. None of them may end the agent: its jobs depend on it."""
        while True:
            try:
                message = self.connection.receive()
                if message is None:
                    return
                self._message(message)
                self._beat()  # a hundred launches take longer than the server has patience
            except WrongServer:
                raise
            except Exception:
                log.exception("a message could not be carried out")

    def _look_at_line(self) -> None:
        """A new connection leads to a server that may not know us: report at once."""
        before = self.connection.handshakes
        try:
            self.connection.check_refused()
        except DQError as e:
            if not self.session:  # never let in: a wrong key stays wrong
                raise
            log.warning("%s", e)
        if before and self.connection.handshakes > before:
            self._say_hello()

    def send(self, body: m.RequestBody) -> str:
        """Send; an empty id if the queue to a server that is away is full (it is sent again)."""
        try:
            return self.connection.send(body)
        except NoServer as e:
            log.warning("%s", e)
            return ""

    def _say_hello(self) -> None:
        hello = m.AgentHello(m.PROTOCOL, self.name, self.nodes, self._held(), os.getpid())
        self._hello = self.send(hello) or UNSENT
        self._last_beat = self.clock()

    def _held(self) -> list[m.Holding]:
        return [
            m.Holding(r.job, r.instance, not t.is_proxy, r.pid, r.create_time, t.running())
            for t in self.holdings.trees.values()
            for r in (t.record,)
        ]

    def _beat(self) -> None:
        now = self.clock()
        if now - self._last_beat < self.heartbeat_s:
            return
        if self._hello:  # no welcome yet: the server was away
            self._say_hello()
            return
        self._last_beat = now
        self.each_beat()
        self.ranks.look()
        self._beat_ids = {self.send(m.Heartbeat(self.session, self._held(), os.getloadavg()[0]))}
        self.proxies.call_again()

    def _message(self, message: m.Reply | m.Order) -> None:
        if isinstance(message, m.Order):
            if message.session == self.session:  # else: of another server, or of another life
                self._order(message.body)
        elif message.id == self._hello:
            if isinstance(message.body, m.Welcome):
                self._hello, self.session = "", message.body.session
                self._last_beat = float("-inf")  # what is held is told at once
                log.info("welcomed by the server, epoch %d", message.body.epoch)
            elif isinstance(message.body, m.Error) and message.body.code != "later":
                raise WrongServer(message.body.text)
        elif message.id in self._beat_ids:
            if isinstance(message.body, m.Error):  # a new server does not know us yet
                self._say_hello()
        else:
            self._acknowledged(message)

    def _acknowledged(self, message: m.Reply) -> None:
        if isinstance(message.body, m.Error) and message.body.code == "later":
            return  # not saved, or we are not known yet: it is sent again
        self.proxies.answered(message)
        for held in self.reports.acknowledged(message):
            self.holdings.drop(held)

    # --- orders -----------------------------------------------------------------------------

    def _order(self, body: m.OrderBody) -> None:
        match body:
            case m.Launch():
                self.applications.launch(body)
            case m.KillTree():
                self.applications.kill(body)
            case m.Vacate():
                self.departures.add(body)
            case m.SaveCopies():
                self.copies.save(body.job, body.instance, body.places, self.copies_of(body.job))
            case m.ForgetCopies():
                self.copies.forget(body.job, body.places, self.copies_of(body.job))
            case m.RunProxy():
                self.proxies.run(body)
            case m.ProxyEnded():
                self.proxies.told_end(body)
            case m.ReadLog():
                self.applications.read_log(body)
            case m.Retire():
                self.retired = True

    def is_over(self, job: int, instance: int) -> None:
        """No order to launch this instance counts any more, however late it comes."""
        self.over[job] = max(instance, self.over.pop(job, 0))
        if len(self.over) > OVER_MAX:
            del self.over[next(iter(self.over))]

    def knows_over(self, job: int, instance: int) -> bool:
        """Whether nothing of this instance may be started any more."""
        return instance <= self.over.get(job, 0)

    @property
    def owner(self) -> tree.Owner:
        """What tells a process of this agent from all others."""
        return tree.Owner(self.home.root, self.name)

    # --- what happens to processes ----------------------------------------------------------

    def _watch(self) -> None:
        self.holdings.reap()
        self._ending = False
        for held in list(self.holdings.trees.values()):
            code = held.exit_code()
            self._ending |= held.killed or code is not None
            if code is None or held.running():
                continue
            if held.is_proxy:
                self.proxies.ended(held, code)
            else:
                self.applications.ended(held, code)
        if self.ranks.missing:
            self.ranks.look()
        self.departures.look()

    def copies_of(self, job: int) -> Path:
        """Where copies of a job's data lie unless its owner gave a folder."""
        return self.home.job(job) / "copies"
