"""The life of a job: submitted, attached, started, ended, killed, held. See jobs.TRANSITIONS.

A program that somebody has started with mpiexec may attach itself. Its ranks run before the
scheduler hears of them. If the nodes where they run have idle processors for all of them, which
nobody was promised and which no waiting job will need, these become the job's, and the job starts
at once: the agents take its processes in instead of starting any. If not, the refusal says what is
missing. From then on agents start the ranks that join it, whatever is configured.

Sizes that a program declares itself (`legal=` of its session) are told when it has started, and
narrow the sizes that the job was submitted with. A program on a size that it cannot run on does not
come so far: its session ends it.

After a loss of events what they have numbered is still there, so no number is given again: a job
that was submitted in the lost events may have processes, and one that waits as far as we know may
have been started in them. Under a number that was used again an agent would take the old processes
for the new ones.

What a job inherits of its environment is in its spec, because a restart of the server, or of the
job, needs it. It may hold what nobody else should read, and thousands of ended jobs are remembered,
so a job that has ended has none any more. What never reaches a job by itself is said in the table
[environment]:

    [environment]
    secrets = ["*TOKEN*", "*SECRET*"]     # patterns of names; `dq submit --env NAME` names one all
                                          # the same
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dq_server.core.feature import Feature, What, handles
from dq_server.core.model import events as ev
from dq_server.core.model.decisions import Ending, Start
from dq_server.core.model.errors import (
    ConfigError,
    InfeasibleRequest,
    InsufficientResources,
    InvalidSpec,
    InvalidTransition,
)
from dq_server.core.model.jobs import ENDED, Job, JobState
from dq_server.core.model.launching import Launching, Worlds
from dq_server.core.model.options import Options
from dq_server.core.model.pool import Pool
from dq_server.core.model.reasons import because, declare
from dq_server.core.model.records import Record
from dq_server.core.model.spec import JobSpec
from dq_server.core.model.state import State
from dq_server.core.planning import INF, free
from dq_server.core.planning.backfill import first_delayed
from dq_server.core.transaction import unheard
from dq_server.core.turn import Turn

EDITABLE = (JobState.HELD, JobState.WAITING, JobState.QUEUED)
# For people, who read them: after two losses of the same events two jobs may have had a number, but
# no two starts of jobs.
JOBS_SKIPPED = 100_000
RESIZES_BITS = 20  # of an epoch

declare(
    attached="started with mpiexec on {size} processors, and attached: {idle} were idle",
    killed_by_user="killed by {user}",
    failed_by_itself="the application failed: {why}",
    launch_failed="could not be started: {why}",
    sizes_declared="its program can run on {declared} processors, so its sizes are now {sizes}",
    edited="changed by {user}: {changes}",
    start_lost="no agent has start {instance}, and the journal has lost its outcome",
)


@dataclass(slots=True)
class Attached(Record, key="Attached"):
    """Of a job that attached itself; empty for all others."""

    pids: tuple[int, ...] = ()  # of the ranks that it started with


class Lifecycle(Feature):
    @handles(ev.JobSubmitted)
    def submitted(self, turn: Turn, event: ev.JobSubmitted) -> None:
        """A new job enters the queue; the same request id again yields the same job."""
        spec = event.spec
        # Before any check: a repeat must get its job, even if it would be refused by now.
        if not turn.accepted_before(spec):
            turn.admit(spec)
            turn.enter(turn.accept(spec))

    @handles(ev.JobAttached)
    def attached(self, turn: Turn, event: ev.JobAttached) -> None:
        """A program that runs becomes a job; the same request id again yields the same job."""
        spec, state = event.spec, turn.state
        if turn.accepted_before(spec):
            return
        _check_attached(event)
        if not turn.decided:
            turn.ask_features(spec, running=True)
        idle, processors = state.idle, _room(turn, event)
        if not turn.decided:
            _check_promises(turn, spec, len(processors))
        job = turn.accept(spec)
        for feature in turn.features[Feature.entered]:
            feature.entered(turn, job)
        Attached.of(job).pids = event.pids
        job.move(JobState.QUEUED)
        turn.enqueue(job)
        reason = because("attached", size=len(processors), idle=idle)
        turn.start(Start(job, spec.initial, reason, processors, Launching.JOIN))

    def _current(self, turn: Turn, job_id: int, instance: int) -> Job | None:
        """The job if this instance of it is the current one and active; None for old news."""
        job = turn.state.job(job_id)
        return job if job.instance == instance and job.id in turn.state.active else None

    @handles(ev.JobStarted)
    def has_started(self, turn: Turn, event: ev.JobStarted) -> None:
        """The agent's start signal."""
        job = self._current(turn, event.job, event.instance)
        if job is not None and job.state is JobState.STARTING:
            job.move(JobState.RUNNING)
            turn.state.touch(job)

    @handles(ev.JobEnded)
    def has_ended(self, turn: Turn, event: ev.JobEnded) -> None:
        """The agent's end signal. Processors return when the nodes say that they are empty."""
        job = self._current(turn, event.job, event.instance)
        if job is None:
            self._after_all(turn, event)
            return
        job.exit_code = event.exit_code
        turn.schedule()
        if job.state is JobState.KILLING:
            assert job.end_reason is not None, "killing starts with a reason"
            if not turn.restart_if_possible(job, Ending(job.end_reason)):
                turn.finish(job, job.killed_to, job.end_reason)
        elif not turn.restart_if_possible(job, Ending(None, event.exit_code, event.error)):
            self._by_itself(turn, job, event)

    def _after_all(self, turn: Turn, event: ev.JobEnded) -> None:
        """A start that was given up, as its node seemed to be lost, has ended well all the same."""
        job = turn.state.job(event.job)
        if event.exit_code or event.error or unheard(job, event.instance) is None:
            return
        job.exit_code = 0
        turn.schedule()
        turn.finish(job, JobState.DONE, because("exit", exit_code=0))

    def _by_itself(self, turn: Turn, job: Job, event: ev.JobEnded) -> None:
        """The job ended without being killed, and is not started again."""
        if event.error and job.gave_up:
            turn.finish(job, JobState.FAILED, because("failed_by_itself", why=job.gave_up))
            return
        if event.error:
            code = "launch_failed" if job.state is JobState.STARTING else "processes_lost"
            turn.finish(job, JobState.FAILED, because(code, why=event.error))
            return
        if job.state is JobState.STARTING:  # so short that the start signal came second
            job.move(JobState.RUNNING)
        # MPI may tear a job down that was resized, and its launcher still end with code 0.
        vanished = turn.config.farewells and job.resizes > 0 and not job.work_done
        well = event.exit_code == 0 and not vanished
        code = "vanished" if event.exit_code == 0 and vanished else "exit"
        reason = because(code, exit_code=event.exit_code)
        if not well and job.gave_up:
            reason = because("failed_by_itself", why=job.gave_up)
        turn.finish(job, JobState.DONE if well else JobState.FAILED, reason)

    @handles(ev.JobGaveUp)
    def gave_up(self, turn: Turn, event: ev.JobGaveUp) -> None:
        """The application says why it will end; its end follows."""
        job = self._current(turn, event.job, event.instance)
        if job is not None and not job.gave_up:
            job.gave_up = event.why

    @handles(ev.WorkDone)
    def work_done(self, turn: Turn, event: ev.WorkDone) -> None:
        """Nothing is missing any more: an exit code of 0 means what it says."""
        job = turn.state.job(event.job)
        # One that waits to start again has the number of its last start still: what is late of
        # that start must not be taken for a word of the next.
        waits = job.state in (JobState.QUEUED, JobState.HELD, JobState.WAITING)
        if job.instance != event.instance or waits:
            return
        job.work_done = True
        # What was said of the resize may have been lost with the power of the server's machine.
        # The ranks that it brought are the job's then, and end by themselves.
        if job.resize is not None and job.resize.resize_id == event.resize_id:
            turn.perform(ev.ResizeCommitted(job.id, job.instance, event.resize_id, 0.0))

    @handles(ev.ProcessorsVacated)
    def are_vacated(self, turn: Turn, event: ev.ProcessorsVacated) -> None:
        """A node confirms that a job has no process left on its processors."""
        pool = turn.state.processors
        # Without a list all of its own: what they are is known here, not to a restarted agent.
        which = event.processors or [p for p, job in pool.vacating.items() if job == event.job]
        pool.vacated(which, event.job)
        job = turn.state.jobs.get(event.job)
        if job is not None and job.launching.by_agents:
            Worlds.of(job).vacated(which)
        turn.changed(What.VACATED)
        turn.schedule()

    @handles(ev.KillRequested)
    def kill_requested(self, turn: Turn, event: ev.KillRequested) -> None:
        """`dq kill`."""
        job = turn.state.job(event.job)
        if job.state in ENDED:
            raise InvalidTransition(f"job {job.id} has ended already ({job.state})")
        reason = because("killed_by_user", user=event.user or "the user")
        turn.kill(job, reason, to=JobState.KILLED)

    @handles(ev.HoldRequested)
    def hold_requested(self, turn: Turn, event: ev.HoldRequested) -> None:
        """`dq hold`: only a job that has not started can be held."""
        job = turn.state.job(event.job)
        job.move(JobState.HELD)
        turn.withdraw(job)
        job.note(turn.now, "hold", because("held", job=job.id))
        turn.schedule()

    @handles(ev.ReleaseRequested)
    def release_requested(self, turn: Turn, event: ev.ReleaseRequested) -> None:
        """`dq release`: back into the queue, or to waiting for other jobs."""
        job = turn.state.job(event.job)
        if job.state is not JobState.HELD:
            raise InvalidTransition(f"job {job.id} is {job.state}, not held")
        turn.let_in(job)
        turn.schedule()

    @handles(ev.JobEdited)
    def edited(self, turn: Turn, event: ev.JobEdited) -> None:
        """`dq edit`: what is counted and promised from the start on is fixed by then."""
        job, spec = turn.state.job(event.job), turn.state.job(event.job).spec
        if job.state not in EDITABLE:
            raise InvalidTransition(
                f"job {job.id} is {job.state}: walltime and priority of a job that waits can be"
                " changed, until its start"
            )
        if event.walltime_s is not None and (spec.profile or spec.reservation):
            why = "a profile" if spec.profile else f"reservation {spec.reservation}"
            raise InvalidTransition(f"job {job.id} was promised its time by {why}: submit it again")
        given = {"walltime_s": event.walltime_s, "priority": event.priority}
        new = {k: v for k, v in given.items() if v is not None and v != getattr(spec, k)}
        if not new:
            return
        changed = replace(spec, **new)  # type: ignore[arg-type]  # of these two fields' types
        changed.validate()
        job.spec = changed
        turn.state.asks_anew(job)
        words = [_change(k, getattr(spec, k), v) for k, v in new.items()]
        who = event.user or "the user"
        job.note(turn.now, "edit", because("edited", user=who, changes=", ".join(words)))
        turn.schedule()

    @handles(ev.SizesDeclared)
    def declared(self, turn: Turn, event: ev.SizesDeclared) -> None:
        """The program has started; what it says again changes nothing."""
        job = turn.state.job(event.job)
        if job.instance != event.instance or job.configuration is None:
            raise InvalidTransition(f"job {job.id} is {job.state}: this start of it is over")
        if event.sizes == job.spec.declared:
            return
        job.spec = _narrowed(job, event.sizes)
        turn.state.touch(job)
        if job.wanted is not None and not job.spec.runs_on(job.wanted.size):
            job.wanted = None
        known = ", ".join(str(c.size) for c in job.spec.configurations)
        reason = because("sizes_declared", declared=_shown(event.sizes), sizes=known)
        job.note(turn.now, "sizes", reason)

    @handles(ev.EventsLost)
    def events_lost(self, turn: Turn, event: ev.EventsLost) -> None:
        """Go on above all numbers that may have been given; start again what is unknown."""
        state = turn.state
        for job in [state.active[j] for j in event.unknown if j in state.active]:
            turn.queue_again(job, because("start_lost", instance=job.instance))
        if not event.epoch:
            return
        state.next_job += JOBS_SKIPPED
        state.next_instance = max(state.next_instance, event.epoch)
        state.next_resize = max(state.next_resize, event.epoch << RESIZES_BITS)
        pool = Pool.known(state)
        if pool is not None:
            pool.next_ticket = max(pool.next_ticket, event.epoch)

    def ended(self, turn: Turn, job: Job) -> None:
        """Nothing of the job is started any more: its environment may hold secrets."""
        if job.spec.env:  # an array has that of its jobs (arrays.py)
            job.spec = replace(job.spec, env={})

    def view(self, state: State, job: Job) -> Mapping[str, Any]:
        return {"attached": bool(Attached.of(job).pids)}


def _change(name: str, old: float | None, new: float) -> str:
    """For people: `walltime 600 s instead of none`."""
    unit = " s" if name == "walltime_s" else ""
    before = "none" if old is None else f"{old:g}{unit}"
    return f"{name.removesuffix('_s')} {new:g}{unit} instead of {before}"


def _narrowed(job: Job, sizes: tuple[int, ...]) -> JobSpec:
    """The specification without the sizes that the program cannot run on."""
    now, old = job.configuration, job.spec
    assert now is not None
    if now.size not in sizes:
        raise InfeasibleRequest(
            f"job {job.id} runs on {now.size} processors, its program can run on {_shown(sizes)}"
        )
    allowed = set(sizes)
    kept = tuple(c for c in old.configurations if c.size in allowed)
    if not any(c.size == now.size for c in kept):  # it was started on a size of its own
        kept = tuple(sorted((*kept, now), key=lambda c: c.size))
    first = old.initial if old.initial in kept else next(c for c in kept if c.size == now.size)
    others = tuple(c for c in old.other_grids if c.size in allowed)
    return replace(old, configurations=kept, initial=first, other_grids=others, declared=sizes)


def _shown(sizes: tuple[int, ...]) -> str:
    """For people: the first of them."""
    first = ", ".join(map(str, sizes[:12]))
    return f"{first}, ..." if len(sizes) > 12 else first


# --- programs that attach themselves -----------------------------------------------------------


def _check_attached(event: ev.JobAttached) -> None:
    spec, ranks = event.spec, len(event.pids)
    spec.validate()
    if spec.initial.size != ranks or len(event.place_of) != ranks:
        raise InvalidSpec(f"the program runs with {ranks} ranks, not {spec.initial.size}")
    if not set(event.place_of) <= set(range(len(event.places))):
        raise InvalidSpec("a rank of the program runs nowhere")
    nodes = [node for place in event.places for node in place]
    if len(set(nodes)) < len(nodes):
        raise InvalidSpec("the places where its ranks run have a node in common")
    if spec.hold or spec.follows or spec.reservation or spec.profile:
        raise InvalidSpec("a program that runs already cannot wait for a time, a job or a release")
    if spec.needs is not None:
        raise InvalidSpec("a program that runs already cannot choose its nodes: no needs")
    if spec.protection is not None:
        raise InvalidSpec("a program that somebody else started cannot be restarted: no protection")


def _check_promises(turn: Turn, spec: JobSpec, size: int) -> None:
    """InsufficientResources, with the figures, if others were promised what it runs on."""
    state, now, planned_s = turn.state, turn.now, spec.planned_s
    end_s = INF if planned_s is None else now + planned_s
    usable = free(state, now, end_s)
    if size > usable:
        raise InsufficientResources(
            f"it needs {size} processors: of the {state.idle} idle ones {usable} are not promised"
        )
    late = first_delayed(state, turn.config, now, size, end_s)
    if late is not None:
        raise InsufficientResources(
            f"it needs {size} processors, {state.idle} are idle, but job {late[0].id}, which waits,"
            f" would start {_how_late(late[1])}"
        )


def _room(turn: Turn, event: ev.JobAttached) -> tuple[int, ...]:
    """The processor of each rank; InsufficientResources, with the figures, if there are too few."""
    state, pool = turn.state, turn.state.processors
    if state.paused:
        raise InsufficientResources(f"requests are not granted at the moment: {state.paused}")
    spare = [[p for p in pool.idle if pool.node_of[p] in nodes] for nodes in map(set, event.places)]
    for place, count in Counter(event.place_of).items():
        idle = len(spare[place])
        if count > idle:
            nodes = _named(event.places[place])
            raise InsufficientResources(f"its {count} ranks run on {nodes}: {idle} idle processors")
    mine = [iter(processors) for processors in spare]
    return tuple(next(mine[place]) for place in event.place_of)


def _named(nodes: tuple[str, ...]) -> str:
    return nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes from {nodes[0]} to {nodes[-1]}"


def _how_late(delay_s: float) -> str:
    return "nobody knows when" if delay_s == INF else f"{delay_s:.0f} s later"


SECRETS = (
    *("*TOKEN*", "*SECRET*", "*PASSWORD*", "*PASSWD*", "*PASSPHRASE*", "*CREDENTIAL*"),
    *("*API_KEY*", "*APIKEY*", "*ACCESS_KEY*", "*PRIVATE_KEY*", "AWS_*", "SSH_AUTH_SOCK"),
)


@dataclass(frozen=True, slots=True)
class EnvironmentOptions(Options):
    """secrets  patterns of variables that a job does not inherit, in whatever case"""

    table = "environment"

    secrets: tuple[str, ...] = SECRETS

    def validate(self) -> None:
        if "" in self.secrets:
            raise ConfigError(
                '[environment] secrets: "" fits no variable; give patterns: "*TOKEN*"'
            )
