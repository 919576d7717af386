"""Strategies for malleable jobs: in 500 random lives each they do what a reference does."""

from __future__ import annotations

from random import Random

import pytest

from dq_server.core.model import events as ev
from dq_server.core.model.actions import Action, StartJob
from dq_server.core.model.jobs import Job
from dq_server.core.model.sizes import Scalability
from dq_server.core.policies.registry import SETS, named_settings
from harness.examples import examples
from tests.core.cluster import Cluster
from tests.sim.sharing_reference import Machine, Runs, Strategy, Waits

STRATEGIES = [name for name, settings in SETS.items() if settings.get("start") == "sharing"]
USUAL = {"start": "min", "balance": "min", "hand_on": "pool"}
NODES = 16


class Quick(Cluster):
    """A cluster whose invariants are checked at the end only."""

    def do(self, event: ev.Event, *, vacate: bool = True) -> list[Action]:
        actions = self.scheduler.handle(event, self.now)
        for action in actions:
            if isinstance(action, StartJob):
                self.do(ev.JobStarted(action.job, action.instance))
        return actions


class Twin:
    """A cluster and the reference, to which the same happens."""

    def __init__(self, name: str, random: Random) -> None:
        settings = named_settings(name)
        self.real = Quick(NODES, confirm_vacated=False, **settings)
        self.plain = Machine(NODES, Strategy(**{**USUAL, **settings["sharing"]}))
        self.random, self.given = random, dict[int, int]()

    def submit(self) -> None:
        random = self.random
        preferred = random.randint(1, 8)
        sizes = [preferred]
        kind = random.choice(["rigid", "malleable", "malleable"])
        if kind == "malleable":
            least, most = random.randint(1, preferred), random.randint(preferred, NODES)
            sizes = list(range(least, most + 1))
            if random.random() < 0.5:
                sizes = sorted({preferred, *(s for s in (1, 2, 4, 8, 16) if least <= s <= most)})
        estimate_s = float(random.randint(1, 60))
        job = self.real.submit(*sizes, start=preferred, kind=kind, estimate_s=estimate_s)
        self.plain.queue.append(
            Waits(job.id, sizes, preferred, estimate_s, kind == "malleable", self.real.now)
        )
        self.settle()

    def end(self, job_id: int) -> None:
        self.plain.running.pop(job_id)
        self.given.pop(job_id, None)
        self.real.end(self.real.scheduler.state.job(job_id))
        self.settle()

    def point(self, job_id: int) -> None:
        """It comes to a remap point; a resize is under way from then on."""
        job, expected = self.real.scheduler.state.job(job_id), self.plain.point(job_id)
        answer = self.real.point(job, 0.0, carry_out=False)
        told = None if answer.what == "continue" else answer.configuration.size
        assert told == expected, answer.reason.text
        if told is not None:
            self.plain.running[job_id].next = told
            self.given[job_id] = answer.resize_id

    def commit(self, job_id: int) -> None:
        resize_id = self.given.pop(job_id)
        self.real.done[job_id] = resize_id
        runs = self.plain.running[job_id]
        runs.size, runs.next = runs.next or runs.size, None
        job = self.real.scheduler.state.job(job_id)
        self.real.do(ev.ResizeCommitted(job_id, job.instance, resize_id, 0.1))
        self.settle()

    def settle(self) -> None:
        """Both have made their pass: the same jobs run on the same sizes."""
        plain, state = self.plain, self.real.scheduler.state
        plain.now = self.real.now
        for job_id, size in plain.schedule():
            waits = next(w for w in plain.queue if w.job == job_id)
            plain.queue.remove(waits)
            end_s = plain.now + waits.estimate_s
            plain.running[job_id] = Runs(waits.sizes, size, waits.preferred, end_s, waits.malleable)
        assert {k: job.size for k, job in state.active.items()} == {
            k: runs.size for k, runs in plain.running.items()
        }
        for k, runs in plain.running.items():
            runs.end_s = state.active[k].planned_end_s

    def step(self) -> None:
        """Something that can happen, at random."""
        random, running = self.random, self.plain.running
        self.real.now += random.randint(0, 5)
        self.plain.now = self.real.now
        steady = [k for k, r in running.items() if r.malleable and r.next is None]
        what = random.choice(["submit", "submit", "submit", "end", "point", "point", "commit"])
        if what == "submit":
            self.submit()
        elif what == "end" and running:
            self.end(random.choice(list(running)))
        elif what == "point" and steady:
            self.point(random.choice(steady))
        elif what == "commit" and self.given:
            self.commit(random.choice(list(self.given)))


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_decisions_are_those_of_the_reference(name: str) -> None:
    for seed in range(examples(500)):
        twin = Twin(name, Random(seed))
        for _ in range(16):
            twin.step()
        twin.real.scheduler.state.check()


def test_the_job_that_ends_first_gets_no_more_than_it_uses_well() -> None:
    """With S = n^0.4 none of the 12 idle ones are half efficient: the other job gets them."""
    cluster = Cluster(NODES, confirm_vacated=False, **named_settings("shortest-first"))

    def submit(estimate_s: float, rho: float) -> Job:
        return cluster.submit(*range(2, 17), start=2, kind="malleable", estimate_s=estimate_s,
                              scalability=Scalability(preferred=2, rho=rho))  # fmt: skip

    first, last = submit(100.0, rho=0.6), submit(900.0, rho=0.0)
    assert cluster.point(first, 0.0, carry_out=False).what == "continue"
    answer = cluster.point(last, 0.0, carry_out=False)
    assert answer.what == "expand" and answer.configuration.size == 14
