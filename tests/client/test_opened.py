"""Output files in folders where others may write: nothing else is written, read or waited for."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dq_client.base.home import Home
from dq_client.base.opened import NOWHERE, open_output
from dq_client.node.agent import handover
from dq_client.node.ranks.output import File
from dq_server.live.agents.kept_output import KeptOutput
from tests.client.strange_files import REPLACED, VICTIM

APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND
FLIPS = 1000


@pytest.fixture
def folder() -> Iterator[Path]:
    """With a short name: sockets need one."""
    with tempfile.TemporaryDirectory(prefix="dq-") as found:
        yield Path(found)


@pytest.mark.parametrize("what", REPLACED)
def test_what_is_no_regular_file_is_neither_written_nor_read(folder: Path, what: str) -> None:
    REPLACED[what](folder / "named")
    path = folder / "out"
    path.symlink_to(folder / "named")
    for flags in (APPEND, os.O_RDONLY):
        with pytest.raises(OSError):
            os.close(open_output(path, flags))
    file = File(str(path))
    file.write(b"lost")
    file.close()
    assert file.lost_bytes == 4
    assert file.why
    victim = folder / "victim"
    assert not victim.exists() or victim.read_text() == VICTIM


def test_a_file_of_somebody_else_is_not_written_to(folder: Path) -> None:
    path = folder / "out"
    path.touch()
    if os.geteuid():
        pytest.skip("needs root, to give a file away")
    os.chown(path, 65534, 65534)
    with pytest.raises(OSError, match="belongs to somebody else"):
        open_output(path, APPEND)


def test_a_file_and_a_link_to_one_are_opened(folder: Path) -> None:
    (folder / "out").symlink_to(folder / "named")
    os.close(open_output(folder / "out", APPEND))
    assert (folder / "named").stat().st_mode & 0o777 == 0o600
    (folder / "nowhere").symlink_to(NOWHERE)
    os.close(open_output(folder / "nowhere", APPEND))


def test_a_link_that_is_flipped_into_the_path_is_never_followed(folder: Path) -> None:
    path, victim, file, link = (folder / name for name in ("named", "victim", "a", "b"))
    (folder / "out").symlink_to(path)
    victim.write_text(VICTIM)
    stop = threading.Event()

    def flip() -> None:
        while not stop.is_set():
            file.touch()
            file.rename(path)
            link.symlink_to(victim)
            link.rename(path)

    thread = threading.Thread(target=flip)
    thread.start()
    try:
        for _ in range(FLIPS):
            try:
                fd = open_output(folder / "out", APPEND)
            except OSError:
                continue
            os.write(fd, b"output")
            os.close(fd)
    finally:
        stop.set()
        thread.join()
    assert victim.read_text() == VICTIM


@pytest.mark.parametrize("what", REPLACED)
def test_the_server_and_an_agent_that_leaves_wait_for_nothing(folder: Path, what: str) -> None:
    home = Home(folder / "home")
    job = home.job(1)
    job.mkdir(parents=True)
    home.agent("local").mkdir(parents=True)
    REPLACED[what](folder / "named")
    (job / "out").symlink_to(folder / "named")
    piece = KeptOutput(home).read(1, "local", "out", 0)
    assert piece is not None
    assert (piece.data, piece.end) == (b"", True)
    assert all(found.data == b"" for found in handover.pieces(home, "local"))
