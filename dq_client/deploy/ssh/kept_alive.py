"""Keeps one agent alive on the machine on which ssh has started it.

Started there once the server knows the agent (remote_bootstrap.py), so it needs no ssh, and a line
that is cut does not matter. It goes by the agent's file, like the supervisor of a local cluster,
whose code it uses: an agent that ends in order removes its file, and this ends, too. A new agent
finds the keys that the last one has kept, and its keepers and ranks.

It has an understudy, a fork of itself that takes its place if it is killed, with or without the
agent, and that it forks again if that is killed. Its own file says that it is to be there: who ends
it removes the file first.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
from dataclasses import dataclass

import psutil

from dq_client.base import opened, versions
from dq_client.base.home import Home, created_s, is_alive, machine, write_private
from dq_client.base.process import rename
from dq_client.base.text_files import object_of
from dq_client.deploy.supervisor import Supervisor, WatchedAgent
from dq_client.node.supervision import leave_behind

FILE = "kept-alive.json"  # in the agent's folder
ENDS_WITHIN_S = 5.0


def begin(home: Home, name: str, words: list[str]) -> None:
    """Start it in the background, for the agent that `dq WORDS` is."""
    with os.fdopen(opened.open_log(home.log / f"agent-{name}.err"), "ab") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "dq_client.deploy.ssh.kept_alive", name, *words],
            env={**os.environ, "DQ_HOME": str(home.root)},
            stdin=subprocess.DEVNULL,
            stdout=err,
            stderr=err,
            cwd="/",
            start_new_session=True,
        )
    # Not by itself, because until it has started nobody could find and end it.
    _note(home, name, process.pid)


def _note(home: Home, name: str, pid: int) -> None:
    me = {"pid": pid, "create_time": created_s(pid), "machine": machine()}
    write_private(home.agent(name) / FILE, json.dumps(me))


def end(home: Home, name: str) -> None:
    """End it, so that the agent stays ended; the agent lives on."""
    try:
        said = object_of(home.agent(name) / FILE)
        if said["machine"] != machine() or not is_alive(said["pid"], said["create_time"]):
            return
        process = psutil.Process(said["pid"])
        (home.agent(name) / FILE).unlink()
    except (OSError, ValueError, KeyError, psutil.Error):
        return
    with contextlib.suppress(psutil.Error):
        process.kill()
        process.wait(ENDS_WITHIN_S)


def start(home: Home, name: str, words: list[str]) -> int:
    """The agent once more; its pid."""
    with os.fdopen(opened.open_log(home.log / f"agent-{name}.err"), "ab") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "dq_client.cli.main", *words],
            stdin=subprocess.DEVNULL, stdout=err, stderr=err, cwd="/", start_new_session=True,
        )  # fmt: skip
    # Whoever looks for it meanwhile finds it, and if it ends before it says so itself, its end
    # counts as one that was not in order.
    me = {"pid": process.pid, "create_time": created_s(process.pid), "name": name}
    me |= versions.noted()
    write_private(home.agent(name) / "agent.json", json.dumps(me | {"machine": machine()}))
    return process.pid


@dataclass(slots=True)
class Understudy:
    """The process that takes this one's place if it is killed."""

    home: Home
    name: str
    words: list[str]
    pidfd: int = -1
    _pid: int = 0

    def look(self) -> None:
        """Fork it if it is not there."""
        if self.pidfd >= 0:
            return
        mine = os.getpid()
        leader = os.pidfd_open(mine)
        self._pid = os.fork()
        if self._pid == 0:
            code = 1
            try:
                leave_behind(leader)
                code = self._stand_by(leader, mine)
            finally:  # it must not go on where the process was that it was forked from
                os._exit(code)
        os.close(leader)
        self.pidfd = os.pidfd_open(self._pid)

    def ended(self) -> None:
        """It was killed."""
        os.close(self.pidfd)
        self.pidfd = -1
        os.waitpid(self._pid, 0)

    def _stand_by(self, leader: int, pid: int) -> int:
        """Wait for the end of process `pid`, and take its place if its file is still there."""
        select.select([leader], [], [])
        os.close(leader)
        try:
            if object_of(self.home.agent(self.name) / FILE)["pid"] != pid:
                return 0
        except (OSError, ValueError, KeyError):
            return 0
        _note(self.home, self.name, os.getpid())
        return watch(self.home, self.name, self.words)


def main() -> int:
    """Watch until the agent has left in order."""
    home, (name, *words) = Home.default(), sys.argv[1:]
    rename(["dq-supervisor", name])
    return watch(home, name, words)


def watch(home: Home, name: str, words: list[str]) -> int:
    """Start the agent that `dq WORDS` is again, until it has left in order; the exit code."""
    wakes, wake = socket.socketpair()
    supervisor = Supervisor(
        home,
        lambda _: start(home, name, words),
        {name: WatchedAgent()},
        wake,
        begins=False,  # it may have left in order while this program started
        has_server=lambda: True,
        partner=Understudy(home, name, words),
    )
    supervisor.run_until_told(wakes)
    (home.agent(name) / FILE).unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
