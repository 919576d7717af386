"""The end of a cluster's parts on this machine: in order, or by force.

In order the server is asked, and refuses while jobs run. By force nothing is asked of it: pids from
the home's files and from /proc (`parts`) are enough, so a server that hangs, keys that are gone or
a damaged note are no obstacle. Either way a cluster is down only if nothing of it is left.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Collection
from typing import Any

import psutil

from dq_client.base import messages as m
from dq_client.base import process_tree
from dq_client.base.connection import Connection
from dq_client.base.errors import DQError, NoServer, NotNow, Refused, Timeout
from dq_client.base.home import Home, is_alive, machine
from dq_client.base.text_files import object_of
from dq_client.deploy import local, sidecars
from dq_client.node import local_agents, supervision

RETIRES_WITHIN_S = 3.0  # an agent that was told to
# How the processes of a cluster name themselves (base/process.py, rename), but for ranks; and what
# is executed for them: until it has begun it has no other name.
SUPERVISOR, SERVER, AGENT = "dq-supervisor", "dq-server", "dq-agent"
NAMES = (SUPERVISOR, SERVER, AGENT, "dq-starter", "dq-keeper", "dq-web", "dq-hooks")
MODULES = {
    "dq_client.deploy.supervisor": SUPERVISOR,
    "dq_client.deploy.ssh.kept_alive": SUPERVISOR,
    "dq_server.live": SERVER,
    "dq_client.node.agent": AGENT,
    "dq_client.show.web.process": "dq-web",
    "dq_client.show.hooks.process": "dq-hooks",
}


def bring_down(home: Home, *, force: bool) -> None:
    """Stop the server and its agents; their jobs, too, with `force` (else they refuse).

    DQError names what could not be ended; nothing of the home runs any more otherwise.
    """
    if force and not _is_elsewhere(home):
        _end_by_force(home)
        return
    try:
        _end_in_order(home, force=force)
    except NoServer:
        if left := process_tree.of_home(home.root):
            raise Refused(
                f"no server and no agent runs, but {len(left)} processes of jobs do: dq up finds"
                " them again, dq down --force ends them"
            ) from None
        if not _end_rest(home):
            raise
    except (NotNow, Timeout):  # of a server on another machine, which only it can end
        if not force:
            raise
        _end_by_force(home)
    else:
        _end_rest(home)


def parts(home: Home) -> dict[int, str]:
    """All processes of the home's cluster on this machine, but for its jobs' ranks: pid -> name."""
    lines = process_tree.commands(home.root)
    found = {pid: name for pid, words in lines.items() if (name := _name(words))}
    found |= {int(info["pid"]): AGENT for info in local_agents.running_agents(home).values()}
    if (supervisor := supervision.pid_of(home)) is not None:
        found[supervisor] = SUPERVISOR
    for kind in sidecars.KINDS:
        if (info := sidecars.running(home, kind)) is not None:
            found[int(info["pid"])] = f"dq-{kind}"
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        info = object_of(home.server_file)
        here = info.get("machine", machine()) == machine()
        if here and is_alive(int(info["pid"]), info["create_time"]):
            found[int(info["pid"])] = SERVER
    found.pop(os.getpid(), None)
    return found


def _name(words: list[str]) -> str:
    """Which part of a cluster has this command line; empty: none."""
    if words[0] in NAMES:
        return words[0]
    return MODULES.get(words[2], "") if words[1:2] == ["-m"] and len(words) > 2 else ""


def _is_elsewhere(home: Home) -> bool:
    """Whether the server runs on another machine: this one's pids say nothing of it."""
    with contextlib.suppress(OSError, ValueError):
        return bool(object_of(home.server_file).get("machine", machine()) != machine())
    return False


def _end_by_force(home: Home) -> None:
    """End everything, asking nobody. NoServer if nothing is there."""
    found = parts(home)
    if not found and not process_tree.of_home(home.root):
        local.forget_fleet(home)
        raise NoServer(f"no server is running in {home.root}: start one with dq up")
    supervision.end(home)
    _end_all(lambda: [pid for pid, name in parts(home).items() if name == SUPERVISOR])
    # A server that can notes the end of its jobs, and has all agents end them, also those of other
    # machines.
    server = [pid for pid, name in found.items() if name == SERVER]
    _tell(server, signal.SIGQUIT, local.PATIENCE_S)
    agents = [pid for pid, name in parts(home).items() if name == AGENT]
    _tell(agents, signal.SIGQUIT, RETIRES_WITHIN_S)
    _end_rest(home)


def _tell(pids: list[int], number: int, within_s: float) -> None:
    """Signal processes and wait for their end; not for those that are stopped."""
    running = [pid for pid in pids if not process_tree.is_stopped(pid)]
    process_tree.kill(running, number)
    deadline = time.monotonic() + within_s
    while any(process_tree.exists(pid) and not process_tree.is_stopped(pid) for pid in running):
        if time.monotonic() > deadline:
            return
        time.sleep(0.02)


def _end_all(there: Callable[[], Collection[int]]) -> Collection[int]:
    """Kill until nothing is there; what cannot be ended in time."""
    deadline = time.monotonic() + local.PATIENCE_S
    while (
        left := [pid for pid in there() if process_tree.exists(pid)]
    ) and time.monotonic() < deadline:
        process_tree.kill(left)
        time.sleep(0.01)
    return left


def _end_rest(home: Home) -> bool:
    """End what is there without server and agents; whether there was anything.

    Keepers outlive agents that were killed, and a server may have been started again while its
    cluster went down. DQError names what does not end.
    """
    supervision.end(home)

    def there() -> set[int]:
        return {*process_tree.of_home(home.root), *_running(home)}

    found = bool(there())
    left = _end_all(there)
    _clear_memory(home)
    local.forget_fleet(home)
    if left:
        raise DQError(f"the cluster is not down: this cannot be ended: {_named(left)}")
    return found


def _clear_memory(home: Home) -> None:
    """Save what is left in memory of copies, and remove what MPI has left there."""
    from dq_client.node.agent import copies, holdings

    holdings.clear_memory(home)
    for error in copies.clear(home):
        sys.stderr.write(f"dq: {error}\n")


def _running(home: Home) -> list[int]:
    """What runs the cluster: not what only looks at it, which ends by itself."""
    looks = {f"dq-{kind}" for kind in sidecars.KINDS}
    return [pid for pid, name in parts(home).items() if name not in looks]


def _named(pids: Collection[int]) -> str:
    words = []
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            words.append(f"process {pid} ({process.name()}, {process.status()})")
    return ", ".join(words)


def _end_in_order(home: Home, *, force: bool) -> None:
    pids = [
        (int(info["pid"]), info["create_time"])
        for info in local_agents.running_agents(home).values()
    ]
    try:
        info = _server(home)
    except NoServer:
        supervision.end(home)
        local.stop_agents(home, at_once=True)
        if not pids:
            raise
        return
    with contextlib.closing(Connection.to(home)) as connection:
        connection.call(m.Stop(force), timeout_s=10.0)
    supervision.end(home)  # not before: the cluster stays if the server refuses
    # The server's reply says that it will go down; the agents go when it tells them to retire.
    server = info["pid"], info["create_time"]
    late = "the cluster did not go down in time: see the logs, or dq down --force"
    local.wait_until(lambda: not is_alive(*server), local.PATIENCE_S, late)
    gone = lambda: not any(is_alive(*p) for p in pids)  # noqa: E731
    with contextlib.suppress(Timeout):
        local.wait_until(gone, RETIRES_WITHIN_S, late)
    # One that had not reported to this server yet, or comes back just now: nobody is left to tell
    # it, and the server has ended because no job runs.
    local.stop_agents(home, at_once=True)
    local.wait_until(gone, local.PATIENCE_S, late)


def _server(home: Home) -> dict[str, Any]:
    """The server's file; one that was killed just now is waited for, if it will be back."""
    deadline = time.monotonic() + local.PATIENCE_S
    while True:
        try:
            return home.server()
        except NoServer:
            if not supervision.restores_server(home) or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
