"""An agent is made of its parts."""

from __future__ import annotations

import socket
from collections.abc import Callable

from dq_client.base import messages as m
from dq_client.base import process_tree
from dq_client.base.connection import Connection
from dq_client.base.home import Home, machine
from dq_client.node.agent.agent import Agent
from dq_client.node.agent.allegiance import allegiance_of
from dq_client.node.agent.applications import Applications, Launcher
from dq_client.node.agent.background import BackgroundMeter, sees_all
from dq_client.node.agent.beats import phase_of
from dq_client.node.agent.context import Context
from dq_client.node.agent.copies import NOTES, CopyKeeper
from dq_client.node.agent.handover import Handover
from dq_client.node.agent.holdings import Holdings
from dq_client.node.agent.marks import Ranks
from dq_client.node.agent.notice import Notice
from dq_client.node.agent.own_ranks import OwnRanks
from dq_client.node.agent.proxies import Proxies
from dq_client.node.agent.rsh_socket import RshSocket
from dq_client.node.agent.vacancies import Vacancies
from dq_client.node.mpiexec.command import install_rsh


def make_agent(
    home: Home,
    name: str,
    nodes: list[m.NodeInfo],
    connect: Callable[[str], Connection],
    address: str,
    *,
    interface: str = "lo",
    environment: dict[str, str] | None = None,
    wake: socket.socket | None = None,
    heartbeat_s: float = 2.0,
    notice: Notice | None = None,
    each_beat: Callable[[], object] = lambda: None,
    alone: bool = False,
) -> Agent:
    """An agent with its parts, its folder and its socket for dq-rsh.

    `connect` makes a connection to a server; `address`: where it is said to be. `environment` is
    set for every rank that it starts; `each_beat` is called with each heartbeat. `alone`:
    this machine is one node, whose background load can be measured.
    """
    notice = notice or Notice()
    folder = home.agent(name)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Nodes that are slowed from outside (control groups) cannot slow ranks that
    # were started elsewhere: a job would seem to run on nodes that are faster than they are.
    adopts = "" if environment else machine()
    environment = {**(environment or {}), "DQ_SERVER_FILE": str(folder / "server")}
    owner = process_tree.Owner(home.root, name)
    allegiance = allegiance_of(folder, address, connect, heartbeat_s)
    context = Context(
        home=home,
        owner=owner,
        connection=connect(allegiance.kept.server),
        holdings=Holdings(folder / "holdings", owner),
        borrowed=notice.borrowed,
    )
    hosts = {node.host for node in nodes}
    rsh = RshSocket(folder)
    launcher = Launcher(
        rsh=install_rsh(folder),
        rsh_socket=rsh.path,
        interface=interface,
        environment=environment,
    )
    copies = CopyKeeper(home, hosts, folder / NOTES, context.troubles.tell)
    ranks = Ranks(context)
    proxies = Proxies(context, ranks, hosts, rsh)
    names = [node.name for node in nodes]
    own = OwnRanks(context, names, interface=interface, environment=environment)
    return Agent(
        nodes=nodes,
        context=context,
        applications=Applications(context, launcher, proxies, ranks, own),
        vacancies=Vacancies(context, copies, own),
        proxies=proxies,
        ranks=ranks,
        own=own,
        copies=copies,
        handover=Handover(home, names[0] if names else name, context.send, context.clock),
        allegiance=allegiance,
        rsh=rsh,
        wake=wake,
        heartbeat_s=heartbeat_s,
        phase=phase_of(name),
        notice=notice,
        each_beat=each_beat,
        background=BackgroundMeter(home) if alone and sees_all() else None,
        machine=adopts,
    )
