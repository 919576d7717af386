"""The agent's loop: orders come in, processes start and end, reports go out until acknowledged.

The agent owns the processes, not the server: they survive the server and, through their keepers,
the agent, too (holdings.py). The package's docstring lists the parts.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass, field

import zmq

from dq_client import __version__
from dq_client.base import messages as m
from dq_client.base.connection import Connection
from dq_client.base.errors import DQError
from dq_client.node.agent.allegiance import Allegiance
from dq_client.node.agent.applications import Applications
from dq_client.node.agent.background import BackgroundMeter
from dq_client.node.agent.beats import counted_from
from dq_client.node.agent.context import Context
from dq_client.node.agent.copies import CopyKeeper
from dq_client.node.agent.handover import Handover
from dq_client.node.agent.marks import Ranks
from dq_client.node.agent.notice import Notice
from dq_client.node.agent.own_ranks import OwnRanks
from dq_client.node.agent.proxies import Proxies
from dq_client.node.agent.reports import REPORT_AGAIN_S
from dq_client.node.agent.rsh_socket import RshSocket
from dq_client.node.agent.vacancies import Vacancies

log = logging.getLogger("dq.agent")

TURN_S = 0.05  # between looks at what cannot wake the loop
VACANCY_TURN_S = 0.005  # a retiring rank takes milliseconds, and its processor is wanted
LEAVING_BEAT_S = 0.2  # between its heartbeats then: the answer to one says that it may go
UNSENT = "unsent"


def is_later(message: m.Reply | m.Order) -> bool:
    """Whether it says no more than that somebody is there, perhaps a standby."""
    body = message.body
    return isinstance(body, m.Standing) or (isinstance(body, m.Error) and body.code == "later")


class WrongServer(DQError):
    """This server will never take this agent, for the reason it gave."""


@dataclass(slots=True, kw_only=True)
class Agent:
    """One agent for one or more nodes of this machine."""

    nodes: list[m.NodeInfo]
    context: Context
    applications: Applications
    vacancies: Vacancies
    proxies: Proxies
    ranks: Ranks
    own: OwnRanks
    copies: CopyKeeper
    handover: Handover
    allegiance: Allegiance
    rsh: RshSocket | None = None
    wake: socket.socket | None = None  # readable after a signal: a child may have ended
    heartbeat_s: float = 2.0  # period of heartbeats, until the server sets another
    each_beat: Callable[[], object] = field(default=lambda: None)
    background: BackgroundMeter | None = None  # None: it cannot be measured here
    phase: float = 1.0  # when in the period its heartbeats are sent; 1: as it is welcomed
    notice: Notice = field(default_factory=Notice)
    life: str = field(default_factory=lambda: os.urandom(8).hex())
    # Told to the server: here ranks can be taken in (dq_client/node/ranks/adoption.py).
    machine: str = ""
    session: int = 0  # what the last welcome said
    epoch: int = 0
    retired: bool = False
    _heard_s: float = 0.0  # when the server was last heard of
    dismissed: bool = False  # by the server: the cluster goes down
    _hello: str = ""  # id of a hello that is not answered yet
    _ending: bool = False  # a tree is being ended, or has ended and is being cleared
    _period_s: float = 2.0
    _last_beat: float = 0.0
    _welcomed: bool = False  # the next heartbeat is the first of its session
    _other_version: str = ""  # what the server said that it was last refused by
    _beat_ids: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        """Its name: one agent of a home has it."""
        return self.context.name

    # --- the loop ---------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until retired."""
        poller = zmq.Poller()
        self._poll(poller, self.context.connection)
        if self.rsh is not None:
            poller.register(self.rsh.listener.fileno(), zmq.POLLIN)
        if self.wake is not None:
            poller.register(self.wake.fileno(), zmq.POLLIN)
        self._say_hello()
        while not self.retired:
            self.own.register(poller)
            ready = dict(poller.poll(int(1000 * self._patience_s())))
            if self.wake is not None and self.wake.fileno() in ready:
                self.wake.recv(4096)
            self.proxies.serve(ready, poller)
            before = self.context.connection
            self.turn()
            if self.context.connection is not before:
                # It is closed, and pyzmq polls descriptor 0 for a socket that is.
                poller.unregister(before.socket)
                poller.unregister(before.monitor)
                self._poll(poller, self.context.connection)
        self.close()

    @staticmethod
    def _poll(poller: zmq.Poller, connection: Connection) -> None:
        poller.register(connection.socket, zmq.POLLIN)
        poller.register(connection.monitor, zmq.POLLIN)

    def leave(self, number: int = signal.SIGTERM) -> None:
        """Go once the jobs have left this agent's nodes, or at once: see Notice.

        Called by the handler of a signal: what it does is noticed in the next turn.
        """
        now = self.context.clock()
        if self.notice.by_s is None:
            self._heard_s = now
        if self.notice.give(number, now):
            self._last_beat = float("-inf")  # the server hears of it at once
        else:
            self.retired = True

    def _watch_leaving(self) -> None:
        """End if the server, which says when the nodes are empty, says nothing in time."""
        now, notice = self.context.clock(), self.notice
        if notice.by_s is None or self.retired:
            return
        if now >= notice.by_s:
            log.warning("told to go %g s ago: ending with what is here", notice.leave_within_s)
            self.retired = True
        elif self.handover.begun:
            pass  # it ends by itself
        elif not self.context.holdings.trees and now - self._heard_s > 2 * self._period_s:
            log.info("told to go: nothing is here, and no server answers")
            self.retired = True

    @property
    def _hurries(self) -> bool:
        """Whether it was told to go, and the server knows it."""
        return self.notice.by_s is not None and not self._hello

    def turn(self) -> None:
        """One turn of the loop."""
        self._check_connection()
        self._read_messages()
        self._watch()
        # The end of its last ranks may be told before the resize that they left by, and then counts
        # only when it is told again.
        again_s = LEAVING_BEAT_S if self._hurries else REPORT_AGAIN_S
        self.context.reports.send(self.context.clock(), self.context.send, again_s)
        self._heartbeat()
        self._choose_server()
        self._watch_leaving()
        if self.handover.begun:
            self.handover.look()
            self.retired |= not self.handover.under_way

    def _choose_server(self) -> None:
        """If there is a standby, and the server is silent: change over, or not."""
        allegiance = self.allegiance
        allegiance.look(self.context.clock(), self.name, [node.name for node in self.nodes])
        if allegiance.moves_to is None:
            return
        self.context.connection.close()
        self.context.connection, allegiance.moves_to = allegiance.moves_to, None
        self._beat_ids.clear()
        self._say_hello()

    def _patience_s(self) -> float:
        """How long the loop may sleep unless something wakes it.

        Many agents may share a machine with the ranks they started, so an agent with nothing to
        look after wakes for its heartbeats only.
        """
        if self.vacancies.retiring:
            return VACANCY_TURN_S
        holdings, leaving = self.context.holdings, bool(self.vacancies.waiting)
        # No signal tells of the end of a process that is not our child: adopted from an earlier
        # agent, or a rank that retires.
        unseen = self.wake is None or holdings.adopted or leaving
        if self.context.reports or (unseen and (holdings.trees or leaving)):
            return TURN_S
        if self._ending or self.ranks.missing or self.notice.by_s is not None:
            return TURN_S
        # A millisecond more, because the poller rounds down and would wake just before it is due.
        now = self.context.clock()
        beat_s = max(0.0, self._last_beat + self._period_s - now)
        return min(beat_s, self.allegiance.patience_s(now)) + 0.001

    def close(self) -> None:
        """End what is left and leave."""
        for held in self.context.holdings.trees.values():
            held.terminate()
        self.own.close()
        self.allegiance.close()
        if self.dismissed:
            self.context.send(m.AgentRetired())
        if self.rsh is not None:
            self.rsh.close()
        self.context.connection.close()

    def _read_messages(self) -> None:
        """All messages that are there. None of them may end the agent: its jobs depend on it."""
        while True:
            try:
                message = self.context.connection.receive()
                if message is None:
                    return
                self._handle(message)
                self._heartbeat()  # a hundred launches take longer than the server has patience
            except WrongServer:
                raise
            except Exception:
                log.exception("a message could not be carried out")

    def _check_connection(self) -> None:
        """A new connection leads to a server that may not know us: report at once."""
        connection = self.context.connection
        before = connection.handshakes
        try:
            connection.check_refused()
        except DQError as e:
            if not self.session:  # never let in: a wrong key stays wrong
                raise
            log.warning("%s", e)
        # The first connection needs none: `run` has said hello, and ZeroMQ keeps it until then.
        if before and connection.handshakes > before:
            self._say_hello()

    def _say_hello(self) -> None:
        if not self.nodes:  # it is about to end
            return
        hello = m.AgentHello(
            protocol=m.PROTOCOL,
            agent=self.name,
            nodes=self.nodes,
            holdings=self._holdings(),
            pid=os.getpid(),
            life=self.life,
            machine=self.machine,
            home=self.context.home.identity(),
            version=__version__,
        )
        self._hello = self.context.send(hello) or UNSENT
        self._expect(self.heartbeat_s)
        self._last_beat = self.context.clock()

    def _holdings(self) -> list[m.Holding]:
        return [
            m.Holding(
                job=r.job,
                instance=r.instance,
                first=not t.is_proxy,
                pid=r.pid,
                create_time=r.create_time,
                # Ranks may outlive their keeper for a moment: nothing else may start there.
                running=t.running() or (r.ranks and not t.sweep()),
                worlds=self.own.worlds(r.job, r.instance) if r.ranks else [],
            )
            for t in self.context.holdings.trees.values()
            for r in (t.record,)
        ]

    def _heartbeat(self) -> None:
        now = self.context.clock()
        pause_s = min(LEAVING_BEAT_S, self._period_s) if self._hurries else self._period_s
        if now - self._last_beat < pause_s:
            return
        if self._hello:  # no welcome yet: the server was away
            self._say_hello()
            return
        self._last_beat = counted_from(self.phase, now, self._period_s, first=self._welcomed)
        self._welcomed = False
        self.each_beat()
        self.ranks.look()
        beat = m.Heartbeat(
            session=self.session,
            holdings=self._holdings(),
            load=self._load(now),
            leaving_s=self.notice.left_s(now),
            leaving_why=self.notice.why,
            troubles=self.context.troubles.list(),
            promised=self.allegiance.promised_to(self.epoch),
            term=self.allegiance.kept.term,
            copies=self.copies.held(),
            usage=self.context.usage.look(now, self.context.holdings.trees),
        )
        self._beat_ids = {self.context.send(beat)}
        self.proxies.repeat_calls()

    def _expect(self, period_s: float) -> None:
        """Send heartbeats with this period, and expect their answers."""
        self._period_s = period_s
        self.allegiance.expect(period_s)

    def _load(self, now: float) -> float:
        """What processes outside DQ use; looked for while jobs are here."""
        if self.background is None:
            return 0.0
        trees = self.context.holdings.trees.values()
        if not trees:
            self.background.forget()
            return self.background.told
        # 0 is a keeper that has not claimed its job yet, and the parent of all processes.
        return self.background.look(now, [t.record.pid for t in trees if t.record.pid])

    def _handle(self, message: m.Reply | m.Order) -> None:
        self._heard_s = self.context.clock()
        if self.allegiance.obeys(self.epoch) and not is_later(message):
            self.allegiance.heard(self._heard_s)
        if isinstance(message, m.Order):
            # Orders of another session were under way when this agent was given up, or come from
            # an earlier server: what they want may not be wanted any more.
            if message.session == self.session and self.allegiance.obeys(self.epoch):
                self._carry_out(message.body)
        elif message.id == self._hello:
            if isinstance(message.body, m.Welcome):
                self._hello, self.session = "", message.body.session
                self.epoch = message.body.epoch
                self.allegiance.welcomed(self.epoch)  # or the heartbeat tells it to start again
                # A heartbeat at once: only what it says of jobs is relied upon (live/agents/).
                self._last_beat, self._welcomed = float("-inf"), True
                log.info("welcomed by the server, epoch %d", message.body.epoch)
            elif isinstance(message.body, m.Standing):
                self.allegiance.redirected(message.body)
            elif isinstance(message.body, m.Error) and message.body.code != "later":
                self._refused(message.body)
        elif message.id in self._beat_ids:
            if isinstance(message.body, m.Heard):
                self._expect(message.body.next_s)
            elif isinstance(message.body, m.Error):  # a new server does not know us yet
                self._say_hello()
        else:
            self._acknowledged(message)

    def _refused(self, why: m.Error) -> None:
        """End, unless jobs are here that a server of this agent's version will look after again."""
        if why.code != "version" or not self.session:
            raise WrongServer(why.text)
        if why.text != self._other_version:
            self._other_version = why.text
            log.warning("%s", why.text)
        self._hello = UNSENT  # it is said again with each heartbeat

    def _acknowledged(self, message: m.Reply) -> None:
        if is_later(message):
            return  # not saved, or we are not known yet: it is sent again
        self.proxies.answered(message)
        self.own.answered(message)
        self.handover.answered(message)
        for held in self.context.reports.acknowledged(message):
            if held.record.ranks:
                self.own.acknowledged(held)
            else:
                self.context.holdings.drop(held)

    # --- orders -----------------------------------------------------------------------------

    def _carry_out(self, body: m.OrderBody) -> None:
        match body:
            case m.Launch():
                self.copies.expect(body.job, body.env)
                self.applications.launch(body)
            case m.StartRanks():
                self.copies.expect(body.job, body.env)
                self.own.start(body)
            case m.Relayed():
                self.own.relayed(body)
            case m.KillTree():
                self.applications.kill(body)
            case m.Vacate():
                self.vacancies.add(body)
            case m.SaveCopies():
                self.copies.save(body.job, body.instance, body.places)
            case m.ForgetCopies():
                held = self.context.holdings.trees.values()
                here = any(tree.record.job == body.job and tree.running() for tree in held)
                self.copies.forget(body.job, body.places, here=here)
            case m.RunProxy():
                self.copies.expect(body.job, body.env)
                self.proxies.run(body)
            case m.ProxyEnded():
                self.proxies.ended_elsewhere(body)
            case m.Recognize():
                self.allegiance.recognize(body, self.epoch)
                self._last_beat = float("-inf")  # the server waits for the answer
            case m.ReadLog():
                self.applications.read_log(body)
            case m.Retire():
                self._retire(body.nodes)
            case _:  # tests/architecture compares the cases with the orders there are
                raise NotImplementedError(type(body).__name__)

    def _retire(self, names: list[str]) -> None:
        self.nodes = [node for node in self.nodes if names and node.name not in names]
        if self.nodes:
            return
        self.dismissed = not names
        if self.dismissed:
            self.copies.leave()
        if names:  # the cluster goes on, and may need the copies that this agent was to save
            self.copies.finish()
            self.handover.begin()
        self.retired = not self.handover.under_way

    # --- what happens to processes ----------------------------------------------------------

    def _watch(self) -> None:
        self.context.holdings.reap()
        self.own.look()
        self._ending = False
        for held in list(self.context.holdings.trees.values()):
            if held.record.ranks:
                self._ending |= held.killed
                continue
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
        self.vacancies.look()
