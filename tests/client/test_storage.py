"""What is said of a disk that cannot be written, and what goes on without it."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from dq_client.base import messages as m
from dq_client.base import process, storage
from dq_client.base.errors import NotNow
from dq_client.base.home import Home, write_private
from dq_client.base.process_tree import Owner
from dq_client.node.agent.holdings import HoldingRecord, Holdings
from dq_client.node.agent.troubles import NODE, Troubles
from dq_client.node.ranks.output import File
from resize_lib import server_link
from resize_lib.server_link import ServerLink


def no_space(*_: object, **__: object) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "is full: make room there"),
        (errno.EROFS, "is read-only: mount it writable (mount -o remount,rw "),
        (errno.EDQUOT, "the quota of user"),
        (errno.EIO, "fails (Input/output error): see dmesg"),
        (errno.EACCES, "Permission denied"),
    ],
)
def test_one_line_says_what_is_wrong_where_and_what_to_do(
    tmp_path: Path, number: int, words: str
) -> None:
    text = storage.describe(OSError(number, os.strerror(number)), tmp_path)
    assert text.startswith(f"cannot write in {tmp_path}: ")
    assert text.endswith("; everything then goes on by itself")
    assert words in text
    assert "\n" not in text


def test_a_trial_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert storage.fault(tmp_path) == ""
    monkeypatch.setattr(os, "write", no_space)
    assert "is full" in storage.fault(tmp_path)
    assert "No such file" in storage.fault(tmp_path / "missing")
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written_whole_leaves_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_private(tmp_path / "file", "before")
    monkeypatch.setattr(os, "replace", no_space)
    with pytest.raises(OSError, match="No space left"):
        write_private(tmp_path / "file", "after")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "before"


def test_output_of_a_file_that_cannot_be_made_is_counted(tmp_path: Path) -> None:
    file = File(str(tmp_path / "folder" / "out"))
    assert file.why == "No such file or directory"
    file.write(b"lost\n")
    (tmp_path / "folder").mkdir()
    file.write(b"kept\n")
    assert file.why == ""
    file.close()
    written = (tmp_path / "folder" / "out").read_text()
    assert written == "\ndq: 5 bytes are missing: No such file or directory\nkept\n"


def test_an_agent_says_what_is_wrong_until_it_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = Troubles(Home(tmp_path))
    monkeypatch.setattr(storage, "fault", lambda *_, **__: "the disk is full")
    assert said.cannot_start() == "the disk is full"
    said.tell(3, "output is dropped")
    assert said.list() == [m.Trouble(NODE, "the disk is full"), m.Trouble(3, "output is dropped")]
    monkeypatch.setattr(storage, "fault", lambda *_, **__: "")
    assert said.list() == [m.Trouble(3, "output is dropped")]
    said.tell(3, "")
    assert said.list() == []


def test_an_agent_that_starts_on_a_full_disk_forgets_no_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that a keeper has claimed is never taken for one in which nothing was started."""
    owner = Owner(tmp_path, "a")
    first = Holdings(tmp_path / "holdings", owner)
    for job in (1, 2):
        first.make(HoldingRecord(job, 1, ranks=True))
    assert process.claim(str(first.trees["1.1"].folder))
    monkeypatch.setattr(process, "claim", no_space)
    with pytest.raises(OSError, match="No space left"):  # of job 2 it cannot be told
        Holdings(tmp_path / "holdings", owner)
    assert (tmp_path / "holdings" / "1.1" / "record.json").exists()
    assert (tmp_path / "holdings" / "2.1" / "record.json").exists()
    monkeypatch.undo()
    assert list(Holdings(tmp_path / "holdings", owner).trees) == ["1.1"]


def test_a_holding_that_cannot_be_written_is_not_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Holdings(tmp_path / "holdings", Owner(tmp_path, "a"))
    monkeypatch.setattr("dq_client.node.agent.holdings.write_private", no_space)
    with pytest.raises(OSError, match="No space left"):
        held.make(HoldingRecord(1, 1, ranks=True))
    monkeypatch.undo()
    held.make(HoldingRecord(1, 1, ranks=True))


def test_a_rank_waits_with_what_its_job_depends_on(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its end, above all: a job that was resized has failed if the server never hears of it."""
    refusals = [NotNow("the disk is full")] * 3
    asked: list[m.RequestBody] = []

    class Line(ServerLink):
        def __init__(self) -> None:
            """Without a connection."""

        def _call(self, body: m.RequestBody, within_s: float) -> m.ReplyBody:
            asked.append(body)
            if refusals:
                raise refusals.pop()
            return m.Done()

    monkeypatch.setattr(server_link, "NOT_NOW_S", 0.0)
    Line().farewell(0)
    assert asked == [m.WorkDone()] * 4
    told = capfd.readouterr().err
    assert told == "dq: the server cannot take note of WorkDone yet: the disk is full\n"
