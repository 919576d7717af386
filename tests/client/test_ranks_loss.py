"""A lost rank, in place: what the keepers of a job agree on, whoever sees what first."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dq_client.node.ranks.loss import BACK_WITHIN_S, FREE_WITHIN_S, Losses

SIGKILL = {"code": 137, "why": "rank 1 was ended by signal 9"}


@dataclass
class FakeStart:
    """What Losses looks at of world.Start."""

    env: dict[str, str] = field(default_factory=lambda: {"DQ_PROTECT": "partner"})


@dataclass(eq=False)
class FakeRank:
    """What Losses looks at of world.Rank, and what it was told."""

    processor: int
    in_session: bool = True
    retired: bool = False
    free: bool = False
    lost: bool = False
    alive: bool = True
    heard: list[dict[str, Any]] = field(default_factory=list)


class FakeWorld:
    """What Losses looks at of world.World."""

    is_part = True

    def __init__(self, ranks: list[FakeRank]) -> None:
        self.ranks, self.start = ranks, FakeStart()

    def running(self) -> list[FakeRank]:
        return [rank for rank in self.ranks if rank.alive]

    def processor(self, rank: FakeRank) -> int:
        return rank.processor


class Job:
    """Keepers on nodes a, b, ... with so many ranks each, and the messages between them."""

    def __init__(self, *counts: int) -> None:
        self.now = 100.0
        self.size = sum(counts)
        self.failed: list[dict[str, Any]] = []
        self.mail: deque[tuple[str, dict[str, Any]]] = deque()
        self.keepers: dict[str, Losses] = {}
        self.worlds: dict[str, FakeWorld] = {}
        processor = 0
        for i, count in enumerate(counts):
            node = chr(ord("a") + i)
            ranks = [FakeRank(processor + k) for k in range(count)]
            processor += count
            self.worlds[node] = FakeWorld(ranks)
            worlds: Any = {0: self.worlds[node]}
            self.keepers[node] = Losses(
                node, worlds, self.relay(node), self.say, self.failed.append
            )

    def relay(self, sender: str) -> Any:
        def send(node: str, data: dict[str, Any]) -> None:
            for target in self.keepers if node == "*" else [node]:
                if node != "*" or target != sender:
                    self.mail.append((target, json.loads(json.dumps(data))))

        return send

    def say(self, rank: Any, line: str) -> None:
        rank.heard.append(json.loads(line))

    def node_of(self, rank: FakeRank) -> str:
        return next(node for node, world in self.worlds.items() if rank in world.ranks)

    def all(self) -> list[FakeRank]:
        return [rank for world in self.worlds.values() for rank in world.ranks]

    def dies(self, rank: FakeRank) -> bool:
        rank.alive = False
        node = self.node_of(rank)
        world: Any = self.worlds[node]
        mended = self.keepers[node].begin(world, rank, SIGKILL, self.now)  # type: ignore[arg-type]
        if not mended:
            self.failed.append(SIGKILL)
        return mended

    def deliver(self) -> None:
        while self.mail:
            target, data = self.mail.popleft()
            self.keepers[target].heard(data, self.now)

    def free(self, rank: FakeRank) -> None:
        number = [line["lost"] for line in rank.heard if "lost" in line][-1]
        said = {"free": number, "size": self.size}
        self.keepers[self.node_of(rank)].freed(rank, said)  # type: ignore[arg-type]

    def back(self, rank: FakeRank) -> None:
        self.keepers[self.node_of(rank)].back(rank)  # type: ignore[arg-type]

    def wait(self, seconds: float) -> None:
        self.now += seconds
        for keeper in self.keepers.values():
            keeper.look(self.now)

    def pending(self, node: str) -> bool:
        return self.keepers[node].pending

    def regrouped(self, rank: FakeRank) -> list[list[int]]:
        return [line["dead"] for line in rank.heard if "regroup" in line]


def free_all(job: Job) -> None:
    for rank in job.all():
        if rank.alive:
            job.free(rank)
            job.deliver()


def test_all_are_free_and_regroup() -> None:
    job = Job(2, 2)
    assert job.dies(job.all()[3])
    job.deliver()
    alive = [rank for rank in job.all() if rank.alive]
    assert all(rank.heard == [{"lost": 1}] for rank in alive)
    assert job.pending("b")
    dues_s = [job.keepers[node].due_s for node in ("a", "b")]
    assert dues_s == [float("inf"), job.now + FREE_WITHIN_S], "the keeper that leads has the clock"
    for rank in alive:
        assert not job.regrouped(rank), "one is not free yet"
        job.free(rank)
        job.deliver()
    assert all(job.regrouped(rank) == [[3]] for rank in alive)
    for rank in alive:
        job.back(rank)
        job.deliver()
    assert not job.pending("b")
    job.wait(BACK_WITHIN_S + 1)
    assert not job.failed


def test_one_that_is_not_free_in_time_makes_it_a_failure() -> None:
    job = Job(2, 1)
    job.dies(job.all()[0])
    job.deliver()
    job.free(job.all()[1])
    job.deliver()
    job.wait(FREE_WITHIN_S + 0.01)
    assert job.failed == [SIGKILL]
    assert not job.keepers["a"].pending


def test_survivors_that_do_not_come_back_make_it_a_failure() -> None:
    job = Job(3)
    job.dies(job.all()[0])
    free_all(job)
    job.wait(BACK_WITHIN_S + 0.01)
    assert job.failed == [SIGKILL]


def test_the_next_loss_is_a_new_one() -> None:
    job = Job(2, 2)
    for victim, size in ((3, 4), (0, 3), (1, 2)):
        job.size = size
        assert job.dies(job.all()[victim])
        job.deliver()
        free_all(job)
        for rank in job.all():
            if rank.alive:
                assert job.regrouped(rank)[-1] == [victim]
                job.back(rank)
                job.deliver()
    job.wait(100)
    assert not job.failed


def test_two_that_die_at_once_on_two_nodes() -> None:
    job = Job(2, 2)
    job.dies(job.all()[0])
    job.dies(job.all()[2])
    job.deliver()
    free_all(job)
    for rank in (job.all()[1], job.all()[3]):
        assert job.regrouped(rank)[-1:] == [[0, 2]]


def test_one_that_dies_elsewhere_before_the_others_are_free_is_lost_with_the_first() -> None:
    job = Job(2, 2)
    first, _, other, _ = job.all()
    assert job.dies(first)
    job.deliver()
    assert job.dies(other)
    assert first.lost
    job.deliver()
    free_all(job)
    assert [job.regrouped(rank) for rank in job.all() if rank.alive] == [[[0, 2]], [[0, 2]]]
    assert job.failed == []


def test_one_that_was_alone_on_its_node_is_lost_with_the_first() -> None:
    job = Job(2, 1)
    first, other, alone = job.all()
    job.dies(first)
    job.deliver()
    job.free(other)
    job.dies(alone)
    job.deliver()
    assert job.regrouped(other) == [[0, 2]]


def test_survivors_have_time_to_come_back_and_a_repeated_report_changes_nothing() -> None:
    job = Job(2, 2)
    job.dies(job.all()[2])
    job.deliver()
    said = {"freed": 1, "from": "b", "alive": 1, "free": 1, "size": 4, "dead": [2]}
    free_all(job)
    job.keepers["b"].heard(said, job.now)
    job.wait(BACK_WITHIN_S - 0.1)
    assert job.failed == []
    job.wait(0.1)
    assert job.failed == [SIGKILL]


def test_its_time_is_over_when_it_has_come() -> None:
    job = Job(2)
    job.dies(job.all()[0])
    keeper = job.keepers["a"]
    keeper.look(keeper.due_s)
    assert job.failed == [SIGKILL]


def test_one_that_dies_while_the_others_regroup_ends_the_attempt() -> None:
    job = Job(4)
    job.dies(job.all()[0])
    free_all(job)
    assert not job.dies(job.all()[1])
    assert job.failed


def test_only_protected_jobs_and_ranks_in_their_session() -> None:
    job = Job(2)
    job.worlds["a"].start.env = {"DQ_PROTECT": "disk"}
    assert not job.dies(job.all()[0])
    job = Job(2)
    job.all()[0].in_session = False
    assert not job.dies(job.all()[0])


@given(st.data())
def test_never_both_and_never_neither(data: st.DataObject) -> None:
    """Whatever is said in whatever order: in the end all have regrouped alike, or it has failed."""
    job = Job(*data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
    victims = data.draw(st.lists(st.sampled_from(job.all()), min_size=1, max_size=2, unique=True))
    job.dies(victims[0])
    for _ in range(data.draw(st.integers(0, 30))):
        what = data.draw(st.sampled_from(["deliver", "free", "die", "back", "time"]))
        alive = [rank for rank in job.all() if rank.alive]
        if what == "deliver" and job.mail:
            target, message = job.mail.popleft()
            job.keepers[target].heard(message, job.now)
        elif what == "die" and victims[-1].alive:
            job.dies(victims[-1])
        elif what == "time":
            job.wait(0.01)
        elif alive and what in ("free", "back"):
            rank = data.draw(st.sampled_from(alive))
            if what == "free" and any("lost" in line for line in rank.heard):
                job.free(rank)
            elif what == "back" and job.regrouped(rank):
                job.back(rank)
    for _ in range(4):
        job.deliver()
        for rank in job.all():
            if rank.alive and any("lost" in line for line in rank.heard):
                job.free(rank)
    job.deliver()
    alive = [rank for rank in job.all() if rank.alive]
    for rank in alive:
        job.back(rank)
        job.deliver()
    job.wait(BACK_WITHIN_S + 1)
    dead = {rank.processor for rank in job.all() if not rank.alive}
    if not job.failed:
        for rank in alive:
            told = job.regrouped(rank)
            assert {p for group in told for p in group} == dead
        # Once it has failed the server ends them all.
        assert not any(keeper.pending for keeper in job.keepers.values())
