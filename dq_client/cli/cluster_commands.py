"""Commands that start and stop a cluster: up, down, server, agent."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import click
import psutil

from dq_client import bringup
from dq_client import messages as m
from dq_client.cli.output import note, print_json, table
from dq_client.cli.requests import ask, json_option
from dq_client.cli.requests import server as connected
from dq_client.cli.values import parse_time, require_above_zero
from dq_client.cluster import Cluster, local_cluster, read_cluster, require_name, usable_cores
from dq_client.emulation.mechanism import choose, require_fit
from dq_client.errors import NoServer, NotFound, Refused, UsageError
from dq_client.examples import cluster_file
from dq_client.home import Home, is_alive

HEARTBEAT_S_MAX = 3600.0


def cluster_of(file: str | None, local: int | None) -> Cluster:
    """The cluster that --cluster or --local names; this machine's cores otherwise."""
    if file is not None and local is not None:
        raise UsageError("give either --cluster or --local")
    if file is not None:
        return read_cluster(cluster_file(file))
    return local_cluster(usable_cores() if local is None else local)


def server_options(
    address: str | None, config: str | None, heartbeat: float | None, launcher: str | None = None
) -> list[str]:
    """Command-line options for the server process."""
    options: list[str] = []
    if address is not None:
        options += ["--address", address]
    if config is not None:
        options += ["--config", str(Path(config).absolute())]
    if heartbeat is not None:
        require_above_zero("--heartbeat", heartbeat, HEARTBEAT_S_MAX)
        options += ["--heartbeat", str(heartbeat)]
    if launcher is not None:
        options += ["--launcher", launcher]
    return options


def _common(command: Any) -> Any:
    for option in (
        click.option("--address", help="Where the server listens, as tcp://127.0.0.1:5555."),
        click.option("--config", help="Configuration file of the scheduler (TOML)."),
        click.option("--heartbeat", type=float, help="Seconds between the agents' heartbeats."),
        click.option(
            "--launcher",
            type=click.Choice(["dq", "mpiexec"]),
            help="Who starts the ranks of jobs; overrides the configuration file.  [default: dq]",
        ),
    ):
        command = option(command)
    return command


@click.command()
@click.option("--cluster", "file", help="Cluster file, or the name of one of ours (hostfiles/).")
@click.option("--local", type=int, help="This machine as N processors.")
@click.option(
    "--fidelity", type=click.Choice(["paced", "contained", "governor", "auto"]), default="paced",
    help="How emulated nodes are slowed (docs/emulation.md).",
)  # fmt: skip
@click.option("--detach", is_flag=True, help="Return once the cluster is up.")
@_common
@json_option
def up(
    file: str | None,
    local: int | None,
    fidelity: str,
    detach: bool,
    as_json: bool,
    address: str | None,
    config: str | None,
    heartbeat: float | None,
    launcher: str | None,
) -> None:
    """Start server and agents; without --detach, stop them again at Ctrl-C."""
    home = Home.default()
    cluster = cluster_of(file, local)
    if cluster.engine == "hosts":
        raise UsageError(
            f"{file}: the agents of a host list are started on their hosts:"
            " dq server start --address tcp://ADDRESS:PORT, then dq agent start on each"
        )
    require_fit(cluster)
    mechanism = choose(cluster, fidelity)
    options = server_options(address, config, heartbeat, launcher)
    note(f"starting {cluster.name}: {cluster.processors} processors on {len(cluster.nodes)} nodes")
    if mechanism.words:
        note(mechanism.words)
    info = bringup.bring_up(home, cluster, options, mechanism.name)
    if as_json:
        print_json(
            server={"pid": info["pid"], "address": info["address"]},
            nodes=len(cluster.nodes),
            processors=cluster.processors,
            mechanism=mechanism.name,
        )
    note(f"the cluster is up (server {info['pid']} at {info['address']})")
    if not detach:
        _until_interrupted(home)


def _until_interrupted(home: Home) -> None:
    note("Ctrl-C stops it")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        while True:
            time.sleep(0.5)
            home.server()
    except KeyboardInterrupt:
        note("stopping")
        bringup.bring_down(home, force=True)
    except NoServer:
        note("the cluster was stopped")


@click.command()
@click.option("--force", is_flag=True, help="Kill running jobs first.")
def down(force: bool) -> None:
    """Stop the cluster; refused while jobs run, unless --force."""
    bringup.bring_down(Home.default(), force=force)
    note("the cluster is down")


@click.group()
def server() -> None:
    """The server alone. Agents and jobs go on without it and connect to the next one."""


@server.command("start")
@click.option("--detach", is_flag=True, help="Return once it serves.")
@_common
@json_option
def server_start(
    detach: bool,
    as_json: bool,
    address: str | None,
    config: str | None,
    heartbeat: float | None,
    launcher: str | None,
) -> None:
    """Start the server; without --detach, stop it at Ctrl-C."""
    home = Home.default()
    info = bringup.start_server(home, server_options(address, config, heartbeat, launcher))
    if as_json:
        print_json(server={"pid": info["pid"], "address": info["address"]})
    note(f"the server {info['pid']} listens at {info['address']}")
    if not detach:
        try:
            while is_alive(int(str(info["pid"]))):
                time.sleep(0.2)
        except KeyboardInterrupt:
            _stop_server(home)


@server.command("stop")
def server_stop() -> None:
    """Stop the server; jobs go on."""
    _stop_server(Home.default())
    note("the server is stopped; jobs and agents go on: dq server start brings it back")


def _stop_server(home: Home) -> None:
    info = home.server()
    os.kill(info["pid"], signal.SIGTERM)
    bringup.wait_until(
        lambda: not is_alive(info["pid"], info["create_time"]), 10.0, "the server does not stop"
    )


@server.command("status")
@json_option
def server_status(as_json: bool) -> None:
    """Show the server."""
    info = Home.default().server()
    with connected() as connection:
        status = ask(connection, m.StatusQuery())
    if as_json:
        print_json(pid=info["pid"], **status)
        return
    print(f"pid:        {info['pid']}")
    for key in ("address", "version", "epoch", "launcher", "growth", "processors", "idle"):
        print(f"{key + ':':12}{status[key]}")
    counts = ", ".join(f"{n} {state}" for state, n in status["jobs"].items() if n)
    print(f"jobs:       {counts or 'none'}")


@click.group()
def agent() -> None:
    """Node agents of this machine: each offers it as a node and runs the ranks of jobs there."""


@agent.command("start")
@click.option("--node", help="Name of the node (default: this machine's host name).")
@click.option(
    "--processors", type=click.IntRange(1, m.NODE_PROCESSORS_MAX),
    help="Processors it offers (default: usable cores).",
)  # fmt: skip
@click.option("--speed", type=float, default=1.0, help="Speed relative to the other nodes.")
@click.option("--interface", default="lo", help="Network interface shared with other nodes.")
@click.option(
    "--leave-within",
    help="How long it waits for jobs to leave when it is stopped: 90s, 10m."
    "  [default: the server's, 30s]",
)
def agent_start(
    node: str | None,
    processors: int | None,
    speed: float,
    interface: str,
    leave_within: str | None,
) -> None:
    """Start an agent that offers this machine as a node."""
    home = Home.default()
    home.server()
    name = require_name(node or os.uname().nodename)
    require_above_zero("--speed", speed, m.NODE_SPEED_MAX)
    if interface not in psutil.net_if_addrs():
        known = " ".join(sorted(psutil.net_if_addrs()))
        raise UsageError(f"--interface {interface}: this machine has {known}")
    if name in bringup.running_agents(home):
        raise Refused(f"agent {name} is running already")
    info = m.NodeInfo(name, usable_cores() if processors is None else processors, name, speed)
    within_s = None if leave_within is None else parse_time("--leave-within", leave_within)
    pid = bringup.start_agent(home, name, [info], interface, within_s)
    bringup.wait_until(
        lambda: name in bringup.running_agents(home) or not psutil.pid_exists(pid),
        10.0,
        f"agent {name} did not start",
    )
    note(f"agent {name} runs (pid {pid})")


@agent.command("stop")
@click.argument("names", nargs=-1)
@click.option("--now", "at_once", is_flag=True, help="With the processes of their jobs.")
def agent_stop(names: tuple[str, ...], at_once: bool) -> None:
    """Stop agents of this machine (all, or those named), once their jobs have left.

    What has not left in time (dq agent start --leave-within) ends with the agent.
    """
    home = Home.default()
    if missing := set(names) - bringup.running_agents(home).keys():
        raise NotFound(f"no agent {min(missing)} runs here: dq agent status lists those that do")
    if not at_once:
        note("jobs may leave first; dq agent stop --now does not wait for that")
    stopped = bringup.stop_agents(home, list(names) or None, at_once=at_once)
    note(f"stopped: {' '.join(stopped) or 'none was running'}")


@agent.command("status")
@json_option
def agent_status(as_json: bool) -> None:
    """Show agents of this machine."""
    found = bringup.running_agents(Home.default())
    if as_json:
        print_json(agents={name: {"pid": info["pid"]} for name, info in found.items()})
        return
    print(table(("AGENT", "PID"), [(name, int(info["pid"])) for name, info in found.items()]))
