"""The server process: one loop, one socket, the only clock.

A turn of the loop takes in all messages that are there, hands the events to the scheduler,
commits them to the journal in one go, and only then sends what follows: replies and orders. If the
commit fails nothing is sent but refusals, and the state is rebuilt from what the journal holds.
"""

from __future__ import annotations

import itertools
import logging
import os
import pwd
import time
from collections.abc import Callable

import zmq

from dq_client import codec
from dq_client import messages as m
from dq_client.home import Home
from dq_server.core import actions as act
from dq_server.core import events as ev
from dq_server.core.config import SchedulerConfig
from dq_server.core.errors import SchedulerError
from dq_server.core.jobs import Job
from dq_server.core.scheduler import Scheduler
from dq_server.live import access, translate
from dq_server.live.agents import AgentLink, Agents
from dq_server.live.journal import Journal, JournalError
from dq_server.live.requests import answer

log = logging.getLogger("dq.server")

BATCH_MAX = 500
TICK_S = 0.25
LOG_TICKETS_MAX = 1000


class Server:
    """See the module's docstring. `run` blocks until `stop` was called."""

    def __init__(
        self,
        home: Home,
        address: str = "tcp://127.0.0.1:*",
        config: SchedulerConfig | None = None,
        *,
        heartbeat_s: float = 2.0,
        heartbeats_missed: int = 3,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.home = home
        self.config = config or SchedulerConfig()
        self.lost_after_s = heartbeat_s * heartbeats_missed
        self.user = pwd.getpwuid(os.getuid()).pw_name
        self._clock, self._now = clock, 0.0
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.access = access.Access(home.keys)
        self._authenticator = access.secure(self._context, self.access)
        self.router = access.bind_router(self._context, self.access, address)
        self.address = self.router.getsockopt_string(zmq.LAST_ENDPOINT)
        self.journal = Journal(home.journal)
        self.epoch = self.journal.next_epoch()
        self.agents = Agents()
        self.started_s = time.monotonic()
        self.stopping = False
        self.drain = False  # a stop waits for its jobs to end
        self.log_tickets: dict[int, tuple[bytes, str]] = {}
        self.leaving: dict[tuple[int, int], int] = {}  # (job, processor) -> pid about to leave
        self._outbox: list[tuple[bytes, bytes]] = []
        self._requests: list[tuple[bytes, str]] = []  # of this turn
        self._unsaved: JournalError | None = None
        self._tickets = itertools.count(1)
        self.rebuild()
        if self.scheduler.config != self.config:
            self.apply(ev.Configured(self.config))
        self.journal.commit()

    # --- state ------------------------------------------------------------------------------

    def rebuild(self) -> None:
        """Make the state that the journal's events lead to."""
        scheduler = Scheduler()
        count = 0
        for entry in self.journal.entries():
            scheduler.handle(entry.event, entry.time)
            self._now = max(self._now, entry.time)
            count += 1
        scheduler.state.check()
        self.scheduler = scheduler
        self.places = translate.Places(scheduler.state.processors)
        for link in self.agents.by_name.values():
            self.places.learn(link.nodes)
        for job in scheduler.state.active.values():
            self.access.admit_job(job.id, job.instance)
        log.info("state rebuilt from %d events", count)

    def now(self) -> float:
        """Seconds since the epoch; never goes back, whatever the system clock does."""
        self._now = max(self._now, self._clock())
        return self._now

    def apply(self, event: ev.Event) -> list[act.Action]:
        """Hand an event to the scheduler, journal it, carry out what follows.

        Raises a SchedulerError, and nothing has changed, if the scheduler does not accept it.
        """
        now = self.now()
        actions = self.scheduler.handle(event, now)
        try:
            self.journal.append(now, event, actions)
        except JournalError as e:
            self._unsaved = e  # this turn will be refused as a whole
        for action in actions:
            self._carry_out(action)
        return actions

    def _carry_out(self, action: act.Action) -> None:
        match action:
            case act.StartJob():
                self.launch(self.scheduler.job(action.job))
            case act.KillJob():
                for link in self._agents_of(action.processors):
                    self.order(link, m.KillTree(action.job, action.instance))
            case act.VacateProcessors():
                self.vacate(action.job, action.processors)
            case act.JobFinished():
                job = self.scheduler.state.jobs.get(action.job)
                log.info("job %d %s: %s", action.job, action.state, action.reason.text)
                if job is not None:
                    self.access.dismiss_job(job.id, job.instance)
            case act.WarnJob():
                log.warning("job %d: %s", action.job, action.reason.text)
            case act.JobAccepted() | act.AnswerRemap():
                pass  # the request that caused it answers

    # --- orders -----------------------------------------------------------------------------

    def launch(self, job: Job) -> None:
        """Order the agent of the job's first node to start the application."""
        pair = self.access.admit_job(job.id, job.instance)
        places = self.places.of(tuple(job.allocation))
        link = self.agents.by_node.get(places[0].node)
        if link is None:
            return  # reconcile launches it when the agent reports
        env = {
            **job.spec.env,
            "DQ_SERVER": self.address,
            "DQ_SERVER_KEY": self.access.server.public,
            "DQ_JOB_ID": str(job.id),
            "DQ_JOB_INSTANCE": str(job.instance),
            "DQ_JOB_KEY": pair.secret,
        }
        argv, cwd = list(job.spec.argv), job.spec.cwd
        self.order(link, m.Launch(job.id, job.instance, argv, cwd, env, places))

    def vacate(self, job_id: int, processors: tuple[int, ...]) -> None:
        """Ask the agents to confirm that released processors are empty."""
        state = self.scheduler.state
        job = state.jobs.get(job_id)
        goes_on = job_id in state.active
        for link in self._agents_of(processors):
            names = {n.name for n in link.nodes}
            mine = [p for p in processors if state.processors.node_of[p] in names]
            pids = [self.leaving.get((job_id, p), 0) for p in mine]
            if goes_on and not all(pids):
                # A part of a running job whose pids were lost with the last server: they have
                # left long ago, a retiring rank takes milliseconds.
                self.apply(ev.ProcessorsVacated(job_id, tuple(mine)))
                continue
            instance = job.instance if job is not None else 0
            self.order(link, m.Vacate(job_id, instance, mine, pids if goes_on else []))

    def _agents_of(self, processors: tuple[int, ...]) -> list[AgentLink]:
        node_of = self.scheduler.state.processors.node_of
        links: dict[str, AgentLink] = {}
        for p in processors:
            link = self.agents.by_node.get(node_of[p])
            if link is not None:
                links[link.name] = link
        return list(links.values())

    def read_log(self, link: AgentLink, asked: tuple[bytes, str], body: m.LogsQuery) -> None:
        """Order a piece of output; the agent's answer is passed on to who asked."""
        ticket = next(self._tickets)
        self.log_tickets[ticket] = asked
        if len(self.log_tickets) > LOG_TICKETS_MAX:  # asked of agents that went away
            del self.log_tickets[min(self.log_tickets)]
        self.order(link, m.ReadLog(ticket, body.job, body.stream, body.offset))

    def order(self, link: AgentLink, body: m.OrderBody) -> None:
        """Send an order once the journal is safe."""
        self._outbox.append((link.identity, codec.encode(m.Order(self.epoch, body))))

    def reply(self, identity: bytes, request_id: str, body: m.ReplyBody) -> None:
        """Send a reply once the journal is safe."""
        self._outbox.append((identity, codec.encode(m.Reply(request_id, body))))

    # --- the loop ---------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until stopped."""
        next_tick = 0.0
        while not self.stopping:
            self.router.poll(int(1000 * self._wait_s()))
            self._take_in()
            if time.monotonic() >= next_tick:
                next_tick = time.monotonic() + TICK_S
                self._tick()
            self._let_out()
        self.close()

    def _wait_s(self) -> float:
        deadline = self.scheduler.next_wakeup(self._now)
        return TICK_S if deadline is None else min(TICK_S, max(0.0, deadline - self.now()))

    def _take_in(self) -> None:
        for _ in range(BATCH_MAX):
            try:
                frames = self.router.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            if len(frames) != 2:
                continue  # nothing of ours looks like this
            try:
                public = str(frames[1].get("User-Id"))
            except zmq.ZMQError:
                continue
            principal = self.access.who(public)
            if principal is not None:
                self._one(frames[0].bytes, principal, frames[1].bytes)

    def _one(self, identity: bytes, principal: access.Principal, frame: bytes) -> None:
        try:
            request = codec.decode_request(frame)
        except codec.MalformedMessage as e:
            log.warning("malformed message from %s: %s", principal.role, e)
            return
        self._requests.append((identity, request.id))
        if type(request.body) not in access.MAY[principal.role]:
            text = f"a key of role {principal.role} may not {type(request.body).__name__}"
            self.reply(identity, request.id, m.Error("refused", text))
            return
        try:
            body = answer(self, identity, principal, request)
        except Exception as e:
            # A bug of ours must not take the jobs' server down, nor leave half a change behind:
            # the turn is refused and the state made anew from the journal.
            log.exception("%s by %s", type(request.body).__name__, principal.role)
            self._unsaved = self._unsaved or JournalError(f"internal error, see the log: {e!r}")
            return
        if body is not None:
            self.reply(identity, request.id, body)

    def _tick(self) -> None:
        now = time.monotonic()
        deadline = self.scheduler.next_wakeup(self._now)
        if deadline is not None and deadline <= self.now():
            self.apply(ev.Tick())
        for link in self.agents.silent(now, self.lost_after_s):
            self.agents.forget(link)
            for node in link.nodes:
                self.lose(node.name, f"no heartbeat for {self.lost_after_s:g} s")
        if now - self.started_s > self.lost_after_s:
            for known in self.scheduler.state.processors.nodes.values():
                if known.up and known.name not in self.agents.by_node:
                    self.lose(known.name, "its agent has not come back")
        if self.drain and not self.scheduler.state.active:
            for link in self.agents.by_name.values():
                self.order(link, m.Retire())
            self.stopping = True

    def lose(self, node: str, why: str) -> None:
        """A node is lost."""
        log.warning("node %s is lost: %s", node, why)
        self.apply(ev.NodeLost(node, why))

    def _let_out(self) -> None:
        """Commit, then send. Nothing leaves that is not safe."""
        try:
            if self._unsaved is not None:
                raise self._unsaved
            self.journal.commit()
        except JournalError as e:
            log.error("%s", e)  # noqa: TRY400 - the line says it all
            self._refuse_turn(str(e))
        for identity, frame in self._outbox:
            try:
                self.router.send_multipart([identity, frame], zmq.NOBLOCK)
            except zmq.ZMQError as e:  # gone, or its queue is full: it will ask again
                log.debug("a message could not be sent: %s", e)
        self._outbox.clear()
        self._requests.clear()

    def _refuse_turn(self, why: str) -> None:
        """The batch could not be saved: refuse its requests and forget what they did."""
        self._unsaved = None
        self.journal.rollback()
        self._outbox.clear()
        for identity, request_id in self._requests:
            self.reply(identity, request_id, m.Error("later", f"not saved: {why}"))
        self.rebuild()

    def stop(self, *, force: bool) -> None:
        """Leave once no job is active; `force` kills them."""
        if force:
            for job in list(self.scheduler.state.active.values()):
                self.apply(ev.KillRequested(job.id, self.user))
        self.drain = True

    def close(self) -> None:
        """Give everything back."""
        self._let_out()
        self.router.close()
        self._authenticator.stop()
        self._context.term()
        self.journal.close()


__all__ = ["SchedulerError", "Server"]
