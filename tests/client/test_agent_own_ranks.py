"""What an agent does about orders to start and end ranks; no process is started."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dq_client.base import messages as m
from dq_client.base.launch import NOT_STARTED
from dq_client.node.agent import own_ranks
from tests.client.keepers_played import Played, Starter, end, order, world

FULL = OSError(28, "No space left on device")


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Played:
    return Played(tmp_path, monkeypatch)


def vacate(number: int, **more: Any) -> m.Vacate:
    return m.Vacate(job=7, instance=2, processors=[1], pids=[], world=number, **more)


# --- orders to start ------------------------------------------------------------------------------


def test_a_keeper_is_made_and_sent_the_world(played: Played) -> None:
    places = [m.RankPlace(3, "n1", "n1"), m.RankPlace(5, "n3", "n3")]
    wanted = order(places=places, gpus=[[0], [2, 4]], input="/in", label=True, adopted=[9])
    played.own.start(wanted)
    (request,) = played.requests
    held = played.context.holdings.trees["7.2"]
    assert (request["folder"], request["nodes"]) == (str(held.folder), ["n1", "n2"])
    marks = {"DQ_AGENT": "a", "DQ_HOME": str(played.home.root)}
    assert request["env"] == marks | {"DQ_JOB_ID": "7", "DQ_JOB_INSTANCE": "2"}
    assert held.record.ranks
    (sent,) = played.sent()
    env = sent.pop("env")
    assert (env["E"], env["DQ_SERVER_KEY"], env["DQ_JOB_ID"]) == ("emulated", "key", "7")
    assert env["OMP_NUM_THREADS"] == "1"
    name = sent.pop("name")
    assert name.startswith("dq_")
    assert name.endswith("_7_2_0")
    assert sent == {
        "do": "start", "world": 0, "programs": [["sh"]], "program_of": [], "cwd": "/",
        "nodes": ["n1", "n3"], "processors": [3, 5], "folder": str(played.home.job(7)),
        "root": "n1", "input": "/in", "label": True, "spawned": False, "joins": False, "keys": {},
        "adopted": [9], "gpus": ["0", "2,4"],
    }  # fmt: skip
    assert played.home.job(7).stat().st_mode & 0o777 == 0o700
    assert played.controls[0].fileno() == -1, "the keeper has its own"


def test_a_worker_is_sent_as_one_and_a_world_that_joins_too(played: Played) -> None:
    played.running()
    played.own.start(order(4))
    played.own.start(order(5, spawned=True, worker=True))
    joins, worker = played.sent()
    assert (joins["joins"], "worker" in joins, "gpus" in joins) == (True, False, False)
    assert (worker["joins"], worker["worker"], worker["spawned"]) == (False, True, True)
    assert len(played.requests) == 1, "one keeper for each start"


def test_names_of_worlds_differ_between_clusters(played: Played) -> None:
    one, other = order(), order(env={"DQ_SERVER_KEY": "other"})
    names = [played.own._name(which) for which in (one, other, order(env={}))]
    assert len(set(names)) == 3
    assert names[0] == played.own._name(order(programs=[["true"]])), "on all nodes the same"
    assert [len(name) for name in names] == [len("dq_") + 12 + len("_7_2_0")] * 3


def test_a_world_is_started_once(played: Played) -> None:
    played.own.start(order())
    played.own.start(order())
    assert len(played.sent()) == 1
    played.says(world())
    played.own.start(order())
    assert played.sent() == []


def test_what_was_closed_is_not_started(played: Played) -> None:
    played.context.closed.close(7, 2)
    played.own.start(order())
    assert (played.requests, played.reports()) == ([], {}), "nobody waits for it"
    played.own.start(order(4, root="n3"))
    assert played.requests == []
    (body,) = played.said
    assert isinstance(body, m.Relay)
    assert (body.job, body.instance, body.node) == (7, 2, "n3")
    assert json.loads(body.data) == {"failed": 4, "why": "on n1: the job was ended here"}


def test_a_spawned_world_that_has_been_is_said_to_be_over(played: Played) -> None:
    played.own.end_world(vacate(4))
    played.own.start(order(4, spawned=True))
    assert played.requests == []
    assert played.reports() == {"world 7.2.4": m.WorldEnded(7, 2, 4)}


def test_a_world_that_was_ended_before_it_was_ordered_is_not_started(played: Played) -> None:
    assert played.own.end_world(vacate(4))
    assert played.own.end_world(vacate(5))
    for number in (4, 5):
        played.own.start(order(number))
    assert played.requests == []
    played.own.start(order(6))
    assert len(played.requests) == 1


def test_only_so_many_instances_of_the_past_are_remembered(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_ranks, "PAST_MAX", 2)
    for job in (1, 2, 3):
        played.own.end_world(m.Vacate(job=job, instance=1, processors=[1], pids=[], world=4))
    assert list(played.own._past) == [(2, 1), (3, 1)]


def test_a_full_disk_starts_nothing_and_fails_only_who_waits(played: Played) -> None:
    played.context.troubles.cannot_start = lambda: "the disk is full"  # type: ignore[method-assign]
    played.own.start(order())
    assert (played.requests, played.reports(), played.said) == ([], {}, [])
    played.own.start(order(4, root="n3"))
    (body,) = played.said
    assert isinstance(body, m.Relay)
    assert json.loads(body.data) == {"failed": 4, "why": "on n1: the disk is full"}


def test_a_program_that_is_not_there_ends_the_job(
    played: Played, caplog: pytest.LogCaptureFixture
) -> None:
    places = [m.RankPlace(n, name, name) for n, name in enumerate(("n3", "n2", "n1", "n2"))]
    played.own.start(order(programs=[["no-such-program"]], places=places))
    why = "on n1, n2: no such program: no-such-program"
    assert end(played.reports()) == (NOT_STARTED, why, 0)
    assert f"job 7.2 cannot be started: {why}" in caplog.text
    assert played.requests == []


def test_a_world_that_cannot_be_started_lets_the_job_go_on(played: Played) -> None:
    played.running()
    played.own.start(order(4, programs=[["no-such-program"]]))
    (sent,) = played.sent()
    why = "on n1: no such program: no-such-program"
    assert sent == {"do": "relayed", "data": {"failed": 4, "why": why}}
    assert played.reports().keys() == {"start 7.2"}


def test_a_keeper_that_cannot_be_made_ends_the_job_and_is_tried_anew(played: Played) -> None:
    played.refuses = FULL
    played.own.start(order())
    code, why, _ = end(played.reports())
    assert (code, why.partition(":")[0]) == (NOT_STARTED, "cannot start a process on n1")
    assert played.context.holdings.trees == {}
    assert played.sent() == []
    played.refuses = None
    played.own.start(order())
    assert len(played.requests) == 1
    assert len(played.sent()) == 1


def test_a_job_whose_folder_cannot_be_made_ends(played: Played) -> None:
    played.home.job(7).parent.touch()
    played.own.start(order())
    assert end(played.reports())[1].startswith("cannot start a process on n1: ")
    assert played.requests == []


# --- starters -------------------------------------------------------------------------------------


@pytest.mark.parametrize("forks", [True, False])
def test_a_starter_makes_the_keeper_if_it_is_there(played: Played, forks: bool) -> None:
    starter = Starter(True, forks=forks)
    played.own.starters.found = starter  # type: ignore[attr-defined]
    played.own.start(order())
    assert len(starter.asked) == 1
    assert len(played.requests) == (not forks)
    assert len(played.context.holdings.children) == (not forks)
    assert len(played.sent()) == 1


@pytest.mark.parametrize("ready", [True, False])
def test_a_starter_that_loads_is_waited_for(played: Played, ready: bool) -> None:
    starter = Starter(None)
    played.own.starters.found = starter  # type: ignore[attr-defined]
    played.own.start(order())
    assert (played.lines, starter.asked) == ([], [])
    (tell,) = starter.waiting
    tell(ready)
    assert (len(starter.asked), len(played.requests)) == (ready, not ready)
    assert [sent["do"] for sent in played.sent()] == ["start"], "it was ordered meanwhile"


def test_a_job_that_was_killed_while_its_starter_loaded_gets_no_keeper(played: Played) -> None:
    starter = Starter(None)
    played.own.starters.found = starter  # type: ignore[attr-defined]
    played.own.start(order())
    played.context.holdings.trees["7.2"].killed = True
    starter.waiting[0](True)
    assert (played.lines, starter.asked) == ([], [])


@pytest.mark.parametrize("more", [{"exec_only": True}, {}])
def test_without_a_starter_the_keeper_is_executed(played: Played, more: dict[str, bool]) -> None:
    starters: Any = played.own.starters
    starters.found = Starter(True) if more else FULL
    played.own.start(order(**more))
    assert len(played.requests) == 1


# --- what else is ordered -------------------------------------------------------------------------


def test_a_world_that_did_not_join_is_ended(played: Played) -> None:
    played.running()
    played.own.start(order(4))
    played.sent()
    assert not played.own.end_world(vacate(4))
    assert played.sent() == [{"do": "end", "world": 4}]
    played.says(world(), world(4, 0, part=False))
    assert played.own.end_world(vacate(4))
    assert played.own.end_world(vacate(5)), "it never was here"
    played.own.start(order(5))
    assert played.sent() == []


def test_a_keeper_goes_when_all_its_worlds_have_waited_in_vain(played: Played) -> None:
    played.own.start(order(4))
    played.says(world(4, part=False))
    assert not played.own.end_world(vacate(4))
    played.own.start(order(5))
    played.says(world(4, 0, part=False))
    assert {"do": "leave"} not in played.sent(), "another world is to come"
    played.says(world(4, 0, part=False), world(5, 0, part=False))
    assert played.sent() == [{"do": "leave"}]
    played.own.start(order(6))
    assert played.sent() == [], "the next keeper is to have it"
    played.dies()
    assert [line["world"] for line in played.sent()] == [6] and len(played.requests) == 2
    assert "end 7.2" not in played.reports(), "there is no end to report"


@pytest.mark.parametrize("more", [{"part": True}, {"part": False, "spawned": True}])
def test_a_keeper_of_ranks_that_joined_or_were_spawned_stays(
    played: Played, more: dict[str, bool]
) -> None:
    played.running()
    played.says(world(0, 0, **more))
    assert {"do": "leave"} not in played.sent()


def test_a_worker_is_ended_by_its_signal_and_grace(played: Played) -> None:
    played.running(spawned=True, worker=True)
    assert not played.own.end_world(vacate(0, stop_signal=12, grace_s=3.0))
    assert played.sent() == [{"do": "end", "world": 0, "signal": 12, "grace_s": 3.0}]


def test_what_other_keepers_say_is_passed_on(played: Played) -> None:
    played.running()
    for instance in (2, 3):
        body = m.Relayed(job=7, instance=instance, node="n3", data=b'{"arrived": 4}')
        played.own.relayed(body)
    assert played.sent() == [{"do": "relayed", "data": {"arrived": 4}}]
    played.hears(relay="n3", data={"failed": 4})
    (said,) = played.said
    assert said == m.Relay(job=7, instance=2, node="n3", data=b'{"failed": 4}')


SPAWN = {
    "ticket": 3, "programs": [["p"]], "program_of": [0], "cwd": "/c", "keys": {"k": "v"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("body", "sent"),
    [
        (m.Done(), [{"do": "spawn", "ticket": 3, "why": ""}]),
        (m.Error("refused", "no room"), [{"do": "spawn", "ticket": 3, "why": "no room"}]),
        (m.Error("later", "wait"), []),
    ],
)
def test_a_spawn_is_asked_for_and_answered(
    played: Played, body: m.ReplyBody, sent: list[dict[str, Any]]
) -> None:
    played.running()
    played.hears(spawn={**SPAWN, "info": {"dq_world": "7"}})
    (said,) = played.said
    assert said == m.SpawnRanks(
        job=7, instance=2, ticket=3, world=7, programs=[["p"]], program_of=[0], cwd="/c",
        keys={"k": "v"},
    )  # fmt: skip
    played.own.answered(m.Reply("another", m.Done()))
    assert played.sent() == []
    played.own.answered(m.Reply("id-1", body))
    assert played.sent() == sent


@pytest.mark.parametrize("info", [{}, {"dq_world": "x"}])
def test_a_spawn_of_the_program_itself_belongs_to_no_resize(
    played: Played, info: dict[str, str]
) -> None:
    played.running()
    played.hears(spawn={**SPAWN, "info": info})
    (said,) = played.said
    assert isinstance(said, m.SpawnRanks)
    assert said.world == 0


def test_a_spawn_that_was_asked_for_twice_is_answered_once(played: Played) -> None:
    played.running()
    for ticket in (3, 3, 4):
        played.hears(spawn={**SPAWN, "ticket": ticket, "info": {}})
    for request in ("id-2", "id-1", "id-3"):
        played.own.answered(m.Reply(request, m.Done()))
    assert [sent["ticket"] for sent in played.sent()] == [3, 4]


def test_what_runs_here_is_known_by_job_and_by_world(played: Played) -> None:
    played.running()
    played.own.start(order(4))
    assert played.own.running(7)
    assert not played.own.running(2)
    assert played.own.worlds(7, 2) == [4], "about to be"
    assert played.own.worlds(7, 3) == played.own.worlds(2, 2) == []
    played.says(world(), world(6), world(5, 0), past=4)
    assert played.own.worlds(7, 2) == [6]
    played.says(world(running=0))
    assert not played.own.running(7)


def test_a_world_whose_starter_loads_is_about_to_be(played: Played) -> None:
    played.own.starters.found = Starter(None)  # type: ignore[attr-defined]
    played.own.start(order())
    assert not played.own.end_world(vacate(0))


def test_a_world_of_a_keeper_that_is_gone_is_none(played: Played) -> None:
    played.running()
    played.left = True
    played.dies()
    assert played.own.end_world(vacate(0))
