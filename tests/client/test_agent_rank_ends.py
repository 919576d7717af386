"""What an agent reports of the ranks that it has started, and of keepers that are gone."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import zmq

from dq_client.base import messages as m
from dq_client.node.agent.holdings import HoldingRecord
from dq_client.node.agent.local_start import KEEPER_LOST, KILLED
from dq_client.node.agent.reports import Reports
from tests.client.keepers_played import PID, Line, Played, Starter, end, order, world


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Played:
    return Played(tmp_path, monkeypatch)


# --- ends -----------------------------------------------------------------------------------------


def test_the_start_is_reported_once_with_the_keepers_pid(played: Played) -> None:
    played.own.start(order())
    assert played.reports() == {}
    played.says(world())
    assert played.reports() == {"start 7.2": m.AppStarted(7, 2, PID)}
    played.context.reports = Reports()
    played.says(world(), world(4))
    assert played.reports() == {}


def test_a_keeper_leaves_when_the_server_knows_the_end(
    played: Played, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    played.running()
    played.says(world(running=0), world(4, 0))
    assert end(played.reports()) == (0, "", 4)
    assert "job 7.2: ended here with 0" in caplog.text
    assert played.sent() == []
    played.acknowledge("end 7.2")
    assert played.sent() == [{"do": "leave"}]
    played.own.look()
    assert "7.2" in played.context.holdings.trees, "it still has to end"
    played.dies()
    assert played.context.holdings.trees == {}
    assert not played.own.running(7)
    played.own.start(order())
    assert len(played.requests) == 1, "it has been here"


def test_a_failure_is_known_even_if_ranks_are_to_come(played: Played) -> None:
    played.running()
    played.own.start(order(4))
    played.sent()
    played.says(world(), failed={"code": 3, "why": "x" * 5000})
    assert end(played.reports()) == (3, "x" * 4000, 0)
    played.acknowledge("end 7.2")
    assert played.sent() == [{"do": "leave"}]


def test_nodes_that_left_a_job_and_come_back_keep_their_keeper(played: Played) -> None:
    played.running()
    played.says(world(running=0))
    played.own.start(order(4))
    played.sent()
    played.acknowledge("end 7.2")
    assert played.sent() == [], "ranks of world 4 are ordered"
    played.says(world(running=0), world(4, part=False))
    assert played.sent() == []
    played.says(world(running=0), world(4, 0, part=False))
    assert played.sent() == [{"do": "leave"}], "the server knows that end already"


def test_an_end_that_does_not_hold_any_more_is_withdrawn(played: Played) -> None:
    played.running()
    played.says(world(running=0))
    assert "end 7.2" in played.reports()
    played.says(world(running=0), world(4))
    assert "end 7.2" not in played.reports()
    played.says(world(running=0), world(4, 0))
    assert end(played.reports()) == (0, "", 4)


def test_a_keeper_that_was_killed_has_lost_its_ranks(
    played: Played, caplog: pytest.LogCaptureFixture
) -> None:
    played.running()
    held = played.context.holdings.trees["7.2"]
    (held.folder / "keeper.err").write_bytes(b"cut: Traceback \xff" + b"x" * 3989)
    played.left, held.record.pid = True, 0  # nobody has looked who claimed the folder
    played.dies()
    assert held.over
    assert held.record.pid, "what it has left is found by its keeper"
    assert "end 7.2" not in played.reports(), "processes are left"
    played.left = False
    played.own.look()
    assert end(played.reports()) == (KILLED, "the keeper of its ranks on n1 was killed", 0)
    assert KEEPER_LOST not in end(played.reports())[1]
    assert caplog.text.count("its keeper failed: Traceback") == 1
    played.acknowledge("end 7.2")
    played.own.look()
    assert played.context.holdings.trees == {}


def test_a_keeper_that_was_killed_after_its_only_world_did_not_join_is_forgotten(
    played: Played,
) -> None:
    """Nobody would end it: the server orders an end of what runs, and waits for no end of it."""
    played.own.start(order(4))
    failed = world(4, 0, part=False)
    played.says(failed)
    held = played.context.holdings.trees["7.2"]
    state = {"worlds": {"4": failed}, "over": False, "past": -1}
    (held.folder / "ends").write_text(json.dumps(state))
    played.left = True
    played.dies()
    assert "7.2" in played.context.holdings.trees, "processes are left"
    played.left = False
    played.own.look()
    assert played.context.holdings.trees == {}
    assert "end 7.2" not in played.reports()
    played.own.start(order(4))
    played.own.start(order(5))
    assert [sent["world"] for sent in played.sent()] == [5], "the job still may grow to here"


def test_ranks_that_the_program_spawned_are_said_to_be_over_once(played: Played) -> None:
    played.running()
    played.says(world(), world(4, 0, spawned=True), world(5, spawned=True))
    assert played.reports()["world 7.2.4"] == m.WorldEnded(7, 2, 4)
    assert "world 7.2.5" not in played.reports()
    played.acknowledge("world 7.2.4")
    played.own.look()
    assert "world 7.2.4" not in played.reports()
    played.own.start(order(4, spawned=True))
    assert "world 7.2.4" in played.reports(), "the server has lost it"
    assert played.sent() == []


@pytest.mark.parametrize("more", [{"failed": {"code": 3, "why": ""}}, {"killed": True}])
def test_after_a_failure_no_world_is_said_to_be_over(played: Played, more: Any) -> None:
    played.running()
    played.says(world(), world(4, 0, spawned=True), **more)
    assert "world 7.2.4" not in played.reports()


def test_orders_that_come_while_a_keeper_leaves_are_for_the_next(played: Played) -> None:
    played.running()
    played.says(world(running=0), world(4, 0, spawned=True))
    played.acknowledge("end 7.2")
    played.own.start(order(5))
    assert len(played.requests) == 1
    played.own.start(order(4, spawned=True))
    assert "world 7.2.4" in played.reports()
    played.dies()
    assert len(played.requests) == 2
    assert [sent["world"] for sent in played.sent()] == [5]


# --- output ---------------------------------------------------------------------------------------


def test_output_that_is_lost_is_reported_and_keeps_the_record_until_it_is_known(
    played: Played, caplog: pytest.LogCaptureFixture
) -> None:
    played.running()
    played.says(world(), lost_bytes=7, lost_why="y" * 5000)
    body = m.OutputLost(job=7, instance=2, node="n1", lost_bytes=7, why="y" * 4000)
    assert played.reports()["output 7.2"] == body
    assert "job 7.2: 7 bytes of output are lost: yy" in caplog.text
    played.says(world(running=0), lost_bytes=9, lost_why="z")
    assert played.reports()["output 7.2"] == body, "one after the other"
    played.acknowledge("end 7.2")
    played.dies()
    assert "7.2" in played.context.holdings.trees
    played.acknowledge("output 7.2")
    played.own.look()
    assert played.context.holdings.trees == {}


def test_output_that_waits_is_a_trouble_until_it_is_written_or_over(played: Played) -> None:
    def troubles() -> list[m.Trouble]:
        return played.context.troubles.list()

    played.running()
    played.says(world(), unwritten="the disk is full")
    assert troubles() == [m.Trouble(7, "the disk is full")]
    played.says(world())
    assert troubles() == []
    played.says(world(running=0), unwritten="the disk is full")
    played.acknowledge("end 7.2")
    played.dies()
    assert troubles() == []


# --- an agent that starts again -------------------------------------------------------------------


def test_the_next_agent_reaches_the_keepers_of_the_last(played: Played) -> None:
    played.running()
    (played.context.holdings.trees["7.2"].folder / "claim").touch()
    played.reached = line = Line()
    played.lines.append(line)
    played.context, played.own = played.agent()
    played.says(world())
    assert played.own.running(7)
    assert played.reports() == {"start 7.2": m.AppStarted(7, 2, PID)}
    played.own.start(order())
    played.own.start(order(4))
    assert [sent["world"] for sent in line.sent] == [4]


def test_the_next_agent_reads_what_a_keeper_that_is_gone_has_written(played: Played) -> None:
    played.running()
    folder = played.context.holdings.trees["7.2"].folder
    (folder / "claim").touch()
    state = {"worlds": {"0": world(running=0)}, "over": True, "past": -1}
    (folder / "ends").write_text(json.dumps(state))
    played.context, played.own = played.agent()
    played.own.look()
    assert end(played.reports()) == (0, "", 0)


def test_what_is_no_job_of_ranks_is_left_to_others(played: Played) -> None:
    record = HoldingRecord(2, 1)
    held = played.context.holdings.make(record)
    (held.folder / "claim").touch()
    _, own = played.agent()
    assert not own._jobs


# --- the loop -------------------------------------------------------------------------------------


def test_the_loop_wakes_up_for_lines_and_starters(played: Played) -> None:
    poller = zmq.Poller()
    played.running()
    starter = Starter(True)
    played.own.starters.by_name = {"s": SimpleNamespace(sock=starter.sock)}  # type: ignore[dict-item]
    played.own.register(poller)
    both = {played.line.fileno(), starter.sock.fileno()}
    assert dict(poller.sockets) == dict.fromkeys(both, zmq.POLLIN)
    played.own.starters.by_name = {}
    played.own.register(poller)
    assert dict(poller.sockets) == {played.line.fileno(): zmq.POLLIN}
    poller.unregister(played.line.fileno())
    played.line.gone = True
    played.own.register(poller)
    assert poller.sockets == []


def test_starters_end_with_the_agent(played: Played) -> None:
    played.own.starters.by_name = {"s": SimpleNamespace()}  # type: ignore[dict-item]
    played.own.close()
    assert played.own.starters.by_name == {}
