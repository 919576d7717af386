"""What a keeper does as time goes by, at its end, and with its agents; no process is started."""

from __future__ import annotations

import os
import selectors
import shutil
import socket
from typing import Any

import pytest

from dq_client.base import process
from dq_client.node.ranks import keeper, output
from dq_client.node.ranks.keeper import AGAIN_S, GRACE_S, KILL_AGAIN_S, LINGER_S, WRITE_FOR_S
from tests.client.keeper_played import KILL, TERM, Played
from tests.client.keeper_played import played as played

# --- the end of the keeper ------------------------------------------------------------------------


def test_it_goes_on_until_its_ranks_have_ended_and_the_job_is_over(played: Played) -> None:
    world = played.start(nodes=("n1",))
    played.does(do="leave")
    assert not played.keeper._over()
    played.ended(world, 0, 0)
    assert played.keeper._over()


def test_without_an_agent_it_ends_with_its_ranks(played: Played) -> None:
    assert not played.keeper._over(), "an agent may have work for it"
    played.keeper._drop_agent()
    assert not played.keeper._over(), "it has had none"
    world = played.start(nodes=("n1",))
    assert not played.keeper._over()
    played.ended(world, 0, 0)
    assert played.keeper._over()


def test_who_may_be_asked_for_the_end_of_a_barrier_waits_for_a_while(played: Played) -> None:
    world = played.start(nodes=("n1", "n2"))
    world._released = (0, {})
    played.keeper._drop_agent()
    played.ended(world, 0, 0)
    assert world.is_asked
    assert not played.keeper._over()
    assert played.keeper._patience_s() == pytest.approx(LINGER_S)
    played.now += LINGER_S
    assert played.keeper._over()


def test_ranks_are_killed_again_and_again_once_their_grace_is_over(played: Played) -> None:
    played.start()
    played.handlers[process.KEEPER_ENDS](process.KEEPER_ENDS, None)
    assert played.kills == [(0, TERM)]
    assert played.keeper._patience_s() == pytest.approx(GRACE_S)
    played.keeper._terminate()
    assert played.kills == [(0, TERM)], "once"
    played.look(GRACE_S - 0.1)
    assert len(played.kills) == 1
    for n in range(1, 4):
        played.look(KILL_AGAIN_S if n > 1 else 0.1)
        assert played.kills[1:] == n * [(0, KILL)]
    played.look()
    assert len(played.kills) == 4
    assert played.state()["killed"]


def test_who_has_no_ranks_kills_none(played: Played) -> None:
    world = played.start(nodes=("n1",))
    played.ended(world, 0, 0)
    played.keeper._terminate()
    assert not played.state()["killed"]


def test_at_its_end_nothing_is_left_and_all_is_on_disk(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[Any] = []
    monkeypatch.setattr(keeper, "remove_shared_memory", removed.append)
    played.start(nodes=("n1",))
    played.left = 2
    played.keeper._end()
    assert played.kills == 3 * [(0, KILL)]
    assert played.slept_s == 2 * [0.005]
    assert removed == [played.keeper.worlds.shared_memory()]
    assert played.on_disk()["over"]


@pytest.mark.parametrize("terminating", [True, False])
def test_an_end_that_no_disk_takes_is_tried_again(
    played: Played, monkeypatch: pytest.MonkeyPatch, terminating: bool
) -> None:
    world = played.start(nodes=("n1",))
    played.ended(world, 0, 0)
    played.keeper._terminating = terminating
    tried: list[Any] = []

    def write(state: dict[str, Any]) -> bool:
        tried.append(state)
        return len(tried) > 200

    monkeypatch.setattr(played.keeper._ends, "write", write)
    played.keeper._end()
    if terminating:  # the server knows how it ended
        assert sum(played.slept_s) == pytest.approx(WRITE_FOR_S)
    else:
        assert len(tried) == 201
    assert set(played.slept_s) == {0.5}


@pytest.mark.parametrize(("terminating", "patience_s"), [(True, GRACE_S), (False, WRITE_FOR_S)])
def test_the_last_output_waits_for_a_disk_that_is_full(
    played: Played, monkeypatch: pytest.MonkeyPatch, terminating: bool, patience_s: float
) -> None:
    asked: list[float] = []

    def write_last(seconds: float) -> bool:
        asked.append(seconds)
        return len(asked) == 3

    monkeypatch.setattr(played.keeper._files, "write_last", write_last)
    played.keeper._terminating = terminating
    played.keeper._end()
    assert asked == 3 * [patience_s]
    assert played.slept_s == [0.5, 0.5]


def test_a_folder_that_is_gone_wants_no_end(played: Played) -> None:
    shutil.rmtree(played.folder)
    assert played.keeper._write_ends(over=True)


def test_it_reaps_all_that_has_ended_and_reports_before_it_ends(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two ranks end between two looks, with a process that is no rank between them."""
    world = played.start(nodes=("n1", "n1"))
    played.does(do="leave")
    exits = [(101, 0), (999, 9), (102, 3 << 8), (0, 0)]
    monkeypatch.setattr(os, "waitpid", lambda *_: exits.pop(0))
    played.keeper._wakes.send(b"x")
    played.keeper.run()
    assert [rank.code for rank in world.local.values()] == [0, 3] or not world.local
    assert exits == []
    assert played.keeper.failed == {"code": 3, "why": ""}
    assert played.told()[-1]["state"]["failed"] == {"code": 3, "why": ""}
    assert played.on_disk()["over"]


@pytest.fixture
def writing(played: Played) -> int:
    """The pipe that rank 0 of world 0, which is alone, writes to."""
    reading, writing = output.pipe()
    file = played.keeper._files.file(str(played.folder), "out")
    played.streams = [output.Stream(reading, file, (0, 0), label=False)]
    played.start(nodes=("n1",))
    os.write(writing, b"half a line")
    return writing


def test_a_pipe_that_has_ended_is_not_read_any_more(played: Played, writing: int) -> None:
    rank = played.keeper.worlds[0].local[0]
    reading = rank.streams[0].reading
    played.serves()
    assert reading in played.watched()
    os.close(writing)
    played.serves()
    assert (rank.streams, reading in played.watched()) == ([], False)
    assert (played.folder / "out").read_bytes() == b"half a line"


def test_what_a_rank_wrote_last_is_safe_though_a_child_holds_its_pipe(
    played: Played, writing: int
) -> None:
    played.ended(played.keeper.worlds[0], 0, 0)
    assert (played.folder / "out").read_bytes() == b"half a line"
    os.close(writing)


def test_a_forked_rank_has_none_of_its_sockets_and_closes_no_number(played: Played) -> None:
    """The number may be a file of the program by then."""
    world, kept = played.start(nodes=("n1",)), played.keeper
    channels = [*world.local[0].channels(), kept._agent]
    sockets = [c.sock for c in channels if c is not None]
    sockets += [kept._listener, kept._wake, kept._wakes]
    numbers = [end.fileno() for end in sockets]
    kept._detach()
    assert [end.fileno() for end in sockets] == [-1] * 6
    for number in numbers:
        os.close(number)  # an error if it was closed


# --- the loop and the agent -----------------------------------------------------------------------


def test_the_agent_is_told_what_is_new_and_on_disk(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = played.start(nodes=("n1",))
    played.look()
    (first,) = played.told()
    assert first["state"]["worlds"]["0"]["running"] == 1
    played.look()
    assert played.told() == []
    monkeypatch.setattr(played.keeper._ends, "write", lambda _: False)
    played.ended(world, 0, 0)
    played.look()
    assert len(played.told()) == 1, "a disk that is full keeps nothing from it"
    noted: list[Any] = []
    monkeypatch.setattr(played.keeper._ends, "write", noted.append)
    played.look()
    assert len(noted) == 1, "it is tried again"


def test_another_agent_takes_over_and_is_told_everything(played: Played) -> None:
    played.start(nodes=("n1",))
    played.look()
    played.told()
    caller = socket.socket(socket.AF_UNIX)
    where = os.open(played.folder, os.O_RDONLY)
    caller.connect(f"/proc/self/fd/{where}/control")
    os.close(where)
    played.keeper._accept()
    played.look()
    assert b'{"state"' in caller.recv(1 << 16)
    assert played.agent.recv(1 << 16) == b"", "the former one was hung up"
    caller.close()
    played.serves()
    assert played.keeper._agent is None
    played.look()
    played.keeper._to_agent({"relay": "n2", "data": {}})  # nobody hears it; nothing breaks


def test_orders_come_by_the_line(played: Played) -> None:
    played.agent.sendall(b'{"do": "end", "world": 4}\n{"do": "leave"}\n')
    played.serves()
    assert (played.keeper._cancelled, played.keeper._leaving) == ({4}, True)


def test_what_has_had_no_effect_is_said_again_each_second(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[float] = []
    played.start()
    monkeypatch.setattr(played.keeper._dialogue, "say_again", lambda: said.append(played.now))
    monkeypatch.setattr(played.keeper._files, "flush", lambda: said.append(-played.now))
    played.look()
    begun = played.now
    played.look(AGAIN_S / 2)
    played.look(AGAIN_S / 2)
    assert said == [begun, -begun, begun + AGAIN_S, -begun - AGAIN_S]


def test_it_waits_no_longer_than_something_is_due(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    played.look()
    assert played.keeper._patience_s() == 3600.0
    monkeypatch.setattr(played.keeper._dialogue, "something_open", lambda: True)
    assert played.keeper._patience_s() == pytest.approx(AGAIN_S)
    monkeypatch.undo()
    world = played.keeper.worlds
    assert world.kill_due_s == float("inf")


def test_a_signal_wakes_it_and_never_holds_it_up(played: Played) -> None:
    assert [end.getblocking() for end in (played.keeper._wake, played.keeper._wakes)] == [False] * 2


def test_a_worker_that_stays_is_killed_after_its_grace(played: Played) -> None:
    worker = played.start(5, nodes=("n1",), spawned=True, worker=True)
    worker.ending, worker.kill_s = True, played.now + 3.0
    assert played.keeper._patience_s() <= 3.0
    played.look(2.9)
    assert played.kills == []
    played.look(0.1)
    assert played.kills == [(101, KILL)]


def test_a_rank_that_hangs_up_is_not_listened_to_any_more(played: Played) -> None:
    world = played.start(nodes=("n1",))
    rank = world.local[0]
    pmi, link = played.ends
    link.close()
    played.serves()
    assert rank.link.fileno() not in played.watched()
    assert rank.pmi is not None
    assert rank.pmi.fileno() in played.watched()
    pmi.sendall(b"no word of PMI\n")
    played.serves()
    assert "sent what its process manager does not understand" in played.state()["failed"]["why"]
    assert played.kills == [(101, KILL)]


def test_what_a_rank_said_last_counts(played: Played) -> None:
    world = played.start(nodes=("n1",))
    world.local[0].in_session = True
    _, link = played.ends
    link.sendall(b'{"session": false}\n')
    played.ended(world, 0, 0)
    assert played.keeper.failed is None


def test_room_to_send_is_waited_for_while_something_is_left_to_be_sent(played: Played) -> None:
    world = played.start(nodes=("n1",))
    link, selector = world.local[0].link, played.keeper._selector
    link.sock.setblocking(False)
    link.send("x" * (1 << 22))
    played.look()
    assert selector.get_key(link).events == selectors.EVENT_READ | selectors.EVENT_WRITE
    while link.waiting:
        played.ends[1].recv(1 << 20)
        link.flush()
    played.look()
    assert selector.get_key(link).events == selectors.EVENT_READ
