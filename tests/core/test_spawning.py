"""Ranks that a job spawns by itself: who gets processors for them, who is refused, and why."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dq_server.core.features.spawning import ANSWERS_KEPT, OWN_END_WITHIN_S, Spawns, world_to_start
from dq_server.core.model import events as ev
from dq_server.core.model.actions import AnswerSpawn, VacateProcessors
from dq_server.core.model.errors import InfeasibleRequest, InvalidTransition, InvariantViolation
from dq_server.core.model.jobs import Job, JobState
from dq_server.core.model.launching import Launching, Worlds
from tests.core.cluster import Cluster, MakeCluster


def wanted(job: Job, count: int, ticket: int = 1, **more: Any) -> ev.SpawnRequested:
    return ev.SpawnRequested(
        job=job.id,
        instance=more.pop("instance", job.instance),
        agent=more.pop("agent", "a"),
        ticket=ticket,
        world=more.pop("world", 0),
        programs=(("child",),),
        program_of=(0,) * count,
        **more,
    )


def spawn(c: Cluster, job: Job, count: int, ticket: int = 1, **more: Any) -> AnswerSpawn:
    actions = c.do(wanted(job, count, ticket, **more))
    return next(a for a in actions if isinstance(a, AnswerSpawn))


def over(c: Cluster, job: Job, world: int, *, vacate: bool = True) -> list[Any]:
    return c.do(ev.WorldEnded(job.id, job.instance, world), vacate=vacate)


@pytest.fixture
def by_agents(cluster: MakeCluster) -> MakeCluster:
    def make(processors: int, **config: Any) -> Cluster:
        return cluster(processors, **{"launching": Launching.JOIN, **config})

    return make


# --- what is granted ---------------------------------------------------------------------------


def test_idle_processors_are_the_jobs_until_the_world_has_ended(by_agents: MakeCluster) -> None:
    c = by_agents(4)
    job = c.submit(1)
    answer = spawn(c, job, 2)
    assert (answer.world, answer.processors) == (1, (1, 2))
    assert answer.reason.text == "2 processors for ranks that the program spawns, 3 were idle"
    assert (job.size, job.spawned, job.holds(), c.scheduler.state.idle) == (1, (1, 2), [0, 1, 2], 1)
    assert c.submit(2).state is JobState.QUEUED
    over(c, job, 1)
    assert (job.spawned, c.started) == ((), [1, 2])


def test_its_processors_are_granted_again_only_once_they_are_empty(by_agents: MakeCluster) -> None:
    c = by_agents(3)
    job = c.submit(1)
    world = spawn(c, job, 2).world
    actions = over(c, job, world, vacate=False)
    assert VacateProcessors(job.id, 1, (1, 2)) in actions
    assert Worlds.of(job).ending == {1: world, 2: world}
    assert c.scheduler.state.idle == 0
    c.do(ev.ProcessorsVacated(job.id, (1,)))
    assert (c.scheduler.state.idle, Worlds.of(job).ending) == (1, {2: world})


def test_the_job_that_ends_lets_go_of_them(by_agents: MakeCluster) -> None:
    c = by_agents(3)
    job = c.submit(1)
    spawn(c, job, 2)
    c.end(job)
    assert c.scheduler.state.idle == 3
    assert (job.spawned, Spawns.of(job), Worlds.of(job)) == ((), Spawns(), Worlds())


def test_a_node_of_theirs_that_is_lost_ends_the_job(by_agents: MakeCluster) -> None:
    c = by_agents(3)
    job = c.submit(1)
    spawn(c, job, 1)
    c.do(ev.NodeLost("n02"))
    assert job.state is JobState.KILLING


def test_they_count_as_used(by_agents: MakeCluster) -> None:
    c = by_agents(4, order="fairshare", priority={"half_life_s": 1e12})
    job = c.submit(1, user="ada")
    c.now = 10.0
    world = spawn(c, job, 2).world
    c.now = 20.0
    over(c, job, world)
    c.now = 30.0
    c.end(job)
    used = c.scheduler.state.usage.by_user["ada"]
    assert used == pytest.approx(10 + 3 * 10 + 10, rel=1e-6)


def test_several_worlds_live_side_by_side(by_agents: MakeCluster) -> None:
    c = by_agents(5)
    job = c.submit(1)
    one, two = spawn(c, job, 1, 1).world, spawn(c, job, 2, 2, agent="b").world
    assert one != two
    over(c, job, one)
    assert (job.spawned, Worlds.of(job).started) == ((2, 3), {2: two, 3: two})
    assert world_to_start(job, one) is None
    kept = world_to_start(job, two)
    assert kept is not None
    assert (kept.processors, kept.programs, kept.program_of) == ((2, 3), (("child",),), (0, 0))
    over(c, job, one), over(c, job, 77)
    assert job.spawned == (2, 3), "old news change nothing"


# --- what is refused ---------------------------------------------------------------------------


def text(answer: AnswerSpawn) -> str:
    assert (answer.world, answer.processors) == (0, ())
    return answer.reason.text


def test_too_few_are_idle(by_agents: MakeCluster) -> None:
    c = by_agents(2)
    job = c.submit(1)
    assert text(spawn(c, job, 2)) == "2 processors asked for, 1 idle"
    assert job.spawned == ()


def test_a_spawn_waits_for_what_the_job_itself_gives_back(by_agents: MakeCluster) -> None:
    c = by_agents(4)
    job = c.submit(1)
    first = spawn(c, job, 3)
    assert c.do(wanted(job, 3, 2)) == [], "no answer: it is asked again"
    over(c, job, first.world, vacate=False)
    assert c.do(wanted(job, 3, 2)) == [], "processes of the last may still be there"
    c.do(ev.ProcessorsVacated(job.id, first.processors))
    assert spawn(c, job, 3, 2).processors == first.processors


def test_it_does_not_wait_for_ever_nor_for_what_will_not_do(by_agents: MakeCluster) -> None:
    c = by_agents(4)
    job = c.submit(1)
    spawn(c, job, 2)
    assert not spawn(c, job, 4, 2).world, "all that it has would not do"
    assert c.do(wanted(job, 3, 3)) == []
    c.now += OWN_END_WITHIN_S
    refused = spawn(c, job, 3, 3)
    assert refused.reason.text == "3 processors asked for, 1 idle"
    assert not Spawns.of(job).waits


def test_what_is_reserved_for_others_is_not_idle(by_agents: MakeCluster) -> None:
    c = by_agents(3)
    c.do(ev.ReservationMade(ev.AdvanceReservation("r", 2, 100.0, 200.0)))
    job = c.submit(1, walltime_s=1000.0)
    assert text(spawn(c, job, 1)) == "1 processors asked for, 0 idle, the others are promised"


def test_a_planned_start_is_not_delayed(by_agents: MakeCluster) -> None:
    c = by_agents(4, start="easy")
    job = c.submit(1, walltime_s=1000.0)
    c.submit(2, walltime_s=100.0)
    waiting = c.submit(3, walltime_s=100.0)
    assert waiting.state is JobState.QUEUED
    assert text(spawn(c, job, 1)) == (
        "1 processors asked for, 1 idle, but job 3 would start 900 s later"
    )


def test_one_that_delays_nobody_is_granted(by_agents: MakeCluster) -> None:
    c = by_agents(4, start="easy")
    job = c.submit(1, walltime_s=50.0)
    c.submit(2, walltime_s=100.0)
    c.submit(3, walltime_s=100.0)
    assert spawn(c, job, 1).world


@pytest.mark.parametrize(
    ("sizes", "kind", "words"),
    [
        (
            (1, 2),
            "malleable",
            "a malleable job is resized by the scheduler: use the resize library",
        ),
        ((1, 2), "moldable", ""),
        ((1,), "rigid", ""),
        ((1, 2), "evolving", ""),
    ],
)
def test_the_kinds(by_agents: MakeCluster, sizes: tuple[int, ...], kind: str, words: str) -> None:
    c = by_agents(4)
    answer = spawn(c, c.submit(*sizes, start=1, kind=kind), 1)
    assert bool(answer.world) is not bool(words)
    assert not words or answer.reason.text == words


def test_a_job_with_a_profile_has_said_what_it_needs(by_agents: MakeCluster) -> None:
    c = by_agents(4)
    job = c.submit(1, 2, kind="evolving", profile=((60, 1), (60, 2)))
    assert text(spawn(c, job, 1)) == "a job with a profile gets only the processors of its profile"


def test_an_evolving_job_spawns_before_or_after_its_request(by_agents: MakeCluster) -> None:
    c = by_agents(4)
    job = c.submit(1, 4, kind="evolving")
    c.do(ev.DynamicRequested(job.id, 1, 1, 1))
    assert text(spawn(c, job, 1, 1)).startswith("the job has asked for another size")
    c.point(job, 1.0)
    assert job.size == 2
    assert spawn(c, job, 1, 2).world


def test_nothing_is_granted_while_grants_are_paused(by_agents: MakeCluster) -> None:
    c = by_agents(4)
    job = c.submit(1)
    c.do(ev.GrantsPaused(True, "no agents"))
    assert "no agents" in text(spawn(c, job, 1))


def test_a_job_that_does_not_run_cannot_spawn(by_agents: MakeCluster) -> None:
    c = by_agents(1)
    job, queued = c.submit(1), c.submit(1)
    for event in (wanted(job, 1, instance=0), wanted(queued, 1, instance=0)):
        with pytest.raises(InvalidTransition, match="it cannot spawn ranks now"):
            c.do(event)


def test_each_rank_runs_a_program_that_is_there(by_agents: MakeCluster) -> None:
    c = by_agents(2)
    job = c.submit(1)
    with pytest.raises(InfeasibleRequest, match="at least one rank"):
        c.do(wanted(job, 0))
    assert spawn(c, job, 1).world


# --- repeats -----------------------------------------------------------------------------------


def test_a_ticket_is_answered_once(by_agents: MakeCluster) -> None:
    c = by_agents(3)
    job = c.submit(1)
    first = spawn(c, job, 1)
    assert spawn(c, job, 1) == first
    assert spawn(c, job, 1, agent="b") != first, "another agent counts by itself"
    refused = spawn(c, job, 3, 2)
    c.do(ev.WorldEnded(job.id, 1, first.world))
    assert spawn(c, job, 3, 2) == refused, "the rank was told so, perhaps"
    assert spawn(c, job, 1, 3).world


def test_answers_do_not_pile_up(by_agents: MakeCluster) -> None:
    c = by_agents(1)
    job = c.submit(1)
    for ticket in range(ANSWERS_KEPT + 5):
        c.scheduler.handle(wanted(job, 1, ticket), 0.0)
    assert len(Spawns.of(job).answers) == ANSWERS_KEPT


# --- expansions that a rank spawns -------------------------------------------------------------


def test_what_an_expansion_runs_is_kept_until_it_has_joined(by_agents: MakeCluster) -> None:
    c = by_agents(4, launching=Launching.SPAWN)
    job = c.submit(1, 2, 4)
    c.do(ev.ResizeRequested(job.id, 2))
    world = c.point(job, 1.0, carry_out=False).resize_id
    assert world_to_start(job, world) is None
    answer = spawn(c, job, 1, world=world)
    assert (answer.world, answer.processors) == (world, job.reserved)
    assert world_to_start(job, world) is not None
    c.do(ev.ResizeCommitted(job.id, 1, world, 0.1))
    assert (world_to_start(job, world), Spawns.of(job).worlds) == (None, {})
    assert Worlds.of(job).started == {1: world}


def test_of_an_expansion_that_was_aborted_nothing_is_started(by_agents: MakeCluster) -> None:
    c = by_agents(4, launching=Launching.SPAWN)
    job = c.submit(1, 2, 4)
    c.do(ev.ResizeRequested(job.id, 2))
    world = c.point(job, 1.0, carry_out=False).resize_id
    spawn(c, job, 1, world=world)
    c.do(ev.ResizeAborted(job.id, 1, world, "no luck"), vacate=False)
    assert world_to_start(job, world) is None
    assert Worlds.of(job).ending == {1: world}
    with pytest.raises(InvalidTransition, match="is not being expanded by"):
        c.do(wanted(job, 1, 2, world=world))


# --- invariants --------------------------------------------------------------------------------


def test_worlds_that_nobody_knows_break_an_invariant(by_agents: MakeCluster) -> None:
    c = by_agents(3)
    job = c.submit(1)
    spawn(c, job, 1)
    check, worlds = c.scheduler.state.check, Worlds.of(job)
    for spoil, mend in (
        (lambda: worlds.started.pop(1), lambda: worlds.started.update({1: 1})),
        (lambda: worlds.started.update({2: 1}), lambda: worlds.started.pop(2)),
        (lambda: worlds.ending.update({2: 1}), lambda: worlds.ending.pop(2)),
    ):
        spoil()
        with pytest.raises(InvariantViolation):
            check()
        mend()
    check()
    Spawns.of(job).worlds.clear()
    with pytest.raises(InvariantViolation):
        check()
    c.end(job)


@given(st.data())
def test_whatever_is_spawned_and_ends_nothing_is_lost(data: st.DataObject) -> None:
    """Every event is followed by the full check of invariants (Cluster.do)."""
    c = Cluster(6, launching=Launching.JOIN)
    jobs = [c.submit(1), c.submit(2)]
    for ticket in range(12):
        job = data.draw(st.sampled_from(jobs))
        what = data.draw(st.sampled_from(["spawn", "over", "vacate", "end", "lose", "join"]))
        running = job.state in (JobState.STARTING, JobState.RUNNING)
        pool = c.scheduler.state.processors
        if what == "spawn" and running:
            idle = c.scheduler.state.idle
            actions = c.do(wanted(job, data.draw(st.integers(1, 4)), ticket))
            given = sum(len(a.processors) for a in actions if isinstance(a, AnswerSpawn))
            assert given == idle - c.scheduler.state.idle
        elif what == "over" and job.spawned:
            over(c, job, Worlds.of(job).started[job.spawned[0]], vacate=False)
        elif what == "vacate" and pool.vacating:
            p = data.draw(st.sampled_from(sorted(pool.vacating)))
            c.do(ev.ProcessorsVacated(pool.vacating[p], (p,)))
        elif what == "end" and running:
            c.do(ev.JobEnded(job.id, job.instance, 0), vacate=False)
        elif what in ("lose", "join"):
            node = data.draw(st.sampled_from(sorted(pool.nodes)))
            c.do(ev.NodeLost(node) if what == "lose" else ev.NodeJoined(node, 1), vacate=False)
    for name in c.scheduler.state.processors.nodes:
        c.do(ev.NodeJoined(name, 1), vacate=False)
    for job in jobs:
        c.do(ev.JobEnded(job.id, job.instance, 0), vacate=False)
        c.do(ev.ProcessorsVacated(job.id))
    assert c.scheduler.state.idle == 6
