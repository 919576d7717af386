"""One network per contained cluster: a bridge, and for each node a shaped link to it.

Needs root. Every node has an interface eth0 in its own namespace; both ends of the link are token
buckets of the rate asked for, so a node neither sends nor receives faster. Neighbours are
permanent entries: 36 nodes would overflow the kernel's table of temporary ones.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

INTERFACE = "eth0"
TAG_LETTERS = 6
# Smaller buckets split packets and triple the time.
BURST_KB_FAST, LIMIT_KB_FAST = 128, 1000
BURST_KB_SLOW, LIMIT_KB_SLOW = 32, 400
SLOW_MBIT = 300.0


@dataclass(frozen=True, slots=True)
class EmulatedNetwork:
    """Names and addresses. `tag` is of at most 6 characters: names of interfaces are short."""

    tag: str
    rate_mbit: float | None

    @property
    def bridge(self) -> str:
        """Name of the bridge."""
        return f"dqb{self.tag}"

    def port(self, index: int) -> str:
        """Name of the node's end of the link at the bridge."""
        return f"dqv{self.tag}{index}"

    def address(self, index: int) -> str:
        """Address of the node, unique within the cluster's own network."""
        return f"10.213.{1 + index // 250}.{1 + index % 250}"

    def hardware(self, index: int) -> str:
        """Its Ethernet address."""
        return f"02:d9:00:00:{index // 256:02x}:{index % 256:02x}"

    def host_commands(self, pids: list[int]) -> list[str]:
        """`ip` commands on the host for nodes whose namespaces the processes `pids` are in."""
        lines = [f"link add {self.bridge} type bridge", f"link set {self.bridge} up"]
        return lines + [line for i, pid in enumerate(pids) for line in self.link_commands(i, pid)]

    def link_commands(self, index: int, pid: int) -> list[str]:
        """`ip` commands on the host for one of them."""
        port = self.port(index)
        peer = f"peer name {INTERFACE} address {self.hardware(index)} netns {pid}"
        return [f"link add {port} type veth {peer}", f"link set {port} master {self.bridge} up"]

    def unlink(self, index: int) -> None:
        """Remove a node's link, if the kernel has not yet: its namespace is gone."""
        words = ["ip", "link", "del", self.port(index)]
        subprocess.run(words, check=False, capture_output=True, timeout=10)

    def node_commands(self, index: int, count: int) -> list[str]:
        """`ip` commands inside a node."""
        lines = [
            "link set lo up",
            f"addr add {self.address(index)}/16 dev {INTERFACE}",
            f"link set {INTERFACE} up",
        ]
        return lines + [
            f"neigh add {self.address(i)} lladdr {self.hardware(i)} dev {INTERFACE} nud permanent"
            for i in range(count)
            if i != index
        ]

    def shaping(self, device: str) -> list[str]:
        """`tc` commands that give a device the link's rate; none without a rate."""
        if self.rate_mbit is None:
            return []
        fast = self.rate_mbit >= SLOW_MBIT
        burst = BURST_KB_FAST if fast else BURST_KB_SLOW
        limit = LIMIT_KB_FAST if fast else LIMIT_KB_SLOW
        rate = f"{round(self.rate_mbit * 1000)}kbit"
        return [f"qdisc add dev {device} root tbf rate {rate} burst {burst}kb limit {limit}kb"]

    def remove(self) -> None:
        """Remove bridge and links (of dying namespaces the kernel would do it, a moment later)."""
        for name in [n for n in _links() if n.startswith((self.bridge, f"dqv{self.tag}"))]:
            subprocess.run(
                ["ip", "link", "del", name], check=False, capture_output=True, timeout=10
            )


def run_batch(program: str, lines: list[str]) -> None:
    """`ip -batch` or `tc -batch`; OSError with what the program said."""
    if not lines:
        return
    done = subprocess.run(
        [program, "-batch", "-"],
        input="\n".join(lines) + "\n",
        text=True,
        capture_output=True,
        check=False,
        timeout=30,
    )
    if done.returncode != 0:
        raise OSError(f"{program}: {done.stderr.strip().splitlines()[0]}")


def clusters() -> set[str]:
    """Tags of contained clusters that have a bridge or a link on this machine.

    A link may outlive its node: the kernel keeps the namespace of a connection that was not closed.
    """
    return {name[3 : 3 + TAG_LETTERS] for name in _links() if name.startswith(("dqb", "dqv"))}


def _links() -> list[str]:
    done = subprocess.run(
        ["ip", "-o", "link"], capture_output=True, text=True, check=False, timeout=10
    )
    names = [line.split(":")[1].strip() for line in done.stdout.splitlines() if ":" in line]
    return [name.partition("@")[0] for name in names]
