"""An agent as a program: `python -m dq_client.node.agent`.

People use `dq agent start` or `dq up`.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import psutil

from dq_client.base import credentials as kept
from dq_client.base import network, opened, versions
from dq_client.base.address import is_remote
from dq_client.base.connection import Connection
from dq_client.base.credentials import Credentials
from dq_client.base.errors import DQError, NoServer, UsageError
from dq_client.base.home import Home, created_s, machine, write_private
from dq_client.base.launch import raise_open_file_limit
from dq_client.base.messages import NodeInfo
from dq_client.base.process import SITE_SIGNALS, become_subreaper, rename
from dq_client.node.agent.build import make_agent
from dq_client.node.agent.notice import Notice
from dq_client.node.emulation.enforcement import NodeEnforcement, of_node
from dq_client.node.fleet import Fleet

log = logging.getLogger("dq.agent")


def main(argv: list[str] | None = None) -> int:
    """Exit code as for `dq` (docs/commands.md)."""
    parser = argparse.ArgumentParser(prog="python -m dq_client.node.agent", description=__doc__)
    parser.add_argument("--name", help="one agent, of this name")
    parser.add_argument("--nodes", help="JSON list of node descriptions")
    parser.add_argument("--fleet", action="store_true", help="several, from standard input")
    parser.add_argument("--interface", default="")
    parser.add_argument("--leave-within", type=float, help="seconds; default: the server's")
    options = parser.parse_args(argv)
    if options.fleet:
        return start_fleet(sys.stdin.buffer.read())
    if options.name is None or options.nodes is None:
        parser.error("--name and --nodes are needed, or --fleet")
    return one(options)


def one(options: argparse.Namespace) -> int:
    """Run the agent described on the command line."""
    try:
        nodes = msgspec.json.decode(options.nodes, type=list[NodeInfo])
        within_s = options.leave_within
        serve(Home.default(), options.name, nodes, options.interface, leave_within_s=within_s)
    except msgspec.DecodeError as e:
        print(f"dq agent: --nodes: {e}", file=sys.stderr)  # noqa: T201
        return 2
    except DQError as e:
        logging.getLogger("dq.agent").error("%s", e)  # noqa: TRY400
        print(f"dq agent: {e}", file=sys.stderr)  # noqa: T201
        return e.exit_code
    return 0


def start_fleet(described: bytes) -> int:
    """Fork one agent per entry of a Fleet and leave them to themselves.

    A Python start takes a good part of a second of processor time, a fork some milliseconds: what
    36 emulated nodes need to come up on two cores.
    """
    home = Home.default()
    wanted = msgspec.json.decode(described, type=Fleet)
    for name in wanted.agents:
        if os.fork() == 0:
            os.setsid()
            os._exit(run_in_fleet(home, name, wanted))
    return 0


def run_in_fleet(home: Home, name: str, fleet: Fleet) -> int:
    """Be an agent of the fleet, in a process of its own; its exit code."""
    home.log.mkdir(mode=0o700, exist_ok=True)
    err = opened.open_log(home.log / f"agent-{name}.err")
    os.dup2(err, 1)
    os.dup2(err, 2)
    os.close(err)
    try:
        slowed = None if fleet.slowed is None else of_node(home, name, fleet.slowed)
        alone = len(fleet.agents) == 1
        serve(home, name, fleet.agents[name], fleet.interface, slowed, alone=alone)
    except BaseException as e:
        logging.getLogger("dq.agent").exception("agent %s ends", name)
        print(f"dq agent: {e}", file=sys.stderr, flush=True)  # noqa: T201
        return e.exit_code if isinstance(e, DQError) else 1
    return 0


@dataclass(frozen=True, slots=True)
class Inside:
    """An agent in namespaces of its own: what it cannot find out."""

    pid: int  # its number on the host
    server: dict[str, Any]  # the server's file: its process cannot be seen from here


def serve(
    home: Home,
    name: str,
    nodes: list[NodeInfo],
    interface: str,
    slowed: NodeEnforcement | None = None,
    inside: Inside | None = None,
    given: Credentials | None = None,
    leave_within_s: float | None = None,
    notices: Mapping[int, float] | None = None,
    *,
    alone: bool = True,
) -> None:
    """Run one agent until it is retired.

    SIGTERM and SIGINT: it goes once the jobs have left its nodes, `leave_within_s` later at the
    latest (None: as the server's file says); a second one, or SIGQUIT: at once. `notices`: on a
    borrowed node, what its batch system's signals mean (notice.py).

    `interface`: as in the cluster file; empty: what that says, else the one that leads to the
    server. `given`: what it is to report with; else that is found in the home. `alone`: no other
    agent stands for this machine, as emulated nodes do together.
    """
    home.create()
    home.log.mkdir(mode=0o700, exist_ok=True)
    logging.basicConfig(
        stream=os.fdopen(opened.open_log(home.log / f"agent-{name}.log"), "a", encoding="utf-8"),
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
    )
    folder = home.agent(name)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if opened.lock(folder / "lock") is None:  # it stays open
        raise UsageError(f"agent {name} is running already")
    become_subreaper()
    rename(["dq-agent", name])
    raise_open_file_limit()
    me = psutil.Process()
    pid = me.pid if inside is None else inside.pid
    # On a shared file system the pids of other machines stand beside ours.
    where = machine() if inside is None else str(inside.server.get("machine", ""))
    info = {"pid": pid, "create_time": created_s(me.pid), "name": name, "machine": where}
    info |= versions.noted()
    write_private(folder / "agent.json", json.dumps(info))
    found = given or _credentials(home, name, inside)
    if given is not None:
        kept.keep(home, name, given)
    if leave_within_s is None:
        leave_within_s = found.leave_within_s
    write_private(folder / "agent.json", json.dumps(info | {"leave_within_s": leave_within_s}))
    interface, environment = _on_network(found, interface)
    wake, wakes = socket.socketpair()
    for end in (wake, wakes):
        end.setblocking(False)
    agent = make_agent(
        home,
        name,
        nodes,
        lambda address: Connection(address, found.server_public, found.pair()),
        found.address,
        interface=interface,
        environment=environment | (slowed.environment if slowed is not None else {}),
        wake=wake,
        heartbeat_s=found.heartbeat_s,
        notice=Notice(leave_within_s, notices or {}),
        each_beat=slowed.each_beat if slowed is not None else lambda: None,
        alone=alone,
    )
    for number in SITE_SIGNALS if notices else ():
        signal.signal(number, signal.SIG_IGN)
    for told in notices or (signal.SIGTERM, signal.SIGINT):
        signal.signal(told, lambda received, _: agent.leave(received))
    signal.signal(signal.SIGQUIT, lambda *_: setattr(agent, "retired", True))
    signal.signal(signal.SIGCHLD, lambda *_: None)  # only to be told of it through the socket
    signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    # The file stays if the agent fails otherwise: its supervisor starts it again (supervisor.py).
    # An error that was said would only be said again.
    try:
        agent.run()
    except DQError:
        (folder / "agent.json").unlink(missing_ok=True)
        raise
    (folder / "agent.json").unlink(missing_ok=True)
    if agent.dismissed:
        kept.forget(home, name)


def _credentials(
    home: Home, name: str, inside: Inside | None, patience_s: float = 10.0
) -> Credentials:
    """For the server of this home; it may be starting at this very moment."""
    if inside is not None:
        return kept.of_server(home, inside.server)
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return kept.of_agent(home, name)
        except NoServer:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _on_network(found: Credentials, wanted: str) -> tuple[str, dict[str, str]]:
    """The interface that the nodes share, and what the ranks here are told about it."""
    if wanted == network.LOOPBACK or not (wanted or is_remote(found.address)):
        return network.LOOPBACK, {}
    place = network.find(wanted or found.network.interface, network.ip_of(found.address))
    if place.address.is_loopback:  # a cluster of hosts that are all this machine
        return network.LOOPBACK, {}
    log.info("interface %s, address %s", place.interface, place.address)
    return place.interface, network.rank_settings(found.network, place)


if __name__ == "__main__":
    sys.exit(main())
