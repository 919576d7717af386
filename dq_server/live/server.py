"""The server's logic: what a request changes, what leaves, and when it may leave.

A turn takes in messages (`receive`) and time (`tick`) and hands events to the scheduler;
`finish_turn` commits them to the journal in one transaction and only then sends what follows:
replies and orders. If the commit fails nothing is sent but refusals, and the state is rebuilt from
what the journal holds. While the disk cannot be written nothing happens at all (read_only.py).
What requests do is in requests/, what the scheduler's actions bring about in orders/; both work
through the desk (context.py). Sockets and threads are loop.py's. Journal, clock and outlet are
handed in, so that the whole server also runs in a simulated world (tests/dst).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from dq_client.base import codec
from dq_client.base import messages as m
from dq_client.base.errors import DQError
from dq_client.base.home import Home
from dq_server.core.model import actions as act
from dq_server.core.model import events as ev
from dq_server.core.model.config import SchedulerConfig
from dq_server.core.scheduler import Scheduler
from dq_server.live import access
from dq_server.live.agents.heartbeats import Heartbeats
from dq_server.live.agents.kept_output import KeptOutput
from dq_server.live.agents.registry import AgentLink, Agents
from dq_server.live.audit import Audit, Origin
from dq_server.live.context import Desk
from dq_server.live.engines.link import EngineLink
from dq_server.live.orders import dispatch, leaving_nodes
from dq_server.live.orders.reconciliation import join_due
from dq_server.live.orders.startup import begin, resume
from dq_server.live.rate_limited_log import RateLimitedLog
from dq_server.live.requests import answer
from dq_server.live.requests.agents import refused_version
from dq_server.live.requests.why import whole
from dq_server.live.standby.leader import Pairing
from dq_server.live.standby.leader_parts import Surroundings, What, what_is
from dq_server.live.store.home_files import HomeFiles
from dq_server.live.store.interface import Store
from dq_server.live.store.journal import JournalError, event_as_json
from dq_server.live.store.read_only import Stall
from dq_server.live.store.recovery import recovered
from dq_server.live.store.snapshot_policy import SnapshotPolicy
from dq_server.live.views import tables
from dq_server.live.views.feed import Feed, FeedSources

log = logging.getLogger("dq.server")
complaints = RateLimitedLog(log)

DISMISSED_WITHIN_S = 3.0  # agents that have not confirmed their end by then are out of reach
RETURN_S = 6.0  # agents of an earlier server are waited for at least so long
GOES_DOWN = "the server is going down"

# They change nothing; a heartbeat's effects come with orders.
QUESTIONS = access.MAY[m.VIEWER] | {m.Heartbeat}

Outlet = Callable[[bytes, bytes], None]  # identity of a connection, frame


class Server:
    """See the module's docstring. One turn: any `receive`, perhaps `tick`, then `finish_turn`."""

    def __init__(
        self,
        journal: Store,
        admitted: access.Access,
        outlet: Outlet,
        config: SchedulerConfig | None = None,
        *,
        user: str = "",
        heartbeat_s: float = 2.0,
        lost_after_s: float | None = None,
        home: Home | None = None,
        expected: Sequence[str] = (),
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        off_s: Callable[[], float] = lambda: 0.0,
        engine: EngineLink | None = None,
        reads: bool = False,
        audit: Audit | None = None,
        least_epoch: int = 0,
        options: tuple[str, ...] = (),
    ) -> None:
        """Make the state that the journal leads to, and let it go on from there.

        clock, off_s  the cluster's time, and how far the system clock is ahead of it (clock.py)
        reads         it shows what the journal holds, and nothing happens any more (offline.py)
        least_epoch   agents obey no server of an earlier one (leader.py)
        options       of the command line, for a standby that takes this server's place
        """
        self.engine, self._audit, self._outlet = engine, audit, outlet
        self.journal, self.access = journal, admitted
        self._config = config or SchedulerConfig()
        self._begun = self._begun_is_saved = self.stopping = False
        self._monotonic, self._clock = monotonic, clock
        self._now = 0.0  # what `now` returned last
        # When the scheduler was last told something: only what is due later is a time to wake it.
        self._applied_s = 0.0
        self._ahead_s = 0.0  # how far we are ahead of a clock that is behind the journal
        self._seq = 0  # number of the last event
        self._snapshots = SnapshotPolicy(journal, monotonic)
        self.epoch = journal.next_epoch(least_epoch)
        self.agents = Agents(self.epoch, expected, Heartbeats(heartbeat_s, lost_after_s))
        self._return_s = max(self.agents.heartbeats.patience_s(heartbeat_s), RETURN_S)
        self._waits_from_s = self._ticked_s = started_s = monotonic()
        self._away_from_s = heartbeat_s / 2  # ticks come more often
        self._dismissed_s: float | None = None  # monotonic; when the agents were told to end
        self.begin_again = 0  # it stops, and shall start again with at least this epoch
        self._outbox: list[tuple[bytes, bytes, What]] = []
        self._question = False  # what is answered now changes nothing
        self.outbox_bytes = 0  # of answers; a turn should end when they are many
        self._requests: list[tuple[bytes, str]] = []  # of this turn
        self._unsaved: JournalError | None = None  # why this turn cannot be saved
        self.pairing = Pairing(
            Surroundings(
                journal=journal,
                epoch=self.epoch,
                agents=self.agents,
                monotonic=monotonic,
                off_s=off_s,
                send=lambda to, frame: self._outlet(to, frame),
                nodes=lambda: [n.name for n in self.desk.state.processors.nodes.values() if n.up],
                files=(lambda: ("", {})) if home is None else HomeFiles(home),
                options=options,
            )
        )
        self.stall = Stall(journal, self.rebuild, monotonic, lambda: self.pairing.bar)
        self.feed = Feed(
            FeedSources(
                entries=journal.entries,
                monotonic=monotonic,
                epoch=self.epoch,
                now=self.now,
                whole=lambda job, after_s: whole(self.desk, job, after_s),
            )
        )
        self.desk = Desk(
            feed=self.feed,
            apply=self.apply,
            reply=self.reply,
            order=self.order,
            stop=self.stop,
            archive=self._archive,
            now=self.now,
            monotonic=monotonic,
            journal=journal,
            off_s=off_s,
            access=admitted,
            agents=self.agents,
            epoch=self.epoch,
            user=user,
            started_s=started_s,
            kept_output=KeptOutput(home),
            stall=self.stall,
            pairing=self.pairing,
        )
        self.rebuild()
        if reads:
            return
        # No later version shall have to handle the events of an older one again.
        self.take_snapshot()
        self._begin()
        resume(self.desk)
        self.finish_turn()
        self.pairing.begin(self._seq)

    @property
    def scheduler(self) -> Scheduler:
        """The scheduler with its state, as it is now: another one after `rebuild`."""
        return self.desk.scheduler

    # --- state ------------------------------------------------------------------------------

    def rebuild(self) -> None:
        """Make the state that the journal leads to: snapshot, then the events after it."""
        self._snapshots.forget()
        found = recovered(self.journal)
        self._now, self._applied_s = max(self._now, found.last_s), found.last_s
        self._snapshots.kept, self._seq = found.kept, found.seq
        self.desk.use(found.scheduler)
        self.feed.restart(self._seq)
        self._begun = self._begun_is_saved
        # Before any connection is looked at: a running job whose key is unknown is turned away.
        for job in self.scheduler.state.active.values():
            self.access.admit_job(job.id, job.instance)
        log.info("state rebuilt from a snapshot of event %d, at event %d", found.kept, found.seq)

    def idle(self) -> bool:
        """Whether no job runs or waits, so that nobody would be ended by a leap of the time."""
        # All jobs, not those that are active: one that restarts is neither active nor queued.
        return all(job.end_s is not None for job in self.scheduler.state.jobs.values())

    def take_snapshot(self) -> None:
        """Take a snapshot if anything happened since the last one; between turns only."""
        self._snapshots.take(self._seq, self.scheduler, self._now)

    def now(self) -> float:
        """The cluster's time (clock.py), never less than what it was, or what the journal says.

        It goes on from there: otherwise no walltime would end until the clock is where it was.
        """
        now = self._clock() + self._ahead_s
        if now < self._now:
            self._ahead_s += self._now - now
            now = self._now
        self._now = now
        return now

    def apply(self, event: ev.Event) -> list[act.Action]:
        """Hand an event to the scheduler, journal it, carry out what follows.

        SchedulerError: the scheduler does not accept it. Stalled: nothing can be saved at present.
        Nothing has changed then.
        """
        if self.stall:
            self.stall.check()
            self.catch_up()
        self._begin()
        now, body = self.now(), event_as_json(event)
        actions = self.scheduler.handle(event, now)
        self._applied_s = now
        try:
            self.journal.append(now, event, body, actions)
        except JournalError as e:
            self._unsaved = self._unsaved or e  # this turn will be refused as a whole
        self._seq += 1
        if self.feed.note(self._seq, now, event, actions):
            self.desk.silent.note(self.scheduler, event, actions, now)
        for action in actions:
            dispatch.carry_out(self.desk, action)
        return actions

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            begin(self.desk, self._config)

    def _archive(self, job_id: int) -> None:
        """Keep what queries say of an ended job: the scheduler forgets it (keep_ended)."""
        self.feed.usage.over(job_id)
        if (job := self.scheduler.state.jobs.get(job_id)) is None:  # keep_ended = 0
            return
        view = tables.archive_view(self.scheduler, job, self.feed.usage, self._now)
        try:
            self.journal.archive(job_id, view)
        except JournalError as e:
            self._unsaved = self._unsaved or e

    # --- what is sent ------------------------------------------------------------------------

    def order(self, link: AgentLink, body: m.OrderBody) -> None:
        """Send an order once the journal is safe."""
        self._outbox.append((link.identity, link.order(body), "other"))

    def reply(self, identity: bytes, request_id: str, body: m.ReplyBody) -> None:
        """Send a reply once the journal is safe."""
        try:
            frame = codec.encode(m.Reply(request_id, body))
        except DQError as e:
            frame = codec.encode(m.Reply(request_id, m.Error("refused", f"the answer: {e}")))
        if self._audit is not None:
            self._audit.answered(identity, request_id, body)
        self._outbox.append((identity, frame, what_is(body, question=self._question)))
        self.outbox_bytes += len(frame)

    # --- a turn -----------------------------------------------------------------------------

    def wait_s(self, longest_s: float) -> float:
        """How long the next turn may wait for messages."""
        if self._dismissed_s is not None and not self.desk.dismissed:
            return 0.0  # nothing is waited for any more
        longest_s = self.feed.wait_s(longest_s)
        deadline = self.scheduler.next_wakeup(self._applied_s)
        return longest_s if deadline is None else min(longest_s, max(0.0, deadline - self.now()))

    def receive(
        self,
        identity: bytes,
        principal: access.Principal,
        frame: bytes,
        origin: Origin = Origin(),  # noqa: B008 - frozen
    ) -> None:
        """Handle a message; a malformed one gets an error if at least its id can be read."""
        try:
            request = codec.decode_request(frame)
        except codec.MalformedMessage as e:
            error = refused_version(self.desk, principal, frame)
            if error is None:
                error = m.Error("usage", f"malformed: {str(e)[:200]}")
                complaints.warning("message from %s: %s", principal.role, error.text)
            if (request_id := codec.request_id(frame)) is not None:
                self.reply(identity, request_id, error)
            return
        # Noted before it is carried out: if the turn cannot be saved, this request is refused, too.
        self._requests.append((identity, request.id))
        if self._audit is not None:
            self._audit.asked(identity, principal, origin, request, self.scheduler.state.jobs)
        if self.stall.blind:
            self.reply(identity, request.id, m.Error("later", self.stall.text))
            return
        if type(request.body) not in access.MAY[principal.role]:
            text = f"a key of role {principal.role} may not {type(request.body).__name__}"
            self.reply(identity, request.id, m.Error("refused", text))
            return
        if refusal := self.pairing.refusal(request.body, self.scheduler.state.by_request):
            self.reply(identity, request.id, m.Error("later", refusal))
            return
        self._question = type(request.body) in QUESTIONS
        try:
            body = answer(self.desk, identity, principal, request)
        except Exception:
            # A bug of ours must not take the jobs' server down, nor leave half a change behind,
            # nor spoil the turn for others: only what the journal took in of it counts.
            log.exception("%s by %s", type(request.body).__name__, principal.role)
            self.rebuild()
            body = m.Error("error", "internal error: see the server's log")
        if body is not None:
            self.reply(identity, request.id, body)
        self._question = False

    def tick(self) -> None:
        """What is due by time alone: time-outs, lost agents, nodes that waited to join."""
        now = self._monotonic()
        self._extend_patience(now)  # first: who seemed silent below may only have waited for us
        if self.pairing.outbid:
            self.stopping, self.begin_again = True, self.pairing.promised + 1
        if not self.stall.over():
            # An agent that was killed cannot come back without a disk, and a blind server hears of
            # nobody: their time begins when the stall is over.
            self.agents.forgive(now, until_s=now)
            self._waits_from_s = now
            return  # what is due waits: a job whose end cannot be saved must not be killed
        if self.engine is not None:
            self.engine.take_in(self.desk)
        self.catch_up()
        for link, limit_s in self.agents.silent(now):
            for node in self.agents.forget(link):
                self.lose(node, f"no heartbeat for {limit_s:g} s")
        # Nodes that the journal says are up, and whose agent has not reported to this server.
        if now - self._waits_from_s > self._return_s:
            for known in self.scheduler.state.processors.nodes.values():
                if known.name not in self.agents.by_node:
                    why = self.agents.why_away(known.name)
                    self.lose(known.name, why or "its agent has not come back")
        self._begin()
        join_due(self.desk)
        resume(self.desk)
        if self.desk.draining and not self.scheduler.state.active:
            self._dismiss_agents(now)

    def catch_up(self) -> None:
        """Let happen what is due. First after a time without events: only what comes is a deadline,
        and one that an event has overtaken would be missed. It waits while nothing can be saved."""
        if not self.stall.over():
            return
        deadline = self.scheduler.next_wakeup(self._applied_s)
        if deadline is not None and deadline <= self.now():
            self.apply(ev.Tick())

    def _dismiss_agents(self, now: float) -> None:
        """Order the agents to end; stop when all have said that they do, or the time is up."""
        if self._dismissed_s is None:
            self._dismissed_s = now
            for link in list(self.agents.by_name.values()):
                self.desk.dismissed[link.identity] = link.name
                self.order(link, m.Retire())
                for node in self.agents.forget(link):  # the next server does not wait for it
                    self.lose(node, "its agent was stopped with the cluster")
                    leaving_nodes.leave_with_cluster(self.desk, node)
            if self.engine is not None:
                self.engine.dismiss(self.desk)
        if not self.desk.dismissed or now - self._dismissed_s > DISMISSED_WITHIN_S:
            self.stopping = True

    def unconfirmed(self) -> list[str] | None:
        """Agents that were told to end and did not say that they do; None: none was told."""
        return None if self._dismissed_s is None else sorted(self.desk.dismissed.values())

    def _extend_patience(self, now: float) -> None:
        """Do not count it as silence of agents if this server did not run for a while.

        It was stopped or starved, or a disk hung; what agents sent meanwhile is still to be read.
        """
        away_s, self._ticked_s = now - self._ticked_s, now
        if away_s > self._away_from_s:
            log.warning("the server was away for %.1f s", away_s)
            self.agents.forgive(away_s)
            self._waits_from_s += away_s

    def lose(self, node: str, why: str) -> None:
        """A node is lost, if it was there."""
        self.agents.join_order.forget(node)
        known = self.scheduler.state.processors.nodes.get(node)
        if known is not None and known.up:
            log.warning("node %s is lost: %s", node, why)
            self.apply(ev.NodeLost(node, why))

    def finish_turn(self) -> None:
        """Commit, then send: nothing is sent that follows from an event that could be lost."""
        saved = False
        try:
            for event in [] if self.stall else self.feed.usage.settle():
                self.apply(event)
            if self._unsaved is not None:
                raise self._unsaved
            self.pairing.before_commit()
            self.journal.commit()
        except JournalError as e:
            self._refuse_turn(e)
        else:
            saved = True
            self.feed.usage.saved(self.scheduler.state.jobs)
            self._begun_is_saved |= self._begun
            if self.engine is not None:
                self.engine.tell(self.scheduler.state)
            self.feed.answer_waiting(self.scheduler.state, self.desk.places, self.reply)
            self._outbox += self.desk.silent.rings()
        if self._audit is not None:
            self._audit.write()
        self.pairing.committed(self._seq, saved=saved)
        for to_whom in self._outbox:
            self.pairing.leave(*to_whom)
        self._outbox.clear()
        self._requests.clear()
        self.outbox_bytes = 0
        self.pairing.look()
        if not self.stall:
            self._snapshots.take_if_due(self._seq, self.scheduler, self._now)

    def _refuse_turn(self, why: JournalError) -> None:
        """The batch could not be saved: refuse its requests and forget what they did."""
        self._unsaved = None
        self._outbox.clear()  # replies and orders that follow from what is not saved
        self.stall.begin(why)
        for identity, request_id in self._requests:
            text = self.stall.text or f"not saved: {why}"
            self.reply(identity, request_id, m.Error("later", text))

    def stop(self, force: bool) -> None:
        """Leave once no job is active; `force` kills them. Queued jobs wait for the next server."""
        self.stall.check()  # before anything is changed
        self.desk.draining = True
        self.apply(ev.GrantsPaused(True, GOES_DOWN))
        if force:
            for job in list(self.scheduler.state.active.values()):
                self.apply(ev.KillRequested(job.id, self.desk.user))
