"""Growth by agents: worlds that join, worlds that are spawned, and those that never come to be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dq_client.base import codec
from dq_client.base import messages as m
from dq_server.core.features.spawning import Spawns
from dq_server.core.model.jobs import Job, JobKind, JobState
from dq_server.core.model.launching import Launching, Worlds
from dq_server.live.orders.reconciliation import REPEAT_AFTER_S
from tests.live.talking import Talking, ended, held, refusal


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talking]:
    """Four agents of a processor each."""
    made = with_agents(tmp_path, Launching.JOIN)
    yield made
    made.close()


@pytest.fixture
def spawning(tmp_path: Path) -> Iterator[Talking]:
    """The same, for jobs that grow by MPI_Comm_spawn."""
    made = with_agents(tmp_path, Launching.SPAWN)
    yield made
    made.close()


def with_agents(root: Path, launching: Launching, **config: Any) -> Talking:
    made = Talking(root, launching, **config)
    for name in ("a", "b", "c", "d"):
        made.agent(name)
    return made


def point(talk: Talking, job: Job, seq: int, done: int = 0, **more: Any) -> m.RemapAnswer:
    """A remap point."""
    body = m.RemapPoint(
        seq=seq,
        processors=more.pop("size", job.size),
        resize_id=done,
        iteration_time_s=1.0,
        **more,
    )
    answer = talk.rank0(job, body)
    assert isinstance(answer, m.RemapAnswer), answer
    return answer


def growing(talk: Talking, size: int = 3, **more: Any) -> tuple[Job, int]:
    """A job on `a` that was just granted an expansion; its id."""
    job = talk.submit(1, 3, **more)
    talk.say("a", m.AppStarted(job.id, 1, 7))
    talk.say("user", m.Resize(job.id, size))
    talk.later(1)
    answer = point(talk, job, 1)
    assert answer.what == "expand"
    return job, answer.resize_id


def state(job: Job) -> JobState:
    return job.state


# --- worlds that join --------------------------------------------------------------------------


def test_the_agents_of_the_new_places_start_a_world_that_joins(talk: Talking) -> None:
    job, world = growing(talk)
    (one,), (two,) = talk.orders("b", m.StartRanks), talk.orders("c", m.StartRanks)
    assert one == two
    assert (one.world, one.root, one.spawned) == (world, "a", False)
    assert [place.node for place in one.places] == ["b", "c"]
    (first,) = talk.orders("a", m.StartRanks)
    assert first.world == 0
    told = codec.welcome_of(one.env.pop("DQ_WELCOME"))
    assert [place.node for place in told.places] == ["a", "b", "c"]
    assert told.rows * told.cols == 3
    assert (one.programs, one.cwd, one.env) == (first.programs, first.cwd, first.env)
    assert not talk.orders("d", m.StartRanks)
    assert job.reserved == (1, 2)


@pytest.mark.parametrize("launching", [Launching.JOIN, Launching.SPAWN])
def test_ranks_that_come_later_write_like_the_first_ones(
    tmp_path: Path, launching: Launching
) -> None:
    talk = with_agents(tmp_path, launching)
    job, world = growing(talk, label=True, exec_only=True, output="/o/%j", error="/e/%j")
    if launching is Launching.SPAWN:
        talk.say("a", spawn(job, 2, world=world))
    (first,), (later,) = talk.orders("a", m.StartRanks), talk.orders("b", m.StartRanks)
    for order in (first, later):
        assert (order.job, order.instance, order.root) == (job.id, 1, "a")
        assert (order.label, order.exec_only) == (True, True)
        assert (order.out, order.err) == (f"/o/{job.id}", f"/e/{job.id}")
    talk.close()


def test_a_shrink_starts_no_ranks(talk: Talking) -> None:
    job = talk.submit(3, 1)
    talk.say("a", m.AppStarted(job.id, 1, 7))
    talk.say("user", m.Resize(job.id, 1))
    for name in ("a", "b", "c"):
        talk.orders(name, m.StartRanks)
    assert point(talk, job, 1).what == "shrink"
    assert [talk.orders(name, m.StartRanks) for name in ("a", "b", "c")] == [[], [], []]


def test_a_repeated_remap_point_repeats_the_order(talk: Talking) -> None:
    job, world = growing(talk)
    talk.orders("b", m.StartRanks)
    assert point(talk, job, 1).resize_id == world
    assert [order.world for order in talk.orders("b", m.StartRanks)] == [world]


def test_an_order_that_was_lost_is_given_again_to_who_has_no_such_world(talk: Talking) -> None:
    job, world = growing(talk)
    for name in ("b", "c"):
        talk.orders(name, m.StartRanks)
    talk.beat("b")
    assert not talk.orders("b", m.StartRanks), "it may still be under way"
    talk.later(REPEAT_AFTER_S)
    talk.beat("a", held(job))
    talk.beat("b")
    talk.beat("c", held(job, world))
    talk.beat("d")
    assert [order.world for order in talk.orders("b", m.StartRanks)] == [world]
    for name in ("c", "d"):
        assert not talk.orders(name, m.StartRanks)
    assert [order.world for order in talk.orders("a", m.StartRanks)] == [0]


def test_a_server_that_starts_again_knows_what_it_has_ordered(talk: Talking) -> None:
    job, world = growing(talk)
    talk.restart()
    for name in ("a", "b", "c", "d"):
        talk.agent(name)
    talk.later(REPEAT_AFTER_S)
    talk.beat("c")
    assert [order.world for order in talk.orders("c", m.StartRanks)][-1] == world
    talk.rank0(talk.state.job(job.id), m.Committed(world, 0.1))
    job = talk.state.job(job.id)
    assert Worlds.of(job).started == {1: world, 2: world}


def test_ranks_that_joined_are_missed_like_those_of_the_start(talk: Talking) -> None:
    job, world = growing(talk)
    talk.rank0(job, m.Committed(world, 0.1))
    talk.beat("b")
    assert job.state is JobState.RUNNING, "its heartbeat may be older than the ranks"
    talk.later(REPEAT_AFTER_S)
    talk.beat("b")
    assert state(job) is JobState.FAILED


def test_what_is_reserved_is_not_missed(talk: Talking) -> None:
    job, _ = growing(talk)
    talk.later(REPEAT_AFTER_S)
    talk.beat("b")
    assert job.state is JobState.RUNNING


def test_an_end_that_was_said_before_a_world_joined_does_not_count_for_it(talk: Talking) -> None:
    """Its node had left the job. The agent starts the new ranks once that end is understood."""
    job, world = growing(talk)
    assert isinstance(talk.say("b", ended(job)), m.Done)
    talk.rank0(job, m.Committed(world, 0.1))
    talk.say("a", ended(job))
    assert refusal(talk.say("c", ended(job, world=world))) == (
        "later",
        f"job {job.id} has not ended on b",
    )
    assert job.state is JobState.RUNNING
    talk.say("b", ended(job, world=world))
    assert state(job) is JobState.DONE


def test_the_end_does_not_wait_for_a_world_that_has_not_joined(talk: Talking) -> None:
    job, _ = growing(talk)
    talk.say("a", ended(job))
    assert job.state is JobState.DONE
    for name in ("b", "c"):
        (order,) = talk.orders(name, m.Vacate)
        assert (order.pids, order.world) == ([], -1)


# --- worlds that do not come to be -------------------------------------------------------------


def test_an_aborted_expansion_ends_its_world_before_the_processors_are_granted_again(
    talk: Talking,
) -> None:
    job, world = growing(talk)
    talk.rank0(job, m.Aborted(world, "no luck"))
    assert talk.state.processors.vacating == {1: job.id, 2: job.id}
    for name, p in (("b", 1), ("c", 2)):
        (order,) = talk.orders(name, m.Vacate)
        assert (order.job, order.processors, order.pids, order.world) == (job.id, [p], [], world)
    talk.say("b", m.Vacated(job.id, 1, [1]))
    assert talk.state.processors.idle == [1, 3]
    talk.beat("c", held(job, world))
    assert [order.world for order in talk.orders("c", m.Vacate)] == [world], "asked again"
    talk.restart()
    for name in ("a", "b", "c", "d"):
        talk.agent(name)
    talk.beat("c", held(job, world))
    assert [order.world for order in talk.orders("c", m.Vacate)][-1] == world, "and so on"
    talk.say("c", m.Vacated(job.id, 1, [2]))
    assert talk.state.processors.idle == [1, 2, 3]
    assert not Worlds.of(talk.state.job(job.id)).ending


def test_an_abort_that_got_lost_is_made_up_for(talk: Talking) -> None:
    job, world = growing(talk)
    answer = point(talk, job, 2)
    assert answer.resize_id != world
    assert [order.world for order in talk.orders("b", m.Vacate)] == [world]


def test_a_node_that_was_lost_with_a_world_that_shall_end_comes_back_without_it(
    talk: Talking,
) -> None:
    job, world = growing(talk)
    talk.rank0(job, m.Aborted(world, "no luck"))
    talk.server.lose("b", "cut off")
    assert job.state is JobState.RUNNING, "it is the job's no more"
    talk.orders("b", m.Vacate)
    talk.agent("b")
    talk.beat("b", held(job, world))
    assert 1 not in talk.state.processors.idle
    assert [order.world for order in talk.orders("b", m.Vacate)][-1] == world
    talk.say("b", m.Vacated(job.id, 1, [1]))
    assert 1 in talk.state.processors.idle


def test_a_shrink_names_those_who_leave_as_before(talk: Talking) -> None:
    job, world = growing(talk)
    talk.rank0(job, m.Committed(world, 0.1))
    talk.say("user", m.Resize(job.id, 1))
    talk.later(1)
    answer = point(talk, job, 2, done=world)
    assert answer.what == "shrink"
    for name in ("b", "c"):
        talk.orders(name, m.Vacate)
    talk.rank0(job, m.Committed(answer.resize_id, 0.1, [101, 102]))
    assert [order.pids for order in talk.orders("b", m.Vacate)] == [[101]]
    assert [order.pids for order in talk.orders("c", m.Vacate)] == [[102]]
    assert Worlds.of(job).started == {}
    assert isinstance(talk.say("b", ended(job, world=world)), m.Done), "no part of it any more"
    assert job.state is JobState.RUNNING
    talk.say("a", ended(job))
    assert state(job) is JobState.DONE


def test_the_first_node_may_leave(tmp_path: Path) -> None:
    talk = with_agents(tmp_path, Launching.JOIN)
    job = talk.submit(3, kind="evolving")
    for name in ("a", "b", "c"):
        talk.say(name, m.AppStarted(job.id, 1, 7))
    assert isinstance(talk.rank0(job, m.DynamicRelease(request=1, processors=[0])), m.DynamicAnswer)
    answer = point(talk, job, 1)
    assert [place.node for place in answer.places] == ["a"]
    talk.rank0(job, m.Committed(answer.resize_id, 0.1, [101]))
    talk.say("a", m.Vacated(job.id, 1, [0]))
    assert isinstance(talk.say("a", ended(job)), m.Done)
    talk.server.lose("a", "unplugged")
    assert job.state is JobState.RUNNING, "it has nothing there"
    talk.say("c", ended(job))
    talk.say("b", ended(job))
    assert job.end_s is not None
    talk.close()


# --- growth by spawn ---------------------------------------------------------------------------


def spawn(job: Job, count: int, *, world: int = 0, ticket: int = 1) -> m.SpawnRanks:
    return m.SpawnRanks(
        job=job.id,
        instance=job.instance,
        ticket=ticket,
        world=world,
        programs=[["prog", "child"]],
        program_of=[0] * count,
        cwd="/there",
        keys={"PARENT_ROOT_PORT_NAME": "port"},
    )


def test_an_expansion_by_spawn_is_ordered_when_a_rank_spawns_it(spawning: Talking) -> None:
    talk = spawning
    job, world = growing(talk)
    assert not talk.orders("b", m.StartRanks), "nobody has spawned yet"
    assert isinstance(talk.say("a", spawn(job, 2, world=world)), m.Done)
    (order,) = talk.orders("b", m.StartRanks)
    assert (order.world, order.spawned, order.cwd) == (world, True, "/there")
    assert order.keys == {"PARENT_ROOT_PORT_NAME": "port"}
    assert (order.programs, order.program_of) == ([["prog", "child"]], [0, 0])
    assert order.env["DQ_GROWTH"] == "spawn"
    talk.say("a", spawn(job, 2, world=world))
    assert len(talk.orders("b", m.StartRanks)) == 1, "asked again, ordered again"
    talk.later(REPEAT_AFTER_S)
    talk.beat("b")
    assert len(talk.orders("b", m.StartRanks)) == 1
    talk.beat("b", held(job, world))
    assert not talk.orders("b", m.StartRanks)
    talk.rank0(job, m.Committed(world, 0.1))
    assert not Spawns.of(job).worlds
    assert Worlds.of(job).started == {1: world, 2: world}


@pytest.mark.parametrize(
    ("count", "other", "words"),
    [(1, 0, "1 ranks are spawned on 2 processors"), (2, 1, "is not being expanded by")],
)
def test_a_spawn_that_is_not_the_granted_expansion_is_refused(
    spawning: Talking, count: int, other: int, words: str
) -> None:
    job, world = growing(spawning)
    code, text = refusal(spawning.say("a", spawn(job, count, world=world + other)))
    assert code == "refused"
    assert words in text


def test_no_rank_spawns_what_the_agents_start(talk: Talking) -> None:
    job, world = growing(talk)
    code, text = refusal(talk.say("a", spawn(job, 2, world=world)))
    assert (code, text) == (
        "refused",
        f"the agents start the new ranks of job {job.id}, no rank does",
    )


# --- what the program spawns -------------------------------------------------------------------


def test_a_program_that_spawns_gets_idle_processors(talk: Talking) -> None:
    job = talk.submit(1)
    assert isinstance(talk.say("a", spawn(job, 2)), m.Done)
    (one,), (two,) = talk.orders("b", m.StartRanks), talk.orders("c", m.StartRanks)
    assert one == two
    assert one.world > 0
    assert one.spawned
    assert (job.allocation, job.spawned) == ([0], (1, 2))
    view = talk.say("user", m.JobQuery(job.id))
    assert isinstance(view, m.Data)
    assert view.data["spawned"] == [1, 2]
    talk.later(REPEAT_AFTER_S)
    talk.beat("b")
    assert [order.world for order in talk.orders("b", m.StartRanks)] == [one.world]


def test_the_same_ticket_gets_the_same_answer(talk: Talking) -> None:
    job = talk.submit(1)
    assert refusal(talk.say("a", spawn(job, 4)))[1] == "4 processors asked for, 3 idle"
    other = talk.submit(1)
    talk.say("user", m.Kill(other.id))
    talk.say("a", spawn(job, 2, ticket=2))
    talk.say("a", spawn(job, 2, ticket=2))
    assert len(job.spawned) == 2
    assert refusal(talk.say("a", spawn(job, 4)))[1] == "4 processors asked for, 3 idle"


def test_the_end_of_a_spawned_world_gives_its_processors_back(talk: Talking) -> None:
    job = talk.submit(1)
    talk.say("a", spawn(job, 2))
    (order,) = talk.orders("b", m.StartRanks)
    over = m.WorldEnded(job.id, 1, order.world)
    assert refusal(talk.say("b", over)) == ("later", "the ranks on c have not ended")
    assert isinstance(talk.say("c", over), m.Done)
    assert job.spawned == ()
    assert isinstance(talk.say("b", over), m.Done)
    for name, p in (("b", 1), ("c", 2)):
        (vacate,) = talk.orders(name, m.Vacate)
        assert vacate.world == order.world
        talk.say(name, m.Vacated(job.id, 1, [p]))
    assert talk.state.processors.idle == [1, 2, 3]
    talk.say("a", m.AppStarted(job.id, 1, 7))
    talk.say("a", ended(job))
    assert job.state is JobState.DONE


def test_a_job_ends_when_what_it_has_spawned_has_ended(talk: Talking) -> None:
    job = talk.submit(1)
    talk.say("a", spawn(job, 1))
    (order,) = talk.orders("b", m.StartRanks)
    assert refusal(talk.say("a", ended(job)))[0] == "later"
    assert refusal(talk.say("b", ended(job)))[0] == "later", "not of that world"
    assert isinstance(talk.say("b", ended(job, world=order.world)), m.Done)
    assert job.state is JobState.DONE


def test_a_spawned_rank_that_fails_ends_the_job(talk: Talking) -> None:
    job = talk.submit(1)
    talk.say("a", spawn(job, 1))
    talk.say("b", ended(job, 139, "rank 0 on b: signal 11", world=1))
    assert job.state is JobState.FAILED


def test_an_agent_that_the_job_has_left_may_still_tell_of_a_failure(talk: Talking) -> None:
    """It was ordered to start ranks: what became of them is its to say."""
    job = talk.submit(1)
    talk.say("a", spawn(job, 1))
    talk.say("b", m.WorldEnded(job.id, 1, 1))
    talk.say("b", m.Vacated(job.id, 1, [1]))
    assert isinstance(talk.say("b", ended(job, 139, "rank 0 on b: signal 11", world=1)), m.Done)
    assert job.state is JobState.FAILED


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("malleable", "a malleable job is resized by the scheduler: use the resize library"),
        ("evolving", "the job has asked for another size, or is being resized"),
    ],
)
def test_a_job_whose_size_changes_otherwise_is_refused(
    talk: Talking, kind: str, words: str
) -> None:
    job = talk.submit(1, 2, kind=kind)
    talk.say("a", m.AppStarted(job.id, 1, 7))
    if kind == JobKind.EVOLVING:
        talk.rank0(job, m.DynamicRequest(request=1, more=1))
    code, text = refusal(talk.say("a", spawn(job, 1)))
    assert code == "refused"
    assert text.startswith(words)


@pytest.mark.parametrize("program", [1, 7])
def test_a_rank_of_a_program_that_is_not_there_is_refused(talk: Talking, program: int) -> None:
    job = talk.submit(1)
    body = m.SpawnRanks(
        job=job.id, instance=1, ticket=1, world=0, programs=[["p"]], program_of=[0, program]
    )
    assert refusal(talk.say("a", body))[0] == "refused"
    assert not job.spawned


# --- what keepers say to one another -----------------------------------------------------------


def relay(job: Job, node: str, **more: Any) -> m.Relay:
    return m.Relay(job=job.id, instance=more.get("instance", job.instance), node=node, data=b"x")


def test_keepers_of_a_job_reach_one_another(talk: Talking) -> None:
    job = talk.submit(2)
    assert isinstance(talk.say("a", relay(job, "b")), m.Done)
    assert talk.orders("b", m.Relayed) == [m.Relayed(job=job.id, instance=1, node="a", data=b"x")]


def test_keepers_of_what_is_reserved_and_of_what_leaves_do_too(talk: Talking) -> None:
    job, world = growing(talk)
    assert isinstance(talk.say("c", relay(job, "a")), m.Done)
    assert [order.node for order in talk.orders("a", m.Relayed)] == ["c"]
    talk.rank0(job, m.Aborted(world, "no luck"))
    assert isinstance(talk.say("a", relay(job, "c")), m.Done)


@pytest.mark.parametrize(
    ("who", "node", "words"),
    [
        ("c", "a", "has nothing on the nodes of agent c"),
        ("a", "c", "has nothing on node c"),
        ("a", "nowhere", "has nothing on node nowhere"),
    ],
)
def test_nobody_else_is_reached(talk: Talking, who: str, node: str, words: str) -> None:
    job = talk.submit(2)
    code, text = refusal(talk.say(who, relay(job, node)))
    assert code == "refused"
    assert words in text


def test_an_agent_that_is_away_is_reached_later(talk: Talking) -> None:
    job = talk.submit(2)
    talk.server.agents.forget(talk.server.agents.by_name["b"])
    assert refusal(talk.say("a", relay(job, "b"))) == ("later", "the agent of b is away")


def test_nothing_is_relayed_for_a_start_that_is_over(talk: Talking) -> None:
    job = talk.submit(2)
    assert refusal(talk.say("a", relay(job, "b", instance=0)))[0] == "refused"
    talk.say("user", m.Kill(job.id))
    assert refusal(talk.say("a", relay(job, "b")))[0] == "refused"
