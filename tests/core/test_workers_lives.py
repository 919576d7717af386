"""Drawn lives of a cluster (drawn_life.py) in which there are jobs of workers, too.

The invariants are checked after each event; what was done is kept under other policies.
"""

from __future__ import annotations

from contextlib import suppress

import pytest

from dq_server.core.model import events as ev
from dq_server.core.model.errors import InvariantViolation, SchedulerError
from dq_server.core.model.jobs import ACTIVE, Job, JobKind, JobSpec, JobState
from dq_server.core.model.launching import Worlds
from dq_server.core.model.workers import Workers, sizes_between
from dq_server.core.recorded import Facts, Following, settle
from dq_server.core.settings import configured
from tests.core.drawn_life import Life
from tests.core.recording import Recorder
from tests.core.test_drawn_lives import OTHER

LIVES, EVENTS = 60, 250


class CrewLife(Life):
    """With jobs of workers. What programs say comes from the others: a worker says nothing."""

    def one(self, *states: JobState) -> Job:
        wanted = states or ACTIVE
        jobs = self.scheduler.state.jobs.values()
        return self.rng.choice([j for j in jobs if j.state in wanted and j.spec.workers is None])

    def crew(self) -> Job:
        jobs = self.scheduler.state.active.values()
        return self.rng.choice([job for job in jobs if job.spec.workers is not None])

    def crew_comes(self) -> None:
        rng, more = self.rng, self.common()
        more = {k: v for k, v in more.items() if k not in ("protection", "reservation")}
        least = rng.choice((0, 0, 0, 1, 2))
        sizes = sizes_between(least, least + rng.randint(1, 6))
        how = Workers(grace_s=rng.choice((0.0, 5.0)))
        kind = JobKind.WORKERS
        self.do(ev.JobSubmitted(JobSpec("crew", kind, sizes[0], sizes, workers=how, **more)))

    def worker_ends(self) -> None:
        job = self.crew()
        world = self.rng.choice([0, *Worlds.of(job).started.values()])
        self.do(ev.WorkerEnded(job.id, job.instance, world))

    def crew_ends(self) -> None:
        job = self.crew()
        self.do(ev.JobEnded(job.id, job.instance, self.rng.choice((1, 137, 0))))

    def crew_is_wanted(self) -> None:
        job = self.crew()
        order = ev.ResizeRequested(job.id, self.rng.randint(0, 6), 0, self.chance(0.3))
        kill = ev.KillRequested(job.id, "ada")
        self.do(self.rng.choice((order, order, ev.SizeReleased(job.id), kill)))

    def happens(self) -> None:
        mine = (self.crew_comes, self.worker_ends, self.crew_ends, self.crew_is_wanted)
        if not self.chance(0.15):
            super().happens()
            return
        self.now += self.rng.expovariate(1.0)
        what = self.rng.choices(mine, (4, 4, 1, 2))[0]
        try:
            what()
        except InvariantViolation:
            raise
        except (SchedulerError, IndexError):  # refused; there is no such job
            pass


def life_of(seed: int) -> CrewLife:
    life = CrewLife(seed)
    for _ in range(EVENTS):
        life.happens()
    return life


@pytest.mark.parametrize("seed", range(LIVES))
def test_a_life_with_workers_is_as_it_was(recorded: Recorder, seed: int) -> None:
    life = life_of(seed)
    recorded.add(life.told())
    life.wait(1000.0)
    recorded.add(life.told())


@pytest.mark.parametrize("seed", range(120, 135))
def test_what_workers_did_is_kept_under_other_policies(recorded: Recorder, seed: int) -> None:
    life = life_of(seed)
    following = Following(configured(life.scheduler.config, **OTHER))
    facts, story = Facts(), list(recorded.story)
    for now, event, actions in story:
        ours = None
        with suppress(Exception):  # whatever other rules lead to, as live/store/recovery.py does
            ours = following.follow(event, now, actions)
        facts.take_in(event, actions, ours)
    settle(following, facts, life.now)
    following.state.check()
    assert not facts.lost(following.state)
