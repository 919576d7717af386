"""Output of ranks on a disk that fails: it waits, is written when the disk recovers, or counted."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from dq_client.node.ranks import output
from dq_client.node.ranks.marks import RECORD, SUFFIX, Labelled
from dq_client.node.ranks.output import KEPT_BYTES_MAX, File, Files


class Disk:
    """What os.write does in output.py; it takes `room` bytes more."""

    def __init__(self) -> None:
        self.room, self.error = 1 << 30, errno.ENOSPC

    def write(self, fd: int, data: bytes | memoryview) -> int:
        if not self.room and len(data):
            raise OSError(self.error, os.strerror(self.error))
        written = os.write(fd, data[: self.room])
        self.room -= written
        return written


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    made = Disk()

    class Os:
        write = staticmethod(made.write)

        def __getattr__(self, name: str) -> object:
            return getattr(os, name)

    monkeypatch.setattr(output, "os", Os())
    return made


def test_what_a_full_disk_does_not_take_is_written_when_there_is_room(
    disk: Disk, tmp_path: Path
) -> None:
    file = File(str(tmp_path / "out"))
    file.write(b"one\n", (0, 0))
    disk.room = 2
    file.write(b"two\n", (0, 1))
    file.write(b"three\n", (0, 0))
    assert file.waiting_bytes == len("o\nthree\n")
    assert "No space left" in str(file)
    assert file.may_pass
    disk.room = 1 << 30
    assert file.flush()
    assert (tmp_path / "out").read_bytes() == b"one\ntwo\nthree\n"
    assert (file.lost_bytes, file.waiting_bytes, file.why) == (0, 0, "")
    labelled = Labelled()
    labelled.learn((tmp_path / f"out{SUFFIX}").read_bytes())
    assert labelled.seen * RECORD.size == (tmp_path / f"out{SUFFIX}").stat().st_size
    assert labelled.show(b"one\ntwo\nthree\n") == b"[0] one\n[1] two\n[0] three\n"


def test_what_is_too_much_to_wait_is_counted_in_its_place(disk: Disk, tmp_path: Path) -> None:
    files = Files()
    file = files.file(str(tmp_path), "out")
    disk.room = 0
    kept = b"x" * (KEPT_BYTES_MAX - 10) + b"\n"
    for data in (kept, b"dropped one\n", b"dropped two\n", b"short\n"):
        file.write(data)
    assert file.lost_bytes == 24
    assert files.at_stake_bytes == len(kept) + 24 + len("short\n")
    assert files.state()["lost_bytes"] == 0, "it is not over yet"
    disk.room = 1 << 30
    assert files.flush()
    lines = (tmp_path / "out").read_bytes().splitlines()
    assert lines == [kept[:-1], b"", b"dq: 24 bytes are missing: No space left on device", b"short"]
    assert files.state()["lost_bytes"] == 24
    assert str(tmp_path / "out") in str(files.state()["lost_why"])
    assert not files.state()["unwritten"]


def test_the_last_output_waits_for_a_while_and_is_lost_then(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    files = Files()
    file = files.file(str(tmp_path), "out")
    disk.room = 0
    file.write(b"RESULT 42\n")
    assert not files.write_last(60.0)
    assert files.state()["writing"]
    unwritten = f"output cannot be written to {tmp_path}/out: No space left on device"
    assert files.state()["unwritten"] == unwritten
    now = 159.0
    assert not files.write_last(60.0)
    now = 160.0
    assert files.write_last(60.0)
    found = files.state()
    assert (found["writing"], found["lost_bytes"]) == (False, 10)
    assert "No space left" in str(found["lost_why"])


@pytest.mark.parametrize("room", [True, False])
def test_nothing_is_said_of_output_that_is_whole(disk: Disk, tmp_path: Path, room: bool) -> None:
    files = Files()
    file = files.file(str(tmp_path), "out")
    if not room:
        disk.room = 0
        file.write(b"late\n")
        disk.room = 100
    assert files.write_last(60.0)
    nothing = {"unwritten": "", "writing": False, "lost_bytes": 0, "lost_why": ""}
    assert files.state() == nothing
    assert files.at_stake_bytes == 0


def test_a_path_that_is_wrong_is_waited_for_by_nobody(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    files = Files()
    files.file(str(tmp_path), "out").write(b"12345")
    assert not files.waits
    assert files.write_last(60.0)
    assert files.state()["lost_bytes"] == 5


def test_a_wrong_path_is_no_matter_while_nothing_was_written(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    files = Files()
    file = files.file(str(tmp_path), "out")
    assert not files.flush()
    assert file.why
    assert not files.state()["unwritten"]


def test_what_waits_for_a_path_that_turns_wrong_is_lost(disk: Disk, tmp_path: Path) -> None:
    file = File(str(tmp_path / "out"))
    disk.room = 0
    file.write(b"waits\n")
    disk.error = errno.EPERM
    assert not file.flush()
    assert (file.waiting_bytes, file.lost_bytes, file.may_pass) == (0, 6, False)


@pytest.mark.parametrize("more", [0, 1])
def test_a_line_without_an_end_waits_until_it_is_too_long(tmp_path: Path, more: int) -> None:
    reading, writing = output.pipe()
    stream = output.Stream(reading, File(str(tmp_path / "out")), (0, 0))
    data = b"x" * (output.LINE_BYTES_MAX + more)
    for at in range(0, len(data), 4096):
        os.write(writing, data[at : at + 4096])
        stream.pump()
    assert (tmp_path / "out").stat().st_size == len(data) * more
    os.write(writing, b"y\nz")
    stream.pump()
    assert (tmp_path / "out").read_bytes() == data + b"y\n"
    os.close(writing)
    stream.close()
    assert (tmp_path / "out").read_bytes() == data + b"y\nz"
