"""What is wrong with a run, whatever the right decisions are; world.py says what always holds."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dq_server.core.features import resizing
from dq_server.core.model.jobs import JobState
from dq_server.core.model.placing import placeable, within
from dq_server.core.model.processors import Processors
from dq_server.live.store import snapshot
from dq_server.live.store.recovery import replay, restored

if TYPE_CHECKING:
    from tests.dst.world import World

ENDS = ("exit", "killed_by_user", "node_lost", "launch_failed", "processes_lost", "restarts_used",
        "drained", "copy_tries_used", "workers_done")  # fmt: skip
# A job starts from a copy; its new ranks have their data.
UNUSED = ("succession", "back_from_copy")
OF_COPIES = (*UNUSED, "succession_done", "succession_undone")


class Wrong(AssertionError):
    """An invariant does not hold."""


class Bugs(logging.Handler):
    """Exceptions that the server and the agents have caught and written to their logs."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Within, they are collected and shown nowhere else."""
        self.found.clear()
        logs = [logging.getLogger(name) for name in ("dq.server", "dq.agent")]
        before = [(log.level, log.propagate) for log in logs]
        for log in logs:
            log.addHandler(self)
            log.setLevel(logging.ERROR)
            log.propagate = False
        try:
            yield
        finally:
            for log, (level, propagate) in zip(logs, before, strict=True):
                log.removeHandler(self)
                log.setLevel(level)
                log.propagate = propagate

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.found.append(f"{record.getMessage()}: {record.exc_info[1]!r}")


BUGS = Bugs()


def check_store(world: World) -> None:
    """Journal = state, with and without the snapshot."""
    assert world.server is not None
    scheduler, _, after = restored(world.store)
    for entry in world.store.entries(after):
        replay(scheduler, entry)
    for one in (scheduler, world.server.scheduler):
        order_sets(one.state.processors)
    if snapshot.encode(scheduler, 0.0) != snapshot.encode(world.server.scheduler, 0.0):
        raise Wrong("the state is not what the journal leads to")


def order_sets(pool: Processors) -> None:
    """Equal sets of more than a few numbers have different bytes if they came about differently."""
    for name in ("down", "withheld", "resting"):
        setattr(pool, name, set(dict.fromkeys(sorted(getattr(pool, name)))))


def should_resize(world: World, number: int) -> bool:
    """Whether a job would be told to change its size if it reported now."""
    server = world.server
    job = server.scheduler.state.active.get(number) if server is not None else None
    if server is None or job is None or job.state is not JobState.RUNNING or job.wanted:
        return False
    turn = server.scheduler.turn(server.now())
    verdict = placeable(
        turn.state,
        job,
        within(turn.state, job, resizing._verdict(turn, job), asked=job.held is not None),
    )
    grows = verdict.target is not None and verdict.target.size > job.size
    return verdict.target not in (None, job.configuration) and not (grows and job.cannot_grow)


def check_end(world: World) -> None:
    """All is settled: every accepted job has ended once, and as its fate explains."""
    assert world.server is not None
    state = world.server.scheduler.state
    state.check()
    check_store(world)
    if world.machine.on:
        raise Wrong(f"processes are left: {world.machine.on}")
    finished: dict[int, int] = {}
    for entry in world.store.safe:
        for _ in range(entry.actions.count('"JobFinished"')):
            finished[entry.seq] = finished.get(entry.seq, 0) + 1
    if sum(finished.values()) != len(state.jobs):
        raise Wrong(f"{len(state.jobs)} jobs finished {sum(finished.values())} times")
    for wish, job_id in [(w, k) for w in world.user.wishes for k in w.jobs or (w.job,)]:
        job = state.jobs.get(job_id)
        if job is None or job.end_s is None or job.end_reason is None:
            raise Wrong(f"job {job_id} was accepted and has not ended")
        # If the event of its end is lost, the clock may have leapt since.
        if job.end_reason.code not in (*ENDS, *(["walltime"] if world.store.lost else [])):
            raise Wrong(f"job {job_id} ended for {job.end_reason}")
        protected = job.spec.protection
        if protected and job.end_reason.code in ("node_lost", "drained") and not wish.doomed:
            raise Wrong(f"job {job_id} is protected, and ended for {job.end_reason}")
        by_keeper = "was killed" in job.end_reason.text  # it is lost with its keeper, as is said
        if protected and by_keeper and job.end_reason.code == "launch_failed":
            raise Wrong(f"job {job_id} is protected, and ended for {job.end_reason}")
        last = world.machine.processes.get((job.id, job.instance))
        well = last is not None and last.ended_well()
        if well and by_keeper and job.end_reason.code == "processes_lost" and not world.store.lost:
            raise Wrong(f"ranks of job {job_id} ended well, and it ended for {job.end_reason}")
        story = [d.reason.code for d in job.decisions if d.reason.code in OF_COPIES]
        lost = job.state is JobState.FAILED and job.end_reason.code != "copy_tries_used"
        if (
            lost
            and not wish.doomed
            and job.id in world.machine.copies
            and story
            and story[-1] in UNUSED
        ):
            raise Wrong(f"job {job_id} had a copy of its data, and ended for {job.end_reason}")
        if job.restarts > (protected.restarts if protected else 0):
            raise Wrong(f"job {job_id} was restarted {job.restarts} times")
        if job.retries > job.spec.retry:
            raise Wrong(f"job {job_id} was started again {job.retries} times")
        # What was killed in lost events, and numbers that were given in them, nobody can know.
        if job.state is JobState.DONE and not world.store.lost:
            world.machine.processes[job.id, job.instance].check_done()
        if job.end_reason.code == "killed_by_user" and not wish.doomed and not world.store.lost:
            raise Wrong(f"job {job_id} was killed by nobody")
    found = {wish.job for wish in world.user.wishes}
    if len(found) != len(world.user.wishes) and not world.store.lost:
        raise Wrong("two submissions became one job")
