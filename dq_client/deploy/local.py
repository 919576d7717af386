"""Starting and stopping the parts of a cluster on this machine: the server and its agents."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import psutil

from dq_client.base import messages as m
from dq_client.base import opened, process_tree, storage
from dq_client.base.connection import Connection, ask
from dq_client.base.errors import DQError, NoServer, Timeout, UsageError
from dq_client.base.hardware import shared_out
from dq_client.base.home import Home, is_alive
from dq_client.deploy.cluster import ClusterShape
from dq_client.node import supervision
from dq_client.node.local_agents import running_agents

if TYPE_CHECKING:
    from dq_client.node.fleet import Fleet

PATIENCE_S = 20.0


def wait_until(what: Callable[[], bool], patience_s: float, otherwise: str) -> None:
    """Poll until `what` is true; Timeout with the text `otherwise` when patience ends."""
    deadline = time.monotonic() + patience_s
    while not what():
        if time.monotonic() > deadline:
            raise Timeout(otherwise)
        time.sleep(0.02)


def start_server(home: Home, options: list[str], *, any_will_do: bool = False) -> dict[str, object]:
    """Start the server in the background; returns its server file once it serves.

    `any_will_do`: also one that the supervisor starts meanwhile.
    """
    home.create()
    process = start_server_again(home, options)

    def ready() -> bool:
        try:
            if home.server()["pid"] == process.pid or any_will_do:
                return True
        except NoServer:
            pass
        other = any_will_do and supervision.pid_of(home) is not None
        if process.poll() is not None and not other:  # its end would be reported as a time-out
            raise last_words(home, "server", process.returncode)
        return False

    try:
        wait_until(ready, PATIENCE_S, f"the server did not start in {PATIENCE_S:g} s")
    except BaseException:  # also Ctrl-C: a server that comes up later would belong to nobody
        process.terminate()
        raise
    return home.server()


def stop_server(home: Home) -> None:
    """Stop the server alone; agents and jobs go on."""
    info = home.server()
    os.kill(info["pid"], signal.SIGTERM)
    wait_until(
        lambda: not is_alive(info["pid"], info["create_time"]), 10.0, "the server does not stop"
    )


def start_agent(
    home: Home,
    name: str,
    nodes: list[m.NodeInfo],
    interface: str = "",
    leave_within_s: float | None = None,
) -> int:
    """Start one agent in the background; returns its pid (it may not have reported yet).

    `interface`: as for an agent's `serve`.
    """
    described = msgspec.json.encode(nodes).decode()
    words = ["-m", "dq_client.node.agent", "--name", name, "--nodes", described]
    if leave_within_s is not None:
        words += ["--leave-within", str(leave_within_s)]
    process = start(home, f"agent-{name}", [*words, "--interface", interface])
    return process.pid


def start_agents(home: Home, fleet: Fleet) -> None:
    """Start many agents in the background, all forked from one process that ends at once."""
    words = ["dq_client.node.agent", "--fleet"]
    if fleet.in_namespaces:
        words = ["dq_client.deploy.contained_nodes"]
    process = start(home, "fleet", ["-m", *words], stdin=subprocess.PIPE)
    process.communicate(msgspec.json.encode(fleet), timeout=PATIENCE_S)
    if process.returncode != 0:
        raise last_words(home, "fleet", process.returncode)


def start(
    home: Home, what: str, words: list[str], stdin: int = subprocess.DEVNULL
) -> subprocess.Popen[bytes]:
    """Start a part of this cluster in the background; what it writes is in log/WHAT.err."""
    if why := storage.fault(home.root):  # what it has to say of that could not be written either
        raise DQError(why)
    home.log.mkdir(mode=0o700, exist_ok=True)
    with os.fdopen(opened.open_log(home.log / f"{what}.err", fresh=True), "wb") as err:
        return subprocess.Popen(
            [sys.executable, *words],
            env={**os.environ, "DQ_HOME": str(home.root)},
            stdin=stdin,
            stdout=err,
            stderr=err,
            cwd="/",  # it must not keep a file system from being unmounted
            start_new_session=True,  # the terminal's Ctrl-C is for the command, not for the cluster
        )


def last_words(home: Home, what: str, code: int) -> DQError:
    """The error of a part that ended while starting: the last line that it wrote."""
    try:
        lines = opened.read_text(home.log / f"{what}.err").strip().splitlines()
    except OSError:
        lines = []
    text = lines[-1] if lines else f"it ended with exit code {code}"
    text = text.removeprefix(f"dq {what}: ")
    return UsageError(text) if code == UsageError.exit_code else DQError(f"{what}: {text}")


def make_fleet(home: Home, cluster: ClusterShape, mechanism: str) -> Fleet:
    """What the cluster's agents are started from; the kernel's part of the emulation is made."""
    from dq_client.node.fleet import Fleet

    if mechanism != "contained":
        return Fleet(cluster.agents(), name=cluster.name)
    # Each node is limited by the kernel, not by the library.
    from dq_client.node.emulation import contained

    cores = {n.name: n.processors * (n.core_share or 1.0) for n in cluster.nodes}
    nodes = [msgspec.structs.replace(n, core_share=None) for n in cluster.nodes]
    fleet = Fleet({n.name: [n] for n in nodes}, name=cluster.name)
    contained.record(home, [])
    groups = contained.make_groups(home, cores)
    if os.geteuid() != 0:  # no namespaces: the library shapes the links
        fleet.slowed = groups
        return fleet
    rate = cluster.link.rate_mbit if cluster.link is not None else None
    for name, (node,) in fleet.agents.items():
        fleet.agents[name] = [msgspec.structs.replace(node, link_mbit=None, link_latency_us=None)]
    return msgspec.structs.replace(fleet, groups=groups, rate_mbit=rate)


def start_supervisor(home: Home) -> None:
    """Start what starts the agents of the home's record, and starts them again if they die."""
    process = start(home, "supervisor", ["-m", "dq_client.deploy.supervisor"])

    def ready() -> bool:
        if supervision.pid_of(home) is not None:  # or one that the server has started
            return True
        if process.poll() is not None and not supervision.is_locked(home):
            raise last_words(home, "supervisor", process.returncode)
        return False

    wait_until(ready, PATIENCE_S, f"the agents' supervisor did not start in {PATIENCE_S:g} s")


def start_server_again(home: Home, options: list[str]) -> subprocess.Popen[bytes]:
    """Start the server in place of one that was killed, and do not wait for it."""
    return start(home, "server", ["-m", "dq_server.live", *options])


def start_again(home: Home) -> subprocess.Popen[bytes]:
    """Start the supervisor in place of one that was killed; agents that have left stay away."""
    return start(home, "supervisor", ["-m", "dq_client.deploy.supervisor", "--again"])


def bring_up(
    home: Home,
    cluster: ClusterShape,
    server_options: list[str],
    mechanism: str = "none",
    *,
    keep_alive: bool = False,
) -> dict[str, object]:
    """Server and agents; returns once every node has reported.

    Nodes that join for the first time are numbered in the cluster's order.
    `mechanism`: how emulated nodes are slowed (emulation.mechanism).
    `keep_alive`: with a supervisor, which starts agents again that are killed.
    """
    cluster = replace(cluster, nodes=tuple(shared_out(cluster.nodes)))
    if mechanism == "contained":
        from dq_client.node.emulation import contained

        home.create()
        contained.remove_of(home)
        os.close(opened.open_log(home.root / "contained"))
        server_options = [*server_options, "--address", contained.server_address(home)]
    if len(cluster.agents()) > 1:  # they race; one agent tells of its nodes in order
        server_options = [*server_options, f"--expected={','.join(n.name for n in cluster.nodes)}"]
    info = start_server(home, server_options)
    try:
        fleet = make_fleet(home, cluster, mechanism)
        fleet.options, fleet.mechanism = server_options, mechanism
        _start_fleet(home, fleet, keep_alive=keep_alive)
        if mechanism == "contained":
            contained.record(home, [int(info["pid"]) for info in running_agents(home).values()])
    except BaseException:
        _tear_down(home)
        raise
    return info


def _start_fleet(home: Home, fleet: Fleet, *, keep_alive: bool) -> None:
    """Start all agents; returns once every node has reported."""
    from dq_client.node.fleet import note

    if keep_alive:
        note(home, fleet)
    if fleet.in_namespaces or not keep_alive:
        start_agents(home, fleet)
    else:
        start_supervisor(home)
    wait_for_nodes(home, {node.name for nodes in fleet.agents.values() for node in nodes})
    if keep_alive and fleet.in_namespaces:  # not before: it would miss those that are starting
        start_supervisor(home)


def _tear_down(home: Home) -> None:
    """End what was started here, also if it does not answer: no job runs yet."""
    supervision.end(home)
    with contextlib.suppress(NoServer):
        process_tree.end(home.server()["pid"], signal.SIGQUIT, 5.0)
    with contextlib.suppress(Timeout):
        stop_agents(home, at_once=True)
    forget_fleet(home)


def forget_fleet(home: Home) -> None:
    """Remove what was kept of a cluster of this machine that is down, outside its processes."""
    if (home.root / "contained").exists():
        from dq_client.node.emulation import contained

        contained.remove_of(home)
        (home.root / "contained").unlink()
    with contextlib.suppress(OSError):  # a disk that fails: dq up finds the record and mends
        (home.root / supervision.RECORD).unlink()


def wait_for_nodes(home: Home, names: set[str]) -> None:
    """Until the server has all of these nodes; Timeout otherwise."""
    with contextlib.closing(Connection.to(home)) as connection:
        late = "not every node reported: see the agents' logs"
        wait_until(lambda: names <= nodes_up(connection), PATIENCE_S, late)


def nodes_up(connection: Connection) -> set[str]:
    """Names of the nodes that are up."""
    return {n["name"] for n in ask(connection, m.NodesQuery()) if n["state"] == "up"}


def stop_agents(home: Home, names: list[str] | None = None, *, at_once: bool = False) -> list[str]:
    """End agents of this machine; returns their names.

    They wait for their jobs to leave, for as long as they were told when they started; `at_once`:
    the processes of their jobs end with them. Timeout if one does not end.
    """
    chosen = {n: i for n, i in running_agents(home).items() if names is None or n in names}
    processes, patience_s = {}, PATIENCE_S
    for name, info in chosen.items():
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(int(info["pid"]))
            process.send_signal(signal.SIGQUIT if at_once else signal.SIGTERM)
            processes[process] = name
            if not at_once:
                patience_s = max(patience_s, info.get("leave_within_s", 0.0) + PATIENCE_S)
    _, alive = psutil.wait_procs(processes, timeout=patience_s)
    if alive:
        raise Timeout(f"agent {processes[alive[0]]} (pid {alive[0].pid}) does not end")
    return list(chosen)


def leftovers(home: Home) -> list[int]:
    """Processes of this machine that belong to this home: server, agents, jobs' processes."""
    # By the environment, which every descendant inherits: also processes that called setsid and
    # those whose keeper was killed.
    return [pid for pid in process_tree.commands(home.root) if pid != os.getpid()]
