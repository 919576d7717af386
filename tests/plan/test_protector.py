"""Copies of a protected job's data: when they are made, on which nodes, what a loss leaves."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dq_client.base import messages as m
from dq_client.node.agent.copies import save_held
from resize_lib.descriptors import ProcessGrid
from resize_lib.protection import (
    chosen,
    generations,
    partfile,
    protector,
    protector_of,
    recovery,
    recovery_of,
)
from resize_lib.protection.generations import MANIFEST, complete_copies
from resize_lib.protection.protector import Protector
from resize_lib.protection.state import CopyState, ProtectionError
from resize_lib.redistribution import messages
from tests.plan.ranks_played import Comm, Ranks

HOSTS = ("n1", "n1", "n2")
JOB, INSTANCE = 7, 2
ENVIRONMENT = {"DQ_JOB_ID": str(JOB), "DQ_JOB_INSTANCE": str(INSTANCE), "DQ_PROTECT": "1"}


class Copies:
    """Stands for the program's own variables."""

    def __init__(self) -> None:
        self.pieces = [b"variables"]
        self.differing = self.why = ""
        self.done: list[str] = []
        self.for_sizes: list[int | None] = []

    def differing_value(self, _: Any) -> str:
        return self.differing

    def take(self, _: Any, next_size: int | None) -> tuple[list[bytes], str]:
        self.for_sizes.append(next_size)
        return self.pieces, self.why

    def prepare(self, parts: Any, *, in_place: bool) -> str:
        self.done.append(f"prepare {in_place}")
        return ""

    def apply(self) -> str:
        self.done.append("apply")
        return ""


class Value:
    def __init__(self, value: Any) -> None:
        self.value = value

    def restore(self, value: Any) -> None:
        self.value = value


class Played:
    """A job of three ranks on two nodes, whose only declared data is a value."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, size: int = 3) -> None:
        folder.chmod(0o700)
        self.disk, self.memory, self.patch = folder / "disk", folder / "memory", patch
        for name, text in {**ENVIRONMENT, "DQ_PROTECT_DIR": str(self.disk)}.items():
            patch.setenv(name, text)
        self.ranks = Ranks(size, patch)
        self.hosts = HOSTS[:size]
        self.said: list[str] = []
        patch.setattr(protector, "say", self.said.append)
        self.reported: list[m.CopyMade] = []

    def session(self, comm: Any, position: Any = ((0, 5),)) -> Any:
        size = len(self.hosts)
        job = SimpleNamespace(
            copies=CopyState(), loops=position, grid=ProcessGrid(1, size), lengths=(9,),
            resize_id=0, exchanged={"ghosts"} if position else set(),
        )  # fmt: skip
        return SimpleNamespace(
            job=job, comm=comm, grid=SimpleNamespace(own_comm=comm), rank=comm.rank, step=5,
            places=[m.RankPlace(k, host, host) for k, host in enumerate(self.hosts)], declared={},
            values={"v": Value(f"of {position}")}, copies=Copies(),
            server=lambda: SimpleNamespace(report=self.reported.append),
        )  # fmt: skip

    def each(self, work: Callable[[Protector], Any], position: Any = ((0, 5),)) -> list[Any]:
        """What each rank's Protector makes of it."""
        return self.ranks(lambda comm: work(Protector(self.session(comm, position))))

    def in_memory(self) -> None:
        self.memory.mkdir(mode=0o700)
        self.patch.setenv("DQ_PROTECT_MEMORY", str(self.memory))

    def of(self, host: str) -> Path:
        return self.memory / host / str(JOB)


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Played:
    return Played(tmp_path, monkeypatch)


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Protector:
    made = Played(tmp_path, monkeypatch, size=1)
    return Protector(made.session(Comm(made.ranks, 0)))


def twice(one: Protector) -> None:
    """It makes two copies."""
    one.make()
    one.make()


def restored(one: Protector) -> Any:
    copy = one.begin(one.session.comm)
    if copy is None:
        return None
    one.session.job.exchanged.add("before the loop")
    one.restore(copy)
    assert one.session.copies.done == ["prepare False", "apply"]  # type: ignore[attr-defined]
    assert one.session.job.exchanged == {"ghosts", "before the loop"}
    return one.session.values["v"].value, one.state.loops


# --- when -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "points", "since_s", "due"),
    [
        ({}, 0, 8.9, False),  # a tenth of the time: it took 1 s
        ({}, 0, 9.0, True),
        ({"every_points": 3}, 1, 99.0, False),
        ({"every_points": 3}, 2, 0.0, True),
        ({"every_s": 5.0}, 9, 4.0, False),
        ({"every_s": 5.0}, 0, 5.5, True),
        ({"every_points": 9, "protects": False}, 9, 99.0, False),
    ],
)
def test_a_copy_is_due(
    alone: Protector,
    more: dict[str, Any],
    points: int,
    since_s: float,
    due: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(protector, "time", SimpleNamespace(monotonic=lambda: 1000.0))
    alone.share, alone._last_s = 0.1, 1000.0 - since_s
    alone.state.took_s, alone.state.points = 1.0, points
    for name, value in more.items():
        setattr(alone, name, value)
    assert alone.due(resizing=False, iterations=1) is due
    assert alone.due(resizing=True, iterations=1) is alone.protects
    alone.state.loops = alone.session.job.loops
    assert not alone.due(resizing=True, iterations=9), "there is one of just now"


@pytest.mark.parametrize(
    ("memory", "loops", "resize_id", "due"),
    [
        ("/m", ((0, 1),), 4, True),
        ("", ((0, 1),), 4, False),
        ("/m", (), 4, False),
        ("/m", ((0, 1),), 0, False),
    ],
)
def test_the_first_copy_after_a_resize_is_made_at_once(
    alone: Protector, memory: str, loops: Any, resize_id: int, due: bool
) -> None:
    alone.every_points, alone.memory = 99, memory
    alone.state.loops, alone.session.job.resize_id = loops, resize_id
    assert alone.due(resizing=False, iterations=1) is due


def test_iterations_until_the_next_copy(alone: Protector) -> None:
    assert alone.iterations_left(copy=True, iterations=1) is None
    alone.every_points, alone.state.points = 9, 2
    assert alone.iterations_left(copy=True, iterations=1) == 9
    assert alone.iterations_left(copy=False, iterations=3) == 4
    assert alone.iterations_left(copy=False, iterations=99) == 1


def test_what_the_environment_says(alone: Protector, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (alone.every_points, alone.every_s, alone.made) == (None, None, None)
    assert alone.share == protector.SHARE_OF_TIME
    for name, text in (("POINTS", "3"), ("SECONDS", "1.5"), ("BUDGET", "0.2")):
        monkeypatch.setenv(f"DQ_PROTECT_{name}", text)
    monkeypatch.setenv("DQ_COPIES_MADE", "2")
    monkeypatch.delenv("DQ_PROTECT_DIR")
    monkeypatch.setenv("DQ_HOME", "/home")
    one = Protector(alone.session)
    assert (one.every_points, one.every_s, one.share, one.made) == (3, 1.5, 0.2, 2)
    assert one.disk == Path("/home/jobs/7/copies")
    monkeypatch.delenv("DQ_COPIES_MADE")
    alone.session.job.resize_id = 4
    assert Protector(alone.session).made == 1


# --- on disk --------------------------------------------------------------------------------------


def test_a_copy_on_disk_is_found_by_the_next_start(played: Played) -> None:
    played.each(lambda one: one.remap_point(make=True, iterations=2))
    assert [path.name for path in complete_copies(played.disk)] == ["2.1"]
    assert played.disk.stat().st_mode & 0o777 == 0o700
    (report,) = played.reported
    assert (report.step, report.error) == (5, "")
    assert report.nbytes == sum(p.stat().st_size for p in played.disk.glob("2.1/part-*"))
    played.patch.setenv("DQ_COPIES_MADE", "1")
    assert played.each(restored, ()) == 3 * [("of ((0, 5),)", ((0, 5),))]


def test_folders_on_the_way_to_the_copies_are_made(played: Played) -> None:
    folder = played.disk / "of" / "job"
    played.patch.setenv("DQ_PROTECT_DIR", str(folder))
    played.each(lambda one: one.make())
    assert [path.name for path in complete_copies(folder)] == ["2.1"]
    assert [path.stat().st_mode & 0o777 for path in (folder, folder / "2.1")] == 2 * [0o700]


def test_points_are_counted_from_the_last_copy(played: Played) -> None:
    def work(one: Protector) -> Any:
        one.remap_point(make=False, iterations=1)
        one.remap_point(make=False, iterations=2)
        before = one.state.points
        one.remap_point(make=True, iterations=1)
        return before, one.state.points, one.state.loops, one.state.number, one.state.resize_id

    assert played.each(work) == 3 * [(3, 0, ((0, 5),), 1, 0)]


def test_two_copies_are_kept(played: Played) -> None:
    def work(one: Protector) -> None:
        for _ in range(4):
            one.make()

    played.each(work)
    assert [path.name for path in complete_copies(played.disk)] == ["2.4", "2.3"]
    assert len(list(played.disk.iterdir())) == 2


def test_a_damaged_copy_is_passed_over(played: Played) -> None:
    played.each(twice)
    part = played.disk / "2.2" / "part-00001"
    part.write_bytes(part.read_bytes()[:-1] + b"x")
    played.patch.setenv("DQ_COPIES_MADE", "2")
    assert played.each(lambda one: one.begin(one.session.comm).copy.folder.name) == 3 * ["2.1"]  # type: ignore[union-attr]
    shutil.rmtree(played.disk / "2.1")
    for found in played.each(restored):
        assert isinstance(found, ProtectionError)
        assert "no copy of its data can be used" in str(found)
        assert "part-00001: damaged" in str(found)


def test_copies_that_are_gone_are_an_error_and_none_is_a_beginning(played: Played) -> None:
    assert played.each(restored) == 3 * [None], "the first start looks for none"
    played.patch.setenv("DQ_COPIES_MADE", "0")
    assert played.each(restored) == 3 * [None]
    played.patch.setenv("DQ_COPIES_MADE", "1")
    for found in played.each(restored):
        assert str(found) == f"{played.disk}: the copies of its data are gone"


def test_a_part_that_is_still_being_saved_is_waited_for(played: Played) -> None:
    played.each(lambda one: one.make())
    part = played.disk / "2.1" / "part-00002"
    part.rename(played.disk / "late")
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 1:
            (played.disk / "late").rename(part)

    clock = SimpleNamespace(monotonic=lambda: 0.0, sleep=sleep)
    played.patch.setattr(recovery, "time", clock)
    played.patch.setenv("DQ_COPIES_MADE", "1")
    assert None not in played.each(restored)
    assert slept
    assert set(slept) == {recovery.LOOK_AGAIN_S}


@pytest.mark.parametrize("name", ["differing", "why"])
def test_a_copy_that_would_lack_something_is_not_made(played: Played, name: str) -> None:
    def work(one: Protector) -> Any:
        setattr(one.session.copies, name, "x differs" * 1000)
        one.make()
        one.make()
        return one.state.error[:9], one.state.loops, one.state.number

    assert played.each(work) == 3 * [("x differs", (), 2)]
    assert [len(report.error) for report in played.reported] == [4000, 4000]
    assert len(played.said) == 1, "once"
    assert complete_copies(played.disk) == []


def test_a_disk_that_one_rank_cannot_write_fails_all(played: Played) -> None:
    right = partfile.write_part

    def write(path: Path, grid: Any, rank: int, *words: Any, **more: Any) -> Any:
        if rank == 1:
            raise OSError(28, "No space left on device", str(path))
        return right(path, grid, rank, *words, **more)

    played.patch.setattr(partfile, "write_part", write)
    played.each(lambda one: one.make())
    (report,) = played.reported
    assert report.error == f"{played.disk}/2.1/part-00001: No space left on device (rank 1)"
    assert not (played.disk / "2.1").exists()


def test_a_folder_of_others_holds_no_copy(played: Played) -> None:
    played.disk.mkdir()
    played.disk.chmod(0o777)
    played.each(lambda one: one.make())
    assert played.reported[0].error.startswith(f"{played.disk} is open to others")
    played.disk.chmod(0o700)
    (played.disk / "2.1").mkdir()
    (played.disk / "2.1").chmod(0o770)
    played.each(lambda one: one.make())
    assert "is open to others" in played.reported[1].error


def test_a_copy_for_a_restart_says_what_went_wrong(played: Played) -> None:
    assert played.each(lambda one: one.make_for_restart(2)) == 3 * [""]
    assert len(complete_copies(played.disk)) == 1
    played.patch.setattr(partfile, "write_part", lambda *_, **__: 1 / 0)
    found = played.each(lambda one: one.make_for_restart(2))
    assert found == 3 * ["ZeroDivisionError: division by zero (rank 0)"]


def test_a_copy_for_a_restart_is_made_for_the_size_of_the_next_start(alone: Protector) -> None:
    alone.make()
    alone.make_for_restart(2)
    assert alone.session.copies.for_sizes == [None, 2]  # type: ignore[attr-defined]


# --- in memory ------------------------------------------------------------------------------------


def back(one: Protector) -> Any:
    one.state.number = 9
    position = one.restore_in_place()
    done = one.session.copies.done  # type: ignore[attr-defined]
    return one.session.values["v"].value, position, done


BACK = ("of ((0, 5),)", ((0, 5),), ["prepare True", "apply"])


def test_each_part_is_on_two_nodes(played: Played) -> None:
    played.in_memory()
    played.disk.mkdir(mode=0o700)
    (played.disk / "1.1").mkdir()
    played.each(lambda one: one.make())
    of_n1 = {path.name for path in (played.of("n1") / "2.1").iterdir()}
    assert of_n1 == {"part-00000", "part-00001", "part-00002", MANIFEST}
    of_n2 = {path.name for path in (played.of("n2") / "2.1").iterdir()}
    assert of_n2 == of_n1
    assert not (played.disk / "1.1").exists(), "an earlier start has left it there"
    assert played.each(back, ()) == 3 * [BACK]


def test_copies_in_memory_of_a_single_rank_replace_those_on_disk(alone: Protector) -> None:
    alone.make()
    on_disk = alone.disk
    assert len(complete_copies(on_disk)) == 1
    in_memory = on_disk.parent / "memory"
    in_memory.mkdir(mode=0o700)
    alone.memory = str(in_memory)
    alone.make()
    assert complete_copies(on_disk) == []


def test_what_one_rank_cannot_restore_is_an_error_on_all(played: Played) -> None:
    def work(comm: Any) -> str:
        with pytest.raises(ProtectionError) as e:
            recovery.together(comm, "no room" if comm.rank == 1 else "")
        recovery.together(comm, "")
        return str(e.value)

    assert played.ranks(work) == 3 * ["the copy of its data cannot be restored: no room"]


@pytest.mark.parametrize("lost", ["n1", "n2"])
def test_a_node_may_be_lost(played: Played, lost: str) -> None:
    played.in_memory()
    played.each(lambda one: one.make())
    shutil.rmtree(played.memory / lost)
    assert played.each(back, ()) == 3 * [BACK]


def test_parts_that_a_rank_does_not_see_are_fetched(played: Played) -> None:
    played.in_memory()
    played.each(lambda one: one.make())
    # Nodes are machines of their own: each rank sees its own only.
    played.patch.setattr(chosen.CopyMemory, "hosts", lambda mine: [mine.host])
    played.patch.setattr(chosen.Parts, "are_here", lambda _: False)
    fetched, fetch = list[Any](), chosen.Parts.fetch

    def note(parts: chosen.Parts, which: Any) -> None:
        fetched.append(set(which))
        fetch(parts, which)

    played.patch.setattr(chosen.Parts, "fetch", note)
    assert played.each(back, ()) == 3 * [BACK]
    assert fetched == 6 * [{0}], "part 0 says what else is needed: nothing is declared"


def saved_apart(played: Played) -> Callable[[Protector], None]:
    """Copies in memory that agents have saved to disks which the nodes do not share.

    Returns what lets a rank see that of its own node only.
    """
    played.in_memory()
    played.each(lambda one: one.make())
    for host in set(played.hosts):
        save_held(played.of(host), played.disk / host)
    played.patch.setenv("DQ_COPIES_MADE", "1")

    def sees(one: Protector) -> None:
        host = one.session.places[one.session.rank].host
        one.disk = played.disk / host
        one._on_disk = lambda: chosen.CopyDisk(one.disk, host)  # type: ignore[method-assign]

    return sees


@pytest.mark.parametrize("lost", ["", "n1", "n2"])
def test_a_restart_needs_no_folder_that_nodes_share(played: Played, lost: str) -> None:
    sees = saved_apart(played)
    if lost:
        shutil.rmtree(played.disk / lost)
    parts = set[int]()
    fetch = chosen.Parts.fetch

    def note(seen: chosen.Parts, which: Any) -> None:
        parts.update(which)
        fetch(seen, which)

    played.patch.setattr(chosen.Parts, "fetch", note)

    def begin(one: Protector) -> Any:
        sees(one)
        return restored(one)

    assert played.each(begin, ()) == 3 * [("of ((0, 5),)", ((0, 5),))]
    assert parts == ({0, 1, 2} if lost else set()), "both nodes hold all three"


def test_a_restart_on_other_nodes_than_those_of_the_copies_says_what_is_missing(
    played: Played,
) -> None:
    sees = saved_apart(played)
    for host in ("n1", "n2"):
        (played.disk / host / "2.1" / "part-00002").unlink()
    clock = iter(range(99))
    now = SimpleNamespace(monotonic=lambda: float(next(clock)), sleep=lambda _: None)
    played.patch.setattr(recovery, "time", now)

    def begin(one: Protector) -> Any:
        sees(one)
        return restored(one)

    for found in played.each(begin, ()):
        assert isinstance(found, ProtectionError)
        assert str(found).endswith("2.1/part-00002: No such file or directory")


def test_a_copy_on_disks_that_nodes_do_not_share_is_refused(played: Played) -> None:
    def make(one: Protector) -> None:
        one.disk = played.disk / one.session.places[one.session.rank].host
        one.make()

    played.each(make)
    (report,) = played.reported
    assert report.error == (
        f"{played.disk}/n2/2.1 is not one folder on all nodes;"
        " --protect partner needs no such folder (rank 2)"
    )


def test_the_copy_of_a_single_rank_has_part_0_only(alone: Protector) -> None:
    parts: dict[int, Any] = {0: SimpleNamespace(grid=ProcessGrid(1, 1))}
    assert recovery.needed(alone.session, parts.__getitem__) == {0}


@pytest.mark.parametrize("size", [1, 10, 11])
def test_a_part_arrives_whole_in_pieces(played: Played, size: int) -> None:
    played.patch.setattr(messages, "MESSAGE_BYTES_MAX", 10)
    played.memory.mkdir(mode=0o700)
    data = bytes(range(size))
    folder = played.memory / "n1" / str(JOB) / "2.1"
    folder.mkdir(parents=True, mode=0o700)
    generations.part_path(folder, 0).write_bytes(data)
    copy = generations.Copy(folder, (), ProcessGrid(1, 1), ((size, 0),))
    found = chosen.Chosen(copy, (("n1", 0),))

    def work(comm: Any) -> Any:
        memory = chosen.CopyMemory(played.memory, JOB, "n1", INSTANCE)
        with chosen.Parts(comm, memory, found) as parts:
            if comm.rank:  # as if it were on another machine
                parts._paths[0] = Path("/nowhere")
            parts.fetch([0, 0])
            parts.fetch([0])
            return parts._paths[0].read_bytes()

    assert played.ranks(work) == 3 * [data]


def test_the_newest_copy_that_is_sound_is_taken_and_newer_ones_go(played: Played) -> None:
    played.in_memory()
    played.each(twice)
    for host in ("n1", "n2"):
        part = played.of(host) / "2.2" / "part-00000"
        part.write_bytes(part.read_bytes()[:-1] + b"x")
    (played.of("n2") / "2.1" / MANIFEST).unlink()
    assert played.each(back, ()) == 3 * [BACK]
    for host in ("n1", "n2"):
        assert [path.name for path in complete_copies(played.of(host))] == ["2.1"]
        assert not (played.of(host) / "2.2").exists()


def test_of_two_sound_copies_the_newer_one_is_taken(played: Played) -> None:
    played.in_memory()
    played.each(twice)

    def taken(comm: Any) -> str:
        memory = chosen.CopyMemory(played.memory, JOB, HOSTS[comm.rank], INSTANCE)
        found, _ = chosen.newest(comm, memory)
        return "" if found is None else found.copy.folder.name

    assert played.ranks(taken) == 3 * ["2.2"]


def test_only_the_first_rank_of_a_node_puts_its_folder_in_order(played: Played) -> None:
    played.in_memory()
    played.each(twice)
    memory = chosen.CopyMemory(played.memory, JOB, "n1", INSTANCE)
    copy = generations.read_copy(played.of("n1") / "2.1")
    found = chosen.Chosen(copy, (("n1", 0),) * 3)
    chosen.settle(memory, found, leads=False)
    assert len(complete_copies(played.of("n1"))) == 2
    chosen.settle(chosen.CopyMemory(played.memory, JOB, "n3", INSTANCE), found, leads=True)
    chosen.settle(memory, found, leads=True)
    assert [path.name for path in complete_copies(played.of("n1"))] == ["2.1"]


def test_copies_of_other_starts_and_of_others_are_none(played: Played) -> None:
    played.in_memory()
    played.each(lambda one: one.make())
    for host in ("n1", "n2"):
        (played.of(host) / "2.1").rename(played.of(host) / "1.1")
    for found in played.each(back):
        assert str(found) == "no copy of its data has been made yet"
    for host in ("n1", "n2"):
        (played.of(host) / "1.1").rename(played.of(host) / "2.1")
        (played.of(host) / "2.1").chmod(0o777)
    for found in played.each(back):
        assert isinstance(found, ProtectionError)


def test_without_one_in_memory_the_one_on_disk_is_taken(played: Played) -> None:
    played.each(lambda one: one.make())
    played.in_memory()
    played.patch.setenv("DQ_COPIES_MADE", "1")
    assert played.each(back, ()) == 3 * [BACK]


def test_a_part_that_arrives_damaged_is_no_copy(played: Played) -> None:
    played.in_memory()
    right = protector._two

    def two(text: str) -> tuple[int, int]:
        size, total = right(text)
        return size, total + 1

    played.patch.setattr(protector, "_two", two)
    played.each(lambda one: one.make())
    assert "arrived damaged" in played.reported[0].error


# --- who has one ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("protect", "backend", "managed", "has"),
    [
        ("1", "own", True, True),
        ("", "own", True, False),
        ("", "restart", True, True),
        ("", "restart", False, False),
        ("", "own", False, False),
    ],
)
def test_which_jobs_make_copies(
    alone: Protector,
    protect: str,
    backend: str,
    managed: bool,
    has: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = alone.session
    monkeypatch.setenv("DQ_PROTECT", protect)
    session.backend, session.job.managed = SimpleNamespace(name=backend), managed
    assert isinstance(protector_of(session), Protector) is has


def test_a_job_without_copies_does_not_go_on_in_place(alone: Protector) -> None:
    alone.session.protector = None
    assert recovery_of(alone.session) is None


def test_a_manifest_has_a_part_for_each_rank(tmp_path: Path) -> None:
    copy = generations.Copy(tmp_path, ((0, 1),), ProcessGrid(1, 2), ((1, 1), (2, 2)), (3,))
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    generations.write_manifest(copy, sync=True)
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
    assert generations.read_copy(tmp_path) == copy
    generations.write_manifest(replace(copy, parts=((1, 1),)), sync=False)
    with pytest.raises(ProtectionError, match=r"1 parts for a grid of 2"):
        generations.read_copy(tmp_path)
