"""What can be read after `dq down`, or when the server was killed."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path

import pytest

from harness.live import Live

pytestmark = pytest.mark.live

SHOWN: tuple[tuple[str, ...], ...] = (
    ("job", "1", "--json"),
    ("why", "1", "--json"),
    ("logs", "1"),
    ("reservations", "--json"),
    ("quotas", "--json"),
)


def kept(said: str) -> str:
    """But for how a job's usage went over time, which the server has in memory only."""
    return re.sub(r'"history": \[\[[^"]*\]\]', '"history": []', said)


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    """All files, each with its size and the time of its last change."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


def test_everything_can_be_read_after_the_cluster_is_down(live: Live, tmp_path: Path) -> None:
    live.up(2)
    live.dq("submit", "-n", 2, "--wait", "--", sys.executable, "-c", "print('hello')")
    live.dq("submit", "-n", 2, "--", "sleep", "100")
    live.dq("submit", "-n", 2, "--name", "waits", "--", "true")
    before = {words: live.dq(*words) for words in SHOWN}
    live.dq("down", "--force")
    files = listing(live.home.root)
    for words in SHOWN:
        done = live.run(*words)
        assert done.returncode == 0, done.stderr
        assert "no server is running: as it was at " in done.stderr
        assert kept(done.stdout) == kept(before[words]), (done.stdout, before[words])
    for words in (("jobs",), ("job", "last"), ("why", "last"), ("pool",)):
        assert live.run(*words).returncode == (5 if words == ("pool",) else 0)
    found = json.loads(live.dq("jobs", "--json"))["jobs"]
    assert [job["state"] for job in found] == ["done", "killed", "queued"]
    states = [node["state"] for node in json.loads(live.dq("nodes", "--json"))["nodes"]]
    assert set(states) <= {"lost", "left"}
    page = tmp_path / "report.html"
    live.dq("report", "-o", page)
    assert "waits" in page.read_text()
    assert listing(live.home.root) == files, "something in the home has changed"
    assert not list(Path(tempfile.gettempdir()).glob("dq-reader-*"))
    for command in (("submit", "--", "true"), ("kill", "3"), ("watch",)):
        assert live.run(*command).returncode == 3
    live.up(2)  # it goes on from there
    assert live.wait_end(3)["state"] == "done"


def test_a_server_that_was_killed_is_no_obstacle(live: Live) -> None:
    live.up(1)
    live.dq("submit", "--", "sleep", "100")
    live.kill_server()
    found = json.loads(live.dq("jobs", "--json"))["jobs"]
    assert [job["id"] for job in found] == [1]


def test_without_a_journal_there_is_nothing_to_read(live: Live) -> None:
    done = live.run("jobs")
    assert (done.returncode, done.stdout) == (3, "")
    assert "no server is running" in done.stderr


def test_a_damaged_journal_is_said_to_be_damaged(live: Live) -> None:
    live.home.create()
    live.home.journal.write_bytes(b"no database at all" * 100)
    done = live.run("jobs")
    assert done.returncode == 1
    assert "journal cannot be shown" in done.stderr
    assert len(done.stderr.splitlines()) == 1
