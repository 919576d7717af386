"""The life of a cluster, drawn by a seed: jobs of all kinds and whatever happens to them.

Tests say what matters in cases that somebody thought of. A drawn life has the others: features that
meet each other, in an order that nobody chose. What is not legal is refused, and that counts, too.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from dq_server.core.explain import explain
from dq_server.core.feature import Feature
from dq_server.core.features import FEATURES
from dq_server.core.features.spawning import Spawns
from dq_server.core.model import events as ev
from dq_server.core.model.actions import Action, ArrayAccepted, VacateProcessors
from dq_server.core.model.errors import InvariantViolation, SchedulerError
from dq_server.core.model.jobs import ACTIVE, Job, JobKind, JobSpec, JobState
from dq_server.core.model.needs import Needs
from dq_server.core.model.pool import TicketState
from dq_server.core.model.requests import Asked
from dq_server.core.model.sizes import Scalability, configuration
from dq_server.core.model.spec import Protection
from tests.core.drawn_settings import drawn_pool, drawn_settings
from tests.core.pool_cluster import PoolCluster

GIB = 1 << 30
USERS = ("ada", "bob", "cleo")
CHAINS: tuple[tuple[int | str, ...], ...] = (
    (1, 2, 4, 8),
    (1, 2, 3, 4, 5, 6),
    (1, 2, "1x4", "2x2", "4x1", 6),
    (2, 4, 6, 9),
    (1, 3),
)
PROFILES = (((10, 1), (20, 3), (10, 2)), ((5, 2), (30, 4)), ((40, 1), (10, 4), (20, 1)))
RIGID_EXTRAS: tuple[dict[str, Any], ...] = ({}, {}, {"label": True}, {"input": "/in"})


class Life(PoolCluster):
    """A cluster and what `happens` to it, an event after the other."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(f"life {seed}")
        self.curves: dict[int, tuple[float, float, float]] = {}  # of an iteration's time, by job
        self.leaving: list[VacateProcessors] = []  # not vacated yet
        self.arrays: list[int] = []
        self.last_ticket: dict[tuple[int, int], int] = {}  # by job and start: the last ticket
        # Each life has some things often and others never.
        self.tastes: dict[str, float] = {}
        self.weights = [weight * self.rng.choice((0.3, 1.0, 3.0)) for weight in ODDS.values()]
        super().__init__(config=drawn_settings(self.rng), **drawn_pool(self.rng))
        for n in range(self.rng.randint(2, 4)):
            self.node(f"n{n + 1:02}")

    # --- helpers -----------------------------------------------------------------------------

    def do(self, event: ev.Event, *, vacate: bool = True) -> list[Action]:
        """Some processors take their time to be vacated."""
        vacate = vacate and self.rng.random() < 0.7
        actions = super().do(event, vacate=vacate)
        if not vacate:
            self.leaving += [a for a in actions if isinstance(a, VacateProcessors)]
        return actions

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def likes(self, what: str) -> bool:
        if what not in self.tastes:
            self.tastes[what] = self.rng.choice((0.0, 0.1, 0.2, 0.5))
        return self.chance(self.tastes[what])

    def one(self, *states: JobState) -> Job:
        """A job in one of these states, or active; IndexError if there is none."""
        wanted = states or ACTIVE
        return self.rng.choice([j for j in self.scheduler.state.jobs.values() if j.state in wanted])

    def any_node(self) -> str:
        return self.rng.choice(list(self.scheduler.state.processors.nodes))

    def ticket_of(self, job: Job) -> int:
        """The next number of a spawn in this start of the job; a repeat at times."""
        start = job.id, job.instance
        if not (start in self.last_ticket and self.chance(0.05)):
            self.last_ticket[start] = self.last_ticket.get(start, 0) + 1
        return self.last_ticket[start]

    def time_s(self, job: Job) -> float:
        """Of an iteration on what the job has, with some noise."""
        if job.id not in self.curves:
            draw = self.rng.uniform
            self.curves[job.id] = draw(0.0, 0.5), draw(0.5, 4.0), draw(0.0, 0.3)
        serial, parallel, each = self.curves[job.id]
        return (serial + parallel / job.size + each * job.size) * self.rng.uniform(0.97, 1.06)

    def told(self) -> list[Any]:
        """What people are told now of all jobs."""
        scheduler = self.scheduler
        state, found = scheduler.state, list[Any]()
        for job in state.jobs.values():
            views = dict[str, Any]()
            for feature in FEATURES[Feature.view]:
                views |= feature.view(state, job)
            why = sorted(reason.text for reason in explain(scheduler, job, self.now))
            found.append((job.id, str(job.state), job.holds(), why, views))
        return found

    # --- nodes -------------------------------------------------------------------------------

    def node(self, name: str) -> None:
        self.do(
            ev.NodeJoined(
                name,
                self.rng.randint(1, 5),
                speed=self.rng.choice((1.0, 1.0, 2.0)),
                memory=self.rng.choice((0, 8 * GIB)),
                gpus=self.rng.choice((0, 0, 2)),
                features=self.rng.choice(((), ("big",), ("big", "fast"))),
                until_s=self.now + self.rng.uniform(20, 300) if self.chance(0.15) else None,
            )
        )

    def node_comes(self) -> None:
        self.node(self.any_node() if self.chance(0.7) else f"m{self.rng.randrange(3)}")

    def node_is_lost(self) -> None:
        self.do(ev.NodeLost(self.any_node()))

    def node_is_loaded(self) -> None:
        nodes = {self.any_node() for _ in range(self.rng.randint(1, 2))}
        self.do(ev.BackgroundLoad(tuple(sorted(nodes)), self.rng.choice((0.0, 0.5, 1.0, 3.0))))

    def node_drains(self) -> None:
        within_s = self.rng.choice((None, 0.0, 5.0, 30.0))
        life = self.rng.choice(("", "x"))
        self.do(ev.DrainRequested(self.any_node(), within_s, "why", "ada", self.chance(0.3), life))

    def node_resumes(self) -> None:
        self.do(ev.ResumeRequested(self.any_node(), self.rng.choice(("", "", "x", "y"))))

    def ticket_goes_on(self) -> None:
        number, ticket = self.rng.choice(list(self.pool.tickets.items()))
        if ticket.state is TicketState.ASKED:
            until_s = self.now + 300.0 if self.chance(0.2) else None
            self.do(ev.TicketStarted(number, "" if self.chance(0.1) else f"p{number}", until_s))
        elif ticket.state is TicketState.STARTING:
            self.join(number)

    def ticket_fails(self) -> None:
        number = self.rng.choice(list(self.pool.tickets))
        self.do(
            self.rng.choice(
                (
                    ev.TicketRefused(number, "no"),
                    ev.TicketRevoked(number, self.rng.uniform(0, 60), "preempted"),
                    ev.TicketEnded(number, "gone", self.chance(0.2)),
                    ev.TicketPending(number, "later"),
                )
            )
        )

    # --- jobs come and go --------------------------------------------------------------------

    def common(self) -> dict[str, Any]:
        """What any job may say of itself."""
        rng, more = self.rng, dict[str, Any]()
        more["user"] = rng.choice(USERS)
        if not self.likes("no estimates"):
            more["estimate_s"] = rng.uniform(5.0, 120.0)
        if self.likes("walltimes"):
            more["walltime_s"] = rng.uniform(20.0, 200.0)
        if self.likes("priorities"):
            more["priority"] = rng.randint(-3, 7)
        if self.likes("holds"):
            more["hold"] = True
        if self.likes("dependencies") and self.scheduler.state.jobs:
            way = rng.choice(("after", "after_any", "after_not"))
            more[way] = (rng.choice(list(self.scheduler.state.jobs)),)
        if self.likes("needs"):
            constraint = rng.choice(("", "big", "big&fast", "fast|big"))
            more["needs"] = Needs(rng.choice((0, 2 * GIB)), rng.choice((0, 0, 1)), constraint)
        if self.likes("protection"):
            every_s = rng.choice((None, 5.0))
            more["protection"] = Protection(rng.choice(("disk", "partner")), every_s=every_s)
        if self.likes("retries"):
            more["retry"] = rng.randint(1, 2)
        if self.likes("applications"):
            more["application"] = rng.choice(("solver", "filter"))
        if self.likes("requests"):
            more["request_id"] = f"r{rng.randrange(10)}"
        if self.likes("reservations"):
            more["reservation"] = rng.choice(("lunch", "night"))
        return more

    def submitted(self) -> None:
        rng, more = self.rng, self.common()
        kinds = [kind for kind in range(5) if self.likes(f"kind {kind}")] or [4]
        match rng.choice(kinds):
            case 0:
                self.submit(rng.randint(1, 6), **rng.choice(RIGID_EXTRAS), **more)
            case 1:
                self.submit(*CHAINS[1], start=rng.randint(1, 6), kind="moldable", **more)
            case 2:
                self.submit(*CHAINS[1], start=rng.randint(1, 6), kind="evolving", **more)
            case 3:
                profile = rng.choice(PROFILES)
                sizes = sorted({size for _, size in profile})
                start = profile[0][1]
                self.submit(*sizes, start=start, kind="evolving", profile=profile, **more)
            case _:
                chain = rng.choice(CHAINS)
                start = configuration(rng.choice(chain)).size
                if self.chance(0.4):
                    rho, cost_s = rng.uniform(0.0, 0.9), rng.uniform(0.0, 0.2)
                    more["scalability"] = Scalability(start, rho, 1.0, 2.0, 1.0, cost_s)
                self.submit(*chain, start=start, kind="malleable", **more)

    def array(self) -> None:
        rng, only = self.rng, configuration(self.rng.randint(1, 2))
        spec = JobSpec("sweep", JobKind.RIGID, only, (only,), **self.common())
        indices = tuple(range(rng.randint(1, 5)))
        actions = self.do(ev.ArraySubmitted(spec, indices, rng.randrange(3)))
        self.arrays += [a.array for a in actions if isinstance(a, ArrayAccepted)]

    def array_is_wanted(self) -> None:
        what = self.rng.choice(("kill", "hold", "release"))
        self.do(ev.ArrayRequested(self.rng.choice(self.arrays), what, "ada"))

    def attached(self) -> None:
        size, node = self.rng.randint(1, 3), self.any_node()
        chain = tuple(configuration(n) for n in (1, 2, 3, 4))
        spec = JobSpec("beside", JobKind.MALLEABLE, configuration(size), chain, **self.common())
        pids = tuple(self.rng.randrange(100, 999) for _ in range(size))
        self.do(ev.JobAttached(spec, ((node,),), (0,) * size, pids))

    def ended(self) -> None:
        job = self.one()
        if self.chance(0.2):
            self.do(ev.JobGaveUp(job.id, job.instance, "no more"))
        elif self.chance(0.6):
            self.do(ev.WorkDone(job.id, job.instance, self.done.get(job.id, 0)))
        error = "node n01: lost" if self.chance(0.1) else ""
        self.do(ev.JobEnded(job.id, job.instance, self.rng.choice((0, 0, 0, 1, 9, 137)), error))

    def killing_ends(self) -> None:
        job = self.one(JobState.KILLING)
        self.do(ev.JobEnded(job.id, job.instance, 137))

    def vacated(self) -> None:
        action = self.rng.choice(self.leaving)
        self.leaving.remove(action)
        all_at_once = self.chance(0.8)
        processors = action.processors if all_at_once else action.processors[:1]
        super().do(ev.ProcessorsVacated(action.job, processors))
        if not all_at_once and action.processors[1:]:
            rest = VacateProcessors(action.job, action.instance, action.processors[1:])
            self.leaving.append(rest)

    # --- what users want ---------------------------------------------------------------------

    def user_wants(self) -> None:
        job = self.rng.choice(list(self.scheduler.state.jobs))
        self.do(
            self.rng.choice(
                (
                    ev.KillRequested(job, self.rng.choice(USERS)),
                    ev.HoldRequested(job),
                    ev.ReleaseRequested(job),
                    ev.ReleaseRequested(job),
                    ev.SizeReleased(job),
                )
            )
        )

    def user_orders_a_size(self) -> None:
        job, rows = self.one(), self.rng.choice((0, 0, 0, 1, 2))
        self.do(ev.ResizeRequested(job.id, self.rng.randint(1, 6), rows, self.chance(0.3)))

    def reserved(self) -> None:
        start_s = self.now + self.rng.uniform(-1, 60)
        name, user = self.rng.choice(("lunch", "night")), self.rng.choice(("", "ada"))
        count, end_s = self.rng.randint(1, 6), start_s + self.rng.uniform(5, 60)
        if self.chance(0.3):
            self.do(ev.ReservationCancelled(name))
        else:
            made = ev.AdvanceReservation(name, count, start_s, end_s, user)
            self.do(ev.ReservationMade(made))

    def paused(self) -> None:
        self.do(ev.GrantsPaused(self.chance(0.3), "the server starts"))

    # --- programs ----------------------------------------------------------------------------

    def remap(self) -> None:
        job = self.one(JobState.RUNNING)
        for _ in range(self.rng.randint(1, 6)):
            if job.state is not JobState.RUNNING:
                return
            if job.resize is not None:
                self.resize_goes_on(job)
            else:
                loop = "second" if self.chance(0.05) else ""
                self.point(job, self.time_s(job), carry_out=self.chance(0.7), loop=loop)

    def resize_goes_on(self, job: Job) -> None:
        pending = job.resize
        assert pending is not None
        start = job.id, job.instance
        match self.rng.randrange(6):
            case 0:
                self.do(ev.ResizeAborted(*start, pending.resize_id, "no luck"))
            case 1:
                self.do(ev.RestartReady(*start, pending.resize_id))
            case 2:
                self.now += 1.0
                self.seq[job.id] = self.seq.get(job.id, 0) + 1
                said = self.seq[job.id], job.size, self.done.get(job.id, 0)
                time_s, resize = self.time_s(job), pending.resize_id
                self.do(ev.RemapPoint(*start, *said, time_s, preparing=resize))
            case _:
                self.done[job.id] = pending.resize_id
                self.do(ev.ResizeCommitted(*start, pending.resize_id, self.rng.uniform(0, 0.3)))

    def points_pass(self) -> None:
        job = self.one(JobState.RUNNING)
        count, time_s = self.rng.randint(1, 20), self.time_s(job)
        self.now += count * time_s
        self.do(ev.PointsPassed(job.id, job.instance, count, time_s))

    def asks(self) -> None:
        job, rng = self.one(JobState.RUNNING), self.rng
        known = Asked.of(job).answer
        start = job.id, job.instance, 1 if known is None else known.request + (not self.chance(0.1))
        if self.chance(0.6):
            timeout_s = rng.choice((0.0, 10.0, 100.0))
            self.do(ev.DynamicRequested(*start, rng.randint(1, 3), timeout_s))
        elif self.chance(0.5):
            named = tuple(rng.sample(job.allocation, 1))
            self.do(ev.DynamicReleased(*start, 1, named))
        else:
            self.do(ev.DynamicReleased(*start, rng.randint(1, 3)))

    def spawns(self) -> None:
        job = self.one(JobState.RUNNING)
        world = job.resize.resize_id if job.resize is not None and self.chance(0.5) else 0
        ticket, count = self.ticket_of(job), self.rng.randint(1, 3)
        start = job.id, job.instance, "a", ticket
        self.do(ev.SpawnRequested(*start, world, (("child",),), (0,) * count))

    def world_ends(self) -> None:
        jobs = [job for job in self.scheduler.state.active.values() if Spawns.of(job).worlds]
        job = self.rng.choice(jobs)
        world = self.rng.choice(list(Spawns.of(job).worlds))
        self.do(ev.WorldEnded(job.id, job.instance, world))

    def program_says(self) -> None:
        """Of itself: what it can do, how its copies went, where its ranks are."""
        job, rng = self.one(), self.rng
        start = job.id, job.instance
        rank, turns = rng.randrange(max(1, job.size)), rng.randrange(30)
        what = rng.choice(("left", "stays", "goes on"))
        waits, over = self.chance(0.5), self.chance(0.5)
        report = ev.RankReported(*start, rank, what, turns, "a.py:3", waits, 7.0, 1.0, over)
        nbytes, error = rng.randrange(10**9), "disk full" if self.chance(0.2) else ""
        copy = ev.CopyMade(*start, turns, rng.uniform(0, 0.5), nbytes, error)
        sizes = tuple(sorted(rng.sample(range(1, 9), 4)))
        others: tuple[ev.Event, ...] = (
            ev.SessionOpened(*start),
            ev.SessionOpened(*start),
            ev.SizesDeclared(*start, (*sizes, job.size)),
            ev.ResizesByRestart(*start),
        )
        self.do(rng.choice((report, report, copy, copy, *others)))

    def ranks_are_lost(self) -> None:
        job = self.one(JobState.RUNNING)
        count = self.rng.randint(1, max(1, job.size - 1))
        self.do(ev.RanksLost(job.id, job.instance, tuple(self.rng.sample(job.allocation, count))))

    def time_passes(self) -> None:
        self.wait(self.rng.choice((1.0, 5.0, 20.0, 60.0)))

    def happens(self) -> None:
        """One event; what is not legal is refused, what is not there does nothing."""
        (what,) = self.rng.choices(list(ODDS), self.weights)
        self.now += self.rng.expovariate(1.0)
        try:
            what(self)
        except InvariantViolation:
            raise
        except (SchedulerError, IndexError):  # refused; nobody is there whom it could concern
            pass


ODDS: dict[Callable[[Life], None], float] = {
    Life.submitted: 16,
    Life.remap: 30,
    Life.ended: 5,
    Life.killing_ends: 6,
    Life.vacated: 6,
    Life.time_passes: 8,
    Life.asks: 7,
    Life.points_pass: 3,
    Life.program_says: 6,
    Life.user_wants: 3,
    Life.user_orders_a_size: 3,
    Life.spawns: 2,
    Life.world_ends: 2,
    Life.ranks_are_lost: 1.5,
    Life.array: 1,
    Life.array_is_wanted: 0.5,
    Life.attached: 1,
    Life.reserved: 1.5,
    Life.paused: 0.7,
    Life.node_comes: 3,
    Life.node_is_lost: 1.5,
    Life.node_drains: 1.5,
    Life.node_resumes: 2,
    Life.ticket_goes_on: 6,
    Life.ticket_fails: 1.5,
    Life.node_is_loaded: 3,
}
