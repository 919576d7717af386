"""What keeps agents alive may itself only be starting when an agent ends, or be killed, too."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dq_client.base.home import Home, created_s, machine
from dq_client.deploy import local
from dq_client.deploy.ssh import remote_bootstrap
from dq_client.deploy.supervisor import Supervisor, WatchedAgent
from dq_client.node import supervision
from dq_server.live.supervised import Supervised


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home with the folder of an agent named beta, and of nobody else."""
    made = Home(tmp_path)
    made.create()
    made.agent("beta").mkdir(parents=True)
    return made


def killed() -> dict[str, object]:
    """What an agent that was killed has left of itself."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    said = {"pid": process.pid, "create_time": created_s(process.pid), "machine": machine()}
    process.kill()
    process.wait()
    return said | {"name": "beta"}


def keeps(home: Home, start: Callable[[str], int]) -> Supervisor:
    wake, _ = socket.socketpair()
    return Supervisor(
        home, start, {"beta": WatchedAgent()}, wake, begins=False, has_server=lambda: True
    )


def test_an_agent_that_has_left_before_is_not_started(home: Home) -> None:
    def start(name: str) -> int:
        raise AssertionError(f"{name} is started")

    keeps(home, start).run()


def test_one_that_was_killed_before_is(home: Home) -> None:
    file = home.agent("beta") / "agent.json"
    file.write_text(json.dumps(killed()))
    started = []

    def start(name: str) -> int:
        file.unlink()  # it ends in order
        started.append(name)
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        return pid

    keeps(home, start).run()
    assert started == ["beta"]


def test_one_that_is_ended_from_afar_stays_ended(home: Home) -> None:
    file = home.agent("beta") / "agent.json"
    file.write_text(json.dumps(killed()))
    remote_bootstrap.end(home, "beta")
    assert not file.exists()


class Supervisors:
    """Those that a server starts; a test lets them come up, fail and be killed."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.killed, self.count, self.fail = False, 0, False
        patch.setattr(supervision, "was_killed", lambda _: self.killed)
        patch.setattr(local, "start_again", self._start)

    def _start(self, _: Home) -> Any:
        self.count += 1
        return SimpleNamespace(poll=lambda: 1 if self.fail else None)


def test_a_supervisor_that_is_killed_is_started_again_at_once_however_often(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, looks = Supervisors(monkeypatch), Supervised(home)
    assert not looks.look(100.0)
    for count, now in enumerate((101.0, 103.0, 105.0), 1):
        there.killed = True
        assert looks.look(now), "agents wait for it"
        there.fail = False
        assert looks.look(now + 0.5) and there.count == count, "it is starting"
        there.killed = False
        assert not looks.look(now + 1.0)
        there.fail = True


def test_a_server_that_starts_waits_for_the_supervisor_of_who_starts_it(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, looks = Supervisors(monkeypatch), Supervised(home)
    there.killed = True
    assert not looks.look(100.0) and not looks.look(104.9)
    assert looks.look(105.5) and there.count == 1


def test_a_supervisor_that_cannot_start_excuses_agents_for_a_while_only(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, looks = Supervisors(monkeypatch), Supervised(home)
    looks.look(100.0)
    there.killed = there.fail = True
    excused = [looks.look(101.0 + n) for n in range(21)]
    assert excused == 10 * [True] + 11 * [False]
    assert there.count == 5, "it is tried every 5 s"
