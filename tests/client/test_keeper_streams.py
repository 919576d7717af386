"""What ranks write on its way into a file, and what a rank is started with."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dq_client.base import process
from dq_client.node.ranks import output, world
from dq_client.node.ranks.marks import RECORD, SUFFIX, label_of
from dq_client.node.ranks.output import File, Files, Stream
from dq_client.node.ranks.world import Rank, World, WorldStart


class Pipe:
    """A rank's end of a stream into a file."""

    def __init__(self, folder: Path, *, label: bool = False) -> None:
        self.path = folder / "out"
        reading, self.writing = output.pipe()
        self.stream = Stream(reading, File(str(self.path)), (4, 1), label=label)

    def write(self, data: bytes) -> None:
        os.write(self.writing, data)

    def written(self) -> bytes:
        return self.path.read_bytes()


@pytest.fixture
def pipe(tmp_path: Path) -> Pipe:
    return Pipe(tmp_path)


def test_whole_lines_are_passed_on(pipe: Pipe) -> None:
    assert pipe.stream.pump(), "there is nothing yet"
    pipe.write(b"one\ntw")
    assert pipe.stream.pump()
    assert pipe.written() == b"one\n"
    pipe.write(b"o\rthr")
    assert pipe.stream.pump()
    assert pipe.written() == b"one\ntwo\r"
    os.close(pipe.writing)
    assert not pipe.stream.pump()
    assert pipe.written() == b"one\ntwo\r"
    pipe.stream.close()
    assert pipe.written() == b"one\ntwo\rthr"
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(pipe.stream.fileno())


@pytest.mark.parametrize("ended", [True, False])
def test_all_that_a_rank_has_written_is_passed_on_at_its_end(pipe: Pipe, ended: bool) -> None:
    pipe.write(b"one\n")
    pipe.stream.pump()
    pipe.write(b"two\nthr")
    if ended:
        os.close(pipe.writing)
    pipe.stream.drain()
    assert pipe.written() == b"one\ntwo\nthr"
    pipe.stream.drain()
    assert pipe.written() == b"one\ntwo\nthr"


def test_much_that_is_left_is_passed_on_in_pieces(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "LINE_BYTES_MAX", 10)
    monkeypatch.setattr(output, "PIECE_BYTES", 8)
    pieces: list[bytes] = []
    monkeypatch.setattr(pipe.stream._file, "write", lambda data, _: pieces.append(data))
    pipe.write(b"x" * 27)
    pipe.stream.drain()
    assert [len(piece) for piece in pieces] == [16, 11]


def test_labels_begin_each_line(tmp_path: Path) -> None:
    pipe = Pipe(tmp_path, label=True)
    pipe.write(b"one\ntwo\nthr")
    pipe.stream.pump()
    pipe.stream.drain()
    label = label_of((4, 1)).encode()
    assert pipe.written() == label + b"one\n" + label + b"two\n" + label + b"thr\n"
    assert not Path(f"{pipe.path}{SUFFIX}").exists(), "the label says who it was"


def test_who_has_written_is_noted_unless_a_label_says_so(pipe: Pipe) -> None:
    pipe.write(b"one\n")
    pipe.stream.pump()
    noted = Path(f"{pipe.path}{SUFFIX}").read_bytes()
    assert noted == RECORD.pack(0, 4, 4, 1)


def test_a_file_of_a_job_is_one_file(tmp_path: Path) -> None:
    files = Files()
    one = files.file(str(tmp_path), "out")
    assert files.file(str(tmp_path), "out") is one
    assert files.file(str(tmp_path), "err") is not one
    assert (files.waits, files.at_stake_bytes) == (False, 0)
    assert one.is_whole


# --- worlds ---------------------------------------------------------------------------------------


def start(**more: Any) -> WorldStart:
    given: dict[str, Any] = {
        "world": 4, "programs": [["p"], ["q", "1"]], "program_of": [0, 1, 1], "cwd": "/c",
        "env": {"X": "y"}, "nodes": ["n1", "n2", "n1"], "folder": "", "name": "w",
    }  # fmt: skip
    return WorldStart(**(given | more))


@pytest.fixture
def births(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[process.Birth]]:
    made: list[process.Birth] = []

    def fork(birth: process.Birth, _: object) -> int:
        made.append(birth)
        return 100 + len(made)

    monkeypatch.setattr(process, "fork", fork)
    monkeypatch.setattr(world, "open_shared_memory", lambda pid: {f"memory of {pid}"})
    yield made


def run(tmp_path: Path, number: int, **more: Any) -> tuple[World, Rank]:
    made = World(start(folder=str(tmp_path), **more), ["n1"])
    return made, made.run(number, Files().file, None)


def test_what_a_rank_is_started_with(tmp_path: Path, births: list[process.Birth]) -> None:
    made, rank = run(tmp_path, 2)
    (birth,) = births
    assert (birth.argv, birth.cwd) == (["q", "1"], "/c")
    assert birth.env == {
        "X": "y", "PMI_RANK": "2", "PMI_SIZE": "3", "PMI_ID": "2", "DQ_WORLD": "4", "DQ_NODE": "n1",
        "DQ_RANK": "2",
    }  # fmt: skip
    assert set(birth.sockets) == {world.PMI, world.LINK}
    assert (rank.number, rank.node, rank.pid, made.local) == (2, "n1", 101, {2: rank})
    assert made.machine.appnums == [0, 1, 1]
    assert made.machine.local == {0, 2}
    assert made.machine.nodes == [0, 1, 0]
    assert len(rank.channels()) == len(rank.streams) == 2
    rank.pmi = None
    assert rank.channels() == [rank.link]


@pytest.mark.parametrize(
    ("more", "env"),
    [
        ({"gpus": ["0", "1", "2,3"]}, {"CUDA_VISIBLE_DEVICES": "2,3"}),
        ({"spawned": True}, {"PMI_SPAWNED": "1"}),
        ({"joins": True}, {"DQ_JOINS": "1"}),
    ],
)
def test_what_some_ranks_are_told_besides(
    tmp_path: Path, births: list[process.Birth], more: dict[str, Any], env: dict[str, str]
) -> None:
    run(tmp_path, 2, **more)
    assert births[0].env.items() >= env.items()


def test_all_ranks_run_the_first_program_unless_another_is_named() -> None:
    assert [start().argv_of(rank) for rank in range(3)] == [["p"], ["q", "1"], ["q", "1"]]
    assert start(program_of=[]).argv_of(2) == ["p"]


def test_a_worker_knows_nothing_of_mpi(tmp_path: Path, births: list[process.Birth]) -> None:
    run(tmp_path, 2, spawned=True, worker=True)
    (birth,) = births
    assert birth.env == {"X": "y", "DQ_WORLD": "4", "DQ_NODE": "n1", "DQ_RANK": "2"}
    assert birth.sockets == {}


def test_rank_0_alone_has_an_input(tmp_path: Path, births: list[process.Birth]) -> None:
    (tmp_path / "in").write_text("input")
    made, _ = run(tmp_path, 0, input=str(tmp_path / "in"))
    made.run(2, Files().file, None)
    assert len(births) == 2
    with pytest.raises(FileNotFoundError):
        run(tmp_path, 0, input=str(tmp_path / "missing"))
    run(tmp_path, 2, input=str(tmp_path / "missing"))


def test_a_world_of_one_keeper_is_one_node_to_mpi() -> None:
    assert World(start(), ["n1", "n2"]).machine.nodes == [0, 0, 0]
    assert World(start(), ["n2"]).machine.nodes == [0, 1, 0]


def test_how_a_world_stands(tmp_path: Path, births: list[process.Birth]) -> None:
    made, rank = run(tmp_path, 0, joins=True, processors=[7, 8, 9])
    assert births
    stands = [(made.is_alive, made.is_part, made.of_pid(101))]
    assert (made.processor(rank), made.called(rank)) == (7, "rank 0 on n1")
    made.gone, rank.code, made.start.processors = True, 0, []
    stands.append((made.is_alive, made.is_part, made.of_pid(101)))
    made.expected = {2}
    stands.append((made.is_alive, made.is_part, made.of_pid(101)))
    assert stands == [(True, False, rank), (False, True, None), (True, True, None)]
    assert made.of_pid(102) is None
    assert made.processor(rank) == -1


def test_a_world_that_is_over_keeps_little(tmp_path: Path, births: list[process.Birth]) -> None:
    made, rank = run(tmp_path, 0)
    other = made.run(2, Files().file, None)
    rank.quiet_s = 5.0
    made.machine.keys["k"] = "v"
    made.forget()
    assert made.local == {0: rank}, "the others may wait for it"
    assert (made.start.programs, made.start.env, made.machine.keys) == ([], {}, {})
    assert births
    assert other.number == 2


def test_ranks_are_killed_or_told_to_leave(
    tmp_path: Path, births: list[process.Birth], monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[tuple[int, ...]] = []
    monkeypatch.setattr(process, "kill", lambda *words: killed.append(words))
    monkeypatch.setattr(process, "descendants", lambda _: [])
    monkeypatch.setattr(world, "time", SimpleNamespace(monotonic=lambda: 100.0))
    made, _ = run(tmp_path, 0)
    made.end(12, 3.0)
    made.end(12, 9.0)
    assert (killed, made.kill_s, made.ending) == ([(101, 12)], 103.0, True)
    made.kill()
    assert killed[1:] == [(101,)]
    assert made.kill_s == float("inf")
    made.end(0, 0.0)
    assert killed[2:] == [(101,)]
    assert "memory of 101" in made.shared_memory()
    assert births


def test_a_barrier_ends_when_all_of_its_ranks_have_come() -> None:
    made = World(start(), ["n1"])
    assert made.collect(0, "n1", 2, {"a": "1"}) == {}
    assert made.collect(0, "n1", 2, {"a": "1"}) == {}, "said again"
    keys = {"a": "1", "b": "2"}
    assert made.collect(0, "n2", 1, {"b": "2"}) == {"n1": keys, "n2": keys}
    assert made.is_asked
    assert made.collect(0, "n2", 1, {"b": "2"}) == {"n2": keys}, "it did not hear of it"
    assert made.collect(1, "n2", 1, {}) == {}
    assert made.collect(0, "n2", 1, {}) == {"n2": keys}
    assert made.collect(1, "n1", 2, {}) == {"n1": {}, "n2": {}}
    assert made.collect(0, "n2", 1, {}) == {}, "long over"


def test_memory_of_mpich_is_removed_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world, "SHARED_MEMORY", f"{tmp_path}/mpich_shm_")
    for name in ("mpich_shm_1_0", "other"):
        (tmp_path / name).touch()
    gone = [tmp_path / name for name in ("mpich_shm_1_0", "mpich_shm_2_0", "other")]
    world.remove_shared_memory([*map(str, gone), f"{tmp_path}/mpich_shm_../other"])
    assert [path.name for path in tmp_path.iterdir()] == ["other"]
    assert World(start(adopted=[1, 2, 3]), ["n1"]).shared_memory() == set()
    with (tmp_path / "mpich_shm_open").open("w+b") as shared, (tmp_path / "other").open("r+b") as b:
        for file in (shared, b):
            file.truncate(10)
        with mmap.mmap(shared.fileno(), 10), mmap.mmap(b.fileno(), 10):
            assert world.open_shared_memory(os.getpid()) == {shared.name}
    # FNV-1a of "a", from its authors' test vectors
    named = World(start(name="a"), ["n2"]).shared_memory()
    assert named == {f"{tmp_path}/mpich_shm_e40c292c_1"}
