"""What a keeper makes of orders and of the ends of its ranks; no process is started."""

from __future__ import annotations

from typing import Any

import pytest

from dq_client.base import process
from dq_client.node.ranks.keeper import QUIET_END_S
from tests.client.keeper_played import KILL, Played
from tests.client.keeper_played import played as played

# --- orders ---------------------------------------------------------------------------------------


def test_the_ranks_of_this_node_are_started_once(played: Played) -> None:
    world = played.start(nodes=("n1", "n2", "n1"))
    assert [(rank.number, rank.pid) for rank in world.local.values()] == [(0, 101), (2, 102)]
    assert not world.expected
    assert played.on_disk()["worlds"]["0"]["running"] == 2, "noted before they start"
    played.start(nodes=("n1", "n2", "n1"))
    assert played.pids == 102
    ours = {channel.fileno() for rank in world.local.values() for channel in rank.channels()}
    assert ours <= played.watched()


def test_a_world_that_was_ended_before_it_was_ordered_starts_no_rank(played: Played) -> None:
    played.does(do="end", world=4)
    world = played.start(4, joins=True)
    assert (world.ending, world.local, world.is_alive) == (True, {}, False)


def test_a_keeper_that_ends_starts_nothing(played: Played) -> None:
    played.keeper._terminate()
    played.does(do="leave")
    with pytest.raises(KeyError):
        played.start()


def test_ranks_that_run_already_are_expected_and_told_where_their_output_goes(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected: list[Any] = []
    monkeypatch.setattr(played.keeper._adoption, "expect", expected.append)
    world = played.start(adopted=[7, 8])
    assert expected == [world]
    assert "0" in played.on_disk()["worlds"]
    world.expected = {0}
    played.keeper._expect(world)
    assert b"of the 2 ranks that attached themselves" in (played.folder / "out").read_bytes()
    assert played.pids == 100


def test_orders_reach_those_whom_they_concern(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialogue, heard = played.keeper._dialogue, list[Any]()
    monkeypatch.setattr(dialogue.exchange, "heard", heard.append)
    monkeypatch.setattr(dialogue, "answer_spawn", lambda *words: heard.append(words))
    played.does(do="relayed", data={"go": 4})
    played.does(do="spawn", ticket=3, why="no room")
    assert heard == [{"go": 4}, (3, "no room")]


def test_a_world_is_ended_at_once_and_a_worker_by_its_signal(played: Played) -> None:
    played.start(4, joins=True)
    played.start(5, nodes=("n1",), spawned=True, worker=True)
    played.does(do="end", world=4)
    assert played.kills == [(101, KILL), (102, KILL)]
    played.kills.clear()
    played.does(do="end", world=5, signal=12, grace_s=3.0)
    assert played.kills == [(103, 12)]


# --- ends of ranks --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "session", "failed"),
    [
        (0, False, None),
        (0, True, {"code": 1, "why": "rank 0 on n1 ended without leaving the job"}),
        (3, False, {"code": 3, "why": ""}),
        (3, True, {"code": 3, "why": ""}),
        (-9, False, {"code": 137, "why": "rank 0 on n1 was ended by signal 9 (SIGKILL)"}),
        (-9, True, {"code": 137, "why": "rank 0 on n1 was ended by signal 9 (SIGKILL)"}),
    ],
)
def test_what_the_end_of_a_rank_means(
    played: Played, code: int, session: bool, failed: dict[str, Any] | None
) -> None:
    world = played.start()
    world.local[0].in_session = session
    played.ended(world, 0, code)
    assert played.state()["failed"] == failed
    assert played.state()["worlds"]["0"] == {"running": 1, "part": True, "spawned": False}
    assert len(played.watched() & {r.link.fileno() for r in world.running()}) == 1


def test_the_first_failure_counts(played: Played) -> None:
    world = played.start()
    played.ended(world, 0, 3)
    played.ended(world, 1, 4)
    assert played.state()["failed"]["code"] == 3
    assert world.local == {}, "little is kept of it"


@pytest.mark.parametrize("how", ["retired", "ending", "terminating"])
def test_an_end_that_was_wanted_is_no_failure(played: Played, how: str) -> None:
    world = played.start()
    if how == "retired":
        world.local[0].retired = True
    elif how == "ending":
        world.ending = True
    else:
        played.keeper._terminate()
    played.ended(world, 0, 139)
    assert played.keeper.failed is None
    assert played.state()["killed"] == (how == "terminating")


def test_a_rank_that_dies_in_a_protected_job_may_be_done_without(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[Any] = []

    def begin(*words: Any) -> bool:
        began.append(words)
        return True

    monkeypatch.setattr(played.keeper._dialogue.losses, "begin", begin)
    world = played.start()
    rank = world.local[0]
    played.ended(world, 0, -11)
    failure = {"code": 139, "why": "rank 0 on n1 was ended by signal 11 (SIGSEGV)"}
    assert began == [(world, rank, failure, played.now)]
    assert played.keeper.failed is None
    played.ended(world, 1, 3)
    assert len(began) == 1, "its own code is its own doing"
    assert played.keeper.failed == {"code": 3, "why": ""}


def quiet(played: Played) -> Any:
    """A world whose rank 0 has ended in MPI."""
    world = played.start()
    world.machine.initialized |= {0, 1}
    played.ended(world, 0, 0)
    return world


def test_one_that_ends_in_mpi_keeps_the_others_waiting_for_ever(played: Played) -> None:
    quiet(played)
    played.look(QUIET_END_S - 0.1)
    assert played.keeper.failed is None
    played.look(0.1)
    assert played.keeper.failed == {"code": 1, "why": "rank 0 on n1 ended without MPI_Finalize"}


@pytest.mark.parametrize("how", ["over", "ending", "finalized", "left"])
def test_or_nobody_waits(played: Played, how: str) -> None:
    if how in ("finalized", "left"):
        world = played.start()
        world.machine.initialized |= {0, 1}
        world.local[0].left = how == "left"
        if how == "finalized":
            world.machine.finalized |= {0}
        played.ended(world, 0, 0)
    else:
        world = quiet(played)
    if how == "over":
        played.ended(world, 1, 0)
    world.ending = how == "ending"
    played.look(QUIET_END_S + 1)
    assert played.keeper.failed is None


@pytest.mark.parametrize(
    ("said", "why"), [("", ", ended with signal 9 (SIGKILL)"), ("no module", ": no module")]
)
def test_a_rank_that_does_not_join_fails_its_world_only(
    played: Played, said: str, why: str
) -> None:
    world = played.start(4, joins=True, root="n2")
    world.local[1].why, world.local[1].mistake = said, bool(said)
    played.ended(world, 1, -9)
    assert played.told()[-1] == {
        "relay": "n2",
        "data": {
            "failed": 4, "why": f"rank 1 on n1, which was to join{why}", "mistake": bool(said),
        },
    }  # fmt: skip
    assert played.kills == [(101, KILL)]
    assert played.keeper.failed is None


def test_without_a_root_the_jobs_first_node_is_told(played: Played) -> None:
    """It is this one here: nothing is relayed."""
    world = played.start(4, joins=True)
    played.ended(world, 0, 1)
    assert not any("relay" in line for line in played.told())
    assert (world.ending, played.keeper.failed) == (True, None)


def test_what_mpich_leaves_of_a_rank_that_died_is_known(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[Any] = []
    world = played.start()
    monkeypatch.setattr(world, "note_shared_memory", lambda: noted.append(world))
    played.ended(world, 0, 0)
    assert noted == []
    played.ended(world, 1, 3)
    assert noted == [world]
    assert played.keeper.worlds.shared_memory() == played.on_disk()["memory"] != []


def test_what_a_worker_has_left_behind_is_killed(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "descendants", lambda *_: [7, 8])
    monkeypatch.setattr(process, "has_variable", lambda pid, _: pid == 8)
    worker = played.start(5, nodes=("n1",), spawned=True, worker=True)
    played.ended(worker, 0, 0)
    assert played.kills == [(8, KILL)]
    played.kills.clear()
    world = played.start(nodes=("n1",))
    played.ended(world, 0, 0)
    assert played.kills == []
