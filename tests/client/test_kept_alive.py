"""What keeps an agent on another machine alive may itself only be starting when that agent ends."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dq_client.base.home import Home, created_s, machine
from dq_client.deploy.ssh import remote_bootstrap
from dq_client.deploy.supervisor import Supervisor, WatchedAgent


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
