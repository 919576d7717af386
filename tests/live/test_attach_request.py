"""The server's part in attaching: what a program is told, and who is ordered what."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dq_client.base import messages as m
from dq_server.core.model.jobs import Job, JobState
from dq_server.core.model.launching import Launching
from tests.live.talking import Talking, ended, held, refusal

HERE, THERE = "machine here", "machine there"


def agent(talk: Talking, name: str, machine: str, *nodes: str) -> None:
    infos = [m.NodeInfo(node, 1, node) for node in nodes or (name,)]
    welcome = talk.say(name, m.AgentHello(m.PROTOCOL, name, infos, machine=machine))
    assert isinstance(welcome, m.Welcome)
    talk.sessions[name] = welcome.session


@pytest.fixture(params=[Launching.JOIN, Launching.MPIEXEC])
def talk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Talking]:
    """Two agents on this machine, one on another, one that takes no ranks in."""
    made = Talking(tmp_path, request.param)
    agent(made, "a", HERE, "a1", "a2")
    agent(made, "b", HERE)
    agent(made, "c", THERE)
    agent(made, "d", "")
    yield made
    made.close()


def asked(request: str, *machines: str, **more: Any) -> m.Attach:
    """Of one rank on each of these machines."""
    names = list(dict.fromkeys(machines))
    submission = m.Submit(request, "job", ["prog"], "/", initial=len(machines), **more)
    pids = [100 + k for k in range(len(machines))]
    return m.Attach(submission, names, [names.index(x) for x in machines], pids)


def attach(talk: Talking, *machines: str, **more: Any) -> tuple[Job, m.Attached]:
    reply = talk.say("user", asked(f"r{talk.count}", *machines, **more))
    assert isinstance(reply, m.Attached), reply
    return talk.state.job(reply.job), reply


def test_the_agents_of_its_machines_take_its_ranks_in(talk: Talking) -> None:
    job, told = attach(talk, THERE, HERE, HERE, env={"X": "1"})
    assert (told.job, told.instance, told.nodes) == (job.id, 1, ["c", "a1", "a2"])
    assert told.agents == {"c": "c", "a1": "a", "a2": "a"}
    assert (told.env["DQ_JOB_ID"], told.env["DQ_GROWTH"]) == (str(job.id), "join")
    assert "X" not in told.env
    (one,), (two,) = talk.orders("c", m.StartRanks), talk.orders("a", m.StartRanks)
    assert one == two
    assert (one.world, one.adopted, one.root) == (0, [100, 101, 102], "c")
    assert (one.programs, one.env["X"]) == ([["prog"]], "1")
    assert one.env["DQ_JOB_KEY"] == told.env["DQ_JOB_KEY"]
    assert not talk.orders("b", m.StartRanks)
    assert job.state is JobState.STARTING
    talk.say("a", m.AppStarted(job.id, 1, 7))
    talk.say("c", m.AppStarted(job.id, 1, 7))
    assert state(job) is JobState.RUNNING
    assert isinstance(talk.rank0(job, m.JobHello(m.PROTOCOL, 3)), m.JobWelcome)


def state(job: Job) -> JobState:
    return job.state


def test_an_answer_that_got_lost_is_given_again(talk: Talking) -> None:
    body = asked("the same", HERE)
    first, again = talk.say("user", body), talk.say("user", body)
    assert first == again
    assert isinstance(first, m.Attached)
    talk.say("a", ended(talk.state.job(first.job), 1))
    assert refusal(talk.say("user", body)) == (
        "refused",
        f"job {first.job}, which it was for a moment, is failed",
    )


def test_a_lost_order_is_given_again_with_the_processes(talk: Talking) -> None:
    job, _ = attach(talk, HERE)
    talk.orders("a", m.StartRanks)
    talk.restart()
    for name, machine, nodes in (("a", HERE, ("a1", "a2")), ("b", HERE, ()), ("c", THERE, ()),
                                 ("d", "", ())):  # fmt: skip
        agent(talk, name, machine, *nodes)
    talk.later(4)
    talk.beat("a")
    (order,) = talk.orders("a", m.StartRanks)
    assert (order.job, order.adopted) == (job.id, [100])


def test_new_ranks_are_started_as_in_any_job(talk: Talking) -> None:
    job, _ = attach(talk, HERE, sizes=m.Sizes([1, 2]))
    talk.say("a", m.AppStarted(job.id, 1, 7))
    talk.orders("a", m.StartRanks)
    talk.say("user", m.Resize(job.id, 2))
    answer = talk.rank0(job, m.RemapPoint(1, 1, 0, 1.0))
    assert isinstance(answer, m.RemapAnswer)
    (order,) = talk.orders("a", m.StartRanks)
    assert (order.world, order.adopted) == (answer.resize_id, [])


def test_a_kill_reaches_its_agents(talk: Talking) -> None:
    job, _ = attach(talk, HERE)
    talk.say("a", m.AppStarted(job.id, 1, 7))
    talk.say("user", m.Kill(job.id))
    assert [order.job for order in talk.orders("a", m.KillTree)] == [job.id]
    talk.beat("a", held(job, running=True))
    talk.say("a", ended(job, 143))
    assert state(job) is JobState.KILLED


@pytest.mark.parametrize(
    ("machines", "why"),
    [
        ((HERE, "elsewhere"), "no agent on the machine of rank 1 takes in its ranks"),
        (("",), "no agent on the machine of rank 0 takes in its ranks"),
        ((THERE, THERE), "its 2 ranks run on c: 1 idle processors"),
    ],
)
def test_it_may_be_refused(talk: Talking, machines: tuple[str, ...], why: str) -> None:
    assert refusal(talk.say("user", asked("r", *machines))) == ("refused", why)
    assert not talk.state.jobs


def test_what_is_incomplete_is_refused(talk: Talking) -> None:
    submission = m.Submit("r", "job", ["prog"], "/", initial=2)
    for machine_of, pids in (([0], [1, 2]), ([0, 5], [1, 2])):
        body = m.Attach(submission, [HERE], machine_of, pids)
        assert refusal(talk.say("user", body))[0] == "usage"
    assert not talk.state.jobs


def test_a_server_that_goes_down_takes_nobody_in(talk: Talking) -> None:
    talk.server.desk.draining = True
    code, why = refusal(talk.say("user", asked("r", HERE)))
    assert (code, why) == ("refused", "the server is going down and takes no more jobs")
