"""The agents of a contained cluster, each the first process of its node (run as a program).

    python -m dq_client.deploy.contained_nodes < a Fleet (node/fleet.py)

Each node: fork, leave the namespaces, fork again (only a child is in the new process namespace),
tell this program the number it has on the host, and wait until this program has laid the node's
link. Then set the namespaces up and be the node's agent.

With a network namespace alone, MPI notices that ranks share memory and uses it; so a node also has
its own /dev/shm, its own processes (the agent is number 1: when it dies the kernel ends every
process of the node at once) and its own name.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import socket
import sys
from dataclasses import dataclass

import msgspec

from dq_client.base.errors import DQError
from dq_client.base.home import Home
from dq_client.base.messages import NodeInfo
from dq_client.node import local_agents, supervision
from dq_client.node.agent.__main__ import Inside, serve
from dq_client.node.emulation import contained, network
from dq_client.node.emulation.enforcement import of_node
from dq_client.node.fleet import Fleet

NEW_MOUNTS = 0x00020000
NEW_NAME = 0x04000000
NEW_IPC = 0x08000000
NEW_PIDS = 0x20000000
NEW_NET = 0x40000000
PRIVATE, RECURSIVE, BIND = 1 << 18, 1 << 14, 1 << 12

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class WaitingNode:
    """A node that waits for its link: its first process, and the pipe that says go."""

    pid: int
    go: int


def main() -> int:
    """0 once every node has its link; 1, with a line, if one cannot be made."""
    home = Home.default()
    wanted = msgspec.json.decode(sys.stdin.buffer.read(), type=Fleet)
    net = network.EmulatedNetwork(contained.tag_of(home), wanted.rate_mbit)
    (home.log).mkdir(mode=0o700, exist_ok=True)
    waiting: list[WaitingNode] = []
    try:
        for index, (node,) in enumerate(wanted.agents.values()):
            waiting.append(_fork_node(home, wanted, net, index, node))
        contained.record(home, [first.pid for first in waiting])
        network.run_batch("ip", net.host_commands([first.pid for first in waiting]))
        shaped = [line for i in range(len(waiting)) for line in net.shaping(net.port(i))]
        network.run_batch("tc", shaped)
        for first in waiting:
            os.write(first.go, b"g")
    except OSError as e:
        print(f"contained nodes: {e}", file=sys.stderr)  # noqa: T201
        contained.remove(net.tag)
        return 1
    return 0


def start_again(home: Home, fleet: Fleet, name: str) -> int:
    """Start a node whose first process has died, in new namespaces; the pid of its agent.

    DQError if it cannot be made.
    """
    net, index = (
        network.EmulatedNetwork(contained.tag_of(home), fleet.rate_mbit),
        list(fleet.agents).index(name),
    )
    (node,) = fleet.agents[name]
    try:
        net.unlink(index)
        first = _fork_node(home, fleet, net, index, node)
        network.run_batch("ip", net.link_commands(index, first.pid))
        network.run_batch("tc", net.shaping(net.port(index)))
        others = [int(i["pid"]) for n, i in local_agents.running_agents(home).items() if n != name]
        contained.record(home, [*others, first.pid])
        os.write(first.go, b"g")
        os.close(first.go)
    except OSError as e:
        raise DQError(f"node {name} cannot be made again: {e}") from e
    return first.pid


def _fork_node(
    home: Home, wanted: Fleet, net: network.EmulatedNetwork, index: int, node: NodeInfo
) -> WaitingNode:
    """Start a node's first process; it waits for a byte from the pipe `go`."""
    told, tell = os.pipe()
    waits, go = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        try:
            unshare()
        except OSError as e:
            os.write(tell, f"!{e}".encode())
            os._exit(1)
        first = os.fork()  # unshare puts children, not the caller, into the new process namespace
        if first == 0:
            supervision.leave_behind(but=waits)
            os._exit(_run_node(home, wanted, net, index, node, waits))
        os.write(tell, str(first).encode())
        os._exit(0)
    os.close(tell)
    os.close(waits)
    said = os.read(told, 200).decode()
    os.close(told)
    os.waitpid(child, 0)  # the go-between; the node's first process lives on
    if said.startswith("!") or not said:
        raise OSError(f"node {node.name}: {said[1:] or 'it died while starting'}")
    return WaitingNode(int(said), go)


def _run_node(
    home: Home, wanted: Fleet, net: network.EmulatedNetwork, index: int, node: NodeInfo, waits: int
) -> int:
    """The node's first process: wait for the link, set up, serve."""
    with (home.log / f"agent-{node.name}.err").open("ab") as err:
        os.dup2(err.fileno(), 1)
        os.dup2(err.fileno(), 2)
    if os.read(waits, 1) != b"g":
        return 1
    try:
        server = json.loads(home.server_file.read_text())
        # The host's number of this process, as /proc still shows it.
        pid = int(os.readlink("/proc/self"))  # noqa: PTH115 - a number, not a path
        enter(node.name)
        network.run_batch("ip", net.node_commands(index, len(wanted.agents)))
        network.run_batch("tc", net.shaping(network.INTERFACE))
        by_network = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": network.INTERFACE}
        enforcement = of_node(home, node.name, wanted.groups, by_network)
        serve(home, node.name, [node], network.INTERFACE, enforcement, Inside(pid, server))
    except BaseException as e:
        logging.getLogger("dq.agent").exception("agent %s ends", node.name)
        print(f"dq agent: {e}", file=sys.stderr, flush=True)  # noqa: T201
        return 1
    return 0


# --- namespaces -------------------------------------------------------------------------------


def unshare() -> None:
    """Leave all five namespaces; children are in the new one of processes. OSError if not root."""
    _checked(_libc.unshare(NEW_MOUNTS | NEW_NAME | NEW_IPC | NEW_PIDS | NEW_NET), "unshare")


def enter(name: str) -> None:
    """In the first process of the new namespaces: own name, /proc, /dev/shm and /sys."""
    socket.sethostname(name)
    _mount("none", "/", None, PRIVATE | RECURSIVE)
    _mount("proc", "/proc", "proc", 0)
    _mount("tmpfs", "/dev/shm", "tmpfs", 0)  # noqa: S108 - mounted afresh, for this node alone
    # MPI looks for network interfaces in /sys, which shows those of the namespace it was mounted
    # from; the control groups below it must stay within reach.
    groups = os.open("/sys/fs/cgroup", os.O_PATH)
    _mount("sysfs", "/sys", "sysfs", 0)
    _mount(f"/proc/self/fd/{groups}", "/sys/fs/cgroup", None, BIND | RECURSIVE)
    os.close(groups)


def _mount(source: str, target: str, kind: str | None, flags: int) -> None:
    words = [source.encode(), target.encode(), None if kind is None else kind.encode()]
    _checked(_libc.mount(*words, flags, None), f"mount {target}")


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


if __name__ == "__main__":
    sys.exit(main())
