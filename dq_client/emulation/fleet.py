"""The agents of a contained cluster, each the first process of its node (run as a program).

    python -m dq_client.emulation.fleet < {"nodes": [...], "groups": folder, "rate_mbit": 1000.0}

Each node: fork, leave the namespaces, fork again (only a child is in the new process namespace),
tell this program the number it has on the host, and wait until this program has laid the node's
link. Then settle in and be the node's agent.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dq_client.agent.__main__ import Inside, serve
from dq_client.emulation import cgroups, contained, namespaces, network
from dq_client.emulation.slowed import NAP, Slowed
from dq_client.home import Home
from dq_client.messages import NodeInfo


class Wanted(msgspec.Struct):
    """What the program reads."""

    nodes: list[NodeInfo]
    groups: str
    rate_mbit: float | None = None


@dataclass(frozen=True, slots=True)
class Birth:
    """A node that waits for its link: its first process, and the pipe that says go."""

    pid: int
    go: int


def main() -> int:
    """0 once every node has its link; 1, with a line, if one cannot be made."""
    home = Home.default()
    wanted = msgspec.json.decode(sys.stdin.buffer.read(), type=Wanted)
    net = network.Network(contained.tag_of(home), wanted.rate_mbit)
    (home.log).mkdir(mode=0o700, exist_ok=True)
    births: list[Birth] = []
    try:
        for index, node in enumerate(wanted.nodes):
            births.append(_bear(home, wanted, net, index, node))
        contained.record(home, [birth.pid for birth in births])
        network.run_batch("ip", net.host_commands([birth.pid for birth in births]))
        shaped = [line for i in range(len(births)) for line in net.shaping(net.port(i))]
        network.run_batch("tc", shaped)
        for birth in births:
            os.write(birth.go, b"g")
    except OSError as e:
        print(f"contained nodes: {e}", file=sys.stderr)  # noqa: T201
        contained.remove(net.tag)
        return 1
    return 0


def _bear(home: Home, wanted: Wanted, net: network.Network, index: int, node: NodeInfo) -> Birth:
    """Start a node's first process; it waits for a byte from the pipe `go`."""
    told, tell = os.pipe()
    waits, go = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        try:
            namespaces.unshare()
        except OSError as e:
            os.write(tell, f"!{e}".encode())
            os._exit(1)
        first = os.fork()
        if first == 0:
            os.close(go)
            os._exit(_live(home, wanted, net, index, node, waits))
        os.write(tell, str(first).encode())
        os._exit(0)
    os.close(tell)
    os.close(waits)
    said = os.read(told, 200).decode()
    os.close(told)
    os.waitpid(child, 0)
    if said.startswith("!") or not said:
        raise OSError(f"node {node.name}: {said[1:] or 'it died while starting'}")
    return Birth(int(said), go)


def _live(
    home: Home, wanted: Wanted, net: network.Network, index: int, node: NodeInfo, waits: int
) -> int:
    """The node's first process: wait for the link, settle in, serve."""
    with (home.log / f"agent-{node.name}.err").open("wb") as err:
        os.dup2(err.fileno(), 1)
        os.dup2(err.fileno(), 2)
    if os.read(waits, 1) != b"g":
        return 1
    try:
        server = json.loads(home.server_file.read_text())
        # The host's number of this process, as /proc still shows it.
        pid = int(os.readlink("/proc/self"))  # noqa: PTH115 - a number, not a path
        namespaces.settle(node.name)
        network.run_batch("ip", net.node_commands(index, len(wanted.nodes)))
        network.run_batch("tc", net.shaping(network.INTERFACE))
        environment = {
            cgroups.JOIN_VARIABLE: wanted.groups,
            **NAP,
            "UCX_TLS": "tcp,self",
            "UCX_NET_DEVICES": network.INTERFACE,
        }
        group = Path(wanted.groups) / node.name
        slowed = Slowed(environment, lambda: cgroups.enclose(group))
        serve(home, node.name, [node], network.INTERFACE, slowed, Inside(pid, server))
    except BaseException as e:
        logging.getLogger("dq.agent").exception("agent %s ends", node.name)
        print(f"dq agent: {e}", file=sys.stderr, flush=True)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
