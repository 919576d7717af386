"""A standby beside a real server and a real agent, by its commands (docs/standby.md).

What happens to whole machines: tests/lab/test_lost_servers.py; everything else: tests/dst.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.commands import CommandLine

pytestmark = pytest.mark.live


class Two:
    """A server's home and a standby's."""

    def __init__(self, root: Path) -> None:
        self.a, self.b = root / "a", root / "b"
        self.told = root / "told"

    def dq(self, home: Path, *words: str, code: int = 0) -> str:
        done = CommandLine(home).run(*words)
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def up(self) -> None:
        self.dq(self.a, "up", "--local", "2", "--detach", "--heartbeat", "0.5")
        self.told.touch(mode=0o600)
        self.told.write_text(self.dq(self.a, "server", "credentials"))

    def follow(self, *words: str) -> None:
        self.dq(self.b, "server", "standby", "--credentials", str(self.told), "--detach", *words)

    def status(self, home: Path) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.dq(home, "server", "status", "--json"))
        return found

    def serves(self, home: Path) -> bool:
        return CommandLine(home).run("jobs").returncode == 0 and (home / "server.json").exists()

    def kill(self, what: Path) -> None:
        """The process that this file names; with a server what would start it again."""
        supervisor = what.with_name("supervisor.json")
        if what.name == "server.json" and supervisor.exists():
            os.kill(json.loads(supervisor.read_text())["pid"], signal.SIGKILL)
        os.kill(json.loads(what.read_text())["pid"], signal.SIGKILL)

    def down(self) -> None:
        for home in (self.a, self.b):
            CommandLine(home).run("down", "--force")
            if (home / "standby-runs.json").exists():
                with suppress(ProcessLookupError):
                    self.kill(home / "standby-runs.json")


def until(what: Callable[[], bool], why: str, within_s: float = 40.0) -> None:
    deadline = time.monotonic() + within_s
    while not what():
        assert time.monotonic() < deadline, why
        time.sleep(0.1)


def part_of_a_core(pid: int) -> float:
    """What a process that has little to do takes of a core."""
    process, seconds = psutil.Process(pid), 2.0
    before = process.cpu_times()
    time.sleep(seconds)
    after = process.cpu_times()
    return (after.user - before.user + after.system - before.system) / seconds


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    made = Two(tmp_path)
    made.up()
    yield made
    made.down()


def test_a_server_that_is_killed_has_its_place_taken(two: Two) -> None:
    two.follow()
    assert two.status(two.a)["standby"]["follows"] is True
    two.dq(two.a, "submit", "-n", "1", "--", "sleep", "3")  # runs on meanwhile
    two.dq(two.a, "submit", "-n", "2", "--kind", "rigid", "--", "true")  # waits
    two.kill(two.a / "server.json")
    until(lambda: two.serves(two.b), "the standby does not take over")
    assert two.status(two.b)["epoch"] == 1000
    two.dq(two.b, "submit", "--wait", "--", "true")
    jobs = json.loads(two.dq(two.b, "jobs", "--json"))["jobs"]
    assert [job["state"] for job in jobs] == ["done"] * 3
    # Its machine is back, and it finds out that it is the server no more.
    two.dq(two.a, "server", "start", "--detach")
    log = two.a / "log" / "server.log"
    until(lambda: "is the server now" in log.read_text(), "two servers")
    assert json.loads(two.dq(two.b, "jobs", "--json"))["jobs"] == jobs
    agent = next((two.a / "agents").iterdir())
    pid = json.loads((agent / "agent.json").read_text())["pid"]
    assert part_of_a_core(pid) < 0.2, "the agent waits for nothing in a loop"
    os.kill(pid, signal.SIGTERM)


def test_a_server_that_is_stopped_on_purpose_keeps_its_place(two: Two) -> None:
    two.follow()
    two.dq(two.a, "server", "stop")
    time.sleep(3.0)  # agents count it as lost after 0.9 s, at this heartbeat
    assert not two.serves(two.b)
    assert "is a standby's" in two.dq(two.b, "server", "status", code=3)
    two.dq(two.a, "server", "start", "--detach", "--heartbeat", "0.5")
    until(lambda: two.status(two.a)["standby"]["follows"], "the standby does not follow")
    two.dq(two.a, "submit", "--wait", "--", "true")
    two.dq(two.a, "down")
    runs = two.b / "standby-runs.json"
    until(lambda: not runs.exists(), "the standby of a cluster that is down does not end")


def test_with_sync_no_job_is_acknowledged_without_a_second_copy(two: Two) -> None:
    two.follow("--sync", "--name", "other")
    two.dq(two.a, "submit", "--wait", "--", "true")
    two.kill(two.b / "standby-runs.json")
    said = two.dq(two.a, "submit", "--", "true", code=4)
    # It depends on what the server notices first: the job, or that the standby is gone.
    alone = "job 2 is taken in, and this server alone has it: the standby other does not follow"
    assert alone in said or "is taken in only if it would survive" in said
    assert "is taken in only if it would survive" in two.dq(two.a, "submit", "--", "true", code=4)
    assert "other at tcp://127.0.0.1" in two.dq(two.a, "server", "status")
    two.dq(two.b, "server", "standby", "--detach")  # as before: it needs no more to be told
    two.dq(two.a, "submit", "--wait", "--", "true")
    two.kill(two.b / "standby-runs.json")
    two.dq(two.a, "server", "forget")
    two.dq(two.a, "submit", "--wait", "--", "true")
    assert two.status(two.a)["standby"] is None
    assert "has no standby" in two.dq(two.a, "server", "forget", code=5)


def test_what_cannot_be_a_standby_says_why(two: Two, tmp_path: Path) -> None:
    needs = two.dq(two.b, "server", "standby", code=2)
    assert "--credentials is needed: dq server credentials prints them" in needs
    told = str(two.told)
    own = two.dq(two.a, "server", "standby", "--credentials", told, code=2)
    assert "has a journal of its own" in own
    open_to_all = tmp_path / "open"
    open_to_all.write_text("{}")
    said = two.dq(two.b, "server", "standby", "--credentials", str(open_to_all), code=2)
    assert "open to others" in said
    exposed = ["--credentials", told, "--address", "tcp://10.1.2.3:4567"]
    if os.geteuid() == 0:
        assert "--yes-as-root" in two.dq(two.b, "server", "standby", *exposed, code=2)
    assert "there is no copy to take over" in two.dq(
        two.b, "server", "standby", "--take-over", code=2
    )
    two.follow()
    again = two.dq(two.b, "server", "standby", "--detach", code=2)
    assert "a standby runs in" in again
    two.kill(two.b / "standby-runs.json")
    assert "is a standby's: dq server standby goes on" in two.dq(
        two.b, "server", "start", "--detach", code=2
    )


def test_a_standby_takes_over_if_it_is_told_to(two: Two) -> None:
    """Without agents nobody can agree to it."""
    two.follow()
    two.dq(two.a, "submit", "--hold", "--", "true")
    two.kill(two.b / "standby-runs.json")
    agent = next((two.a / "agents").iterdir())
    two.kill(two.a / "server.json")
    os.kill(json.loads((agent / "agent.json").read_text())["pid"], signal.SIGTERM)
    two.dq(two.b, "server", "standby", "--take-over")
    jobs = json.loads(two.dq(two.b, "jobs", "--json"))["jobs"]
    assert [job["state"] for job in jobs] == ["held"]
