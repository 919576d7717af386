"""The server's part in starting and ending ranks by agents (docs/ranks.md): who is ordered what."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dq_client.base import messages as m
from dq_server.core.model.jobs import Job, JobState
from dq_server.core.model.launching import Launching, Worlds
from dq_server.live.orders.reconciliation import REPEAT_AFTER_S
from tests.live.talking import Talking, ended, held, refusal, running


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talking]:
    """Three agents of a processor each."""
    made = Talking(tmp_path)
    for name in ("a", "b", "c"):
        made.agent(name)
    yield made
    made.close()


def state(job: Job) -> JobState:
    return job.state


# --- the start ---------------------------------------------------------------------------------


def test_every_agent_with_a_place_gets_the_same_order_and_nobody_else(talk: Talking) -> None:
    job = talk.submit(2, env={"X": "1"})
    (one,), (two,) = talk.orders("a", m.StartRanks), talk.orders("b", m.StartRanks)
    assert one == two
    assert (one.job, one.instance, one.world, one.root) == (job.id, 1, 0, "a")
    assert [place.node for place in one.places] == ["a", "b"]
    assert (one.programs, one.program_of, one.cwd, one.env["X"]) == ([["prog"]], [], "/", "1")
    assert (one.env["DQ_LAUNCHER_KIND"], one.env["DQ_GROWTH"]) == ("dq", "join")
    assert not talk.orders("c", m.StartRanks)
    assert not talk.orders("a", m.Launch)


def test_an_agent_of_many_nodes_gets_one_order(tmp_path: Path) -> None:
    talk = Talking(tmp_path)
    talk.agent("local", *[f"n{i}" for i in range(8)])
    job = talk.submit(8)
    assert len(talk.orders("local", m.StartRanks)) == 1
    assert isinstance(talk.say("local", m.AppStarted(job.id, 1, 7)), m.Done)
    assert job.state is JobState.RUNNING
    messages = len(talk.sent)
    talk.say("local", ended(job))
    assert state(job) is JobState.DONE
    assert len(talk.sent) == messages + 2, "the answer, and one Vacate"
    talk.close()


def test_mpiexec_is_launched_on_the_first_node_as_before(tmp_path: Path) -> None:
    talk = Talking(tmp_path, Launching.MPIEXEC)
    talk.agent("a")
    talk.agent("b")
    job = talk.submit(2)
    (order,) = talk.orders("a", m.Launch)
    assert (order.env["DQ_LAUNCHER_KIND"], order.env["DQ_GROWTH"]) == ("mpiexec", "join")
    assert not talk.orders("b", m.Launch)
    assert not talk.orders("a", m.StartRanks)
    assert refusal(talk.say("b", m.AppStarted(job.id, 1, 7)))[0] == "refused"
    assert isinstance(talk.say("a", m.AppStarted(job.id, 1, 7)), m.Done)
    assert state(job) is JobState.RUNNING
    talk.close()


def test_a_job_runs_when_it_runs_everywhere(talk: Talking) -> None:
    job = talk.submit(2)
    assert refusal(talk.say("b", m.AppStarted(job.id, 1, 7))) == (
        "later",
        f"job {job.id} does not run on a yet",
    )
    assert job.state is JobState.STARTING
    assert isinstance(talk.say("a", m.AppStarted(job.id, 1, 7)), m.Done)
    assert state(job) is JobState.RUNNING
    assert isinstance(talk.say("b", m.AppStarted(job.id, 1, 7)), m.Done)


def test_a_heartbeat_says_as_much_as_the_word_that_was_lost(talk: Talking) -> None:
    job = talk.submit(2)
    talk.beat("a", held(job))
    assert job.state is JobState.STARTING
    talk.beat("b", held(job))
    assert state(job) is JobState.RUNNING


def test_an_agent_whose_order_was_lost_gets_it_again(talk: Talking) -> None:
    job = talk.submit(2)
    talk.orders("a", m.StartRanks), talk.orders("b", m.StartRanks)
    talk.say("a", m.AppStarted(job.id, 1, 7))
    talk.beat("b")
    assert not talk.orders("b", m.StartRanks), "it may still be under way"
    talk.later(REPEAT_AFTER_S)
    talk.beat("a", held(job))
    talk.beat("b")
    assert len(talk.orders("b", m.StartRanks)) == 1
    assert not talk.orders("a", m.StartRanks)
    assert job.state is JobState.STARTING


def test_an_agent_that_was_away_at_the_start_gets_the_order_when_it_reports(
    tmp_path: Path,
) -> None:
    talk = Talking(tmp_path)
    talk.agent("a")
    talk.agent("b")
    talk.server.agents.forget(talk.server.agents.by_name["b"])
    job = talk.submit(2)
    assert len(talk.orders("a", m.StartRanks)) == 1
    talk.agent("b")
    talk.later(REPEAT_AFTER_S)
    talk.beat("b")
    assert [order.job for order in talk.orders("b", m.StartRanks)] == [job.id]
    talk.close()


def test_an_agent_that_lost_the_ranks_of_a_running_job_ends_it(talk: Talking) -> None:
    job = running(talk, "a", "b")
    talk.later(REPEAT_AFTER_S)
    talk.beat("a", held(job))
    assert job.state is JobState.RUNNING
    talk.beat("b")
    assert (state(job), job.exit_code) == (JobState.FAILED, -9)
    assert job.end_reason is not None
    assert "agent b has lost the job's processes" in job.end_reason.text


def test_a_stranger_may_say_nothing_of_a_job(talk: Talking) -> None:
    job = talk.submit(2)
    for body in (
        m.AppStarted(job.id, 1, 7),
        ended(job, 1),
        ended(job, 0, "lost"),
        m.Relay(job=job.id, instance=1, node="a", data=b"x"),
        m.SpawnRanks(job=job.id, instance=1, ticket=1, world=0, programs=[["p"]], program_of=[0]),
    ):
        code, text = refusal(talk.say("c", body))
        assert code == "refused"
        assert text == f"job {job.id} has nothing on the nodes of agent c"
    assert job.state is JobState.STARTING


def test_who_has_not_reported_is_told_to(talk: Talking) -> None:
    job = running(talk, "a")
    for body in (
        m.AppStarted(job.id, 1, 7),
        ended(job),
        m.Relay(job=job.id, instance=1, node="a", data=b"x"),
        m.WorldEnded(job.id, 1, 3),
        m.SpawnRanks(job=job.id, instance=1, ticket=1, world=0, programs=[["p"]], program_of=[0]),
    ):
        assert refusal(talk.say("x", body))[0] == "later"


# --- the end -----------------------------------------------------------------------------------


def test_a_job_is_done_when_the_ranks_on_all_of_its_nodes_have_ended(talk: Talking) -> None:
    job = running(talk, "a", "b", "c")
    for name, missing in (("c", "a"), ("a", "b"), ("c", "b")):
        text = f"job {job.id} has not ended on {missing}"
        assert refusal(talk.say(name, ended(job))) == ("later", text)
        assert job.state is JobState.RUNNING
    assert isinstance(talk.say("b", ended(job)), m.Done)
    assert state(job) is JobState.DONE
    assert isinstance(talk.say("a", ended(job)), m.Done), "said again, it is acknowledged"


def test_a_server_that_starts_again_hears_of_all_ends_once_more(talk: Talking) -> None:
    job = running(talk, "a", "b")
    assert refusal(talk.say("a", ended(job)))[0] == "later"
    talk.restart()
    talk.agent("a")
    talk.agent("b")
    job = talk.state.job(job.id)
    assert refusal(talk.say("b", ended(job)))[0] == "later"
    assert isinstance(talk.say("a", ended(job)), m.Done)
    assert job.state is JobState.DONE


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"code": 3}, "exit code 3"),
        ({"code": 139, "error": "rank 1 on b: signal 11"}, "rank 1 on b: signal 11"),
    ],
)
def test_a_failure_needs_one_word_only(talk: Talking, body: dict[str, str], words: str) -> None:
    job = running(talk, "a", "b", "c")
    talk.say("a", ended(job))
    assert isinstance(talk.say("b", ended(job, **body)), m.Done)  # type: ignore[arg-type]
    assert state(job) is JobState.FAILED
    assert job.end_reason is not None
    assert words in job.end_reason.text
    for name in ("a", "b", "c"):
        (order,) = talk.orders(name, m.Vacate)
        assert (order.pids, order.world) == ([], -1), "all that is left of it ends"
    assert isinstance(talk.say("c", ended(job, 137)), m.Done), "acknowledged, and changes nothing"
    assert words in job.end_reason.text


def test_ranks_that_cannot_be_started_end_the_job(talk: Talking) -> None:
    job = talk.submit(2)
    talk.say("a", m.AppStarted(job.id, 1, 7))
    talk.say("b", ended(job, 127, "no such program: prog"))
    assert job.state is JobState.FAILED
    assert job.end_reason is not None
    assert job.end_reason.text == "could not be started: no such program: prog"


def test_what_is_said_of_another_start_is_acknowledged_and_changes_nothing(talk: Talking) -> None:
    job = running(talk, "a", "b")
    old = m.AppEnded(job=job.id, instance=0, exit_code=1)
    assert isinstance(talk.say("a", old), m.Done)
    assert job.state is JobState.RUNNING


def test_a_job_that_is_being_killed_ends_with_the_first_word(talk: Talking) -> None:
    job = running(talk, "a", "b")
    talk.say("user", m.Kill(job.id))
    assert len(talk.orders("a", m.KillTree)) == len(talk.orders("b", m.KillTree)) == 1
    assert isinstance(talk.say("b", ended(job, 137)), m.Done)
    assert state(job) is JobState.KILLED
    assert talk.state.processors.vacating == {0: job.id, 1: job.id}, "until they are empty"


def test_an_agent_that_never_started_a_killed_job_says_so_by_its_heartbeat(talk: Talking) -> None:
    job = talk.submit(2)
    talk.say("user", m.Kill(job.id))
    talk.beat("b")
    assert (job.state, job.exit_code) == (JobState.KILLED, -9)


def test_a_kill_that_was_lost_is_ordered_again(talk: Talking) -> None:
    job = running(talk, "a", "b")
    talk.say("user", m.Kill(job.id))
    talk.orders("b", m.KillTree)
    talk.beat("b", held(job))
    assert len(talk.orders("b", m.KillTree)) == 1


# --- losses ------------------------------------------------------------------------------------


def test_the_first_node_is_like_any_other(talk: Talking) -> None:
    """The job is killed on the others, and ends when one of them says so."""
    job = running(talk, "a", "b")
    talk.server.lose("a", "unplugged")
    talk.server.finish_turn()
    assert job.state is JobState.KILLING
    assert len(talk.orders("b", m.KillTree)) == 1
    talk.say("b", ended(job, 137))
    assert state(job) is JobState.FAILED


def test_a_job_whose_nodes_are_all_lost_has_nobody_to_report_its_end(talk: Talking) -> None:
    job = running(talk, "a", "b")
    talk.server.lose("b", "unplugged")
    assert job.state is JobState.KILLING
    talk.server.lose("a", "unplugged")
    assert state(job) is JobState.FAILED


# --- another launcher --------------------------------------------------------------------------


def test_a_job_keeps_the_launcher_that_it_was_started_by(talk: Talking) -> None:
    job = running(talk, "a", "b")
    talk.restart(Launching.MPIEXEC)
    for name in ("a", "b", "c"):
        talk.agent(name)
    job, other = talk.state.job(job.id), talk.submit(1)
    assert len(talk.orders("c", m.Launch)) == 1
    assert refusal(talk.say("b", ended(job)))[0] == "later"
    talk.say("a", ended(job))
    assert job.state is JobState.DONE
    assert other.launching is Launching.MPIEXEC


def test_the_status_names_the_launcher(talk: Talking) -> None:
    status = talk.say("user", m.StatusQuery())
    assert isinstance(status, m.Data)
    assert (status.data["launcher"], status.data["growth"]) == ("dq", "join")


# --- several programs, input, labels -----------------------------------------------------------


def test_several_programs_reach_the_agents_rank_by_rank(talk: Talking) -> None:
    parts = [m.Part(2, ["prog", "a"]), m.Part(1, ["other"])]
    talk.submit(3, parts=parts, input="/data/in", label=True)
    (order,) = talk.orders("b", m.StartRanks)
    assert order.programs == [["prog", "a"], ["other"]]
    assert order.program_of == [0, 0, 1]
    assert (order.input, order.label) == ("/data/in", True)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"parts": [m.Part(2, ["prog"])]}, "the programs have 2 ranks, the job 3"),
        ({"parts": [m.Part(3, ["p\0"])]}, "a NUL character"),
        ({"input": "in.txt"}, "the path of the standard input must be absolute: 'in.txt'"),
        ({"input": "/in\0"}, "a NUL character"),
    ],
)
def test_what_contradicts_itself_is_refused(
    talk: Talking, more: dict[str, str], words: str
) -> None:
    body = m.Submit(
        request="r",
        name="j",
        argv=["p"],
        cwd="/",
        kind="rigid",
        initial=3,
        **more,  # type: ignore[arg-type]
    )
    code, text = refusal(talk.say("user", body))
    assert code == "refused"
    assert words in text


def test_several_programs_are_rigid(talk: Talking) -> None:
    sizes = m.Sizes(listed=[1, 3])
    body = m.Submit(
        request="r", name="j", argv=["p"], cwd="/", sizes=sizes, parts=[m.Part(1, ["p"])]
    )
    assert refusal(talk.say("user", body)) == (
        "refused",
        "a job of several programs is rigid, not malleable",
    )


@pytest.mark.parametrize(
    ("more", "option"),
    [
        ({"input": "/in"}, "--input"),
        ({"label": True}, "--label"),
        ({"parts": [m.Part(1, ["p"])]}, "--mpmd"),
    ],
)
def test_mpiexec_has_none_of_these(tmp_path: Path, more: dict[str, str], option: str) -> None:
    talk = Talking(tmp_path, Launching.MPIEXEC)
    talk.agent("a")
    body = m.Submit(
        request="r",
        name="j",
        argv=["p"],
        cwd="/",
        kind="rigid",
        initial=1,
        **more,  # type: ignore[arg-type]
    )
    assert refusal(talk.say("user", body)) == (
        "refused",
        f'{option} needs launcher = "dq", this server has "mpiexec"',
    )
    talk.close()


def test_a_queued_job_of_several_programs_fails_under_a_server_with_mpiexec(
    talk: Talking,
) -> None:
    first = running(talk, "a", "b", "c")
    queued = talk.submit(2, parts=[m.Part(2, ["p"])])
    talk.restart(Launching.MPIEXEC)
    for name in ("a", "b", "c"):
        talk.agent(name)
    first, queued = talk.state.job(first.id), talk.state.job(queued.id)
    talk.say("a", ended(first, 1))
    for name in ("a", "b", "c"):
        for order in talk.orders(name, m.Vacate):
            talk.say(name, m.Vacated(first.id, 1, order.processors))
    assert queued.state is JobState.FAILED
    assert queued.end_reason is not None
    assert queued.end_reason.text.endswith(
        '--mpmd needs launcher = "dq", this server has "mpiexec"'
    )


# --- workers, keys -------------------------------------------------------------------------------


def crew(talk: Talking, **more: Any) -> Job:
    """Of one or two workers."""
    how, sizes = m.Workers(stop_signal=12, grace_s=3.0), m.Sizes(min=1, max=2)
    words: Any = {"request": "crew", "name": "crew", "argv": ["prog"], "cwd": "/"}
    reply = talk.say("user", m.Submit(**words, kind="workers", sizes=sizes, workers=how, **more))
    assert isinstance(reply, m.Submitted), reply
    return talk.state.job(reply.job)


def test_each_worker_is_a_world_of_its_own_without_a_server(talk: Talking) -> None:
    job = crew(talk)
    (one,), (two,) = talk.orders("a", m.StartRanks), talk.orders("b", m.StartRanks)
    assert one.world != two.world
    for order, node in ((one, "a"), (two, "b")):
        assert [place.node for place in order.places] == [node]
        assert (order.worker, order.spawned, order.exec_only) == (True, True, True)
        assert order.env["DQ_WORKER"] == str(order.world)
        assert "DQ_SERVER" not in order.env
        assert order.job == job.id


def test_workers_write_where_their_job_says(talk: Talking) -> None:
    job = crew(talk, label=True, output="/o/%j", error="/e/%j", env={"X": "1"})
    for name in ("a", "b"):
        (order,) = talk.orders(name, m.StartRanks)
        assert (order.label, order.out, order.err) == (True, f"/o/{job.id}", f"/e/{job.id}")
        assert (order.programs, order.cwd, order.env["X"]) == ([["prog"]], "/", "1")


def test_a_worker_that_was_lost_or_never_ordered_is_ordered_again(talk: Talking) -> None:
    job = crew(talk)
    (one,), (two,) = talk.orders("a", m.StartRanks), talk.orders("b", m.StartRanks)
    talk.beat("b")
    assert not talk.orders("b", m.StartRanks), "it may still be under way"
    talk.later(REPEAT_AFTER_S)
    talk.beat("a", held(job, one.world))
    talk.beat("b")
    assert not talk.orders("a", m.StartRanks)
    assert [order.world for order in talk.orders("b", m.StartRanks)] == [two.world]


def test_an_agent_whose_workers_have_all_ended_speaks_for_each(talk: Talking) -> None:
    job = crew(talk)
    (one,), (two,) = talk.orders("a", m.StartRanks), talk.orders("b", m.StartRanks)
    for name in ("a", "b"):
        talk.say(name, m.AppStarted(job.id, 1, 7))
    said = m.AppEnded(job=job.id, instance=1, exit_code=0, world=one.world)
    assert isinstance(talk.say("a", said), m.Done)
    assert list(Worlds.of(job).started.values()) == [two.world]
    early = m.AppEnded(job=job.id, instance=1, exit_code=0, world=two.world - 1)
    assert isinstance(talk.say("b", early), m.Done)
    assert state(job) is JobState.RUNNING, "a worker that was ordered since has not ended"


@pytest.mark.parametrize(("own", "action"), [("", "abort"), ("warn", "warn")])
def test_what_the_ranks_are_told_of_their_watch(talk: Talking, own: str, action: str) -> None:
    talk.submit(1, watch=own)
    (order,) = talk.orders("a", m.StartRanks)
    assert order.env["DQ_WATCH"] == action
    assert float(order.env["DQ_WATCH_S"]) > 0


@pytest.mark.parametrize("walltime_s", [None, 100.0])
def test_what_a_program_with_a_recipe_is_told(talk: Talking, walltime_s: float | None) -> None:
    job = talk.submit(1, recipe="{}", protect=m.Protect("recipe"), walltime_s=walltime_s)
    (order,) = talk.orders("a", m.StartRanks)
    told = {key: text for key, text in order.env.items() if key.startswith("DQ_RECIPE")}
    left = {"DQ_RECIPE_LEFT_S": "100.000"} if walltime_s else {}
    words = {"DQ_RECIPE": "{}", "DQ_RECIPE_ID": f"{job.id} {job.spec.request_id}"}
    assert told == words | left
    assert order.exec_only, "a program that is no Python"


@pytest.mark.parametrize("lines", [[], ["x y", "z"]])
def test_what_each_job_of_an_array_is_told(talk: Talking, lines: list[str]) -> None:
    array = m.Array([3, 4], lines=lines)
    words: Any = {"request": "r", "name": "j", "argv": ["p"], "cwd": "/", "kind": "rigid"}
    reply = talk.say("user", m.Submit(**words, initial=1, array=array))
    assert isinstance(reply, m.Submitted), reply
    for k, name in enumerate(("a", "b")):
        (order,) = talk.orders(name, m.StartRanks)
        told = {key: text for key, text in order.env.items() if key.startswith("DQ_ARRAY")}
        line = {"DQ_ARRAY_LINE": lines[k]} if lines else {}
        assert told == {"DQ_ARRAY_ID": str(reply.job), "DQ_ARRAY_INDEX": str(3 + k)} | line


def test_a_worker_that_ended_well_is_no_part_of_the_job_any_more(talk: Talking) -> None:
    job = crew(talk)
    (one,), (two,) = talk.orders("a", m.StartRanks), talk.orders("b", m.StartRanks)
    for name in ("a", "b"):
        talk.say(name, m.AppStarted(job.id, 1, 7))
    assert isinstance(talk.say("a", m.WorldEnded(job.id, 1, one.world)), m.Done)
    assert state(job) is JobState.RUNNING
    talk.say("b", m.WorldEnded(job.id, 1, two.world))
    assert state(job) is JobState.DONE


def test_a_worker_that_shall_leave_has_its_signal_and_its_grace(talk: Talking) -> None:
    job = crew(talk)
    (order,) = talk.orders("b", m.StartRanks)
    for name in ("a", "b"):
        talk.say(name, m.AppStarted(job.id, 1, 7))
    talk.say("user", m.Resize(job.id, 1))
    (end,) = talk.orders("b", m.Vacate)
    assert (end.world, end.stop_signal, end.grace_s) == (order.world, 12, 3.0)
    assert not talk.orders("a", m.Vacate)


def test_the_key_of_a_job_counts_for_nothing_once_it_has_ended(talk: Talking) -> None:
    def known() -> list[int]:
        return [p.job for p in talk.server.access._principals.values() if p.job]

    job = running(talk, "a")
    assert known() == [job.id]
    talk.say("a", ended(job))
    assert known() == []


def test_the_key_of_a_start_counts_for_nothing_in_the_next(talk: Talking) -> None:
    job = talk.submit(1, protect=m.Protect("partner"))
    talk.say("a", m.AppStarted(job.id, 1, 7))
    before = set(talk.server.access._principals)
    talk.server.lose("a", "unplugged")
    talk.server.finish_turn()
    (gone,) = before - set(talk.server.access._principals)
    assert gone
    assert job.instance == 2


# --- mpiexec -------------------------------------------------------------------------------------


@pytest.fixture
def old(tmp_path: Path) -> Iterator[Talking]:
    """Two agents of a server that starts jobs by mpiexec."""
    made = Talking(tmp_path, Launching.MPIEXEC)
    for name in ("a", "b"):
        made.agent(name)
    yield made
    made.close()


def test_a_launch_that_was_lost_is_ordered_again(old: Talking) -> None:
    job = old.submit(2)
    assert len(old.orders("a", m.Launch)) == 1
    old.beat("a")
    assert not old.orders("a", m.Launch), "it may still be under way"
    old.later(REPEAT_AFTER_S)
    old.beat("a", held(job))
    assert not old.orders("a", m.Launch)
    old.beat("a")
    assert [order.job for order in old.orders("a", m.Launch)] == [job.id]


def test_an_agent_that_lost_an_application_ends_the_job(old: Talking) -> None:
    job = old.submit(2)
    old.say("a", m.AppStarted(job.id, 1, 7))
    old.beat("a")
    assert job.state is JobState.RUNNING, "its heartbeat may be older than that"
    old.later(REPEAT_AFTER_S)
    old.beat("b")
    assert state(job) is JobState.RUNNING, "it is not the first node's"
    old.beat("a")
    assert (state(job), job.exit_code) == (JobState.FAILED, -9)
    assert job.end_reason is not None
    assert "agent a has lost the job's processes" in job.end_reason.text


def test_a_killed_application_that_never_started_has_ended(old: Talking) -> None:
    job = old.submit(2)
    old.say("user", m.Kill(job.id))
    old.beat("a", held(job))
    assert job.state is JobState.KILLING
    old.beat("a")
    assert (state(job), job.exit_code) == (JobState.KILLED, -9)
