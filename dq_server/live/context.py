"""The desk: what the handlers of requests and orders may use of the server, and nothing more.

They see no socket, no journal and no turn. What they do to the state goes through `apply`; what
they say leaves through `reply` and `order`, and not before the turn is safe in the journal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from dq_client.base import messages as m
from dq_server.core.features.arrays import Array, array_of
from dq_server.core.model import actions as act
from dq_server.core.model import events as ev
from dq_server.core.model.errors import InvalidTransition, UnknownJob
from dq_server.core.model.jobs import Job
from dq_server.core.model.state import State
from dq_server.core.scheduler import Scheduler
from dq_server.live.access import Access
from dq_server.live.agents.job_nodes import JobNodes
from dq_server.live.agents.kept_output import KeptOutput
from dq_server.live.agents.rank_reports import RankReports
from dq_server.live.agents.registry import AgentLink, Agents
from dq_server.live.agents.silent_jobs import SilentJobs
from dq_server.live.standby.leader import Pairing
from dq_server.live.store.interface import Store
from dq_server.live.store.read_only import Stall
from dq_server.live.translate import ProcessorNames
from dq_server.live.views.feed import Feed

LOG_QUERIES_MAX = 1000


@dataclass(slots=True, kw_only=True)
class Desk:
    """See the module's docstring. The server (server.py) makes one and keeps its state current."""

    # --- what can be done ---------------------------------------------------------------------

    # Hand an event to the scheduler; SchedulerError or Stalled, and nothing has changed: refused.
    apply: Callable[[ev.Event], list[act.Action]]
    # To the connection that asked, by the request's id.
    reply: Callable[[bytes, str, m.ReplyBody], None]
    order: Callable[[AgentLink, m.OrderBody], None]
    stop: Callable[[bool], None]  # with the server's jobs, if true
    archive: Callable[[int], None]  # keep what queries say of a job that has ended
    now: Callable[[], float]  # the cluster's time (clock.py); never goes back
    monotonic: Callable[[], float]
    off_s: Callable[[], float]  # how far the system clock is ahead of `now`
    journal: Store
    feed: Feed  # what has changed
    stall: Stall  # true while nothing can be saved: `apply` refuses everything
    pairing: Pairing  # with a standby

    # --- what is known ------------------------------------------------------------------------

    access: Access
    agents: Agents
    epoch: int  # how often a server of this journal has started
    user: str  # whose server this is
    started_s: float  # monotonic
    address: str = ""  # known once the socket is bound
    draining: bool = False  # a stop waits for its jobs to end: no new ones
    # Agents that were told to end and have not confirmed it, by their connections.
    dismissed: dict[bytes, str] = field(default_factory=dict)
    kept_output: KeptOutput = field(default_factory=KeptOutput)
    log_queries: LogQueries = field(default_factory=lambda: LogQueries())
    # (job, processor) -> pid of the rank that is about to leave it. Not journaled: orders.vacate
    # does without when a server has died meanwhile.
    leaving: dict[tuple[int, int], int] = field(default_factory=dict)
    rank_reports: RankReports = field(default_factory=RankReports)
    silent: SilentJobs = field(default_factory=SilentJobs)
    # The state, and what is worked out from it: made again by `use` whenever the state is.
    scheduler: Scheduler = field(init=False)
    places: ProcessorNames = field(init=False)
    job_nodes: JobNodes = field(init=False)

    def use(self, scheduler: Scheduler) -> None:
        """Work on this state from now on."""
        self.scheduler = scheduler
        self.job_nodes = JobNodes(scheduler.state)
        self.places = ProcessorNames(scheduler.state.processors)
        for link in self.agents.by_name.values():
            self.places.learn(link.nodes)

    @property
    def state(self) -> State:
        """The scheduler's state: to be read; changes are events."""
        return self.scheduler.state

    def array(self, asked: int) -> Array | None:
        """The array a user names, 0 for the last submission; None if that is no array."""
        state = self.state
        if asked == 0 and state.jobs:
            element = state.jobs[max(state.jobs)].spec.element
            asked = element.array if element is not None else 0
        return array_of(state, asked)

    def job(self, job_id: int) -> Job:
        """The job a user names, 0 for the last one submitted; UnknownJob if there is none."""
        jobs = self.state.jobs
        array = self.array(job_id)
        if array is not None:
            ids = f"{array.jobs[0]} to {array.jobs[-1]}"
            raise InvalidTransition(f"{array.id} is an array: name one of its jobs, {ids}")
        if job_id == 0:
            if not jobs:
                raise UnknownJob("no job has been submitted yet")
            job_id = max(jobs)
        return self.state.job(job_id)


@dataclass(frozen=True, slots=True)
class LogQuery:
    """A user's question for a job's output that an agent has to answer."""

    identity: bytes  # of the user's connection
    request_id: str
    agent: str  # who was asked
    elsewhere: tuple[str, ...] = ()  # nodes of other agents with ranks of the job
    over: bool = True  # the job has ended, or one node alone is asked for: its end is the end


class LogQueries:
    """Questions for output that agents have not answered yet."""

    def __init__(self) -> None:
        self._open: dict[int, LogQuery] = {}
        self._tickets = count(1)

    def add(self, query: LogQuery) -> int:
        """The ticket by which the agent's answer will be known."""
        ticket = next(self._tickets)
        self._open[ticket] = query
        if len(self._open) > LOG_QUERIES_MAX:  # asked of agents that went away
            del self._open[min(self._open)]
        return ticket

    def pop(self, ticket: int, agent: str) -> LogQuery | None:
        """The query that this agent answers; None if it was not asked."""
        query = self._open.get(ticket)
        if query is None or query.agent != agent:
            return None
        return self._open.pop(ticket)
