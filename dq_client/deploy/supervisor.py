"""Keeps the agents of a home on this machine alive: `python -m dq_client.deploy.supervisor`.

`dq up` starts it for local and emulated clusters. It starts the agents that the home's record names
(fleet.py) and are not there, and watches all of them, also those that an earlier supervisor has
started. Whether an agent may go is said by its file: one that ends in order removes it, so a file
whose process is gone is of an agent that was killed or has failed, and that is started again. The
new one finds the keepers and ranks of the old one (holdings.py).

It starts the server again, too, if that is killed (server_watch.py), and the server starts the
supervisor again (dq_server/live/supervised.py), with ``--again``: agents that have left in order
stay away. `dq down` ends the supervisor first, and then what it would start.

SIGTERM ends the supervisor alone. It ends by itself once every agent has left in order. No agent is
started while the home has no server: there would be nobody to report to.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from dq_client.base.errors import DQError, NoServer
from dq_client.base.home import Home
from dq_client.base.process import rename
from dq_client.deploy import local
from dq_client.deploy.server_watch import ServerWatch
from dq_client.node import local_agents, supervision
from dq_client.node.agent.__main__ import run_in_fleet
from dq_client.node.fleet import Fleet, noted

LIVED_S = 1.0  # an agent that ends sooner is started again later and later
PAUSE_S, PAUSE_S_MAX = 0.1, 2.0
LOOK_S = 0.05  # for the server, while agents wait for it


@dataclass(slots=True)
class WatchedAgent:
    """One agent: its process now, or when it is to be started."""

    pid: int = 0
    pidfd: int = -1  # readable once it has ended, whosever child it is
    began_s: float = 0.0
    quick_ends: int = 0
    due_s: float = 0.0


class Partner(Protocol):
    """Another process that is watched."""

    pidfd: int  # readable once it has ended; -1: none is watched

    def look(self) -> float | None:
        """Start it if it was killed; seconds until the next look, None: it is watched."""

    def ended(self) -> None:
        """It has ended."""


@dataclass(slots=True)
class Supervisor:
    """The agents of one home. `start` starts one by its name and returns its pid."""

    home: Home
    start: Callable[[str], int]
    agents: dict[str, WatchedAgent]
    wake: socket.socket
    stopped: bool = False
    begins: bool = True  # agents are started that were not there before, too
    has_server: Callable[[], bool] | None = None  # whether agents can be of use; None: see the home
    partner: Partner | None = None  # what this process starts again, and is started again by

    def run(self) -> None:
        """Watch until told to stop, or until no agent is to be there any more."""
        for name, pid in running(self.home).items():
            if name in self.agents:
                self._watch(name, pid)
        if not self.begins:
            gone = [name for name, agent in self.agents.items() if agent.pidfd < 0]
            for name in gone:
                if not self._has_file(name):
                    del self.agents[name]
        while self.agents and not self.stopped:
            waits = [self._start_due(), None if self.partner is None else self.partner.look()]
            wait_s = min((each for each in waits if each is not None), default=None)
            partner = -1 if self.partner is None else self.partner.pidfd
            by_fd = {a.pidfd: name for name, a in self.agents.items() if a.pidfd >= 0}
            poll = select.poll()
            for fd in (self.wake.fileno(), *by_fd, *([partner] if partner >= 0 else [])):
                poll.register(fd, select.POLLIN)
            for fd, _ in poll.poll(None if wait_s is None else 1000 * wait_s):
                if fd in by_fd:
                    self._ended(by_fd[fd])
                elif self.partner is not None and fd == partner:
                    self.partner.ended()
                else:
                    self.wake.recv(4096)

    def run_until_told(self, wakes: socket.socket) -> None:
        """`run`, and end on SIGTERM and SIGINT. `wakes`: the other end of `wake`."""
        for end in (self.wake, wakes):
            end.setblocking(False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: setattr(self, "stopped", True))
        signal.signal(signal.SIGCHLD, lambda *_: None)  # a child that could not start is collected
        signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
        self.run()

    def _start_due(self) -> float | None:
        """Start who is due; seconds until the next one is, None if nobody waits."""
        missing = [(a.due_s, name) for name, a in self.agents.items() if a.pidfd < 0]
        if not missing:
            return None
        now = time.monotonic()
        due = [name for due_s, name in missing if due_s <= now]
        if due and not (self.has_server or self._home_has_server)():
            return LOOK_S
        for name in due:
            try:
                self._watch(name, self.start(name))
            except DQError as e:
                say(str(e))
                self.agents[name].due_s = now + PAUSE_S_MAX
        later = [due_s - now for due_s, name in missing if due_s > now]
        return min(later) + 0.001 if later else None

    def _home_has_server(self) -> bool:
        try:
            self.home.server()
        except NoServer:
            return False
        return True

    def _watch(self, name: str, pid: int) -> None:
        agent = self.agents[name]
        agent.pid, agent.began_s = pid, time.monotonic()
        try:
            agent.pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            self._restart(name, agent)

    def _ended(self, name: str) -> None:
        agent = self.agents[name]
        os.close(agent.pidfd)
        agent.pidfd = -1
        killed = False
        with contextlib.suppress(ChildProcessError):  # adopted: the kernel has its exit code
            killed = os.WIFSIGNALED(os.waitpid(agent.pid, 0)[1])
        if killed or self._has_file(name):
            self._restart(name, agent)
        else:
            say(f"agent {name} has left")
            del self.agents[name]

    def _has_file(self, name: str) -> bool:
        """Who ends in order removes it."""
        return (self.home.agent(name) / "agent.json").exists()

    def _restart(self, name: str, agent: WatchedAgent) -> None:
        now = time.monotonic()
        agent.quick_ends = agent.quick_ends + 1 if now - agent.began_s < LIVED_S else 0
        pause_s = PAUSE_S * 2 ** (agent.quick_ends - 1) if agent.quick_ends else 0.0
        agent.due_s = now + min(pause_s, PAUSE_S_MAX)
        say(f"agent {name} (pid {agent.pid}) was killed or has failed: started again")


def say(line: str) -> None:
    """To the log: agents configure theirs after the fork, and would find this one configured."""
    with contextlib.suppress(OSError):  # of a full disk
        print(time.strftime("%F %T"), line, file=sys.stderr, flush=True)  # noqa: T201


def running(home: Home) -> dict[str, int]:
    """Pids of the home's agents on this machine, by name."""
    return {name: int(info["pid"]) for name, info in local_agents.running_agents(home).items()}


def fork_agent(home: Home, fleet: Fleet, name: str) -> int:
    """Start one agent by a fork: some milliseconds, where a Python start takes some hundred."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setsid()
            supervision.leave_behind()
            code = run_in_fleet(home, name, fleet)
        finally:  # whatever happens it must not go on as a second supervisor
            os._exit(code)
    return pid


def starter_of(home: Home, fleet: Fleet) -> Callable[[str], int]:
    """What starts an agent of this fleet by its name."""
    if not fleet.in_namespaces:
        return lambda name: fork_agent(home, fleet, name)
    from dq_client.deploy import contained_nodes as contained_fleet

    return lambda name: contained_fleet.start_again(home, fleet, name)


def main() -> int:
    """Exit code as for `dq`."""
    home = Home.default()
    lock = supervision.lock(home)
    if lock is None:
        say("a supervisor is running already")
        return 1
    fleet = noted(home)
    if fleet is None:
        say(f"{home.root} has no agents to look after: dq up starts some")
        return 1
    wakes, wake = socket.socketpair()
    agents = {name: WatchedAgent() for name in fleet.agents}
    begins = "--again" not in sys.argv[1:]
    server = ServerWatch(home, local.start_server_again, say)
    supervisor = Supervisor(
        home, starter_of(home, fleet), agents, wake, begins=begins, partner=server
    )
    rename(["dq-supervisor"])
    supervision.write(home)
    try:
        supervisor.run_until_told(wakes)
    finally:
        (home.root / supervision.FILE).unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
