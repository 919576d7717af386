"""The ends of ranks on disk, and what an agent concludes from them when the keeper is gone."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dq_client.base import messages as m
from dq_client.node.agent.local_start import KEEPER_LOST, KILLED, LocalStart
from dq_client.node.ranks import ends
from dq_client.node.ranks.ends import EndsFile, KeptEnd, standing

FAILED = {"code": 3, "why": "rank 1 on n01 has failed"}


def world(running: int, *, part: bool = True) -> dict[str, Any]:
    return {"running": running, "part": part, "spawned": False}


def state(*worlds: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"worlds": {str(n): w for n, w in enumerate(worlds)}, **more}


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (state(world(0), over=True), KeptEnd.KNOWN),
        (state(world(2), over=True), KeptEnd.KNOWN),  # of a keeper that was told to leave
        (state(world(0)), KeptEnd.KNOWN),
        (state(world(0), world(0, part=False)), KeptEnd.KNOWN),
        (state(world(1)), KeptEnd.LOST),
        (state(world(0), world(1, part=False)), KeptEnd.LOST),
        (state(world(0), losing=True), KeptEnd.LOST),
        (state(), KeptEnd.LOST),
        (None, KeptEnd.LOST),
    ],
)
def test_what_a_record_means_without_its_keeper(
    found: dict[str, Any] | None, wanted: KeptEnd
) -> None:
    assert standing(found) is wanted


def test_what_is_written_is_read_and_written_once(tmp_path: Path) -> None:
    file = EndsFile(str(tmp_path))
    assert file.write(state(world(1)))
    before = (tmp_path / ends.NAME).stat().st_ino
    assert file.write(state(world(1)))
    assert (tmp_path / ends.NAME).stat().st_ino == before
    assert file.write(state(world(0), memory=["/dev/shm/mpich_shm_1_0"]))
    assert ends.read(str(tmp_path)) == state(world(0), memory=["/dev/shm/mpich_shm_1_0"])
    assert ends.memory(str(tmp_path)) == ["/dev/shm/mpich_shm_1_0"]


def test_a_folder_that_is_gone_is_an_error_and_a_disk_that_fails_is_tried_again(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "holding"
    folder.mkdir()
    file = EndsFile(str(folder))
    (folder / ends.NAME).mkdir()  # as if it could not be written
    assert not file.write(state(world(1)))
    (folder / ends.NAME).rmdir()
    assert file.write(state(world(1)))
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    with pytest.raises(FileNotFoundError):
        file.write(state(world(0)))


@pytest.mark.parametrize("text", ["", "[]", "{", '{"worlds": 3}', "\udcff"])
def test_what_cannot_be_read_is_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / ends.NAME).write_bytes(text.encode(errors="surrogateescape"))
    assert ends.read(str(tmp_path)) is None
    assert ends.memory(str(tmp_path)) == []


@pytest.mark.parametrize(("memory", "found"), [(5, []), ("ab", []), ([1, "m"], ["m"])])
def test_memory_that_is_no_list_of_names_is_none(
    tmp_path: Path, memory: object, found: list[str]
) -> None:
    ends.EndsFile(str(tmp_path)).write(state(world(0), memory=memory))
    assert ends.memory(str(tmp_path)) == found


def test_the_file_of_an_earlier_keeper_says_that_it_has_ended(tmp_path: Path) -> None:
    (tmp_path / ends.FORMER_NAME).write_text(json.dumps(state(world(0), failed=None)))
    assert standing(ends.read(str(tmp_path))) is KeptEnd.KNOWN


# --- the agent ---------------------------------------------------------------------------------


def kept(now: dict[str, Any], *, over: bool = False, killed: bool = False) -> LocalStart:
    held: Any = SimpleNamespace(over=over, killed=killed)
    line: Any = SimpleNamespace(gone=over)
    return LocalStart(held, line=line, state=now)


@pytest.mark.parametrize(
    ("now", "over", "killed", "wanted"),
    [
        ({}, False, False, None),
        (state(world(1)), False, False, None),
        (state(world(0)), False, False, (0, "")),
        (state(world(0, part=False)), False, False, None),
        (state(world(0), writing=True), False, False, None),
        (state(world(1), losing=True), False, False, None),
        (state(world(1), failed=FAILED), False, False, (3, FAILED["why"])),
        (state(world(0), failed=FAILED, killed=True), True, True, (3, FAILED["why"])),
        (state(world(1), killed=True), False, True, None),
        (state(world(0), killed=True), True, True, (KILLED, "")),
        (state(world(0)), True, True, (0, "")),  # all had ended before they were killed
        (state(world(1)), False, True, None),
        ({"lost": True}, True, False, (KILLED, KEEPER_LOST)),
        ({"lost": True}, True, True, (KILLED, "")),
        ({"lost": True, "failed": FAILED}, True, False, (3, FAILED["why"])),
    ],
)
def test_how_the_ranks_here_have_ended(
    now: dict[str, Any], over: bool, killed: bool, wanted: tuple[int, str] | None
) -> None:
    assert kept(now, over=over, killed=killed).end() == wanted


def test_orders_that_a_keeper_went_without_having_read_are_for_the_next_one() -> None:
    one = kept(state(world(0), past=-1), over=True)
    one.orders = {0: order(0), 4: order(4)}
    one.take_over(state(world(0), over=True))
    assert [late.world for late in one.later] == [4]
    assert one.end() == (0, "")


def order(number: int, *, spawned: bool = False) -> m.StartRanks:
    return m.StartRanks(1, 1, number, [["p"]], [], "/", {}, [], spawned=spawned)


@pytest.mark.parametrize(
    ("found", "end"),
    [
        (state(world(0)), (0, "")),
        (state(world(0), over=True, failed=FAILED), (3, FAILED["why"])),
        (state(world(1)), (KILLED, KEEPER_LOST)),
        (state(world(1), failed=FAILED), (3, FAILED["why"])),
        (None, (KILLED, KEEPER_LOST)),
    ],
)
def test_what_a_keeper_has_left_is_believed_or_the_ranks_are_lost(
    found: dict[str, Any] | None, end: tuple[int, str]
) -> None:
    one = kept(state(world(1)), over=True)
    one.take_over(found)
    assert one.end() == end


def test_the_worlds_of_a_keeper_that_was_killed_are_not_started_again() -> None:
    one = kept(state(world(1), past=-1), over=True)
    one.take_over(state(world(1), world(1, part=False), past=7))
    assert [one.is_new(order(n)) for n in (0, 1, 5, 8)] == [False, False, False, True]


@pytest.mark.parametrize(
    ("found", "end"),
    [(state(world(0)), (KILLED, KEEPER_LOST)), (state(world(0), over=True), (0, ""))],
)
def test_ranks_that_were_to_be_spawned_are_lost_with_the_keeper(
    found: dict[str, Any], end: tuple[int, str]
) -> None:
    one = kept(state(world(1)), over=True)
    one.take_over(found)
    one.wait(order(4, spawned=True))
    assert one.end() == end


def test_what_waited_for_a_disk_is_lost_with_the_keeper() -> None:
    one = kept(state(world(1)), over=True)
    one.take_over(state(world(1), at_stake_bytes=12, failed=FAILED))
    assert one.lost_output == (12, KEEPER_LOST)
    assert one.end() == (3, FAILED["why"])
    one.take_over(state(world(0), over=True, lost_bytes=3, lost_why="out: full", at_stake_bytes=3))
    assert one.lost_output == (3, "out: full")
